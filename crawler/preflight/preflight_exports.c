/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight_exports.c - what else the old server exports below the export.
 *
 * Another file system that is mounted there is shown by some servers as what it is (crossmnt,
 * nohide): then it comes with the volume.  Others show by NFSv3 the empty directory that it is
 * mounted on, which cannot be told from one that is empty: that would come, and nothing else.
 */
#include <string.h>

#include "bytes.h"
#include "preflight/preflight.h"

#define EXPORTS_MOST 32 /* that are looked at */
#define LISTED_MAX   400 /* bytes of their names in one warning */

struct names { /* of exports, for people */
	char text[LISTED_MAX];
	unsigned int n, left_out;
};

static void add(struct names *names, const char *path)
{
	size_t used = strlen(names->text);
	char shown[128];

	stub_printable(path, strnlen(path, 60), shown, sizeof(shown));
	if (used + strlen(shown) + 3 > sizeof(names->text))
		names->left_out++;
	else
		snprintf(names->text + used, sizeof(names->text) - used, "%s%s",
			 used ? ", " : "", shown);
	names->n++;
}

struct found {
	struct stub_origin o;
	struct stub_attr a;
	uint64_t above; /* the fsid of the directory it lies in */
};

/* 0, or -errno: it cannot be had by this way. */
static int find(struct source *s, const struct source_facts *facts, const char *path,
		struct found *out)
{
	int r = 0;

	out->o = facts->root;
	out->a = facts->attr;
	while (*path && r == 0) {
		size_t len = strcspn(path, "/");
		struct stub_origin dir = out->o;

		out->above = out->a.fsid;
		r = stub_name_check(path, len);
		if (r == 0)
			r = source_lookup(s, SOURCE_DEMAND, &dir, NULL, path, len, &out->o, &out->a);
		path += len;
		path += strspn(path, "/");
	}
	return r;
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	bool *any = arg;

	(void)e;
	*any = n > 0;
	return *any;
}

static bool is_empty(struct source *s, const struct found *f)
{
	bool any = false;

	return source_list(s, SOURCE_DEMAND, &f->o, NULL, on_entries, &any) == 0 && !any;
}

void preflight_exports(struct verdict *v, struct source *s, const struct source_facts *facts,
		       const char *below)
{
	struct names shown = { 0 }, hidden = { 0 };

	for (unsigned int i = 0; *below && i < EXPORTS_MOST; i++, below += strlen(below) + 1) {
		struct found f;

		if (find(s, facts, below, &f) < 0 || !S_ISDIR(f.a.mode))
			continue; /* nor would a migration meet it */
		if (f.a.fsid != f.above)
			add(&shown, below);
		else if (is_empty(s, &f))
			add(&hidden, below);
	}
	if (shown.n)
		verdict_warn(v, "export-below",
			     "%u exports of their own are other file systems, which come with this "
			     "volume: %s%s",
			     shown.n, shown.text, shown.left_out ? " ..." : "");
	if (hidden.n)
		verdict_warn(v, "export-hidden",
			     "%u exports of their own are shown here as empty directories: what is "
			     "mounted there does not come; make each a volume of its own, or have the "
			     "old server show it (crossmnt): %s%s",
			     hidden.n, hidden.text, hidden.left_out ? " ..." : "");
}
