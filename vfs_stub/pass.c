/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pass.c - reading a stub whose volume takes no data (docs/decisions/0007).
 *
 * The old server's bytes come in a memory file and are laid over what NEXT reads, where
 * the record says "missing" and nowhere else.  Both happen under the object's exclusion,
 * and the record is read in there: what a client has written, cut off or punched since
 * the bytes were asked for is in the file and no longer missing.
 *
 * One memory file holds STUB_PASS_MAX bytes.  A longer read is answered short, except
 * that a client would take that for the end of the file: then it goes on behind.
 */
#include "pass.h"

#include <errno.h>

#define PASS_TRIES 4 /* what is missing has changed meanwhile */

struct reading {
	struct vfs_handle_struct *handle;
	struct files_struct *fsp;
	struct glue_obj *o;
	struct glue_wait *wait;
	uint8_t *data;
	uint64_t offset, end;
};

bool pass_instead(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EIO;
}

/* What one memory file should hold: from the first missing byte to the last.  False:
 * nothing is missing. */
static bool wanted(const struct stub_map *m, const struct reading *p, struct stub_range *out)
{
	struct stub_range r;

	if (!m || !stub_map_first(m, p->offset, p->end, out))
		return false;
	for (uint64_t at = out->end; stub_map_first(m, at, p->end, &r); at = r.end)
		out->end = r.end;
	if (out->end - out->start > STUB_PASS_MAX)
		out->end = out->start + STUB_PASS_MAX;
	return true;
}

/* 1 and *out, 0: nothing is missing any more. */
static int look_wanted(const struct reading *p, struct stub_range *out)
{
	struct glue_change change;
	int r = glue_change_look(&change, p->o);

	if (r < 0)
		return r;
	r = wanted(stub_change_missing(&change.c, 0), p, out);
	glue_change_drop(&change);
	return r;
}

/* Copy [start, end) of the file from @fd, whose first byte is @base, into the buffer. */
static int lay_over(const struct reading *p, int fd, uint64_t base, uint64_t start, uint64_t end)
{
	while (start < end) {
		ssize_t n = pread(fd, p->data + (start - p->offset), end - start,
				  (off_t)(start - base));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		start += (uint64_t)n;
	}
	return 0;
}

/*
 * Under the exclusion: @n local bytes are in the buffer; lay over what is missing.  What is
 * missing and not in *have ends the answer.  Returns its length, or -errno.
 */
static ssize_t complete(const struct reading *p, const struct stub_map *m, ssize_t n, int fd,
			const struct stub_range *have)
{
	uint64_t end = p->offset + (uint64_t)n, at = p->offset;
	struct stub_range r;

	while (m && stub_map_first(m, at, end, &r)) {
		uint64_t stop = MIN(r.end, have->end);
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

static ssize_t read_over(const struct reading *p, int fd, const struct stub_range *have)
{
	struct glue_change change;
	ssize_t n = glue_change_look(&change, p->o);

	if (n < 0)
		return n;
	n = SMB_VFS_NEXT_PREAD(p->handle, p->fsp, p->data, p->end - p->offset, (off_t)p->offset);
	n = n < 0 ? -errno : complete(p, stub_change_missing(&change.c, 0), n, fd, have);
	glue_change_drop(&change);
	return n;
}

static ssize_t pass_once(const struct reading *p)
{
	struct stub_range have = { 0, 0 };
	uint64_t era = glue_era(p->handle);
	int fd = -1, r = look_wanted(p, &have);
	ssize_t n;

	if (r > 0)
		r = glue_pass(p->o, p->wait, have.start, have.end - have.start, &fd);
	if (r < 0)
		return r;
	n = read_over(p, fd, &have);
	if (fd >= 0)
		close(fd);
	return glue_era(p->handle) == era ? n : -EAGAIN;
}

ssize_t pass_read(struct vfs_handle_struct *handle, struct files_struct *fsp, struct glue_obj *o,
		  struct glue_wait *w, void *data, size_t n, off_t offset)
{
	struct reading p = { .handle = handle, .fsp = fsp, .o = o, .wait = w, .data = data,
			     .offset = (uint64_t)offset, .end = (uint64_t)offset + n };
	ssize_t got = 0;

	for (int tries = 0; p.offset < p.end && tries < PASS_TRIES;) {
		ssize_t one = pass_once(&p);

		if (one == -EAGAIN) {
			tries++;
			got = p.offset > (uint64_t)offset ? got : -EAGAIN;
			continue;
		}
		if (one < 0)
			return glue_fail((int)one);
		if (one == 0)
			return (ssize_t)(p.offset - (uint64_t)offset);
		tries = 0;
		p.offset += (uint64_t)one;
		p.data += one;
		got = (ssize_t)(p.offset - (uint64_t)offset);
	}
	return p.offset == p.end ? got : glue_fail(-EAGAIN);
}
