// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfsparcopy N HOST NFSPORT MOUNTPORT EXPORT DIR - copy an NFS export into an empty directory as fast as N connections
 * of one call each can: the yardstick that a migration is measured against.
 *
 * READDIRPLUS brings handles and sizes; then READ, and open, write, close here; nothing else is
 * asked or kept: no attributes, links or times.  One syncfs at the end.  If DIR is "-", nothing
 * is kept of what was read.  Prints one line of JSON: files, directories, bytes, seconds (with
 * the sync).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#define BLOCK (1u << 20)
#define PAGE  (64u << 10) /* of READDIRPLUS */
#define COOKIEVERF 8

struct item {
	struct item *next;
	bool dir;
	uint64_t size;
	unsigned int fh_len;
	char fh[NFS3_FHSIZE];
	char path[]; /* below DIR */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct item *stack;
	uint64_t left; /* on the stack, or worked on */
	uint64_t files, dirs, bytes;
} todo = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

static int top = -1; /* DIR; -1: nothing is kept */

static void die(const char *what, const char *path, const char *why)
{
	fprintf(stderr, "nfsparcopy: %s \"%s\": %s\n", what, path, why);
	exit(1);
}

static struct item *item_new(const char *dir, const char *name, const nfs_fh3 *fh)
{
	struct item *i = calloc(1, sizeof(*i) + strlen(dir) + strlen(name) + 2);

	if (!i)
		die("memory for", name, strerror(ENOMEM));
	if (fh->data.data_len > sizeof(i->fh))
		die("handle of", name, "too long");
	sprintf(i->path, "%s%s%s", dir, *dir ? "/" : "", name);
	i->fh_len = fh->data.data_len;
	memcpy(i->fh, fh->data.data_val, i->fh_len);
	return i;
}

static void push(struct item *i)
{
	pthread_mutex_lock(&todo.lock);
	i->next = todo.stack;
	todo.stack = i;
	todo.left++;
	pthread_cond_signal(&todo.more);
	pthread_mutex_unlock(&todo.lock);
}

/* NULL: all is done. */
static struct item *pop(void)
{
	struct item *i;

	pthread_mutex_lock(&todo.lock);
	while (!todo.stack && todo.left)
		pthread_cond_wait(&todo.more, &todo.lock);
	i = todo.stack;
	if (i)
		todo.stack = i->next;
	pthread_mutex_unlock(&todo.lock);
	return i;
}

static void done(struct item *i, uint64_t bytes)
{
	pthread_mutex_lock(&todo.lock);
	*(i->dir ? &todo.dirs : &todo.files) += 1;
	todo.bytes += bytes;
	if (--todo.left == 0)
		pthread_cond_broadcast(&todo.more);
	pthread_mutex_unlock(&todo.lock);
	free(i);
}

/* ---- one call at a time ---- */

struct conn {
	struct rpc_context *rpc;
	struct item *item;
	bool answered;
	/* of a page */
	uint64_t cookie;
	char verf[COOKIEVERF];
	bool eof;
	/* of a READ */
	int fd;
	uint64_t at;
};

static nfs_fh3 handle(struct conn *c)
{
	nfs_fh3 fh = { .data = { c->item->fh_len, c->item->fh } };

	return fh;
}

static void wait_answer(struct conn *c)
{
	while (!c->answered) {
		struct pollfd p = { .fd = rpc_get_fd(c->rpc),
				    .events = (short)rpc_which_events(c->rpc) };

		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			die("poll for", c->item->path, strerror(errno));
		if (rpc_service(c->rpc, p.revents) < 0)
			die("connection for", c->item->path, rpc_get_error(c->rpc));
	}
}

static void *answer(struct conn *c, int status, void *reply, const char *what)
{
	c->answered = true;
	if (status != RPC_STATUS_SUCCESS || *(nfsstat3 *)reply != NFS3_OK)
		die(what, c->item->path, rpc_get_error(c->rpc));
	return reply;
}

static void on_entry(struct conn *c, const struct entryplus3 *e)
{
	const struct fattr3 *a = &e->name_attributes.post_op_attr_u.attributes;
	struct item *i;

	c->cookie = e->cookie;
	if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
		return;
	if (!e->name_attributes.attributes_follow || !e->name_handle.handle_follows)
		die("entry", e->name, "without attributes or handle");
	if (a->type != NF3DIR && a->type != NF3REG)
		return;
	i = item_new(c->item->path, e->name, &e->name_handle.post_op_fh3_u.handle);
	i->dir = a->type == NF3DIR;
	i->size = a->size;
	if (i->dir && top >= 0 && mkdirat(top, i->path, 0755) < 0)
		die("creating", i->path, strerror(errno));
	push(i);
}

static void on_page(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct conn *c = arg;
	const READDIRPLUS3res *r = answer(c, status, data, "listing");
	const READDIRPLUS3resok *ok = &r->READDIRPLUS3res_u.resok;

	(void)rpc;
	for (const struct entryplus3 *e = ok->reply.entries; e; e = e->nextentry)
		on_entry(c, e);
	memcpy(c->verf, ok->cookieverf, sizeof(c->verf));
	c->eof = ok->reply.eof;
}

static void copy_dir(struct conn *c)
{
	c->cookie = 0;
	memset(c->verf, 0, sizeof(c->verf));
	do {
		READDIRPLUS3args args = { .dir = handle(c), .cookie = c->cookie,
					  .dircount = PAGE, .maxcount = PAGE };

		memcpy(args.cookieverf, c->verf, sizeof(c->verf));
		c->answered = false;
		if (rpc_nfs3_readdirplus_async(c->rpc, on_page, &args, c))
			die("listing", c->item->path, rpc_get_error(c->rpc));
		wait_answer(c);
	} while (!c->eof);
}

static void on_data(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct conn *c = arg;
	const READ3res *r = answer(c, status, data, "reading");
	const READ3resok *ok = &r->READ3res_u.resok;

	(void)rpc;
	if (top >= 0 &&
	    write(c->fd, ok->data.data_val, ok->data.data_len) != (ssize_t)ok->data.data_len)
		die("writing", c->item->path, strerror(errno));
	c->at += ok->data.data_len;
	c->eof = ok->eof || ok->data.data_len == 0;
}

static uint64_t copy_file(struct conn *c)
{
	if (top >= 0)
		c->fd = openat(top, c->item->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	if (top >= 0 && c->fd < 0)
		die("creating", c->item->path, strerror(errno));
	c->at = 0;
	for (c->eof = c->item->size == 0; !c->eof;) {
		READ3args args = { .file = handle(c), .offset = c->at, .count = BLOCK };

		c->answered = false;
		if (rpc_nfs3_read_async(c->rpc, on_data, &args, c))
			die("reading", c->item->path, rpc_get_error(c->rpc));
		wait_answer(c);
	}
	if (top >= 0 && close(c->fd) < 0)
		die("closing", c->item->path, strerror(errno));
	return c->at;
}

/* ---- the whole ---- */

static void *worker(void *arg)
{
	struct conn *c = arg;

	while ((c->item = pop()))
		done(c->item, c->item->dir ? (copy_dir(c), 0) : copy_file(c));
	return NULL;
}

static void on_connected(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct conn *c = arg;

	(void)data;
	c->answered = true;
	if (status != RPC_STATUS_SUCCESS)
		die("connecting to", c->item->path, rpc_get_error(rpc));
}

static void dial(struct conn *c, const char *host, const char *port, int program)
{
	c->rpc = rpc_init_context();
	c->answered = false;
	if (!c->rpc || rpc_connect_port_async(c->rpc, host, atoi(port), program, 3, on_connected, c))
		die("connecting to", host, c->rpc ? rpc_get_error(c->rpc) : strerror(ENOMEM));
	wait_answer(c);
}

static void on_mounted(struct rpc_context *rpc, int status, void *data, void *arg)
{
	const mountres3 *m = data;
	struct conn *c = arg;
	nfs_fh3 fh;
	struct item *i;

	c->answered = true;
	if (status != RPC_STATUS_SUCCESS || m->fhs_status != MNT3_OK)
		die("mounting", c->item->path, rpc_get_error(rpc));
	fh.data.data_len = m->mountres3_u.mountinfo.fhandle.fhandle3_len;
	fh.data.data_val = m->mountres3_u.mountinfo.fhandle.fhandle3_val;
	i = item_new("", "", &fh);
	i->dir = true;
	push(i);
}

static void push_root(struct conn *c, const char *host, const char *port, char *export)
{
	dial(c, host, port, MOUNT_PROGRAM);
	c->answered = false;
	if (rpc_mount3_mnt_async(c->rpc, on_mounted, export, c))
		die("mounting", export, rpc_get_error(c->rpc));
	wait_answer(c);
	rpc_destroy_context(c->rpc);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned int n = argc == 7 ? (unsigned int)atoi(argv[1]) : 0;
	struct item *none; /* what a connection is for before there is anything */
	struct conn *conns;
	pthread_t *threads;
	double begin;

	if (n < 1 || n > 1024) {
		fputs("usage: nfsparcopy N HOST NFSPORT MOUNTPORT EXPORT DIR\n", stderr);
		return 2;
	}
	if (strcmp(argv[6], "-") != 0) {
		top = open(argv[6], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (top < 0)
			die("opening", argv[6], strerror(errno));
	}
	conns = calloc(n, sizeof(*conns));
	threads = calloc(n, sizeof(*threads));
	if (!conns || !threads)
		die("memory for", argv[1], strerror(ENOMEM));
	none = item_new("", argv[2], &(nfs_fh3){ { 0, NULL } });
	for (unsigned int i = 0; i < n; i++)
		conns[i].item = none;
	push_root(&conns[0], argv[2], argv[4], argv[5]);
	for (unsigned int i = 0; i < n; i++)
		dial(&conns[i], argv[2], argv[3], NFS_PROGRAM);
	begin = now();
	for (unsigned int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, worker, &conns[i]))
			die("thread", argv[1], "cannot be begun");
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (top >= 0 && syncfs(top) < 0)
		die("syncing", argv[6], strerror(errno));
	printf("{\"files\": %" PRIu64 ", \"directories\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"seconds\": %.3f}\n", todo.files, todo.dirs - 1, todo.bytes, now() - begin);
	for (unsigned int i = 0; i < n; i++)
		rpc_destroy_context(conns[i].rpc);
	free(none);
	free(conns);
	free(threads);
	return 0;
}
