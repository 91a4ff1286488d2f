/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * target.h - an NFSv3 server that is written to: the mirror (docs/decisions/0092).
 *
 * A target is a source, so its connections, priorities, limits and state are those of source.h,
 * and what is only read is asked for by the calls there.  A call here may have been carried
 * out more than once, or once and be answered as if it could not be: who calls looks again.
 *
 * Errors, all calls: those of source.h, and
 *   -EEXIST, -ENOTEMPTY, -EISDIR, -EINVAL, -EROFS, -ENOSPC, -EDQUOT, -EFBIG, -EMLINK, -EXDEV,
 *   -EPERM      as the server says it
 *   -EOPNOTSUPP the server, or this kind of source, cannot do it
 */
#ifndef TARGET_H
#define TARGET_H

#include "source/source.h"

/* What is set; the others stay as they are. */
enum {
	TARGET_MODE = 1,  /* permissions, set-ID and sticky bits */
	TARGET_OWNER = 2, /* uid and gid */
	TARGET_SIZE = 4,
	TARGET_TIMES = 8, /* atime and mtime */
};

/* Is it an nfs:// source by NFSv3? */
bool target_able(const struct source *s);

/* By handle; of a file, directory, symlink (owner, times) or special file. */
int target_setattr(struct source *s, const struct stub_origin *o, unsigned int what,
		   const struct stub_attr *a);

/* Write @length bytes, at most target_write_max(), unstable; *@verf is the server's write
 * verifier.  All of them are written, or an error is returned. */
int target_write(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		 uint32_t length, uint64_t *verf);
/* Make all of the file durable over there; 0 is only good if *@verf is that of all its writes. */
int target_commit(struct source *s, const struct stub_origin *o, uint64_t *verf);
uint32_t target_write_max(struct source *s); /* bytes; blocks until connected once */

/*
 * Make @name in @dir: a file (empty, GUARDED), directory, symlink (@target, terminated), FIFO, socket or
 * device, as a->mode says, with owner, mode and times of @a.  @out and *@attr are of the new object.
 *   -EEXIST  there is such a name
 */
int target_make(struct source *s, const struct stub_origin *dir, const char *name,
		const struct stub_attr *a, const char *target, struct stub_origin *out,
		struct stub_attr *attr);
int target_link(struct source *s, const struct stub_origin *o, const struct stub_origin *dir,
		const char *name);
int target_rename(struct source *s, const struct stub_origin *dir, const char *name,
		  const struct stub_origin *to, const char *to_name);
int target_remove(struct source *s, const struct stub_origin *dir, const char *name); /* no directory */
int target_rmdir(struct source *s, const struct stub_origin *dir, const char *name);

/* The POSIX ACLs of @o as in its system.posix_acl_access and _default (NULL: none), by the ACL
 * protocol.  -EOPNOTSUPP: the server has it not. */
int target_setacl(struct source *s, const struct stub_origin *o, const struct stub_attr *a,
		  const struct stub_xattr *access, const struct stub_xattr *dflt);

#endif
