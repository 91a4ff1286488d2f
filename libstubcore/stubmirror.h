/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubmirror.h - the mirror of a volume: which one, and where its objects are over there
 * (docs/decisions/0092).
 */
#ifndef STUBMIRROR_H
#define STUBMIRROR_H

#include "stubtypes.h"

#pragma GCC visibility push(default)

struct stub_volume;

/* ---- .postcopy/mirror/conf -------------------------------------------------- */

enum stub_mirror_kind { STUB_MIRROR_WAY_BACK = 1, STUB_MIRROR_BACKUP };
enum stub_mirror_mode { STUB_MIRROR_ASYNC = 1, STUB_MIRROR_PARTLY, STUB_MIRROR_SYNC };
enum stub_mirror_gone { STUB_MIRROR_CONTINUE = 1, STUB_MIRROR_REFUSE };

struct stub_mirror_conf {
	enum stub_mirror_kind kind;
	enum stub_mirror_mode mode;
	enum stub_mirror_gone gone; /* what clients get while the mirror is away */
	uint32_t lag_s; /* clients are slowed down where it is behind by more; 0: they are not */
	bool alone; /* of a backup: the migration is finished, nothing but the mirror is left of us */
	char uri[STUB_URI_MAX + 1];
	char smb[STUB_URI_MAX + 1]; /* of a backup: the same tree over SMB, smb://...; "": it is not */
};

#define STUB_MIRROR_LAG_MAX 86400u

/* As conf, status and JSON have them. */
const char *stub_mirror_kind_word(enum stub_mirror_kind kind);
const char *stub_mirror_mode_word(enum stub_mirror_mode mode);
const char *stub_mirror_gone_word(enum stub_mirror_gone gone);
/* Where postcopy-mirror listens for commands: the retriever's control socket with ".mirror" behind it.
 *   -ENAMETOOLONG  no socket can have that path */
int stub_mirror_control(const struct stub_volume_info *info, char out[STUB_PATH_MAX + 1]);

/* -ENOENT: no mirror; -EBADMSG: the file is damaged */
int stub_mirror_conf_read(const struct stub_volume *v, struct stub_mirror_conf *out);
/* Durable, whole or not at all; and from then on the rule for all who change the volume. */
int stub_mirror_conf_write(struct stub_volume *v, const struct stub_mirror_conf *c);

/* The volume has a mirror from now on: conf, places, then the ledger (stub_ledger_make(), whose
 * errors it has).  @all: everything is owed to it (a backup).  Close @v afterwards. */
int stub_mirror_create(struct stub_volume *v, const struct stub_mirror_conf *c, bool all);
/* It has none any more.  Errors: stub_ledger_end(). */
int stub_mirror_remove(struct stub_volume *v);

/* ---- .postcopy/mirror/places ------------------------------------------------ */

/* Where the inode behind @h is over there.  -ENOENT: not known. */
int stub_place_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
		   struct stub_origin *out);
/* Through the page cache; -EOVERFLOW: a handle that is longer than NFSv3's.  No-op without a mirror. */
int stub_place_put(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
		   const uint8_t *origin, size_t len);
int stub_place_sync(struct stub_volume *v);
/* Does the volume have places?  One memory read. */
bool stub_place_kept(const struct stub_volume *v);

/* The directory at the mirror's root for what the volume with @uuid holds aside; a way back's source does not
 * show it. */
#define STUB_ASIDE_NAME 64
void stub_aside_name(const char *uuid, char out[STUB_ASIDE_NAME]);

/* ---- frozen ------------------------------------------------------------------ */

enum stub_frozen { STUB_THAWED, STUB_FROZEN, STUB_FROZEN_FOR_GOOD };

/* FROZEN: all who would change something get -EAGAIN from stub_ledger_enter(), while the machine runs;
 * FOR_GOOD: they get -EROFS, for clients are back at the old server; durable on return.  Changes in flight may
 * end after this returns (stub_ledger_flies()).  -ENOENT: no ledger */
int stub_ledger_freeze(struct stub_volume *v, enum stub_frozen how);
enum stub_frozen stub_ledger_frozen(const struct stub_volume *v); /* one memory read */

#pragma GCC visibility pop

#endif
