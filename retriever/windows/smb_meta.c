/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_meta.c - one object's metadata, from what the server says to what is stored.
 *
 * The descriptor is the last attribute: it holds a hash over owner, mode and ACLs.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "windows/smb_meta_internal.h"

#define ACCESS	"system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

#define EPOCH	    11644473600 /* seconds from 1601 to 1970 */
#define TICKS	    10000000 /* NTTIME in a second */
#define ACL_MAX	    5400 /* entries: XFS takes no more */
/* Left for the stub's record where all attributes share their space: with an origin of up to
 * ORIGIN_ROOM bytes. */
#define RECORD_ROOM 768
#define ORIGIN_ROOM 256

/* ---- times ----------------------------------------------------------------------- */

static bool time_known(uint64_t t)
{
	return t != 0 && t <= INT64_MAX;
}

static struct timespec time_of(uint64_t t)
{
	return (struct timespec){ (time_t)(t / TICKS) - EPOCH, (long)(t % TICKS) * 100 };
}

/* The first one that is known. */
static struct timespec time_or(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t t = time_known(a) ? a : time_known(b) ? b : c;

	return time_known(t) ? time_of(t) : (struct timespec){ 0 };
}

static void times(const struct smb_meta_in *in, struct smb_meta *out)
{
	out->mtime = time_or(in->write_time, in->change_time, in->create_time);
	out->atime = time_or(in->access_time, in->write_time, in->change_time);
	out->ctime = time_or(in->change_time, in->write_time, in->create_time);
	if (time_known(in->create_time))
		out->btime = time_of(in->create_time);
}

/* ---- attributes -------------------------------------------------------------------- */

#define ATTR_DIRECTORY 0x10u
/* Attributes that are dropped and not reported as lost: NORMAL (no other one is set), SPARSE (not
 * for stubs), and those that tell where the data is: OFFLINE, PINNED, UNPINNED, RECALL_ON_OPEN,
 * RECALL_ON_DATA_ACCESS */
#define ATTR_MUTE 0x005c1280u

int smb_meta_dosattrib(bool dir, uint32_t attributes, uint64_t create_time, void **value,
		       size_t *len)
{
	return smb_ndr_dosattrib((attributes & SMB_ATTR_STORED) | (dir ? ATTR_DIRECTORY : 0),
				 time_known(create_time) ? create_time : 0, value, len);
}

static int attributes(struct smb_maker *m, const struct smb_meta_in *in)
{
	static const char *const names[32] = {
		[3] = "VOLUME",		[6] = "DEVICE",	     [8] = "TEMPORARY",
		[10] = "REPARSE_POINT", [11] = "COMPRESSED", [13] = "NOT_CONTENT_INDEXED",
		[14] = "ENCRYPTED",	[15] = "INTEGRITY",  [17] = "NO_SCRUB",
	};
	uint32_t lost = in->attributes & ~(SMB_ATTR_STORED | ATTR_DIRECTORY | ATTR_MUTE);
	size_t len;
	void *value;
	int r = 0;

	for (unsigned int i = 0; i < 32 && r == 0; i++) {
		if (!(lost & (1u << i)))
			continue;
		if (names[i])
			r = smb_meta_lose(m, SMB_LOST_KIND, 0, "attribute %s", names[i]);
		else
			r = smb_meta_lose(m, SMB_LOST_KIND, 0, "attribute 0x%x", 1u << i);
	}
	if (r == 0)
		r = smb_meta_dosattrib(S_ISDIR(in->type), in->attributes, in->create_time, &value,
				       &len);
	return r < 0 ? r : smb_meta_add(m, "user.DOSATTRIB", value, len, "attributes");
}

/* ---- access -------------------------------------------------------------------------- */

static size_t acl_max(const struct smb_meta_config *c)
{
	size_t bytes = c->limits.all ? c->limits.all / 4 : c->limits.value;

	bytes = bytes < SMB_XATTR_MAX ? bytes : SMB_XATTR_MAX;
	return bytes / 8 < ACL_MAX ? bytes / 8 : ACL_MAX;
}

static int add_acl(struct smb_maker *m, const struct smb_posix_acl *acl, const char *name,
		   const char *what)
{
	void *value;
	size_t len;
	int r = smb_acl_encode(acl, &value, &len);

	return r < 0 ? r : smb_meta_add(m, name, value, len, "%s", what);
}

/* Bytes as smb_meta_add() counts them; an ACL that is no more than a mode is not stored. */
static size_t acl_cost(const struct smb_posix *p)
{
	size_t access = p->access.n > 3 ? 4 + 8 * p->access.n + strlen(ACCESS) + SMB_ATTR_COST : 0;
	size_t def = p->def.n ? 4 + 8 * p->def.n + strlen(DEFAULT) + SMB_ATTR_COST : 0;

	return access + def;
}

/*
 * A server that has no descriptor for the object says nothing of who may do what.  With an
 * ACL the mode shows the ACL's mask: if there is no room for the ACL, a mode is made without.
 */
static int access_make(const struct smb_meta_config *c, const struct smb_meta_in *in,
		       const struct smb_ndr_sd *sd, struct smb_maker *m, struct smb_posix *p)
{
	struct smb_sd view = { 0 };
	unsigned int flags = (S_ISDIR(in->type) ? SMB_ACL_DIR : 0) |
			     (c->strict_delete ? SMB_ACL_STRICT_DELETE : 0) |
			     (c->traverse ? SMB_ACL_TRAVERSE : 0);
	struct smb_meta *out = m->out;
	int r;

	if (sd)
		view = *smb_ndr_sd_view(sd);
	view.has_numbers = in->has_numbers;
	view.uid = in->uid;
	view.gid = in->gid;
	r = smb_acl_map(c->idmap, &view, flags, acl_max(c), p);
	if (r == 0 && acl_cost(p) > m->room) {
		smb_posix_finish(p);
		r = smb_acl_map(c->idmap, &view, flags, 0, p);
		if (r == 0 && acl_cost(p) > m->room)
			r = -ENOSPC;
	}
	if (r < 0)
		return r;
	if (in->has_numbers) /* never set-ID root of what was another user's */
		p->mode |= in->bits & (p->owner_rights ? S_ISGID | S_ISVTX : 07000);
	out->uid = p->uid;
	out->gid = p->gid;
	out->mode = in->type | p->mode;
	out->owner_unknown = p->owner_unknown;
	out->group_unknown = p->group_unknown;
	out->owner_rights = p->owner_rights;
	out->acl_cut = p->cut;
	if (p->access.n > 3)
		r = add_acl(m, &p->access, ACCESS, "POSIX ACL");
	if (r == 0 && p->def.n)
		r = add_acl(m, &p->def, DEFAULT, "default POSIX ACL");
	return r;
}

static int descriptor(const struct smb_meta_in *in, const struct smb_ndr_sd *sd,
		      const struct smb_posix *p, struct smb_maker *m)
{
	unsigned int cut = smb_ndr_sd_cut(sd);
	size_t len;
	void *value;
	int r = 0;

	if (cut)
		r = smb_meta_lose(m, SMB_LOST_KIND, 0,
				  "conditions of %u entries of the security descriptor", cut);
	if (r == 0)
		r = smb_ndr_ntacl(sd, p, in->type,
				  time_known(in->change_time) ? in->change_time : 0, &value, &len);
	return r < 0 ? r : smb_meta_add(m, "security.NTACL", value, len, "security descriptor");
}

/* The descriptor gets its room before the other attributes, and is stored after them. */
static int descriptor_and_others(const struct smb_meta_in *in, const struct smb_ndr_sd *sd,
				 const struct smb_posix *p, bool depot, struct smb_maker *m)
{
	struct smb_meta *out = m->out;
	size_t at = out->n;
	int r = sd ? descriptor(in, sd, p, m) : 0;
	bool added = out->n > at;
	struct smb_xattr acl;

	if (r == 0)
		r = smb_meta_eas(m, in);
	if (r == 0 && !depot)
		r = smb_meta_streams(m, in);
	if (r == 0 && added) {
		acl = out->x[at];
		memmove(&out->x[at], &out->x[at + 1], (out->n - at - 1) * sizeof(acl));
		out->x[out->n - 1] = acl;
	}
	return r;
}

int smb_meta_make(const struct smb_meta_config *c, const struct smb_meta_in *in,
		  struct smb_meta *out, char *why)
{
	struct smb_maker m = { .out = out, .room = SIZE_MAX };
	struct smb_ndr_sd *sd = NULL;
	struct smb_posix p = { 0 };
	size_t record = RECORD_ROOM;
	int r = S_ISREG(in->type) || S_ISDIR(in->type) ? 0 : -EINVAL;

	memset(out, 0, sizeof(*out));
	snprintf(why, SMB_META_WHY, "out of memory");
	if (r < 0)
		snprintf(why, SMB_META_WHY, "neither a file nor a directory");
	m.value_max = c->limits.value < SMB_XATTR_MAX ? c->limits.value : SMB_XATTR_MAX;
	if (in->origin_len > ORIGIN_ROOM)
		record += in->origin_len - ORIGIN_ROOM;
	if (c->limits.all)
		m.room = c->limits.all > record ? c->limits.all - record : 0;
	if (r == 0 && in->sd)
		r = smb_ndr_sd_parse(in->sd, in->sd_len, &sd, why);
	if (r == 0) {
		times(in, out);
		r = access_make(c, in, sd, &m, &p);
	}
	if (r == 0)
		r = attributes(&m, in);
	if (r == 0 && c->depot)
		r = smb_meta_depot(&m, in);
	if (r == 0)
		r = descriptor_and_others(in, sd, &p, c->depot, &m);
	if (r == -ENOSPC)
		snprintf(why, SMB_META_WHY, "the file system has no room for a POSIX ACL");
	smb_posix_finish(&p);
	smb_ndr_sd_destroy(sd);
	if (r < 0)
		smb_meta_finish(out);
	return r;
}

void smb_meta_finish(struct smb_meta *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->x[i].name);
		free(m->x[i].value);
	}
	for (size_t i = 0; i < m->n_lost; i++)
		free(m->lost[i].what);
	for (size_t i = 0; i < m->n_streams; i++)
		free(m->streams[i].name);
	free(m->x);
	free(m->lost);
	free(m->streams);
	memset(m, 0, sizeof(*m));
}

char *smb_lost_text(const struct smb_lost *l, char *buf, size_t size)
{
	switch (l->why) {
	case SMB_LOST_SIZE:
		snprintf(buf, size,
			 "%s: %llu bytes are more than the new file system or Samba takes", l->what,
			 (unsigned long long)l->size);
		break;
	case SMB_LOST_NAME:
		snprintf(buf, size, "%s: no attribute can have the name, or another one has it",
			 l->what);
		break;
	case SMB_LOST_KIND:
		snprintf(buf, size, "%s: Samba does not store it", l->what);
		break;
	}
	return buf;
}
