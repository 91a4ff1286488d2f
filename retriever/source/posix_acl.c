// SPDX-License-Identifier: GPL-3.0-or-later
/* posix_acl.c - ACLs as the kernel stores them; a mode that gives no more; where they are kept. */
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bytes.h"
#include "source/posix_acl.h"
#include "source/source.h"

int posix_acl_compare(const void *a, const void *b)
{
	const struct posix_acl_entry *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->id == y->id ? 0 : x->id < y->id ? -1 : 1;
}

/* ---- as the kernel stores it ---- */

static size_t size_of(const struct posix_acl *acl)
{
	return POSIX_ACL_HEAD + POSIX_ACL_ENTRY * acl->n;
}

static void put(const struct posix_acl *acl, uint8_t *to)
{
	stub_put_le(to, POSIX_ACL_XATTR_VERSION, POSIX_ACL_HEAD);
	to += POSIX_ACL_HEAD;
	for (size_t i = 0; i < acl->n; i++, to += POSIX_ACL_ENTRY) {
		stub_put_le(to, acl->e[i].tag, 2);
		stub_put_le(to + 2, acl->e[i].perm, 2);
		stub_put_le(to + 4, acl->e[i].id, 4);
	}
}

/* One piece of memory, as source_meta_free() wants it. */
int posix_acl_pack(const struct posix_acl *access, const struct posix_acl *def,
		   const struct stub_xattr *last, struct source_meta *out)
{
	const struct posix_acl *acl[] = { access, def };
	static const char *const names[] = { POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT };
	struct stub_xattr *x;
	uint8_t *value;

	out->memory = x = malloc(3 * sizeof(*x) + size_of(access) + size_of(def) +
				 (last ? last->len : 0));
	if (!x)
		return -ENOMEM;
	value = (uint8_t *)(x + 3);
	out->xattrs = x;
	for (unsigned int i = 0; i < 2; i++) {
		if (!acl[i]->n)
			continue;
		put(acl[i], value);
		x[out->n++] = (struct stub_xattr){ names[i], value, size_of(acl[i]) };
		value += size_of(acl[i]);
	}
	if (last) {
		memcpy(value, last->value, last->len);
		x[out->n++] = (struct stub_xattr){ last->name, value, last->len };
	}
	return 0;
}

static bool is_named(unsigned int tag)
{
	return tag == ACL_USER || tag == ACL_GROUP;
}

static int take(const uint8_t *from, struct posix_acl_entry *e)
{
	e->tag = (unsigned int)stub_get_le(from, 2);
	e->perm = (unsigned int)stub_get_le(from + 2, 2);
	e->id = is_named(e->tag) ? (uint32_t)stub_get_le(from + 4, 4) : (uint32_t)ACL_UNDEFINED_ID;
	if (!e->tag || e->tag & (e->tag - 1) || e->tag > ACL_OTHER || e->perm > 7)
		return -EINVAL;
	return is_named(e->tag) && e->id == (uint32_t)ACL_UNDEFINED_ID ? -EINVAL : 0;
}

int posix_acl_unpack(const uint8_t *value, size_t len, struct posix_acl *out)
{
	unsigned int need = ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER, seen = 0;

	if (len < POSIX_ACL_HEAD || (len - POSIX_ACL_HEAD) % POSIX_ACL_ENTRY ||
	    (len - POSIX_ACL_HEAD) / POSIX_ACL_ENTRY > POSIX_ACL_MAX ||
	    stub_get_le(value, POSIX_ACL_HEAD) != POSIX_ACL_XATTR_VERSION)
		return -EINVAL;
	out->n = (len - POSIX_ACL_HEAD) / POSIX_ACL_ENTRY;
	for (size_t i = 0; i < out->n; i++) {
		if (take(value + POSIX_ACL_HEAD + i * POSIX_ACL_ENTRY, &out->e[i]))
			return -EINVAL;
		seen |= out->e[i].tag;
	}
	qsort(out->e, out->n, sizeof(out->e[0]), posix_acl_compare);
	for (size_t i = 1; i < out->n; i++)
		if (!posix_acl_compare(&out->e[i - 1], &out->e[i]))
			return -EINVAL;
	if (seen & (ACL_USER | ACL_GROUP))
		need |= ACL_MASK;
	return (seen & need) == need ? 0 : -EINVAL;
}

/* ---- beside a mode ---- */

void posix_acl_narrow(const uint8_t *value, size_t len, struct stub_attr *a)
{
	unsigned int mask = 7, group = 0, other = 0, users = 7, named = 7, seen = 0;

	for (size_t at = POSIX_ACL_HEAD; at + POSIX_ACL_ENTRY <= len; at += POSIX_ACL_ENTRY) {
		unsigned int tag = (unsigned int)stub_get_le(value + at, 2);
		unsigned int perm = (unsigned int)stub_get_le(value + at + 2, 2) & 7;

		seen |= tag;
		if (tag == ACL_USER)
			users &= perm;
		else if (tag == ACL_GROUP_OBJ)
			group = perm;
		else if (tag == ACL_GROUP)
			named &= perm;
		else if (tag == ACL_MASK)
			mask = perm;
		else if (tag == ACL_OTHER)
			other = perm;
	}
	group &= users & mask;
	if (seen & ACL_USER)
		other &= users & mask;
	if (seen & ACL_GROUP)
		other &= named & mask;
	a->mode &= ~077u | group << 3 | other;
}

void posix_acl_narrow_by(const struct posix_acl *acl, struct stub_attr *a)
{
	uint8_t value[POSIX_ACL_HEAD + POSIX_ACL_ENTRY * POSIX_ACL_MAX];

	if (!acl->n)
		return;
	put(acl, value);
	posix_acl_narrow(value, size_of(acl), a);
}

void posix_acl_agree(struct posix_acl *acl, struct stub_attr *a)
{
	for (size_t i = 0; i < acl->n; i++) {
		struct posix_acl_entry *e = &acl->e[i];
		unsigned int shift = e->tag == ACL_USER_OBJ ? 6 : e->tag == ACL_MASK ? 3 : 0;

		if (e->tag != ACL_USER_OBJ && e->tag != ACL_MASK && e->tag != ACL_OTHER)
			continue;
		e->perm &= a->mode >> shift;
		a->mode &= ~(7u << shift) | e->perm << shift;
	}
}

/* ---- where they are kept ---- */

bool posix_acl_kept(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool kept = fd < 0 || fgetxattr(fd, POSIX_ACL_ACCESS, NULL, 0) >= 0 || errno != EOPNOTSUPP;

	if (fd >= 0)
		close(fd);
	return kept;
}
