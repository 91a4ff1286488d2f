// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstree: the walk.
 *
 * Breadth first: directories wait in one queue, files and symlinks in another,
 * directories go first.  A directory's entries are kept in its listing until
 * the server says eof, then become nodes all at once; so a listing that has to
 * start again (stale cookie) leaves nothing behind.
 *
 * The server is not trusted: names that are no names, cookies that do not
 * move, directories that contain themselves are errors of that directory.
 */
#include <stdlib.h>
#include <string.h>

#include "nfstree.h"

#define MAX_RESTARTS 8 /* of one listing */
#define MAX_PATH_LEN 65536

struct listing {
	struct nt_node *dir;
	struct nt_node *entries;
	cookie3 cookie;
	char verifier[NFS3_COOKIEVERFSIZE];
	int restarts;
};

struct queue {
	struct nt_node *head, **tail;
};

static const struct nt_options *opt;
static struct queue dirs = { NULL, &dirs.head }, others = { NULL, &others.head };
static struct nt_node **nodes;
static size_t n_nodes, nodes_size;
static uint32_t read_size = NT_READ_SIZE;

static void *xalloc(void *p)
{
	if (!p) {
		fprintf(stderr, "nfstree: out of memory\n");
		exit(NT_SERVER_LOST);
	}
	return p;
}

static void push(struct queue *q, struct nt_node *node)
{
	node->next = NULL;
	*q->tail = node;
	q->tail = &node->next;
}

static struct nt_node *pop(struct queue *q)
{
	struct nt_node *node = q->head;

	if (node) {
		q->head = node->next;
		if (!q->head)
			q->tail = &q->head;
		node->next = NULL;
	}
	return node;
}

void nt_node_fail(struct nt_node *node, const char *why)
{
	if (!node->error[0]) {
		snprintf(node->error, sizeof(node->error), "%s", why);
		nt_stats.errors++;
		fprintf(stderr, "nfstree: %s: %s\n", node->path_len ? node->path : ".", why);
	}
}

void nt_node_fail_status(struct nt_node *node, const char *what, nfsstat3 status)
{
	char why[sizeof(node->error)];

	snprintf(why, sizeof(why), "%s:%s", what, nfsstat3_to_str(status));
	nt_node_fail(node, why);
}

struct nfs_fh3 nt_node_fh(struct nt_node *node)
{
	return (struct nfs_fh3){ { node->fh_len, (char *)node->fh } };
}

static struct nt_op *op_new(struct nt_node *node, nt_send_fn send, nt_done_fn done)
{
	struct nt_op *op = xalloc(calloc(1, sizeof(*op)));

	op->node = node;
	op->send = send;
	op->done = done;
	return op;
}

static struct nt_node *node_new(struct nt_node *parent, const char *name)
{
	struct nt_node *node = xalloc(calloc(1, sizeof(*node)));
	size_t n = strlen(name), prefix = parent && parent->path_len ? parent->path_len + 1 : 0;

	node->parent = parent;
	node->path_len = prefix + n;
	node->path = xalloc(malloc(node->path_len + 1));
	if (prefix) {
		memcpy(node->path, parent->path, prefix - 1);
		node->path[prefix - 1] = '/';
	}
	memcpy(node->path + prefix, name, n + 1);
	return node;
}

static void node_free(struct nt_node *node)
{
	free(node->path);
	free(node->target);
	free(node);
}

static bool is_own_ancestor(const struct nt_node *node)
{
	for (const struct nt_node *up = node->parent; up; up = up->parent)
		if (up->attrs.fileid == node->attrs.fileid && up->attrs.fsid == node->attrs.fsid)
			return true;
	return false;
}

/* A node whose attributes and handle are known: put it where its work is done. */
static void node_classify(struct nt_node *node)
{
	switch (node->attrs.type) {
	case NF3DIR:
		nt_stats.directories++;
		if (is_own_ancestor(node))
			nt_node_fail(node, "directory-cycle");
		else if (node->path_len > MAX_PATH_LEN)
			nt_node_fail(node, "too-deep");
		else
			push(&dirs, node);
		break;
	case NF3REG:
		nt_stats.files++;
		if (opt->hash)
			push(&others, node);
		break;
	case NF3LNK:
		push(&others, node);
		break;
	default:
		break;
	}
}

static void node_add(struct nt_node *node)
{
	if (n_nodes == nodes_size) {
		nodes_size = nodes_size ? nodes_size * 2 : 4096;
		nodes = xalloc(realloc(nodes, nodes_size * sizeof(*nodes)));
	}
	nodes[n_nodes++] = node;
	nt_stats.objects++;
}

/* ---- LOOKUP: for entries that came without attributes or handle ---- */

static bool set_fh(struct nt_node *node, const struct nfs_fh3 *fh)
{
	if (fh->data.data_len == 0 || fh->data.data_len > NT_MAX_FH)
		return false;
	node->fh_len = fh->data.data_len;
	memcpy(node->fh, fh->data.data_val, node->fh_len);
	return true;
}

static int getattr_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	struct GETATTR3args args = { .object = nt_node_fh(op->node) };

	return rpc_nfs3_getattr_async(rpc, cb, &args, op);
}

static void getattr_done(struct nt_op *op, nfsstat3 status, void *data)
{
	GETATTR3res *res = data;
	struct nt_node *node = op->node;

	free(op);
	if (status != NFS3_OK) {
		nt_node_fail_status(node, "GETATTR", status);
		return;
	}
	node->attrs = res->GETATTR3res_u.resok.obj_attributes;
	node->have_attrs = true;
	node_classify(node);
}

static int lookup_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	char *slash = strrchr(op->node->path, '/');
	struct LOOKUP3args args = { .what = { .dir = nt_node_fh(op->node->parent),
					      .name = slash ? slash + 1 : op->node->path } };

	return rpc_nfs3_lookup_async(rpc, cb, &args, op);
}

static void lookup_done(struct nt_op *op, nfsstat3 status, void *data)
{
	LOOKUP3res *res = data;
	struct nt_node *node = op->node;
	LOOKUP3resok *ok = res ? &res->LOOKUP3res_u.resok : NULL;

	free(op);
	if (status != NFS3_OK) {
		nt_node_fail_status(node, "LOOKUP", status);
	} else if (!set_fh(node, &ok->object)) {
		nt_node_fail(node, "bad-handle");
	} else if (!ok->obj_attributes.attributes_follow) {
		nt_pool_submit(op_new(node, getattr_send, getattr_done));
	} else {
		node->attrs = ok->obj_attributes.post_op_attr_u.attributes;
		node->have_attrs = true;
		node_classify(node);
	}
}

/* ---- READDIRPLUS ---- */

static int list_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	struct listing *l = op->owner;
	struct READDIRPLUS3args args = { .dir = nt_node_fh(l->dir),
					 .cookie = l->cookie,
					 .dircount = NT_LIST_SIZE,
					 .maxcount = NT_LIST_SIZE };

	memcpy(args.cookieverf, l->verifier, sizeof(l->verifier));
	return rpc_nfs3_readdirplus_async(rpc, cb, &args, op);
}

static void listing_drop_entries(struct listing *l)
{
	struct nt_node *node;

	while ((node = l->entries)) {
		l->entries = node->next;
		node_free(node);
	}
	l->cookie = 0;
	memset(l->verifier, 0, sizeof(l->verifier));
}

static void listing_commit(struct listing *l)
{
	struct nt_node *node;

	while ((node = l->entries)) {
		l->entries = node->next;
		node->next = NULL;
		node_add(node);
		if (node->have_attrs && node->fh_len)
			node_classify(node);
		else
			nt_pool_submit(op_new(node, lookup_send, lookup_done));
	}
}

/* Take one entry over; false if its name is no name. */
static bool listing_take(struct listing *l, const entryplus3 *entry)
{
	struct nt_node *node;

	if (!strcmp(entry->name, ".") || !strcmp(entry->name, ".."))
		return true;
	if (!entry->name[0] || strchr(entry->name, '/'))
		return false;
	node = node_new(l->dir, entry->name);
	if (entry->name_attributes.attributes_follow && entry->name_handle.handle_follows &&
	    set_fh(node, &entry->name_handle.post_op_fh3_u.handle)) {
		node->attrs = entry->name_attributes.post_op_attr_u.attributes;
		node->have_attrs = true;
	}
	node->next = l->entries;
	l->entries = node;
	return true;
}

/* Take a page over.  1: complete, 0: go on, -1: nonsense. */
static int listing_page(struct listing *l, const READDIRPLUS3resok *page)
{
	const entryplus3 *entry = page->reply.entries;
	cookie3 before = l->cookie;

	if (!entry && !page->reply.eof) {
		nt_node_fail(l->dir, "empty-page");
		return -1;
	}
	for (; entry; entry = entry->nextentry) {
		if (!listing_take(l, entry)) {
			nt_node_fail(l->dir, "bad-name");
			return -1;
		}
		l->cookie = entry->cookie;
	}
	if (!page->reply.eof && l->cookie == before) {
		nt_node_fail(l->dir, "cookie-loop");
		return -1;
	}
	memcpy(l->verifier, page->cookieverf, sizeof(l->verifier));
	return page->reply.eof ? 1 : 0;
}

static void list_done(struct nt_op *op, nfsstat3 status, void *data)
{
	READDIRPLUS3res *res = data;
	struct listing *l = op->owner;
	int rc = -1;

	if (status == NFS3_OK) {
		rc = listing_page(l, &res->READDIRPLUS3res_u.resok);
	} else if (status == NFS3ERR_BAD_COOKIE && l->restarts++ < MAX_RESTARTS) {
		listing_drop_entries(l);
		rc = 0;
	} else {
		nt_node_fail_status(l->dir, "READDIRPLUS", status);
	}
	if (rc == 0) {
		nt_pool_submit(op);
		return;
	}
	if (rc > 0)
		listing_commit(l);
	listing_drop_entries(l);
	free(l);
	free(op);
}

static void list_start(struct nt_node *dir)
{
	struct nt_op *op = op_new(dir, list_send, list_done);
	struct listing *l = xalloc(calloc(1, sizeof(*l)));

	l->dir = dir;
	op->owner = l;
	nt_pool_submit(op);
}

/* ---- READLINK ---- */

static int readlink_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	struct READLINK3args args = { .symlink = nt_node_fh(op->node) };

	return rpc_nfs3_readlink_async(rpc, cb, &args, op);
}

static void readlink_done(struct nt_op *op, nfsstat3 status, void *data)
{
	READLINK3res *res = data;

	if (status == NFS3_OK)
		op->node->target = xalloc(strdup(res->READLINK3res_u.resok.data));
	else
		nt_node_fail_status(op->node, "READLINK", status);
	free(op);
}

/* ---- the root, and FSINFO for the size of READs ---- */

static int fsinfo_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	struct FSINFO3args args = { .fsroot = nt_node_fh(op->node) };

	return rpc_nfs3_fsinfo_async(rpc, cb, &args, op);
}

static void fsinfo_done(struct nt_op *op, nfsstat3 status, void *data)
{
	FSINFO3res *res = data;
	uint32_t max = status == NFS3_OK ? res->FSINFO3res_u.resok.rtmax : 0;

	if (max >= 4096 && max < read_size)
		read_size = max;
	nt_pool_submit(op_new(op->node, getattr_send, getattr_done));
	free(op);
}

void nt_walk_start(const struct nt_options *options, const uint8_t *fh, uint32_t fh_len)
{
	struct nt_node *root = node_new(NULL, "");

	opt = options;
	root->fh_len = fh_len;
	memcpy(root->fh, fh, fh_len);
	node_add(root);
	nt_pool_submit(op_new(root, fsinfo_send, fsinfo_done));
}

void nt_walk_pump(void)
{
	struct nt_node *node;

	while (nt_pool_room() > 0 && (node = pop(&dirs)))
		list_start(node);
	nt_hash_pump();
	while (nt_pool_room() > 0 && (node = pop(&others))) {
		if (node->attrs.type == NF3LNK)
			nt_pool_submit(op_new(node, readlink_send, readlink_done));
		else
			nt_hash_start(node, read_size);
	}
}

bool nt_walk_done(void)
{
	return !dirs.head && !others.head && !nt_hash_active() && !nt_pool_busy();
}

struct nt_node **nt_walk_nodes(size_t *count)
{
	struct nt_node **copy = xalloc(malloc((n_nodes + 1) * sizeof(*copy)));

	if (n_nodes)
		memcpy(copy, nodes, n_nodes * sizeof(*copy));
	*count = n_nodes;
	return copy;
}

void nt_walk_finish(void)
{
	for (size_t i = 0; i < n_nodes; i++)
		node_free(nodes[i]);
	free(nodes);
	nodes = NULL;
	n_nodes = nodes_size = 0;
}
