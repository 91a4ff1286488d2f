/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * links.c - provisional files: hard links across directories listed at different times.
 *
 * An inode that had several names at the source gets one more name here, in
 * .postcopy/provisional/, made of what identifies the inode at the source.
 * Names met later are linked to it.  It goes away when all names exist, or when
 * every directory is listed.
 *
 * File system and inode number do not tell enough: file systems behind one export may
 * share the former and repeat the latter, and a number is used again when its file was
 * removed.  So the name carries a key as well, made of what the source says is the
 * inode's alone (a file handle, or the part of it that is not the name's), and of what
 * all names of one file agree in.  Names with different keys become files of their own: a
 * hard link may be lost so, but two files taken for one would lose data (docs/decisions/0031).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "internal.h"

static uint64_t mix_number(uint64_t h, uint64_t x)
{
	uint8_t b[8];

	stub_put_le(b, x, sizeof(b));
	return stub_fnv(h, b, sizeof(b));
}

uint64_t stub_link_key(const struct stub_entry *e)
{
	uint64_t h = e->inode ? stub_fnv(STUB_FNV, e->inode, e->inode_len) :
				stub_fnv(STUB_FNV, e->origin, e->origin_len);

	h = mix_number(h, e->attr.mode & S_IFMT);
	h = mix_number(h, S_ISREG(e->attr.mode) ? e->attr.size : 0);
	h = mix_number(h, (uint64_t)e->attr.mtime.tv_sec);
	return mix_number(h, (uint64_t)e->attr.mtime.tv_nsec);
}

void stub_provisional_of_entry(const struct stub_entry *e, char out[STUB_PROVISIONAL_NAME])
{
	snprintf(out, STUB_PROVISIONAL_NAME, "%016" PRIx64 "-%016" PRIx64 "-%016" PRIx64,
		 e->attr.fsid, e->attr.fileid, stub_link_key(e));
}

static void name_of(const struct stub_record *rec, char out[STUB_PROVISIONAL_NAME])
{
	int n = snprintf(out, STUB_PROVISIONAL_NAME, "%016" PRIx64 "-%016" PRIx64, rec->fsid,
			 rec->fileid);

	if (rec->flags & STUB_FLAG_LINK_KEY)
		snprintf(out + n, STUB_PROVISIONAL_NAME - (size_t)n, "-%016" PRIx64,
			 rec->link_key);
}

bool stub_provisional_exists(const struct stub_volume *v, const struct stub_record *rec)
{
	char name[STUB_PROVISIONAL_NAME];
	struct stat st;

	name_of(rec, name);
	return fstatat(v->provisional_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino == rec->ino;
}

int stub_provisional_unlink(struct stub_volume *v, const struct stub_record *rec)
{
	char name[STUB_PROVISIONAL_NAME];

	if (!stub_provisional_exists(v, rec))
		return 0;
	name_of(rec, name);
	if (unlinkat(v->provisional_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}
