/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_inside.h - what the files of this folder share; nobody else includes it.
 *
 *   verify_walk.c    workers, and the order of it all
 *   verify_tasks.c   what they have to do, and what they tell
 *   verify_dir.c     one directory: names of both sides
 *   verify_object.c  one object: is it the same, and if not, why?
 *   verify_read.c    content and streams
 *   verify_alone.c   all of it without the source
 *   verify_moved.c   what is not where it was
 *
 * Locking: struct run.lock guards its fields, the counts, and serialises found().  Neither
 * side is asked for anything with the lock held.  Items and directories belong to one worker at
 * a time, or are not changed (but for references, with the lock).
 */
#ifndef VERIFY_INSIDE_H
#define VERIFY_INSIDE_H

#include <pthread.h>

#include "verify/verify.h"

/* May a difference be a client's? */
enum trust {
	TRUST_KEPT, /* nobody has changed it since we let it go, nor before */
	TRUST_TOUCHED,
	TRUST_NONE, /* nothing is known */
};

struct reading; /* verify_read.c */

struct here { /* an object of the volume */
	int fd; /* O_PATH */
	struct stub_handle h;
	struct stat st;
	bool stub;
	bool noted;
	struct stub_finished note;
	enum trust trust;
	struct timespec born; /* 0: the file system does not tell */
	struct reading *ahead; /* of its content, under way; or NULL */
};

struct dir { /* of either side, or both */
	unsigned int refs;
	bool here, there;
	struct stub_handle h;
	enum trust trust;
	struct timespec since; /* when we let it go; 0: not known */
	struct source_id id;
	struct stub_origin *origin; /* NULL unless there */
	char *at; /* where it is on the volume, if it was moved; else NULL */
	char path[];
};

struct item { /* a name of the source */
	struct item *next;
	struct stub_attr attr;
	int error;
	bool dummy;
	bool chosen;	   /* its content is compared */
	unsigned int told; /* of a sample: what was found before it was chosen */
	uint64_t rank;	   /* those with the smallest are chosen */
	uint16_t origin_len, name_len, target_len;
	uint8_t bytes[]; /* origin, name and NUL, target and NUL */
};

struct task {
	struct task *below;
	struct dir *dir;    /* a reference */
	struct item *items; /* NULL: the directory itself */
	const char *now;    /* the one item was moved to there; else NULL */
	struct stub_handle h; /* of what is there */
};

struct lost {
	struct dir *dir;
	struct item *item;
};

struct stray {
	struct stub_handle h;
	uint64_t fileid;
	bool linked; /* it has other names */
	bool now;    /* moved since the comparison began */
	bool taken;
	char *path;
};

struct run {
	struct verify *v;
	int volume_fd;
	dev_t volume_dev;
	uint64_t created; /* the volume; seconds */
	int64_t began;	  /* this run; seconds */
	uint32_t block;	  /* bytes of a READ */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *top;
	unsigned int busy, running;
	bool stop;
	int error;
	struct lost *lost;
	size_t n_lost, cap_lost;
	struct stray *strays;
	size_t n_strays, cap_strays;
	struct lost *chosen; /* a heap, the largest rank first */
	size_t n_chosen, cap_chosen;
	uint64_t *read; /* without a source: inodes of several names that are right; hashed */
	size_t n_read, cap_read;
};

static inline int time_cmp(struct timespec a, struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec < b.tv_sec ? -1 : 1;
	return a.tv_nsec == b.tv_nsec ? 0 : a.tv_nsec < b.tv_nsec ? -1 : 1;
}

/* ---- verify_tasks.c ---- */

struct dir *dir_create(const struct here *h, const struct stub_origin *origin,
		       const struct stub_attr *a, const char *path);
void dir_put(struct run *k, struct dir *d);
struct dir *dir_get(struct run *k, struct dir *d);
char *path_join(const char *dir, const char *name); /* malloc */
static inline const char *item_name(const struct item *i)
{
	return (const char *)i->bytes + i->origin_len;
}
static inline const char *item_target(const struct item *i)
{
	return item_name(i) + i->name_len + 1;
}
/* Takes over the reference, and the items.  -ENOMEM: they are gone */
int task_push(struct run *k, struct dir *d, struct item *items);
/* The one @item was moved: @h is at @now, which stays as long as the run. */
int task_push_moved(struct run *k, struct dir *d, struct item *item, const struct stub_handle *h,
		    const char *now);
/* Count, and tell. */
void run_tell(struct run *k, const struct verify_found *f);
void run_count(struct run *k, uint64_t *what, uint64_t n);
/* Of a sample: may @i be among the files that are read?  *mine becomes false if it is kept for
 * that; what had to go for it is freed. */
int run_choose(struct run *k, struct dir *d, struct item *i, bool *mine);
bool run_fatal(int r); /* the source is lost, or the end was asked for */

void items_free(struct item *i);
/* What the source has in @d, and the volume elsewhere; takes @i over. */
int moved_lost(struct run *k, struct dir *d, struct item *i);
/* What the volume has at @path, and the source elsewhere. */
int moved_stray(struct run *k, const struct here *h, const char *path);
void lost_forget(struct run *k, struct lost *l);
void moved_free(struct run *k);

/* ---- verify_dir.c ---- */

int verify_dir(struct run *k, struct dir *d);
int verify_items(struct run *k, struct dir *d, struct item *items);

/* ---- verify_object.c ---- */

/* The object @name of the directory @dir_fd; @name NULL: the one with the handle @h.  Filled: to
 * be closed.  -ENOENT, -ESTALE, -errno */
int here_look(struct run *k, int dir_fd, const char *name, const struct stub_handle *h,
	      struct here *out);
void here_close(struct here *h);
/* Look at the directory again: have clients changed it by now? */
enum trust dir_trust(struct run *k, struct dir *d);
/* Was it born after we let @d go? */
bool here_younger(const struct here *h, const struct dir *d);
/* Compare @i, a name of @d, with @h, which is at @now, NULL: at that name. */
int verify_object(struct run *k, struct dir *d, struct item *i, struct here *h,
		  const char *now);

/* The time that the volume's file system makes of @t. */
struct timespec time_expressed(const struct run *k, struct timespec t);
extern const uint8_t verify_empty[VERIFY_DIGEST]; /* the SHA-256 of nothing */

/* ---- verify_read.c ---- */

struct verify_digests { /* of one file's content */
	bool plain, kept; /* are wanted ... */
	uint8_t sha256[VERIFY_DIGEST]; /* ... of its bytes */
	uint8_t tree[STUB_DIGEST];     /* ... as it is kept, see digest/digest.h */
};

/* 0: the same, and @out is of it; 1: not; *why says more.  -errno: the source's. */
int verify_content(struct run *k, const struct item *i, struct here *h,
		   struct verify_digests *out, const char **why);
/* The next one to be compared, or one of the next: ask the source for it already, if it is small.
 * here_close() waits for what was not wanted then. */
void verify_ahead(struct run *k, const struct item *i, struct here *h);
void verify_ahead_drop(struct here *h);
/* What the volume's disk has.  0: @out, both if the plain one is wanted; 1: it cannot be read;
 * -ECANCELED, -ENOMEM */
int verify_disk(struct run *k, const struct here *h, struct verify_digests *out, const char **why);
/* The same of the streams of @m in the depot; *touched: clients have changed one after @since. */
int verify_streams(struct run *k, const struct item *i, const struct here *h,
		   const struct source_meta *m, struct timespec since, bool *touched);

/* ---- verify_alone.c: as those of verify_dir.c ---- */

int alone_begin(struct run *k); /* the root is a task */
int alone_dir(struct run *k, struct dir *d);
int alone_items(struct run *k, struct dir *d, struct item *items);

/* ---- verify_moved.c ---- */

/* Compare @i of @d, and what is below it, with what it was moved to; frees @i. */
int verify_moved(struct run *k, struct dir *d, struct item *i, const struct stub_handle *h,
		 const char *now);
/* Bring together what can be, then look into directories that were removed.  1: there is more for
 * the workers to do, and then for another turn; 0; -errno */
int moved_turn(struct run *k);
int moved_tell(struct run *k); /* at the end: what has no counterpart */

#endif
