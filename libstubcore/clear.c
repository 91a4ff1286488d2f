/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * clear.c - a missing range has no local pages or blocks.
 *
 * That is so unless a sync failed and an era ended (era.c).  Then cached pages may lie on
 * blocks that never got their bytes.  ext4 (seen with 6.18) takes such a block for written
 * when its page is written anew: the next sync succeeds, and after a power cut there are
 * zeros.  So before anything is written into a missing range, these pages and blocks are
 * punched out.  Only blocks that are missing as a whole: any other one was synced.
 */
#include <fcntl.h>

#include "internal.h"

/* 1: the whole blocks of @part read as zeros; 0: that is not known. */
static int clear_part(int fd, const struct stat *st, struct stub_range part)
{
	uint64_t block = (uint64_t)st->st_blksize;
	off_t data;

	part.start = (part.start + block - 1) / block * block;
	if (part.end >= (uint64_t)st->st_size) /* the last block as a whole, too */
		part.end += block - 1;
	part.end -= part.end % block;
	if (part.start >= part.end)
		return 1;
	data = lseek(fd, (off_t)part.start, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO;
	if ((uint64_t)data >= part.end)
		return 1;
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)part.start,
		      (off_t)(part.end - part.start)) == 0)
		return 1;
	return errno == EOPNOTSUPP ? 0 : -errno;
}

int stub_missing_clear(int fd, const struct stat *st, const struct stub_record *rec,
		       uint64_t offset, uint64_t end)
{
	uint64_t block = (uint64_t)st->st_blksize, past = end % block ? block - end % block : 0;
	struct stub_range part;
	int one, r = 1;

	if (rec->flags & STUB_FLAG_OVER) /* set in this era: no sync has failed since */
		return 0;
	offset -= offset % block;
	end = end > UINT64_MAX - past ? UINT64_MAX : end + past;
	while (stub_map_first(&rec->now, offset, end, &part)) {
		one = clear_part(fd, st, part);
		if (one < 0)
			return one;
		r &= one;
		offset = part.end;
	}
	return r;
}
