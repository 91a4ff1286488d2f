/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight_root.c - is uid 0 root on the old server, or squashed to somebody?
 *
 * ACCESS tells what we may do; the mode bits tell what anybody may. Whoever is
 * granted what the mode bits give to the owner alone is the owner or root; where
 * the owner is uid 0, or not even the owner has the bit, only root is left: proof.
 * Root is never denied reading by modes, but may be by an ACL. So after a denial the whole
 * sample is looked at, and more denials than proofs mean that root is squashed. Then init
 * refuses, and tells what was seen.
 *
 * Looked at breadth-first, so that a home directory next to a deep public tree is
 * met early. Objects that everybody may read say nothing and cost no call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preflight/preflight.h"
#include "source/uri.h"

#define ACCESS_READ   0x01 /* RFC 1813 section 3.3.4 */
#define ACCESS_LOOKUP 0x02
#define ACCESS_MODIFY 0x04

struct node { /* a directory to be listed, or an object to be asked about */
	struct node *parent;
	struct stub_origin origin;
	struct stub_attr attr;
	char name[]; /* "" for the root */
};

struct sample {
	struct verdict *v;
	struct source *s;
	struct source_facts *facts;
	struct node *node[PREFLIGHT_SAMPLE + 1]; /* in the order found */
	unsigned int n;
	unsigned int budget; /* entries of the directory that is being listed */
	struct node *dir;
	int error;
	/* granted to the owner alone by mode, and the owner is not uid 0: weak proof */
	bool private_seen;
	uint32_t private_owner;
	unsigned int proofs, denials; /* objects */
	const struct node *denied;    /* the first one, and what */
	const char *denied_what;
};

static int node_add(struct sample *p, struct node *parent, const char *name, size_t len,
		    const uint8_t *origin, size_t origin_len, const struct stub_attr *a)
{
	struct node *n = calloc(1, sizeof(*n) + len + 1);

	if (!n)
		return -ENOMEM;
	n->parent = parent;
	n->origin.len = (uint16_t)origin_len;
	memcpy(n->origin.bytes, origin, origin_len);
	n->attr = *a;
	memcpy(n->name, name, len);
	p->node[p->n++] = n;
	return 0;
}

/* "/a/b" of a node; the end if it is too long. */
static const char *node_path(const struct node *n, char *buf, size_t size)
{
	size_t at = size - 1;

	buf[at] = '\0';
	for (; n->parent; n = n->parent) {
		size_t len = strlen(n->name);

		if (at < len + 1)
			break;
		at -= len;
		memcpy(buf + at, n->name, len);
		buf[--at] = '/';
	}
	return buf[at] ? buf + at : "/";
}

/* Count a denial; 1: so what is below the object cannot be looked at. */
static int deny(struct sample *p, const struct node *n, const char *what)
{
	if (!p->denials++) {
		p->denied = n;
		p->denied_what = what;
	}
	return 1;
}

/* What does the grant of the permission @bit (4, 2, 1 of a mode) prove? */
static bool proves(struct sample *p, const struct stub_attr *a, unsigned int bit)
{
	bool owner = a->mode & (bit << 6), group = a->mode & (bit << 3), other = a->mode & bit;
	bool two = p->private_seen && p->private_owner != a->uid; /* nobody is two owners */

	if (other || group)
		return false;
	if (a->uid == 0 || !owner)
		return true;
	p->private_seen = true;
	p->private_owner = a->uid;
	return two;
}

/* Ask about one object. 1: denied; -1: the verdict is set. */
static int examine(struct sample *p, const struct node *n)
{
	const struct stub_attr *a = &n->attr;
	uint32_t want = ACCESS_READ | ACCESS_MODIFY, granted;
	bool dir = S_ISDIR(a->mode), proof;
	int r;

	if (!dir && !S_ISREG(a->mode))
		return 0;
	if (dir)
		want |= ACCESS_LOOKUP;
	r = source_access(p->s, &n->origin, 0, want, &granted);
	if (r == -EACCES)
		return deny(p, n, "look at");
	if (r == -ENOENT || r == -ESTALE)
		return 0; /* removed meanwhile */
	if (r < 0)
		return verdict_fail(p->v, r == -ETIMEDOUT ? FAIL_UNREACHABLE : FAIL_SOURCE,
				    "source %s: ACCESS fails: %s", p->facts->uri, strerror(-r));
	if (!(granted & ACCESS_READ))
		return deny(p, n, dir ? "list" : "read");
	if (dir && !(granted & ACCESS_LOOKUP))
		return deny(p, n, "search");
	proof = proves(p, a, 4);
	if (granted & ACCESS_MODIFY)
		proof |= proves(p, a, 2);
	if (dir)
		proof |= proves(p, a, 1);
	p->proofs += proof;
	return 0;
}

/* Can it tell anything whether this object may be read? */
static bool telling(const struct stub_attr *a)
{
	unsigned int read_by_all = S_ISDIR(a->mode) ? 0005 : 0004;

	return (a->mode & read_by_all) != read_by_all;
}

static int take_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct sample *p = arg;

	for (size_t i = 0; i < n; i++) {
		if (p->n > PREFLIGHT_SAMPLE || p->budget-- == 0)
			return 1;
		p->facts->sampled++;
		if (e[i].error || stub_name_check(e[i].name, e[i].name_len) < 0)
			continue; /* the retriever parks it */
		p->error = node_add(p, p->dir, e[i].name, e[i].name_len, e[i].origin,
				    e[i].origin_len, &e[i].attr);
		if (p->error)
			return 1;
	}
	return 0;
}

static int list(struct sample *p, struct node *dir)
{
	int r;

	p->dir = dir;
	p->budget = PREFLIGHT_SAMPLE / 20; /* one huge directory must not be all we see */
	r = source_list(p->s, SOURCE_DEMAND, &dir->origin, NULL, take_entries, p);
	if (r == -EACCES)
		return deny(p, dir, "list");
	if (p->error || r == -ENOMEM)
		return verdict_fail(p->v, FAIL_INTERNAL, "out of memory");
	if (r == -ETIMEDOUT)
		return verdict_fail(p->v, FAIL_UNREACHABLE, "source %s does not answer any more",
				    p->facts->uri);
	if (r < 0 && r != -ENOENT && r != -ESTALE && r != -EAGAIN) {
		char buf[512];

		return verdict_fail(p->v, FAIL_SOURCE, "source %s: cannot list '%s': %s",
				    p->facts->uri, node_path(dir, buf, sizeof(buf)), strerror(-r));
	}
	return 0;
}

/* Is root known not to be squashed? After a denial only the whole sample tells. */
static bool clear(const struct sample *p)
{
	return p->proofs && !p->denials;
}

static int search(struct sample *p)
{
	uint64_t end = stub_now_ms() + PREFLIGHT_SAMPLE_MS;

	for (unsigned int i = 0; i < p->n && !clear(p) && stub_now_ms() < end; i++) {
		struct node *n = p->node[i];
		/* the root is always asked about: often it is all the proof needed */
		int r = i == 0 || telling(&n->attr) ? examine(p, n) : 0;

		if (r == 0 && S_ISDIR(n->attr.mode) && p->n <= PREFLIGHT_SAMPLE && !clear(p))
			r = list(p, n);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* More denials than proofs: root is squashed; no more than proofs: an ACL may be the reason. */
static int judge_denials(struct sample *p)
{
	const char *how = source_uri_kerberos(p->facts->uri) ?
				  "have the old server take our Kerberos principal for root" :
				  "export it to this machine with no_root_squash, read-only";
	char buf[512], denied[768], more[64] = "", seen[96];
	const struct stub_attr *a = &p->denied->attr;

	if (p->denials > 1)
		snprintf(more, sizeof(more), " and %u more", p->denials - 1);
	snprintf(denied, sizeof(denied), "uid 0 may not %s '%s' (mode %04o, uid %u)%s",
		 p->denied_what, node_path(p->denied, buf, sizeof(buf)), a->mode & 07777, a->uid,
		 more);
	snprintf(seen, sizeof(seen), "on %u objects it may what only root may", p->proofs);
	if (p->proofs >= p->denials) {
		verdict_warn(p->v, "root-denied",
			     "%s: %s, by an ACL, it seems, since %s; what it may not read is parked as "
			     "an error ('postcopy init --check --read' names it)",
			     p->facts->uri, denied, seen);
		return 0;
	}
	if (p->denials > 1 && !p->proofs)
		return verdict_fail(p->v, FAIL_SQUASHED,
				    "root is squashed on %s: %s; %s", p->facts->uri, denied, how);
	return verdict_fail(p->v, FAIL_SQUASHED,
			    "%s: %s, and %s: either root is squashed (%s), or an ACL denies it (give "
			    "root the right to read there)",
			    p->facts->uri, denied,
			    p->proofs ? seen : "nothing else looked at tells more", how);
}

int preflight_root(struct verdict *v, struct source *s, struct source_facts *facts)
{
	struct sample *p = calloc(1, sizeof(*p));
	int r = -1;

	if (!p)
		return verdict_fail(v, FAIL_INTERNAL, "out of memory");
	p->v = v;
	p->s = s;
	p->facts = facts;
	if (node_add(p, NULL, "", 0, facts->root.bytes, facts->root.len, &facts->attr) == 0)
		r = search(p);
	else
		verdict_fail(v, FAIL_INTERNAL, "out of memory");
	facts->root_proven = p->proofs > 0;
	if (r == 0 && p->denials)
		r = judge_denials(p);
	else if (r == 0 && !facts->root_proven)
		verdict_warn(
			v, "root-unproven",
			"%s: none of %u entries looked at can tell whether root is squashed%s; "
			"make sure of no_root_squash",
			facts->uri, facts->sampled,
			p->private_seen ? " (private ones all belong to one user)" : "");
	for (unsigned int i = 0; i < p->n; i++)
		free(p->node[i]);
	free(p);
	return r;
}
