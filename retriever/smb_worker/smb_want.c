// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_want.c - PUT: from what Samba's modules store here to what an SMB server is to have. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "smb_worker/smb_put.h"
#include "smb_worker/smb_worker.h"
#include "source/posix_acl.h"

#define STREAM_PREFIX (sizeof(SMB_STREAM_PREFIX) - 1)
#define USER	      "user."
#define USER_PREFIX   (sizeof(USER) - 1)

/* One attribute of the request; its name is terminated. */
struct stored {
	char *name;
	const uint8_t *value;
	size_t len;
};

/* All of the request's, and what they become. */
struct taking {
	struct worker *w;
	const char *path;
	mode_t type;
	struct smb_posix posix;
	struct stored *all;
	size_t n;
	struct put_want *want;
	char *names; /* of attributes and streams */
};

static int damaged(struct taking *k, const char *what)
{
	snprintf(k->w->why, sizeof(k->w->why), "\"%.120s\": %s that is stored here is damaged", k->path, what);
	return -EBADMSG;
}

/* ---- POSIX ACLs: by them the descriptor is known to be in force ---- */

/* Sorted as smbd sees it, through libacl: the kernel keeps users and groups in the order in which they were stored. */
static int take_acl(struct taking *k, const struct stored *s, struct smb_posix_acl *out)
{
	struct posix_acl acl;

	if (posix_acl_unpack(s->value, s->len, &acl) < 0)
		return damaged(k, "an ACL");
	free(out->e);
	out->e = calloc(acl.n + 1, sizeof(*out->e));
	if (!out->e)
		return -ENOMEM;
	out->n = acl.n;
	for (size_t i = 0; i < acl.n; i++)
		out->e[i] = (struct smb_posix_entry){ (uint16_t)acl.e[i].tag, (uint16_t)acl.e[i].perm, acl.e[i].id };
	return 0;
}

/* As libacl shows the mode of a file without an ACL. */
static int mode_acl(mode_t mode, struct smb_posix_acl *acl)
{
	acl->e = calloc(3, sizeof(*acl->e));
	if (!acl->e)
		return -ENOMEM;
	acl->n = 3;
	acl->e[0] = (struct smb_posix_entry){ SMB_USER_OBJ, (mode >> 6) & 7, UINT32_MAX };
	acl->e[1] = (struct smb_posix_entry){ SMB_GROUP_OBJ, (mode >> 3) & 7, UINT32_MAX };
	acl->e[2] = (struct smb_posix_entry){ SMB_OTHER, mode & 7, UINT32_MAX };
	return 0;
}

static const struct stored *find(const struct taking *k, const char *name)
{
	for (size_t i = 0; i < k->n; i++)
		if (!strcmp(k->all[i].name, name))
			return &k->all[i];
	return NULL;
}

static int take_posix(struct taking *k, const struct smb_request *r)
{
	const struct stored *access = find(k, POSIX_ACL_ACCESS), *def = find(k, POSIX_ACL_DEFAULT);
	int e;

	k->posix.uid = r->uid;
	k->posix.gid = r->gid;
	k->posix.mode = r->bits & 07777;
	e = access ? take_acl(k, access, &k->posix.access) : mode_acl(r->bits, &k->posix.access);
	return e == 0 && def ? take_acl(k, def, &k->posix.def) : e;
}

static int take_descriptor(struct taking *k)
{
	const struct stored *s = find(k, "security.NTACL");
	struct put_want *want = k->want;
	bool in_force;
	int r;

	if (!s)
		return 0;
	r = smb_ndr_ntacl_parse(s->value, s->len, &k->posix, k->type, &want->sd, &want->sd_len, &in_force);
	if (r == -EBADMSG)
		return damaged(k, "the descriptor");
	if (r == 0 && !in_force) { /* the mode was changed since, and counts */
		free(want->sd);
		want->sd = NULL;
	}
	return r;
}

/* ---- the rest ---- */

static int take_attributes(struct taking *k)
{
	const struct stored *s = find(k, "user.DOSATTRIB");
	int r;

	if (!s)
		return 0;
	r = smb_ndr_dosattrib_parse(s->value, s->len, &k->want->attributes, &k->want->create_time);
	if (r == -EBADMSG) /* of a file that only an old Samba has seen: as if there were none */
		return 0;
	k->want->attributes &= SMB_ATTR_STORED;
	k->want->has_attributes = r == 0;
	return r;
}

/* user.DosStream.NAME:$DATA -> ":NAME:$DATA", in the place of its name; a stream has a zero more. */
static void take_stream(struct taking *k, const struct stored *s)
{
	char *name = s->name + STREAM_PREFIX - 1;

	name[0] = ':';
	k->want->streams[k->want->n_streams++] = (struct smb_stream){ name, s->len ? s->len - 1 : 0, s->value };
}

static void take_user(struct taking *k, const struct stored *s)
{
	if (!strncasecmp(s->name, SMB_STREAM_PREFIX, STREAM_PREFIX))
		take_stream(k, s);
	else if (!strncmp(s->name, USER, USER_PREFIX) && !smb_xattr_private(s->name) && s->len)
		k->want->eas[k->want->n_eas++] = (struct smb_ea){ s->name + USER_PREFIX, s->value, s->len };
}

/* Copies of the names, terminated; values stay where they are. */
static int take_list(struct taking *k, const struct smb_request *r)
{
	struct smb_request walk = *r;
	struct smb_text name;
	const uint8_t *value;
	char *at;
	size_t len;

	k->all = calloc(r->count + 1, sizeof(*k->all));
	k->names = at = malloc(r->rest_len + 1); /* each has had six bytes beside its name */
	k->want->streams = calloc(r->count + 1, sizeof(*k->want->streams));
	k->want->eas = calloc(r->count + 1, sizeof(*k->want->eas));
	if (!k->all || !k->names || !k->want->streams || !k->want->eas)
		return -ENOMEM;
	while (smb_wire_put_xattr(&walk, &name, &value, &len)) {
		k->all[k->n++] = (struct stored){ at, value, len };
		at = mempcpy(at, name.p, name.len);
		*at++ = '\0';
	}
	return 0;
}

int worker_put(struct worker *w, const char *path, const struct smb_request *r)
{
	struct put_want want = { .dir = S_ISDIR(r->bits), .fileid = r->fileid };
	struct taking k = { .w = w, .path = path, .type = r->bits & S_IFMT, .want = &want };
	struct target_put out = { 0 };
	int e = take_list(&k, r);

	if (e == 0)
		e = take_posix(&k, r);
	if (e == 0)
		e = take_descriptor(&k);
	if (e == 0)
		e = take_attributes(&k);
	for (size_t i = 0; i < k.n && e == 0; i++)
		take_user(&k, &k.all[i]);
	if (e == 0)
		e = exact_put(w, path, &want, r->look, &out);
	if (e == 0) {
		smb_out_begin(&w->out, SMB_WIRE_PUT);
		smb_out_u32(&w->out, out.differs);
		smb_out_u8(&w->out, out.holds);
		e = worker_send(w);
	}
	smb_posix_finish(&k.posix);
	free(k.all);
	free(k.names);
	free(want.streams);
	free(want.eas);
	free(want.sd);
	return e;
}
