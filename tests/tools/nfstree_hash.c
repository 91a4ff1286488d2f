// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstree: reading and hashing.
 *
 * A file is read in blocks, up to WINDOW of them in flight at once.  Blocks
 * that come in order are hashed where libnfs put them; those that overtook
 * others are copied and wait.  The file ends where its attributes say; an end
 * before that, bytes after that, or attributes that move meanwhile are errors
 * of the file, because a server being filled must not show any of them.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "nfstree.h"

#define WINDOW 8

struct block {
	struct block *next;
	uint64_t offset;
	uint32_t len;
	uint8_t data[];
};

struct file {
	struct file *next;
	struct nt_node *node;
	EVP_MD_CTX *md;
	uint64_t sent; /* next offset to ask for */
	uint64_t hashed; /* next offset to hash */
	uint32_t read_size;
	int in_flight;
	struct block *early;
};

static struct file *files;
static int n_files;

static int read_send(struct rpc_context *rpc, rpc_cb cb, struct nt_op *op)
{
	struct READ3args args = { .file = nt_node_fh(op->node),
				  .offset = op->offset,
				  .count = op->count };

	return rpc_nfs3_read_async(rpc, cb, &args, op);
}

static void add(struct file *f, uint64_t offset, const void *data, uint32_t len)
{
	struct block **p, *b;

	if (offset != f->hashed) {
		b = malloc(sizeof(*b) + len);
		if (!b) {
			nt_node_fail(f->node, "out-of-memory");
			return;
		}
		*b = (struct block){ f->early, offset, len };
		memcpy(b->data, data, len);
		f->early = b;
		return;
	}
	EVP_DigestUpdate(f->md, data, len);
	f->hashed += len;
	for (p = &f->early; (b = *p);) {
		if (b->offset != f->hashed) {
			p = &b->next;
			continue;
		}
		EVP_DigestUpdate(f->md, b->data, b->len);
		f->hashed += b->len;
		*p = b->next;
		free(b);
		p = &f->early;
	}
}

static void file_finish(struct file *f)
{
	struct file **p = &files;
	struct block *b;

	if (!f->node->error[0]) {
		EVP_DigestFinal_ex(f->md, f->node->hash, NULL);
		f->node->have_hash = true;
	}
	while ((b = f->early)) {
		f->early = b->next;
		free(b);
	}
	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	n_files--;
	EVP_MD_CTX_free(f->md);
	free(f);
}

/* What the reply says about the file must be what the listing said. */
static void check_unchanged(struct nt_node *node, const post_op_attr *after)
{
	const fattr3 *now = &after->post_op_attr_u.attributes;

	if (!after->attributes_follow)
		return;
	if (now->size != node->attrs.size)
		nt_node_fail(node, "size-changed");
	else if (now->mtime.seconds != node->attrs.mtime.seconds ||
		 now->mtime.nseconds != node->attrs.mtime.nseconds)
		nt_node_fail(node, "mtime-changed");
}

/* Returns true if the rest of a short block has to be asked for. */
static bool take(struct file *f, struct nt_op *op, const READ3resok *ok)
{
	uint32_t got = ok->data.data_len;

	check_unchanged(f->node, &ok->file_attributes);
	if (got > op->count) {
		nt_node_fail(f->node, "long-read");
		return false;
	}
	if (f->node->error[0])
		return false;
	nt_stats.bytes += got;
	add(f, op->offset, ok->data.data_val, got);
	op->offset += got;
	op->count -= got;
	if (op->count == 0)
		return false;
	if (ok->eof)
		nt_node_fail(f->node, "early-eof");
	else if (got == 0)
		nt_node_fail(f->node, "empty-read");
	return !f->node->error[0];
}

static void read_done(struct nt_op *op, nfsstat3 status, void *data)
{
	READ3res *res = data;
	struct file *f = op->owner;
	bool again = false;

	if (status == NFS3_OK)
		again = take(f, op, &res->READ3res_u.resok);
	else
		nt_node_fail_status(f->node, "READ", status);
	if (again) {
		nt_pool_submit(op);
		return;
	}
	free(op);
	f->in_flight--;
	if (f->in_flight == 0 && (f->node->error[0] || f->hashed == f->node->attrs.size))
		file_finish(f);
}

static bool file_ask(struct file *f)
{
	struct nt_op *op;
	uint64_t left = f->node->attrs.size - f->sent;

	if (!left || f->in_flight >= WINDOW || f->node->error[0])
		return false;
	op = calloc(1, sizeof(*op));
	if (!op) {
		nt_node_fail(f->node, "out-of-memory");
		return false;
	}
	op->node = f->node;
	op->owner = f;
	op->send = read_send;
	op->done = read_done;
	op->offset = f->sent;
	op->count = left < f->read_size ? left : f->read_size;
	f->sent += op->count;
	f->in_flight++;
	nt_pool_submit(op);
	return true;
}

void nt_hash_start(struct nt_node *node, uint32_t read_size)
{
	struct file *f = calloc(1, sizeof(*f));

	if (f)
		f->md = EVP_MD_CTX_new();
	if (!f || !f->md || !EVP_DigestInit_ex(f->md, EVP_sha256(), NULL)) {
		fprintf(stderr, "nfstree: cannot start a digest\n");
		exit(NT_SERVER_LOST);
	}
	f->node = node;
	f->read_size = read_size;
	f->next = files;
	files = f;
	n_files++;
	if (!file_ask(f))
		file_finish(f); /* an empty file */
}

void nt_hash_pump(void)
{
	/* One block per file and round: small files do not wait for large ones. */
	bool more = true;

	while (more && nt_pool_room() > 0) {
		more = false;
		for (struct file *f = files; f && nt_pool_room() > 0; f = f->next)
			more |= file_ask(f);
	}
}

int nt_hash_active(void)
{
	return n_files;
}
