/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_acl.c - entries of a POSIX ACL from what a descriptor grants; rules: smb_acl.h */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "windows/smb_acl.h"
#include "windows/smb_right.h"

#define R     4u
#define W     2u
#define X     1u
#define NO_ID UINT32_MAX

/* A user or group that some ACE names. */
struct named {
	uint16_t tag; /* SMB_USER, SMB_GROUP */
	uint16_t perm;
	uint32_t id;
	bool denied; /* he is denied something, so that the entry must stay */
};

struct work {
	struct smb_rules rules;
	bool dir, strict, sticky;
	unsigned int all; /* what everybody may do in any case */
	struct smb_subject owner, group;
	bool owner_is_named; /* the file is root's, and the owner has a user's entry */
	struct named *named;
	size_t n;
};

static unsigned int perm_of(uint32_t granted, bool dir)
{
	const uint32_t r = SMB_LIST_DIRECTORY | SMB_READ_EA;
	const uint32_t w = SMB_WRITE_DATA | SMB_APPEND_DATA | SMB_WRITE_EA | SMB_WRITE_ATTRIBUTES;

	return ((granted & r) == r ? R : 0) | ((granted & w) == w ? W : 0) |
	       (granted & SMB_EXECUTE ? X : 0);
}

/* May @s delete all that inherits from here?  Not if anybody may not: somebody who is denied
 * something only below this directory has no entry here. */
static bool deletes_below(const struct work *w, const struct smb_subject *s)
{
	uint32_t granted = smb_rights(&w->rules, SMB_BY_FILES, s) &
			   smb_rights(&w->rules, SMB_BY_DIRS, s);

	for (size_t i = 0; i < w->rules.n; i++) {
		const struct smb_rule *r = &w->rules.r[i];

		if (r->deny && (r->mask & SMB_DELETE) && r->who != SMB_WHO_NOBODY &&
		    (r->flags & (SMB_ACE_FILES | SMB_ACE_DIRS)))
			return false;
	}
	return granted & SMB_DELETE;
}

/* What @s may do with this object; also notes if the directory must become sticky. */
static unsigned int perm_here(struct work *w, const struct smb_subject *s)
{
	uint32_t granted = smb_rights(&w->rules, SMB_HERE, s);
	unsigned int perm = perm_of(granted, w->dir) | w->all;

	if (w->dir && (perm & W) && !(granted & SMB_DELETE_CHILD) &&
	    (w->strict || !deletes_below(w, s)))
		w->sticky = true;
	return perm;
}

/* What @s may do with everything that is made in this directory. */
static unsigned int perm_below(struct work *w, const struct smb_subject *s)
{
	uint32_t files = smb_rights(&w->rules, SMB_BY_FILES, s);
	uint32_t dirs = smb_rights(&w->rules, SMB_BY_DIRS, s);
	unsigned int perm = perm_of(files, false) & perm_of(dirs, true);

	if (!(dirs & SMB_DELETE_CHILD) && (w->strict || !(files & dirs & SMB_DELETE)))
		perm &= ~W;
	return perm;
}

static int named_cmp(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static bool in_scope(const struct smb_rule *r, bool below)
{
	if (!below)
		return smb_rule_counts(r, SMB_HERE);
	return smb_rule_counts(r, SMB_BY_FILES) || smb_rule_counts(r, SMB_BY_DIRS);
}

static void name_one(struct work *w, uint16_t tag, uint32_t id, bool denied)
{
	w->named[w->n++] = (struct named){ .tag = tag, .id = id, .denied = denied };
}

/* Collect everybody whom an ACE names, once.  For this object (not @below) without owner and
 * group, which have entries of their own. */
static void collect(struct work *w, bool below)
{
	size_t n = 0;

	w->n = 0;
	for (size_t i = 0; i < w->rules.n; i++) {
		const struct smb_rule *r = &w->rules.r[i];

		if ((r->who != SMB_WHO_IDS && (r->who != SMB_WHO_OWNER || below)) ||
		    !in_scope(r, below))
			continue;
		if (r->id.has_uid && (below || w->owner_is_named || r->id.uid != w->owner.id))
			name_one(w, SMB_USER, r->id.uid, r->deny);
		if (r->id.has_gid && (below || r->id.gid != w->group.id))
			name_one(w, SMB_GROUP, r->id.gid, r->deny);
	}
	if (w->owner_is_named && !below)
		name_one(w, SMB_USER, w->owner.id, true);
	qsort(w->named, w->n, sizeof(*w->named), named_cmp);
	for (size_t i = 0; i < w->n; i++) {
		if (n && !named_cmp(&w->named[n - 1], &w->named[i]))
			w->named[n - 1].denied |= w->named[i].denied;
		else
			w->named[n++] = w->named[i];
	}
	w->n = n;
}

static void grant(struct work *w, bool below)
{
	for (size_t i = 0; i < w->n; i++) {
		struct named *x = &w->named[i];
		struct smb_subject s = { x->tag == SMB_USER ? SMB_IS_USER : SMB_IS_GROUP, x->id,
					 true, false };

		if (!below && w->owner_is_named && x->tag == SMB_USER && x->id == w->owner.id)
			s = w->owner;
		x->perm = (uint16_t)(below ? perm_below(w, &s) : perm_here(w, &s));
	}
}

/*
 * Who is denied nothing needs no entry: without it he gets what all others get.  Leave his
 * entry out if that is no less, and root's in any case.
 */
static void prune(struct work *w, unsigned int group, unsigned int other)
{
	unsigned int least = group & other;
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++) {
		if (w->named[i].tag == SMB_GROUP)
			least &= w->named[i].perm;
	}
	for (size_t i = 0; i < w->n; i++) {
		const struct named *x = &w->named[i];
		unsigned int without = x->tag == SMB_USER ? least : other;

		if (x->denied || (x->id != 0 && (x->perm & ~without)))
			w->named[n++] = *x;
	}
	w->n = n;
}

/* Leave entries out until there are @max.  If one that must stay has no room, only the owner has
 * access. */
static bool cut(struct work *w, size_t max)
{
	size_t keep = max > 4 ? max - 4 : 0;
	bool shorter = w->n > keep;

	for (size_t i = w->n; i-- > 0 && w->n > keep;) {
		if (w->named[i].denied)
			continue;
		memmove(&w->named[i], &w->named[i + 1], (w->n - i - 1) * sizeof(*w->named));
		w->n--;
	}
	return shorter;
}

static void put(struct smb_posix_acl *acl, uint16_t tag, unsigned int perm, uint32_t id)
{
	acl->e[acl->n++] = (struct smb_posix_entry){ tag, (uint16_t)perm, id };
}

static int build(const struct work *w, unsigned int owner, unsigned int group, unsigned int other,
		 struct smb_posix_acl *acl)
{
	unsigned int mask = group;
	size_t i = 0;

	acl->e = calloc(w->n + 4, sizeof(*acl->e));
	if (!acl->e)
		return -ENOMEM;
	put(acl, SMB_USER_OBJ, owner, NO_ID);
	for (; i < w->n && w->named[i].tag == SMB_USER; i++)
		put(acl, SMB_USER, w->named[i].perm, w->named[i].id);
	put(acl, SMB_GROUP_OBJ, group, NO_ID);
	for (; i < w->n; i++)
		put(acl, SMB_GROUP, w->named[i].perm, w->named[i].id);
	for (i = 0; i < w->n; i++)
		mask |= w->named[i].perm;
	if (w->n)
		put(acl, SMB_MASK, mask, NO_ID);
	put(acl, SMB_OTHER, other, NO_ID);
	return 0;
}

static int build_access(struct work *w, size_t max, struct smb_posix *out)
{
	static const struct smb_subject others = { SMB_IS_OTHER, 0, false, false };
	unsigned int owner, group = perm_here(w, &w->group), other = perm_here(w, &others);
	int r;

	if (w->owner_is_named) {
		struct smb_subject root = { SMB_IS_USER, 0, true, false };

		owner = perm_of(smb_rights(&w->rules, SMB_HERE, &root), w->dir) | w->all;
	} else {
		owner = perm_of(smb_rights(&w->rules, SMB_HERE, &w->owner), w->dir) | w->all;
	}
	collect(w, false);
	grant(w, false);
	prune(w, group, other);
	if (cut(w, max)) {
		out->cut = true;
		if (w->n + 4 > max && w->n) {
			w->n = 0;
			group = other = w->all;
		}
	}
	r = build(w, owner, group, other, &out->access);
	if (r == 0 && w->n) /* the mode shows the mask in the place of the group */
		group = out->access.e[out->access.n - 2].perm;
	out->mode = (w->sticky ? 01000u : 0) | owner << 6 | group << 3 | other;
	return r;
}

static int build_default(struct work *w, size_t max, struct smb_posix *out)
{
	static const struct smb_subject others = { SMB_IS_OTHER, 0, false, false };
	static const struct smb_subject creators = { SMB_IS_CREATORS, 0, false, false };
	unsigned int group = perm_below(w, &creators), other = perm_below(w, &others);
	bool any = false;

	for (size_t i = 0; i < w->rules.n && !any; i++)
		any = in_scope(&w->rules.r[i], true);
	if (!any)
		return 0;
	collect(w, true);
	grant(w, true);
	prune(w, group, other);
	if (cut(w, max)) {
		out->cut = true;
		if (w->n + 4 > max && w->n) {
			w->n = 0;
			group = other = 0;
		}
	}
	return build(w, R | W | X, group, other, &out->def);
}

/* There is no DACL: nothing is said of who may do what, or (@all) everybody may do everything. */
static int build_without(struct work *w, bool all, struct smb_posix *out)
{
	unsigned int owner = all || w->dir ? R | W | X : R | W, rest = all ? R | W | X : w->all;

	w->n = 0;
	out->mode = owner << 6 | rest << 3 | rest;
	return build(w, owner, rest, rest, &out->access);
}

static void owners(struct work *w, const struct smb_idmap *map, const struct smb_sd *sd,
		   struct smb_posix *out)
{
	struct smb_id owner = { 0 }, group = { 0 };
	bool restricted = false;

	if (sd->has_owner)
		smb_idmap_find(map, &sd->owner, &owner);
	if (sd->has_group)
		smb_idmap_find(map, &sd->group, &group);
	for (size_t i = 0; i < w->rules.n; i++) {
		if (w->rules.r[i].who == SMB_WHO_OWNER && in_scope(&w->rules.r[i], false))
			restricted = true;
	}
	if (sd->has_numbers) { /* an id that is not the table's for this SID: he is not known */
		owner.has_uid = owner.has_uid && owner.uid == sd->uid;
		group.has_gid = group.has_gid && group.gid == sd->gid;
	}
	out->owner_unknown = !owner.has_uid;
	out->group_unknown = !group.has_gid;
	out->uid = sd->has_numbers ? sd->uid :
		   owner.has_uid   ? owner.uid :
				     smb_idmap_default_uid(map);
	out->gid = sd->has_numbers ? sd->gid :
		   group.has_gid   ? group.gid :
				     smb_idmap_default_gid(map);
	w->owner = (struct smb_subject){ SMB_IS_OWNER, out->uid, owner.has_uid,
					 owner.has_uid && !restricted };
	w->group = (struct smb_subject){ SMB_IS_GROUP, out->gid, group.has_gid, false };
	if (restricted && (owner.has_uid || sd->has_numbers) && out->uid != 0 &&
	    !(smb_rights(&w->rules, SMB_HERE, &w->owner) & SMB_WRITE_DAC)) {
		w->owner_is_named = out->owner_rights = true;
		out->uid = 0;
	}
}

int smb_acl_map(const struct smb_idmap *map, const struct smb_sd *sd, unsigned int flags,
		size_t max, struct smb_posix *out)
{
	struct work w = { .dir = flags & SMB_ACL_DIR, .strict = flags & SMB_ACL_STRICT_DELETE };
	int r;

	w.all = w.dir && (flags & SMB_ACL_TRAVERSE) ? X : 0;
	memset(out, 0, sizeof(*out));
	if (sd->n > SMB_ACES_MAX)
		return -E2BIG;
	r = smb_rules_make(map, sd, &w.rules);
	if (r == 0) {
		w.named = calloc(2 * w.rules.n + 1, sizeof(*w.named));
		r = w.named ? 0 : -ENOMEM;
	}
	if (r == 0) {
		owners(&w, map, sd, out);
		if (!sd->dacl_present || sd->dacl_null)
			r = build_without(&w, sd->dacl_present, out);
		else
			r = build_access(&w, max, out);
	}
	if (r == 0 && w.dir)
		r = build_default(&w, max, out);
	if (r < 0)
		smb_posix_finish(out);
	free(w.named);
	smb_rules_finish(&w.rules);
	return r;
}

void smb_posix_finish(struct smb_posix *p)
{
	free(p->access.e);
	free(p->def.e);
	memset(&p->access, 0, sizeof(p->access));
	memset(&p->def, 0, sizeof(p->def));
}

int smb_acl_encode(const struct smb_posix_acl *acl, void **value, size_t *len)
{
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} * e;
	uint32_t version = htole32(2);
	char *buf;

	*len = sizeof(version) + acl->n * sizeof(*e);
	*value = buf = malloc(*len);
	if (!buf)
		return -ENOMEM;
	memcpy(buf, &version, sizeof(version));
	e = (void *)(buf + sizeof(version));
	for (size_t i = 0; i < acl->n; i++) {
		e[i].tag = htole16(acl->e[i].tag);
		e[i].perm = htole16(acl->e[i].perm);
		e[i].id = htole32(acl->e[i].id);
	}
	return 0;
}
