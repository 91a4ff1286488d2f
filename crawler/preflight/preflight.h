/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight.h - everything that is checked before a directory becomes a volume.
 *
 * All functions return 0, or -1 with the verdict set. The source is only read;
 * the target is left as it was.
 */
#ifndef PREFLIGHT_H
#define PREFLIGHT_H

#include <limits.h>
#include <sys/stat.h>

#include "config.h"
#include "report/verdict.h"
#include "source/uri.h"

#define PREFLIGHT_SAMPLE     2000 /* entries looked at in search of proof */
#define PREFLIGHT_SAMPLE_MS  20000 /* ... and for how long */
#define PREFLIGHT_TIMEOUT_MS 15000 /* a source that does not answer is given up, and a call */
#define PREFLIGHT_LOST_MS    60000 /* one that has answered: so long without a connection */

/* Of a device: what mknod(2) takes, whatever the file system. */
#define TARGET_MAJOR_MAX 0xfff
#define TARGET_MINOR_MAX 0xfffff

/* What a file system can hold. 0: not known. */
struct target_limits {
	uint32_t inode_size; /* bytes */
	uint32_t name_max; /* bytes of a name */
	uint32_t symlink_max; /* bytes of a symlink's target */
	uint64_t file_max; /* bytes of a file */
	uint32_t link_max; /* names of a file */
	uint32_t major_max, minor_max; /* of a device */
	bool times_known;
	int64_t time_min, time_max; /* seconds since 1970 */
	uint32_t time_unit; /* ns */
	bool acl; /* POSIX ACLs */
	bool user_xattrs;
	uint32_t xattrs_max; /* bytes of all extended attributes of a file; 0 too: no limit */
	bool folds; /* names that differ in case only are one name to it */
};

struct target {
	int fd; /* O_RDONLY, -1 if not open */
	char path[PATH_MAX]; /* real path */
	struct stat st;
	const char *fstype;
	struct target_limits limits;
	uint64_t free_bytes, free_inodes;
};

struct source_facts {
	const char *uri; /* once preflight_source() has answered: as the volume keeps it */
	char settled[STUB_URI_MAX + 1];
	const char *join; /* smb:// URI of what Windows knows of the same tree, or NULL */
	uint64_t join_root; /* file id of its root */
	struct config config; /* what the retriever will work with */
	bool smb, file; /* neither: NFS */
	bool depot; /* streams go into a depot: facts.meta names them */
	bool no_acl; /* the new file system keeps no POSIX ACLs */
	char host[SOURCE_HOST_MAX]; /* as resolvers take it */
	char path[STUB_URI_MAX + 1]; /* of the export, or file; begins with '/'; SMB: "" */
	bool local; /* the host is this machine */
	dev_t dev; /* file: of its file system */
	struct stub_origin root;
	struct stub_attr attr;
	struct source_meta meta; /* what the root is to get beside attr; source_meta_free() */
	bool root_proven; /* uid 0 is not squashed, for certain */
	unsigned int sampled; /* entries looked at */
};

/* ---- preflight_target.c: existence, kind, abilities, room; then emptiness ---- */

int preflight_target(struct verdict *v, const char *dir, struct target *out);
int preflight_target_empty(struct verdict *v, const struct target *t);
/* Does it keep names apart that differ in case only? Tried with a directory, which is
 * removed again: @t has gone through preflight_target_empty(). */
int preflight_target_case(struct verdict *v, const struct target *t);
/* preflight_target() as far as it needs no writing; what else init would refuse is a warning. */
int preflight_target_look(struct verdict *v, const char *dir, struct target *out);
void target_close(struct target *t);

/* ---- target_limits.c: asked without writing ---- */

/* @fd: a directory there; @fstype: as in struct target; @dev: its st_dev. */
void target_limits(int fd, const char *fstype, dev_t dev, struct target_limits *out);

/* ---- preflight_uri.c: the URI is one, and its host is known ---- */

/* Fills all of @out but its config. */
int preflight_uri(struct verdict *v, const char *uri, struct source_facts *out);

/* What it is called in tables: "nfs", "smb" or "file". */
static inline const char *source_facts_protocol(const struct source_facts *f)
{
	return f->smb ? "smb" : f->file ? "file" : "nfs";
}

/* ---- preflight_file.c: a file:// source ---- */

/* Fills what preflight_uri() does. */
int preflight_file_uri(struct verdict *v, struct source_facts *facts);
/* Mounted?  And nobody can write there? */
int preflight_file(struct verdict *v, struct source_facts *facts);

/* ---- preflight_source.c: reachable, an export, readable, nothing reserved in it ---- */

/* facts->join, once facts->attr is there: reachable, and the root of the same tree. */
int preflight_join(struct verdict *v, struct source_facts *facts);

/* @facts has gone through preflight_uri() and has its config. @out stays open for the calls below. */
int preflight_source(struct verdict *v, struct source_facts *facts, struct source **out);

/* Is neither the target inside the source, nor the source inside the target? */
int preflight_overlap(struct verdict *v, const struct target *t, struct source *s,
		      const struct source_facts *facts);

/* ---- preflight_exports.c: what else the old server exports below ---- */

/* Warns of exports below this one (@below: struct source_traits) that are other file systems, or do
 * not show here what is in them. */
void preflight_exports(struct verdict *v, struct source *s, const struct source_facts *facts,
		       const char *below);

/* ---- preflight_depot.c: the directories of a depot of streams ---- */

/* Make them beside the volume that @t becomes, and note them in @info; @depot NULL: no depot. */
int preflight_depot(struct verdict *v, const struct target *t, const char *depot,
		    struct stub_volume_info *info);

/* ---- preflight_root.c: is uid 0 root over there? ---- */

int preflight_root(struct verdict *v, struct source *s, struct source_facts *facts);

#endif
