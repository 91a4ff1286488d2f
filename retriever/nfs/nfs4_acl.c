// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_acl.c - a mode that gives no more than the ACL beside it.
 *
 * NFSv4's ACLs are not kept yet.  Beside one, the mode that a server shows may give the group the
 * ACL's mask, and whom an entry keeps out would count as one of the group, or of the others.  So
 * these get what the list gives to everybody in the class, whoever he is: entries count in their
 * order; what anybody is denied, before the class is allowed it, the class does not get.
 */
#include <errno.h>
#include <string.h>

#include "nfs/nfs4.h"

#define ENTRIES_MAX 4096
#define WHO_MAX	    1024

enum { ALLOW, DENY, AUDIT, ALARM };
#define INHERIT	     0x3u /* by files, by directories */
#define INHERIT_ONLY 0x8u
#define READ_DATA    0x1u
#define WRITE_DATA   0x2u
#define APPEND_DATA  0x4u
#define EXECUTE	     0x20u

enum who { OWNER, GROUP, EVERYONE, NAMED };

struct class { /* mask bits that are decided */
	uint32_t allowed, denied;
};

static enum who who_of(const uint8_t *p, uint32_t len)
{
	static const char *const names[] = { "OWNER@", "GROUP@", "EVERYONE@" };

	for (unsigned int i = 0; i < 3; i++)
		if (len == strlen(names[i]) && !memcmp(p, names[i], len))
			return (enum who)i;
	return NAMED;
}

static void allow(struct class *c, uint32_t mask)
{
	c->allowed |= mask & ~c->denied;
}

static void deny(struct class *c, uint32_t mask)
{
	c->denied |= mask & ~c->allowed;
}

static uint32_t rights(const struct class *c)
{
	const uint32_t w = WRITE_DATA | APPEND_DATA;

	return (c->allowed & READ_DATA ? 4u : 0) | ((c->allowed & w) == w ? 2u : 0) |
	       (c->allowed & EXECUTE ? 1u : 0);
}

/* Whom an entry denies may be one of the group and of the others, but for these themselves. */
static void count(enum who who, uint32_t type, uint32_t mask, struct class *group,
		  struct class *others)
{
	if (type == DENY) {
		if (who != OWNER)
			deny(group, mask);
		if (who != OWNER && who != GROUP)
			deny(others, mask);
	} else if (type == ALLOW) {
		if (who == GROUP || who == EVERYONE)
			allow(group, mask);
		if (who == EVERYONE)
			allow(others, mask);
	}
}

int nfs4_get_acl(struct nfs4_in *in, struct nfs4_attrs *out)
{
	struct class group = { 0 }, others = { 0 };
	uint32_t n = nfs4_get32(in);

	out->acl_more = false;
	out->acl_mode = 07777;
	if (n > ENTRIES_MAX)
		in->bad = true;
	for (uint32_t i = 0; i < n && !in->bad; i++) {
		uint32_t type = nfs4_get32(in), flags = nfs4_get32(in), mask = nfs4_get32(in), len;
		const uint8_t *name = nfs4_get_opaque(in, WHO_MAX, &len);
		enum who who = name ? who_of(name, len) : NAMED;

		if (type > ALARM)
			in->bad = true;
		if (type > DENY)
			continue; /* it gives nothing and takes nothing */
		if (who == NAMED || flags & INHERIT)
			out->acl_more = true;
		if (!(flags & INHERIT_ONLY))
			count(who, type, mask, &group, &others);
	}
	if (in->bad)
		return -EBADMSG;
	if (n) /* an empty one stands for none */
		out->acl_mode = 07700 | rights(&group) << 3 | rights(&others);
	return 0;
}
