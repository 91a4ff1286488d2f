/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_nfs_acl.c - a result of GETACL, decoded by libnfs with our guards before it: nobody gets
 * more by what is made of it, and what is stored is an ACL that the kernel takes.
 *
 * u8: 1 the new file system keeps ACLs, 2 directory, 4 FIFO; u16 mode; the result.
 */
#include <errno.h>
#include <linux/posix_acl.h>

#include "bytes.h"
#include "fuzz.h"
#include "nfs/nfs.h"
#include "source/posix_acl.h"

#define FSID   5
#define FILEID 6

static unsigned int bits(const struct stub_attr *a, unsigned int shift)
{
	return a->mode >> shift & 7;
}

/* Nobody whom an entry names gets more as one of the group, or as one of the others. */
static void check_narrow(const struct GETACL3resok *ok, const struct stub_attr *a)
{
	for (unsigned int i = 0; i < ok->ace.ace_len; i++) {
		const struct nfsacl_ace *e = &ok->ace.ace_val[i];
		unsigned int type = (unsigned int)e->type;

		if (type == ACL_USER || type == ACL_GROUP_OBJ)
			CHECK(!(bits(a, 3) & ~e->perm));
		if (type == ACL_USER || type == ACL_GROUP || type == ACL_OTHER)
			CHECK(!(bits(a, 0) & ~e->perm));
	}
}

static void check_value(const struct stub_xattr *x, const struct stub_attr *a)
{
	const uint8_t *p = x->value;
	size_t n = (x->len - POSIX_ACL_HEAD) / POSIX_ACL_ENTRY;
	unsigned int seen = 0, need = ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER;
	bool access = !strcmp(x->name, POSIX_ACL_ACCESS);
	uint64_t last = 0;

	CHECK(access || (!strcmp(x->name, POSIX_ACL_DEFAULT) && S_ISDIR(a->mode)));
	CHECK(x->len == POSIX_ACL_HEAD + n * POSIX_ACL_ENTRY && stub_get_le(p, 4) == 2);
	CHECK(n >= (access ? 4 : 3) && n <= 2048);
	p += POSIX_ACL_HEAD;
	for (size_t i = 0; i < n; i++, p += POSIX_ACL_ENTRY) {
		unsigned int tag = (unsigned int)stub_get_le(p, 2);
		unsigned int perm = (unsigned int)stub_get_le(p + 2, 2);
		uint64_t id = stub_get_le(p + 4, 4), key = (uint64_t)tag << 32 | id;

		CHECK(tag && !(tag & (tag - 1)) && tag <= ACL_OTHER && perm <= 7);
		CHECK((id == UINT32_MAX) == !(tag & (ACL_USER | ACL_GROUP)));
		CHECK(key > last);
		last = key;
		seen |= tag;
		if (access && tag & (ACL_USER_OBJ | ACL_MASK | ACL_OTHER))
			CHECK(perm == bits(a, tag == ACL_USER_OBJ ? 6 : tag == ACL_MASK ? 3 : 0));
	}
	need |= seen & (ACL_USER | ACL_GROUP) ? ACL_MASK : 0;
	CHECK((seen & need) == need);
}

static void met(int err, const struct GETACL3res *res, bool kept, struct stub_attr a)
{
	const uint32_t mode = a.mode;

	nfs_acl_met(err, res, kept, &a);
	CHECK(!(a.mode & ~mode) && (a.mode & ~077u) == (mode & ~077u));
	CHECK(!(a.acl && a.more));
	CHECK(!a.more || (kept && !S_ISFIFO(mode)));
	if (!err)
		check_narrow(&res->GETACL3res_u.resok, &a);
}

static void meta(int err, const struct GETACL3res *res, bool kept, const struct stub_attr *a)
{
	struct source_meta m = { .attr = *a };
	int r = nfs_acl_meta(err, res, kept, &m);

	CHECK(r == 0 || r == -ENOMEDIUM || (r == -ESTALE && err == r));
	CHECK(r == 0 || !m.n);
	CHECK((m.attr.mode & S_IFMT) == (a->mode & S_IFMT));
	CHECK(!m.n || (kept && !m.attr.acl && !S_ISFIFO(a->mode)));
	for (size_t i = 0; i < m.n; i++)
		check_value(&m.xattrs[i], &m.attr);
	if (r == 0 && !err && (!m.n || strcmp(m.xattrs[0].name, POSIX_ACL_ACCESS)))
		check_narrow(&res->GETACL3res_u.resok, &m.attr);
	source_meta_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned int how = (unsigned int)fuzz_take(&in, 1);
	struct stub_attr a = { .fsid = FSID, .fileid = FILEID };
	struct GETACL3res res;
	bool decoded;
	char *bytes;
	int err;
	ZDR z;

	a.mode = (how & 2 ? S_IFDIR : how & 4 ? S_IFIFO : S_IFREG) | (fuzz_take(&in, 2) & 07777);
	bytes = malloc(in.left + !in.left);
	CHECK(bytes);
	memcpy(bytes, in.p, in.left);
	memset(&res, 0, sizeof(res));
	libnfs_zdrmem_create(&z, bytes, (uint32_t)in.left, ZDR_DECODE);
	decoded = zdr_GETACL3res(&z, &res);
	err = decoded ? nfs_errno(res.status) : -EBADMSG;
	if (err != -EAGAIN) { /* JUKEBOX does not come so far */
		met(err, decoded ? &res : NULL, how & 1, a);
		meta(err, decoded ? &res : NULL, how & 1, &a);
	}
	libnfs_zdr_destroy(&z);
	free(bytes);
	return 0;
}
