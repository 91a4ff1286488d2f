/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_source_smb.c - retriever/smb/smb_uri.c, smb_password.c, smb_wire.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "smb/smb.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- smb_uri_parse ---- */

static void uri_good(void **state)
{
	static const struct {
		const char *uri, *host, *share, *root;
		uint16_t port;
	} good[] = {
		{ "smb://old/share", "old", "share", "", 0 },
		{ "smb://old/share/", "old", "share", "", 0 },
		{ "smb://10.0.0.1:4455/C$", "10.0.0.1", "C$", "", 4455 },
		{ "smb://a-b.c_d/s/dir", "a-b.c_d", "s", "dir", 0 },
		{ "smb://h/s//a//b c/", "h", "s", "a/b c", 0 },
		{ "smb://h/My%20Share/100%25/%c3%BC", "h", "My Share", "100%/\xc3\xbc", 0 },
		{ "smb://h/s/a@b#c=d&e", "h", "s", "a@b#c=d&e", 0 },
		{ "smb://[fd00::1]/s", "[fd00::1]", "s", "", 0 },
		{ "smb://[::1]:4455/s", "[::1]", "s", "", 4455 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct smb_uri u;
		char why[128] = "";

		assert_int_equal(smb_uri_parse(good[i].uri, &u, why, sizeof(why)), 0);
		assert_string_equal(u.host, good[i].host);
		assert_string_equal(u.share, good[i].share);
		assert_string_equal(u.root, good[i].root);
		assert_int_equal(u.port, good[i].port);
	}
}

static void uri_bad(void **state)
{
	static const char *const bad[] = {
		"", "smb:/h/s", "nfs://h/s", "smb://", "smb://h", "smb://h/", "smb://h//", "smb:///s",
		"smb://user:pw@h/s", "smb://user@h/s", "smb://h:/s", "smb://h:0/s", "smb://h:65536/s",
		"smb://h:1x/s", "smb://h:99999999999999999999/s", "smb://h/s%", "smb://h/s%4",
		"smb://h/s%4g", "smb://h/s%00", "smb://h/s/..", "smb://h/../s", "smb://h/s/./a",
		"smb://h/s/%2e%2e", "smb://h/a%2fb", "smb://h/a\\b", "smb://h/a:b", "smb://h/a*",
		"smb://h/s?x=1", "smb://h/s\n", "smb://h h/s", "smb://::1/s", "smb://[fe80::1%eth0]/s", "smb://[h]/s",
	};
	char text[STUB_URI_MAX + 2], why[128];
	struct smb_uri u;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		why[0] = '\0';
		if (smb_uri_parse(bad[i], &u, why, sizeof(why)) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_true(why[0]);
	}
	assert_int_equal(smb_uri_parse(NULL, &u, why, sizeof(why)), -EINVAL);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "smb://h/s/", 10);
	assert_int_equal(smb_uri_parse(text, &u, why, sizeof(why)), -EINVAL);
	text[sizeof(text) - 2] = '\0';
	assert_int_equal(smb_uri_parse(text, &u, why, sizeof(why)), 0);
	assert_int_equal(strlen(u.root), STUB_URI_MAX - 10);
	memcpy(text, "smb://h/aa", 10); /* a share's name of a thousand bytes */
	assert_int_equal(smb_uri_parse(text, &u, why, sizeof(why)), -EINVAL);
}

/* ---- smb_login_read ---- */

static int login(const char *text, mode_t mode, struct smb_login *out, char *why, size_t size)
{
	char path[] = "/tmp/test_source_smb-XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	r = smb_login_read(path, out, why, size);
	unlink(path);
	return r;
}

static void login_good(void **state)
{
	struct smb_login l;
	char why[256];

	(void)state;
	assert_int_equal(login("# who\n\nusername = joe\n password=  a = b#c  \ndomain = DOM\n",
			       0600, &l, why, sizeof(why)),
			 0);
	assert_string_equal(l.user, "joe");
	assert_string_equal(l.password, "a = b#c");
	assert_string_equal(l.domain, "DOM");
	assert_int_equal(login("username=joe", 0400, &l, why, sizeof(why)), 0);
	assert_string_equal(l.user, "joe");
	assert_string_equal(l.password, "");
}

static void login_bad(void **state)
{
	static const char *const bad[] = { "", "password = x\n", "username\n", "user = joe\n",
					   "username = joe\nsecret\n" };
	static const mode_t modes[] = { 0640, 0604, 0660, 0610, 0601, 0777 };
	struct smb_login l;
	char why[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		why[0] = '\0';
		assert_int_equal(login(bad[i], 0600, &l, why, sizeof(why)), -EINVAL);
		assert_true(why[0]);
		assert_null(strstr(why, "secret"));
	}
	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		assert_int_equal(login("username = joe\n", modes[i], &l, why, sizeof(why)), -EACCES);
	assert_int_equal(smb_login_read("/nonexistent/x", &l, why, sizeof(why)), -ENOENT);
	assert_int_equal(smb_login_read("/tmp", &l, why, sizeof(why)), -EINVAL);
}

/* ---- smb_wire ---- */

static struct smb_text text(const char *s)
{
	return (struct smb_text){ s, strlen(s) };
}

static bool same(const struct smb_text *t, const char *s)
{
	return t->len == strlen(s) && !memcmp(t->p, s, t->len);
}

static struct stub_attr some_attr(void)
{
	return (struct stub_attr){ .mode = S_IFREG | 0640, .nlink = 1, .uid = 5, .gid = 6, .size = 1ull << 40,
				   .fsid = 7, .fileid = UINT64_MAX, .atime = { 1, 2 },
				   .mtime = { -3, 999999999 }, .ctime = { 1ll << 33, 0 } };
}

static void assert_attr(const struct stub_attr *a)
{
	const struct stub_attr b = some_attr();

	assert_memory_equal(a, &b, sizeof(b));
}

/* Takes @o apart: the length of what follows the header. */
static uint32_t body(struct smb_out *o, enum smb_wire_type want)
{
	enum smb_wire_type type;
	uint32_t len, tag;

	assert_int_equal(smb_out_end(o), 0);
	assert_int_equal(smb_wire_header(o->p, &type, &len, &tag), 0);
	assert_int_equal(tag, o->tag);
	assert_int_equal(type, want);
	assert_int_equal(len, o->len - SMB_WIRE_HEADER);
	return len;
}

/* What parses does so whole only: not a byte less, and not one more. */
static void assert_exact(const struct smb_out *o, uint32_t len, bool request)
{
	enum smb_wire_type type = (enum smb_wire_type)(o->p[6] | o->p[7] << 8);
	uint8_t *copy = malloc(len + 1);
	struct smb_request r;
	struct smb_answer a;

	memcpy(copy, o->p + SMB_WIRE_HEADER, len);
	copy[len] = 0;
	for (uint32_t n = 0; n <= len + 1; n++) {
		int e = request ? smb_wire_request(type, copy, n, &r) :
				  smb_wire_answer(type, copy, n, &a);

		assert_int_equal(e, n == len ? 0 : -EBADMSG);
	}
	free(copy);
}

static void wire_requests(void **state)
{
	struct smb_request start = { .type = SMB_WIRE_START,
				     .start = { .flags = 3, .port = 445, .uid = 1, .gid = 2,
						.file_mode = 0644, .dir_mode = 0755,
						.host = text("h"), .share = text("s"),
						.root = text("a/b"), .user = text("u"),
						.domain = text("d"), .password = text("p w"),
						.xattr_value = 65536, .xattr_all = 7,
						.idmap = text("/i") } };
	struct smb_request read = { .type = SMB_WIRE_READ_, .path = text("a/b"),
				    .offset = 1ull << 40, .length = SMB_WIRE_READ };
	struct smb_request meta = { .type = SMB_WIRE_GETMETA, .path = text("a"), .has_numbers = true,
				    .uid = 70001, .gid = UINT32_MAX - 1, .bits = 06755,
				    .want = SMB_WIRE_SMALL, .alone = true };
	struct smb_request lookup = { .type = SMB_WIRE_LOOKUP, .path = text(""), .name = text("N") };
	struct smb_request holes = { .type = SMB_WIRE_GETHOLES, .path = text("a/b"),
				     .offset = 1ull << 44 };
	struct smb_out o = { 0 };
	struct smb_request r;
	uint32_t len;

	(void)state;
	smb_out_request(&o, &start);
	len = body(&o, SMB_WIRE_START);
	assert_int_equal(smb_wire_request(SMB_WIRE_START, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_int_equal(r.start.flags, 3);
	assert_int_equal(r.start.port, 445);
	assert_int_equal(r.start.dir_mode, 0755);
	assert_true(same(&r.start.password, "p w"));
	assert_true(same(&r.start.idmap, "/i"));
	assert_int_equal(r.start.xattr_value, 65536);
	assert_int_equal(r.start.xattr_all, 7);
	assert_exact(&o, len, true);

	smb_out_request(&o, &read);
	len = body(&o, SMB_WIRE_READ_);
	assert_int_equal(smb_wire_request(SMB_WIRE_READ_, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_true(same(&r.path, "a/b"));
	assert_true(r.offset == 1ull << 40 && r.length == SMB_WIRE_READ);
	assert_exact(&o, len, true);
	read.length++;
	smb_out_request(&o, &read);
	len = body(&o, SMB_WIRE_READ_);
	assert_int_equal(smb_wire_request(SMB_WIRE_READ_, o.p + SMB_WIRE_HEADER, len, &r), -EBADMSG);
	read.length = 1;
	read.offset = INT64_MAX;
	smb_out_request(&o, &read);
	len = body(&o, SMB_WIRE_READ_);
	assert_int_equal(smb_wire_request(SMB_WIRE_READ_, o.p + SMB_WIRE_HEADER, len, &r), -EBADMSG);

	smb_out_request(&o, &meta);
	len = body(&o, SMB_WIRE_GETMETA);
	assert_int_equal(smb_wire_request(SMB_WIRE_GETMETA, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_true(same(&r.path, "a") && r.has_numbers);
	assert_int_equal(r.uid, 70001);
	assert_int_equal(r.gid, UINT32_MAX - 1);
	assert_int_equal(r.bits, 06755);
	assert_int_equal(r.want, SMB_WIRE_SMALL);
	assert_true(r.alone);
	assert_exact(&o, len, true);
	meta.want++;
	smb_out_request(&o, &meta);
	len = body(&o, SMB_WIRE_GETMETA);
	assert_int_equal(smb_wire_request(SMB_WIRE_GETMETA, o.p + SMB_WIRE_HEADER, len, &r),
			 -EBADMSG);

	smb_out_request(&o, &lookup);
	len = body(&o, SMB_WIRE_LOOKUP);
	assert_int_equal(smb_wire_request(SMB_WIRE_LOOKUP, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_true(same(&r.path, "") && same(&r.name, "N"));
	assert_exact(&o, len, true);
	assert_int_equal(smb_wire_request(SMB_WIRE_READY, o.p, 0, &r), -EBADMSG);

	smb_out_request(&o, &holes);
	len = body(&o, SMB_WIRE_GETHOLES);
	assert_int_equal(smb_wire_request(SMB_WIRE_GETHOLES, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_true(same(&r.path, "a/b") && r.offset == 1ull << 44);
	assert_exact(&o, len, true);
	holes.offset = (uint64_t)INT64_MAX + 1;
	smb_out_request(&o, &holes);
	len = body(&o, SMB_WIRE_GETHOLES);
	assert_int_equal(smb_wire_request(SMB_WIRE_GETHOLES, o.p + SMB_WIRE_HEADER, len, &r),
			 -EBADMSG);
	smb_out_free(&o);
}

static void wire_put(void **state)
{
	const struct stub_xattr x[] = { { "user.a", "value", 5 }, { "security.NTACL", "", 0 } };
	const struct stub_xattr foreign = { "trusted.postcopy", "x", 1 };
	struct smb_request r, put = { .type = SMB_WIRE_PUTMETA, .path = text("a/b"), .fileid = 1ull << 60,
				      .look = true, .uid = 7, .gid = 8, .bits = S_IFDIR | 0750, .x = x, .n_x = 2 };
	struct smb_out o = { 0 };
	struct smb_answer a;
	struct smb_text name;
	const uint8_t *value;
	uint32_t len;
	size_t n;

	smb_out_request(&o, &put);
	len = body(&o, SMB_WIRE_PUTMETA);
	assert_int_equal(smb_wire_request(SMB_WIRE_PUTMETA, o.p + SMB_WIRE_HEADER, len, &r), 0);
	assert_true(same(&r.path, "a/b") && r.fileid == 1ull << 60 && r.look);
	assert_true(r.uid == 7 && r.gid == 8 && r.bits == (S_IFDIR | 0750) && r.count == 2);
	assert_int_equal(smb_wire_put_xattr(&r, &name, &value, &n), 1);
	assert_true(same(&name, "user.a") && n == 5 && !memcmp(value, "value", 5));
	assert_int_equal(smb_wire_put_xattr(&r, &name, &value, &n), 1);
	assert_true(same(&name, "security.NTACL") && n == 0);
	assert_int_equal(smb_wire_put_xattr(&r, &name, &value, &n), 0);
	assert_exact(&o, len, true);
	put.bits = S_IFLNK;
	smb_out_request(&o, &put);
	len = body(&o, SMB_WIRE_PUTMETA);
	assert_int_equal(smb_wire_request(SMB_WIRE_PUTMETA, o.p + SMB_WIRE_HEADER, len, &r), -EBADMSG);
	put.bits = S_IFREG;
	put.x = &foreign;
	put.n_x = 1;
	smb_out_request(&o, &put);
	len = body(&o, SMB_WIRE_PUTMETA);
	assert_int_equal(smb_wire_request(SMB_WIRE_PUTMETA, o.p + SMB_WIRE_HEADER, len, &r), -EBADMSG);

	smb_out_begin(&o, SMB_WIRE_PUT);
	smb_out_u32(&o, 4);
	smb_out_u8(&o, 1);
	len = body(&o, SMB_WIRE_PUT);
	assert_int_equal(smb_wire_answer(SMB_WIRE_PUT, o.p + SMB_WIRE_HEADER, len, &a), 0);
	assert_true(a.differs == 4 && a.holds);
	assert_exact(&o, len, false);
	smb_out_free(&o);
}

/* @n pairs of start and end, of a file of 2^40 bytes, in an answer about [0, @end). */
static int holes_with(uint64_t end, const uint64_t *words, uint32_t n)
{
	const struct stub_attr attr = some_attr();
	struct smb_out o = { 0 };
	struct stub_range hole;
	struct smb_answer a;
	uint32_t len;
	int r;

	smb_out_begin(&o, SMB_WIRE_HOLES);
	smb_out_attr(&o, &attr);
	smb_out_u64(&o, end);
	smb_out_u32(&o, n);
	for (uint32_t i = 0; i < 2 * n; i++)
		smb_out_u64(&o, words[i]);
	len = body(&o, SMB_WIRE_HOLES);
	r = smb_wire_answer(SMB_WIRE_HOLES, o.p + SMB_WIRE_HEADER, len, &a);
	if (r == 0) {
		assert_attr(&a.attr);
		assert_true(a.end == end && a.count == n);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(smb_wire_hole(&a, &hole), 1);
			assert_true(hole.start == words[2 * i] && hole.end == words[2 * i + 1]);
		}
		assert_int_equal(smb_wire_hole(&a, &hole), 0);
		assert_exact(&o, len, false);
	}
	smb_out_free(&o);
	return r;
}

static void wire_holes(void **state)
{
	const uint64_t all = some_attr().size;

	(void)state;
	assert_int_equal(holes_with(all, NULL, 0), 0);
	assert_int_equal(holes_with(all, (uint64_t[]){ 0, all }, 1), 0);
	assert_int_equal(holes_with(1000, (uint64_t[]){ 0, 1, 2, 1000 }, 2), 0);
	assert_int_equal(holes_with(all + 1, NULL, 0), -EBADMSG); /* behind the end of the file */
	assert_int_equal(holes_with(1000, (uint64_t[]){ 0, 1001 }, 1), -EBADMSG);
	assert_int_equal(holes_with(1000, (uint64_t[]){ 0, 0 }, 1), -EBADMSG);
	assert_int_equal(holes_with(1000, (uint64_t[]){ 9, 8 }, 1), -EBADMSG);
	assert_int_equal(holes_with(1000, (uint64_t[]){ 0, 5, 5, 9 }, 2), -EBADMSG);
	assert_int_equal(holes_with(1000, (uint64_t[]){ 7, 9, 0, 5 }, 2), -EBADMSG);
}

static void wire_entries(void **state)
{
	const struct stub_attr attr = some_attr();
	struct smb_out o = { 0 };
	struct smb_told told;
	struct smb_text name;
	struct smb_answer a;
	struct stub_attr got;
	uint32_t len;

	(void)state;
	smb_out_begin(&o, SMB_WIRE_ENTRIES);
	smb_out_u32(&o, 0);
	for (int i = 0; i < 3; i++) {
		smb_out_attr(&o, &attr);
		smb_out_text(&o, "name", 4);
		smb_out_u8(&o, (uint8_t)i);
		smb_out_bytes(&o, "told", (size_t)i);
	}
	smb_out_set_u32(&o, 0, 3);
	len = body(&o, SMB_WIRE_ENTRIES);
	assert_int_equal(smb_wire_answer(SMB_WIRE_ENTRIES, o.p + SMB_WIRE_HEADER, len, &a), 0);
	assert_int_equal(a.count, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(smb_wire_entry(&a, &got, &name, &told), 1);
		assert_int_equal(told.len, i);
		assert_memory_equal(told.p, "told", (size_t)i);
		assert_attr(&got);
		assert_true(same(&name, "name"));
	}
	assert_int_equal(smb_wire_entry(&a, &got, &name, &told), 0);
	assert_exact(&o, len, false);
	for (uint32_t n = 0; n < 6; n++) { /* the count is that of what follows */
		smb_out_set_u32(&o, 0, n);
		assert_int_equal(smb_wire_answer(SMB_WIRE_ENTRIES, o.p + SMB_WIRE_HEADER, len, &a),
				 n == 3 ? 0 : -EBADMSG);
	}
	smb_out_set_u32(&o, 0, UINT32_MAX);
	assert_int_equal(smb_wire_answer(SMB_WIRE_ENTRIES, o.p + SMB_WIRE_HEADER, len, &a), -EBADMSG);
	smb_out_free(&o);
}

static int meta_of(const char *name, uint64_t size_told, uint32_t data)
{
	static const char bytes[SMB_WIRE_SMALL + 1];
	struct stub_attr attr = some_attr();
	struct smb_out o = { 0 };
	struct smb_answer a;
	uint32_t len;
	int r;

	if (data)
		attr.size = size_told;
	smb_out_begin(&o, SMB_WIRE_META);
	smb_out_attr(&o, &attr);
	smb_out_u32(&o, 1);
	smb_out_text(&o, name, strlen(name));
	smb_out_u32(&o, 5);
	smb_out_bytes(&o, "value", 5);
	smb_out_u32(&o, 2);
	smb_out_text(&o, "stream x: too long", 18);
	smb_out_text(&o, "", 0);
	smb_out_u32(&o, 1);
	smb_out_text(&o, ":s:$DATA", 8);
	smb_out_u64(&o, 1ull << 40);
	smb_out_u32(&o, data);
	smb_out_bytes(&o, bytes, data);
	len = body(&o, SMB_WIRE_META);
	r = smb_wire_answer(SMB_WIRE_META, o.p + SMB_WIRE_HEADER, len, &a);
	if (r == 0) {
		struct smb_text got;
		const uint8_t *value;
		uint64_t size;
		size_t n;

		assert_memory_equal(&a.attr, &attr, sizeof(attr));
		assert_int_equal(a.data_len, data);
		assert_memory_equal(a.data, bytes, data);
		assert_int_equal(smb_wire_xattr(&a, &got, &value, &n), 1);
		assert_true(same(&got, name));
		assert_int_equal(n, 5);
		assert_memory_equal(value, "value", 5);
		assert_int_equal(smb_wire_xattr(&a, &got, &value, &n), 0);
		assert_int_equal(a.lost_count, 2);
		assert_int_equal(smb_wire_lost(&a, &got), 1);
		assert_true(same(&got, "stream x: too long"));
		assert_int_equal(smb_wire_lost(&a, &got), 1);
		assert_true(same(&got, ""));
		assert_int_equal(smb_wire_lost(&a, &got), 0);
		assert_int_equal(a.stream_count, 1);
		assert_int_equal(smb_wire_stream(&a, &got, &size), 1);
		assert_true(same(&got, ":s:$DATA") && size == 1ull << 40);
		assert_int_equal(smb_wire_stream(&a, &got, &size), 0);
		if (data < 1000)
			assert_exact(&o, len, false);
	}
	smb_out_free(&o);
	return r;
}

static int meta_with(const char *name)
{
	return meta_of(name, 0, 0);
}

/* All bytes of a small file, or none. */
static void wire_meta_data(void **state)
{
	(void)state;
	assert_int_equal(meta_of("user.x", 5, 5), 0);
	assert_int_equal(meta_of("user.x", SMB_WIRE_SMALL, SMB_WIRE_SMALL), 0);
	assert_int_equal(meta_of("user.x", SMB_WIRE_SMALL + 1, SMB_WIRE_SMALL + 1), -EBADMSG);
	assert_int_equal(meta_of("user.x", 6, 5), -EBADMSG);
	assert_int_equal(meta_of("user.x", 4, 5), -EBADMSG);
}

/* A server cannot make us write what is ours, or the kernel's. */
static void wire_xattrs(void **state)
{
	static const char *const good[] = { "user.DOSATTRIB", "user.DosStream.x:$DATA",
					    "security.NTACL", "system.posix_acl_access",
					    "system.posix_acl_default" };
	static const char *const bad[] = { STUB_XATTR, "trusted.x", "security.capability", "user.",
					   "user", "", "security.NTACL2", "security.NTAC",
					   "system.nfs4_acl", "xuser.a" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(meta_with(good[i]), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(meta_with(bad[i]), -EBADMSG);
}

static void wire_fail(void **state)
{
	static const int errors[] = { -EIO, -ENOENT, -ESTALE, -EACCES, -ENOMEM, -EHOSTUNREACH };
	struct smb_out o = { 0 };
	struct smb_answer a;
	uint32_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		smb_out_fail(&o, i & 1, errors[i], "why not");
		len = body(&o, SMB_WIRE_FAIL);
		assert_int_equal(smb_wire_answer(SMB_WIRE_FAIL, o.p + SMB_WIRE_HEADER, len, &a), 0);
		assert_int_equal(a.error, errors[i]);
		assert_int_equal(a.final, i & 1);
		assert_true(same(&a.why, "why not"));
		assert_exact(&o, len, false);
	}
	smb_out_fail(&o, true, -EDOM, "");
	len = body(&o, SMB_WIRE_FAIL);
	o.p[SMB_WIRE_HEADER + 1] = 250; /* a number that means nothing */
	assert_int_equal(smb_wire_answer(SMB_WIRE_FAIL, o.p + SMB_WIRE_HEADER, len, &a), 0);
	assert_int_equal(a.error, -EIO);
	smb_out_free(&o);
}

static void wire_bad_attr(void **state)
{
	struct stub_attr bad[6];
	struct smb_out o = { 0 };
	struct smb_answer a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = some_attr();
	bad[0].mode = S_IFLNK | 0777;
	bad[1].mode = S_IFREG | 0100 << 12;
	bad[2].uid = UINT32_MAX;
	bad[3].gid = UINT32_MAX;
	bad[4].size = (uint64_t)INT64_MAX + 1;
	bad[5].mtime.tv_nsec = 1000000000;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		smb_out_begin(&o, SMB_WIRE_ATTRS);
		smb_out_attr(&o, &bad[i]);
		assert_int_equal(smb_out_end(&o), 0);
		assert_int_equal(smb_wire_answer(SMB_WIRE_ATTRS, o.p + SMB_WIRE_HEADER,
						 o.len - SMB_WIRE_HEADER, &a),
				 -EBADMSG);
	}
	smb_out_free(&o);
}

static void wire_headers(void **state)
{
	enum smb_wire_type type;
	struct smb_out o = { .tag = 0xfedcba98 };
	uint32_t len, tag;

	(void)state;
	smb_out_begin(&o, SMB_WIRE_END);
	assert_int_equal(smb_out_end(&o), 0);
	assert_int_equal(smb_wire_header(o.p, &type, &len, &tag), 0);
	assert_true(type == SMB_WIRE_END && tag == 0xfedcba98 && !len);
	o.p[0] ^= 1;
	assert_int_equal(smb_wire_header(o.p, &type, &len, &tag), -EBADMSG);
	o.p[0] ^= 1;
	o.p[4]++;
	assert_int_equal(smb_wire_header(o.p, &type, &len, &tag), -EPROTO);
	o.p[4]--;
	o.p[11] = 0x7f;
	assert_int_equal(smb_wire_header(o.p, &type, &len, &tag), -EBADMSG);
	smb_out_begin(&o, SMB_WIRE_DATA);
	assert_null(smb_out_room(&o, SMB_WIRE_MAX + 1));
	assert_true(smb_out_end(&o) < 0);
	smb_out_free(&o);
}

static void wire_socket(void **state)
{
	struct smb_out o = { 0 };
	uint8_t buf[64];
	int pair[2], wake[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(wake), 0);
	smb_out_begin(&o, SMB_WIRE_ALIVE);
	assert_int_equal(smb_out_end(&o), 0);
	assert_int_equal(smb_wire_send(pair[0], &o, 1000, -1), 0);
	assert_int_equal(smb_wire_receive(pair[1], buf, SMB_WIRE_HEADER, 1000, wake[0]), 0);
	assert_memory_equal(buf, o.p, SMB_WIRE_HEADER);
	assert_int_equal(smb_wire_receive(pair[1], buf, 1, 1, wake[0]), -ETIMEDOUT);
	assert_int_equal(write(wake[1], "x", 1), 1);
	assert_int_equal(smb_wire_receive(pair[1], buf, 1, 1000, wake[0]), -ECANCELED);
	close(pair[0]);
	assert_int_equal(smb_wire_receive(pair[1], buf, 1, 1000, -1), -ECONNRESET);
	assert_int_equal(smb_wire_send(pair[1], &o, 1000, -1), -ECONNRESET);
	close(pair[1]);
	close(wake[0]);
	close(wake[1]);
	smb_out_free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uri_good),	cmocka_unit_test(uri_bad),
		cmocka_unit_test(login_good),	cmocka_unit_test(login_bad),
		cmocka_unit_test(wire_holes),
		cmocka_unit_test(wire_requests), cmocka_unit_test(wire_entries),
		cmocka_unit_test(wire_put),
		cmocka_unit_test(wire_xattrs),	cmocka_unit_test(wire_fail),
		cmocka_unit_test(wire_meta_data),
		cmocka_unit_test(wire_bad_attr), cmocka_unit_test(wire_headers),
		cmocka_unit_test(wire_socket),
	};

	return cmocka_run_group_tests_name("source_smb", tests, NULL, NULL);
}
