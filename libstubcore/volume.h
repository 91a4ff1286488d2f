/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * volume.h - names inside .postcopy/, for the files that make, open and remove it.
 */
#ifndef STUBCORE_VOLUME_H
#define STUBCORE_VOLUME_H

#include "internal.h"
#include "stubmirror.h"

#define STUB_VOLUME_FORMAT 2 /* 1 is without "home" */

#define STUB_CONF "volume.conf"
#define STUB_STATE "state"
#define STUB_LOCK "lock"
#define STUB_JOURNAL "journal"
#define STUB_STAGING "staging"
#define STUB_PROVISIONAL "provisional"
#define STUB_LAGGING "lagging"
#define STUB_RESOLVED "resolved"
#define STUB_SETTINGS "settings"
#define STUB_LIMITS "limits"
#define STUB_ABORTED "aborted"
#define STUB_FINISHED "finished"
#define STUB_DIGESTS "digests"
#define STUB_LEDGER "ledger"
#define STUB_MIRROR "mirror"

#define STUB_STATE_MAGIC 0x31706350u /* "Pcp1" */
#define STUB_STATE_VERSION 1
#define STUB_STATE_MIRRORED 2 /* the same with a ledger, into which all who change it enter that */

uint64_t stub_boot_id(void);

/* ---- conf.c ---- */

/* The volume.conf of a .postcopy.  -ENOENT, -EBADMSG, -EPROTONOSUPPORT, -errno. */
int stub_conf_load(int dir_fd, const struct stub_log *log, struct stub_volume_info *info);
int stub_conf_write(int root_fd, int dirfd, const struct stub_volume_info *info);

/* ---- mirror.c ---- */

/* In .postcopy (@dir_fd) of a volume that is being made: with it, it has a way back over which its root, with
 * number @ino and handle @h, is @root. */
int stub_way_back_parts(int dir_fd, const struct stub_mirror_conf *c, uint64_t ino,
			const struct stub_handle *h, const struct stub_origin *root);
/* @v is being opened: its places, and whether its mirror is a way back. */
void stub_mirror_learn(struct stub_volume *v);

/* ---- places.c ---- */

/* In the directory @dir_fd, where there are none: durable on return, but for the name. */
int stub_places_make(int dir_fd);
/* Those of a volume, by its .postcopy. */
int stub_places_open(int dir_fd);
/* stub_place_put(); @at: stub_slot() of the inode */
int stub_places_put(int fd, uint64_t at, const struct stub_handle *h, const uint8_t *origin, size_t len);

/* ---- remove.c ---- */

/* Remove the directory @name with all that is in it; links are not followed.  For what root has
 * made in .postcopy, and nothing else. */
int stub_remove_tree(int dirfd, const char *name);
/* Remove a .postcopy that has lost its volume.conf; of what is in it @last goes last. */
int stub_parts_remove(int root_fd, const char *last);

/* ---- home.c ---- */

/* Where the directory @fd is, as volume.conf has it. */
int stub_home_of(int fd, char out[STUB_HOME_MAX + 1]);
/* Is the volume where it was made?  -EXDEV: no, and the log says so; -errno. */
int stub_home_check(const struct stub_volume *v);

/* ---- active.c ---- */

/* Does this node hold the lease that the volume names, if any?  -ENOLCK: no; -EXDEV: for another
 * device; the log says so. */
int stub_active_check(const struct stub_volume *v);
/* The lease under which the file system of @fd was mounted, if any, is the volume's.  1: @info has
 * changed; 0; -ENOLCK: it has one, and is mounted under none; -errno. */
int stub_active_learn(int fd, struct stub_volume_info *info);

/* ---- find.c ---- */

/* The .postcopy of the directory @fd (O_PATH too): a descriptor.  -ENOENT: there is none
 * that root has made; -errno. */
int stub_dir_open(int fd);
/* Replace the descriptor *@fd by one of the directory above, opened with @flags.  -ENOENT: *fd
 * is the root of its file system; -errno. */
int stub_dir_up(int *fd, int flags);

#endif
