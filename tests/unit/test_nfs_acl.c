// SPDX-License-Identifier: GPL-3.0-or-later
/* ACLs as NFSACL tells them: what is stored of them, and the mode beside them. */
#include <errno.h>
#include <linux/posix_acl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "nfs/nfs.h"
#include "source/posix_acl.h"

#define DEFAULT 0x1000
#define NONE	UINT32_MAX

struct ace {
	unsigned int type, id, perm;
};

struct answer {
	struct GETACL3res res;
	struct nfsacl_ace access[8], def[8];
};

static unsigned int put(const struct ace *from, struct nfsacl_ace *to)
{
	unsigned int n = 0;

	for (; from && from[n].type; n++)
		to[n] = (struct nfsacl_ace){ (enum nfsacl_type)from[n].type, from[n].id,
					     from[n].perm };
	return n;
}

/* Lists end with type 0; NULL: none. */
static const struct answer *answer(const struct ace *access, const struct ace *def)
{
	static struct answer a;
	struct GETACL3resok *ok = &a.res.GETACL3res_u.resok;

	memset(&a, 0, sizeof(a));
	ok->ace.ace_val = a.access;
	ok->ace.ace_len = ok->ace_count = put(access, a.access);
	ok->default_ace.default_ace_val = a.def;
	ok->default_ace.default_ace_len = ok->default_ace_count = put(def, a.def);
	return &a;
}

static struct stub_attr attr(uint32_t mode)
{
	return (struct stub_attr){ .mode = mode, .fsid = 5, .fileid = 6 };
}

static const struct ace plain[] = { { 1, 0, 6 }, { 4, 0, 4 }, { 0x10, 0, 4 }, { 0x20, 0, 0 }, { 0 } };
/* out of order, as it may come; a mask with more bits, as Solaris has it */
static const struct ace named[] = { { 0x20, 7, 4 }, { 8, 3000, 5 }, { 8, 2000, 1 }, { 2, 1000, 7 },
				    { 0x10, 9, 0x1ff }, { 1, 7, 6 }, { 4, 7, 4 }, { 0 } };
static const struct ace inherited[] = { { DEFAULT | 1, 0, 7 }, { DEFAULT | 2, 9, 5 },
					{ DEFAULT | 4, 0, 0 }, { DEFAULT | 0x10, 0, 5 },
					{ DEFAULT | 0x20, 0, 0 }, { 0 } };

static void value_is(const struct stub_xattr *x, const char *name, const struct ace *want)
{
	const uint8_t *p = x->value;
	size_t n = 0;

	assert_string_equal(x->name, name);
	assert_int_equal(stub_get_le(p, 4), 2);
	for (; want[n].type; n++) {
		const uint8_t *e = p + POSIX_ACL_HEAD + n * POSIX_ACL_ENTRY;

		assert_int_equal(stub_get_le(e, 2), want[n].type);
		assert_int_equal(stub_get_le(e + 2, 2), want[n].perm);
		assert_int_equal(stub_get_le(e + 4, 4), want[n].id);
	}
	assert_int_equal(x->len, POSIX_ACL_HEAD + n * POSIX_ACL_ENTRY);
}

static struct source_meta meta(const struct answer *a, uint32_t mode, bool kept)
{
	struct source_meta m = { .attr = attr(mode) };

	assert_int_equal(nfs_acl_meta(0, a, kept, &m), 0);
	return m;
}

static void no_more_than_a_mode(void **state)
{
	struct stub_attr a = attr(S_IFREG | 0640);
	struct source_meta m = meta(answer(plain, NULL), S_IFREG | 0640, true);

	(void)state;
	nfs_acl_met(0, answer(plain, NULL), true, &a);
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_false(a.more || a.acl);
	assert_int_equal(m.n, 0);
	assert_int_equal(m.attr.mode, S_IFREG | 0640);
	source_meta_free(&m);
	a = attr(S_IFREG | 0666); /* the ACL gives less than that */
	nfs_acl_met(0, answer(plain, NULL), true, &a);
	assert_int_equal(a.mode, S_IFREG | 0640);
}

static void is_stored(void **state)
{
	static const struct ace sorted[] = { { 1, NONE, 6 },  { 2, 1000, 7 },	 { 4, NONE, 4 },
					     { 8, 2000, 1 },  { 8, 3000, 5 },	 { 0x10, NONE, 7 },
					     { 0x20, NONE, 4 }, { 0 } },
				def[] = { { 1, NONE, 7 }, { 2, 9, 5 }, { 4, NONE, 0 },
					  { 0x10, NONE, 5 }, { 0x20, NONE, 0 }, { 0 } };
	struct source_meta m = meta(answer(named, inherited), S_IFDIR | 02674, true);

	(void)state;
	assert_int_equal(m.n, 2);
	value_is(&m.xattrs[0], POSIX_ACL_ACCESS, sorted);
	value_is(&m.xattrs[1], POSIX_ACL_DEFAULT, def);
	assert_int_equal(m.attr.mode, S_IFDIR | 02674);
	assert_false(m.attr.acl);
	source_meta_free(&m);
	m = meta(answer(plain, inherited), S_IFDIR | 0640, true);
	assert_int_equal(m.n, 1);
	value_is(&m.xattrs[0], POSIX_ACL_DEFAULT, def);
	source_meta_free(&m);
}

/* The kernel keeps a default ACL of directories only, and nobody asked for it. */
static void no_default_of_a_file(void **state)
{
	struct source_meta m = meta(answer(plain, inherited), S_IFREG | 0640, true);
	struct stub_attr a = attr(S_IFREG | 0640);

	(void)state;
	assert_int_equal(m.n, 0);
	source_meta_free(&m);
	nfs_acl_met(0, answer(plain, inherited), true, &a);
	assert_false(a.more || a.acl);
}

/* Until the ACL is here, and where it never will be. */
static void is_narrowed(void **state)
{
	struct stub_attr a = attr(S_IFREG | 0674);
	struct source_meta m;

	(void)state;
	nfs_acl_met(0, answer(named, NULL), true, &a);
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_true(a.more && !a.acl);
	a = attr(S_IFREG | 0674);
	nfs_acl_met(0, answer(named, NULL), false, &a);
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_true(a.acl && !a.more);
	a = attr(S_IFIFO | 0674); /* has no attributes here */
	nfs_acl_met(0, answer(named, NULL), true, &a);
	assert_true(a.acl && !a.more);
	m = meta(answer(named, NULL), S_IFREG | 0674, false);
	assert_int_equal(m.attr.mode, S_IFREG | 0640);
	assert_true(m.attr.acl && !m.n);
	source_meta_free(&m);
}

/* The one was changed before the other was asked for: nobody gets more than either gives. */
static void the_lesser_of_both(void **state)
{
	struct source_meta m = meta(answer(named, NULL), S_IFREG | 0750, true);

	(void)state;
	assert_int_equal(m.attr.mode, S_IFREG | 0650);
	assert_int_equal(m.n, 1);
	assert_int_equal(stub_get_le((const uint8_t *)m.xattrs[0].value + 4 + 8 * 5 + 2, 2), 5);
	assert_int_equal(stub_get_le((const uint8_t *)m.xattrs[0].value + 4 + 8 * 6 + 2, 2), 0);
	source_meta_free(&m);
}

static void hostile(void **state)
{
	static const struct ace no_group[] = { { 1, 0, 6 }, { 0x20, 0, 6 }, { 0 } },
				no_mask[] = { { 1, 0, 6 }, { 2, 9, 6 }, { 4, 0, 6 }, { 0x20, 0, 6 }, { 0 } },
				perm[] = { { 1, 0, 6 }, { 4, 0, 8 }, { 0x20, 0, 6 }, { 0 } },
				tag[] = { { 1, 0, 6 }, { 4, 0, 6 }, { 0x20, 0, 6 }, { 3, 0, 6 }, { 0 } },
				wrong[] = { { DEFAULT | 1, 0, 6 }, { DEFAULT | 4, 0, 6 },
					    { DEFAULT | 0x20, 0, 6 }, { 0 } },
				twice[] = { { 1, 0, 6 }, { 2, 9, 0 }, { 2, 9, 7 }, { 4, 0, 6 },
					    { 0x10, 0, 7 }, { 0x20, 0, 6 }, { 0 } },
				groups[] = { { 1, 0, 6 }, { 4, 0, 0 }, { 4, 1, 7 }, { 0x20, 0, 6 }, { 0 } },
				nobody[] = { { 1, 0, 6 }, { 2, NONE, 7 }, { 4, 0, 6 },
					     { 0x10, 0, 7 }, { 0x20, 0, 6 }, { 0 } };
	const struct ace *const bad[] = { no_group, no_mask, perm, tag, wrong, twice, groups, nobody };

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(bad[0]); i++) {
		const struct ace *access = i & 1 ? plain : bad[i / 2];
		const struct answer *a = answer(access, i & 1 && bad[i / 2] != wrong ? bad[i / 2] :
									    i & 1 ? no_mask : NULL);
		struct stub_attr met = attr(S_IFDIR | 02777);
		struct source_meta m = meta(a, S_IFDIR | 02777, true);

		nfs_acl_met(0, a, true, &met);
		assert_int_equal(met.mode, S_IFDIR | 02700);
		assert_true(met.acl && !met.more);
		assert_int_equal(m.attr.mode, S_IFDIR | 02700);
		assert_true(m.attr.acl && !m.n);
		source_meta_free(&m);
	}
}

/* It says how many there are besides: an entry that keeps somebody out may be missing. */
static void not_all_of_it(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct answer a = *answer(named, inherited);
		struct stub_attr met = attr(S_IFDIR | 0777);

		a.res.GETACL3res_u.resok.ace_count += !i;
		a.res.GETACL3res_u.resok.default_ace_count += i;
		nfs_acl_met(0, &a, true, &met);
		assert_int_equal(met.mode, S_IFDIR | 0700);
		assert_true(met.acl && !met.more);
	}
}

static void what_fails(void **state)
{
	static const int ends[] = { -ECANCELED, -ETIMEDOUT, -EINPROGRESS, -ESTALE };
	struct GETACL3res none = { .status = NFS3ERR_NOTSUPP }, io = { .status = NFS3ERR_IO };
	struct source_meta m = { .attr = attr(S_IFREG | 0664) };
	struct answer other = *answer(named, NULL);
	struct fattr3 *now = &other.res.GETACL3res_u.resok.attr.post_op_attr_u.attributes;

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		assert_int_equal(nfs_acl_meta(ends[i], NULL, true, &m), ends[i]);
	assert_int_equal(nfs_acl_meta(-EIO, &none, true, &m), 0);
	assert_int_equal(m.attr.mode, S_IFREG | 0664);
	assert_false(m.attr.acl);
	other.res.GETACL3res_u.resok.attr.attributes_follow = 1;
	*now = (struct fattr3){ .type = NF3REG, .mode = 0777, .fsid = 5, .fileid = 7 };
	assert_int_equal(nfs_acl_meta(0, &other, true, &m), -ENOMEDIUM); /* another object's */
	assert_int_equal(m.n, 0);
	assert_int_equal(nfs_acl_meta(-EIO, &io, true, &m), 0);
	assert_int_equal(m.attr.mode, S_IFREG | 0600);
	assert_true(m.attr.acl);
	/* the attributes that come with the ACL are newer */
	m.attr = attr(S_IFREG | 0600);
	now->fileid = 6;
	now->mode = 0670;
	assert_int_equal(nfs_acl_meta(0, &other, true, &m), 0);
	assert_int_equal(m.attr.mode, S_IFREG | 0670);
	assert_int_equal(m.n, 1);
	source_meta_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_than_a_mode), cmocka_unit_test(is_stored),
		cmocka_unit_test(is_narrowed),	       cmocka_unit_test(the_lesser_of_both),
		cmocka_unit_test(hostile),	       cmocka_unit_test(what_fails),
		cmocka_unit_test(no_default_of_a_file), cmocka_unit_test(not_all_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
