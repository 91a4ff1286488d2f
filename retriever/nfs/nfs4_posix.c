// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs4_posix.c - POSIX ACLs from an ACL of NFSv4; the rules: nfs4_posix.h
 *
 * What somebody has is found twice: at the least (what he is denied by a group counts, in which he
 * may be), and at the most.  If these differ, nobody can say it in one entry, and the ACL is only
 * near.  A group's most is what somebody has who is in that group alone: who is in several has what
 * any of them has, here as over there, if each has its most.
 */
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "nfs/nfs4_posix.h"

#define R 4u
#define W 2u
#define X 1u
#define OF_W   (NFS4_WRITE_DATA | NFS4_APPEND_DATA)
#define OF_RWX (NFS4_READ_DATA | OF_W | NFS4_EXECUTE)
#define NO_ID  ((uint32_t)ACL_UNDEFINED_ID)
/* What POSIX leaves to the owner, and what nobody can be refused. */
#define OF_OWNERS (NFS4_WRITE_ATTRIBUTES | NFS4_WRITE_ACL)
#define OF_ALL	  (NFS4_READ_ATTRIBUTES | NFS4_READ_ACL)

enum scope { HERE, FILES, DIRS };
enum certainty { NEVER, MAYBE, MUST };

struct rights { /* bits of masks */
	uint32_t allowed, denied;
};

/* Somebody who has an entry here. */
struct subject {
	unsigned int tag, perm;
	uint32_t id;
	bool idle; /* nothing is said of his r, w and x */
	bool near; /* perm is not all that is said of him */
	bool keeps; /* he is not to delete what others have made in the directory */
};

struct work {
	const struct nfs4_acl *acl;
	const struct stub_attr *a;
	struct nfs4_posix *out;
	bool dir, below;
	struct subject owner, group, other;
	struct subject named[NFS4_ACES_MAX];
	size_t n;
};

/* ---- of whom does an entry speak? ---- */

static bool counts(const struct nfs4_ace *e, enum scope scope)
{
	if (e->type != NFS4_ALLOW && e->type != NFS4_DENY)
		return false;
	if (scope == HERE)
		return !(e->flags & NFS4_INHERIT_ONLY);
	return e->flags & (scope == FILES ? NFS4_BY_FILES : NFS4_BY_DIRS);
}

static bool in_scope(const struct work *w, const struct nfs4_ace *e)
{
	return w->below ? counts(e, FILES) || counts(e, DIRS) : counts(e, HERE);
}

/* Of who makes something below, and owns it then, only OWNER@ and EVERYONE@ speak. */
static bool is_owners_own(const struct work *w, const struct nfs4_ace *e)
{
	return e->who == NFS4_A_USER && !w->below && e->id == w->a->uid;
}

static bool is_groups_own(const struct work *w, const struct nfs4_ace *e)
{
	return e->who == NFS4_GROUP ||
	       (e->who == NFS4_A_GROUP && !w->below && e->id == w->a->gid);
}

static enum certainty match_group(const struct work *w, const struct nfs4_ace *e,
				  const struct subject *s)
{
	bool own = is_groups_own(w, e);

	switch (s->tag) {
	case ACL_USER_OBJ:
		return w->below ? NEVER : MAYBE;
	case ACL_GROUP_OBJ:
		return own ? MUST : MAYBE;
	case ACL_GROUP:
		return !own && e->id == s->id ? MUST : MAYBE;
	case ACL_OTHER:
		return NEVER;
	default:
		return MAYBE;
	}
}

static enum certainty match(const struct work *w, const struct nfs4_ace *e,
			    const struct subject *s)
{
	switch (e->who) {
	case NFS4_EVERYONE:
		return MUST;
	case NFS4_OWNER:
		return s->tag == ACL_USER_OBJ ? MUST : NEVER;
	case NFS4_A_USER:
		if (s->tag == ACL_USER_OBJ)
			return is_owners_own(w, e) ? MUST : NEVER;
		return s->tag == ACL_USER && s->id == e->id ? MUST : NEVER;
	case NFS4_GROUP:
	case NFS4_A_GROUP:
		return match_group(w, e, s);
	case NFS4_STRANGER:
		break;
	}
	return MAYBE;
}

/* ---- what has he? ---- */

static void allow(struct rights *r, uint32_t mask)
{
	r->allowed |= mask & ~r->denied;
}

static void deny(struct rights *r, uint32_t mask)
{
	r->denied |= mask & ~r->allowed;
}

static void walk(const struct work *w, enum scope scope, const struct subject *s,
		 struct rights *least, struct rights *most)
{
	bool user = s->tag == ACL_USER_OBJ || s->tag == ACL_USER;

	*least = *most = (struct rights){ 0 };
	for (uint32_t i = 0; i < w->acl->n; i++) {
		const struct nfs4_ace *e = &w->acl->e[i];
		enum certainty c = counts(e, scope) ? match(w, e, s) : NEVER;

		if (c == NEVER)
			continue;
		if (e->type == NFS4_DENY) {
			deny(least, e->mask);
			if (c == MUST)
				deny(most, e->mask);
		} else {
			if (c == MUST && (scope == HERE || !(e->flags & NFS4_ONE_LEVEL)))
				allow(least, e->mask);
			if (c == MUST || user)
				allow(most, e->mask);
		}
	}
}

static unsigned int perm_of(uint32_t allowed)
{
	return (allowed & NFS4_READ_DATA ? R : 0) | ((allowed & OF_W) == OF_W ? W : 0) |
	       (allowed & NFS4_EXECUTE ? X : 0);
}

static uint32_t bits_of(unsigned int perm)
{
	return (perm & R ? NFS4_READ_DATA : 0) | (perm & W ? OF_W : 0) |
	       (perm & X ? NFS4_EXECUTE : 0);
}

/* Does his entry say what the ACL does? */
static bool is_exact(const struct work *w, const struct subject *s, const struct rights *least,
		     const struct rights *most)
{
	if ((most->allowed & OF_RWX) != bits_of(s->perm))
		return false;
	if (s->tag == ACL_USER_OBJ && least->denied & OF_OWNERS)
		return false;
	return !w->dir || s->perm & W || !(most->allowed & NFS4_DELETE_CHILD);
}

/* Is he, in so many words, not to delete what others made there?  (The owner may change that.) */
static bool may_not_delete(const struct work *w, const struct subject *s,
			   const struct rights *least)
{
	return w->dir && s->tag != ACL_USER_OBJ && least->denied & NFS4_DELETE_CHILD;
}

/* Somebody has w, and is not to delete. */
static void make_sticky(struct work *w)
{
	if (w->out->mode & S_ISVTX)
		return;
	w->out->mode |= S_ISVTX;
	w->out->near = true; /* others may not delete there, either */
}

static void judge_here(struct work *w, struct subject *s)
{
	struct rights least, most;

	walk(w, HERE, s, &least, &most);
	s->perm = perm_of(least.allowed);
	s->near = !is_exact(w, s, &least, &most);
	s->keeps = may_not_delete(w, s, &least);
	if (s->keeps && s->perm & W)
		make_sticky(w);
}

static void judge_below(struct work *w, struct subject *s)
{
	struct rights file, most_file, dir, most_dir;
	unsigned int of_dirs;

	walk(w, FILES, s, &file, &most_file);
	walk(w, DIRS, s, &dir, &most_dir);
	of_dirs = perm_of(dir.allowed);
	if (may_not_delete(w, s, &dir))
		of_dirs &= ~W; /* what inherits is not made sticky */
	s->perm = perm_of(file.allowed) & of_dirs;
	most_file.allowed &= OF_RWX; /* to delete children is nothing to a file */
	s->near = !is_exact(w, s, &file, &most_file) || !is_exact(w, s, &dir, &most_dir);
}

static void judge(struct work *w, struct subject *s)
{
	if (w->below)
		judge_below(w, s);
	else
		judge_here(w, s);
}

/* ---- who has an entry ---- */

static int named_cmp(const void *a, const void *b)
{
	const struct subject *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void collect(struct work *w)
{
	size_t n = 0;

	w->n = 0;
	for (uint32_t i = 0; i < w->acl->n; i++) {
		const struct nfs4_ace *e = &w->acl->e[i];
		uint32_t mask = e->mask & (w->dir ? OF_RWX | NFS4_DELETE_CHILD : OF_RWX);

		if ((e->who != NFS4_A_USER && e->who != NFS4_A_GROUP) || !in_scope(w, e) ||
		    is_owners_own(w, e) || is_groups_own(w, e) || (!mask && e->type == NFS4_DENY))
			continue;
		w->named[w->n++] = (struct subject){
			.tag = e->who == NFS4_A_USER ? ACL_USER : ACL_GROUP,
			.id = e->id,
			.idle = !(w->below ? mask : mask & OF_RWX),
		};
	}
	if (w->n)
		qsort(w->named, w->n, sizeof(w->named[0]), named_cmp);
	for (size_t i = 0; i < w->n; i++) {
		if (n && !named_cmp(&w->named[n - 1], &w->named[i]))
			w->named[n - 1].idle = w->named[n - 1].idle && w->named[i].idle;
		else
			w->named[n++] = w->named[i];
	}
	w->n = n;
}

/* Linux names those who have no r, w or x, too, and allows them to look at the attributes.  They
 * have an entry where that takes nothing from them. */
static void drop_idle(struct work *w)
{
	unsigned int groups = w->group.perm | w->other.perm;
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->named[i].tag == ACL_GROUP)
			groups |= w->named[i].perm;
	for (size_t i = 0; i < w->n; i++) {
		const struct subject *s = &w->named[i];

		if (!s->idle || !(s->tag == ACL_USER ? groups : w->other.perm))
			w->named[n++] = *s;
		else if (s->keeps && groups & W)
			make_sticky(w);
	}
	w->n = n;
}

static void judge_all(struct work *w, bool below)
{
	w->below = below;
	w->owner = (struct subject){ .tag = ACL_USER_OBJ };
	w->group = (struct subject){ .tag = ACL_GROUP_OBJ };
	w->other = (struct subject){ .tag = ACL_OTHER };
	collect(w);
	judge(w, &w->owner);
	judge(w, &w->group);
	judge(w, &w->other);
	for (size_t i = 0; i < w->n; i++)
		judge(w, &w->named[i]);
	drop_idle(w);
	w->out->near |= w->owner.near || w->group.near || w->other.near;
	for (size_t i = 0; i < w->n; i++)
		w->out->near |= w->named[i].near;
}

/* ---- the ACLs ---- */

static void put(struct posix_acl *acl, unsigned int tag, unsigned int perm, uint32_t id)
{
	acl->e[acl->n++] = (struct posix_acl_entry){ tag, perm, id };
}

/* @mask: what it has besides.  It has all that the entries below it have, so it takes nothing. */
static void build(const struct work *w, unsigned int mask, struct posix_acl *acl)
{
	size_t i = 0;

	mask |= w->group.perm;
	acl->n = 0;
	put(acl, ACL_USER_OBJ, w->owner.perm, NO_ID);
	for (; i < w->n && w->named[i].tag == ACL_USER; i++)
		put(acl, ACL_USER, w->named[i].perm, w->named[i].id);
	put(acl, ACL_GROUP_OBJ, w->group.perm, NO_ID);
	for (; i < w->n; i++)
		put(acl, ACL_GROUP, w->named[i].perm, w->named[i].id);
	for (i = 0; i < w->n; i++)
		mask |= w->named[i].perm;
	if (w->n)
		put(acl, ACL_MASK, mask, NO_ID);
	put(acl, ACL_OTHER, w->other.perm, NO_ID);
}

/* No more than the mode gives. */
static void limit(struct work *w, struct subject *s, unsigned int perm)
{
	w->out->near |= s->perm & ~perm & 7;
	s->perm &= perm;
}

/* Servers show the mask of their own POSIX ACL in the place of the group's bits. */
static void build_access(struct work *w)
{
	struct nfs4_posix *out = w->out;
	unsigned int mode = w->a->mode, group;

	judge_all(w, false);
	limit(w, &w->owner, mode >> 6);
	limit(w, &w->group, mode >> 3);
	limit(w, &w->other, mode);
	build(w, mode >> 3 & 7, &out->access);
	group = w->n ? out->access.e[out->access.n - 2].perm : w->group.perm;
	out->mode |= w->owner.perm << 6 | group << 3 | w->other.perm;
}

static void build_default(struct work *w)
{
	bool any = false, owner = false;

	for (uint32_t i = 0; i < w->acl->n; i++) {
		const struct nfs4_ace *e = &w->acl->e[i];

		if (!counts(e, FILES) && !counts(e, DIRS))
			continue;
		any = true;
		owner |= e->who == NFS4_OWNER;
	}
	if (!any)
		return;
	judge_all(w, true);
	if (!owner) {
		w->owner.perm = R | W | X;
		w->out->near = true;
	}
	build(w, 0, &w->out->def);
}

/* Is there something in it that no POSIX ACL says, whoever has it? */
static bool says_more(const struct work *w, const struct nfs4_ace *e)
{
	bool owner = e->who == NFS4_OWNER || is_owners_own(w, e);

	if (e->type > NFS4_DENY || e->who == NFS4_STRANGER)
		return true;
	if (e->type == NFS4_DENY && e->mask & OF_ALL)
		return true;
	if (e->type == NFS4_ALLOW && (e->mask & NFS4_DELETE ||
				      (!owner && e->mask & (OF_OWNERS | NFS4_WRITE_OWNER))))
		return true;
	return w->dir && e->flags & NFS4_ONE_LEVEL && e->flags & (NFS4_BY_FILES | NFS4_BY_DIRS);
}

void nfs4_posix_make(const struct nfs4_acl *acl, const struct stub_attr *a, struct nfs4_posix *out)
{
	struct work w;

	w.acl = acl;
	w.a = a;
	w.out = out;
	w.dir = S_ISDIR(a->mode);
	w.below = false;
	out->mode = a->mode & ~0777u;
	out->near = false;
	out->access.n = out->def.n = 0;
	for (uint32_t i = 0; i < acl->n && !out->near; i++)
		out->near = says_more(&w, &acl->e[i]);
	build_access(&w);
	if (w.dir)
		build_default(&w);
}
