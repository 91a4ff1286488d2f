/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * depot.h - alternate data streams as files, where smbd's module streams_depot has them.
 *
 *   DIR/XX/YY/ID/:NAME:$DATA
 *
 * ID is the object's file id as smbd's module fileid makes it with "algorithm = fsname":
 * a hash over the name of the device that is mounted, and the inode number; XX and YY are
 * two bytes of a hash over that.  DIR is outside of the volume, on a file system that may
 * be another one.  All XX/YY are made at once by depot_make(): smbd makes what is missing
 * as the user who needs it, and would keep all others out.
 *
 *   DIR/.postcopy-UUID  what one volume's retriever is fetching; only root gets in
 *
 * The streams of an object are fetched there, made durable, and moved into place in one
 * step, under the object's lock and only while it is a dummy (stub_fill_attr_and): what
 * clients change later is never replaced.  An object without the attribute that
 * smb_streams.c gives it does not own what is in its directory; smbd removes it
 * ("delete_lost = yes").
 */
#ifndef DEPOT_H
#define DEPOT_H

#include "source/source.h"

struct depot; /* may be used by all threads at once */
struct depot_item; /* the streams of one object, on their way */

/* Make the directories; what is there already stays.  -errno */
int depot_make(const char *dir);

/* The file system of @fd, as smbd's module fileid names it.  -ENOENT: it has no mount of its
 * own (a subvolume of btrfs), and smbd would use its device number; -errno */
int depot_fsname(int fd, uint64_t *id);

/* The path of object (@id, @ino) below DIR: "XX/YY/ID". */
#define DEPOT_PATH_MAX 40
void depot_path(uint64_t id, uint64_t ino, char out[DEPOT_PATH_MAX]);

/* Opens the depot that @info names, and removes what an earlier run was fetching.  -ENOENT: it
 * is no depot, or not mounted; -errno */
int depot_open(const struct stub_volume_info *info, struct depot **out);
void depot_close(struct depot *d);
/* The volume is finished: remove its own directory from the depot.  -errno */
int depot_leave(const struct stub_volume_info *info);

struct depot_job {
	struct source *source;
	enum source_priority p;
	const struct stub_object *o; /* open */
	const struct source_meta *m; /* of @o */
	/* waits until so many bytes may be fetched; NULL: no wait */
	void (*turn)(void *arg, uint64_t bytes);
	void *arg;
	bool local; /* set by depot_fetch(): the failure is the depot's, not the source's */
};

/* Fetch the streams of @job into the depot's staging, durably.  *out is NULL if there are none.
 *   -EIO  one has changed meanwhile
 *   errors of source_stream(), -ENOSPC, -EDQUOT */
int depot_fetch(struct depot *d, struct depot_job *job, struct depot_item **out);
/* What stub_fill_attr_and() calls; @item: struct depot_item, NULL: nothing to do.  The object
 * is still open.  -ENOENT: it has no name any more; -errno */
int depot_place(void *item);
void depot_item_free(struct depot_item *item); /* removes what was not placed */

#endif
