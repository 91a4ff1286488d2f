// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs42.c - what NFSv4.2 tells more: retriever/nfs/nfs42_*.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nfs/nfs42.h"
#include "nfs41_server.h"
#include "source/dos_attrib.h"

#define MIB   (UINT64_C(1) << 20)
#define TIB   (UINT64_C(1) << 40)
#define GRAIN 65536u

static const struct stub_origin file = { 4, "file" };

/* ---- with a server ---- */

struct fixture {
	struct nfs41_server server;
	struct source *source;
	struct nfs41_told told;
	char uri[128];
};

static struct fixture *start_with(const char *version, bool born, uint32_t value_max)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct source_config c = { .born = born,
				   .smb.xattr_value = value_max,
				   .uri = f->uri,
				   .connections = 1,
				   .readdir_bytes = 65536,
				   .call_timeout_ms = 60000,
				   .inflight = 16,
				   .log = nfs41_take_log,
				   .log_arg = &f->told };

	f->server.minor = 2;
	f->server.slots = 16;
	f->server.reply_max = NFS41_REPLY_MAX;
	f->server.ops_max = 16;
	f->server.lease_s = 90;
	pthread_mutex_init(&f->told.lock, NULL);
	nfs41_server_start(&f->server);
	snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1:%u/e?version=%s", f->server.port, version);
	assert_int_equal(source_create(&c, &f->source), 0);
	return f;
}

static struct fixture *start(const char *version)
{
	return start_with(version, false, 0);
}

static void end(struct fixture *f)
{
	source_stop(f->source);
	source_destroy(f->source);
	assert_int_equal(atomic_load(&f->server.wrong), 0);
	nfs41_server_stop(&f->server);
	free(f);
}

/* ---- holes ---- */

static int ask(struct fixture *f, uint64_t from, struct source_holes *h)
{
	return source_holes(f->source, SOURCE_BACKGROUND, &file, from, h);
}

static void terabytes_cost_some_questions(void **state)
{
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 16 * TIB;
	f->server.data[0] = (struct stub_range){ MIB, 2 * MIB };
	f->server.data[1] = (struct stub_range){ 2 * MIB + GRAIN, 3 * MIB }; /* behind a small hole */
	f->server.data[2] = (struct stub_range){ 8 * TIB, 8 * TIB + 4096 };
	f->server.n_data = 3;
	for (int i = 0; i < 2; i++) {
		f->server.no_end = i; /* two ways to say that no data comes any more */
		assert_int_equal(ask(f, 0, &h), 0);
		assert_int_equal(h.n, 3);
		assert_true(h.hole[0].start == 0 && h.hole[0].end == MIB);
		assert_true(h.hole[1].start == 3 * MIB && h.hole[1].end == 8 * TIB);
		assert_true(h.hole[2].start == 8 * TIB + 4096 && h.hole[2].end == 16 * TIB);
		assert_true(h.end == 16 * TIB);
		assert_int_equal(h.attr.fileid, 3);
		assert_true(h.attr.size == 16 * TIB);
		free(h.hole);
	}
	assert_true(atomic_load(&f->server.seeks) <= 2 * 10);
	assert_true(atomic_load(&f->server.reads) <= 2 * 6);
	assert_int_equal(ask(f, 9 * TIB, &h), 0); /* from the middle on */
	assert_int_equal(h.n, 1);
	assert_true(h.hole[0].start == 9 * TIB && h.hole[0].end == 16 * TIB);
	free(h.hole);
	end(f);
}

static void files_without_holes(void **state)
{
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 64 * MIB;
	f->server.data[0] = (struct stub_range){ 0, 64 * MIB };
	f->server.n_data = 1;
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 0);
	assert_true(h.end == 64 * MIB);
	assert_int_equal(atomic_load(&f->server.seeks), 1);
	free(h.hole);
	/* in many pieces: not all of them are looked at */
	f->server.n_data = 60;
	for (unsigned int i = 0; i < 60; i++)
		f->server.data[i] = (struct stub_range){ 2 * i * GRAIN, (2 * i + 1) * GRAIN };
	f->server.size = 64 * MIB;
	atomic_store(&f->server.seeks, 0);
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 0);
	assert_true(h.end > 0 && h.end < 64 * MIB);
	assert_true(atomic_load(&f->server.seeks) <= 64);
	free(h.hole);
	assert_int_equal(ask(f, 64 * MIB, &h), -EOPNOTSUPP); /* nothing is there */
	free(h.hole);
	end(f);
}

static void who_cannot_tell_is_read(void **state)
{
	static const uint32_t refusals[] = { NFS4_NOTSUPP, NFS4_OP_ILLEGAL, NFS4_UNION_NOTSUPP,
					     NFS4_BAD_STATEID, NFS4_INVAL };
	struct fixture *f = start("4.2");
	struct source_holes h;

	f->server.size = 64 * MIB;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		f->server.seek_status = refusals[i];
		assert_int_equal(ask(f, 0, &h), -EOPNOTSUPP);
		free(h.hole);
	}
	f->server.seek_status = NFS4_EIO;
	assert_int_equal(ask(f, 0, &h), -EIO);
	free(h.hole);
	f->server.seek_status = 0; /* another file may be on another file system */
	assert_int_equal(ask(f, 0, &h), 0);
	assert_int_equal(h.n, 1);
	free(h.hole);
	end(f);
	f = start("4.1");
	f->server.size = 64 * MIB;
	assert_int_equal(ask(f, 0, &h), -EOPNOTSUPP);
	assert_null(h.hole);
	assert_int_equal(atomic_load(&f->server.seeks), 0);
	end(f);
}

/* @set: how it lies; it is asked no more then. */
static void lies(void (*set)(struct nfs41_server *s), const char *why)
{
	struct fixture *f = start("4.2");
	struct source_holes h;
	unsigned int seeks;

	f->server.size = 64 * MIB;
	f->server.data[0] = (struct stub_range){ 32 * MIB, 48 * MIB };
	f->server.n_data = 1;
	set(&f->server);
	assert_int_equal(ask(f, 8 * MIB, &h), -EOPNOTSUPP);
	free(h.hole);
	assert_true(nfs41_was_told(&f->told, why));
	seeks = atomic_load(&f->server.seeks);
	assert_int_equal(ask(f, 8 * MIB, &h), -EOPNOTSUPP);
	assert_int_equal(atomic_load(&f->server.seeks), seeks);
	end(f);
}

static void goes_back(struct nfs41_server *s)
{
	s->back = true;
}

static void is_both(struct nfs41_server *s)
{
	s->both = true;
}

static void has_data(struct nfs41_server *s)
{
	s->liar = true;
}

static void what_makes_no_sense_is_not_believed(void **state)
{
	lies(goes_back, "its holes go backwards");
	lies(is_both, "what is a hole is data, too");
	lies(has_data, "there is data where it says that there is none");
}

/* ---- extended attributes ---- */

static void have(struct fixture *f, const char *name, uint32_t name_len, const char *value,
		 uint32_t len)
{
	unsigned int i = f->server.n_xattrs++;

	f->server.xattrs[i].name = name;
	f->server.xattrs[i].name_len = name_len;
	f->server.xattrs[i].value = value;
	f->server.xattrs[i].len = len;
}

static void have_usual(struct fixture *f)
{
	have(f, "a", 1, "one", 3);
	have(f, "long name/with: anything", 24, "\0\1", 2);
	have(f, "empty", 5, "", 0);
}

static void meta_of(struct fixture *f, struct source_meta *m)
{
	assert_int_equal(source_meta(f->source, SOURCE_BACKGROUND, &file, m), 0);
	assert_int_equal(m->attr.fileid, 3);
}

static void usual(const struct source_meta *m)
{
	assert_int_equal(m->n, 3);
	assert_string_equal(m->xattrs[0].name, "user.a");
	assert_int_equal(m->xattrs[0].len, 3);
	assert_memory_equal(m->xattrs[0].value, "one", 3);
	assert_string_equal(m->xattrs[1].name, "user.long name/with: anything");
	assert_memory_equal(m->xattrs[1].value, "\0\1", 2);
	assert_string_equal(m->xattrs[2].name, "user.empty");
	assert_int_equal(m->xattrs[2].len, 0);
	assert_null(m->lost);
}

static void attributes_come_along(void **state)
{
	struct fixture *f = start("4.2");
	struct source_meta m;

	have_usual(f);
	for (f->server.page = 0; f->server.page < 4; f->server.page++) {
		meta_of(f, &m);
		usual(&m);
		source_meta_free(&m);
	}
	end(f);
	f = start("4.1"); /* which does not know them */
	have_usual(f);
	meta_of(f, &m);
	assert_int_equal(m.n, 0);
	source_meta_free(&m);
	assert_int_equal(atomic_load(&f->server.lists), 0);
	end(f);
}

static bool more(struct fixture *f, const char *name)
{
	static const struct stub_origin dir = { 4, "root" };
	struct stub_origin o;
	struct stub_attr a;

	assert_int_equal(source_lookup(f->source, SOURCE_DEMAND, &dir, NULL, name, strlen(name), &o,
				       &a),
			 0);
	assert_int_equal(a.fileid, strlen(name) == 4 ? 3 : 4);
	assert_int_equal(source_has_meta(f->source, &a), a.more);
	return a.more;
}

struct listed {
	unsigned int n, dummies;
};

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct listed *l = arg;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(e[i].error, 0);
		assert_int_equal(e[i].dummy, e[i].attr.more);
		l->dummies |= e[i].dummy ? 1u << (e[i].attr.fileid - 3) : 0;
	}
	l->n += (unsigned int)n;
	return 0;
}

static unsigned int dummies(struct fixture *f)
{
	static const struct stub_origin dir = { 4, "root" };
	struct listed l = { 0 };

	assert_int_equal(source_list(f->source, SOURCE_BACKGROUND, &dir, NULL, on_entries, &l), 0);
	assert_int_equal(l.n, 2);
	return l.dummies;
}

static void look_ups_say_whether_there_are_any(void **state)
{
	static const uint32_t unknown[] = { NFS4_NOTSUPP, NFS4_OP_ILLEGAL, NFS4_INVAL };
	struct fixture *f = start("4.2");
	struct source_meta m;
	unsigned int calls;

	have_usual(f);
	assert_true(more(f, "with"));
	calls = atomic_load(&f->server.sequences);
	assert_true(more(f, "with"));
	assert_false(more(f, "plain"));
	assert_int_equal(atomic_load(&f->server.sequences), calls + 2); /* no call of their own */
	for (size_t i = 0; i < 3; i++) {
		f->server.list_status = unknown[i];
		assert_false(more(f, "with"));
	}
	f->server.list_status = NFS4_TOOSMALL; /* of a name that does not fit */
	assert_true(more(f, "with"));
	f->server.list_status = NFS4_EIO; /* who knows: source_meta() will */
	assert_true(more(f, "plain"));
	f->server.no_support = true; /* but not there */
	assert_false(more(f, "plain"));
	assert_int_equal(dummies(f), 0);
	calls = atomic_load(&f->server.lists);
	meta_of(f, &m);
	assert_int_equal(m.n, 0);
	source_meta_free(&m);
	assert_int_equal(atomic_load(&f->server.lists), calls);
	end(f);
}

static void listings_say_whether_there_are_any(void **state)
{
	struct fixture *f = start("4.2");

	assert_int_equal(dummies(f), 0);
	have_usual(f);
	assert_int_equal(dummies(f), 1); /* "with" */
	assert_int_equal(atomic_load(&f->server.lists), 4);
	f->server.list_status = NFS4_NOTSUPP;
	assert_int_equal(dummies(f), 0);
	f->server.list_status = NFS4_EIO;
	assert_int_equal(dummies(f), 3);
	end(f);
}

static void what_cannot_be_kept_is_told(void **state)
{
	static const char big[200];
	struct fixture *f = start_with("4.2", false, 100);
	char name[252];
	struct source_meta m;

	memset(name, 'n', sizeof(name));
	have(f, "big", 3, big, sizeof(big));
	have(f, name, 251, "x", 1);
	have(f, name, 250, "y", 1);
	have(f, "gone", 4, NULL, 0);
	meta_of(f, &m);
	assert_int_equal(m.n, 1);
	assert_int_equal(strlen(m.xattrs[0].name), 255);
	assert_memory_equal(m.xattrs[0].value, "y", 1);
	assert_non_null(strstr(m.lost, "attribute user.big: more than the new file system takes\n"));
	assert_non_null(strstr(m.lost, "nnn: its name is longer"));
	source_meta_free(&m);
	f->server.get_status = NFS4_XATTR2BIG;
	meta_of(f, &m);
	assert_int_equal(m.n, 0);
	assert_non_null(strstr(m.lost, "attribute user.big: too large to be had\n"));
	source_meta_free(&m);
	end(f);
}

/* What an ACL takes of the room for all is not there for them. */
static void acls_come_first(void **state)
{
	static const char value[44];
	const struct stub_xattr acl = { "system.posix_acl_access", value, sizeof(value) };
	const uint32_t all = 23 + sizeof(value) + 6 + 3; /* with user.a */
	struct fixture *f = start("4.2");
	struct nfs_source *s = nfs_of(f->source);

	have(f, "a", 1, "one", 3);
	for (uint32_t less = 0; less < 2; less++) {
		struct source_meta m = { .attr.mode = S_IFREG | 0644 };

		s->config.smb.xattr_all = all - less;
		assert_int_equal(source_meta_append(&m, &acl, 1), 0);
		assert_int_equal(nfs42_extras(s, SOURCE_BACKGROUND, &file, true, NULL, &m), 0);
		assert_int_equal(m.n, 2 - less);
		assert_string_equal(m.xattrs[0].name, acl.name);
		assert_int_equal(m.lost != NULL, less);
		source_meta_free(&m);
	}
	end(f);
}

/* Whoever believes that there are some: a version that cannot ask for them does not. */
static void versions_before_have_none(void **state)
{
	struct source_meta m = { .attr.mode = S_IFREG | 0644 };
	struct fixture *f = start("4.1");
	unsigned int before = atomic_load(&f->server.lists);

	have(f, "a", 1, "one", 3);
	assert_int_equal(nfs42_extras(nfs_of(f->source), SOURCE_BACKGROUND, &file, true, NULL, &m), 0);
	assert_int_equal(m.n, 0);
	assert_null(m.lost);
	assert_int_equal(atomic_load(&f->server.lists), before);
	source_meta_free(&m);
	end(f);
}

static int meta_error(struct fixture *f)
{
	struct source_meta m;
	int r = source_meta(f->source, SOURCE_BACKGROUND, &file, &m);

	source_meta_free(&m);
	return r;
}

static void lists_that_cannot_be(void **state)
{
	struct fixture *f = start("4.2");

	f->server.endless = true; /* a million, and no end */
	assert_int_equal(meta_error(f), -EBADMSG);
	assert_true(atomic_load(&f->server.lists) < 20);
	f->server.too_long = true; /* of which each would be told as lost */
	assert_int_equal(meta_error(f), -EBADMSG);
	assert_true(atomic_load(&f->server.lists) < 40);
	f->server.endless = f->server.too_long = false;
	have_usual(f);
	f->server.stuck = true;
	assert_int_equal(meta_error(f), -EBADMSG);
	assert_true(nfs41_was_told(&f->told, "it does not go on"));
	f->server.stuck = false;
	f->server.list_status = NFS4_BAD_COOKIE; /* changed while it is read, for ever */
	assert_int_equal(meta_error(f), -EIO);
	f->server.list_status = 0;
	f->server.get_status = NFS4_EACCESS;
	assert_int_equal(meta_error(f), -EACCES);
	f->server.get_status = 0;
	assert_int_equal(meta_error(f), 0);
	have(f, "a\0b", 3, "x", 1);
	assert_int_equal(meta_error(f), -EBADMSG);
	f->server.n_xattrs--;
	have(f, "", 0, "x", 1);
	assert_int_equal(meta_error(f), -EBADMSG);
	end(f);
}

/* The answer to LISTXATTRS with @n names, of which one is there. */
static int list_of(uint32_t n)
{
	struct nfs_call c = { .op = NFS_OP_LISTXATTRS };
	struct nfs_answer a = { 0 };
	struct nfs4_bytes b;
	struct nfs4_out o;

	o = (struct nfs4_out){ .len = 0 };
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 2);
	nfs4_put32(&o, NFS4_PUTFH);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, NFS4_LISTXATTRS);
	nfs4_put32(&o, 0);
	nfs4_put64(&o, 1);
	nfs4_put32(&o, n);
	nfs4_put_opaque(&o, "name", 4);
	nfs4_put32(&o, 1);
	b = (struct nfs4_bytes){ o.bytes, o.len };
	nfs4_answer(NULL, &c, &b, &a);
	return a.error;
}

static void lists_are_as_long_as_they_say(void **state)
{
	assert_int_equal(list_of(1), 0);
	assert_int_equal(list_of(2), -EBADMSG); /* eof is no name: nothing comes behind */
	assert_int_equal(list_of(1000000), -EBADMSG);
	assert_int_equal(list_of(UINT32_MAX), -EBADMSG);
}

/* ---- when it was made ---- */

static void times_as_samba_stores_them(void **state)
{
	/* as in test_smb_meta.c: 132000000000000001 */
	static const uint8_t expected[DOS_ATTRIB_BYTES] = {
		0, 0, 5, 0, 5, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x5a, 0xf6, 0x4c, 0xf5, 0xd4, 1
	};
	struct timespec born = { 13200000000 - 11644473600, 199 };
	uint8_t value[DOS_ATTRIB_BYTES];

	assert_true(dos_attrib_born(false, &born, value));
	assert_memory_equal(value, expected, sizeof(value));
	assert_true(dos_attrib_born(true, &born, value));
	assert_int_equal(value[12], 0x10);
	born.tv_sec = -11644473600;
	assert_false(dos_attrib_born(false, &born, value));
	born.tv_sec++;
	assert_true(dos_attrib_born(false, &born, value));
	born.tv_sec = INT64_MAX;
	assert_false(dos_attrib_born(false, &born, value));
	born.tv_sec = INT64_MIN;
	assert_false(dos_attrib_born(false, &born, value));
}

static void creation_times_are_kept_if_wanted(void **state)
{
	static const char *const versions[] = { "4.0", "4.1", "4.2" };

	for (unsigned int i = 0; i < 6; i++) {
		struct fixture *f = start_with(versions[i / 2], i % 2, 0);
		uint8_t value[DOS_ATTRIB_BYTES];
		struct source_meta m;

		assert_false(more(f, "plain")); /* a server that tells none */
		f->server.born = (struct timespec){ 1600000000, 500 };
		assert_int_equal(more(f, "plain"), i % 2);
		assert_int_equal(dummies(f), i % 2 ? 3 : 0);
		meta_of(f, &m);
		assert_int_equal(m.n, i % 2);
		assert_true(dos_attrib_born(false, &f->server.born, value));
		if (m.n) {
			assert_string_equal(m.xattrs[0].name, "user.DOSATTRIB");
			assert_int_equal(m.xattrs[0].len, sizeof(value));
			assert_memory_equal(m.xattrs[0].value, value, sizeof(value));
		}
		source_meta_free(&m);
		end(f);
	}
}

static void what_samba_has_stored_counts_more(void **state)
{
	struct fixture *f = start_with("4.2", true, 0);
	struct source_meta m;

	f->server.born = (struct timespec){ 1600000000, 500 };
	have_usual(f);
	meta_of(f, &m);
	assert_int_equal(m.n, 4);
	assert_string_equal(m.xattrs[3].name, "user.DOSATTRIB");
	source_meta_free(&m);
	have(f, "DOSATTRIB", 9, "theirs", 6);
	meta_of(f, &m);
	assert_int_equal(m.n, 4);
	assert_memory_equal(m.xattrs[3].value, "theirs", 6);
	source_meta_free(&m);
	f->server.n_xattrs = 0;
	f->server.born.tv_sec = INT64_MIN;
	meta_of(f, &m);
	assert_int_equal(m.n, 0);
	assert_non_null(strstr(m.lost, "creation time"));
	source_meta_free(&m);
	end(f);
}

/* ---- source_settle() ---- */

static void the_highest_version_is_taken(void **state)
{
	static const char *const versions[] = { "4.0", "4.1", "4.2" };

	for (unsigned int minor = 0; minor < 4; minor++) {
		struct fixture *f = start("4.0");
		struct source_config c = { .uri = f->uri, .call_timeout_ms = 60000 };
		char uri[256], expected[256];

		f->server.minor = minor;
		snprintf(f->uri, sizeof(f->uri), "nfs://127.0.0.1/e?version=4&nfsport=%u",
			 f->server.port);
		assert_int_equal(source_settle(&c, 60000, uri, sizeof(uri)), 0);
		snprintf(expected, sizeof(expected), "nfs://127.0.0.1/e?version=%s&nfsport=%u",
			 versions[minor < 2 ? minor : 2], f->server.port);
		assert_string_equal(uri, expected);
		end(f);
	}
}

static void what_leaves_no_choice_stays(void **state)
{
	static const char *const uris[] = { "nfs://127.0.0.1:9/e?version=4.0", "nfs://127.0.0.1:9/e",
					    "nfs://127.0.0.1:9/e?version=4.1&nfsport=9",
					    "nfs://127.0.0.1:9/version=4", "file:///x?version=4" };
	struct source_config c = { .call_timeout_ms = 1000 };
	char uri[256];

	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
		c.uri = uris[i];
		assert_int_equal(source_settle(&c, 1000, uri, sizeof(uri)), 0);
		assert_string_equal(uri, uris[i]);
	}
	c.uri = "nfs://127.0.0.1:9/e?version=4"; /* nobody answers there */
	assert_int_equal(source_settle(&c, 1000, uri, sizeof(uri)), -ECONNREFUSED);
	assert_string_equal(uri, c.uri);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terabytes_cost_some_questions),
		cmocka_unit_test(files_without_holes),
		cmocka_unit_test(who_cannot_tell_is_read),
		cmocka_unit_test(what_makes_no_sense_is_not_believed),
		cmocka_unit_test(attributes_come_along),
		cmocka_unit_test(look_ups_say_whether_there_are_any),
		cmocka_unit_test(listings_say_whether_there_are_any),
		cmocka_unit_test(what_cannot_be_kept_is_told),
		cmocka_unit_test(acls_come_first),
		cmocka_unit_test(versions_before_have_none),
		cmocka_unit_test(lists_that_cannot_be),
		cmocka_unit_test(lists_are_as_long_as_they_say),
		cmocka_unit_test(times_as_samba_stores_them),
		cmocka_unit_test(creation_times_are_kept_if_wanted),
		cmocka_unit_test(what_samba_has_stored_counts_more),
		cmocka_unit_test(the_highest_version_is_taken),
		cmocka_unit_test(what_leaves_no_choice_stays),
	};

	return cmocka_run_group_tests_name("nfs42", tests, NULL, NULL);
}
