// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_zdr.c - guards before libnfs's decoders.
 *
 * What an old server sends is hostile until it is checked, but libnfs decodes it
 * before we see it, and 4.0.0 believes lengths: an array's count overflows the
 * size that is allocated, fixed-size opaques are copied from beyond the reply, a
 * huge length wraps, a failed malloc() is written through, and a name with a NUL
 * comes out shorter than it is (we would create another name, and never know).
 * Its structures also lie at addresses that are not aligned for them.  Lists are
 * decoded by recursion, fragments of a record kept without limit, and a message
 * that is a call is taken for a reply whose result was decoded.
 *
 * libnfs calls these functions through its symbol table, where a program's own
 * definitions come first.  So each one here looks at what is about to be
 * decoded, and only then lets libnfs's own function do it.  A refusal makes the
 * reply undecodable, which nfs_call.c knows how to treat.
 *
 * What we send it encodes into a buffer that has 4 KiB beside what is written; a long symlink's target
 * or ACL does not fit, and then no call is made.  Those get more.
 *
 * Of NFSv4 libnfs carries bytes only: the coders of a compound and of its reply are ours too, and
 * what they mean is nfs4_wire.c's.
 *
 * Whether all this is in the way is checked by tests/unit/test_source_nfs.c and test_nfs4.c.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "nfs/nfs4.h"

#include <nfsc/libnfs-raw-nfs4.h>

#define GUARD __attribute__((visibility("default")))

/* Entries of one list.  A full page of READDIR has less than 11 000; as many levels
 * of recursion fit the smallest stack on which replies are decoded. */
#define DEPTH_MAX 16384
/* Bytes of a record that has not ended, and what keeping one fragment costs. */
#define FRAGMENTS_MAX (2u << 20)
#define FRAGMENT_COST 256

static struct {
	bool_t (*bytes)(ZDR *, char **, uint32_t *, uint32_t);
	bool_t (*opaque)(ZDR *, char *, uint32_t);
	bool_t (*string)(ZDR *, char **, uint32_t);
	bool_t (*array)(ZDR *, char **, uint32_t *, uint32_t, uint32_t, zdrproc_t);
	bool_t (*pointer)(ZDR *, char **, uint32_t, zdrproc_t);
	bool_t (*replymsg)(struct rpc_context *, ZDR *, struct rpc_msg *);
	int (*add_fragment)(struct rpc_context *, char *, uint32_t);
	void (*free_fragments)(struct rpc_context *);
	struct rpc_pdu *(*allocate)(struct rpc_context *, int, int, int, rpc_cb, void *, zdrproc_t,
				    int, size_t);
} libnfs;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_libnfs(void)
{
	libnfs.bytes = dlsym(RTLD_NEXT, "libnfs_zdr_bytes");
	libnfs.opaque = dlsym(RTLD_NEXT, "libnfs_zdr_opaque");
	libnfs.string = dlsym(RTLD_NEXT, "libnfs_zdr_string");
	libnfs.array = dlsym(RTLD_NEXT, "libnfs_zdr_array");
	libnfs.pointer = dlsym(RTLD_NEXT, "libnfs_zdr_pointer");
	libnfs.replymsg = dlsym(RTLD_NEXT, "libnfs_zdr_replymsg");
	libnfs.add_fragment = dlsym(RTLD_NEXT, "rpc_add_fragment");
	libnfs.free_fragments = dlsym(RTLD_NEXT, "rpc_free_all_fragments");
	libnfs.allocate = dlsym(RTLD_NEXT, "rpc_allocate_pdu2");
}

bool nfs_zdr_guard(void)
{
	pthread_once(&once, find_libnfs);
	return libnfs.bytes && libnfs.opaque && libnfs.string && libnfs.array && libnfs.pointer &&
	       libnfs.replymsg && libnfs.add_fragment && libnfs.free_fragments;
}

/* Bytes of the reply that are left. */
static uint32_t left(const ZDR *z)
{
	return z->pos >= 0 && z->pos < z->size ? (uint32_t)(z->size - z->pos) : 0;
}

/* A length word and that many units of @unit bytes behind it: are they there? */
static bool counted(const ZDR *z, uint32_t unit, uint32_t *out)
{
	uint32_t n;

	if (left(z) < 4)
		return false;
	memcpy(&n, z->buf + z->pos, 4);
	*out = ntohl(n);
	return *out <= (left(z) - 4) / unit;
}

GUARD bool_t libnfs_zdr_bytes(ZDR *z, char **buf, uint32_t *size, uint32_t max)
{
	uint32_t n;

	if (!nfs_zdr_guard() || (z->x_op == ZDR_DECODE && !counted(z, 1, &n)))
		return FALSE;
	return libnfs.bytes(z, buf, size, max);
}

GUARD bool_t libnfs_zdr_string(ZDR *z, char **str, uint32_t max)
{
	uint32_t n;

	if (!nfs_zdr_guard())
		return FALSE;
	if (z->x_op == ZDR_DECODE && (!counted(z, 1, &n) || memchr(z->buf + z->pos + 4, '\0', n)))
		return FALSE;
	return libnfs.string(z, str, max);
}

GUARD bool_t libnfs_zdr_opaque(ZDR *z, char *to, uint32_t size)
{
	if (!nfs_zdr_guard() || (z->x_op == ZDR_DECODE && size > left(z)))
		return FALSE;
	return libnfs.opaque(z, to, size);
}

GUARD bool_t libnfs_zdr_array(ZDR *z, char **array, uint32_t *size, uint32_t max, uint32_t each,
			      zdrproc_t proc)
{
	uint32_t n;

	/* no element is shorter than 4 bytes on the wire */
	if (!nfs_zdr_guard() ||
	    (z->x_op == ZDR_DECODE && (!counted(z, 4, &n) || n > INT_MAX / (each ? each : 1))))
		return FALSE;
	return libnfs.array(z, array, size, max, each, proc);
}

GUARD bool_t libnfs_zdr_pointer(ZDR *z, char **to, uint32_t size, zdrproc_t proc)
{
	static _Thread_local unsigned int depth;
	bool_t ok;

	if (!nfs_zdr_guard() || depth == DEPTH_MAX)
		return FALSE;
	depth++;
	ok = libnfs.pointer(z, to, size, proc);
	depth--;
	return ok;
}

GUARD bool_t libnfs_zdr_replymsg(struct rpc_context *rpc, ZDR *z, struct rpc_msg *msg)
{
	uint32_t direction;

	if (!nfs_zdr_guard())
		return FALSE;
	if (z->x_op == ZDR_DECODE) {
		if (left(z) < 8)
			return FALSE;
		memcpy(&direction, z->buf + z->pos + 4, 4);
		if (ntohl(direction) != REPLY)
			return FALSE;
	}
	return libnfs.replymsg(rpc, z, msg);
}

/* A thread serves one context at a time, so it is enough to count the fragments of the last
 * one.  libnfs frees the fragments when their record has ended, and with the context. */
static _Thread_local struct {
	struct rpc_context *rpc;
	uint32_t bytes;
} fragments;

GUARD int rpc_add_fragment(struct rpc_context *rpc, char *data, uint32_t size);
GUARD void rpc_free_all_fragments(struct rpc_context *rpc);

GUARD int rpc_add_fragment(struct rpc_context *rpc, char *data, uint32_t size)
{
	if (fragments.rpc != rpc) {
		fragments.rpc = rpc;
		fragments.bytes = 0;
	}
	if (!nfs_zdr_guard() || size > FRAGMENTS_MAX ||
	    fragments.bytes + size + FRAGMENT_COST > FRAGMENTS_MAX)
		return -1;
	fragments.bytes += size + FRAGMENT_COST;
	return libnfs.add_fragment(rpc, data, size);
}

GUARD void rpc_free_all_fragments(struct rpc_context *rpc)
{
	if (fragments.rpc == rpc)
		fragments.rpc = NULL;
	if (nfs_zdr_guard())
		libnfs.free_fragments(rpc);
}

/* libnfs_zdr_destroy() frees the chain; it knows no more of it than next. */
struct zdr_mem {
	struct zdr_mem *next;
	max_align_t data[];
};

GUARD void *zdr_malloc(ZDR *z, uint32_t size);

GUARD void *zdr_malloc(ZDR *z, uint32_t size)
{
	struct zdr_mem *m = malloc(sizeof(*m) + size);

	if (!m)
		return NULL;
	m->next = z->mem;
	z->mem = m;
	return m->data;
}

/* ---- room in calls ---- */

#define ACE_BYTES 12

GUARD struct rpc_pdu *rpc_allocate_pdu(struct rpc_context *rpc, int program, int version,
				       int procedure, rpc_cb cb, void *arg, zdrproc_t decode,
				       int decoded);

GUARD struct rpc_pdu *rpc_allocate_pdu(struct rpc_context *rpc, int program, int version,
				       int procedure, rpc_cb cb, void *arg, zdrproc_t decode,
				       int decoded)
{
	static const struct {
		int program, procedure;
		size_t bytes;
	} more[] = {
		{ NFS_PROGRAM, NFS3_SYMLINK, STUB_TARGET_MAX },
		{ NFSACL_PROGRAM, NFSACL3_SETACL, 2 * NFS_ACES_MAX * ACE_BYTES },
	};
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (program == more[i].program && procedure == more[i].procedure)
			bytes = more[i].bytes;
	if (!nfs_zdr_room())
		return NULL;
	return libnfs.allocate(rpc, program, version, procedure, cb, arg, decode, decoded, bytes);
}

bool nfs_zdr_room(void)
{
	pthread_once(&once, find_libnfs);
	return libnfs.allocate && dlsym(RTLD_DEFAULT, "rpc_allocate_pdu") == (void *)rpc_allocate_pdu;
}

/* ---- NFSv4 ---- */

bool nfs_zdr_compounds(void)
{
	return dlsym(RTLD_DEFAULT, "zdr_COMPOUND4args") == (void *)zdr_COMPOUND4args &&
	       dlsym(RTLD_DEFAULT, "zdr_COMPOUND4res") == (void *)zdr_COMPOUND4res;
}

/* libnfs was given a struct nfs4_bytes. */
GUARD uint32_t zdr_COMPOUND4args(ZDR *z, COMPOUND4args *args)
{
	const struct nfs4_bytes *b = (const void *)args;

	if (z->x_op != ZDR_ENCODE || left(z) < b->len)
		return FALSE;
	memcpy(z->buf + z->pos, b->data, b->len);
	z->pos += (int)b->len;
	return TRUE;
}

/* It has made room for its own result, and passes that to the callback. */
GUARD uint32_t zdr_COMPOUND4res(ZDR *z, COMPOUND4res *res)
{
	struct nfs4_bytes *b = (void *)res;

	_Static_assert(sizeof(*b) <= sizeof(*res), "a reply's bytes fit");
	if (z->x_op != ZDR_DECODE)
		return FALSE;
	b->data = (const uint8_t *)z->buf + z->pos;
	b->len = left(z);
	z->pos += (int)b->len;
	return TRUE;
}
