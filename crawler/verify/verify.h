/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify.h - is the volume what the source is?  Both are read again and compared; what
 * clients have changed since is told apart (docs/decisions/0064).  Without a source content is
 * compared with the digests of what it gave (docs/decisions/0074).
 *
 * Nothing is changed on either side, but for .postcopy/verify, the number in the notes of what
 * was found right (finished.c), by which a comparison that was broken off goes on, and digests
 * that are wanted and missing.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"
#include "source/limiter.h"
#include "source/source.h"

#define VERIFY_WORKERS_MOST 32

/* What is not the same; bits. */
enum {
	VERIFY_MISSING = 1, /* the source has the name */
	VERIFY_EXTRA = 2,   /* the volume has it */
	VERIFY_OTHER = 4,   /* the name leads to what was made of another object */
	VERIFY_TYPE = 8,
	VERIFY_OWNER = 16,
	VERIFY_MODE = 32,
	VERIFY_MTIME = 64,
	VERIFY_SIZE = 128,
	VERIFY_CONTENT = 256,
	VERIFY_TARGET = 512,
	VERIFY_DEVICE = 1024,
	VERIFY_LINKS = 2048,
	VERIFY_ACL = 4096,
	VERIFY_STREAM = 8192,
	VERIFY_XATTR = 16384,
	VERIFY_UNREAD = 32768, /* one side could not be read */
};
#define VERIFY_WHATS 16
extern const char *const verify_what[VERIFY_WHATS]; /* by bit */

/* Why it is not the same. */
enum verify_class {
	VERIFY_DIFFERENT, /* and nobody has changed it here */
	VERIFY_UNCLEAR,	  /* nothing tells whether somebody has */
	VERIFY_CHANGED,	  /* clients have changed it here */
};
#define VERIFY_CLASSES 3
extern const char *const verify_class[VERIFY_CLASSES];

struct verify_found {
	enum verify_class class;
	unsigned int what;
	const char *path; /* of the source; of the volume if the source has none */
	const char *now;  /* where it is on the volume, if it was moved; else NULL */
	const char *why;  /* more about it, or NULL */
	bool source_newer; /* the source's was changed after the volume was made */
};

/* An object that is the same on both sides. */
#define VERIFY_DIGEST 32
struct verify_proven {
	const char *path; /* on the volume */
	const struct stat *st;
	const char *target;    /* of symlinks; else NULL */
	const uint8_t *sha256; /* of files' content as the source gave it; else NULL */
};

struct verify_counts {
	uint64_t objects;  /* names of the source; without one, of the volume */
	uint64_t right;	   /* the same on both sides; some by an earlier run of this comparison */
	uint64_t read;	   /* files whose content was compared in this run */
	uint64_t bytes;	   /* of these */
	uint64_t earlier;  /* files whose content was found right by an earlier run */
	uint64_t listed;   /* with a sample: objects that were compared by their listing only */
	uint64_t pending;  /* not migrated yet, or not finished */
	uint64_t made;	   /* names that clients made */
	uint64_t gone;	   /* names that clients removed */
	uint64_t moved;	   /* objects that clients have moved, and that were compared there */
	uint64_t unproven; /* without a source: files of whose content nothing is known */
	uint64_t found[VERIFY_CLASSES];
};

struct verify_pace;

struct verify {
	/* to be set */
	struct stub_volume *volume;
	struct source *source; /* NULL: without it, by digests */
	bool digests; /* keep those that are missing of what the source gives */
	unsigned int workers;
	uint64_t sample; /* so many files are read, chosen evenly; 0: all */
	uint32_t number; /* of this comparison, not 0 */
	const char *depot; /* directory of streams; "": none */
	int64_t time_min, time_max; /* what the volume's file system can express, seconds ... */
	uint32_t time_unit;	    /* ... and nanoseconds */
	struct verify_pace *pace;
	/* not called at the same time; not for names that clients made or removed */
	void (*found)(void *arg, const struct verify_found *f);
	void (*progress)(void *arg, const struct verify *v); /* about once a second */
	/* NULL, or all objects that are the same, with digests: everything is read in this run.
	 * Not with a sample, and not called at the same time as found() */
	void (*proven)(void *arg, const struct verify_proven *p);
	void *arg;

	struct verify_counts n;
	bool stopped; /* by SIGINT or SIGTERM */
};

/*
 * Compare.  0: to the end; or what has broken it off:
 *   -ETIMEDOUT, -ENOMEDIUM  the source is lost
 *   -ECANCELED  v->stopped
 *   -ENOMEM, -EIO (of the volume) ...
 */
int verify_run(struct verify *v);

/* ---- verify_manifest.c ---- */

void verify_manifest_line(FILE *f, const struct verify_proven *p);

/* ---- verify_pace.c: no faster than the crawl ---- */

/* @bytes_per_s as the configuration has it; what commands have set counts more, and is looked
 * at again every second.  @root_fd is the volume's. */
/* @limiter: the source's, of which the rules are kept as they are set, or as @c has them. */
int verify_pace_create(int root_fd, const struct config *c, struct limiter *limiter,
		       struct verify_pace **out);
void verify_pace_destroy(struct verify_pace *p);
/* Wait until so many bytes may be read.  -ECANCELED: after verify_pace_stop() */
int verify_pace_turn(struct verify_pace *p, uint64_t bytes);
void verify_pace_stop(struct verify_pace *p);
/* Why nothing is read just now; NULL: it is. */
const char *verify_pace_waits(const struct verify_pace *p);

/* ---- verify_state.c: .postcopy/verify ---- */

#define VERIFY_STATE "verify"

enum verify_result {
	VERIFY_NEVER,	/* there was no comparison */
	VERIFY_RUNNING, /* or it was killed */
	VERIFY_BROKEN,	/* it broke off; it goes on when it is begun again */
	VERIFY_RIGHT,	/* nothing but clients' changes */
	VERIFY_WRONG,	/* something is different, unclear or pending */
};
extern const char *const verify_results[];

struct verify_state {
	uint32_t number;
	uint64_t sample; /* 0: all */
	enum verify_result result;
	uint64_t began, ended; /* seconds since the epoch; ended 0: it has not */
	struct verify_counts n;
};

/* Of the volume whose root is open at @root_fd; VERIFY_NEVER if there was none.  -EBADMSG: it is
 * damaged; -errno */
int verify_state_load(int root_fd, struct verify_state *out);
/* On the disk when it returns, whole or not at all.  -errno */
int verify_state_store(int root_fd, const struct verify_state *s);
/* One at a time: a descriptor that is the lock.  -EBUSY: another one runs; -errno */
int verify_state_lock(int root_fd);

#endif
