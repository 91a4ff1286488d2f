/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_ndr.c - Samba's encodings, made and read by Samba's libraries.
 *
 * What smbd's module acl_xattr stores: version 4 of xattr_NTACL with two hashes.  The
 * one that counts is over the file's owner, group, mode and POSIX ACLs, encoded as smbd
 * does when it looks at the file; if they agree, the descriptor is taken as it is.  The
 * other one, over the descriptor that smbd would make of the POSIX ACL, is looked at only
 * if the first one differs.  It depends on smbd's own table of users, so it never agrees
 * here: of a file whose mode was changed past smbd, smbd shows the mode.
 */
#include "replace.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <talloc.h>

#include "lib/util/data_blob.h"
#include "librpc/gen_ndr/ndr_security.h"
#include "librpc/gen_ndr/ndr_smb_acl.h"
#include "librpc/gen_ndr/ndr_xattr.h"

#include "windows/smb_ndr.h"

struct smb_ndr_sd {
	TALLOC_CTX *mem;
	struct security_descriptor sd;
	struct smb_sd view;
	unsigned int cut;
};

static void sid_of(const struct dom_sid *in, struct smb_sid *out)
{
	int8_t n = in->num_auths < 0 ? 0 : in->num_auths;

	memset(out, 0, sizeof(*out));
	out->n = (uint8_t)(n > SMB_SID_SUBS ? SMB_SID_SUBS : n);
	for (unsigned int i = 0; i < sizeof(in->id_auth); i++)
		out->authority = out->authority << 8 | in->id_auth[i];
	for (unsigned int i = 0; i < out->n; i++)
		out->sub[i] = in->sub_auths[i];
}

static unsigned int acl_cut(const struct security_acl *acl)
{
	unsigned int n = 0;

	for (uint32_t i = 0; acl && i < acl->num_aces; i++)
		n += acl->aces[i].size > ndr_size_security_ace(&acl->aces[i], 0);
	return n;
}

static int view_make(struct smb_ndr_sd *sd)
{
	const struct security_acl *dacl = sd->sd.dacl;
	struct smb_sd *view = &sd->view;
	struct smb_ace *aces;

	view->has_owner = sd->sd.owner_sid != NULL;
	if (view->has_owner)
		sid_of(sd->sd.owner_sid, &view->owner);
	view->has_group = sd->sd.group_sid != NULL;
	if (view->has_group)
		sid_of(sd->sd.group_sid, &view->group);
	view->dacl_present = sd->sd.type & SEC_DESC_DACL_PRESENT;
	view->dacl_null = !dacl;
	view->n = dacl ? dacl->num_aces : 0;
	view->aces = aces = talloc_zero_array(sd->mem, struct smb_ace, view->n + 1);
	if (!aces)
		return -ENOMEM;
	for (size_t i = 0; i < view->n; i++) {
		aces[i].type = (uint8_t)dacl->aces[i].type;
		aces[i].flags = dacl->aces[i].flags;
		aces[i].mask = dacl->aces[i].access_mask;
		sid_of(&dacl->aces[i].trustee, &aces[i].sid);
	}
	sd->cut = acl_cut(dacl) + acl_cut(sd->sd.sacl);
	return 0;
}

int smb_ndr_sd_parse(const void *data, size_t len, struct smb_ndr_sd **out, char *why)
{
	DATA_BLOB blob = { .data = discard_const_p(uint8_t, data), .length = len };
	TALLOC_CTX *mem = talloc_new(NULL);
	struct smb_ndr_sd *sd = talloc_zero(mem, struct smb_ndr_sd);
	enum ndr_err_code e;
	int r;

	if (!mem || !sd) {
		talloc_free(mem);
		return -ENOMEM;
	}
	sd->mem = mem;
	e = ndr_pull_struct_blob(&blob, mem, &sd->sd,
				 (ndr_pull_flags_fn_t)ndr_pull_security_descriptor);
	if (e == NDR_ERR_SUCCESS) {
		r = view_make(sd);
		if (r == 0)
			*out = sd;
	} else if (e == NDR_ERR_RANGE) {
		r = -E2BIG;
		snprintf(why, SMB_NDR_WHY,
			 "security descriptor of %zu bytes with more entries than Samba takes",
			 len);
	} else {
		r = e == NDR_ERR_ALLOC ? -ENOMEM : -EBADMSG;
		snprintf(why, SMB_NDR_WHY, "security descriptor of %zu bytes is damaged (%s)", len,
			 ndr_map_error2string(e));
	}
	if (r < 0)
		talloc_free(mem);
	return r;
}

void smb_ndr_sd_destroy(struct smb_ndr_sd *sd)
{
	if (sd)
		talloc_free(sd->mem);
}

const struct smb_sd *smb_ndr_sd_view(const struct smb_ndr_sd *sd)
{
	return &sd->view;
}

unsigned int smb_ndr_sd_cut(const struct smb_ndr_sd *sd)
{
	return sd->cut;
}

/* Encode to malloc'ed bytes. */
static int push(TALLOC_CTX *mem, const void *what, ndr_push_flags_fn_t fn, void **value,
		size_t *len)
{
	enum ndr_err_code e;
	DATA_BLOB blob;

	e = ndr_push_struct_blob(&blob, mem, what, fn);
	if (e != NDR_ERR_SUCCESS)
		return e == NDR_ERR_ALLOC ? -ENOMEM : -EINVAL;
	*value = malloc(blob.length + 1);
	if (!*value)
		return -ENOMEM;
	memcpy(*value, blob.data, blob.length);
	*len = blob.length;
	return 0;
}

static enum smb_acl_tag_t tag_of(uint16_t tag)
{
	switch (tag) {
	case SMB_USER_OBJ:
		return SMB_ACL_USER_OBJ;
	case SMB_USER:
		return SMB_ACL_USER;
	case SMB_GROUP_OBJ:
		return SMB_ACL_GROUP_OBJ;
	case SMB_GROUP:
		return SMB_ACL_GROUP;
	case SMB_MASK:
		return SMB_ACL_MASK;
	default:
		return SMB_ACL_OTHER;
	}
}

/* The ACL as smbd has it when libacl has read and sorted it; it is sorted that way already. */
static struct smb_acl_t *samba_acl(TALLOC_CTX *mem, const struct smb_posix_acl *in)
{
	struct smb_acl_t *acl = talloc_zero(mem, struct smb_acl_t);

	if (!acl)
		return NULL;
	acl->count = (int)in->n;
	acl->acl = talloc_zero_array(acl, struct smb_acl_entry, in->n + 1);
	if (!acl->acl)
		return NULL;
	for (size_t i = 0; i < in->n; i++) {
		acl->acl[i].a_type = tag_of(in->e[i].tag);
		acl->acl[i].a_perm = in->e[i].perm;
		if (in->e[i].tag == SMB_USER)
			acl->acl[i].info.user.uid = in->e[i].id;
		if (in->e[i].tag == SMB_GROUP)
			acl->acl[i].info.group.gid = in->e[i].id;
	}
	return acl;
}

/* The hash that smbd will compute of the file: SHA-256, the rest zero. */
static int sys_hash(TALLOC_CTX *mem, const struct smb_posix *p, mode_t type, uint8_t *hash)
{
	struct smb_acl_wrapper w = { .owner = p->uid, .group = p->gid, .mode = type | p->mode };
	void *blob = NULL;
	size_t len;
	int r;

	memset(hash, 0, XATTR_SD_HASH_SIZE);
	w.access_acl = samba_acl(mem, &p->access);
	if (S_ISDIR(type))
		w.default_acl = samba_acl(mem, &p->def); /* if there is none, an empty one */
	if (!w.access_acl || (S_ISDIR(type) && !w.default_acl))
		return -ENOMEM;
	r = push(mem, &w, (ndr_push_flags_fn_t)ndr_push_smb_acl_wrapper, &blob, &len);
	if (r == 0 && !EVP_Digest(blob, len, hash, NULL, EVP_sha256(), NULL))
		r = -ENOMEM;
	free(blob);
	return r;
}

int smb_ndr_ntacl(const struct smb_ndr_sd *sd, const struct smb_posix *p, mode_t type,
		  uint64_t time, void **value, size_t *len)
{
	struct security_descriptor_hash_v4 v4 = { 0 };
	struct xattr_NTACL acl = { .version = 4, .info.sd_hs4 = &v4 };
	struct security_descriptor whole = sd->sd;
	TALLOC_CTX *mem = talloc_new(NULL);
	int r;

	if (!mem)
		return -ENOMEM;
	whole.type |= SEC_DESC_SELF_RELATIVE; /* as smbd stores all of them */
	v4.sd = &whole;
	v4.hash_type = XATTR_SD_HASH_TYPE_SHA256;
	v4.description = "posix_acl";
	v4.time = time;
	r = sys_hash(mem, p, type, v4.sys_acl_hash);
	if (r == 0)
		r = push(mem, &acl, (ndr_push_flags_fn_t)ndr_push_xattr_NTACL, value, len);
	talloc_free(mem);
	return r;
}

int smb_ndr_dosattrib(uint32_t attributes, uint64_t create_time, void **value, size_t *len)
{
	struct xattr_DOSATTRIB x = { .version = 5 };
	TALLOC_CTX *mem = talloc_new(NULL);
	int r;

	if (!mem)
		return -ENOMEM;
	x.info.info5.valid_flags = XATTR_DOSINFO_ATTRIB;
	x.info.info5.attrib = attributes;
	if (create_time) {
		x.info.info5.valid_flags |= XATTR_DOSINFO_CREATE_TIME;
		x.info.info5.create_time = create_time;
	}
	r = push(mem, &x, (ndr_push_flags_fn_t)ndr_push_xattr_DOSATTRIB, value, len);
	talloc_free(mem);
	return r;
}

/* ---- what is stored, read ---- */

static int pull(const void *value, size_t len, TALLOC_CTX *mem, void *out, ndr_pull_flags_fn_t fn)
{
	DATA_BLOB blob = { .data = discard_const_p(uint8_t, value), .length = len };
	enum ndr_err_code e = ndr_pull_struct_blob(&blob, mem, out, fn);

	return e == NDR_ERR_SUCCESS ? 0 : e == NDR_ERR_ALLOC ? -ENOMEM : -EBADMSG;
}

static int dosattrib_of(const struct xattr_DOSATTRIB *x, uint32_t *attributes, uint64_t *create_time)
{
	uint32_t valid;
	NTTIME born;

	switch (x->version) {
	case 3:
		valid = x->info.info3.valid_flags;
		*attributes = x->info.info3.attrib;
		born = x->info.info3.create_time;
		break;
	case 4:
		valid = x->info.info4.valid_flags;
		*attributes = x->info.info4.attrib;
		born = x->info.info4.create_time;
		break;
	case 5:
		valid = x->info.info5.valid_flags;
		*attributes = x->info.info5.attrib;
		born = x->info.info5.create_time;
		break;
	default:
		return -EBADMSG;
	}
	*create_time = valid & XATTR_DOSINFO_CREATE_TIME ? born : 0;
	return valid & XATTR_DOSINFO_ATTRIB ? 0 : -EBADMSG;
}

int smb_ndr_dosattrib_parse(const void *value, size_t len, uint32_t *attributes, uint64_t *create_time)
{
	TALLOC_CTX *mem = talloc_new(NULL);
	struct xattr_DOSATTRIB x = { 0 };
	int r = mem ? pull(value, len, mem, &x, (ndr_pull_flags_fn_t)ndr_pull_xattr_DOSATTRIB) : -ENOMEM;

	if (r == 0)
		r = dosattrib_of(&x, attributes, create_time);
	talloc_free(mem);
	return r;
}

/* Which descriptor is in it, and is it in force? */
static int ntacl_of(TALLOC_CTX *mem, const struct xattr_NTACL *acl, const struct smb_posix *p, mode_t type,
		    const struct security_descriptor **sd, bool *in_force)
{
	uint8_t hash[XATTR_SD_HASH_SIZE];
	int r = 0;

	*in_force = false;
	switch (acl->version) {
	case 1:
		*sd = acl->info.sd;
		break;
	case 2:
		*sd = acl->info.sd_hs2 ? acl->info.sd_hs2->sd : NULL;
		break;
	case 3:
		*sd = acl->info.sd_hs3 ? acl->info.sd_hs3->sd : NULL;
		break;
	case 4:
		*sd = acl->info.sd_hs4 ? acl->info.sd_hs4->sd : NULL;
		if (!*sd)
			break;
		r = sys_hash(mem, p, type, hash);
		*in_force = r == 0 && !memcmp(hash, acl->info.sd_hs4->sys_acl_hash, sizeof(hash));
		break;
	default:
		return -EBADMSG;
	}
	return r < 0 ? r : *sd ? 0 : -EBADMSG;
}

int smb_ndr_ntacl_parse(const void *value, size_t len, const struct smb_posix *p, mode_t type, void **sd,
			size_t *sd_len, bool *in_force)
{
	TALLOC_CTX *mem = talloc_new(NULL);
	const struct security_descriptor *in = NULL;
	struct xattr_NTACL acl = { 0 };
	int r = mem ? pull(value, len, mem, &acl, (ndr_pull_flags_fn_t)ndr_pull_xattr_NTACL) : -ENOMEM;

	if (r == 0)
		r = ntacl_of(mem, &acl, p, type, &in, in_force);
	if (r == 0)
		r = push(mem, in, (ndr_push_flags_fn_t)ndr_push_security_descriptor, sd, sd_len);
	talloc_free(mem);
	return r;
}

/* MS-DTYP 2.4.6: a server keeps the flag only if it is asked for by the other one. */
int smb_ndr_sd_to_send(const void *sd, size_t len, bool sacl, void **out, size_t *out_len)
{
	TALLOC_CTX *mem = talloc_new(NULL);
	struct security_descriptor d = { 0 };
	int r = mem ? pull(sd, len, mem, &d, (ndr_pull_flags_fn_t)ndr_pull_security_descriptor) : -ENOMEM;

	if (r == 0) {
		if (d.type & SEC_DESC_DACL_AUTO_INHERITED)
			d.type |= SEC_DESC_DACL_AUTO_INHERIT_REQ;
		if (d.type & SEC_DESC_SACL_AUTO_INHERITED)
			d.type |= SEC_DESC_SACL_AUTO_INHERIT_REQ;
		if (!sacl) {
			d.sacl = NULL;
			d.type &= (uint16_t)~SEC_DESC_SACL_PRESENT;
		}
		d.type |= SEC_DESC_SELF_RELATIVE;
		r = push(mem, &d, (ndr_push_flags_fn_t)ndr_push_security_descriptor, out, out_len);
	}
	talloc_free(mem);
	return r;
}

static bool same_sid(const struct dom_sid *a, const struct dom_sid *b)
{
	struct smb_sid x, y;

	if (!a || !b)
		return a == b;
	sid_of(a, &x);
	sid_of(b, &y);
	return !memcmp(&x, &y, sizeof(x));
}

/* One without entries is not one that is not there. */
static bool same_acl(const struct security_acl *a, const struct security_acl *b)
{
	if (!a || !b)
		return a == b;
	if (a->num_aces != b->num_aces)
		return false;
	for (uint32_t i = 0; i < a->num_aces; i++) {
		const struct security_ace *x = &a->aces[i], *y = &b->aces[i];

		if (x->type != y->type || x->flags != y->flags || x->access_mask != y->access_mask ||
		    !same_sid(&x->trustee, &y->trustee))
			return false;
	}
	return true;
}

/* Auditing entries: a descriptor may have an empty list, or none. */
static bool same_sacl(const struct security_acl *a, const struct security_acl *b)
{
	return ((!a || !a->num_aces) && (!b || !b->num_aces)) || same_acl(a, b);
}

#define COUNTS (SEC_DESC_DACL_PRESENT | SEC_DESC_DACL_PROTECTED)

bool smb_ndr_sd_same(const void *a, size_t a_len, const void *b, size_t b_len, bool sacl)
{
	TALLOC_CTX *mem = talloc_new(NULL);
	struct security_descriptor x = { 0 }, y = { 0 };
	bool same = mem && !pull(a, a_len, mem, &x, (ndr_pull_flags_fn_t)ndr_pull_security_descriptor) &&
		    !pull(b, b_len, mem, &y, (ndr_pull_flags_fn_t)ndr_pull_security_descriptor) &&
		    same_sid(x.owner_sid, y.owner_sid) && same_sid(x.group_sid, y.group_sid) &&
		    (x.type & COUNTS) == (y.type & COUNTS) && same_acl(x.dacl, y.dacl) &&
		    (!sacl || same_sacl(x.sacl, y.sacl));

	talloc_free(mem);
	return same;
}
