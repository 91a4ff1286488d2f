/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_smb_acl.c - retriever/windows/smb_acl.c, retriever/windows/smb_right.c
 *
 * Cases with their ACL written out, and random descriptors whose POSIX ACL is judged,
 * as the kernel does, against the descriptor, as a server does ([MS-DTYP] 2.5.3.2), for
 * users in all combinations of groups.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "windows/smb_acl.h"

#define DOM	 "S-1-5-21-10-20-30-"
#define ALICE	 DOM "1001" /* uid 1001 */
#define BOB	 DOM "1002"
#define STAFF	 DOM "2001" /* gid 2001 */
#define HEADS	 DOM "2002"
#define BOTH	 DOM "3000" /* uid and gid 3000 */
#define GHOST	 DOM "9999" /* not in the table */
#define EVERYONE "S-1-1-0"

#define FULL   0x001f01ffu
#define MODIFY 0x001301bfu
#define READ_X 0x001200a9u
#define READ   0x00120089u
#define WRITE  0x00000116u
#define EXEC   0x00000020u
#define DELETE 0x00010000u
#define CHILD  0x00000040u
#define DAC    0x00040000u

#define OI 1
#define CI 2
#define NP 4
#define IO 8

static struct smb_idmap *map;

static struct smb_sid sid(const char *text)
{
	struct smb_sid s;

	assert_int_equal(smb_sid_parse(text, strlen(text), &s), 0);
	return s;
}

static struct smb_ace ace(uint8_t type, uint8_t flags, uint32_t mask, const char *who)
{
	return (struct smb_ace){ type, flags, mask, sid(who) };
}

#define ALLOW(flags, mask, who) ace(SMB_ACE_ALLOW, flags, mask, who)
#define DENY(flags, mask, who)	ace(SMB_ACE_DENY, flags, mask, who)
#define ACES(...)		((const struct smb_ace[]){ __VA_ARGS__ })
#define SD(owner_, group_, ...)                      \
	((struct smb_sd){ .has_owner = true,         \
			  .has_group = true,         \
			  .dacl_present = true,      \
			  .owner = sid(owner_),      \
			  .group = sid(group_),      \
			  .aces = ACES(__VA_ARGS__), \
			  .n = sizeof(ACES(__VA_ARGS__)) / sizeof(struct smb_ace) })

static void text_of(const struct smb_posix_acl *acl, char *out)
{
	*out = '\0';
	for (size_t i = 0; i < acl->n; i++) {
		const struct smb_posix_entry *e = &acl->e[i];
		const char *tag = e->tag == SMB_USER_OBJ || e->tag == SMB_USER	 ? "u" :
				  e->tag == SMB_GROUP_OBJ || e->tag == SMB_GROUP ? "g" :
				  e->tag == SMB_MASK				 ? "m" :
										   "o";

		out += sprintf(out, "%s%s:", i ? " " : "", tag);
		if (e->tag == SMB_USER || e->tag == SMB_GROUP)
			out += sprintf(out, "%" PRIu32, e->id);
		else
			assert_int_equal(e->id, UINT32_MAX);
		out += sprintf(out, ":%c%c%c", e->perm & 4 ? 'r' : '-', e->perm & 2 ? 'w' : '-',
			       e->perm & 1 ? 'x' : '-');
	}
}

struct expect {
	unsigned int mode;
	const char *access, *def;
};

static struct smb_posix mapped(const struct smb_sd *sd, unsigned int flags, struct expect expect)
{
	char text[4096];
	struct smb_posix p;

	assert_int_equal(smb_acl_map(map, sd, flags, 500, &p), 0);
	text_of(&p.access, text);
	assert_string_equal(text, expect.access);
	text_of(&p.def, text);
	assert_string_equal(text, expect.def ? expect.def : "");
	assert_int_equal(p.mode, expect.mode);
	assert_false(p.cut);
	smb_posix_finish(&p);
	return p;
}

static struct smb_posix file(struct smb_sd sd, unsigned int mode, const char *access)
{
	return mapped(&sd, 0, (struct expect){ mode, access, NULL });
}

static struct smb_posix dir(struct smb_sd sd, unsigned int mode, const char *access,
			    const char *def)
{
	return mapped(&sd, SMB_ACL_DIR, (struct expect){ mode, access, def });
}

/* ---- a file's entries ---------------------------------------------------------- */

static void plain(void **state)
{
	struct smb_posix p = file(SD(ALICE, STAFF, ALLOW(0, FULL, ALICE), ALLOW(0, READ_X, STAFF),
				     ALLOW(0, READ, EVERYONE)),
				  0754, "u::rwx g::r-x o::r--");

	assert_int_equal(p.uid, 1001);
	assert_int_equal(p.gid, 2001);
	assert_false(p.owner_unknown || p.group_unknown || p.owner_rights);
}

static void named(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, FULL, ALICE), ALLOW(0, READ, HEADS), ALLOW(0, MODIFY, BOB),
		ALLOW(0, READ, BOTH)),
	     0770, "u::rwx u:1002:rwx u:3000:r-- g::--- g:2002:r-- g:3000:r-- m::rwx o::---");
}

/* What Administrators and the system may do needs no entry: root may anyway. */
static void windows_default(void **state)
{
	file(SD(ALICE, DOM "513", ALLOW(16, FULL, "S-1-5-18"), ALLOW(16, FULL, "S-1-5-32-544"),
		ALLOW(16, FULL, ALICE)),
	     0770, "u::rwx g::rwx o::---"); /* group 0: the default, and Administrators */
	file(SD(ALICE, STAFF, ALLOW(16, FULL, "S-1-5-18"), ALLOW(16, FULL, "S-1-5-32-544"),
		ALLOW(16, FULL, ALICE)),
	     0700, "u::rwx g::--- o::---");
}

static void order_decides(void **state)
{
	file(SD(ALICE, STAFF, DENY(0, WRITE, BOB), ALLOW(0, MODIFY, EVERYONE)), 0777,
	     "u::rwx u:1002:r-x g::rwx m::rwx o::rwx");
	file(SD(ALICE, STAFF, ALLOW(0, MODIFY, EVERYONE), DENY(0, WRITE, BOB)), 0777,
	     "u::rwx u:1002:rwx g::rwx m::rwx o::rwx");
}

/* Bob may be in the group that is denied; so may be members of other groups. */
static void denied_group(void **state)
{
	file(SD(ALICE, STAFF, DENY(0, READ, HEADS), ALLOW(0, READ, STAFF), ALLOW(0, READ, BOB),
		ALLOW(0, READ, EVERYONE)),
	     0004, "u::--- g::--- g:2002:--- m::--- o::r--");
}

static void unknown_sids(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, FULL, GHOST), ALLOW(0, READ, STAFF)), 0440,
	     "u::r-- g::r-- o::---"); /* nothing for the ghost; alice may be in the group */
	file(SD(ALICE, STAFF, DENY(0, WRITE, GHOST), ALLOW(0, FULL, EVERYONE)), 0555,
	     "u::r-x g::r-x o::r-x");
	file(SD(ALICE, STAFF, ALLOW(0, FULL, EVERYONE), DENY(0, WRITE, GHOST)), 0777,
	     "u::rwx g::rwx o::rwx");
}

static void unknown_owner(void **state)
{
	struct smb_posix p = file(SD(GHOST, GHOST, ALLOW(0, FULL, GHOST), ALLOW(0, READ, STAFF),
				     ALLOW(0, READ_X, EVERYONE)),
				  0555, "u::r-x g::r-x o::r-x");

	assert_true(p.owner_unknown && p.group_unknown);
	assert_int_equal(p.uid, 0);
	assert_int_equal(p.gid, 0);
	p = file((struct smb_sd){ .dacl_present = true }, 0, "u::--- g::--- o::---");
	assert_true(p.owner_unknown && p.group_unknown);
}

/* NFS knows the object's numbers; the table, what they may do. */
static void numbers_from_elsewhere(void **state)
{
	struct smb_sd sd = SD(ALICE, STAFF, ALLOW(0, FULL, ALICE), ALLOW(0, READ, STAFF));
	struct smb_posix p;

	(void)state;
	p = file(sd, 0740, "u::rwx g::r-- o::---");
	sd.has_numbers = true;
	sd.uid = p.uid;
	sd.gid = p.gid;
	p = file(sd, 0740, "u::rwx g::r-- o::---");
	assert_false(p.owner_unknown || p.group_unknown);

	/* nobody's of the table: alice keeps what is hers, the owner gets nothing of it */
	sd.uid = 4711;
	sd.gid = 4712;
	assert_int_equal(smb_acl_map(map, &sd, 0, 500, &p), 0);
	assert_int_equal(p.uid, 4711);
	assert_int_equal(p.gid, 4712);
	assert_true(p.owner_unknown && p.group_unknown);
	assert_int_equal(p.mode & 0707, 0);
	assert_int_equal(p.access.n, 6);
	assert_int_equal(p.access.e[1].tag, SMB_USER);
	assert_int_equal(p.access.e[1].perm, 7);
	assert_int_equal(p.access.e[3].tag, SMB_GROUP);
	assert_int_equal(p.access.e[3].perm, 4);
	smb_posix_finish(&p);

	/* an owner of no table: what is granted to the descriptor's is his, and denied to all */
	sd = SD(GHOST, GHOST, ALLOW(0, MODIFY, GHOST), ALLOW(0, READ, EVERYONE));
	file(sd, 0444, "u::r-- g::r-- o::r--");
	sd.has_numbers = true;
	sd.uid = sd.gid = 65534;
	p = file(sd, 0744, "u::rwx g::r-- o::r--");
	assert_int_equal(p.uid, 65534);
	assert_true(p.owner_unknown && p.group_unknown);
	sd = SD(GHOST, STAFF, DENY(0, WRITE, GHOST), ALLOW(0, FULL, GHOST), ALLOW(0, FULL, EVERYONE));
	sd.has_numbers = true;
	sd.uid = 65534;
	sd.gid = 2001;
	file(sd, 0555, "u::r-x g::r-x o::r-x");

	/* OWNER RIGHTS: not the owner's to change, whoever he is */
	sd = SD(ALICE, STAFF, ALLOW(0, READ, "S-1-3-4"));
	sd.has_numbers = true;
	sd.uid = 4711;
	assert_int_equal(smb_acl_map(map, &sd, 0, 500, &p), 0);
	assert_int_equal(p.uid, 0);
	assert_true(p.owner_rights);
	smb_posix_finish(&p);
}

static void authenticated_users(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, READ, "S-1-5-11")), 0440, "u::r-- g::r-- o::---");
	file(SD(ALICE, GHOST, ALLOW(0, READ, "S-1-5-11")), 0400, "u::r-- g::--- o::---");
	file(SD(ALICE, STAFF, DENY(0, READ, "S-1-5-11"), ALLOW(0, READ, EVERYONE)), 0,
	     "u::--- g::--- o::---");
	file(SD(ALICE, STAFF, DENY(0, READ, "S-1-5-7"), ALLOW(0, READ, EVERYONE)), 0440,
	     "u::r-- g::r-- o::---");
	file(SD(ALICE, STAFF, ALLOW(0, READ, "S-1-5-2")), 0444, "u::r-- g::r-- o::r--");
	file(SD(ALICE, STAFF, DENY(0, READ, "S-1-5-4"), ALLOW(0, READ, EVERYONE)), 0444,
	     "u::r-- g::r-- o::r--"); /* at the console only */
}

/* "everyone" of the table: S-1-5-32-545 */
static void everyone_line(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, READ, "S-1-5-32-545")), 0444, "u::r-- g::r-- o::r--");
	file(SD(ALICE, STAFF, ALLOW(0, READ, "S-1-5-32-546")), 0, "u::--- g::--- o::---");
}

static void all_of_a_right(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, 0x1, EVERYONE)), 0, "u::--- g::--- o::---");
	file(SD(ALICE, STAFF, ALLOW(0, 0x1, EVERYONE), ALLOW(0, 0x8, EVERYONE)), 0444,
	     "u::r-- g::r-- o::r--");
	file(SD(ALICE, STAFF, ALLOW(0, 0x2 | 0x4 | 0x10, EVERYONE)), 0, "u::--- g::--- o::---");
	file(SD(ALICE, STAFF, ALLOW(0, WRITE, EVERYONE), DENY(0, 0x4, EVERYONE)), 0222,
	     "u::-w- g::-w- o::-w-");
	file(SD(ALICE, STAFF, DENY(0, 0x4, EVERYONE), ALLOW(0, FULL, EVERYONE)), 0555,
	     "u::r-x g::r-x o::r-x");
}

static void generic_rights(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(0, 0x80000000u, EVERYONE)), 0444, "u::r-- g::r-- o::r--");
	file(SD(ALICE, STAFF, ALLOW(0, 0x40000000u, EVERYONE)), 0222, "u::-w- g::-w- o::-w-");
	file(SD(ALICE, STAFF, ALLOW(0, 0x20000000u, EVERYONE)), 0111, "u::--x g::--x o::--x");
	file(SD(ALICE, STAFF, DENY(0, 0x40000000u, BOB), ALLOW(0, 0x10000000u, EVERYONE)), 0777,
	     "u::rwx u:1002:r-x g::rwx m::rwx o::rwx");
}

static void not_in_force(void **state)
{
	file(SD(ALICE, STAFF, ALLOW(IO | OI | CI, FULL, EVERYONE), ALLOW(0, READ, STAFF)), 0440,
	     "u::r-- g::r-- o::---");
	file(SD(ALICE, STAFF, ALLOW(0, FULL, "S-1-3-0"), ALLOW(0, FULL, "S-1-3-1")), 0,
	     "u::--- g::--- o::---");
}

static void odd_aces(void **state)
{
	file(SD(ALICE, STAFF, ace(9, 0, FULL, EVERYONE), ace(5, 0, FULL, EVERYONE),
		ace(11, 0, FULL, EVERYONE), ace(2, 0, FULL, EVERYONE), ace(200, 0, FULL, EVERYONE)),
	     0, "u::--- g::--- o::---");
	file(SD(ALICE, STAFF, ace(10, 0, READ, EVERYONE), ALLOW(0, FULL, EVERYONE)), 0333,
	     "u::-wx g::-wx o::-wx");
	file(SD(ALICE, STAFF, ace(6, 0, READ, BOB), ALLOW(0, FULL, EVERYONE)), 0777,
	     "u::rwx u:1002:-wx g::rwx m::rwx o::rwx");
	file(SD(ALICE, STAFF, ace(12, 0, READ, BOB), ALLOW(0, FULL, EVERYONE)), 0333,
	     "u::-wx g::-wx o::-wx"); /* whose SID is not where others have it */
}

static void owner_rights(void **state)
{
	struct smb_posix p;

	p = file(SD(ALICE, STAFF, ALLOW(0, READ, "S-1-3-4"), ALLOW(0, READ_X, STAFF)), 0050,
		 "u::--- u:1001:r-- g::r-x m::r-x o::---");
	assert_true(p.owner_rights);
	assert_int_equal(p.uid, 0);
	p = file(SD(ALICE, STAFF, ALLOW(0, FULL, "S-1-3-4")), 0700, "u::rwx g::--- o::---");
	assert_false(p.owner_rights);
	assert_int_equal(p.uid, 1001);
	/* all members of a group own the file */
	file(SD(STAFF, HEADS, DENY(0, READ, "S-1-3-4"), ALLOW(0, READ_X, EVERYONE)), 0115,
	     "u::--x g::--x g:2001:--x m::--x o::r-x");
	/* who the owner is, nobody knows */
	file(SD(GHOST, HEADS, DENY(0, READ, "S-1-3-4"), ALLOW(0, READ_X, EVERYONE)), 0111,
	     "u::--x g::--x o::--x");
}

static void no_dacl(void **state)
{
	struct smb_sd sd = SD(ALICE, STAFF, ALLOW(0, 0, BOB));

	sd.n = 0;
	file(sd, 0, "u::--- g::--- o::---"); /* empty: nobody */
	sd.dacl_null = true;
	file(sd, 0777, "u::rwx g::rwx o::rwx");
	dir(sd, 0777, "u::rwx g::rwx o::rwx", NULL);
	sd.dacl_present = false; /* nothing was said */
	file(sd, 0600, "u::rw- g::--- o::---");
	dir(sd, 0700, "u::rwx g::--- o::---", NULL);
}

/* ---- directories ---------------------------------------------------------------- */

static void delete_child(void **state)
{
	dir(SD(ALICE, STAFF, ALLOW(0, FULL, ALICE), ALLOW(0, FULL, STAFF)), 0770,
	    "u::rwx g::rwx o::---", NULL);
	dir(SD(ALICE, STAFF, ALLOW(0, FULL, ALICE), ALLOW(0, MODIFY, STAFF)), 01770,
	    "u::rwx g::rwx o::---", NULL);
	dir(SD(ALICE, STAFF, ALLOW(0, MODIFY, ALICE), ALLOW(0, READ_X, STAFF)), 0750,
	    "u::rwx g::r-x o::---", NULL); /* the owner alone */
	/* deletes what inherits */
	dir(SD(ALICE, STAFF, ALLOW(OI | CI, MODIFY, STAFF)), 0770, "u::rwx g::rwx o::---",
	    "u::rwx g::--- g:2001:rwx m::rwx o::---");
	dir(SD(ALICE, STAFF, DENY(OI | IO, DELETE, BOB), ALLOW(OI | CI, MODIFY, STAFF)), 01770,
	    "u::rwx g::rwx o::---", "u::rwx u:1002:--- g::--- g:2001:rwx m::rwx o::---");
}

static void delete_strict(void **state)
{
	struct smb_sd sd = SD(ALICE, STAFF, ALLOW(OI | CI, MODIFY, STAFF));

	mapped(&sd, SMB_ACL_DIR | SMB_ACL_STRICT_DELETE,
	       (struct expect){ 01770, "u::rwx g::rwx o::---",
				"u::rwx g::--- g:2001:r-x m::r-x o::---" });
}

static void traverse(void **state)
{
	struct smb_sd sd = SD(ALICE, STAFF, DENY(0, FULL, BOB), ALLOW(OI | CI, READ, STAFF));
	struct smb_sd none = { .has_owner = true, .owner = sid(ALICE) };
	struct expect expect = { 0551, "u::r-x u:1002:--x g::r-x m::r-x o::--x",
				 "u::rwx g::--- g:2001:r-- m::r-- o::---" };

	mapped(&sd, SMB_ACL_DIR | SMB_ACL_TRAVERSE, expect);
	mapped(&none, SMB_ACL_DIR | SMB_ACL_TRAVERSE,
	       (struct expect){ 0711, "u::rwx g::--x o::--x", NULL });
	mapped(&none, SMB_ACL_TRAVERSE, (struct expect){ 0600, "u::rw- g::--- o::---", NULL });
}

static void default_acl(void **state)
{
	dir(SD(ALICE, STAFF, ALLOW(OI | CI | IO, FULL, "S-1-3-0"),
	       ALLOW(OI | CI | IO, READ_X, "S-1-3-1"), ALLOW(OI | CI, READ_X, HEADS),
	       ALLOW(0, READ_X, EVERYONE)),
	    0555, "u::r-x g::r-x o::r-x", "u::rwx g::r-x g:2002:r-x m::r-x o::---");
	dir(SD(ALICE, STAFF, ALLOW(OI, READ, EVERYONE), ALLOW(CI, EXEC, EVERYONE)), 0555,
	    "u::r-x g::r-x o::r-x", "u::rwx g::--- o::---"); /* not both */
	dir(SD(ALICE, STAFF, ALLOW(OI | CI | NP, READ, EVERYONE)), 0444, "u::r-- g::r-- o::r--",
	    NULL);
	dir(SD(ALICE, STAFF, DENY(OI | CI | NP, READ, BOB), ALLOW(OI | CI, READ, EVERYONE)), 0444,
	    "u::r-- u:1002:--- g::r-- m::r-- o::r--", "u::rwx u:1002:--- g::r-- m::r-- o::r--");
}

/* ---- limits ---------------------------------------------------------------------- */

static void too_many(void **state)
{
	struct smb_ace *a = calloc(SMB_ACES_MAX + 1, sizeof(*a));
	struct smb_sd sd = { .has_owner = true,
			     .has_group = true,
			     .dacl_present = true,
			     .owner = sid(ALICE),
			     .group = sid(STAFF),
			     .aces = a };
	struct smb_posix p;
	char text[64];

	for (uint32_t i = 0; i <= SMB_ACES_MAX; i++) {
		snprintf(text, sizeof(text), "S-1-22-1-%" PRIu32, 70000 + i);
		a[i] = i < 2 ? DENY(0, READ, text) : ALLOW(0, FULL, text);
	}
	sd.n = SMB_ACES_MAX + 1;
	assert_int_equal(smb_acl_map(map, &sd, SMB_ACL_DIR, 500, &p), -E2BIG);
	sd.n--;
	assert_int_equal(smb_acl_map(map, &sd, SMB_ACL_DIR, SIZE_MAX, &p), 0);
	assert_int_equal(p.access.n, SMB_ACES_MAX + 4);
	assert_false(p.cut);
	smb_posix_finish(&p);
	assert_int_equal(smb_acl_map(map, &sd, SMB_ACL_DIR, 25, &p), 0);
	assert_int_equal(p.access.n, 25);
	assert_true(p.cut);
	assert_int_equal(p.access.e[1].id, 70000); /* who is denied stays */
	assert_int_equal(p.access.e[2].id, 70001);
	smb_posix_finish(&p);
	a[2] = ALLOW(0, FULL, EVERYONE);
	sd.n = 3;
	assert_int_equal(smb_acl_map(map, &sd, SMB_ACL_DIR, 5, &p), 0); /* one has no room */
	assert_true(p.cut);
	assert_int_equal(p.mode, 0700);
	assert_int_equal(p.access.n, 3);
	smb_posix_finish(&p);
	free(a);
}

static void encoded(void **state)
{
	static const unsigned char expect[] = {
		2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 0xea, 3, 0, 0,
	};
	struct smb_posix_entry e[] = { { SMB_USER_OBJ, 7, UINT32_MAX }, { SMB_USER, 5, 1002 } };
	struct smb_posix_acl acl = { e, 2 };
	size_t len;
	void *value;

	assert_int_equal(smb_acl_encode(&acl, &value, &len), 0);
	assert_int_equal(len, sizeof(expect));
	assert_memory_equal(value, expect, len);
	free(value);
}

/* ---- random descriptors, judged ---------------------------------------------------- */

/* Everybody: users of the table, a stranger with a number, an anonymous one; groups as bits. */
struct person {
	const char *sid; /* NULL: anonymous */
	uint32_t uid;
	bool known;
};
static const struct person people[] = {
	{ ALICE, 1001, true },	     { BOB, 1002, true },    { BOTH, 3000, true },
	{ DOM "7777", 7777, false }, { NULL, 65534, false }, { GHOST, 8888, false },
};
static const struct {
	const char *sid;
	uint32_t gid; /* 0: has none here */
} groups[] = { { STAFF, 2001 }, { HEADS, 2002 }, { BOTH, 3000 }, { GHOST, 0 } };
#define N_PEOPLE (sizeof(people) / sizeof(people[0]))
#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

static bool sid_is(const struct smb_sid *s, const char *text)
{
	struct smb_sid t = sid(text);

	return !smb_sid_cmp(s, &t);
}

static bool in_token(const struct smb_sid *s, const struct person *p, unsigned int member)
{
	if (sid_is(s, EVERYONE) || sid_is(s, "S-1-5-2") || (p->sid && sid_is(s, p->sid)))
		return true;
	if (sid_is(s, "S-1-5-11") || sid_is(s, "S-1-5-32-545"))
		return p->sid != NULL;
	if (sid_is(s, "S-1-5-7"))
		return p->sid == NULL;
	for (size_t i = 0; i < N_GROUPS; i++) {
		if ((member & (1u << i)) && sid_is(s, groups[i].sid))
			return true;
	}
	return false;
}

/* As the server: the first ACE that speaks of a bit decides.  @scope: 0 here, OI, CI. */
static uint32_t nt_granted(const struct smb_sd *sd, unsigned int scope, const struct person *p,
			   unsigned int member)
{
	bool owner = p->sid && sd->has_owner && scope == 0 && in_token(&sd->owner, p, member);
	bool restricted = false;
	uint32_t granted = 0, denied = 0;

	for (size_t i = 0; i < sd->n; i++) {
		const struct smb_ace *a = &sd->aces[i];
		bool mine = in_token(&a->sid, p, member);

		if (scope ? !(a->flags & scope) : (a->flags & IO))
			continue;
		if (scope == 0 && sid_is(&a->sid, "S-1-3-4")) {
			restricted = true;
			mine = owner;
		}
		if (!mine)
			continue;
		if (a->type == SMB_ACE_ALLOW)
			granted |= a->mask & ~denied;
		else
			denied |= a->mask & ~granted;
	}
	if (owner && !restricted)
		granted |= DAC;
	return granted;
}

/* acl(5), "access check algorithm" */
static unsigned int posix_granted(const struct smb_posix *x, const struct smb_posix_acl *acl,
				  uint32_t owner, uint32_t group, const struct person *p,
				  unsigned int member)
{
	unsigned int mask = 7, got = 0;
	bool matched = false;

	for (size_t i = 0; i < acl->n; i++) {
		if (acl->e[i].tag == SMB_MASK)
			mask = acl->e[i].perm;
	}
	if (p->uid == owner)
		return acl->e[0].perm;
	for (size_t i = 0; i < acl->n; i++) {
		if (acl->e[i].tag == SMB_USER && acl->e[i].id == p->uid)
			return acl->e[i].perm & mask;
	}
	for (size_t i = 0; i < acl->n; i++) {
		uint32_t gid = acl->e[i].tag == SMB_GROUP_OBJ ? group : acl->e[i].id;

		if (acl->e[i].tag != SMB_GROUP_OBJ && acl->e[i].tag != SMB_GROUP)
			continue;
		for (size_t g = 0; g < N_GROUPS; g++) {
			if ((member & (1u << g)) && groups[g].gid && groups[g].gid == gid) {
				matched = true;
				got |= acl->e[i].perm & mask;
			}
		}
	}
	return matched ? got : acl->e[acl->n - 1].perm;
}

static unsigned int right(uint32_t granted)
{
	return ((granted & 9) == 9 ? 4u : 0) | ((granted & WRITE) == WRITE ? 2u : 0) |
	       (granted & EXEC ? 1u : 0);
}

static uint32_t seed;

static uint32_t pick(uint32_t n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % n;
}

static void random_sd(struct smb_sd *sd, struct smb_ace *a)
{
	static const char *const who[] = {
		ALICE,	   BOB,	       BOTH,	  STAFF,     HEADS,	GHOST,
		EVERYONE,  "S-1-5-11", "S-1-5-7", "S-1-3-0", "S-1-3-1", "S-1-3-4",
		"S-1-5-2", "S-1-5-18", ALICE,	  STAFF,     HEADS,	EVERYONE,
	};
	static const uint32_t masks[] = { FULL, MODIFY, READ_X, READ, WRITE,
					  EXEC, DELETE, CHILD,	DAC,  4 };
	static const char *const owners[] = { ALICE, ALICE, BOB, GHOST, STAFF, BOTH };
	static const char *const own_groups[] = { STAFF, HEADS, GHOST, BOTH };

	memset(sd, 0, sizeof(*sd));
	sd->has_owner = sd->has_group = sd->dacl_present = true;
	sd->owner = sid(owners[pick(6)]);
	sd->group = sid(own_groups[pick(4)]);
	sd->has_numbers = pick(2) && sid_is(&sd->owner, GHOST);
	sd->uid = 8888;
	sd->gid = 4712;
	sd->aces = a;
	sd->n = pick(6);
	for (size_t i = 0; i < sd->n; i++) {
		uint8_t flags = (uint8_t)(pick(2) ? 0 : pick(16));

		a[i] = ace(pick(3) ? SMB_ACE_ALLOW : SMB_ACE_DENY, flags,
			   masks[pick(10)] | (pick(3) ? 0 : masks[pick(10)]), who[pick(18)]);
	}
}

static void show(const struct smb_sd *sd, const struct smb_posix *x, const char *what,
		 const struct person *p, unsigned int member)
{
	char buf[4096];

	print_message("owner %s ", smb_sid_text(&sd->owner, buf));
	print_message("group %s\n", smb_sid_text(&sd->group, buf));
	for (size_t i = 0; i < sd->n; i++)
		print_message("  %s %x %08x %s\n", sd->aces[i].type ? "deny" : "allow",
			      sd->aces[i].flags, sd->aces[i].mask,
			      smb_sid_text(&sd->aces[i].sid, buf));
	text_of(&x->access, buf);
	print_message("%u:%u %o %s\n", x->uid, x->gid, x->mode, buf);
	text_of(&x->def, buf);
	fail_msg("default %s: %s: %s in %x", buf, what, p->sid ? p->sid : "anonymous", member);
}

/* Nobody but the owner may do more; the owner no more than if he were in all groups. */
static void judge_here(const struct smb_sd *sd, const struct smb_posix *x, bool is_dir,
		       const struct person *p, unsigned int member)
{
	bool owner = p->uid == x->uid;
	uint32_t nt = nt_granted(sd, 0, p, member);
	uint32_t below = nt_granted(sd, OI, p, member) & nt_granted(sd, CI, p, member);
	unsigned int got = posix_granted(x, &x->access, x->uid, x->gid, p, member);
	unsigned int most = right(nt);

	if (owner)
		most |= right(nt_granted(sd, 0, p, member | 7));
	if (got & ~most)
		show(sd, x, "may do more", p, member);
	if (owner && !(nt & DAC))
		show(sd, x, "may change the mode", p, member);
	if (is_dir && !owner && (got & 2) && !(x->mode & 01000) && !(nt & CHILD) &&
	    !(below & DELETE))
		show(sd, x, "may delete", p, member);
}

/* A new file's owner is somebody else here, its group one that nobody has. */
static void judge_below(const struct smb_sd *sd, const struct smb_posix *x, const struct person *p,
			unsigned int member)
{
	unsigned int got = posix_granted(x, &x->def, 4711, 4711, p, member);
	unsigned int files = right(nt_granted(sd, OI, p, member));
	unsigned int dirs = right(nt_granted(sd, CI, p, member));

	if (got & ~(files & dirs))
		show(sd, x, "may do more below", p, member);
}

static void never_more(void **state)
{
	struct smb_ace a[8];
	struct smb_sd sd;
	struct smb_posix x;
	unsigned int sum = 0, with_default = 0, sticky = 0;

	for (seed = 1; seed != 0;) {
		static unsigned int rounds;
		bool is_dir = pick(2);

		if (rounds++ == 8000)
			break;
		random_sd(&sd, a);
		assert_int_equal(smb_acl_map(map, &sd, is_dir ? SMB_ACL_DIR : 0, 500, &x), 0);
		for (size_t p = 0; p < N_PEOPLE; p++) {
			unsigned int all = people[p].sid ? 1u << N_GROUPS : 1; /* or in none */

			for (unsigned int member = 0; member < all; member++) {
				judge_here(&sd, &x, is_dir, &people[p], member);
				if (x.def.n)
					judge_below(&sd, &x, &people[p], member);
				sum += posix_granted(&x, &x.access, x.uid, x.gid, &people[p],
						     member);
			}
		}
		with_default += x.def.n > 0;
		sticky += (x.mode & 01000) != 0;
		smb_posix_finish(&x);
	}
	/* it is not that nobody has anything */
	assert_true(sum > 300000 && with_default > 500 && sticky > 50);
}

static int setup(void **state)
{
	static const char table[] = "uid 1001-1002 " ALICE "\n"
				    "gid 2001-2002 " STAFF "\n"
				    "uid 3000 " BOTH "\ngid 3000 " BOTH "\n"
				    "everyone S-1-5-32-545\n";
	char why[SMB_IDMAP_WHY];

	return smb_idmap_parse(table, sizeof(table) - 1, "idmap", &map, why);
}

static int teardown(void **state)
{
	smb_idmap_destroy(map);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain),	   cmocka_unit_test(named),
		cmocka_unit_test(windows_default), cmocka_unit_test(order_decides),
		cmocka_unit_test(denied_group),	   cmocka_unit_test(unknown_sids),
		cmocka_unit_test(unknown_owner),   cmocka_unit_test(authenticated_users),
		cmocka_unit_test(everyone_line),   cmocka_unit_test(all_of_a_right),
		cmocka_unit_test(generic_rights),  cmocka_unit_test(not_in_force),
		cmocka_unit_test(odd_aces),	   cmocka_unit_test(owner_rights),
		cmocka_unit_test(numbers_from_elsewhere), cmocka_unit_test(no_dacl),	   cmocka_unit_test(delete_child),
		cmocka_unit_test(delete_strict),   cmocka_unit_test(default_acl),
		cmocka_unit_test(traverse),	   cmocka_unit_test(too_many),
		cmocka_unit_test(encoded),	   cmocka_unit_test(never_more),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
