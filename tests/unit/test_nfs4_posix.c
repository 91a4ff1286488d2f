// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_nfs4_posix.c - POSIX ACLs from ACLs of NFSv4: retriever/nfs/nfs4_posix.c
 *
 * Beside single cases: random small ACLs, all that are smaller still, and everybody who could be
 * meant by one (the owner, users with and without entries, in any of the groups).  What he has over
 * there, and what he has here, is found by two evaluators that are written as the RFC and acl(5) say
 * it, and know nothing of the mapping.
 */
#include <linux/posix_acl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "nfs/nfs4_posix.h"

#define UID   1000u /* who owns what is looked at */
#define GID   100u
#define ROUNDS 40000

static struct nfs4_acl acl;
static struct nfs4_posix px;

static void make(uint32_t mode)
{
	const struct stub_attr a = { .mode = mode, .uid = UID, .gid = GID };

	memset(&px, 0x5a, sizeof(px));
	nfs4_posix_make(&acl, &a, &px);
}

/* ---- for people ---- */

static void text_of(const struct posix_acl *of, char *out)
{
	*out = '\0';
	for (size_t i = 0; i < of->n; i++) {
		const struct posix_acl_entry *e = &of->e[i];
		const char *tag = e->tag & (ACL_USER_OBJ | ACL_USER)   ? "u" :
				  e->tag & (ACL_GROUP_OBJ | ACL_GROUP) ? "g" :
				  e->tag == ACL_MASK		       ? "m" :
									 "o";

		out += sprintf(out, "%s%s:", i ? " " : "", tag);
		if (e->tag & (ACL_USER | ACL_GROUP))
			out += sprintf(out, "%u:", e->id);
		else
			assert_int_equal(e->id, (uint32_t)ACL_UNDEFINED_ID);
		out += sprintf(out, "%c%c%c", e->perm & 4 ? 'r' : '-', e->perm & 2 ? 'w' : '-',
			       e->perm & 1 ? 'x' : '-');
	}
}

static void print_acl(void)
{
	static const char *const who[] = { "OWNER@", "GROUP@", "EVERYONE@", "user", "group", "?" };
	char text[4096];

	for (uint32_t i = 0; i < acl.n; i++)
		print_message("  %s 0x%x 0x%x %s %u\n", acl.e[i].type ? "DENY" : "ALLOW",
			      acl.e[i].flags, acl.e[i].mask, who[acl.e[i].who], acl.e[i].id);
	text_of(&px.access, text);
	print_message("  mode %o, %s, %s\n", px.mode, text, px.near ? "near" : "the same");
	text_of(&px.def, text);
	print_message("  default %s\n", text);
}

#define EXPECT(what) do { if (!(what)) { print_acl(); fail_msg("%s", #what); } } while (0)

/* ---- single cases ---- */

static void ace(uint32_t type, uint32_t flags, uint32_t mask, enum nfs4_who who, uint32_t id)
{
	if (who == NFS4_A_GROUP)
		flags |= NFS4_IS_GROUP;
	acl.e[acl.n++] = (struct nfs4_ace){ type, flags, mask, who, id };
}

#define R   NFS4_READ_DATA
#define W   (NFS4_WRITE_DATA | NFS4_APPEND_DATA)
#define X   NFS4_EXECUTE
#define D   NFS4_DELETE_CHILD
#define RWX (R | W | X)
#define ANY (NFS4_READ_ATTRIBUTES | NFS4_READ_ACL | 0x100000u)
#define OWN (NFS4_WRITE_ATTRIBUTES | NFS4_WRITE_ACL)
#define FD  (NFS4_BY_FILES | NFS4_BY_DIRS)

static void expect(uint32_t mode, uint32_t right, const char *access, const char *def, bool near)
{
	char text[4096];

	make(mode);
	text_of(&px.access, text);
	assert_string_equal(text, access);
	text_of(&px.def, text);
	assert_string_equal(text, def);
	assert_int_equal(px.mode, (mode & S_IFMT) | right);
	assert_int_equal(px.near, near);
	acl.n = 0;
}

static void a_mode_is_no_more_than_a_mode(void **state)
{
	/* as ZFS and FreeBSD have it: read_xattr and write_xattr, write_owner for the owner */
	ace(NFS4_ALLOW, 0, R | W | ANY | OWN | 0x18 | NFS4_WRITE_OWNER, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0x40, R | ANY | 0x8, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, R | ANY | 0x8, NFS4_EVERYONE, 0);
	expect(S_IFREG | 04644, 04644, "u:rw- g:r-- o:r--", "", false);
	/* as older Solaris: what the owner was allowed is denied to the others */
	ace(NFS4_DENY, 0, X, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, R | W | OWN | 0x10 | NFS4_WRITE_OWNER, NFS4_OWNER, 0);
	ace(NFS4_DENY, 0x40, W | X, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0x40, R, NFS4_GROUP, 0);
	ace(NFS4_DENY, 0, W | X | OWN | 0x10 | NFS4_WRITE_OWNER, NFS4_EVERYONE, 0);
	ace(NFS4_ALLOW, 0, R | ANY | 0x8, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0644, 0644, "u:rw- g:r-- o:r--", "", false);
	/* what the group is denied the others have */
	ace(NFS4_DENY, 0, W, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0757, 0557, "u:r-x g:r-x o:rwx", "", true); /* the owner may be in it */
}

static void those_who_are_named_have_entries(void **state)
{
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, R | W, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, R, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, R | X, NFS4_A_GROUP, 200);
	expect(S_IFREG | 0740, 0770, "u:rwx u:1001:rw- g:r-- g:200:r-x m:rwx o:---", "", true);
	/* ... of which the user may be in the group, and has more over there: it is near */
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, R, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, R | X, NFS4_A_GROUP, 200);
	expect(S_IFREG | 0740, 0770, "u:rwx u:1001:rwx g:r-- g:200:r-x m:rwx o:---", "", false);
	/* kept out, first or in time */
	ace(NFS4_DENY, 0, RWX, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, R | W, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, R, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0764, 0764, "u:rwx u:1001:--- g:rw- m:rw- o:r--", "", false);
	/* too late for what was allowed before */
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	ace(NFS4_DENY, 0, RWX, NFS4_A_USER, 1001);
	expect(S_IFREG | 0777, 0777, "u:rwx u:1001:rwx g:rwx m:rwx o:rwx", "", false);
	/* the owner's and the group's own numbers are the owner and the group */
	ace(NFS4_ALLOW, 0, RWX, NFS4_A_USER, UID);
	ace(NFS4_ALLOW, 0, R, NFS4_A_GROUP, GID);
	expect(S_IFREG | 0740, 0740, "u:rwx g:r-- o:---", "", false);
}

static void what_is_not_certain_is_not_given(void **state)
{
	/* who is kept out as a member may be a user with an entry, or in the group */
	ace(NFS4_DENY, 0, W, NFS4_A_GROUP, 200);
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, RWX, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0777, 0577, "u:r-x u:1001:r-x g:r-x g:200:r-x m:rwx o:rwx", "", true);
	/* half of what w means is not w */
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, R | NFS4_APPEND_DATA, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0744, 0744, "u:rwx g:r-- o:r--", "", true);
	/* who is not known gets nothing, and what he is denied all are */
	ace(NFS4_ALLOW, 0, RWX, NFS4_STRANGER, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_DENY, 0, R, NFS4_STRANGER, 0);
	ace(NFS4_ALLOW, 0, R | X, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0755, 0711, "u:rwx g:--x o:--x", "", true);
	/* no more than the mode */
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0640, 0640, "u:rw- g:r-- o:---", "", true);
}

static void what_posix_cannot_say_is_told(void **state)
{
	static const struct nfs4_ace odd[] = {
		{ NFS4_ALLOW, 0, R | NFS4_WRITE_ACL, NFS4_A_USER, 1001 },
		{ NFS4_ALLOW, 0, NFS4_WRITE_OWNER, NFS4_GROUP, 0 },
		{ NFS4_ALLOW, 0, NFS4_DELETE, NFS4_OWNER, 0 },
		{ NFS4_DENY, 0, NFS4_READ_ACL, NFS4_A_USER, 1001 },
		{ NFS4_AUDIT, 0x10, RWX, NFS4_EVERYONE, 0 },
		{ NFS4_ALARM, 0x20, RWX, NFS4_A_USER, 1001 },
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		acl.e[acl.n++] = odd[i];
		ace(NFS4_ALLOW, 0, R | W, NFS4_OWNER, 0);
		ace(NFS4_ALLOW, 0, R, NFS4_EVERYONE, 0);
		make(S_IFREG | 0644);
		EXPECT(px.near && px.mode == (S_IFREG | 0644));
		acl.n = 0;
	}
}

static void deleting_in_directories(void **state)
{
	/* may write there, and is not said to be allowed to delete: it is as in POSIX */
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_GROUP, 0);
	expect(S_IFDIR | 0770, 0770, "u:rwx g:rwx o:---", "", false);
	ace(NFS4_ALLOW, 0, RWX | D, NFS4_OWNER, 0);
	ace(NFS4_DENY, 0, D, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, RWX | D, NFS4_GROUP, 0);
	expect(S_IFDIR | 0770, 01770, "u:rwx g:rwx o:---", "", true);
	/* one user, who needs no entry for it */
	ace(NFS4_DENY, 0, D, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, RWX | D, NFS4_EVERYONE, 0);
	expect(S_IFDIR | 0777, 01777, "u:rwx g:rwx o:rwx", "", true);
	/* where only owners delete already */
	ace(NFS4_DENY, 0, D, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	expect(S_IFDIR | 01777, 01777, "u:rwx g:rwx o:rwx", "", false);
	/* of a file it says nothing */
	ace(NFS4_DENY, 0, D, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, 0, RWX, NFS4_EVERYONE, 0);
	expect(S_IFREG | 0777, 0777, "u:rwx g:rwx o:rwx", "", false);
}

static void inherited(void **state)
{
	const char *plain = "u:rwx g:--- o:---";

	ace(NFS4_ALLOW, FD, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, FD | NFS4_INHERIT_ONLY, R, NFS4_A_USER, UID);
	ace(NFS4_ALLOW, FD | NFS4_INHERIT_ONLY, R, NFS4_A_GROUP, GID);
	expect(S_IFDIR | 0700, 0700, plain, "u:rwx u:1000:r-- g:--- g:100:r-- m:r-- o:---", false);
	/* files, or directories, or only what is made there at once */
	ace(NFS4_ALLOW, FD, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, NFS4_BY_FILES | NFS4_INHERIT_ONLY, R | W, NFS4_EVERYONE, 0);
	ace(NFS4_ALLOW, NFS4_BY_DIRS | NFS4_INHERIT_ONLY, R | X, NFS4_EVERYONE, 0);
	expect(S_IFDIR | 0700, 0700, plain, "u:rwx g:r-- o:r--", true);
	ace(NFS4_ALLOW, FD, RWX, NFS4_OWNER, 0);
	ace(NFS4_ALLOW, FD | NFS4_ONE_LEVEL | NFS4_INHERIT_ONLY, RWX, NFS4_GROUP, 0);
	expect(S_IFDIR | 0700, 0700, plain, plain, true);
	/* nothing is said of who makes it; and who is kept out may have made it */
	ace(NFS4_ALLOW, 0, RWX, NFS4_OWNER, 0);
	ace(NFS4_DENY, FD | NFS4_INHERIT_ONLY, RWX, NFS4_A_USER, 1001);
	ace(NFS4_ALLOW, FD | NFS4_INHERIT_ONLY, R, NFS4_EVERYONE, 0);
	expect(S_IFDIR | 0700, 0700, plain, "u:rwx u:1001:--- g:r-- m:r-- o:r--", true);
	/* what is made there is not made sticky */
	ace(NFS4_ALLOW, FD, RWX, NFS4_OWNER, 0);
	ace(NFS4_DENY, FD | NFS4_INHERIT_ONLY, D, NFS4_GROUP, 0);
	ace(NFS4_ALLOW, FD | NFS4_INHERIT_ONLY, RWX, NFS4_GROUP, 0);
	expect(S_IFDIR | 0700, 0700, plain, "u:rwx g:r-x o:---", true);
	/* a file's are nothing */
	ace(NFS4_ALLOW, FD, RWX, NFS4_OWNER, 0);
	expect(S_IFREG | 0700, 0700, plain, "", false);
}

/* ---- who has what ---- */

struct person {
	uint32_t uid;
	uint32_t group[3];
	unsigned int groups;
};

static bool in_group(const struct person *p, uint32_t gid)
{
	for (unsigned int i = 0; i < p->groups; i++)
		if (p->group[i] == gid)
			return true;
	return false;
}

struct object { /* that somebody looks at */
	uint32_t uid, gid;
};

static bool speaks_of(const struct nfs4_ace *e, const struct object *o, const struct person *p)
{
	switch (e->who) {
	case NFS4_OWNER:
		return p->uid == o->uid;
	case NFS4_GROUP:
		return in_group(p, o->gid);
	case NFS4_EVERYONE:
		return true;
	case NFS4_A_USER:
		return p->uid == e->id;
	case NFS4_A_GROUP:
		return in_group(p, e->id);
	case NFS4_STRANGER:
		break;
	}
	return false;
}

/* RFC 7530, 6.2.1.  @inherit: the flag that entries must have; 0: those in force. */
static void over_there(uint32_t inherit, const struct object *o, const struct person *p,
		       uint32_t *allowed, uint32_t *denied)
{
	*allowed = *denied = 0;
	for (uint32_t i = 0; i < acl.n; i++) {
		const struct nfs4_ace *e = &acl.e[i];

		if (inherit ? !(e->flags & inherit) : e->flags & NFS4_INHERIT_ONLY)
			continue;
		if (!speaks_of(e, o, p))
			continue;
		if (e->type == NFS4_ALLOW)
			*allowed |= e->mask & ~*denied;
		else if (e->type == NFS4_DENY)
			*denied |= e->mask & ~*allowed;
	}
}

/* acl(5), "access check algorithm": may he have @want? */
static bool has_here(const struct posix_acl *of, const struct object *o, const struct person *p,
		     unsigned int want)
{
	unsigned int mask = 7;
	bool found = false, granted = false;

	for (size_t i = 0; i < of->n; i++)
		if (of->e[i].tag == ACL_MASK)
			mask = of->e[i].perm;
	for (size_t i = 0; i < of->n; i++) {
		const struct posix_acl_entry *e = &of->e[i];

		switch (e->tag) {
		case ACL_USER_OBJ:
			if (p->uid == o->uid)
				return (e->perm & want) == want;
			break;
		case ACL_USER:
			if (p->uid == e->id)
				return (e->perm & mask & want) == want;
			break;
		case ACL_GROUP_OBJ:
		case ACL_GROUP:
			if (!in_group(p, e->tag == ACL_GROUP ? e->id : o->gid))
				break;
			found = true;
			granted = granted || (e->perm & mask & want) == want;
			break;
		case ACL_OTHER:
			return found ? granted : (e->perm & want) == want;
		default:
			break;
		}
	}
	return false;
}

static uint32_t here(const struct posix_acl *of, const struct object *o, const struct person *p)
{
	return (has_here(of, o, p, 4) ? R : 0) | (has_here(of, o, p, 2) ? W : 0) |
	       (has_here(of, o, p, 1) ? X : 0);
}

typedef void (*person_fn)(const struct person *p);

/* Owner, user 1001 and 1002 (named), 1003 (never named), in any of the groups. */
static void with_everybody(person_fn fn)
{
	static const uint32_t gids[] = { GID, 200, 201 };

	for (uint32_t uid = UID; uid <= UID + 3; uid++) {
		for (unsigned int in = 0; in < 8; in++) {
			struct person p = { .uid = uid };

			for (unsigned int i = 0; i < 3; i++)
				if (in & 1u << i)
					p.group[p.groups++] = gids[i];
			fn(&p);
		}
	}
}

static void in_force(const struct person *p)
{
	static const struct object o = { UID, GID };
	uint32_t allowed, denied, now = here(&px.access, &o, p);

	over_there(0, &o, p, &allowed, &denied);
	EXPECT(!(now & ~allowed));
	EXPECT(px.near || now == (allowed & RWX));
	if (S_ISDIR(px.mode) && p->uid != UID && now & W && denied & D)
		EXPECT(px.mode & S_ISVTX);
}

/* What somebody makes in a directory is user 1004's, of group 100. */
static void below(const struct person *p)
{
	static const struct object o = { UID + 4, GID };
	uint32_t file, dir, denied, now;

	if (!px.def.n)
		return;
	now = here(&px.def, &o, p);
	over_there(NFS4_BY_FILES, &o, p, &file, &denied);
	EXPECT(!(now & ~file));
	over_there(NFS4_BY_DIRS, &o, p, &dir, &denied);
	EXPECT(!(now & ~dir));
	EXPECT(!(now & W) || !(denied & D));
	EXPECT(px.near || (now == (file & RWX) && now == (dir & RWX)));
}

/* Who has made it, if anything is said of him: whom else he may be does not count. */
static void makers_own(void)
{
	static const struct object o = { UID + 4, GID };
	const struct person maker = { .uid = UID + 4 };
	uint32_t file, dir, denied;
	bool said = false;

	for (uint32_t i = 0; i < acl.n; i++)
		said = said || (acl.e[i].who == NFS4_OWNER && acl.e[i].flags & FD);
	over_there(NFS4_BY_FILES, &o, &maker, &file, &denied);
	over_there(NFS4_BY_DIRS, &o, &maker, &dir, &denied);
	EXPECT(said ? !(here(&px.def, &o, &maker) & ~(file & dir)) :
		      here(&px.def, &o, &maker) == RWX && px.near);
}

static unsigned int of_entry(const struct posix_acl *of, unsigned int tag)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->e[i].tag == tag)
			return of->e[i].perm;
	return 0;
}

/* As the kernel wants it. */
static void is_valid(const struct posix_acl *of)
{
	unsigned int seen = 0;

	for (size_t i = 0; i < of->n; i++) {
		EXPECT(of->e[i].perm <= 7);
		EXPECT(!i || posix_acl_compare(&of->e[i - 1], &of->e[i]) < 0);
		seen |= of->e[i].tag;
	}
	EXPECT((seen & (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER)) ==
	       (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER));
	EXPECT(!(seen & (ACL_USER | ACL_GROUP)) == !(seen & ACL_MASK));
}

static void is_right(void)
{
	unsigned int group = of_entry(&px.access, ACL_MASK);

	is_valid(&px.access);
	if (px.access.n == 3)
		group = of_entry(&px.access, ACL_GROUP_OBJ);
	EXPECT((px.mode & 0777) == (of_entry(&px.access, ACL_USER_OBJ) << 6 | group << 3 |
				    of_entry(&px.access, ACL_OTHER)));
	with_everybody(in_force);
	if (!px.def.n)
		return;
	is_valid(&px.def);
	with_everybody(below);
	makers_own();
}

/* ---- random ACLs ---- */

static uint32_t some(uint32_t n)
{
	return (uint32_t)random() % n;
}

static uint32_t a_mask(void)
{
	static const uint32_t bits[] = { R, W, X, NFS4_WRITE_DATA, NFS4_APPEND_DATA, D, RWX, ANY,
					 NFS4_WRITE_ACL, 0x8 };
	uint32_t mask = 0;

	for (uint32_t n = some(4); n < 4; n++)
		mask |= bits[some(some(3) ? 3 : sizeof(bits) / sizeof(bits[0]))];
	return mask;
}

static void a_random_ace(void)
{
	static const struct {
		enum nfs4_who who;
		uint32_t id;
	} who[] = { { NFS4_OWNER, 0 },		{ NFS4_GROUP, 0 },	   { NFS4_EVERYONE, 0 },
		    { NFS4_A_USER, UID },	{ NFS4_A_USER, UID + 1 },  { NFS4_A_USER, UID + 2 },
		    { NFS4_A_GROUP, GID },	{ NFS4_A_GROUP, 200 },	   { NFS4_A_GROUP, 201 } };
	static const uint32_t flags[] = { 0, 0, FD, FD | NFS4_INHERIT_ONLY, NFS4_BY_FILES,
					  NFS4_BY_DIRS | NFS4_INHERIT_ONLY,
					  FD | NFS4_ONE_LEVEL };
	uint32_t i = some(sizeof(who) / sizeof(who[0]));

	ace(some(3) ? NFS4_ALLOW : NFS4_DENY, flags[some(some(2) ? 2 : 7)], a_mask(), who[i].who,
	    who[i].id);
}

static void nobody_gets_more(void **state)
{
	unsigned int same = 0, more = 0, def = 0;

	srandom(20261123);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		acl.n = 0;
		for (uint32_t n = 1 + some(6); n; n--)
			a_random_ace();
		make((some(2) ? S_IFREG : S_IFDIR) | (some(4) ? 0777 : some(01000)));
		is_right();
		same += !px.near;
		more += px.access.n > 3;
		def += px.def.n > 0;
	}
	/* all of it was met often enough to mean something */
	assert_true(same > ROUNDS / 20 && same < ROUNDS - ROUNDS / 20);
	assert_true(more > ROUNDS / 5 && def > ROUNDS / 20);
	acl.n = 0;
}

/* ---- all small ACLs ---- */

struct choice { /* of one entry */
	const struct nfs4_ace *of;
	size_t n;
};

/* All of up to @left more entries, behind those that are there. */
static void every(const struct choice *c, unsigned int left, uint32_t mode, unsigned long *n)
{
	if (acl.n) {
		make(mode);
		is_right();
		++*n;
	}
	for (size_t i = 0; left && i < c->n; i++) {
		acl.e[acl.n++] = c->of[i];
		every(c, left - 1, mode, n);
		acl.n--;
	}
}

/* One right, everybody who can be named, in every order. */
static void every_order_of_one_right(void **state)
{
	static const struct {
		enum nfs4_who who;
		uint32_t id, flags;
	} who[] = { { NFS4_OWNER, 0, 0 },      { NFS4_GROUP, 0, NFS4_IS_GROUP },
		    { NFS4_EVERYONE, 0, 0 },   { NFS4_A_USER, UID, 0 },
		    { NFS4_A_USER, 1001, 0 },  { NFS4_A_GROUP, GID, NFS4_IS_GROUP },
		    { NFS4_STRANGER, 0, 0 },   { NFS4_A_GROUP, 200, NFS4_IS_GROUP } };
	struct nfs4_ace of[16];
	struct choice c = { of, 0 };
	unsigned long n = 0;

	for (size_t i = 0; i < 8; i++)
		for (uint32_t type = NFS4_ALLOW; type <= NFS4_DENY; type++)
			of[c.n++] = (struct nfs4_ace){ type, who[i].flags, R, who[i].who,
						       who[i].id };
	every(&c, 4, S_IFREG | 0777, &n);
	assert_int_equal(n, 16 + 256 + 4096 + 65536);
	acl.n = 0;
}

/* The halves of w beside r, and what inherits. */
static void every_pair_of_rights(void **state)
{
	static const uint32_t masks[] = { R, NFS4_WRITE_DATA, W, D }, flags[] = { 0, FD };
	static const enum nfs4_who who[] = { NFS4_OWNER, NFS4_EVERYONE, NFS4_A_USER, NFS4_A_GROUP };
	struct nfs4_ace of[64];
	struct choice c = { of, 0 };
	unsigned long n = 0;

	for (size_t i = 0; i < 64; i++)
		of[c.n++] = (struct nfs4_ace){ i & 1, flags[i >> 1 & 1], masks[i >> 2 & 3],
					       who[i >> 4], i >> 4 == 2 ? 1001 : 200 };
	every(&c, 2, S_IFDIR | 0777, &n);
	for (size_t i = 0; i < 64; i++)
		of[i].flags = of[i].who == NFS4_A_GROUP ? NFS4_IS_GROUP : 0;
	every(&c, 2, S_IFREG | 0777, &n);
	assert_int_equal(n, 2 * (64 + 4096));
	acl.n = 0;
}

/* ---- what servers make of POSIX ACLs ---- */

static struct posix_acl was;

static void a_random_posix_acl(void)
{
	unsigned int named = some(4);
	unsigned int perm[] = { 0, 4, 5, 6, 7, 1, 2, 3 };

	was.n = 0;
	was.e[was.n++] = (struct posix_acl_entry){ ACL_USER_OBJ, perm[some(8)], ~0u };
	for (uint32_t i = 1; i <= 2 && named & 1; i++)
		was.e[was.n++] = (struct posix_acl_entry){ ACL_USER, perm[some(8)], UID + i };
	was.e[was.n++] = (struct posix_acl_entry){ ACL_GROUP_OBJ, perm[some(8)], ~0u };
	for (uint32_t i = 0; i < 2 && named & 2; i++)
		was.e[was.n++] = (struct posix_acl_entry){ ACL_GROUP, perm[some(8)], 200 + i };
	if (named)
		was.e[was.n++] = (struct posix_acl_entry){ ACL_MASK,
							   some(2) ? 7 : perm[some(8)], ~0u };
	was.e[was.n++] = (struct posix_acl_entry){ ACL_OTHER, perm[some(8)], ~0u };
}

static uint32_t mask_of(unsigned int perm, bool dir)
{
	return (perm & 4 ? R : 0) | (perm & 2 ? W | (dir ? D : 0) : 0) | (perm & 1 ? X : 0);
}

static void an_entry(const struct posix_acl_entry *e, uint32_t type, uint32_t flags, uint32_t mask)
{
	static const struct {
		unsigned int tag;
		enum nfs4_who who;
	} who[] = { { ACL_USER_OBJ, NFS4_OWNER }, { ACL_USER, NFS4_A_USER },
		    { ACL_GROUP_OBJ, NFS4_GROUP }, { ACL_GROUP, NFS4_A_GROUP },
		    { ACL_OTHER, NFS4_EVERYONE } };

	for (size_t i = 0; i < 5; i++)
		if (who[i].tag == e->tag)
			ace(type, flags, mask, who[i].who, e->id == ~0u ? 0 : e->id);
}

/* What entries from @i on may still give: of tags in @tags. */
static unsigned int later(size_t i, unsigned int tags)
{
	unsigned int all = 0;

	for (i++; i < was.n; i++)
		if (was.e[i].tag & tags)
			all |= was.e[i].perm;
	return all;
}

/* What the mask leaves of each, and no mask. */
static unsigned int effective(void)
{
	unsigned int mask = of_entry(&was, ACL_MASK), had = mask;
	size_t n = 0;

	if (!later(0, ACL_MASK) && was.n == 3)
		mask = 7;
	for (size_t i = 0; i < was.n; i++) {
		if (was.e[i].tag == ACL_MASK)
			continue;
		was.e[n] = was.e[i];
		if (was.e[i].tag & (ACL_USER | ACL_GROUP_OBJ | ACL_GROUP))
			was.e[n].perm &= mask;
		n++;
	}
	was.n = n;
	return had;
}

/* draft-ietf-nfsv4-acl-mapping-05, section 3, as Linux's server does it: groups are allowed first,
 * and denied then (@apart).  Ganesha takes one entry after the other. */
static void as_server(uint32_t flags, bool dir, bool apart)
{
	const unsigned int groups = ACL_GROUP_OBJ | ACL_GROUP, rest = groups | ACL_OTHER;

	for (int pass = 0; pass < (apart ? 2 : 1); pass++) {
		for (size_t i = 0; i < was.n; i++) {
			const struct posix_acl_entry *e = &was.e[i];
			bool group = e->tag & groups;
			unsigned int after = e->tag == ACL_USER_OBJ ? later(i, ACL_USER | rest) :
					     e->tag == ACL_USER	    ? later(i, rest) :
					     group ? of_entry(&was, ACL_OTHER) : 0;
			unsigned int denied = ~e->perm & after;

			if (e->tag == ACL_OTHER && apart)
				continue;
			if (denied && (!apart || (pass ? group : !group)))
				an_entry(e, NFS4_DENY, flags, mask_of(denied, dir));
			if (!pass)
				an_entry(e, NFS4_ALLOW, flags,
					 mask_of(e->perm, dir) | ANY |
						 (e->tag == ACL_USER_OBJ ? OWN : 0));
		}
	}
	if (apart)
		an_entry(&was.e[was.n - 1], NFS4_ALLOW, flags,
			 mask_of(was.e[was.n - 1].perm, dir) | ANY);
}

/* The same again, with @mask (of its union, at least) if anybody is named. */
static void is_back(const struct posix_acl *now, unsigned int mask)
{
	size_t n = 0;

	for (size_t i = 0; i < now->n; i++) {
		const struct posix_acl_entry *e = &now->e[i];

		if (e->tag == ACL_MASK) {
			EXPECT(e->perm == (mask | later(0, ACL_USER | ACL_GROUP_OBJ | ACL_GROUP)));
			continue;
		}
		EXPECT(n < was.n && e->tag == was.e[n].tag && e->perm == was.e[n].perm &&
		       e->id == was.e[n].id);
		n++;
	}
	EXPECT(n == was.n);
}

static unsigned int mode_of(void)
{
	unsigned int group = of_entry(&was, was.n > 3 ? ACL_MASK : ACL_GROUP_OBJ);

	return of_entry(&was, ACL_USER_OBJ) << 6 | group << 3 | of_entry(&was, ACL_OTHER);
}

static void linuxs_come_back(void **state)
{
	srandom(4);
	for (unsigned int round = 0; round < ROUNDS / 4; round++) {
		bool dir = some(2);
		struct posix_acl access;
		unsigned int mode, mask;

		acl.n = 0;
		a_random_posix_acl();
		mode = mode_of();
		mask = effective();
		as_server(0, dir, true);
		access = was;
		if (dir) {
			a_random_posix_acl();
			effective();
			as_server(FD | NFS4_INHERIT_ONLY, true, true);
		}
		make((dir ? S_IFDIR : S_IFREG) | mode);
		if (dir)
			is_back(&px.def, 0);
		was = access;
		is_back(&px.access, mask);
		EXPECT(!px.near && (px.mode & 07777) == mode);
		is_right();
	}
	acl.n = 0;
}

/* Ganesha denies a group before it allows the next one: by the letter, who is in both is denied.
 * Where no group is kept below the others nothing is denied, and all comes back. */
static void ganeshas_come_back(void **state)
{
	unsigned int whole = 0;

	srandom(6);
	for (unsigned int round = 0; round < ROUNDS / 4; round++) {
		unsigned int mode, mask, below_others = 0;

		acl.n = 0;
		a_random_posix_acl();
		mode = mode_of();
		mask = effective();
		for (size_t i = 0; i < was.n; i++)
			if (was.e[i].tag & (ACL_GROUP_OBJ | ACL_GROUP))
				below_others |= ~was.e[i].perm & of_entry(&was, ACL_OTHER);
		as_server(0, false, false);
		make(S_IFREG | mode);
		is_right();
		if (below_others)
			continue;
		is_back(&px.access, mask);
		EXPECT(!px.near && (px.mode & 07777) == mode);
		whole++;
	}
	assert_true(whole > ROUNDS / 40);
	acl.n = 0;
}

/* Of objects without an ACL both show one that is made of the mode: whatever it is, it stays. */
static void modes_come_back(void **state)
{
	for (unsigned int mode = 0; mode < 04 * 01000; mode++) {
		bool dir = mode & 01000, apart = mode & 02000;
		uint32_t shown = (dir ? S_IFDIR : S_IFREG) | (mode & 0777);

		acl.n = 0;
		was.n = 0;
		was.e[was.n++] = (struct posix_acl_entry){ ACL_USER_OBJ, mode >> 6 & 7, ~0u };
		was.e[was.n++] = (struct posix_acl_entry){ ACL_GROUP_OBJ, mode >> 3 & 7, ~0u };
		was.e[was.n++] = (struct posix_acl_entry){ ACL_OTHER, mode & 7, ~0u };
		as_server(0, dir, apart);
		make(shown);
		is_back(&px.access, 0);
		EXPECT(!px.near && px.mode == shown && !px.def.n);
	}
	acl.n = 0;
}

/* ---- as many as there may be ---- */

static void many(void **state)
{
	for (uint32_t i = 0; i < NFS4_ACES_MAX; i++)
		ace(i % 2 ? NFS4_DENY : NFS4_ALLOW, FD, i % 3 ? R : W,
		    i % 5 ? NFS4_A_USER : NFS4_A_GROUP, 5000 + i);
	make(S_IFDIR | 0770);
	assert_int_equal(px.access.n, NFS4_ACES_MAX + 4);
	assert_int_equal(px.def.n, NFS4_ACES_MAX + 4);
	is_valid(&px.access);
	is_valid(&px.def);
	acl.n = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mode_is_no_more_than_a_mode),
		cmocka_unit_test(those_who_are_named_have_entries),
		cmocka_unit_test(what_is_not_certain_is_not_given),
		cmocka_unit_test(what_posix_cannot_say_is_told),
		cmocka_unit_test(deleting_in_directories),
		cmocka_unit_test(inherited),
		cmocka_unit_test(nobody_gets_more),
		cmocka_unit_test(every_order_of_one_right),
		cmocka_unit_test(every_pair_of_rights),
		cmocka_unit_test(linuxs_come_back),
		cmocka_unit_test(ganeshas_come_back),
		cmocka_unit_test(modes_come_back),
		cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
