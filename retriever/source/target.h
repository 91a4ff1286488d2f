/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * target.h - a server that is written to, by NFSv3: the mirror (docs/decisions/0092).
 *
 * A target is a source, so its connections, priorities, limits and state are those of source.h,
 * and what is only read is asked for by the calls there.  Calls block; those of many threads go
 * out side by side.
 *
 * A call that is under way when the connection is lost is sent again, and the server may do it twice,
 * or the first one late.  So a call here may have been carried out more than once, or once and be
 * answered as if it could not be (-EEXIST, -ENOENT): who calls looks again.  After an error
 * nothing is known of what became of it.
 *
 * Errors, all calls: those of source.h, and
 *   -EEXIST, -ENOTEMPTY, -EISDIR, -EINVAL, -EROFS, -ENOSPC, -EDQUOT, -EFBIG, -EMLINK, -EXDEV,
 *   -EPERM      as the server says it
 *   -EINVAL     also: a name, target, length or ACL that no object has
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
	TARGET_TIMES = 8, /* atime and mtime, as they are in @a */
};

/* Is it an nfs:// source by NFSv3? */
bool target_able(const struct source *s);

/* By handle; of a file, directory, symlink (owner, times) or special file.  It may take two calls, of
 * which the first one only is carried out.
 *   -EOVERFLOW  a time that NFSv3 has not: before 1970, or after 2106 */
int target_setattr(struct source *s, const struct stub_origin *o, unsigned int what,
		   const struct stub_attr *a);

/* Write @length bytes, at most target_write_max(), unstable; *@verf is the server's write
 * verifier, the same one for all of them, also where it says that they are durable already.  All of
 * them are written, or an error is returned. */
int target_write(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		 uint32_t length, uint64_t *verf);
/* The same, durable on return: without a commit, if the server does as it is told. */
int target_keep(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf, uint32_t length);
/* Make all of the file durable over there; 0 is only good if *@verf is that of all its writes. */
int target_commit(struct source *s, const struct stub_origin *o, uint64_t *verf);
/* Bytes, up to 1 MiB; blocks until connected once.  0: it never was, or the source cannot do it. */
uint32_t target_write_max(struct source *s);

/*
 * Make @name in @dir: a file (empty, GUARDED), directory, symlink (@target, terminated), FIFO, socket or
 * device, as a->mode says.  The server is asked to give it owner, mode and times of @a; many do so
 * only in part, which *@attr tells.  @out and *@attr are of the new object.
 *   -EEXIST  there is such a name, perhaps because of this very call
 */
int target_make(struct source *s, const struct stub_origin *dir, const char *name,
		const struct stub_attr *a, const char *target, struct stub_origin *out,
		struct stub_attr *attr);
int target_link(struct source *s, const struct stub_origin *o, const struct stub_origin *dir,
		const char *name);
int target_rename(struct source *s, const struct stub_origin *dir, const char *name,
		  const struct stub_origin *to, const char *to_name);
/* no directory */
int target_remove(struct source *s, const struct stub_origin *dir, const char *name);
int target_rmdir(struct source *s, const struct stub_origin *dir, const char *name);

/* The POSIX ACLs of @o, which has type, owner and mode of @a, as in its system.posix_acl_access and
 * _default (NULL: none), by the ACL protocol.  -EOPNOTSUPP: the server has it not, or shows no
 * ACLs by it, or not of such objects. */
int target_setacl(struct source *s, const struct stub_origin *o, const struct stub_attr *a,
		  const struct stub_xattr *access, const struct stub_xattr *dflt);

/*
 * What only SMB carries: DOS attributes, creation time, streams, extended attributes, the descriptor of
 * Windows.  Of a file or directory here, as Samba's modules store it.
 */
struct target_windows {
	uint64_t fileid; /* that it must have over there: else it is another object */
	uint32_t uid, gid, mode; /* here; mode with type */
	/* user.*, security.NTACL and POSIX ACLs; others are not taken.  Attributes and creation time are only
	 * set where they are known, a descriptor where it is in force: the mode was not changed since. */
	const struct stub_xattr *x;
	size_t n;
};

enum target_differs { TARGET_ATTRIBUTES = 1, TARGET_STREAMS = 2, TARGET_EAS = 4, TARGET_DESCRIPTOR = 8 };

struct target_put {
	uint32_t differs; /* enum target_differs; not of @look: the server keeps it otherwise */
	bool holds; /* a descriptor is in force here: it says who may do what, and not the mode */
};

/*
 * Make it the same at an smb:// source, where it has the path @o, durable on return; @look: only say what
 * differs.  Blocks, as all calls here.
 *   -ESTALE      another object has the path
 *   -ENOSPC      no room for it
 *   -EIO         the server does not take it; the log has its words
 *   -EOPNOTSUPP  this kind of source cannot
 */
int target_put(struct source *s, const struct stub_origin *o, const struct target_windows *w, bool look,
	       struct target_put *out);

#endif
