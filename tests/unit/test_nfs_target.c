// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs_target.c - what is changed on an NFSv3 server: retriever/nfs/nfs_target.c, nfs3_change.c */
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "nfs3_server.h"
#include "source/posix_acl.h"
#include "source/target.h"

#define MIB (1u << 20)

static const struct stub_origin root = { 4, "root" }, file = { 4, "file" };
static const struct stub_attr plain = { .mode = S_IFREG | 0640,
					.uid = 1000,
					.gid = 2000,
					.atime = { 11, 12 },
					.mtime = { UINT32_MAX, 999999999 } };

struct fixture {
	struct nfs3_server server;
	struct source *source;
	char uri[128];

	/* the answers */
	uint32_t status; /* of all */
	unsigned int later; /* so often JUKEBOX before */
	uint32_t pieces[8]; /* WRITE: so many bytes, one after the other; 0: all */
	uint32_t commits[8]; /* how durable */
	uint32_t wanted; /* how durable it is to be: UNSTABLE */
	uint64_t verfs[8];
	bool verfs_grow;
	uint32_t made_handle; /* bytes of what was made; 0: it is not told */
	uint32_t made_type; /* NF3*; 0: no attributes are told */
	uint32_t looked_up; /* NF3* of LOOKUP */

	/* what was seen */
	unsigned int calls, writes, lookups;
	uint32_t procedures[16];
	struct nfs4_out args[16];
	uint8_t *data;
};

/* ---- with a server ---- */

static void answer_write(struct fixture *f, struct nfs3_call *c)
{
	unsigned int n = f->writes++ % 8;
	const uint8_t *data;
	uint64_t offset;
	uint32_t len, count;

	nfs4_get_opaque(&c->args, NFS3_FHSIZE, &len);
	offset = nfs4_get64(&c->args);
	count = nfs4_get32(&c->args);
	assert_int_equal(nfs4_get32(&c->args), f->wanted);
	data = nfs4_get_opaque(&c->args, 2 * MIB, &len);
	assert_int_equal(len, count);
	assert_false(c->args.bad);
	count = f->pieces[n] ? f->pieces[n] : count;
	if (f->data && count <= len)
		memcpy(f->data + offset, data, count);
	nfs3_put_no_wcc(&c->out);
	nfs4_put32(&c->out, count == UINT32_MAX ? 0 : count);
	nfs4_put32(&c->out, f->commits[n]);
	nfs4_put64(&c->out, f->verfs_grow ? f->writes : f->verfs[n]);
}

static void answer_made(struct fixture *f, struct nfs3_call *c)
{
	static const char made[NFS3_FHSIZE + 1] = "a handle";

	nfs4_put32(&c->out, f->made_handle != 0);
	if (f->made_handle)
		nfs4_put_opaque(&c->out, made, f->made_handle);
	nfs4_put32(&c->out, f->made_type != 0);
	if (f->made_type)
		nfs3_put_attr(&c->out, f->made_type, 0600, 9);
	nfs3_put_no_wcc(&c->out);
}

static void answer_lookup(struct fixture *f, struct nfs3_call *c)
{
	f->lookups++;
	nfs4_put_opaque(&c->out, "file", 4);
	nfs4_put32(&c->out, 1);
	nfs3_put_attr(&c->out, f->looked_up, 0600, 3);
	nfs4_put32(&c->out, 0);
}

static void note(struct fixture *f, const struct nfs3_call *c)
{
	unsigned int n = f->calls++ % 16;

	f->procedures[n] = c->procedure;
	f->args[n] = (struct nfs4_out){ .len = 0 };
	if (c->args.left <= sizeof(f->args[n].bytes))
		nfs4_put_fixed(&f->args[n], c->args.p, c->args.left);
}

static void answer(void *arg, struct nfs3_call *c)
{
	struct fixture *f = arg;
	uint32_t status = f->later ? NFS3ERR_JUKEBOX : f->status;

	note(f, c);
	f->later -= f->later != 0;
	nfs4_put32(&c->out, status);
	if (status || c->program == NFSACL_PROGRAM) {
		nfs3_put_no_wcc(&c->out);
		nfs3_put_no_wcc(&c->out); /* RENAME: of both directories */
		return;
	}
	switch (c->procedure) {
	case NFS3_WRITE:
		answer_write(f, c);
		break;
	case NFS3_CREATE:
	case NFS3_MKDIR:
	case NFS3_SYMLINK:
	case NFS3_MKNOD:
		answer_made(f, c);
		break;
	case NFS3_LOOKUP:
		answer_lookup(f, c);
		break;
	case NFS3_LINK: /* its attributes besides */
		nfs4_put32(&c->out, 0);
		nfs3_put_no_wcc(&c->out);
		break;
	default: /* COMMIT: and its verifier */
		nfs3_put_no_wcc(&c->out);
		nfs4_put64(&c->out, f->verfs[0]);
	}
}

static struct fixture *fresh(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->server.wtmax = MIB;
	f->server.answer = answer;
	f->server.arg = f;
	f->made_handle = 4;
	f->made_type = NF3REG;
	return f;
}

static void begin_with(struct fixture *f, unsigned int connections, unsigned int timeout_ms)
{
	struct source_config c = { .uri = f->uri,
				   .connections = connections,
				   .call_timeout_ms = timeout_ms,
				   .inflight = 16 };

	nfs3_server_start(&f->server);
	snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1:%u/e?version=3&mountport=%u",
		 f->server.port, f->server.port);
	assert_int_equal(source_create(&c, &f->source), 0);
	assert_true(target_able(f->source));
}

static void begin(struct fixture *f)
{
	begin_with(f, 1, 60000);
}

static struct fixture *start(void)
{
	struct fixture *f = fresh();

	begin(f);
	return f;
}

static void end(struct fixture *f)
{
	source_stop(f->source);
	source_destroy(f->source);
	nfs3_server_stop(&f->server);
	free(f->data);
	free(f);
}

static uint8_t *some_bytes(size_t n)
{
	uint8_t *p = malloc(n);

	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + i / 4099);
	return p;
}

/* The arguments of the @n-th call, from 0, which was @procedure. */
static struct nfs4_in args_of(struct fixture *f, unsigned int n, uint32_t procedure)
{
	assert_true(n < f->calls);
	assert_int_equal(f->procedures[n], procedure);
	assert_true(f->args[n].len);
	return (struct nfs4_in){ f->args[n].bytes, f->args[n].len, false };
}

static void is_opaque(struct nfs4_in *in, const char *want)
{
	uint32_t len;
	const uint8_t *p = nfs4_get_opaque(in, 4096, &len);

	assert_int_equal(len, strlen(want));
	assert_memory_equal(p, want, len);
}

static void is_end(const struct nfs4_in *in)
{
	assert_false(in->bad);
	assert_int_equal(in->left, 0);
}

/* ---- errors ---- */

static void errors(void **state)
{
	static const struct {
		uint32_t status;
		int error, read;
	} known[] = {
		{ NFS3_OK, 0, 0 },
		{ NFS3ERR_PERM, -EPERM, -EACCES },
		{ NFS3ERR_NOENT, -ENOENT, -ENOENT },
		{ NFS3ERR_IO, -EIO, -EIO },
		{ NFS3ERR_NXIO, -EIO, -EIO },
		{ NFS3ERR_ACCES, -EACCES, -EACCES },
		{ NFS3ERR_EXIST, -EEXIST, -EIO },
		{ NFS3ERR_XDEV, -EXDEV, -EIO },
		{ NFS3ERR_NODEV, -EIO, -EIO },
		{ NFS3ERR_NOTDIR, -ENOTDIR, -ENOTDIR },
		{ NFS3ERR_ISDIR, -EISDIR, -EIO },
		{ NFS3ERR_INVAL, -EINVAL, -EIO },
		{ NFS3ERR_FBIG, -EFBIG, -EIO },
		{ NFS3ERR_NOSPC, -ENOSPC, -EIO },
		{ NFS3ERR_ROFS, -EROFS, -EIO },
		{ NFS3ERR_MLINK, -EMLINK, -EIO },
		{ NFS3ERR_NAMETOOLONG, -ENAMETOOLONG, -ENAMETOOLONG },
		{ NFS3ERR_NOTEMPTY, -ENOTEMPTY, -EIO },
		{ NFS3ERR_DQUOT, -EDQUOT, -EIO },
		{ NFS3ERR_STALE, -ESTALE, -ESTALE },
		{ NFS3ERR_REMOTE, -EIO, -EIO },
		{ NFS3ERR_BADHANDLE, -ESTALE, -ESTALE },
		{ NFS3ERR_NOT_SYNC, -EBADMSG, -EIO },
		{ NFS3ERR_BAD_COOKIE, -EIO, -EIO },
		{ NFS3ERR_NOTSUPP, -EOPNOTSUPP, -EIO },
		{ NFS3ERR_TOOSMALL, -EIO, -EIO },
		{ NFS3ERR_SERVERFAULT, -EIO, -EIO },
		{ NFS3ERR_BADTYPE, -EOPNOTSUPP, -EIO },
		{ NFS3ERR_JUKEBOX, -EAGAIN, -EAGAIN },
		{ 0xffffffff, -EIO, -EIO },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(nfs_change_errno(known[i].status), known[i].error);
		assert_int_equal(nfs_errno(known[i].status), known[i].read);
	}
}

/* Of every call what the server says comes out, and nothing of it is done again. */
static void errors_come_out(void **state)
{
	struct fixture *f = start();
	struct stub_origin out;
	struct stub_attr attr;
	uint64_t verf;

	(void)state;
	f->status = NFS3ERR_ROFS;
	assert_int_equal(target_setattr(f->source, &file, TARGET_MODE, &plain), -EROFS);
	assert_int_equal(target_write(f->source, &file, 0, "x", 1, &verf), -EROFS);
	assert_int_equal(target_commit(f->source, &file, &verf), -EROFS);
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EROFS);
	assert_int_equal(target_link(f->source, &file, &root, "n"), -EROFS);
	assert_int_equal(target_rename(f->source, &root, "n", &root, "m"), -EROFS);
	assert_int_equal(target_remove(f->source, &root, "n"), -EROFS);
	assert_int_equal(target_rmdir(f->source, &root, "n"), -EROFS);
	assert_int_equal(f->calls, 8);
	/* as rmdir() says it where that is EEXIST */
	f->status = NFS3ERR_EXIST;
	assert_int_equal(target_rmdir(f->source, &root, "n"), -ENOTEMPTY);
	assert_int_equal(target_rename(f->source, &root, "n", &root, "m"), -EEXIST);
	end(f);
}

static void later_is_asked_again(void **state)
{
	struct fixture *f = start();

	(void)state;
	f->later = 2;
	assert_int_equal(target_remove(f->source, &root, "n"), 0);
	assert_int_equal(f->calls, 3);
	end(f);
}

/* What cannot be is not sent. */
static void impossible_arguments(void **state)
{
	static const char *const names[] = { "", ".", "..", "a/b" };
	const struct stub_origin none = { 0 }, longer = { NFS3_FHSIZE + 1, "x" };
	struct stub_attr odd = { .mode = 0644 }, link = { .mode = S_IFLNK | 0777 };
	char name[STUB_NAME_MAX + 2], target[STUB_TARGET_MAX + 2];
	struct fixture *f = start();
	struct stub_origin out;
	struct stub_attr attr;
	uint64_t verf;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	memset(target, 't', sizeof(target) - 1);
	name[sizeof(name) - 1] = target[sizeof(target) - 1] = '\0';
	for (size_t i = 0; i < 5; i++) {
		const char *n = i < 4 ? names[i] : name;

		assert_int_equal(target_make(f->source, &root, n, &plain, NULL, &out, &attr), -EINVAL);
		assert_int_equal(target_link(f->source, &file, &root, n), -EINVAL);
		assert_int_equal(target_rename(f->source, &root, n, &root, "m"), -EINVAL);
		assert_int_equal(target_rename(f->source, &root, "m", &root, n), -EINVAL);
		assert_int_equal(target_remove(f->source, &root, n), -EINVAL);
		assert_int_equal(target_rmdir(f->source, &root, n), -EINVAL);
	}
	assert_int_equal(target_make(f->source, &root, "n", &odd, NULL, &out, &attr), -EINVAL);
	assert_int_equal(target_make(f->source, &root, "n", &link, NULL, &out, &attr), -EINVAL);
	assert_int_equal(target_make(f->source, &root, "n", &link, "", &out, &attr), -EINVAL);
	assert_int_equal(target_make(f->source, &root, "n", &link, target, &out, &attr),
			 -ENAMETOOLONG);
	assert_int_equal(target_remove(f->source, &none, "n"), -ESTALE);
	assert_int_equal(target_commit(f->source, &longer, &verf), -ESTALE);
	assert_int_equal(target_link(f->source, &file, &longer, "n"), -ESTALE);
	assert_int_equal(target_rename(f->source, &root, "n", &none, "m"), -ESTALE);
	assert_int_equal(target_write(f->source, &file, 0, "", 0, &verf), -EINVAL);
	assert_int_equal(target_write(f->source, &file, INT64_MAX, "x", 1, &verf), -EINVAL);
	assert_int_equal(target_write(f->source, &file, UINT64_MAX, "x", 1, &verf), -EINVAL);
	assert_int_equal(f->calls, 0);
	end(f);
}

static void not_of_other_sources(void **state)
{
	struct source_config c = { .uri = "nfs://127.0.0.1:1/e?version=4", .connections = 1 };
	struct stub_origin out;
	struct stub_attr attr;
	struct source *s;
	uint64_t verf;

	(void)state;
	assert_int_equal(source_create(&c, &s), 0);
	assert_false(target_able(s));
	assert_int_equal(target_setattr(s, &file, TARGET_MODE, &plain), -EOPNOTSUPP);
	assert_int_equal(target_write(s, &file, 0, "x", 1, &verf), -EOPNOTSUPP);
	assert_int_equal(target_commit(s, &file, &verf), -EOPNOTSUPP);
	assert_int_equal(target_write_max(s), 0);
	assert_int_equal(target_make(s, &root, "n", &plain, NULL, &out, &attr), -EOPNOTSUPP);
	assert_int_equal(target_link(s, &file, &root, "n"), -EOPNOTSUPP);
	assert_int_equal(target_rename(s, &root, "n", &root, "m"), -EOPNOTSUPP);
	assert_int_equal(target_remove(s, &root, "n"), -EOPNOTSUPP);
	assert_int_equal(target_rmdir(s, &root, "n"), -EOPNOTSUPP);
	assert_int_equal(target_setacl(s, &file, &plain, NULL, NULL), -EOPNOTSUPP);
	source_destroy(s);
}

/* ---- target_write, target_commit ---- */

static void writes_a_mebibyte(void **state)
{
	struct fixture *f = start();
	uint8_t *bytes = some_bytes(MIB);
	uint64_t verf = 0;

	(void)state;
	f->data = calloc(1, 2 * MIB);
	f->verfs[0] = UINT64_C(0x1122334455667788);
	assert_int_equal(target_write(f->source, &file, MIB - 1, bytes, MIB, &verf), 0);
	assert_int_equal(target_write(f->source, &file, 0, bytes, MIB + 1, &verf), -EINVAL);
	assert_int_equal(f->writes, 1);
	assert_memory_equal(f->data + MIB - 1, bytes, MIB);
	assert_int_equal(be64toh(verf), UINT64_C(0x1122334455667788));
	assert_int_equal(target_commit(f->source, &file, &verf), 0);
	assert_int_equal(be64toh(verf), UINT64_C(0x1122334455667788));
	free(bytes);
	end(f);
}

static void short_answers_are_continued(void **state)
{
	struct fixture *f = start();
	uint8_t *bytes = some_bytes(10000);
	uint64_t verf;

	(void)state;
	f->data = calloc(1, MIB);
	f->pieces[0] = 1;
	f->pieces[1] = 4096;
	f->pieces[2] = 5902;
	assert_int_equal(target_write(f->source, &file, 500, bytes, 10000, &verf), 0);
	assert_int_equal(f->writes, 4);
	assert_memory_equal(f->data + 500, bytes, 10000);
	free(bytes);
	end(f);
}

static void lies_about_writes(void **state)
{
	struct fixture *f = start();
	uint64_t verf;

	(void)state;
	f->pieces[0] = UINT32_MAX; /* none, which could go on for ever */
	assert_int_equal(target_write(f->source, &file, 0, "abc", 3, &verf), -EIO);
	f->pieces[1] = 4;
	assert_int_equal(target_write(f->source, &file, 0, "abc", 3, &verf), -EBADMSG);
	f->commits[2] = 3;
	assert_int_equal(target_write(f->source, &file, 0, "abc", 3, &verf), -EBADMSG);
	assert_int_equal(f->writes, 3);
	end(f);
}

/* The server has begun anew between two pieces: the first one may be lost. */
static void another_verifier(void **state)
{
	struct fixture *f = start();
	uint64_t verf;

	(void)state;
	f->pieces[0] = 2;
	f->verfs[0] = 1;
	for (unsigned int i = 1; i < 8; i++)
		f->verfs[i] = 2;
	assert_int_equal(target_write(f->source, &file, 0, "abcd", 4, &verf), 0);
	assert_int_equal(be64toh(verf), 2);
	assert_int_equal(f->writes, 3); /* "ab", "cd", "abcd" */
	end(f);
}

static void verifiers_without_end(void **state)
{
	struct fixture *f = start();
	uint64_t verf;

	(void)state;
	f->verfs_grow = true;
	for (unsigned int i = 0; i < 8; i++)
		f->pieces[i] = 2;
	assert_int_equal(target_write(f->source, &file, 0, "abcd", 4, &verf), -EIO);
	/* of what is durable at once it does not matter */
	for (unsigned int i = 0; i < 8; i++)
		f->commits[i] = FILE_SYNC;
	f->writes = 0;
	assert_int_equal(target_write(f->source, &file, 0, "abcd", 4, &verf), 0);
	assert_int_equal(f->writes, 2);
	assert_int_equal(be64toh(verf), 2);
	end(f);
}

static void keeps_by_one_call(void **state)
{
	struct fixture *f = start();
	uint8_t *bytes = some_bytes(10000);

	(void)state;
	f->data = calloc(1, MIB);
	f->wanted = f->commits[0] = FILE_SYNC;
	assert_int_equal(target_keep(f->source, &file, 500, bytes, 10000), 0);
	assert_int_equal(f->writes, 1);
	assert_int_equal(f->calls, f->writes);
	assert_memory_equal(f->data + 500, bytes, 10000);
	assert_int_equal(target_keep(f->source, &file, 0, bytes, 0), -EINVAL);
	free(bytes);
	end(f);
}

/* One that is told to, and says that it did not. */
static void keeps_what_the_server_does_not(void **state)
{
	struct fixture *f = start();
	unsigned int calls;

	(void)state;
	f->wanted = FILE_SYNC;
	assert_int_equal(target_keep(f->source, &file, 0, "abc", 3), 0);
	assert_int_equal(f->writes, 1);
	assert_int_equal(f->calls, 2); /* and a COMMIT */
	/* which is of another life: once more, until it is told to give up */
	calls = f->calls;
	f->verfs_grow = true;
	f->verfs[0] = 1000;
	assert_int_equal(target_keep(f->source, &file, 0, "abc", 3), -EIO);
	assert_true(f->calls > calls + 2);
	end(f);
}

static void the_largest_write(void **state)
{
	static const struct {
		uint32_t wtmax, wtpref, want;
	} said[] = {
		{ MIB, 0, MIB },      { 64 * MIB, 64 * MIB, MIB }, { 65536, 4096, 4096 },
		{ 65536, MIB, 65536 }, { 0, 0, 32768 },		   { 0, 65536, 32768 },
		{ 1, 1, 512 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct fixture *f = fresh();

		f->server.wtmax = said[i].wtmax;
		f->server.wtpref = said[i].wtpref;
		begin(f);
		assert_int_equal(target_write_max(f->source), said[i].want);
		end(f);
	}
}

/* ---- many at a time, lines that are slow, connections that are lost ---- */

#define SIDE_BY_SIDE 3

struct meeting {
	struct fixture *f;
	pthread_mutex_t lock;
	pthread_cond_t all;
	unsigned int here;
};

/* No WRITE is answered before all are here. */
static void answer_together(void *arg, struct nfs3_call *c)
{
	struct meeting *m = arg;

	pthread_mutex_lock(&m->lock);
	if (++m->here == SIDE_BY_SIDE)
		pthread_cond_broadcast(&m->all);
	while (m->here < SIDE_BY_SIDE)
		pthread_cond_wait(&m->all, &m->lock);
	answer(m->f, c);
	pthread_mutex_unlock(&m->lock);
}

static void *write_one(void *arg)
{
	struct meeting *m = arg;
	uint64_t verf;

	return (void *)(intptr_t)target_write(m->f->source, &file, 0, "x", 1, &verf);
}

static void all_connected(struct fixture *f)
{
	struct nfs_source *s = nfs_of(f->source);
	bool all = false;

	while (!all) {
		pthread_mutex_lock(&s->pool.lock);
		all = s->pool.usable == s->n;
		pthread_mutex_unlock(&s->pool.lock);
		poll(NULL, 0, 5);
	}
}

/* Beside connection 0, which they leave to others. */
static void side_by_side(void **state)
{
	struct fixture *f = fresh();
	struct meeting m = { f, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
	pthread_t threads[SIDE_BY_SIDE];
	void *result;

	(void)state;
	f->server.answer = answer_together;
	f->server.arg = &m;
	begin_with(f, SIDE_BY_SIDE + 1, 600000);
	all_connected(f);
	for (int i = 0; i < SIDE_BY_SIDE; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_one, &m), 0);
	for (int i = 0; i < SIDE_BY_SIDE; i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	end(f);
}

/* 1 MiB takes longer than an answer may: no reason to begin again, and so for ever. */
static void a_slow_line(void **state)
{
	struct fixture *f = fresh();
	uint8_t *bytes = some_bytes(MIB);
	uint64_t verf;

	(void)state;
	f->data = calloc(1, MIB);
	f->server.slow = true;
	f->server.piece_ms = 150;
	begin_with(f, 1, 1000);
	assert_int_equal(target_write(f->source, &file, 0, bytes, MIB, &verf), 0);
	assert_memory_equal(f->data, bytes, MIB);
	free(bytes);
	end(f);
}

/* The first one is carried out, but its answer is lost. */
static void answer_lost(void *arg, struct nfs3_call *c)
{
	struct fixture *f = arg;

	if (f->calls) {
		f->status = NFS3ERR_EXIST;
		answer(f, c);
		return;
	}
	note(f, c);
	c->hang_up = true;
}

static void connection_lost_under_create(void **state)
{
	struct fixture *f = fresh();
	struct stub_origin out;
	struct stub_attr attr;

	(void)state;
	f->server.answer = answer_lost;
	begin(f);
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EEXIST);
	assert_int_equal(f->calls, 2);
	assert_int_equal(f->procedures[0], NFS3_CREATE);
	assert_int_equal(f->procedures[1], NFS3_CREATE);
	end(f);
}

static void lost_for_ever(void *arg, struct nfs3_call *c)
{
	struct fixture *f = arg;

	note(f, c);
	c->hang_up = true;
}

static void *stop_it(void *arg)
{
	struct fixture *f = arg;
	struct source_state st;

	do {
		poll(NULL, 0, 10);
		source_state(f->source, &st);
	} while (!st.retries);
	source_stop(f->source);
	return NULL;
}

static void stopped(void **state)
{
	struct fixture *f = fresh();
	pthread_t thread;
	uint64_t verf;

	(void)state;
	f->server.answer = lost_for_ever;
	begin(f);
	assert_int_equal(pthread_create(&thread, NULL, stop_it, f), 0);
	assert_int_equal(target_write(f->source, &file, 0, "x", 1, &verf), -ECANCELED);
	pthread_join(thread, NULL);
	assert_int_equal(target_remove(f->source, &root, "n"), -ECANCELED);
	end(f);
}

/* ---- target_setattr ---- */

/* What one of the words of sattr3 is about: is it set, and to what? */
static void is_set(struct nfs4_in *in, bool set, uint32_t value)
{
	assert_int_equal(nfs4_get32(in), set);
	if (set)
		assert_int_equal(nfs4_get32(in), value);
}

static void is_attr(struct nfs4_in *in, unsigned int what, const struct stub_attr *a)
{
	const struct timespec *times[] = { &a->atime, &a->mtime };

	is_set(in, what & TARGET_MODE, a->mode & 07777);
	is_set(in, what & TARGET_OWNER, a->uid);
	is_set(in, what & TARGET_OWNER, a->gid);
	assert_int_equal(nfs4_get32(in), (what & TARGET_SIZE) != 0);
	if (what & TARGET_SIZE)
		assert_int_equal(nfs4_get64(in), a->size);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nfs4_get32(in), what & TARGET_TIMES ? SET_TO_CLIENT_TIME : 0);
		if (what & TARGET_TIMES) {
			assert_int_equal(nfs4_get32(in), (uint32_t)times[i]->tv_sec);
			assert_int_equal(nfs4_get32(in), times[i]->tv_nsec);
		}
	}
}

static void set_is(struct fixture *f, unsigned int n, unsigned int what, const struct stub_attr *a)
{
	struct nfs4_in in = args_of(f, n, NFS3_SETATTR);

	is_opaque(&in, "file");
	is_attr(&in, what, a);
	assert_int_equal(nfs4_get32(&in), 0); /* no guard */
	is_end(&in);
}

static void what_is_set(void **state)
{
	struct fixture *f = start();
	struct stub_attr a = plain;

	(void)state;
	a.size = UINT64_C(0x123456789a);
	assert_int_equal(target_setattr(f->source, &file, 0, &a), 0);
	assert_int_equal(f->calls, 0);
	for (unsigned int what = 1; what < 16; what <<= 1)
		assert_int_equal(target_setattr(f->source, &file, what, &a), 0);
	assert_int_equal(f->calls, 4);
	for (unsigned int i = 0; i < 4; i++)
		set_is(f, i, 1u << i, &a);
	assert_int_equal(target_setattr(f->source, &file, TARGET_MODE | TARGET_OWNER | TARGET_TIMES, &a),
			 0);
	assert_int_equal(f->calls, 5);
	set_is(f, 4, TARGET_MODE | TARGET_OWNER | TARGET_TIMES, &a);
	end(f);
}

/* Set-ID bits after the owner, times after the size. */
static void in_which_order(void **state)
{
	struct fixture *f = start();
	struct stub_attr a = plain;

	(void)state;
	a.mode |= S_ISUID;
	assert_int_equal(target_setattr(f->source, &file, 15, &a), 0);
	assert_int_equal(f->calls, 2);
	set_is(f, 0, TARGET_SIZE | TARGET_OWNER, &a);
	set_is(f, 1, TARGET_MODE | TARGET_TIMES, &a);
	f->status = NFS3ERR_ACCES;
	assert_int_equal(target_setattr(f->source, &file, 15, &a), -EACCES);
	assert_int_equal(f->calls, 3);
	end(f);
}

static void times_it_has_not(void **state)
{
	static const struct timespec bad[] = {
		{ -1, 0 }, { (time_t)UINT32_MAX + 1, 0 }, { 1, -1 }, { 1, 1000000000 }
	};
	struct fixture *f = start();

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct stub_attr a = plain;

		a.mtime = bad[i];
		assert_int_equal(target_setattr(f->source, &file, 15, &a), -EOVERFLOW);
		a = plain;
		a.atime = bad[i];
		assert_int_equal(target_setattr(f->source, &file, TARGET_TIMES, &a), -EOVERFLOW);
		assert_int_equal(f->calls, 0);
	}
	end(f);
}

/* ---- target_make ---- */

static void made_as(struct fixture *f, uint32_t mode, const char *target, uint32_t procedure,
		    uint32_t type)
{
	struct stub_attr a = plain, attr;
	struct stub_origin out;
	struct nfs4_in in;

	a.mode = mode | 0640;
	a.rdev_major = 8;
	a.rdev_minor = 300;
	f->calls = 0;
	f->made_type = type;
	assert_int_equal(target_make(f->source, &root, "n", &a, target, &out, &attr), 0);
	assert_int_equal(out.len, 4);
	assert_memory_equal(out.bytes, "a ha", 4);
	assert_int_equal(attr.mode & S_IFMT, mode);
	assert_int_equal(attr.fileid, 9);
	assert_int_equal(f->calls, 1);
	in = args_of(f, 0, procedure);
	is_opaque(&in, "root");
	is_opaque(&in, "n");
	if (procedure == NFS3_CREATE)
		assert_int_equal(nfs4_get32(&in), GUARDED);
	if (procedure == NFS3_MKNOD)
		assert_int_equal(nfs4_get32(&in), type);
	is_attr(&in, TARGET_MODE | TARGET_OWNER | TARGET_TIMES, &a);
	if (target)
		is_opaque(&in, target);
	if (type == NF3CHR || type == NF3BLK) {
		assert_int_equal(nfs4_get32(&in), 8);
		assert_int_equal(nfs4_get32(&in), 300);
	}
	is_end(&in);
}

static void every_kind(void **state)
{
	struct fixture *f = start();

	(void)state;
	made_as(f, S_IFREG, NULL, NFS3_CREATE, NF3REG);
	made_as(f, S_IFDIR, NULL, NFS3_MKDIR, NF3DIR);
	made_as(f, S_IFLNK, "to/somewhere", NFS3_SYMLINK, NF3LNK);
	made_as(f, S_IFIFO, NULL, NFS3_MKNOD, NF3FIFO);
	made_as(f, S_IFSOCK, NULL, NFS3_MKNOD, NF3SOCK);
	made_as(f, S_IFCHR, NULL, NFS3_MKNOD, NF3CHR);
	made_as(f, S_IFBLK, NULL, NFS3_MKNOD, NF3BLK);
	end(f);
}

/* It does not fit what libnfs has for a call, which looked like lack of memory. */
static void the_longest_symlink(void **state)
{
	struct stub_attr link = { .mode = S_IFLNK | 0777 }, attr;
	char target[STUB_TARGET_MAX + 1], name[STUB_NAME_MAX + 1];
	struct fixture *f = start();
	struct stub_origin out;

	(void)state;
	assert_true(nfs_zdr_room());
	memset(target, 't', STUB_TARGET_MAX);
	memset(name, 'n', STUB_NAME_MAX);
	target[STUB_TARGET_MAX] = name[STUB_NAME_MAX] = '\0';
	f->made_type = NF3LNK;
	assert_int_equal(target_make(f->source, &root, name, &link, target, &out, &attr), 0);
	assert_int_equal(f->procedures[0], NFS3_SYMLINK);
	end(f);
}

/* A server need not tell handle and attributes of what it has made. */
static void what_is_not_told(void **state)
{
	struct stub_attr dir = { .mode = S_IFDIR | 0755 }, attr;
	struct fixture *f = start();
	struct stub_origin out;

	(void)state;
	f->made_handle = 0;
	f->made_type = 0;
	f->looked_up = NF3REG;
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), 0);
	assert_int_equal(f->lookups, 1);
	assert_memory_equal(out.bytes, "file", 4);
	assert_int_equal(attr.fileid, 3);
	/* somebody else was here, too */
	f->looked_up = NF3FIFO;
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EEXIST);
	f->made_handle = 4; /* of which GETATTR says that it is a directory */
	assert_int_equal(target_make(f->source, &root, "n", &dir, NULL, &out, &attr), 0);
	assert_int_equal(attr.fileid, 2);
	assert_memory_equal(out.bytes, "a ha", 4);
	end(f);
}

static void lies_about_what_was_made(void **state)
{
	struct fixture *f = start();
	struct stub_origin out;
	struct stub_attr attr;

	(void)state;
	f->made_handle = NFS3_FHSIZE + 1;
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EBADMSG);
	f->made_handle = 4;
	f->made_type = NF3DIR;
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EBADMSG);
	f->made_type = 99;
	assert_int_equal(target_make(f->source, &root, "n", &plain, NULL, &out, &attr), -EBADMSG);
	end(f);
}

/* A file as old as that is made, and gets its times when somebody sets them. */
static void made_without_times(void **state)
{
	struct fixture *f = start();
	struct stub_attr a = plain, attr;
	struct stub_origin out;
	struct nfs4_in in;

	(void)state;
	a.mtime.tv_sec = -5;
	assert_int_equal(target_make(f->source, &root, "n", &a, NULL, &out, &attr), 0);
	in = args_of(f, 0, NFS3_CREATE);
	is_opaque(&in, "root");
	is_opaque(&in, "n");
	nfs4_get32(&in);
	is_attr(&in, TARGET_MODE | TARGET_OWNER, &a);
	is_end(&in);
	end(f);
}

/* ---- names ---- */

static void which_names(void **state)
{
	static const struct stub_origin dir = { 3, "dir" };
	struct fixture *f = start();
	struct nfs4_in in;

	(void)state;
	assert_int_equal(target_rename(f->source, &root, "a", &dir, "b"), 0);
	assert_int_equal(target_link(f->source, &file, &dir, "c"), 0);
	assert_int_equal(target_remove(f->source, &root, "d"), 0);
	assert_int_equal(target_rmdir(f->source, &root, "e"), 0);
	in = args_of(f, 0, NFS3_RENAME);
	is_opaque(&in, "root");
	is_opaque(&in, "a");
	is_opaque(&in, "dir");
	is_opaque(&in, "b");
	is_end(&in);
	in = args_of(f, 1, NFS3_LINK);
	is_opaque(&in, "file");
	is_opaque(&in, "dir");
	is_opaque(&in, "c");
	is_end(&in);
	in = args_of(f, 2, NFS3_REMOVE);
	is_opaque(&in, "root");
	is_opaque(&in, "d");
	is_end(&in);
	in = args_of(f, 3, NFS3_RMDIR);
	is_opaque(&in, "root");
	is_opaque(&in, "e");
	is_end(&in);
	end(f);
}

/* ---- target_setacl ---- */

#define ACL_NAMED 1024 /* so many users there is room for */

static uint8_t acl_value[POSIX_ACL_HEAD + (ACL_NAMED + 4) * POSIX_ACL_ENTRY];

static void put_entry(size_t i, unsigned int tag, unsigned int perm, uint32_t id)
{
	uint8_t *e = acl_value + POSIX_ACL_HEAD + i * POSIX_ACL_ENTRY;

	stub_put_le(e, tag, 2);
	stub_put_le(e + 2, perm, 2);
	stub_put_le(e + 4, id, 4);
}

/* Owner, @named users, the group, a mask, others. */
static struct stub_xattr acl_of(unsigned int named)
{
	size_t i = 0;

	stub_put_le(acl_value, POSIX_ACL_XATTR_VERSION, POSIX_ACL_HEAD);
	put_entry(i++, ACL_USER_OBJ, 7, UINT32_MAX);
	for (unsigned int n = 0; n < named; n++)
		put_entry(i++, ACL_USER, 5, 3000 + n);
	put_entry(i++, ACL_GROUP_OBJ, 4, UINT32_MAX);
	if (named)
		put_entry(i++, ACL_MASK, 6, UINT32_MAX);
	put_entry(i++, ACL_OTHER, 1, UINT32_MAX);
	return (struct stub_xattr){ POSIX_ACL_ACCESS, acl_value,
				    POSIX_ACL_HEAD + i * POSIX_ACL_ENTRY };
}

static void is_ace(struct nfs4_in *in, uint32_t type, uint32_t id, uint32_t perm)
{
	assert_int_equal(nfs4_get32(in), type);
	assert_int_equal(nfs4_get32(in), id);
	assert_int_equal(nfs4_get32(in), perm);
}

static struct fixture *start_with_acls(void)
{
	struct fixture *f = fresh();

	f->server.acl = true;
	begin(f);
	return f;
}

static void acls_are_said(void **state)
{
	struct stub_attr dir = plain;
	struct stub_xattr x = acl_of(1);
	struct fixture *f = start_with_acls();
	struct nfs4_in in;

	(void)state;
	assert_int_equal(target_setacl(f->source, &file, &plain, &x, &x), 0);
	in = args_of(f, 0, NFSACL3_SETACL);
	is_opaque(&in, "file");
	assert_int_equal(nfs4_get32(&in), 3);
	assert_int_equal(nfs4_get32(&in), 5);
	assert_int_equal(nfs4_get32(&in), 5);
	is_ace(&in, 1, 1000, 7);
	is_ace(&in, 2, 3000, 5);
	is_ace(&in, 4, 2000, 4);
	is_ace(&in, 0x10, 0, 6);
	is_ace(&in, 0x20, 0, 1);
	assert_int_equal(nfs4_get32(&in), 0); /* of a file there is no default */
	assert_int_equal(nfs4_get32(&in), 0);
	is_end(&in);

	dir.mode = S_IFDIR | 0751;
	x = acl_of(0);
	assert_int_equal(target_setacl(f->source, &file, &dir, NULL, &x), 0);
	in = args_of(f, 1, NFSACL3_SETACL);
	is_opaque(&in, "file");
	assert_int_equal(nfs4_get32(&in), 15);
	assert_int_equal(nfs4_get32(&in), 4);
	assert_int_equal(nfs4_get32(&in), 4);
	is_ace(&in, 1, 1000, 7); /* as the mode says */
	is_ace(&in, 4, 2000, 5);
	is_ace(&in, 0x10, 0, 5);
	is_ace(&in, 0x20, 0, 1);
	assert_int_equal(nfs4_get32(&in), 4);
	assert_int_equal(nfs4_get32(&in), 4);
	is_ace(&in, 0x1001, 1000, 7);
	is_ace(&in, 0x1004, 2000, 4);
	is_ace(&in, 0x1010, 0, 4);
	is_ace(&in, 0x1020, 0, 1);
	is_end(&in);
	end(f);
}

static void the_longest_acl(void **state)
{
	struct stub_attr dir = { .mode = S_IFDIR | 0751 };
	struct stub_xattr x = acl_of(ACL_NAMED - 4);
	struct fixture *f = start_with_acls();

	(void)state;
	assert_int_equal(target_setacl(f->source, &file, &dir, &x, &x), 0);
	assert_int_equal(f->calls, 1);
	x = acl_of(ACL_NAMED - 3);
	assert_int_equal(target_setacl(f->source, &file, &dir, &x, NULL), -EINVAL);
	assert_int_equal(target_setacl(f->source, &file, &dir, NULL, &x), -EINVAL);
	assert_int_equal(f->calls, 1);
	end(f);
}

static void no_acl(void **state)
{
	struct stub_attr link = { .mode = S_IFLNK | 0777 };
	struct stub_xattr good = acl_of(2), x = good;
	struct fixture *f = start_with_acls();

	(void)state;
	x.len--;
	assert_int_equal(target_setacl(f->source, &file, &plain, &x, NULL), -EINVAL);
	x.len = 3;
	assert_int_equal(target_setacl(f->source, &file, &plain, &x, NULL), -EINVAL);
	x.len = POSIX_ACL_HEAD;
	assert_int_equal(target_setacl(f->source, &file, &plain, &x, NULL), -EINVAL);
	x.len = good.len - POSIX_ACL_ENTRY; /* none for others */
	assert_int_equal(target_setacl(f->source, &file, &plain, &x, NULL), -EINVAL);
	acl_value[0] = 3;
	assert_int_equal(target_setacl(f->source, &file, &plain, &good, NULL), -EINVAL);
	good = acl_of(2);
	put_entry(2, ACL_USER, 5, 3000); /* twice */
	assert_int_equal(target_setacl(f->source, &file, &plain, &good, NULL), -EINVAL);
	put_entry(2, ACL_USER, 8, 3001);
	assert_int_equal(target_setacl(f->source, &file, &plain, &good, NULL), -EINVAL);
	put_entry(2, 3, 7, 3001);
	assert_int_equal(target_setacl(f->source, &file, &plain, &good, NULL), -EINVAL);
	put_entry(2, ACL_USER, 7, UINT32_MAX);
	assert_int_equal(target_setacl(f->source, &file, &plain, &good, NULL), -EINVAL);
	assert_int_equal(target_setacl(f->source, &file, &link, NULL, NULL), -EOPNOTSUPP);
	assert_int_equal(f->calls, 0);
	f->status = NFS3ERR_NOTSUPP;
	assert_int_equal(target_setacl(f->source, &file, &plain, NULL, NULL), -EOPNOTSUPP);
	end(f);
	f = start(); /* a server without the protocol */
	assert_int_equal(target_setacl(f->source, &file, &plain, NULL, NULL), -EOPNOTSUPP);
	assert_int_equal(f->calls, 0);
	end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors),
		cmocka_unit_test(errors_come_out),
		cmocka_unit_test(later_is_asked_again),
		cmocka_unit_test(impossible_arguments),
		cmocka_unit_test(not_of_other_sources),
		cmocka_unit_test(writes_a_mebibyte),
		cmocka_unit_test(short_answers_are_continued),
		cmocka_unit_test(lies_about_writes),
		cmocka_unit_test(another_verifier),
		cmocka_unit_test(verifiers_without_end),
		cmocka_unit_test(keeps_by_one_call),
		cmocka_unit_test(keeps_what_the_server_does_not),
		cmocka_unit_test(the_largest_write),
		cmocka_unit_test(side_by_side),
		cmocka_unit_test(a_slow_line),
		cmocka_unit_test(connection_lost_under_create),
		cmocka_unit_test(stopped),
		cmocka_unit_test(what_is_set),
		cmocka_unit_test(in_which_order),
		cmocka_unit_test(times_it_has_not),
		cmocka_unit_test(every_kind),
		cmocka_unit_test(the_longest_symlink),
		cmocka_unit_test(what_is_not_told),
		cmocka_unit_test(lies_about_what_was_made),
		cmocka_unit_test(made_without_times),
		cmocka_unit_test(which_names),
		cmocka_unit_test(acls_are_said),
		cmocka_unit_test(the_longest_acl),
		cmocka_unit_test(no_acl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
