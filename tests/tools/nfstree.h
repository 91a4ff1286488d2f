/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfstree: one manifest line for each object of an NFSv3 export.
 *
 *   nfstree.c           options, the main loop, progress
 *   nfstree_link.c      connections: calls in flight, retries, reconnecting
 *   nfstree_walk.c      what to ask next: listing, link targets
 *   nfstree_hash.c      reading and hashing of files
 *   nfstree_manifest.c  writing and comparing manifests
 *
 * One thread.  libnfs is used for its raw calls only; each connection is one
 * libnfs context.  Callbacks never send: they change our own queues, and the
 * main loop sends, so that a context can be torn down at any time.
 */
#ifndef NFSTREE_H
#define NFSTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#define NT_MAX_LINKS 16
#define NT_MAX_FH    64
#define NT_READ_SIZE (1024u * 1024) /* libnfs takes no larger reply */
#define NT_LIST_SIZE (256u * 1024)

/* Exit status. */
enum { NT_OK = 0, NT_DIFFERENT = 1, NT_OBJECT_ERRORS = 2, NT_SERVER_LOST = 3, NT_USAGE = 64 };

struct nt_options {
	char *server;
	char *export;
	int nfs_port; /* 0: ask the portmapper */
	int mount_port;
	int uid, gid;
	int connections;
	int jobs; /* calls in flight per connection */
	int retry_seconds; /* how long a server may be away */
	int timeout_seconds; /* a connection is dead after this silence */
	bool hash;
	bool atime;
	bool progress;
};

/* One object.  Owned by the walk; lives until the manifest is written. */
struct nt_node {
	struct nt_node *next; /* in a work queue, then in no list */
	struct nt_node *parent;
	char *path; /* bytes, relative, "" is the root */
	size_t path_len;
	uint8_t fh[NT_MAX_FH];
	uint32_t fh_len;
	bool have_attrs;
	fattr3 attrs;
	char *target; /* symlinks */
	bool have_hash;
	uint8_t hash[32];
	char error[40]; /* "" or why this line is incomplete */
};

struct nt_op;
typedef int (*nt_send_fn)(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op);
/* res is the decoded result, NULL if the call never got through. */
typedef void (*nt_done_fn)(struct nt_op *op, nfsstat3 status, void *res);

/* One call: from nt_pool_submit() until its done function is entered. */
struct nt_op {
	struct nt_op *next;
	nt_send_fn send;
	nt_done_fn done;
	struct nt_node *node;
	void *owner; /* listing or file being hashed */
	uint64_t offset; /* of the READ */
	uint32_t count;
	struct nt_link *link;
	double first_delay; /* time of the first JUKEBOX in a row, 0: none */
	double not_before;
	double pause;
	int rpc_errors;
};

struct nt_stats {
	uint64_t objects, directories, files, bytes;
	uint64_t calls, delays, reconnects, errors;
};

extern struct nt_stats nt_stats;

/* nfstree_link.c */
double nt_now(void);
int nt_pool_start(const struct nt_options *options);
void nt_pool_stop(void);
int nt_pool_mount(uint8_t *fh, uint32_t *fh_len);
/* Number of calls that may still be submitted without queueing up. */
int nt_pool_room(void);
void nt_pool_submit(struct nt_op *op);
bool nt_pool_busy(void);
/* Send, wait up to ms, receive.  -1: the server has been away too long. */
int nt_pool_turn(int ms);

/* nfstree_walk.c */
void nt_walk_start(const struct nt_options *options, const uint8_t *fh, uint32_t fh_len);
/* Submit calls while there is room. */
void nt_walk_pump(void);
bool nt_walk_done(void);
/* All nodes found, in no order; the caller owns the array, not the nodes. */
struct nt_node **nt_walk_nodes(size_t *count);
void nt_walk_finish(void);
void nt_node_fail(struct nt_node *node, const char *why);
void nt_node_fail_status(struct nt_node *node, const char *what, nfsstat3 status);
struct nfs_fh3 nt_node_fh(struct nt_node *node);

/* nfstree_hash.c */
void nt_hash_start(struct nt_node *node, uint32_t read_size);
/* Calls that files already begun could use now. */
void nt_hash_pump(void);
int nt_hash_active(void);

/* nfstree_manifest.c */
int nt_manifest_write(FILE *out, struct nt_node **nodes, size_t count,
		      const struct nt_options *options);
/* ignore: comma-separated fields.  Returns an exit status. */
int nt_manifest_diff(const char *a, const char *b, const char *ignore, bool atime,
		     unsigned long show);

#endif
