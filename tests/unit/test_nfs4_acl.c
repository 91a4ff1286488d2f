// SPDX-License-Identifier: GPL-3.0-or-later
/* test_nfs4_acl.c - ACLs that come with attributes of NFSv4: retriever/nfs/nfs4_acl.c */
#include <errno.h>
#include <linux/posix_acl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "nfs/nfs41.h"
#include "nfs/nfs4_posix.h"
#include "windows/smb_idmap.h"

#define R   NFS4_READ_DATA
#define W   (NFS4_WRITE_DATA | NFS4_APPEND_DATA)
#define X   NFS4_EXECUTE
#define RWX (R | W | X)
#define G   NFS4_IS_GROUP
#define FD  (NFS4_BY_FILES | NFS4_BY_DIRS)
#define ENTRIES 6

struct ace {
	uint32_t type, flags, mask;
	const char *who;
};

static struct nfs_source source;
static char said[512]; /* the last line of the log */

static void on_log(void *arg, enum stub_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(said, sizeof(said), "%s", line);
}

static int setup(void **state)
{
	static const char table[] = "uid 1001 alice@example.org\ngid 2001 staff@example.org\n";
	char why[SMB_IDMAP_WHY];

	(void)state;
	source_pool_init(&source.pool, 0);
	source.config.log = on_log;
	source.uri.version = &nfs4_version;
	snprintf(source.uri.host, sizeof(source.uri.host), "old");
	return smb_idmap_parse(table, sizeof(table) - 1, "table", &source.ids, why);
}

static int teardown(void **state)
{
	(void)state;
	smb_idmap_destroy(source.ids);
	source_pool_finish(&source.pool);
	return 0;
}

/* ---- what a server would send ---- */

static void put_text(struct nfs4_out *o, const char *text)
{
	nfs4_put_opaque(o, text, strlen(text));
}

static uint32_t count(const struct ace *e)
{
	uint32_t n = 0;

	while (n < ENTRIES && e[n].who)
		n++;
	return n;
}

static void put_acl(struct nfs4_out *o, const struct ace *e)
{
	uint32_t n = count(e);

	nfs4_put32(o, n);
	for (uint32_t i = 0; i < n; i++) {
		nfs4_put32(o, e[i].type);
		nfs4_put32(o, e[i].flags);
		nfs4_put32(o, e[i].mask);
		put_text(o, e[i].who);
	}
}

static struct nfs4_out bytes; /* attributes point into it */

static struct nfs4_attrs attrs_with(const struct ace *e)
{
	struct nfs4_attrs a = { .have = NFS4_BIT(FATTR4_ACL) };
	struct nfs4_in in;

	bytes.len = 0;
	put_acl(&bytes, e);
	in = (struct nfs4_in){ bytes.bytes, bytes.len, false };
	assert_int_equal(nfs4_get_acl(&in, &a), 0);
	assert_int_equal(in.left, 0);
	assert_int_equal(a.aces, count(e));
	return a;
}

static struct stub_attr object(uint32_t mode)
{
	return (struct stub_attr){ .mode = mode, .uid = 1000, .gid = 100 };
}

static void text_of(const struct stub_xattr *x, char *out)
{
	const uint8_t *p = x->value;

	assert_int_equal(stub_get_le(p, 4), 2);
	*out = '\0';
	for (size_t at = POSIX_ACL_HEAD; at < x->len; at += POSIX_ACL_ENTRY) {
		unsigned int tag = (unsigned int)stub_get_le(p + at, 2);
		unsigned int perm = (unsigned int)stub_get_le(p + at + 2, 2);

		out += sprintf(out, "%s%s:", at > POSIX_ACL_HEAD ? " " : "",
			       tag & (ACL_USER_OBJ | ACL_USER)	 ? "u" :
			       tag & (ACL_GROUP_OBJ | ACL_GROUP) ? "g" :
			       tag == ACL_MASK			 ? "m" :
								   "o");
		if (tag & (ACL_USER | ACL_GROUP))
			out += sprintf(out, "%u:", (unsigned int)stub_get_le(p + at + 4, 4));
		out += sprintf(out, "%u", perm);
	}
}

/* ---- decoding ---- */

static void entries_are_bounded(void **state)
{
	static const struct ace plain[] = { { 0, 0, RWX, "OWNER@" }, { 1, 0, R, "1001" }, { 0 } };
	static const struct {
		uint32_t n, type, len;
	} bad[] = { { NFS4_ACES_MAX + 1, 0, 6 }, { UINT32_MAX, 0, 6 }, { 1, 4, 6 }, { 1, 0, 1025 },
		    { 1, 0, UINT32_MAX }, { 2, 0, 6 } };
	struct nfs4_attrs a = { 0 };
	struct nfs4_in in;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bytes.len = 0;
		nfs4_put32(&bytes, bad[i].n);
		nfs4_put32(&bytes, bad[i].type);
		nfs4_put32(&bytes, 0);
		nfs4_put32(&bytes, R);
		nfs4_put32(&bytes, bad[i].len);
		memset(bytes.bytes + bytes.len, 'x', 1100);
		in = (struct nfs4_in){ bytes.bytes, bytes.len + (bad[i].n == 2 ? 8 : 1100), false };
		assert_int_equal(nfs4_get_acl(&in, &a), -EBADMSG);
	}
	bytes.len = 0;
	put_acl(&bytes, plain);
	for (uint32_t len = 0; len < bytes.len; len += 4) {
		in = (struct nfs4_in){ bytes.bytes, len, false };
		assert_int_equal(nfs4_get_acl(&in, &a), -EBADMSG);
	}
}

/* In bytes that hold all of them. */
static void as_many_as_there_may_be(void **state)
{
	static const uint8_t ace[24] = { [11] = R, [15] = 6, 'O', 'W', 'N', 'E', 'R', '@' };
	uint8_t *all = calloc(NFS4_ACES_MAX + 2, sizeof(ace));
	struct nfs4_attrs a = { 0 };

	assert_non_null(all);
	for (uint32_t i = 0; i <= NFS4_ACES_MAX; i++)
		memcpy(all + 4 + i * sizeof(ace), ace, sizeof(ace));
	for (uint32_t n = NFS4_ACES_MAX; n <= NFS4_ACES_MAX + 1; n++) {
		struct nfs4_in in = { all, 4 + n * sizeof(ace), false };

		all[2] = (uint8_t)(n >> 8);
		all[3] = (uint8_t)n;
		assert_int_equal(nfs4_get_acl(&in, &a), n > NFS4_ACES_MAX ? -EBADMSG : 0);
	}
	free(all);
}

/* ---- met ---- */

static void modes_give_no_more_than_acls(void **state)
{
	static const struct {
		struct ace e[ENTRIES];
		uint32_t mode;
		bool more, near;
	} cases[] = {
		{ { { 0 } }, 0777, false, false }, /* none */
		{ { { 0, 0, RWX, "OWNER@" },
		    { 0, G, R | X, "GROUP@" },
		    { 0, 0, X, "EVERYONE@" } }, 0751, false, false },
		/* a mask of the group's and the named user's, shown as the group's rights */
		{ { { 0, 0, RWX, "OWNER@" }, { 0, 0, RWX, "1001" }, { 0, 0, R, "GROUP@" } },
		  0740, true, false },
		/* somebody is kept out: he may be one of the group, or of the others */
		{ { { 0, 0, RWX, "OWNER@" }, { 1, 0, RWX, "1001" }, { 0, 0, RWX, "GROUP@" },
		    { 0, 0, R, "EVERYONE@" } }, 0700, true, false },
		/* too late for what was allowed before */
		{ { { 0, 0, RWX, "EVERYONE@" }, { 1, 0, RWX, "1001" } }, 0777, true, false },
		/* for what is made in a directory; of a file it says nothing */
		{ { { 0, 0, R, "EVERYONE@" }, { 0, FD | 8, RWX, "GROUP@" } }, 0444, false, false },
		{ { { 2, 0, RWX, "1001" }, { 3, 0, RWX, "EVERYONE@" }, { 0, 0, R, "GROUP@" },
		    { 0, 0, R, "OWNER@" } }, 0440, false, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nfs4_attrs from = attrs_with(cases[i].e);
		struct stub_attr a = object(S_IFREG | 0777);

		nfs4_acl_met(NULL, &from, &a);
		assert_int_equal(a.mode, S_IFREG | cases[i].mode);
		assert_int_equal(a.more, cases[i].more);
		assert_int_equal(a.acl_near, cases[i].near);
		assert_false(a.acl);
	}
}

static void what_cannot_be_kept_is_lost(void **state)
{
	static const struct ace more[] = { { 0, 0, RWX, "OWNER@" }, { 0, 0, R | 0x40000, "1001" },
					   { 0 } };
	static const struct ace plain[] = { { 0, 0, RWX, "OWNER@" }, { 0, 0, R, "GROUP@" }, { 0 } };
	static const uint32_t types[] = { S_IFIFO, S_IFREG };
	struct stub_attr a;

	for (size_t i = 0; i < 2; i++) {
		struct nfs4_attrs from = attrs_with(more);

		source.config.no_acl = i;
		a = object(types[i] | 0777);
		nfs4_acl_met(&source, &from, &a);
		assert_int_equal(a.mode, types[i] | 0700);
		assert_true(a.acl && !a.more && !a.acl_near);
		from = attrs_with(plain);
		a = object(types[i] | 0777);
		nfs4_acl_met(&source, &from, &a);
		assert_int_equal(a.mode, types[i] | 0740);
		assert_true(!a.acl && !a.more && !a.acl_near);
	}
	source.config.no_acl = false;
	a = object(S_IFLNK | 0777);
	nfs4_acl_met(&source, &(struct nfs4_attrs){ .have = NFS4_BIT(FATTR4_ACL), .aces = 1 }, &a);
	assert_int_equal(a.mode, S_IFLNK | 0777);
}

/* ---- meta ---- */

/* Returns what nfs4_acl_meta() does; @acls: "NAME=ENTRIES;..." */
static int meta(const struct ace *e, struct stub_attr *a, char *acls)
{
	struct nfs4_attrs from = attrs_with(e);
	struct source_meta m = { .attr = *a };
	int r;

	*acls = *said = '\0';
	memset(source.nameless_ms, 0, sizeof(source.nameless_ms));
	r = nfs4_acl_meta(&source, &from, &m);
	assert_true(!r || !m.n);
	for (size_t i = 0; i < m.n; i++) {
		acls += sprintf(acls, "%s=", m.xattrs[i].name + strlen("system.posix_acl_"));
		text_of(&m.xattrs[i], acls);
		acls += strlen(acls);
		acls += sprintf(acls, ";");
	}
	*a = m.attr;
	source_meta_free(&m);
	return r;
}

static void acls_are_brought(void **state)
{
	static const struct {
		struct ace e[ENTRIES];
		uint32_t had, mode;
		bool near;
		const char *acls;
	} cases[] = {
		{ { { 0, 0, RWX, "OWNER@" }, { 0, 0, R, "GROUP@" } },
		  S_IFREG | 04777, S_IFREG | 04740, false, "" },
		{ { { 0, 0, RWX, "OWNER@" }, { 0, 0, RWX, "1002" }, { 0, G, R, "GROUP@" },
		    { 0, G, R | W, "2002" }, { 0, 0, 0, "EVERYONE@" } },
		  S_IFREG | 02740, S_IFREG | 02770, false,
		  "access=u:7 u:1002:7 g:4 g:2002:6 m:7 o:0;" },
		/* the owner may be in the group that is kept out */
		{ { { 1, G, W, "2002" }, { 0, 0, RWX, "OWNER@" }, { 0, 0, R, "GROUP@" } },
		  S_IFREG | 0740, S_IFREG | 0540, true, "access=u:5 g:4 g:2002:0 m:4 o:0;" },
		/* names of the table: as a user, and as a group */
		{ { { 0, 0, RWX, "OWNER@" }, { 0, 0, RWX, "alice@example.org" },
		    { 0, G, R, "staff@example.org" } },
		  S_IFREG | 0700, S_IFREG | 0770, false,
		  "access=u:7 u:1001:7 g:0 g:2001:4 m:7 o:0;" },
		/* only what is made below has one */
		{ { { 0, FD, RWX, "OWNER@" }, { 0, FD, R | X, "GROUP@" },
		    { 0, FD | 8, R | X, "1002" } },
		  S_IFDIR | 0777, S_IFDIR | 0750, false, "default=u:7 u:1002:5 g:5 m:5 o:0;" },
		{ { { 0, FD, RWX, "OWNER@" }, { 0, FD, RWX, "1002" }, { 0, FD, R | X, "GROUP@" } },
		  S_IFDIR | 0750, S_IFDIR | 0770, false,
		  "access=u:7 u:1002:7 g:5 m:7 o:0;default=u:7 u:1002:7 g:5 m:7 o:0;" },
	};
	char acls[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stub_attr a = object(cases[i].had);

		assert_int_equal(meta(cases[i].e, &a, acls), 0);
		assert_string_equal(acls, cases[i].acls);
		assert_int_equal(a.mode, cases[i].mode);
		assert_int_equal(a.acl_near, cases[i].near);
		assert_false(a.acl || a.more);
		assert_string_equal(said, "");
	}
}

static void what_a_volume_does_not_keep_is_narrowed(void **state)
{
	static const struct ace e[] = { { 0, 0, RWX, "OWNER@" }, { 0, 0, RWX, "1002" },
					{ 0, 0, R, "GROUP@" }, { 0 } };
	struct stub_attr a = object(S_IFREG | 0770);
	char acls[256];

	source.config.no_acl = true;
	assert_int_equal(meta(e, &a, acls), 0);
	source.config.no_acl = false;
	assert_string_equal(acls, "");
	assert_int_equal(a.mode, S_IFREG | 0740);
	assert_true(a.acl);
}

/* ---- who is not known ---- */

static void a_stranger_gets_nothing(void **state)
{
	static const char *const who[] = { "eve@example.org", "staff@example.org", "1001@x", "",
					   "4294967295", "owner@", "NETWORK@" };
	struct stub_attr a;
	char acls[256];

	for (size_t i = 0; i < sizeof(who) / sizeof(who[0]); i++) {
		struct ace e[] = { { 0, 0, RWX, "OWNER@" }, { 0, 0, RWX, who[i] },
				   { 0, 0, R, "GROUP@" }, { 0 } };

		a = object(S_IFREG | 0770);
		assert_int_equal(meta(e, &a, acls), 0);
		assert_string_equal(acls, "");
		assert_int_equal(a.mode, S_IFREG | 0740);
		assert_true(a.acl_near);
		assert_non_null(strstr(said, "gets nothing"));
		assert_non_null(strstr(said, who[i]));
	}
}

static void a_stranger_who_is_denied_parks(void **state)
{
	const struct ace e[] = { { 0, 0, RWX, "OWNER@" }, { 1, G, R, "eve\n@example.org" },
				 { 0, 0, R, "GROUP@" }, { 0 } };
	const struct ace late[] = { { 1, FD | 8, R, "eve@example.org" }, { 0, 0, RWX, "OWNER@" },
				    { 0 } };
	const struct ace nothing[] = { { 1, 0, 0x80000, "eve@example.org" },
				       { 0, 0, RWX, "OWNER@" }, { 0 } };
	struct stub_attr a = object(S_IFREG | 0777);
	struct nfs4_attrs from = attrs_with(e);
	char acls[256];

	nfs4_acl_met(&source, &from, &a);
	assert_int_equal(a.mode, S_IFREG | 0700); /* he may be anybody */
	assert_true(a.more && !a.acl);
	a = object(S_IFREG | 0777);
	assert_int_equal(meta(e, &a, acls), -EBADMSG);
	assert_non_null(strstr(said, "denies rights to \"eve"));
	assert_non_null(strstr(said, "postcopy-idmap(5)"));
	assert_null(strchr(said, '\n'));
	/* of what is made in a directory, too; of nothing that counts */
	a = object(S_IFDIR | 0777);
	assert_int_equal(meta(late, &a, acls), -EBADMSG);
	a = object(S_IFREG | 0777);
	assert_int_equal(meta(late, &a, acls), 0);
	a = object(S_IFREG | 0777);
	assert_int_equal(meta(nothing, &a, acls), 0);
	assert_true(a.acl_near);
	/* nobody needs to know whom, where no ACL is kept */
	source.config.no_acl = true;
	a = object(S_IFREG | 0777);
	assert_int_equal(meta(e, &a, acls), 0);
	assert_int_equal(a.mode, S_IFREG | 0700);
	source.config.no_acl = false;
}

/* ---- for Samba ---- */

static const uint8_t *get_sid(const uint8_t *p, struct smb_sid *out)
{
	memset(out, 0, sizeof(*out));
	out->n = p[1];
	out->authority = p[7];
	for (unsigned int i = 0; i < out->n; i++)
		out->sub[i] = (uint32_t)stub_get_le(p + 8 + 4u * i, 4);
	return p + 8 + 4u * out->n;
}

/* "OWNER GROUP|TYPE:FLAGS:MASK:SID|..." of the descriptor in security.NTACL. */
static void text_of_sd(const uint8_t *value, char *out)
{
	const uint8_t *sd = value + 160, *dacl = value + stub_get_le(sd + 16, 4), *p = dacl + 8;
	char owner[SMB_SID_TEXT], group[SMB_SID_TEXT];
	struct smb_sid sid;

	get_sid(value + stub_get_le(sd + 4, 4), &sid);
	smb_sid_text(&sid, owner);
	get_sid(value + stub_get_le(sd + 8, 4), &sid);
	out += sprintf(out, "%s %s", owner, smb_sid_text(&sid, group));
	for (uint64_t n = stub_get_le(dacl + 4, 4); n; n--) {
		unsigned int mask = (unsigned int)stub_get_le(p + 4, 4);

		out += sprintf(out, "|%u:%x:%x:", p[0], p[1], mask);
		p = get_sid(p + 8, &sid);
		out += sprintf(out, "%s", smb_sid_text(&sid, owner));
	}
}

static struct source_meta for_samba(const struct ace *e, uint32_t mode)
{
	struct nfs4_attrs from = attrs_with(e);
	struct source_meta m = { .attr = object(mode) };
	struct stub_attr a = m.attr;

	source.config.ntacl = true;
	nfs4_acl_met(&source, &from, &a);
	assert_int_equal(nfs4_acl_meta(&source, &from, &m), 0);
	source.config.ntacl = false;
	assert_int_equal(a.more, m.n > 0);
	return m;
}

static void samba_gets_the_whole_acl(void **state)
{
	static const struct {
		struct ace e[ENTRIES];
		uint32_t mode;
		size_t n;
		const char *sd;
	} cases[] = {
		/* no more than a mode, of which smbd makes a descriptor itself */
		{ { { 0, 0, RWX, "OWNER@" }, { 0, G, R, "GROUP@" } }, S_IFREG | 0740, 0, NULL },
		/* no POSIX ACL, but rights that none says */
		{ { { 0, 0, RWX, "OWNER@" }, { 0, 0, R | 0x8 | 0x40000 | 0x80000000, "GROUP@" } },
		  S_IFREG | 0740, 1,
		  "S-1-22-1-1000 S-1-22-2-100|0:0:27:S-1-22-1-1000|0:0:40009:S-1-22-2-100" },
		{ { { 1, 0x80, W, "1002" }, { 0, FD, RWX, "OWNER@" }, { 0, FD | 8, R, "GROUP@" },
		    { 0, FD | G | 4, R, "2002" }, { 2, 0x10, R, "EVERYONE@" },
		    { 0, 0, R, "EVERYONE@" } }, S_IFDIR | 0744, 3,
		  "S-1-22-1-1000 S-1-22-2-100|1:10:6:S-1-22-1-1002|0:0:27:S-1-22-1-1000|"
		  "0:b:27:S-1-3-0|0:b:1:S-1-3-1|0:7:1:S-1-22-2-2002|0:0:1:S-1-1-0" },
		/* flags of inheritance are nothing to a file; a stranger gets nothing, either */
		{ { { 0, FD, RWX, "OWNER@" }, { 0, 8, R, "1002" }, { 0, 0, R, "eve@example.org" } },
		  S_IFREG | 0700, 1,
		  "S-1-22-1-1000 S-1-22-2-100|0:0:27:S-1-22-1-1000" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct source_meta m = for_samba(cases[i].e, cases[i].mode);

		assert_int_equal(m.n, cases[i].n);
		if (m.n) { /* its hash is of the others: it is the last */
			assert_string_equal(m.xattrs[m.n - 1].name, "security.NTACL");
			text_of_sd(m.xattrs[m.n - 1].value, text);
			assert_string_equal(text, cases[i].sd);
		}
		source_meta_free(&m);
	}
}

static void more_than_samba_takes(void **state)
{
	struct nfs4_attrs a = { .have = NFS4_BIT(FATTR4_ACL), .aces = NFS4_ACES_MAX };
	static const uint8_t ace[24] = { [11] = R, [15] = 6, 'O', 'W', 'N', 'E', 'R', '@' };
	struct source_meta m = { .attr = object(S_IFREG | 0777) };
	uint8_t *all = calloc(NFS4_ACES_MAX, sizeof(ace));

	assert_non_null(all);
	for (uint32_t i = 0; i < NFS4_ACES_MAX; i++)
		memcpy(all + i * sizeof(ace), ace, sizeof(ace));
	all[9] = 4; /* to change the ACL: it is near */
	memcpy(all + 16, "GROUP@", 6);
	a.acl = (struct nfs4_bytes){ all, NFS4_ACES_MAX * sizeof(ace) };
	source.config.ntacl = true;
	assert_int_equal(nfs4_acl_meta(&source, &a, &m), 0);
	source.config.ntacl = false;
	assert_int_equal(m.n, 0);
	assert_non_null(strstr(m.lost, "security descriptor"));
	source_meta_free(&m);
	free(all);
}

/* ---- in an answer ---- */

static void put_attrs(struct nfs4_out *o, const struct ace *e, uint32_t minor)
{
	const uint64_t have = NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_SIZE) |
			      NFS4_BIT(FATTR4_FSID) | NFS4_BIT(FATTR4_ACL) |
			      NFS4_BIT(FATTR4_FILEID) |
			      NFS4_BIT(FATTR4_MODE) | NFS4_BIT(FATTR4_NUMLINKS) |
			      NFS4_BIT(FATTR4_OWNER) | NFS4_BIT(FATTR4_OWNER_GROUP) |
			      NFS4_BIT(FATTR4_TIME_MODIFY) |
			      (minor < 2 ? 0 : NFS4_BIT(FATTR4_TIME_CREATE));
	struct nfs4_out v = { .len = 0 };

	nfs4_put32(&v, NF3REG);
	nfs4_put64(&v, 5);
	nfs4_put64(&v, 1);
	nfs4_put64(&v, 0);
	put_acl(&v, e);
	nfs4_put64(&v, 7);
	nfs4_put32(&v, 0740);
	nfs4_put32(&v, 1);
	put_text(&v, "alice@example.org");
	put_text(&v, "staff@example.org");
	for (uint32_t times = minor < 2 ? 1 : 2; times; times--) {
		nfs4_put64(&v, 1);
		nfs4_put32(&v, 2);
	}
	if (minor >= 2)
		nfs4_put32(&v, 1); /* there may be extended attributes */
	nfs4_put_bitmap3(o, have, minor < 2 ? 0 : NFS4_THIRD(FATTR4_XATTR_SUPPORT));
	nfs4_put_opaque(o, v.bytes, v.len);
}

static void put_sequence(struct nfs4_out *o, const struct nfs41_session *session)
{
	nfs4_put32(o, NFS4_SEQUENCE);
	nfs4_put32(o, 0);
	nfs4_put_fixed(o, session->id, sizeof(session->id));
	nfs4_put32(o, session->slot[0].sequence);
	for (unsigned int i = 0; i < 4; i++) /* the slot; the highest, now and soon; flags */
		nfs4_put32(o, 0);
}

/* The owner's and the group's own names, and a mode that is still the server's. */
static void brings_both(const struct nfs_version *version)
{
	static const struct ace e[] = { { 0, 0, RWX, "OWNER@" }, { 1, 0, X, "alice@example.org" },
					{ 0, G, R, "staff@example.org" }, { 0, 0, R | X, "1002" },
					{ 0 } };
	static struct nfs41_session session;
	struct nfs_conn conn = { .s = &source, .session = &session };
	struct nfs_call c = { .op = NFS_OP_GETATTR, .conn = &conn, .slot = version->minor ? 1 : 0 };
	struct source_meta m = { 0 };
	struct nfs_answer a = { 0 };
	struct nfs4_out o = { 0 };
	struct nfs4_bytes b;
	char text[256];

	session = (struct nfs41_session){ .slots = 1, .slot[0] = { 5, true } };
	source.uri.version = version;
	source.config.born = version->minor >= 2;
	nfs4_put32(&o, 0);
	put_text(&o, "");
	nfs4_put32(&o, 2 + c.slot);
	if (c.slot)
		put_sequence(&o, &session);
	nfs4_put32(&o, NFS4_PUTFH);
	nfs4_put32(&o, 0);
	nfs4_put32(&o, NFS4_GETATTR);
	nfs4_put32(&o, 0);
	put_attrs(&o, e, version->minor);
	b = (struct nfs4_bytes){ o.bytes, o.len };
	nfs4_answer(&source, &c, &b, &a);
	assert_int_equal(a.error, 0);
	assert_int_equal(a.attr.mode, S_IFREG | 0740);
	assert_true(a.attr.more && a.attr.uid == 1001 && a.attr.gid == 2001);
	assert_int_equal(a.have_born, version->minor >= 2);
	assert_int_equal(a.xattrs, version->minor >= 2);
	assert_non_null(version->meta);
	assert_int_equal(version->meta(&source, &c, &a, &m), 0);
	assert_int_equal(m.n, 1);
	text_of(&m.xattrs[0], text);
	assert_string_equal(text, "u:7 u:1002:5 g:4 m:5 o:0");
	assert_int_equal(m.attr.mode, S_IFREG | 0750);
	assert_int_equal(m.attr.fileid, 7);
	source_meta_free(&m);
	source.uri.version = &nfs4_version;
	source.config.born = false;
}

static void an_answer_brings_both(void **state)
{
	(void)state;
	brings_both(&nfs4_version);
	brings_both(&nfs41_version);
	brings_both(&nfs42_version);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_bounded),
		cmocka_unit_test(as_many_as_there_may_be),
		cmocka_unit_test(modes_give_no_more_than_acls),
		cmocka_unit_test(what_cannot_be_kept_is_lost),
		cmocka_unit_test(acls_are_brought),
		cmocka_unit_test(what_a_volume_does_not_keep_is_narrowed),
		cmocka_unit_test(a_stranger_gets_nothing),
		cmocka_unit_test(a_stranger_who_is_denied_parks),
		cmocka_unit_test(samba_gets_the_whole_acl),
		cmocka_unit_test(more_than_samba_takes),
		cmocka_unit_test(an_answer_brings_both),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
