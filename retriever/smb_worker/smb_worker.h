/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_worker.h - what the rooms of postcopy-smb-worker share.
 *
 *   smb_worker.c   main: requests in, answers out
 *   smb_connect.c  the connection: configuration, credentials, why it fails
 *   smb_names.c    look-ups and listings
 *   smb_files.c    attributes, and bytes through handles that stay open
 *   smb_holes.c    where a file has no data
 *   smb_bring.c    what else the server knows of an object, made ready to be stored
 *   smb_failed.c   what a failed call means
 *   smb_exact.c    what libsmbclient does not tell, from Samba's libsmb below it
 *   smb_list.c     a directory's entries, likewise
 *   smb_about.c    all that the server knows of an object, likewise
 *   smb_many.c     of several at once
 *   smb_want.c     what an object is to have there: PUT; smb_put.c sets it
 *   smb_pulse.c    tells the retriever that the server is sending; ends with it
 *
 * One thread works; the pulse's never calls libsmbclient, which is not thread-safe.
 */
#ifndef SMB_WORKER_H
#define SMB_WORKER_H

#include <libsmbclient.h>
#include <pthread.h>

#include "smb_worker/smb_exact.h"
#include "smb_worker/smb_failed.h"
#include "smb_worker/smb_many.h"
#include "windows/smb_meta.h"
#include "smb/smb_wire.h"

#define WORKER_HANDLES 16 /* files kept open ... */
/* ... for so long.  smbd tells the write time as it was when somebody opened the file: what
 * programs over there change is not seen as long as any of us has it open. */
#define WORKER_HANDLE_MS 1000

struct worker_file {
	char *path; /* NULL: free */
	SMBCFILE *file;
	uint64_t size; /* as last heard: libsmb gets confused when it reads far beyond the end */
	uint32_t attributes; /* FILE_ATTRIBUTE_*, likewise */
	uint64_t span; /* of so much the ranges fit in an answer; 0: of all, as far as is known */
	uint64_t used; /* larger: used later */
	uint64_t opened_ms;
};

struct worker {
	int fd; /* the retriever */
	SMBCCTX *context;
	smbc_add_cached_srv_fn add_server; /* libsmbclient's own */
	bool connected;
	/* from START */
	uint32_t flags, uid, gid, file_mode, dir_mode;
	char *host, *share, *root, *user, *domain, *password, *home; /* home: argv's */
	uint16_t port;
	uint64_t root_fileid;
	struct smb_idmap *idmap;
	struct smb_meta_config meta;

	struct many *many;
	struct worker_file files[WORKER_HANDLES];
	uint64_t clock;
	struct smb_out out;
	bool no_holes; /* what the server says of them is not to be believed */
	char why[256]; /* of the last failure, for people */
	bool (*root_there)(struct worker *w); /* does the share still show its root? */
};

/* ---- smb_connect.c ---- */

int worker_connect(struct worker *w, const struct smb_start *s, struct stub_attr *root);

/* ---- smb_names.c ---- */

int worker_list(struct worker *w, const char *path);
int worker_lookup(struct worker *w, const char *path, const char *name);

/* ---- smb_files.c ---- */

void worker_attr(const struct worker *w, const char *path, const char *name,
		 const struct exact_info *i, struct stub_attr *out);
/* The URL of a path below the share, malloc()ed; NULL: no memory. */
char *worker_url(const struct worker *w, const char *path);
int worker_getattr(struct worker *w, const char *path, struct stub_attr *out);
int worker_read(struct worker *w, const char *path, uint64_t offset, uint32_t length);
/* The handle of @path, opened if it is not open. */
int worker_file_open(struct worker *w, const char *path, struct worker_file **out);
void worker_file_close(struct worker *w, struct worker_file *f);
/* Close what is old.  False: none is open. */
bool worker_files_rest(struct worker *w);
bool worker_files_due(const struct worker *w); /* is an old one open? */
/* Ask what the open file is like now. */
int worker_file_look(struct worker *w, struct worker_file *f, struct exact_info *i);
/* Bytes into @buf: how many, less than @length only at the end; -1 and errno. */
int64_t worker_file_read(struct worker *w, struct worker_file *f, uint64_t offset, char *buf,
			 uint32_t length);

/* ---- smb_holes.c ---- */

int worker_holes(struct worker *w, const char *path, uint64_t offset);

/* ---- smb_bring.c ---- */

int worker_meta_start(struct worker *w, const struct smb_start *s); /* -EACCES: the idmap */
int worker_meta(struct worker *w, const char *path, const struct smb_request *r);
/* Ask it with others (smb_many.c), to be answered with worker_meta_of().  False: no memory. */
bool worker_meta_add(struct worker *w, uint32_t tag, const struct smb_request *r);
int worker_meta_of(struct worker *w, struct many_one *o);
/* @name: ":NAME:$DATA" */
int worker_stream(struct worker *w, const char *path, const char *name, uint64_t offset,
		  uint32_t length);

/* ---- smb_want.c ---- */

int worker_put(struct worker *w, const char *path, const struct smb_request *r);

/* ---- smb_pulse.c ---- */

int pulse_start(struct worker *w);
void pulse_busy(bool busy); /* a request is being worked on */
int worker_send(struct worker *w); /* w->out: 0 or WORKER_LOST; the one way to the retriever */
void worker_leave(const struct worker *w) __attribute__((noreturn)); /* by any thread */

#endif
