/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * pass.c - reading a stub whose volume takes no data (docs/decisions/0007).
 *
 * The old server's bytes come in a memory file and are laid over what the FSAL below
 * reads, where the record says "missing" and nowhere else.  Both happen under the
 * object's exclusion, and the record is read in there: what a client has written, cut
 * off or punched since the bytes were asked for is in the file and no longer missing.
 *
 * One memory file holds STUB_PASS_MAX bytes.  A longer READ is answered short, which
 * every protocol allows.
 */
#include "config.h"
#include "fsal.h"

#include <errno.h>
#include <unistd.h>

#include "pass.h"

#define PASS_TRIES 4 /* what is missing has changed meanwhile */

bool pass_instead(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EIO;
}

static uint64_t io_end(const struct fsal_io_arg *io)
{
	uint64_t end = io->offset;

	for (int i = 0; i < io->iov_count; i++)
		end += io->iov[i].iov_len;
	return end < io->offset || end > INT64_MAX ? INT64_MAX : end;
}

/* What one memory file should hold: from the first missing byte to the last.  False:
 * nothing is missing. */
static bool wanted(const struct stub_map *m, const struct fsal_io_arg *io, struct stub_range *out)
{
	uint64_t end = io_end(io), at = io->offset;
	struct stub_range r;

	if (!m || !stub_map_first(m, at, end, out))
		return false;
	for (at = out->end; stub_map_first(m, at, end, &r); at = r.end)
		out->end = r.end;
	if (out->end - out->start > STUB_PASS_MAX)
		out->end = out->start + STUB_PASS_MAX;
	return true;
}

/* Copy [start, end) of the file from @fd, whose first byte is @base, into the buffers. */
static int lay_over(struct fsal_io_arg *io, int fd, uint64_t base, uint64_t start, uint64_t end)
{
	uint64_t at = io->offset;

	for (int i = 0; i < io->iov_count; at += io->iov[i++].iov_len) {
		uint64_t from = start > at ? start : at;
		uint64_t to = at + io->iov[i].iov_len < end ? at + io->iov[i].iov_len : end;

		while (from < to) {
			ssize_t n = pread(fd, (char *)io->iov[i].iov_base + (from - at), to - from,
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
 * Under the exclusion: the local bytes are in @io; lay over what is missing.  What is
 * missing and not in [have->start, have->end) ends the answer.
 */
static int complete(const struct stub_map *m, struct fsal_io_arg *io, int fd,
		    const struct stub_range *have)
{
	uint64_t end = io->offset + io->io_amount, at = io->offset;
	struct stub_range r;

	while (m && stub_map_first(m, at, end, &r)) {
		uint64_t stop = r.end < have->end ? r.end : have->end;
		int error;

		if (r.start < have->start || r.start >= have->end)
			stop = r.start;
		error = lay_over(io, fd, have->start, r.start, stop);
		if (error < 0)
			return error;
		if (stop < r.end) {
			io->io_amount = stop - io->offset;
			io->end_of_file = false;
			return io->io_amount ? 0 : -EAGAIN;
		}
		at = r.end;
	}
	return 0;
}

static fsal_status_t read_over(struct stubfs_obj *o, bool bypass, struct fsal_io_arg *io, int fd,
			       const struct stub_range *have)
{
	struct glue_change change;
	fsal_status_t status;
	int r = glue_change_look(&change, o);

	if (r < 0)
		return glue_status(r);
	status = io_below(o->below->obj_ops->read2, o->below, bypass, io);
	if (!FSAL_IS_ERROR(status)) {
		r = complete(stub_change_missing(&change.c, 0), io, fd, have);
		if (r < 0)
			status = glue_status(r);
	}
	glue_change_drop(&change);
	return status;
}

/* 1 and *out, 0: nothing is missing any more. */
static int look_wanted(struct stubfs_obj *o, const struct fsal_io_arg *io, struct stub_range *out)
{
	struct glue_change change;
	int r = glue_change_look(&change, o);

	if (r < 0)
		return r;
	r = wanted(stub_change_missing(&change.c, 0), io, out);
	glue_change_drop(&change);
	return r;
}

fsal_status_t pass_read(struct stubfs_obj *o, struct glue_wait *w, bool bypass,
			struct fsal_io_arg *io)
{
	fsal_status_t status = glue_status(-EAGAIN);

	for (int i = 0; i < PASS_TRIES; i++) {
		struct stub_range have = { 0, 0 };
		uint64_t era = glue_era();
		int fd = -1, r = look_wanted(o, io, &have);

		if (r > 0)
			r = glue_pass(o, w, have.start, have.end - have.start, &fd);
		if (r < 0)
			return glue_status(r);
		io->io_amount = 0;
		status = read_over(o, bypass, io, fd, &have);
		if (fd >= 0)
			close(fd);
		if (status.major == ERR_FSAL_DELAY)
			continue;
		if (FSAL_IS_ERROR(status) || glue_era() == era)
			return status;
		status = glue_status(-EAGAIN);
	}
	return status;
}
