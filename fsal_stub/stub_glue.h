/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stub_glue.h - how this plugin meets libstubcore (stubfront.h): which object is meant, how
 * long a request may wait, and what becomes of an error.
 *
 * glue_status() is the one place where an error of libstubcore becomes a status of Ganesha.
 * All these functions are called while our own layer works (below.h).
 */
#ifndef FSAL_STUB_GLUE_H
#define FSAL_STUB_GLUE_H

#include "fsal_stub.h"

/* ---- identity ---- */

/* The kernel's handle of an object of FSAL_VFS, from its key.
 *   -EINVAL  the key has none (a mount point of another file system) */
int glue_handle_of_key(const struct gsh_buffdesc *key, struct stub_handle *out);

/* The other way round, for objects of @fs: key->addr has room for key->len bytes.
 *   -EINVAL  FSAL_VFS has no such keys */
int glue_key_of_handle(const struct fsal_filesystem *fs, const struct stub_handle *h,
		       struct gsh_buffdesc *key);

/* Is there anything left to migrate in this export? */
bool glue_migrating(void);

/* Has the volume a mirror?  Then each change is entered into its ledger before. */
bool glue_mirrored(void);

/* Either: what changes an object needs a bracket. */
bool glue_heeds_changes(void);

/* May this object be a stub? */
bool glue_maybe_stub(const struct stubfs_obj *o);

/* Does a change of this object need a bracket: may it be a stub, or is it owed to a mirror? */
bool glue_heeds(const struct stubfs_obj *o);

/* @o as libstubcore takes it, with its handle if it may be a stub or there is a mirror.  FRONT(o)
 * is a pointer to that, valid until the end of the block. */
struct stub_front glue_front(struct stubfs_obj *o);
#define FRONT(o) (&(struct stub_front[1]){ glue_front(o) }[0])

/* ---- changing ---- */

/* What is owed to a mirror where content changes, and of a directory where names come or go: the
 * times too. */
#define GLUE_DATA  (STUB_OWED_DATA | STUB_OWED_ATTRS)
#define GLUE_NAMES (STUB_OWED_NAMES | STUB_OWED_ATTRS)

/* stub_bracket_begin(); @owes: what each object owes a mirror then, @names: of directories, for what
 * name; @going: the object a name of which goes, see stub_front_going(), or GLUE_STAY. */
#define GLUE_STAY STUB_CHANGE_OBJECTS
int glue_begin(struct stub_bracket *b, struct stubfs_obj *const o[], const unsigned int owes[],
	       const char *const names[], unsigned int n, unsigned int going);
/* stub_bracket_end(): the operation's status in, the answer's out. */
fsal_status_t glue_end(struct stub_bracket *b, fsal_status_t status);

/*
 * The FSAL below has just made @sub, which could not be entered before: it is owed too, in the
 * bracket of its directory.  FSAL_VFS sets the attributes when the name is there already: a
 * replicator may have taken the object over in between, and nothing else would be owed of it.
 */
int glue_made(struct fsal_obj_handle *sub);

/* Make an object's data durable: by the FSAL below, then in the record. */
fsal_status_t glue_commit(struct stubfs_obj *o, off_t offset, size_t length);
/* The client's COMMIT: an I/O error too if one of its unstable writes may be lost. */
fsal_status_t glue_commit_client(struct stubfs_obj *o, off_t offset, size_t length);
/* An unstable write to a stub, begun in @era, is about to be acknowledged. */
void glue_unstable(struct stubfs_obj *o, uint64_t era);

/* ---- errors ---- */

fsal_status_t glue_status(int r);
int glue_errno(fsal_status_t status);
/* The operation's status, or that of @r if that alone has failed. */
fsal_status_t glue_both(fsal_status_t status, int r);

/* stub_log_fn */
void glue_log(void *arg, enum stub_log_level level, const char *msg);

extern const struct stub_gate_ops glue_gate_ops;

#endif
