/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * content.c - data of a file that is not all here: SEEK, and reading where nothing can be stored
 * (docs/decisions/0007).
 *
 * The old server's bytes come in a memory file and are laid over what is read locally,
 * where the record says "missing" and nowhere else.  Both happen under the object's
 * exclusion, and the record is read in there: what a client has written, cut off or punched
 * since the bytes were asked for is in the file and no longer missing.
 */
#include "gate.h"

#define PASS_TRIES 4 /* each after the missing map has changed meanwhile */

/* ---- seek ---- */

/*
 * What is missing is asked first, then the file: bytes are there before the record says
 * so.  The other way round a range that is filled in between would be neither missing
 * nor data.
 */

/* The first of local data and of missing ranges. */
static int seek_data(struct stub_front *f, uint64_t at, uint64_t size, stub_seek_fn local,
		     void *arg, uint64_t *found)
{
	struct stub_range missing;
	int r, any = stub_front_missing(f, at, size, &missing);

	if (any < 0)
		return any;
	r = local(arg, true, at, size, found);
	if (r == 0 && any && missing.start < *found)
		*found = missing.start;
	return r;
}

/* The first local hole that is not missing. */
static int seek_hole(struct stub_front *f, uint64_t at, uint64_t size, stub_seek_fn local,
		     void *arg, uint64_t *found)
{
	struct stub_range missing;

	while (at < size) {
		int r, any = stub_front_missing(f, at, size, &missing);

		if (any < 0)
			return any;
		r = local(arg, false, at, size, found);
		if (r < 0 || !any || missing.start > *found)
			return r;
		at = missing.end;
	}
	*found = size;
	return 0;
}

STUB_PUBLIC int stub_front_seek(struct stub_front *f, bool data, uint64_t at, uint64_t size,
				stub_seek_fn local, void *arg, uint64_t *found)
{
	return (data ? seek_data : seek_hole)(f, at, size, local, arg, found);
}

/* ---- reading what cannot be stored ---- */

static uint64_t end_of(const struct stub_passing *p)
{
	uint64_t end = p->offset;

	for (int i = 0; i < p->n_iov; i++)
		end += p->iov[i].iov_len;
	return end < p->offset || end > INT64_MAX ? INT64_MAX : end;
}

/* What one memory file should hold: from the first missing byte to the last.  False:
 * nothing is missing. */
static bool wanted(const struct stub_map *m, uint64_t at, uint64_t end, struct stub_range *out)
{
	struct stub_range r;

	if (!m || !stub_map_first(m, at, end, out))
		return false;
	for (at = out->end; stub_map_first(m, at, end, &r); at = r.end)
		out->end = r.end;
	if (out->end - out->start > STUB_PASS_MAX)
		out->end = out->start + STUB_PASS_MAX;
	return true;
}

/* 1 and *out, 0: nothing is missing any more. */
static int look_wanted(struct stub_front *f, const struct stub_passing *p, struct stub_range *out)
{
	struct stub_bracket b;
	int r = stub_bracket_look(f, &b);

	if (r < 0)
		return r;
	r = wanted(stub_change_missing(&b.c, 0), p->offset, end_of(p), out);
	stub_bracket_drop(&b);
	return r;
}

/* Copy [start, end) of the file from @fd, whose first byte is @base, into the buffers. */
static int lay_over(const struct stub_passing *p, int fd, uint64_t base, uint64_t start,
		    uint64_t end)
{
	uint64_t at = p->offset;

	for (int i = 0; i < p->n_iov; at += p->iov[i++].iov_len) {
		uint64_t from = start > at ? start : at;
		uint64_t to = at + p->iov[i].iov_len < end ? at + p->iov[i].iov_len : end;

		while (from < to) {
			ssize_t n = pread(fd, (char *)p->iov[i].iov_base + (from - at), to - from,
					  (off_t)(from - base));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return -EIO;
			from += (uint64_t)n;
		}
	}
	return 0;
}

/*
 * Under the exclusion: @n local bytes are in the buffers; lay over what is missing.  What is
 * missing and not in *have ends the answer.  Returns its length, or -errno.
 */
static ssize_t complete(const struct stub_passing *p, const struct stub_map *m, ssize_t n, int fd,
			const struct stub_range *have)
{
	uint64_t end = p->offset + (uint64_t)n, at = p->offset;
	struct stub_range r;

	while (m && stub_map_first(m, at, end, &r)) {
		uint64_t stop = r.end < have->end ? r.end : have->end;
		int error;

		if (r.start < have->start || r.start >= have->end)
			stop = r.start;
		error = lay_over(p, fd, have->start, r.start, stop);
		if (error < 0)
			return error;
		if (stop < r.end)
			return stop > p->offset ? (ssize_t)(stop - p->offset) : -EAGAIN;
		at = r.end;
	}
	return n;
}

static ssize_t read_over(struct stub_front *f, const struct stub_passing *p, int fd,
			 const struct stub_range *have)
{
	struct stub_bracket b;
	ssize_t n = stub_bracket_look(f, &b);

	if (n < 0)
		return n;
	n = p->read(p->arg);
	if (n >= 0)
		n = complete(p, stub_change_missing(&b.c, 0), n, fd, have);
	stub_bracket_drop(&b);
	return n;
}

STUB_PUBLIC ssize_t stub_front_pass(struct stub_front *f, struct stub_wait *w,
				    const struct stub_passing *p)
{
	struct stub_ask a = { .kind = STUB_ASK_PASS, .h = f->h };

	for (int i = 0; i < PASS_TRIES; i++) {
		uint64_t era = stub_gate_era(f->gate);
		struct stub_range have = { 0, 0 };
		int fd CLEANUP_CLOSE = -1;
		ssize_t n = look_wanted(f, p, &have);

		if (n > 0) {
			a.offset = have.start;
			a.length = have.end - have.start;
			n = stub_gate_pass(f->gate, w, &a, &fd);
		}
		if (n < 0)
			return n;
		n = read_over(f, p, fd, &have);
		if (n != -EAGAIN && (n < 0 || stub_gate_era(f->gate) == era))
			return n;
	}
	return -EAGAIN;
}
