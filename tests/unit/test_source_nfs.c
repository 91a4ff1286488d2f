// SPDX-License-Identifier: GPL-3.0-or-later
/* The pure parts of the NFS source: URI, errors, attributes, pages, decoder guards. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nfs/nfs.h"
#include "nfs/nfs_page.h"

/* ---- nfs_uri_parse ---- */

static void uri_good(void **state)
{
	static const struct {
		const char *uri, *host, *path;
		uint16_t nfsport, mountport;
	} good[] = {
		{ "nfs://filer/vol", "filer", "/vol", 0, 0 },
		{ "nfs://filer/vol/", "filer", "/vol", 0, 0 },
		{ "nfs://filer/", "filer", "/", 0, 0 },
		{ "nfs://filer//a//", "filer", "//a", 0, 0 },
		{ "nfs://10.1.2.3:2049/a/b", "10.1.2.3", "/a/b", 2049, 0 },
		{ "nfs://[fd00::1]/a", "[fd00::1]", "/a", 0, 0 },
		{ "nfs://[::1]:20049/a", "[::1]", "/a", 20049, 0 },
		{ "nfs://h/a?nfsport=1&mountport=65535", "h", "/a", 1, 65535 },
		{ "nfs://h/a?mountport=7&version=3", "h", "/a", 0, 7 },
		{ "nfs://h/a?version=4", "h", "/a", 0, 0 },
		{ "nfs://h/?version=4.0&nfsport=9", "h", "/", 9, 0 },
		{ "nfs://h/a?version=4.1", "h", "/a", 0, 0 },
		{ "nfs://h/a?version=4.2", "h", "/a", 0, 0 },
		{ "nfs://h/a%20b%3fc%2Fd", "h", "/a b?c/d", 0, 0 },
		{ "nfs://h/a?version=4&sec=krb5", "h", "/a", 0, 0 },
		{ "nfs://h/a?sec=krb5p&version=4", "h", "/a", 0, 0 },
		{ "nfs://h/a?sec=krb5i&nfsport=1&version=4.0", "h", "/a", 1, 0 },
		{ "nfs://h/a?sec=sys", "h", "/a", 0, 0 },
		{ "nfs://h/a?sec=sys&version=4", "h", "/a", 0, 0 },
		{ "nfs://h/a:b@c&d", "h", "/a:b@c&d", 0, 0 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct nfs_uri u;
		char why[NFS_WHY_MAX];

		assert_int_equal(nfs_uri_parse(good[i].uri, &u, why, sizeof(why)), 0);
		assert_string_equal(u.host, good[i].host);
		assert_string_equal(u.path, good[i].path);
		assert_int_equal(u.nfsport, good[i].nfsport);
		assert_int_equal(u.mountport, good[i].mountport);
		assert_ptr_equal(u.version, strstr(good[i].uri, "version=4.2") ? &nfs42_version :
					    strstr(good[i].uri, "version=4.1") ? &nfs41_version :
					    strstr(good[i].uri, "version=4")   ? &nfs4_version :
										 &nfs3_version);
		assert_int_equal(u.sec, strstr(good[i].uri, "sec=krb5p") ? NFS_SEC_KRB5P :
					strstr(good[i].uri, "sec=krb5i") ? NFS_SEC_KRB5I :
					strstr(good[i].uri, "sec=krb5")	 ? NFS_SEC_KRB5 :
									   NFS_SEC_SYS);
	}
}

static void uri_bad(void **state)
{
	static const char *const bad[] = {
		NULL,
		"",
		"nfs:/h/a",
		"smb://h/a",
		"nfs://",
		"nfs://h",
		"nfs:///a",
		"nfs://h?nfsport=1",
		"nfs://h:/a",
		"nfs://h:0/a",
		"nfs://h:65536/a",
		"nfs://h:1x/a",
		"nfs://h:123456/a",
		"nfs://[::1/a",
		"nfs://[::1]x/a",
		"nfs://[]/a",
		"nfs://[fe80::1]/a",
		"nfs://[fe80::1%eth0]/a",
		"nfs://[::1]:1:2/a",
		"nfs://fd00::1/a",
		"nfs://u@h/a",
		"nfs://h h/a",
		"nfs://h/a?nfsport",
		"nfs://h/a?nfsport=",
		"nfs://h/a?nfsport=0",
		"nfs://h/a?nfsport=-1",
		"nfs://h/a?nfsport=+1",
		"nfs://h/a?nfsport=70000",
		"nfs://h:1/a?nfsport=2",
		"nfs://h/a?mountport=1&mountport=1",
		"nfs://h/a?version=4.3",
		"nfs://h/a?version=4.1&mountport=1",
		"nfs://h/a?version=2",
		"nfs://h/a?version=",
		"nfs://h/a?version=4&mountport=1",
		"nfs://h/a?mountport=1&version=4",
		"nfs://h/a?version=4&version=4",
		"nfs://h/a?version",
		"nfs://h/a?sec=krb5",
		"nfs://h/a?sec=krb5i&version=3",
		"nfs://h/a?version=4&sec=",
		"nfs://h/a?version=4&sec",
		"nfs://h/a?version=4&sec=krb",
		"nfs://h/a?version=4&sec=krb5x",
		"nfs://h/a?version=4&sec=none",
		"nfs://h/a?version=4&sec=sys&sec=krb5",
		"nfs://h/a?version=4&sec=krb5&sec=krb5",
		"nfs://h/a?nfsportx=1",
		"nfs://h/a?uid=0",
		"nfs://h/a?",
		"nfs://h/a?nfsport=1&",
		"nfs://h/a?&nfsport=1",
		"nfs://h/a%",
		"nfs://h/a%2",
		"nfs://h/a%zz",
		"nfs://h/a%00b",
	};
	char why[NFS_WHY_MAX], text[STUB_URI_MAX + 2];
	struct nfs_uri u;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = '\0';
		if (nfs_uri_parse(bad[i], &u, why, sizeof(why)) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
		assert_true(why[0]);
		assert_null(strchr(why, '\n'));
	}
	memset(text, 'a', sizeof(text));
	memcpy(text, "nfs://h/", 8);
	text[STUB_URI_MAX + 1] = '\0';
	assert_int_equal(nfs_uri_parse(text, &u, why, sizeof(why)), -EINVAL);
	text[STUB_URI_MAX] = '\0';
	assert_int_equal(nfs_uri_parse(text, &u, why, sizeof(why)), 0);
	text[8 + 300] = '/';
	memset(text + 6, 'h', 300);
	assert_int_equal(nfs_uri_parse(text, &u, why, sizeof(why)), -EINVAL);
	/* an option of any length fits the reason */
	memset(text, 'o', sizeof(text));
	memcpy(text, "nfs://h/a?", 10);
	text[1000] = '\0';
	assert_int_equal(nfs_uri_parse(text, &u, why, sizeof(why)), -EINVAL);
}

/* ---- nfs_errno ---- */

static void errno_table(void **state)
{
	static const int allowed[] = { ENOENT, ESTALE, ENOTDIR, EACCES, EIO, ENAMETOOLONG, EAGAIN };
	uint32_t status;

	(void)state;
	assert_int_equal(nfs_errno(NFS3_OK), 0);
	assert_int_equal(nfs_errno(NFS3ERR_NOENT), -ENOENT);
	assert_int_equal(nfs_errno(NFS3ERR_PERM), -EACCES);
	assert_int_equal(nfs_errno(NFS3ERR_ACCES), -EACCES);
	assert_int_equal(nfs_errno(NFS3ERR_NOTDIR), -ENOTDIR);
	assert_int_equal(nfs_errno(NFS3ERR_STALE), -ESTALE);
	assert_int_equal(nfs_errno(NFS3ERR_BADHANDLE), -ESTALE);
	assert_int_equal(nfs_errno(NFS3ERR_NAMETOOLONG), -ENAMETOOLONG);
	assert_int_equal(nfs_errno(NFS3ERR_JUKEBOX), -EAGAIN);
	assert_int_equal(nfs_errno(NFS3ERR_SERVERFAULT), -EIO);
	assert_int_equal(nfs_errno(0xffffffff), -EIO);
	for (status = 1; status < 11000; status++) {
		int e = nfs_errno(status);
		size_t i, n = sizeof(allowed) / sizeof(allowed[0]);

		for (i = 0; i < n && e != -allowed[i]; i++)
			;
		assert_true(i < n);
	}
}

/* ---- nfs_attr ---- */

static struct fattr3 some_attr(void)
{
	struct fattr3 a = {
		.type = NF3REG,
		.mode = 0107644,
		.nlink = 2,
		.uid = 0xfffffffe,
		.gid = 7,
		.size = UINT64_MAX,
		.used = 1,
		.rdev = { 8, 1 },
		.fsid = 5,
		.fileid = UINT64_MAX - 1,
		.atime = { 1, 2 },
		.mtime = { 0xffffffff, 999999999 },
		.ctime = { 3, 0 },
	};

	return a;
}

static void attr_values(void **state)
{
	struct fattr3 a = some_attr();
	struct stub_attr out;

	(void)state;
	assert_int_equal(nfs_attr(&a, &out), 0);
	assert_int_equal(out.mode, S_IFREG | 07644);
	assert_int_equal(out.nlink, 2);
	assert_int_equal(out.uid, 0xfffffffe);
	assert_int_equal(out.gid, 7);
	assert_true(out.size == UINT64_MAX);
	assert_int_equal(out.fsid, 5);
	assert_true(out.fileid == UINT64_MAX - 1);
	assert_int_equal(out.rdev_major, 0);
	assert_int_equal(out.rdev_minor, 0);
	assert_int_equal(out.atime.tv_nsec, 2);
	assert_true(out.mtime.tv_sec == 0xffffffffLL);
	assert_int_equal(out.mtime.tv_nsec, 999999999);
	assert_int_equal(out.ctime.tv_sec, 3);
}

static void attr_types(void **state)
{
	static const struct {
		int from;
		uint32_t to;
		bool dev;
	} types[] = { { NF3REG, S_IFREG, 0 }, { NF3DIR, S_IFDIR, 0 }, { NF3BLK, S_IFBLK, 1 },
		      { NF3CHR, S_IFCHR, 1 }, { NF3LNK, S_IFLNK, 0 }, { NF3SOCK, S_IFSOCK, 0 },
		      { NF3FIFO, S_IFIFO, 0 } };
	static const int bad[] = { 0, 8, 255, -1 };
	struct fattr3 a = some_attr();
	struct stub_attr out;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		a.type = (ftype3)types[i].from;
		assert_int_equal(nfs_attr(&a, &out), 0);
		assert_int_equal(out.mode & S_IFMT, types[i].to);
		assert_int_equal(out.rdev_major, types[i].dev ? 8 : 0);
		assert_int_equal(out.rdev_minor, types[i].dev ? 1 : 0);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.type = (ftype3)bad[i];
		assert_int_equal(nfs_attr(&a, &out), -EBADMSG);
	}
}

static void attr_times(void **state)
{
	struct fattr3 a = some_attr();
	struct stub_attr out;

	(void)state;
	a.atime.nseconds = 1000000000;
	assert_int_equal(nfs_attr(&a, &out), -EBADMSG);
	a = some_attr();
	a.mtime.nseconds = 0xffffffff;
	assert_int_equal(nfs_attr(&a, &out), -EBADMSG);
	a = some_attr();
	a.ctime.nseconds = 1000000000;
	assert_int_equal(nfs_attr(&a, &out), -EBADMSG);
}

/* ---- nfs_origin ---- */

static void origin_lengths(void **state)
{
	char bytes[NFS3_FHSIZE + 1] = "handle";
	struct nfs_fh3 fh = { { 0, bytes } };
	struct stub_origin o;

	(void)state;
	assert_int_equal(nfs_origin(&fh, &o), -EBADMSG);
	fh.data.data_len = NFS3_FHSIZE + 1;
	assert_int_equal(nfs_origin(&fh, &o), -EBADMSG);
	fh.data.data_len = 0xffffffff;
	assert_int_equal(nfs_origin(&fh, &o), -EBADMSG);
	fh.data.data_len = NFS3_FHSIZE;
	assert_int_equal(nfs_origin(&fh, &o), 0);
	fh.data.data_len = 6;
	assert_int_equal(nfs_origin(&fh, &o), 0);
	assert_int_equal(o.len, 6);
	assert_memory_equal(o.bytes, "handle", 6);
}

/* ---- nfs_page_plus ---- */

static void page_entries(void **state)
{
	struct entryplus3 e[4] = {
		{ .name = ".", .cookie = 1, .nextentry = &e[1] },
		{ .name = "..", .cookie = 2, .nextentry = &e[2] },
		{ .name = "a", .cookie = 3, .nextentry = &e[3] },
		{ .name = "", .cookie = 9 },
	};
	struct READDIRPLUS3resok ok = { .reply = { e, 1 } };
	struct nfs_page p;
	const char *why = NULL;

	(void)state;
	e[2].name_attributes.attributes_follow = 1;
	e[2].name_attributes.post_op_attr_u.attributes = some_attr();
	e[2].name_handle.handle_follows = 1;
	e[2].name_handle.post_op_fh3_u.handle.data.data_len = 1;
	e[2].name_handle.post_op_fh3_u.handle.data.data_val = "h";
	assert_int_equal(nfs_page_plus(&ok, &p, &why), 0);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.seen, 4);
	assert_int_equal(p.last_cookie, 9);
	assert_true(p.eof);
	assert_true(p.complete[0]);
	assert_false(p.complete[1]);
	assert_int_equal(p.entries[0].name_len, 1);
	assert_int_equal(p.entries[1].name_len, 0);
	nfs_page_finish(&p);

	ok.reply.entries = NULL;
	assert_int_equal(nfs_page_plus(&ok, &p, &why), 0);
	assert_int_equal(p.seen, 0);
	nfs_page_finish(&p);
}

static void page_hostile(void **state)
{
	struct entryplus3 e[2] = {
		{ .name = "a", .cookie = 3, .nextentry = &e[1] },
		{ .name = "b", .cookie = 3 },
	};
	struct READDIRPLUS3resok ok = { .reply = { e, 1 } };
	const char *why = NULL;
	struct nfs_page p;

	(void)state;
	assert_int_equal(nfs_page_plus(&ok, &p, &why), -EBADMSG); /* cookie stands still */
	e[1].cookie = 4;
	e[0].name = "..";
	e[0].name_attributes.attributes_follow = 1;
	e[0].name_attributes.post_op_attr_u.attributes = some_attr();
	assert_int_equal(nfs_page_plus(&ok, &p, &why), -EBADMSG); /* ".." is a file */
	e[0].name_attributes.post_op_attr_u.attributes.type = NF3DIR;
	assert_int_equal(nfs_page_plus(&ok, &p, &why), 0);
	nfs_page_finish(&p);
	assert_non_null(why);
	e[1].name_handle.handle_follows = 1; /* of length 0: the entry is bad, not the page */
	assert_int_equal(nfs_page_plus(&ok, &p, &why), 0);
	assert_int_equal(p.entries[0].error, -EBADMSG);
	assert_int_equal(p.entries[0].name_len, 1);
	nfs_page_finish(&p);
	e[1].name_handle.handle_follows = 0;
	e[1].name_attributes = e[0].name_attributes;
	e[1].name_attributes.post_op_attr_u.attributes.mtime.nseconds = 2000000000;
	assert_int_equal(nfs_page_plus(&ok, &p, &why), 0);
	assert_int_equal(p.entries[0].error, -EBADMSG);
	nfs_page_finish(&p);
}

/* ---- the guards of nfs_zdr.c, through libnfs's own decoders ---- */

static uint32_t decode_name(const char *wire, size_t size, char *out, size_t out_size)
{
	char buf[64];
	char *name = NULL;
	uint32_t ok;
	ZDR z;

	memcpy(buf, wire, size);
	libnfs_zdrmem_create(&z, buf, (uint32_t)size, ZDR_DECODE);
	ok = zdr_filename3(&z, &name);
	if (ok)
		snprintf(out, out_size, "%s", name);
	libnfs_zdr_destroy(&z);
	return ok;
}

static void guard_strings(void **state)
{
	char name[16];

	(void)state;
	assert_true(nfs_zdr_guard());
	assert_true(decode_name("\0\0\0\3abc\0", 8, name, sizeof(name)));
	assert_string_equal(name, "abc");
	assert_true(decode_name("\0\0\0\4abcd", 8, name, sizeof(name)));
	assert_string_equal(name, "abcd");
	assert_true(decode_name("\0\0\0\0", 4, name, sizeof(name)));
	assert_false(decode_name("\0\0\0\3a\0c\0", 8, name, sizeof(name)));
	assert_false(decode_name("\0\0\0\5abcd", 8, name, sizeof(name)));
	assert_false(decode_name("\377\377\377\374abcd", 8, name, sizeof(name)));
	assert_false(decode_name("\177\377\377\377abcd", 8, name, sizeof(name)));
	assert_false(decode_name("\0\0", 2, name, sizeof(name)));
}

static void guard_arrays(void **state)
{
	/* MNT3_OK, a handle of 4 bytes, and more flavours than the reply can hold */
	char wire[] = "\0\0\0\0\0\0\0\4hand\100\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1";
	struct mountres3 res = { 0 };
	ZDR z;

	(void)state;
	libnfs_zdrmem_create(&z, wire, sizeof(wire) - 1, ZDR_DECODE);
	assert_false(zdr_mountres3(&z, &res));
	libnfs_zdr_destroy(&z);
	wire[12] = 0;
	memset(&res, 0, sizeof(res));
	libnfs_zdrmem_create(&z, wire, sizeof(wire) - 1, ZDR_DECODE);
	assert_true(zdr_mountres3(&z, &res));
	assert_int_equal(res.mountres3_u.mountinfo.auth_flavors.auth_flavors_len, 1);
	libnfs_zdr_destroy(&z);
}

static void guard_opaque(void **state)
{
	char wire[4] = "abc", verf[NFS3_COOKIEVERFSIZE];
	ZDR z;

	(void)state;
	libnfs_zdrmem_create(&z, wire, sizeof(wire), ZDR_DECODE);
	assert_false(zdr_cookieverf3(&z, verf));
	libnfs_zdr_destroy(&z);
}

static void guard_alignment(void **state)
{
	/* one entry of EXPORT: "a", no groups, no more */
	char wire[] = "\0\0\0\1\0\0\0\1a\0\0\0\0\0\0\0\0\0\0";
	struct exportnode *list = NULL;
	ZDR z;

	(void)state;
	libnfs_zdrmem_create(&z, wire, sizeof(wire), ZDR_DECODE);
	assert_true(zdr_exports(&z, &list));
	assert_int_equal((uintptr_t)list % _Alignof(max_align_t), 0);
	assert_string_equal(list->ex_dir, "a");
	libnfs_zdr_destroy(&z);
}

/* Take the head of a reply: may what follows be believed to be decoded? */
static bool_t decode_reply(const char *wire, size_t size)
{
	struct rpc_context *rpc = rpc_init_context();
	char buf[64] = { 0 };
	struct rpc_msg msg;
	bool_t ok;
	ZDR z;

	memset(&msg, 0, sizeof(msg));
	msg.body.rbody.reply.areply.reply_data.results.proc = (zdrproc_t)libnfs_zdr_void;
	memcpy(buf, wire, size);
	libnfs_zdrmem_create(&z, buf, (uint32_t)size, ZDR_DECODE);
	ok = libnfs_zdr_replymsg(rpc, &z, &msg);
	libnfs_zdr_destroy(&z);
	rpc_destroy_context(rpc);
	return ok;
}

static void guard_replies(void **state)
{
	(void)state;
	assert_true(decode_reply("\0\0\0\7\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24));
	/* a call of version 0 looks like success, with a result that was never decoded */
	assert_false(decode_reply("\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
				  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
				  40));
	assert_false(decode_reply("\0\0\0\7\0\0\0", 7));
}

/* EXPORT of one directory with @n groups without a name. */
static bool_t decode_groups(unsigned int n)
{
	size_t size = 12 + (size_t)n * 8 + 8;
	char *wire = calloc(1, size);
	struct exportnode *list = NULL;
	bool_t ok;
	ZDR z;

	assert_non_null(wire);
	memcpy(wire, "\0\0\0\1\0\0\0\1a\0\0\0", 12);
	for (unsigned int i = 0; i < n; i++)
		wire[12 + i * 8 + 3] = 1;
	libnfs_zdrmem_create(&z, wire, (uint32_t)size, ZDR_DECODE);
	ok = zdr_exports(&z, &list);
	libnfs_zdr_destroy(&z);
	free(wire);
	return ok;
}

static void guard_depth(void **state)
{
	(void)state;
	assert_true(decode_groups(10000));
	assert_false(decode_groups(1000000)); /* each takes stack */
	assert_true(decode_groups(10000));
}

/* libnfs's, not in its headers */
int rpc_add_fragment(struct rpc_context *rpc, char *data, uint32_t size);
void rpc_free_all_fragments(struct rpc_context *rpc);

static unsigned int fragments_taken(struct rpc_context *rpc, char *data, uint32_t size)
{
	unsigned int n = 0;

	while (n < (size ? 1000 : 50000) && rpc_add_fragment(rpc, data, size) == 0)
		n++;
	return n;
}

static void guard_fragments(void **state)
{
	struct rpc_context *rpc = rpc_init_context(), *other = rpc_init_context();
	char *data = calloc(1, 1 << 20);

	(void)state;
	assert_non_null(data);
	assert_in_range(fragments_taken(rpc, data, 1 << 20), 1, 4);
	assert_in_range(fragments_taken(other, data, 4000), 300, 999); /* as old servers send */
	rpc_free_all_fragments(other);
	assert_in_range(fragments_taken(other, data, 0), 1, 49999);
	rpc_destroy_context(rpc);
	rpc_destroy_context(other);
	free(data);
}

/* ---- nfs3_answer ---- */

/* NFSv3 knows less than the answer has room for: that is not what the memory held before. */
static void answer_is_whole(void **state)
{
	struct GETATTR3res res = { .status = NFS3_OK };
	struct nfs_call call = { .op = NFS_OP_GETATTR };
	struct nfs_answer a;

	(void)state;
	res.GETATTR3res_u.resok.obj_attributes.type = NF3REG;
	memset(&a, 0xff, sizeof(a));
	nfs3_version.answer(NULL, &call, &res, &a);
	assert_int_equal(a.error, 0);
	assert_true(a.have_attr);
	assert_false(a.have_dir || a.have_born || a.xattrs || a.eof);
	assert_int_equal(a.fault, NFS_FAULT_NONE);
	assert_null(a.data);
	assert_ptr_equal(a.reply, &res);
}

/* ---- nfs_call_send() ---- */

static int ended_with;

static void ended(struct nfs_call *c, int err, const struct nfs_answer *a)
{
	assert_null(c->conn);
	assert_null(a);
	ended_with = err;
}

/* It ends, and its connection is none the worse. */
static void what_a_version_cannot_say(void **state)
{
	static const enum nfs_op unknown[] = { NFS_OP_SEEK, NFS_OP_LISTXATTRS, NFS_OP_GETXATTR };
	struct nfs_source s = { .uri = { .version = &nfs3_version } };
	struct nfs_carrier carrier = { 0 };
	struct nfs_conn conn = { .s = &s, .rpc = &carrier };

	(void)state;
	pthread_mutex_init(&s.pool.lock, NULL);
	TAILQ_INIT(&conn.flight);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		struct nfs_call call = { .op = unknown[i], .conn = &conn, .done = ended };

		TAILQ_INSERT_TAIL(&conn.flight, &call, link);
		conn.inflight = 1;
		conn.load = nfs_call_load(&call);
		ended_with = 0;
		assert_int_equal(nfs_call_send(&call), 0);
		assert_int_equal(ended_with, -EOPNOTSUPP);
		assert_true(TAILQ_EMPTY(&conn.flight));
		assert_int_equal(conn.inflight + conn.load, 0);
	}
	pthread_mutex_destroy(&s.pool.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uri_good),	   cmocka_unit_test(uri_bad),
		cmocka_unit_test(errno_table),	   cmocka_unit_test(attr_values),
		cmocka_unit_test(attr_types),	   cmocka_unit_test(attr_times),
		cmocka_unit_test(origin_lengths),  cmocka_unit_test(page_entries),
		cmocka_unit_test(answer_is_whole), cmocka_unit_test(what_a_version_cannot_say),
		cmocka_unit_test(page_hostile),	   cmocka_unit_test(guard_strings),
		cmocka_unit_test(guard_arrays),	   cmocka_unit_test(guard_opaque),
		cmocka_unit_test(guard_alignment), cmocka_unit_test(guard_replies),
		cmocka_unit_test(guard_depth),	   cmocka_unit_test(guard_fragments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
