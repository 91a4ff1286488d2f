/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_right.c - the walk over an access control list; its rules: top of smb_acl.h */
#include <errno.h>
#include <stdlib.h>

#include "windows/smb_right.h"

enum certainty { NEVER, MAYBE, MUST };

static const struct {
	uint64_t authority;
	unsigned int n;
	uint32_t sub[2];
	enum smb_who who;
} well_known[] = {
	{ 1, 1, { 0 }, SMB_WHO_EVERYONE },  { 2, 1, { 0 }, SMB_WHO_NOBODY }, /* LOCAL */
	{ 2, 1, { 1 }, SMB_WHO_NOBODY }, /* CONSOLE LOGON */
	{ 3, 1, { 0 }, SMB_WHO_NOBODY }, /* CREATOR OWNER: see smb_subject_kind */
	{ 3, 1, { 1 }, SMB_WHO_CREATORS },  { 3, 1, { 4 }, SMB_WHO_OWNER },
	{ 5, 1, { 1 }, SMB_WHO_NOBODY }, /* DIALUP */
	{ 5, 1, { 2 }, SMB_WHO_EVERYONE }, /* NETWORK: as all clients of a file server */
	{ 5, 1, { 3 }, SMB_WHO_NOBODY }, /* BATCH */
	{ 5, 1, { 4 }, SMB_WHO_NOBODY }, /* INTERACTIVE */
	{ 5, 1, { 6 }, SMB_WHO_NOBODY }, /* SERVICE */
	{ 5, 1, { 7 }, SMB_WHO_ANONYMOUS }, { 5, 1, { 11 }, SMB_WHO_KNOWN },
	{ 5, 1, { 13 }, SMB_WHO_NOBODY }, /* TERMINAL SERVER USER */
	{ 5, 1, { 14 }, SMB_WHO_NOBODY }, /* REMOTE INTERACTIVE LOGON */
	{ 5, 1, { 18 }, SMB_WHO_NOBODY }, /* SYSTEM */
	{ 5, 1, { 19 }, SMB_WHO_NOBODY }, /* LOCAL SERVICE */
	{ 5, 1, { 20 }, SMB_WHO_NOBODY }, /* NETWORK SERVICE */
};

static enum smb_who who_is(const struct smb_idmap *map, const struct smb_sid *sid,
			   struct smb_id *id)
{
	smb_idmap_find(map, sid, id);
	if (id->everyone)
		return SMB_WHO_EVERYONE;
	for (size_t i = 0; i < sizeof(well_known) / sizeof(well_known[0]); i++) {
		if (smb_sid_is(sid, well_known[i].authority, well_known[i].n, well_known[i].sub))
			return well_known[i].who;
	}
	return id->has_uid || id->has_gid ? SMB_WHO_IDS : SMB_WHO_UNKNOWN;
}

static uint32_t without_generic(uint32_t mask)
{
	static const struct {
		uint32_t generic, means;
	} rights[] = {
		{ 0x80000000u, 0x00120089u }, /* read */
		{ 0x40000000u, 0x00120116u }, /* write */
		{ 0x20000000u, 0x001200a0u }, /* execute */
		{ 0x10000000u, 0x001f01ffu }, /* all */
	};
	uint32_t out = mask & 0x0fffffffu;

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		if (mask & rights[i].generic)
			out |= rights[i].means;
	}
	return out;
}

static bool denies(uint8_t type)
{
	return type == SMB_ACE_DENY || type == SMB_ACE_DENY_OBJECT || type == SMB_ACE_DENY_IF ||
	       type == SMB_ACE_DENY_OBJECT_IF;
}

int smb_rules_make(const struct smb_idmap *map, const struct smb_sd *sd, struct smb_rules *out)
{
	out->n = 0;
	out->r = calloc(sd->n + 1, sizeof(*out->r));
	if (!out->r)
		return -ENOMEM;
	for (size_t i = 0; i < sd->n; i++) {
		const struct smb_ace *ace = &sd->aces[i];
		struct smb_rule *r = &out->r[out->n];

		r->deny = denies(ace->type);
		if (!r->deny && ace->type != SMB_ACE_ALLOW)
			continue;
		r->flags = ace->flags;
		r->mask = without_generic(ace->mask);
		r->who = ace->type == SMB_ACE_DENY_OBJECT_IF ? SMB_WHO_UNKNOWN :
							       who_is(map, &ace->sid, &r->id);
		if (r->who == SMB_WHO_OWNER && sd->has_owner)
			smb_idmap_find(map, &sd->owner, &r->id);
		r->owners = sd->has_numbers && sd->has_owner && r->who == SMB_WHO_UNKNOWN &&
			    !smb_sid_cmp(&ace->sid, &sd->owner);
		out->n++;
	}
	return 0;
}

void smb_rules_finish(struct smb_rules *r)
{
	free(r->r);
	r->r = NULL;
	r->n = 0;
}

bool smb_rule_counts(const struct smb_rule *r, enum smb_scope scope)
{
	if (scope == SMB_HERE)
		return !(r->flags & SMB_ACE_INHERIT_ONLY);
	if (!(r->flags & (scope == SMB_BY_FILES ? SMB_ACE_FILES : SMB_ACE_DIRS)))
		return false;
	return r->deny || !(r->flags & SMB_ACE_ONE_LEVEL);
}

static enum certainty ids_match(const struct smb_id *id, const struct smb_subject *s)
{
	bool user = s->kind == SMB_IS_OWNER || s->kind == SMB_IS_USER;

	if (user && id->has_uid && id->uid == s->id)
		return MUST;
	if (!id->has_gid || s->kind == SMB_IS_OTHER)
		return NEVER;
	return s->kind == SMB_IS_GROUP && id->gid == s->id ? MUST : MAYBE;
}

static enum certainty match(const struct smb_rule *r, enum smb_scope scope,
			    const struct smb_subject *s)
{
	switch (r->who) {
	case SMB_WHO_EVERYONE:
		return MUST;
	case SMB_WHO_KNOWN:
		return s->known ? MUST : MAYBE;
	case SMB_WHO_ANONYMOUS:
		return s->known ? NEVER : MAYBE;
	case SMB_WHO_OWNER:
		if (scope != SMB_HERE)
			return NEVER; /* the owner of a new object is not looked at here */
		return r->id.has_uid || r->id.has_gid ? ids_match(&r->id, s) : MAYBE;
	case SMB_WHO_CREATORS:
		if (scope == SMB_HERE || s->kind == SMB_IS_OTHER)
			return NEVER;
		return s->kind == SMB_IS_CREATORS ? MUST : MAYBE;
	case SMB_WHO_IDS:
		return ids_match(&r->id, s);
	case SMB_WHO_UNKNOWN:
		return r->owners && s->kind == SMB_IS_OWNER ? MUST : MAYBE;
	case SMB_WHO_NOBODY:
		break;
	}
	return NEVER;
}

uint32_t smb_rights(const struct smb_rules *rules, enum smb_scope scope,
		    const struct smb_subject *s)
{
	uint32_t granted = 0, denied = 0;

	for (size_t i = 0; i < rules->n; i++) {
		const struct smb_rule *r = &rules->r[i];
		enum certainty c;

		if (!smb_rule_counts(r, scope))
			continue;
		c = match(r, scope, s);
		if (r->deny && c != NEVER)
			denied |= r->mask & ~granted;
		else if (c == MUST || (c == MAYBE && s->generous && r->who == SMB_WHO_IDS))
			granted |= r->mask & ~denied;
	}
	return granted;
}
