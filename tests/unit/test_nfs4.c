// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs4.c - the pure parts of NFSv4: retriever/nfs/nfs4_*.c */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "nfs/nfs4.h"
#include "nfs/nfs_page.h"
#include "rpc/onc.h"
#include "windows/smb_idmap.h"

#define ALL	   (nfs4_of_objects & ~NFS4_BIT(FATTR4_ACL))
/* type, size, fsid, file id, ctime and mtime */
#define VERSION	   (UINT64_C(1) << 1 | UINT64_C(1) << 4 | UINT64_C(1) << 8 | UINT64_C(1) << 20 | \
		    UINT64_C(1) << 52 | UINT64_C(1) << 53)
#define AS_BYTES(o) ((struct nfs4_bytes){ (o)->bytes, (o)->len })

/* ---- what a server would send ---- */

struct object { /* values of the attributes that matter here */
	uint32_t type, mode;
	const char *owner, *group;
	uint64_t fileid;
	int64_t mtime;
	uint32_t nsec;
};

static const struct object a_file = { NF3REG, 0640, "1000", "100", 7, -5, 999999999 };

static void put_text(struct nfs4_out *o, const char *text)
{
	nfs4_put_opaque(o, text, strlen(text));
}

static void put_time(struct nfs4_out *o, int64_t sec, uint32_t nsec)
{
	nfs4_put64(o, (uint64_t)sec);
	nfs4_put32(o, nsec);
}

/* A fattr4 of those of ALL in @have, of FATTR4_FILEHANDLE and RDATTR_ERROR. */
static void put_attrs(struct nfs4_out *o, const struct object *x, uint64_t have)
{
	struct nfs4_out v = { .len = 0 };

	if (have & NFS4_BIT(FATTR4_TYPE))
		nfs4_put32(&v, x->type);
	if (have & NFS4_BIT(FATTR4_SIZE))
		nfs4_put64(&v, 12345);
	if (have & NFS4_BIT(FATTR4_FSID)) {
		nfs4_put64(&v, 0x11);
		nfs4_put64(&v, 0x22);
	}
	if (have & NFS4_BIT(FATTR4_RDATTR_ERROR))
		nfs4_put32(&v, x ? 0 : NFS4_MOVED);
	if (have & NFS4_BIT(FATTR4_FILEHANDLE))
		put_text(&v, "handle");
	if (have & NFS4_BIT(FATTR4_ACL) && x)
		nfs4_put32(&v, 0); /* behind RDATTR_ERROR, before FILEHANDLE: never with them here */
	if (have & NFS4_BIT(FATTR4_FILEID))
		nfs4_put64(&v, x->fileid);
	if (have & NFS4_BIT(FATTR4_MODE))
		nfs4_put32(&v, x->mode);
	if (have & NFS4_BIT(FATTR4_NUMLINKS))
		nfs4_put32(&v, 2);
	if (have & NFS4_BIT(FATTR4_OWNER))
		put_text(&v, x->owner);
	if (have & NFS4_BIT(FATTR4_OWNER_GROUP))
		put_text(&v, x->group);
	if (have & NFS4_BIT(FATTR4_RAWDEV)) {
		nfs4_put32(&v, 10);
		nfs4_put32(&v, 9);
	}
	if (have & NFS4_BIT(FATTR4_SPACE_USED))
		nfs4_put64(&v, 4096);
	if (have & NFS4_BIT(FATTR4_TIME_ACCESS))
		put_time(&v, 1, 2);
	if (have & NFS4_BIT(FATTR4_TIME_METADATA))
		put_time(&v, 3, 4);
	if (have & NFS4_BIT(FATTR4_TIME_MODIFY))
		put_time(&v, x->mtime, x->nsec);
	nfs4_put_bitmap(o, have);
	nfs4_put_opaque(o, v.bytes, v.len);
}

static void begin(struct nfs4_out *o, uint32_t status, uint32_t results)
{
	o->len = 0;
	o->full = false;
	nfs4_put32(o, status);
	put_text(o, "tag");
	nfs4_put32(o, results);
}

static void put_result(struct nfs4_out *o, enum nfs4_op op, uint32_t status)
{
	nfs4_put32(o, op);
	nfs4_put32(o, status);
}

static void put_getattr(struct nfs4_out *o, const struct object *x, uint64_t have)
{
	put_result(o, NFS4_GETATTR, 0);
	put_attrs(o, x, have);
}

static const struct object a_dir = { NF3DIR, 0755, "0", "0", 2, 0, 0 };

static struct nfs_answer answer(enum nfs_op op, const struct nfs4_out *o)
{
	static struct nfs4_bytes b; /* the answer points at it */
	struct nfs_call c = { .op = op, .count = 100 };
	struct nfs_answer a = { 0 };

	b = AS_BYTES(o);
	nfs4_answer(NULL, &c, &b, &a);
	return a;
}

/* ---- nfs_zdr_compounds ---- */

static void libnfs_calls_our_coders(void **state)
{
	assert_true(nfs_zdr_guard());
	assert_true(nfs_zdr_compounds());
}

/* Answers one call over @arg, a listening socket, with a reply whose result is "RESULTS!". */
static void *answer_one(void *arg)
{
	uint32_t reply[] = { htonl(0x80000000u | 32), 0, htonl(1), 0, 0, 0, 0, 0, 0 };
	uint8_t call[4096];
	ssize_t got = 0, n;
	int fd = accept(*(int *)arg, NULL, NULL);

	memcpy(&reply[7], "RESULTS!", 8);
	while (got < 4 || got < (call[2] << 8 | call[3]) + 4) {
		n = read(fd, call + got, sizeof(call) - (size_t)got);
		if (n <= 0)
			return NULL;
		got += n;
	}
	memcpy(&reply[1], call + 4, 4); /* the same transaction */
	n = memmem(call, (size_t)got, "\0\0\0\7handle!", 11) ? write(fd, reply, sizeof(reply)) : 0;
	return n == sizeof(reply) ? arg : NULL;
}

struct carried {
	bool connected, over;
	char results[9];
};

static void on_connected(struct rpc_context *rpc, int status, void *data, void *arg)
{
	((struct carried *)arg)->connected = status == RPC_STATUS_SUCCESS;
}

static void on_carried(struct rpc_context *rpc, int status, void *data, void *arg)
{
	const struct nfs4_bytes *b = data;
	struct carried *c = arg;

	c->over = true;
	if (status == RPC_STATUS_SUCCESS && b->len == 8)
		memcpy(c->results, b->data, 8);
}

static void serve(struct nfs_carrier *carrier, const bool *until)
{
	while (!*until) {
		struct pollfd p = { nfs_carrier_fd(carrier), nfs_carrier_events(carrier), 0 };

		assert_true(poll(&p, 1, 60000) > 0);
		assert_int_equal(nfs_carrier_service(carrier, p.revents), 0);
	}
}

static void on_up(void *arg, int error, const struct onc_bytes *results, const char *why)
{
	((struct carried *)arg)->connected = !error;
}

static struct nfs_carrier *connecting(bool libnfs, const struct sockaddr_in *at,
				      struct carried *c)
{
	const struct onc_config config = { .program = NFS_PROGRAM, .version = 4,
					   .reply_max = 4096, .flavor = ONC_SYS };
	struct rpc_context *rpc;
	struct onc_conn *own;

	if (libnfs) {
		rpc = rpc_init_context();
		assert_int_equal(rpc_connect_async(rpc, "127.0.0.1", ntohs(at->sin_port),
						   on_connected, c), 0);
		return nfs_carrier_make(rpc, NULL);
	}
	assert_int_equal(onc_create(&config, &own), 0);
	assert_int_equal(onc_connect(own, (const struct sockaddr *)at, sizeof(*at), on_up, c), 0);
	return nfs_carrier_make(NULL, own);
}

static void our_bytes_are_carried(bool libnfs)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);
	struct carried c = { 0 };
	struct nfs_carrier *carrier;
	struct nfs4_out o;
	pthread_t server;
	void *answered;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(pthread_create(&server, NULL, answer_one, &fd), 0);
	carrier = connecting(libnfs, &at, &c);
	serve(carrier, &c.connected);
	nfs4_begin(&o);
	nfs4_put_handle(&o, &(struct stub_origin){ 7, "handle!" });
	assert_int_equal(nfs4_queue(&o, carrier, on_carried, &c), 0);
	serve(carrier, &c.over);
	assert_string_equal(c.results, "RESULTS!");
	pthread_join(server, &answered);
	assert_ptr_equal(answered, &fd);
	/* one that nobody answers: its callback comes all the same */
	c = (struct carried){ 0 };
	assert_int_equal(nfs4_queue(&o, carrier, on_carried, &c), 0);
	assert_false(c.over);
	nfs_carrier_destroy(carrier);
	assert_true(c.over);
	assert_string_equal(c.results, "");
	close(fd);
}

static void libnfs_carries_our_bytes(void **state)
{
	our_bytes_are_carried(true);
}

static void we_carry_our_bytes(void **state)
{
	our_bytes_are_carried(false);
}

/* ---- nfs4_wire.c ---- */

static void calls_are_as_the_protocol_says(void **state)
{
	static const uint8_t expected[] = { 0, 0, 0, 22,  0,  0,   0, 3, 'a', 'b', 'c', 0,
					    0, 0, 0, 9,   0,  0,   0, 2, 0,   0,   1,   0,
					    0, 0, 0, 0x20 };
	struct nfs4_out o;

	nfs4_begin(&o);
	assert_int_equal(o.len, 12);
	nfs4_put_handle(&o, &(struct stub_origin){ 3, "abc" });
	nfs4_put_getattr(&o, NFS4_BIT(FATTR4_FSID) | NFS4_BIT(37));
	assert_int_equal(o.ops, 2);
	assert_int_equal(o.len, 12 + sizeof(expected));
	assert_memory_equal(o.bytes + 12, expected, sizeof(expected));
}

static void what_has_no_room_is_not_sent(void **state)
{
	static const char big[NFS4_OUT_MAX];
	struct nfs4_out o;

	nfs4_begin(&o);
	nfs4_put_opaque(&o, big, sizeof(big));
	assert_true(o.full);
	nfs4_put32(&o, 1);
	assert_true(o.len <= sizeof(o.bytes));
	assert_int_equal(nfs4_queue(&o, NULL, NULL, NULL), -1);
}

static void bitmaps_beyond_ours_are_impossible(void **state)
{
	static const struct {
		uint8_t bytes[16];
		bool good;
	} cases[] = {
		{ { 0, 0, 0, 0 }, true },
		{ { 0, 0, 0, 1, 0, 0, 0, 2 }, true },
		{ { 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0 }, true },
		{ { 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1 }, false },
		{ { 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0 }, false },
		{ { 0xff, 0xff, 0xff, 0xff }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nfs4_in in = { cases[i].bytes, sizeof(cases[i].bytes), false };

		nfs4_get_bitmap(&in, false);
		assert_int_equal(!in.bad, cases[i].good);
		in = (struct nfs4_in){ cases[i].bytes, sizeof(cases[i].bytes), false };
		nfs4_get_bitmap(&in, true);
		assert_int_equal(!in.bad, i < 4);
	}
}

/* ---- nfs4_errno ---- */

static void codes_are_those_of_the_contract(void **state)
{
	static const int allowed[] = { ENOENT, ESTALE, ENOTDIR, EACCES, EIO, ENAMETOOLONG, EAGAIN,
				       EXDEV };

	assert_int_equal(nfs4_errno(0), 0);
	assert_int_equal(nfs4_errno(-EBADMSG), -EBADMSG);
	assert_int_equal(nfs4_errno(NFS4_DELAY), -EAGAIN);
	assert_int_equal(nfs4_errno(NFS4_GRACE), -EAGAIN);
	assert_int_equal(nfs4_errno(NFS4_FHEXPIRED), -ESTALE);
	assert_int_equal(nfs4_errno(NFS4_MOVED), -EXDEV);
	assert_int_equal(nfs4_errno(NFS4_WRONGSEC), -EACCES);
	for (int status = 1; status < 10100; status++) {
		int e = nfs4_errno(status);
		size_t i, n = sizeof(allowed) / sizeof(allowed[0]);

		for (i = 0; i < n && e != -allowed[i]; i++)
			;
		assert_true(i < n);
	}
}

/* ---- attributes ---- */

static int attrs_of(const struct object *x, uint64_t have, struct stub_attr *out)
{
	struct nfs4_out o = { .len = 0 };
	struct nfs4_attrs a;
	const char *why = NULL;
	struct nfs4_in in;
	int r;

	put_attrs(&o, x, have);
	in = (struct nfs4_in){ o.bytes, o.len, false };
	r = nfs4_get_attrs(&in, nfs4_of_objects, &a);
	assert_int_equal(in.left, 0);
	if (r)
		return r;
	r = nfs4_attr(&a, out, &why);
	assert_int_equal(!!r, !!why);
	return r;
}

static void attributes_are_taken(void **state)
{
	struct stub_attr a;

	assert_int_equal(attrs_of(&a_file, ALL, &a), 0);
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_int_equal(a.uid, 1000);
	assert_int_equal(a.gid, 100);
	assert_int_equal(a.size, 12345);
	assert_int_equal(a.used, 4096);
	assert_int_equal(a.nlink, 2);
	assert_int_equal(a.fileid, 7);
	assert_int_equal(a.fsid, 0x11 ^ UINT64_C(0x22) << 32);
	assert_int_equal(a.mtime.tv_sec, -5); /* before 1970 is before 1970 */
	assert_int_equal(a.mtime.tv_nsec, 999999999);
	assert_int_equal(a.atime.tv_sec, 1);
	assert_int_equal(a.ctime.tv_nsec, 4);
	assert_int_equal(a.rdev_major, 0); /* of no device */
	assert_false(a.time_unsure || a.acl || a.more);
}

static void what_is_missing_is_impossible(void **state)
{
	static const uint64_t may[] = { NFS4_BIT(FATTR4_RAWDEV), NFS4_BIT(FATTR4_SPACE_USED),
					NFS4_BIT(FATTR4_TIME_ACCESS),
					NFS4_BIT(FATTR4_TIME_METADATA) };
	struct stub_attr a;
	uint64_t optional = 0;

	for (size_t i = 0; i < sizeof(may) / sizeof(may[0]); i++)
		optional |= may[i];
	for (unsigned int i = 0; i < 64; i++)
		if (ALL & NFS4_BIT(i))
			assert_int_equal(attrs_of(&a_file, ALL & ~NFS4_BIT(i), &a),
					 optional & NFS4_BIT(i) ? 0 : -EBADMSG);
	assert_int_equal(attrs_of(&a_file, ALL & ~optional, &a), 0);
	assert_int_equal(a.atime.tv_sec, -5);
	assert_int_equal(a.ctime.tv_sec, -5);
}

static void owners_are_numbers(void **state)
{
	static const struct {
		const char *text;
		int64_t id; /* -1: none */
	} cases[] = {
		{ "0", 0 },	     { "65534", 65534 },	 { "4294967294", 4294967294 },
		{ "4294967295", -1 }, { "4294967296", -1 },	 { "99999999999", -1 },
		{ "", -1 },	     { "00", -1 },		 { "-1", -1 },
		{ "+1", -1 },	     { "1 ", -1 },		 { "root", -1 },
		{ "root@localdomain", -1 }, { "1000@localdomain", -1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct object owner = a_file, group = a_file;
		struct stub_attr a;

		owner.owner = group.group = cases[i].text;
		assert_int_equal(attrs_of(&owner, ALL, &a), cases[i].id < 0 ? -EBADMSG : 0);
		if (cases[i].id >= 0)
			assert_int_equal(a.uid, cases[i].id);
		assert_int_equal(attrs_of(&group, ALL, &a), cases[i].id < 0 ? -EBADMSG : 0);
		if (cases[i].id >= 0)
			assert_int_equal(a.gid, cases[i].id);
	}
}

static void names_are_those_of_the_table(void **state)
{
	static const char table[] = "uid 1001 alice@example.org\ngid 2001 staff@example.org\n";
	static const struct {
		const char *owner, *group;
		int64_t uid, gid; /* -1: nobody's */
	} cases[] = {
		{ "alice@example.org", "staff@example.org", 1001, 2001 },
		{ "alice@example.org", "7", 1001, 7 },
		{ "7", "staff@example.org", 7, 2001 },
		{ "alice@example.org", "alice@example.org", 1001, -1 }, /* a user is no group */
		{ "bob@example.org", "staff@example.org", -1, 2001 },
		{ "alice@example.or", "7", -1, 7 },
		{ "Alice@example.org", "7", -1, 7 },
		{ "alice", "7", -1, 7 },
	};
	struct smb_idmap *ids;
	char why[SMB_IDMAP_WHY];

	assert_int_equal(smb_idmap_parse(table, sizeof(table) - 1, "table", &ids, why), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct object x = a_file;
		struct nfs4_out o = { .len = 0 };
		bool good = cases[i].uid >= 0 && cases[i].gid >= 0;
		struct nfs4_attrs a;
		struct stub_attr out;
		struct nfs4_in in;
		const char *why_not;

		x.owner = cases[i].owner;
		x.group = cases[i].group;
		put_attrs(&o, &x, ALL);
		in = (struct nfs4_in){ o.bytes, o.len, false };
		assert_int_equal(nfs4_get_attrs(&in, nfs4_of_objects, &a), 0);
		assert_int_equal(nfs4_name_ids(ids, &a), good);
		assert_int_equal(nfs4_attr(&a, &out, &why_not), good ? 0 : -EBADMSG);
		if (good)
			assert_true(out.uid == cases[i].uid && out.gid == cases[i].gid);
		assert_true(good || !nfs4_name_ids(NULL, &a));
	}
	smb_idmap_destroy(ids);
}

static void values_are_checked(void **state)
{
	struct object x = a_file;
	struct stub_attr a;

	x.nsec = 1000000000;
	assert_int_equal(attrs_of(&x, ALL, &a), -EBADMSG);
	x = a_file;
	for (x.type = 0; x.type < 12; x.type++)
		assert_int_equal(attrs_of(&x, ALL, &a), x.type >= 1 && x.type <= 7 ? 0 : -EBADMSG);
	x.type = NF3CHR;
	assert_int_equal(attrs_of(&x, ALL, &a), 0);
	assert_int_equal(a.rdev_major, 10);
	/* not asked for: nobody knows how long it is */
	assert_int_equal(attrs_of(&a_file, ALL | NFS4_BIT(FATTR4_FILEHANDLE), &a), -EBADMSG);
}

/* ---- answers ---- */

static void a_lookup_brings_all(void **state)
{
	struct nfs_answer a;
	struct nfs4_out o;

	begin(&o, 0, 5);
	put_result(&o, NFS4_PUTFH, 0);
	put_getattr(&o, &a_dir, NFS4_OF_DIRS);
	put_result(&o, NFS4_LOOKUP, 0);
	put_result(&o, NFS4_GETFH, 0);
	put_text(&o, "the handle");
	put_getattr(&o, &a_file, ALL);
	a = answer(NFS_OP_LOOKUP, &o);
	assert_int_equal(a.error, 0);
	assert_true(a.have_attr && a.have_dir);
	assert_int_equal(a.dir.fileid, 2);
	assert_int_equal(a.attr.fileid, 7);
	assert_int_equal(a.origin.len, 10);
	/* cut anywhere it is impossible, and nothing of it counts */
	for (uint32_t len = o.len - 4; len; len -= 4) {
		o.len = len;
		a = answer(NFS_OP_LOOKUP, &o);
		assert_int_equal(a.error, -EBADMSG);
		assert_false(a.have_attr || a.have_dir);
	}
}

static void a_name_that_is_not_there_is_of_a_directory(void **state)
{
	struct nfs_answer a;
	struct nfs4_out o;

	begin(&o, NFS4_NOENT, 3);
	put_result(&o, NFS4_PUTFH, 0);
	put_getattr(&o, &a_dir, NFS4_OF_DIRS);
	put_result(&o, NFS4_LOOKUP, NFS4_NOENT);
	a = answer(NFS_OP_LOOKUP, &o);
	assert_int_equal(a.error, -ENOENT);
	assert_true(a.have_dir && !a.have_attr);
	assert_int_equal(a.dir.fileid, 2);
}

static void a_result_of_another_operation_is_impossible(void **state)
{
	struct nfs4_out o;

	begin(&o, 0, 2);
	put_result(&o, NFS4_PUTFH, 0);
	put_result(&o, NFS4_ACCESS, 0);
	put_attrs(&o, &a_file, ALL);
	assert_int_equal(answer(NFS_OP_GETATTR, &o).error, -EBADMSG);
	begin(&o, NFS4_STALE, 2); /* goes on after what failed */
	put_result(&o, NFS4_PUTFH, NFS4_STALE);
	put_getattr(&o, &a_file, ALL);
	assert_int_equal(answer(NFS_OP_GETATTR, &o).error, -EBADMSG);
	begin(&o, NFS4_STALE, 1);
	put_result(&o, NFS4_PUTFH, NFS4_STALE);
	assert_int_equal(answer(NFS_OP_GETATTR, &o).error, -ESTALE);
	begin(&o, NFS4_MINOR_VERS_MISMATCH, 0);
	assert_int_equal(answer(NFS_OP_GETATTR, &o).error, -EIO);
	begin(&o, 0, 0);
	assert_int_equal(answer(NFS_OP_GETATTR, &o).error, -EBADMSG);
}

static void later_is_said_of_any_operation(void **state)
{
	struct nfs4_out o;

	begin(&o, NFS4_DELAY, 1);
	put_result(&o, NFS4_PUTFH, NFS4_DELAY);
	assert_int_equal(answer(NFS_OP_READ, &o).error, -EAGAIN);
	begin(&o, NFS4_GRACE, 2);
	put_result(&o, NFS4_PUTFH, 0);
	put_result(&o, NFS4_READ, NFS4_GRACE);
	assert_int_equal(answer(NFS_OP_READ, &o).error, -EAGAIN);
}

static void reads_bring_no_more_than_was_asked(void **state)
{
	static const char data[101] = "data";

	for (uint32_t len = 100; len <= 101; len++) {
		struct nfs_answer a;
		struct nfs4_out o;

		begin(&o, 0, 3);
		put_result(&o, NFS4_PUTFH, 0);
		put_result(&o, NFS4_READ, 0);
		nfs4_put32(&o, 1);
		nfs4_put_opaque(&o, data, len);
		put_getattr(&o, &a_file, VERSION);
		a = answer(NFS_OP_READ, &o);
		assert_int_equal(a.error, len == 100 ? 0 : -EBADMSG);
		if (a.error)
			continue;
		assert_true(a.eof && a.have_attr);
		assert_int_equal(a.len, 100);
		assert_string_equal(a.data, "data");
	}
}

static int read_with(enum nfs_op op, const struct object *x, uint64_t have, struct nfs_answer *a)
{
	struct nfs4_out o;

	begin(&o, 0, 3);
	put_result(&o, NFS4_PUTFH, 0);
	if (op == NFS_OP_READLINK) {
		put_getattr(&o, x, have);
		put_result(&o, NFS4_READLINK, 0);
		put_text(&o, "target");
	} else if (op == NFS_OP_READ) {
		put_result(&o, NFS4_READ, 0);
		nfs4_put32(&o, 1);
		put_text(&o, "data");
		put_getattr(&o, x, have);
	} else {
		put_result(&o, NFS4_SEEK, 0);
		nfs4_put32(&o, 0);
		nfs4_put64(&o, 4096);
		put_getattr(&o, x, have);
	}
	*a = answer(op, &o);
	return a->error;
}

/* What was not asked for is impossible: so neither owners nor an ACL were. */
static void content_comes_with_its_version_alone(void **state)
{
	static const enum nfs_op ops[] = { NFS_OP_READ, NFS_OP_READLINK, NFS_OP_SEEK };
	static const struct object no_type = { 8, 0, "0", "0", 7, 0, 0 };
	struct nfs_answer a;

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(read_with(ops[i], &a_file, VERSION, &a), 0);
		assert_true(a.have_attr);
		assert_int_equal(a.attr.mode, S_IFREG);
		assert_int_equal(a.attr.size, 12345);
		assert_int_equal(a.attr.fileid, 7);
		assert_int_equal(a.attr.mtime.tv_sec, -5);
		assert_int_equal(a.attr.mtime.tv_nsec, 999999999);
		assert_int_equal(a.attr.ctime.tv_sec, 3);
		for (unsigned int bit = 0; bit < 64; bit++) {
			uint64_t have = VERSION ^ NFS4_BIT(bit);
			bool asked = VERSION & NFS4_BIT(bit);

			if (!(nfs4_of_objects & NFS4_BIT(bit)))
				continue;
			/* as mtime, where a server has none */
			assert_int_equal(read_with(ops[i], &a_file, have, &a),
					 asked && bit == FATTR4_TIME_METADATA ? 0 : -EBADMSG);
			assert_int_equal(a.have_attr, !a.error);
		}
		assert_int_equal(read_with(ops[i], &no_type, VERSION, &a), -EBADMSG);
	}
}

static void targets_have_no_zero_byte(void **state)
{
	for (uint32_t zero = 0; zero < 2; zero++) {
		struct nfs_answer a;
		struct nfs4_out o;

		begin(&o, 0, 3);
		put_result(&o, NFS4_PUTFH, 0);
		put_getattr(&o, &a_file, VERSION);
		put_result(&o, NFS4_READLINK, 0);
		nfs4_put_opaque(&o, zero ? "a\0b" : "a/b", 3);
		a = answer(NFS_OP_READLINK, &o);
		assert_int_equal(a.error, zero ? -EBADMSG : 0);
	}
}

/* ---- listings ---- */

#define OF_ENTRY (ALL | NFS4_BIT(FATTR4_RDATTR_ERROR) | NFS4_BIT(FATTR4_FILEHANDLE))

static void begin_page(struct nfs4_out *o)
{
	begin(o, 0, 3);
	put_result(o, NFS4_PUTFH, 0);
	put_getattr(o, &a_dir, NFS4_OF_DIRS);
	put_result(o, NFS4_READDIR, 0);
	nfs4_put64(o, UINT64_C(0x0102030405060708));
}

static void put_entry(struct nfs4_out *o, uint64_t cookie, const char *name, size_t len,
		      const struct object *x)
{
	nfs4_put32(o, 1);
	nfs4_put64(o, cookie);
	nfs4_put_opaque(o, name, len);
	put_attrs(o, x, x ? OF_ENTRY : NFS4_BIT(FATTR4_RDATTR_ERROR));
}

static int page_of(const struct nfs4_out *o, struct nfs_page *p, const char **why)
{
	struct nfs_call c = { .op = NFS_OP_READDIRPLUS };
	struct nfs_answer a = answer(NFS_OP_READDIRPLUS, o);

	*why = NULL;
	return a.error ? a.error : nfs4_page(NULL, &c, &a, p, why);
}

static void pages_have_their_entries(void **state)
{
	struct object nobodys = a_file;
	const char *why;
	struct nfs_page p;
	struct nfs4_out o;

	nobodys.owner = "nobody@example.org";
	begin_page(&o);
	put_entry(&o, 3, "file", 4, &a_file);
	put_entry(&o, 4, "referral", 8, NULL);
	put_entry(&o, 5, "a\0b", 3, &a_file);
	put_entry(&o, 9, "nobody's", 8, &nobodys);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 1);
	assert_int_equal(page_of(&o, &p, &why), 0);
	assert_int_equal(p.n, 4);
	assert_int_equal(p.seen, 4);
	assert_int_equal(p.last_cookie, 9);
	assert_true(p.eof && p.have_dir);
	assert_int_equal(p.dir.fileid, 2);
	assert_memory_equal(p.verf, "\1\2\3\4\5\6\7\10", 8);
	assert_true(p.complete[0]);
	assert_int_equal(p.entries[0].error, 0);
	assert_int_equal(p.entries[0].attr.mode, S_IFREG | 0640);
	assert_int_equal(p.entries[0].origin_len, 6);
	assert_memory_equal(p.entries[0].name, "file", 4);
	assert_int_equal(p.entries[1].error, -EXDEV);
	assert_int_equal(p.entries[2].error, -EBADMSG);
	assert_int_equal(p.entries[3].error, -EBADMSG);
	nfs_page_finish(&p);
}

static void pages_of_names_are_to_be_looked_up(void **state)
{
	struct nfs_call c = { .op = NFS_OP_READDIR };
	struct nfs_answer a;
	struct nfs_page p;
	struct nfs4_out o;
	const char *why;

	begin_page(&o);
	nfs4_put32(&o, 1);
	nfs4_put64(&o, 3);
	put_text(&o, "name");
	put_attrs(&o, &a_file, NFS4_BIT(FATTR4_FILEID));
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 1);
	a = answer(NFS_OP_READDIR, &o);
	assert_int_equal(a.error, 0);
	assert_int_equal(nfs4_page(NULL, &c, &a, &p, &why), 0);
	assert_int_equal(p.n, 1);
	assert_false(p.complete[0]);
	assert_int_equal(p.entries[0].error, 0);
	nfs_page_finish(&p);
}

static void pages_that_end_too_early_are_impossible(void **state)
{
	uint32_t whole, head;
	const char *why;
	struct nfs_page p;
	struct nfs4_out o;

	begin_page(&o);
	head = o.len;
	put_entry(&o, 3, "file", 4, &a_file);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 0);
	whole = o.len;
	assert_int_equal(page_of(&o, &p, &why), 0);
	assert_false(p.eof);
	nfs_page_finish(&p);
	for (o.len = head - 8; o.len < whole; o.len += 4)
		assert_int_equal(page_of(&o, &p, &why), -EBADMSG);
}

static void cookies_do_not_stand_still(void **state)
{
	const char *why;
	struct nfs_page p;
	struct nfs4_out o;

	begin_page(&o);
	put_entry(&o, 3, "a", 1, &a_file);
	put_entry(&o, 3, "b", 1, &a_file);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, 1);
	assert_int_equal(page_of(&o, &p, &why), -EBADMSG);
	assert_non_null(why);
}

static void errors_of_listings_are_told_apart(void **state)
{
	static const struct {
		uint32_t status;
		enum nfs_said said;
	} cases[] = { { NFS4_TOOSMALL, NFS_SAID_TOOSMALL }, { NFS4_BAD_COOKIE, NFS_SAID_COOKIE },
		      { NFS4_NOT_SAME, NFS_SAID_COOKIE }, { NFS4_EACCESS, NFS_SAID_NOTHING },
		      { NFS4_INVAL, NFS_SAID_NOTSUPP } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nfs4_out o;

		begin(&o, cases[i].status, 3);
		put_result(&o, NFS4_PUTFH, 0);
		put_getattr(&o, &a_dir, NFS4_OF_DIRS);
		put_result(&o, NFS4_READDIR, cases[i].status);
		assert_int_equal(answer(NFS_OP_READDIRPLUS, &o).said, cases[i].said);
		assert_true(answer(NFS_OP_READDIRPLUS, &o).error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libnfs_calls_our_coders),
		cmocka_unit_test(libnfs_carries_our_bytes),
		cmocka_unit_test(we_carry_our_bytes),
		cmocka_unit_test(calls_are_as_the_protocol_says),
		cmocka_unit_test(what_has_no_room_is_not_sent),
		cmocka_unit_test(bitmaps_beyond_ours_are_impossible),
		cmocka_unit_test(codes_are_those_of_the_contract),
		cmocka_unit_test(attributes_are_taken),
		cmocka_unit_test(what_is_missing_is_impossible),
		cmocka_unit_test(owners_are_numbers),
		cmocka_unit_test(names_are_those_of_the_table),
		cmocka_unit_test(values_are_checked),
		cmocka_unit_test(a_lookup_brings_all),
		cmocka_unit_test(a_name_that_is_not_there_is_of_a_directory),
		cmocka_unit_test(a_result_of_another_operation_is_impossible),
		cmocka_unit_test(later_is_said_of_any_operation),
		cmocka_unit_test(reads_bring_no_more_than_was_asked),
		cmocka_unit_test(content_comes_with_its_version_alone),
		cmocka_unit_test(targets_have_no_zero_byte),
		cmocka_unit_test(pages_have_their_entries),
		cmocka_unit_test(pages_of_names_are_to_be_looked_up),
		cmocka_unit_test(pages_that_end_too_early_are_impossible),
		cmocka_unit_test(cookies_do_not_stand_still),
		cmocka_unit_test(errors_of_listings_are_told_apart),
	};

	return cmocka_run_group_tests_name("nfs4", tests, NULL, NULL);
}
