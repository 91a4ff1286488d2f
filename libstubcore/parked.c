/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * parked.c - may names still come while all but links is parked?
 *
 * An inode with several links waits for its names until no more can come (links.c).  That is so
 * when every directory is listed.  A parked file does not bring names; a parked directory may, and
 * so may what is parked before it is known what it is.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "internal.h"

#define LOOK_AT 256 /* entries in one read of the journal */

static bool same_counts(const struct stub_journal_counts *a, const struct stub_journal_counts *b)
{
	return a->total == b->total && a->links == b->links && a->errors == b->errors &&
	       a->conflicts == b->conflicts;
}

/* What cannot be looked at may be a directory.  -ENOMEM: it can perhaps be, later. */
static int may_bring(struct stub_volume *v, const struct stub_handle *h)
{
	int r, fd CLEANUP_CLOSE = stub_handle_open(v, h, O_PATH);
	struct stub_view view;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0)
		return 0; /* removed, and somebody has it open still */
	r = fd < 0 ? fd : stub_view(v, h, &view);
	if (r == -ESTALE || r == -ENOMEM)
		return r == -ESTALE ? 0 : r;
	return r < 0 || view.needs & (STUB_NEEDS_ATTRS | STUB_NEEDS_ENTRIES | STUB_NEEDS_REFUSED);
}

STUB_PUBLIC int stub_names_may_come(struct stub_volume *v, struct stub_journal *j,
				    struct stub_names *s, const struct stub_journal_counts *n)
{
	struct stub_journal_entry *e;
	int got, r = 0;

	if (n->total != n->links + n->errors + n->conflicts)
		return 1;
	if (n->total == n->links)
		return 0;
	if (!same_counts(&s->counts, n)) {
		*s = (struct stub_names){ .counts = *n };
		stub_journal_parked(&s->at);
	}
	if (s->over)
		return s->come;
	e = calloc(LOOK_AT, sizeof(*e));
	if (!e)
		return -ENOMEM;
	got = stub_journal_next(j, &s->at, true, e, LOOK_AT);
	for (int i = 0; i < got && r == 0; i++)
		r = may_bring(v, &e[i].h);
	free(e);
	if (r < 0) {
		*s = (struct stub_names){ 0 }; /* from the first one again */
		return r;
	}
	s->come = r;
	s->over = s->come || got == 0;
	return got < 0 ? got : s->over ? s->come : -EAGAIN;
}
