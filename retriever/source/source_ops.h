/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * source_ops.h - between source.c and the backends: one table each.
 *
 * Every function of the table keeps the promise of its namesake in source.h.
 */
#ifndef SOURCE_OPS_H
#define SOURCE_OPS_H

#include "source/source.h"

struct target_ops;
struct target_put;
struct target_windows;

struct source { /* the first member of what a backend's create() makes */
	const struct source_ops *ops;
	/* source_create()'s: in the directory that is known by `root` this name is not shown */
	char hides[STUB_NAME_MAX + 1]; /* "": none */
	struct source_id root;
};

struct source_ops {
	int (*create)(const struct source_config *c, struct source **out);
	void (*stop)(struct source *s);
	void (*destroy)(struct source *s); /* never NULL */
	int (*probe)(const struct source_config *c, unsigned int timeout_ms, char *why,
		     size_t why_size);
	int (*traits)(const struct source_config *c, unsigned int timeout_ms,
		      struct source_traits *out, char *why, size_t why_size);
	/* NULL: there is nothing to be settled */
	int (*settle)(const struct source_config *c, unsigned int timeout_ms, char *uri,
		      size_t size);
	void (*state)(struct source *s, struct source_state *out);
	void (*reload)(struct source *s); /* NULL: there is nothing to read again */
	int (*connections)(struct source *s, unsigned int n);
	void (*hurry)(struct source *s, uint64_t trace);
	int (*root)(struct source *s, struct stub_origin *out, struct stub_attr *attr);
	int (*lookup)(struct source *s, enum source_priority p, const struct stub_origin *dir,
		      const struct source_id *as, const char *name, size_t len,
		      struct stub_origin *out, struct stub_attr *attr);
	int (*verify)(struct source *s); /* NULL: 0 */
	int (*getattr)(struct source *s, enum source_priority p, const struct stub_origin *o,
		       struct stub_attr *attr);
	/* NULL: the mode is all there is */
	int (*rights)(struct source *s, enum source_priority p, const struct stub_origin *o,
		      struct stub_attr *attr);
	/* The inode's own bytes in @o (struct stub_entry, inode); NULL: all of the origin. */
	const uint8_t *(*inode)(const struct stub_origin *o, size_t *len);
	/* Look-ups and listings say of each object whether meta() brings more (stub_attr, more); else
	 * it does of all files and directories. */
	bool meta_told;
	bool by_handle; /* origins are handles, which say nothing to people */
	/* NULL: the same as getattr.  @as: attributes from NFS, whose owner, group, set-ID and
	 * sticky bits are taken, and without a descriptor also the mode; NULL: the server's. */
	int (*meta)(struct source *s, enum source_priority p, const struct stub_origin *o,
		    const struct stub_attr *as, struct source_meta *out);
	/* NULL: data never comes with it */
	int (*meta_data)(struct source *s, enum source_priority p, const struct stub_origin *o,
			 uint32_t want, struct source_meta *out);
	/* NULL: it only waits */
	uint32_t meta_bytes;
	int (*meta_send)(struct source *s, const struct stub_origin *o, uint32_t want, source_meta_fn fn,
			 void *arg);
	int64_t (*stream)(struct source *s, enum source_priority p, const struct stub_origin *o,
			  const char *name, uint64_t offset, void *buf, uint32_t length,
			  uint64_t *size); /* NULL: meta names none */
	/* the next two are NULL if the protocol cannot do it */
	int (*readlink)(struct source *s, enum source_priority p, const struct stub_origin *o,
			const struct source_id *as, char *buf, size_t size, size_t *len);
	int (*access)(struct source *s, const struct stub_origin *o, uint32_t uid, uint32_t want,
		      uint32_t *granted);
	int (*list)(struct source *s, enum source_priority p, const struct stub_origin *dir,
		    const struct source_id *as, source_entries_fn fn, void *arg);
	int (*holes)(struct source *s, enum source_priority p, const struct stub_origin *o,
		     uint64_t offset, struct source_holes *out); /* NULL: it cannot tell */
	int (*read)(struct source *s, enum source_priority p, const struct stub_origin *o,
		    uint64_t offset, uint32_t length, source_read_fn fn, void *arg);
	/* NULL: there is no descriptor to be had */
	int (*open)(struct source *s, enum source_priority p, const struct stub_origin *o, int *fd);
	int (*limits)(struct source *s, struct source_limits *out);
	const struct target_ops *target; /* NULL: nothing can be changed there */
	/* of target.h; NULL: it is no SMB */
	int (*put)(struct source *s, const struct stub_origin *o, const struct target_windows *w, bool look,
		   struct target_put *out);
};

/* Every function of this table keeps the promise of its namesake in target.h; none but able() is called
 * of a source that is not able. */
struct target_ops {
	bool (*able)(const struct source *s);
	int (*setattr)(struct source *s, const struct stub_origin *o, unsigned int what,
		       const struct stub_attr *a);
	int (*write)(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		     uint32_t length, uint64_t *verf);
	int (*keep)(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf, uint32_t length);
	int (*commit)(struct source *s, const struct stub_origin *o, uint64_t *verf);
	int (*make)(struct source *s, const struct stub_origin *dir, const char *name,
		    const struct stub_attr *a, const char *target, struct stub_origin *out,
		    struct stub_attr *attr);
	int (*link)(struct source *s, const struct stub_origin *o, const struct stub_origin *dir,
		    const char *name);
	int (*rename)(struct source *s, const struct stub_origin *dir, const char *name,
		      const struct stub_origin *to, const char *to_name);
	int (*remove)(struct source *s, const struct stub_origin *dir, const char *name);
	int (*rmdir)(struct source *s, const struct stub_origin *dir, const char *name);
	int (*setacl)(struct source *s, const struct stub_origin *o, const struct stub_attr *a,
		      const struct stub_xattr *access, const struct stub_xattr *dflt);
};

extern const struct source_ops nfs_source_ops, smb_source_ops, dual_source_ops, file_source_ops;

#endif
