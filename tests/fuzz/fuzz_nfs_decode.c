/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_nfs_decode.c - results of NFS calls, without connections: many more inputs
 * in the time that fuzz_nfs_reply.c takes for one.
 *
 * nfs_submit() is replaced (by the linker): a call is over at once, with the next
 * bytes of the input as its result, decoded by libnfs with our guards before it, in
 * memory that is gone when the callback returns.  So everything above the queue is
 * under test: nfs3_call.c, nfs4_call.c, nfs4_attr.c, nfs4_acl.c, nfs4_posix.c, nfs42_*.c,
 * nfs_list.c, nfs_page.c, nfs_read.c, nfs_attr.c, nfs_acl.c, nfs_zdr.c, source.c.
 *
 * A byte says what to call, with its top bit of a server that has ACLs, with the next one
 * by NFSv4.0, with both by NFSv4.2 (whose sessions are made elsewhere), and what follows are its results; and so again.  A result is u16 length, bytes; with
 * the top bit of the length: u16 length, u16 count, bytes, so often behind the first.
 */
#include <errno.h>

#include "fuzz.h"
#include "nfs/nfs4.h"
#include "nfs_calls.h"

#define RESULT_MAX (1u << 20)
#define CALLS_MAX  16

int __wrap_nfs_submit(struct nfs_source *s, struct nfs_call *c);
int __wrap_nfs_wait_known(struct nfs_source *s);

static struct fuzz_in input;

union result {
	uint32_t status; /* every one starts with it */
	struct GETATTR3res getattr;
	struct LOOKUP3res lookup;
	struct READLINK3res readlink;
	struct ACCESS3res access;
	struct READ3res read;
	struct READDIRPLUS3res readdirplus;
	struct READDIR3res readdir;
	struct GETACL3res getacl;
	struct nfs4_bytes compound;
};

static const zdrproc_t decoders[] = {
	[NFS_OP_GETATTR] = (zdrproc_t)zdr_GETATTR3res,
	[NFS_OP_LOOKUP] = (zdrproc_t)zdr_LOOKUP3res,
	[NFS_OP_READLINK] = (zdrproc_t)zdr_READLINK3res,
	[NFS_OP_ACCESS] = (zdrproc_t)zdr_ACCESS3res,
	[NFS_OP_READ] = (zdrproc_t)zdr_READ3res,
	[NFS_OP_READDIRPLUS] = (zdrproc_t)zdr_READDIRPLUS3res,
	[NFS_OP_READDIR] = (zdrproc_t)zdr_READDIR3res,
	[NFS_OP_GETACL] = (zdrproc_t)zdr_GETACL3res,
};

/* The next result, in memory of just its size. */
static char *take_result(size_t *size)
{
	size_t len = fuzz_take(&input, 2), got, unit_len = 0, count = 0;
	const uint8_t *p = fuzz_bytes(&input, len & 0x7fff, &got), *unit = NULL;
	char *out;

	if (len & 0x8000) {
		len = fuzz_take(&input, 2);
		count = fuzz_take(&input, 2);
		unit = fuzz_bytes(&input, len, &unit_len);
		if (count * unit_len > RESULT_MAX)
			count = RESULT_MAX / unit_len;
	}
	*size = got + count * unit_len;
	out = malloc(*size + !*size);
	CHECK(out);
	if (got)
		memcpy(out, p, got);
	for (size_t i = 0; unit_len && i < count; i++)
		memcpy(out + got + i * unit_len, unit, unit_len);
	return out;
}

/* As on_reply() in nfs_call.c judges it.  False: to be asked again. */
static bool finish(struct nfs_source *s, struct nfs_call *c, bool decoded, union result *r)
{
	struct nfs_answer a;

	if (!decoded) {
		c->done(c, -EBADMSG, NULL);
		return true;
	}
	s->uri.version->answer(s, c, r, &a);
	if (a.error == -EAGAIN)
		return false;
	c->done(c, a.error, &a);
	return true;
}

int __wrap_nfs_submit(struct nfs_source *s, struct nfs_call *c)
{
	bool over = false;

	if (!input.left)
		return -ECANCELED;
	while (!over) {
		union result r;
		size_t size;
		char *bytes = take_result(&size);
		bool decoded;
		ZDR z;

		memset(&r, 0, sizeof(r));
		libnfs_zdrmem_create(&z, bytes, (uint32_t)size, ZDR_DECODE);
		if (s->uri.version->number == 4) {
			r.compound = (struct nfs4_bytes){ (uint8_t *)bytes, (uint32_t)size };
			decoded = true;
		} else {
			decoded = decoders[c->op](&z, &r);
		}
		over = finish(s, c, decoded, &r);
		libnfs_zdr_destroy(&z);
		free(bytes);
	}
	return 0;
}

int __wrap_nfs_wait_known(struct nfs_source *s)
{
	(void)s;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nfs_source *s = calloc(1, sizeof(*s));

	CHECK(s);
	s->base.ops = &nfs_source_ops;
	pthread_mutex_init(&s->pool.lock, NULL);
	s->limits = (struct source_limits){ 65536, 65536, INT64_MAX, 0 };
	s->root = (struct stub_origin){ 4, "root" };
	strcpy(s->uri.host, "host");
	input = (struct fuzz_in){ data, size };
	for (int calls = 0; calls < CALLS_MAX && input.left; calls++) {
		unsigned int what = (unsigned int)fuzz_take(&input, 1);

		s->uri.version = !(what & 0x40) ? &nfs3_version :
				 what & 0x80	? &nfs42_version :
						  &nfs4_version;
		s->acl = what & 0x80 && s->uri.version == &nfs3_version;
		s->no_holes = false;
		s->config.born = s->uri.version == &nfs42_version;
		nfs_calls_make(&s->base, what % (s->config.born ? 9 : s->acl ? 8 : 7));
	}
	pthread_mutex_destroy(&s->pool.lock);
	free(s);
	return 0;
}
