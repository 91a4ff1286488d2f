// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_ntacl.c - security.NTACL, as acl_xattr stores it; see smb_ntacl.h
 *
 * Version 4 of xattr_NTACL, in NDR: little-endian, each number at a multiple of its size.
 *
 *   u16 4, u16 4 (the union's branch), u32 pointer
 *   u32 pointer (the descriptor's), u16 1 (SHA-256), 64 bytes: hash of the descriptor that smbd would
 *   make of the POSIX ACL, 0: never looked up; "posix_acl" with its zero, u64 time,
 *   64 bytes: SHA-256 of smb_acl_wrapper, and zeros
 *   the descriptor, whose offsets count from the beginning of all this
 *
 * and of smb_acl_wrapper, of which only the hash is kept:
 *
 *   u32 pointer to the access ACL, u32 to the default ACL (0: a file's), u64 owner, u64 group, u32 mode
 *   of each ACL: u32 n; at 8: u32 n, u32 0; of each entry at 8: u16 tag, u16 tag, [at 8: u64 id], u32 perm
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "windows/smb_ntacl.h"

#define POINTER	     0x00020000u /* of the first; the next is 4 more */
#define HASH	     64
#define SHA256	     1
#define DESCRIPTION  "posix_acl"
#define SD_MAX	     65535 /* bytes: an ACL's size has 16 bits */
#define SD_HEAD	     20
#define ACL_HEAD     8
#define DACL_PRESENT 0x0004u
#define SELF	     0x8000u

const struct smb_sid smb_sid_everyone = { 1, 1, { 0 } };
const struct smb_sid smb_sid_creator = { 3, 1, { 0 } };
const struct smb_sid smb_sid_creators_group = { 3, 1, { 1 } };

struct smb_sid smb_sid_user(uint32_t uid)
{
	return (struct smb_sid){ 22, 2, { 1, uid } };
}

struct smb_sid smb_sid_group(uint32_t gid)
{
	return (struct smb_sid){ 22, 2, { 2, gid } };
}

/* ---- numbers ---- */

struct out {
	uint8_t *p; /* has room for all */
	size_t len;
};

static void put(struct out *o, uint64_t n, unsigned int size)
{
	while (o->len % size)
		o->p[o->len++] = 0;
	for (; size; size--, n >>= 8)
		o->p[o->len++] = (uint8_t)n;
}

static void put_bytes(struct out *o, const void *p, size_t n)
{
	memcpy(o->p + o->len, p, n);
	o->len += n;
}

/* ---- the descriptor ---- */

static size_t sid_size(const struct smb_sid *sid)
{
	return 8 + 4u * sid->n;
}

static void put_sid(struct out *o, const struct smb_sid *sid)
{
	uint8_t head[8] = { 1, sid->n };

	for (unsigned int i = 0; i < 6; i++)
		head[2 + i] = (uint8_t)(sid->authority >> (40 - 8 * i));
	put_bytes(o, head, sizeof(head));
	for (unsigned int i = 0; i < sid->n; i++)
		put(o, sid->sub[i], 4);
}

static size_t dacl_size(const struct smb_sd *sd)
{
	size_t size = ACL_HEAD;

	for (size_t i = 0; i < sd->n; i++)
		size += 8 + sid_size(&sd->aces[i].sid);
	return size;
}

static void put_dacl(struct out *o, const struct smb_sd *sd)
{
	put(o, 2, 2); /* revision */
	put(o, dacl_size(sd), 2);
	put(o, sd->n, 4);
	for (size_t i = 0; i < sd->n; i++) {
		const struct smb_ace *ace = &sd->aces[i];

		put(o, ace->type, 1);
		put(o, ace->flags, 1);
		put(o, 8 + sid_size(&ace->sid), 2);
		put(o, ace->mask, 4);
		put_sid(o, &ace->sid);
	}
}

static size_t sd_size(const struct smb_sd *sd)
{
	return SD_HEAD + sid_size(&sd->owner) + sid_size(&sd->group) + dacl_size(sd);
}

static void put_sd(struct out *o, const struct smb_sd *sd)
{
	size_t owner = o->len + SD_HEAD, group = owner + sid_size(&sd->owner);

	put(o, 1, 1); /* revision */
	put(o, 0, 1);
	put(o, SELF | DACL_PRESENT, 2);
	put(o, owner, 4);
	put(o, group, 4);
	put(o, 0, 4); /* no SACL */
	put(o, group + sid_size(&sd->group), 4);
	put_sid(o, &sd->owner);
	put_sid(o, &sd->group);
	put_dacl(o, sd);
}

/* ---- the file, as smbd sees it ---- */

static unsigned int tag_of(unsigned int tag)
{
	switch (tag) {
	case SMB_USER:
		return 1;
	case SMB_USER_OBJ:
		return 2;
	case SMB_GROUP:
		return 3;
	case SMB_GROUP_OBJ:
		return 4;
	case SMB_OTHER:
		return 5;
	default:
		return 6; /* SMB_MASK */
	}
}

static void put_acl(struct out *o, const struct smb_posix_acl *acl)
{
	put(o, acl->n, 4);
	while (o->len % 8)
		put(o, 0, 1);
	put(o, acl->n, 4);
	put(o, 0, 4);
	for (size_t i = 0; i < acl->n; i++) {
		const struct smb_posix_entry *e = &acl->e[i];

		while (o->len % 8)
			put(o, 0, 1);
		put(o, tag_of(e->tag), 2);
		put(o, tag_of(e->tag), 2);
		if (e->tag == SMB_USER || e->tag == SMB_GROUP)
			put(o, e->id, 8);
		put(o, e->perm, 4);
	}
}

static int hash(const struct smb_posix *p, mode_t type, uint8_t *out)
{
	struct out o = { malloc(64 + 24 * (p->access.n + p->def.n + 2)), 0 };
	int r;

	if (!o.p)
		return -ENOMEM;
	put(&o, POINTER, 4);
	put(&o, S_ISDIR(type) ? POINTER + 4 : 0, 4);
	put(&o, p->uid, 8);
	put(&o, p->gid, 8);
	put(&o, type | p->mode, 4);
	put_acl(&o, &p->access);
	if (S_ISDIR(type)) /* if there is none, an empty one */
		put_acl(&o, &p->def);
	memset(out, 0, HASH);
	r = EVP_Digest(o.p, o.len, out, NULL, EVP_sha256(), NULL) ? 0 : -ENOMEM;
	free(o.p);
	return r;
}

/* ---- the attribute ---- */

int smb_ntacl_make(const struct smb_sd *sd, const struct smb_posix *p, mode_t type, void **value,
		   size_t *len)
{
	static const uint8_t none[HASH];
	struct out o = { NULL, 0 };
	uint8_t sys[HASH];
	int r;

	if (dacl_size(sd) > SD_MAX)
		return -E2BIG;
	r = hash(p, type, sys);
	if (r < 0)
		return r;
	o.p = malloc(256 + sd_size(sd));
	if (!o.p)
		return -ENOMEM;
	put(&o, 4, 2);
	put(&o, 4, 2);
	put(&o, POINTER, 4);
	put(&o, POINTER + 4, 4);
	put(&o, SHA256, 2);
	put_bytes(&o, none, HASH);
	put_bytes(&o, DESCRIPTION, sizeof(DESCRIPTION));
	put(&o, 0, 8); /* when: nobody looks */
	put_bytes(&o, sys, HASH);
	put_sd(&o, sd);
	*value = o.p;
	*len = o.len;
	return 0;
}
