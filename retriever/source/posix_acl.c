// SPDX-License-Identifier: GPL-3.0-or-later
/* posix_acl.c - a mode that gives no more than an ACL did; where ACLs are kept. */
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bytes.h"
#include "source/posix_acl.h"

void posix_acl_narrow(const uint8_t *value, size_t len, struct stub_attr *a)
{
	unsigned int mask = 7, group = 0, other = 0, users = 7, named = 7, seen = 0;

	for (size_t at = POSIX_ACL_HEAD; at + POSIX_ACL_ENTRY <= len; at += POSIX_ACL_ENTRY) {
		unsigned int tag = (unsigned int)stub_get_le(value + at, 2);
		unsigned int perm = (unsigned int)stub_get_le(value + at + 2, 2) & 7;

		seen |= tag;
		if (tag == ACL_USER)
			users &= perm;
		else if (tag == ACL_GROUP_OBJ)
			group = perm;
		else if (tag == ACL_GROUP)
			named &= perm;
		else if (tag == ACL_MASK)
			mask = perm;
		else if (tag == ACL_OTHER)
			other = perm;
	}
	group &= users & mask;
	if (seen & ACL_USER)
		other &= users & mask;
	if (seen & ACL_GROUP)
		other &= named & mask;
	a->mode &= ~077u | group << 3 | other;
}

bool posix_acl_kept(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool kept = fd < 0 || fgetxattr(fd, POSIX_ACL_ACCESS, NULL, 0) >= 0 || errno != EOPNOTSUPP;

	if (fd >= 0)
		close(fd);
	return kept;
}
