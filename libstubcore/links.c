/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * links.c - provisional files: hard links across directories listed at different
 * times (paper section 4.5.3).
 *
 * An inode that had several names at the source gets one more name here, in
 * .postcopy/provisional/, made of its file system and inode number over there.
 * Names met later are linked to it.  It goes away when all names exist, or when
 * every directory is listed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "internal.h"

void stub_provisional_name(uint64_t fsid, uint64_t fileid, char out[STUB_PROVISIONAL_NAME])
{
	snprintf(out, STUB_PROVISIONAL_NAME, "%016" PRIx64 "-%016" PRIx64, fsid, fileid);
}

bool stub_provisional_exists(const struct stub_volume *v, uint64_t fsid, uint64_t fileid)
{
	char name[STUB_PROVISIONAL_NAME];
	struct stat st;

	stub_provisional_name(fsid, fileid, name);
	return fstatat(v->provisional_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int stub_provisional_unlink(struct stub_volume *v, uint64_t fsid, uint64_t fileid)
{
	char name[STUB_PROVISIONAL_NAME];

	stub_provisional_name(fsid, fileid, name);
	if (unlinkat(v->provisional_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}
