/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * key.c - one identity of an object for Ganesha and for everybody else: keys of FSAL_VFS
 * are kernel handles with something in front.
 *
 *	[flags][fsid][handle type][kernel handle]
 */
#include "config.h"
#include "fsal.h"
#include "FSAL/fsal_commonlib.h"
#include "FSAL/fsal_localfs.h"

#include <errno.h>
#include <string.h>

#include "stub_glue.h"

/* first byte of a FSAL_VFS key */
enum {
	KEY_FSID_TYPE = 0x1f,
	KEY_DUMMY = 0x20,
	KEY_WIDTH = 0xc0,
	KEY_WIDTH_8 = 0x40,
	KEY_WIDTH_16 = 0x80,
	KEY_WIDTH_32 = 0xc0,
};

int glue_handle_of_key(const struct gsh_buffdesc *key, struct stub_handle *out)
{
	const uint8_t *p = key->addr;
	size_t at, width, n = key->len;
	int16_t type16;
	int fsid;

	if (!p || n < 1 || p[0] & KEY_DUMMY)
		return -EINVAL;
	fsid = sizeof_fsid(p[0] & KEY_FSID_TYPE);
	width = (p[0] & KEY_WIDTH) == KEY_WIDTH_8  ? 1 :
		(p[0] & KEY_WIDTH) == KEY_WIDTH_16 ? 2 :
		(p[0] & KEY_WIDTH) == KEY_WIDTH_32 ? 4 :
						     0;
	if (fsid < 0 || width == 0)
		return -EINVAL;
	at = 1 + (size_t)fsid;
	if (n <= at + width || n - at - width > STUB_HANDLE_MAX)
		return -EINVAL;
	if (width == 1) {
		out->type = p[at];
	} else if (width == 2) {
		memcpy(&type16, p + at, sizeof(type16));
		out->type = type16;
	} else {
		memcpy(&out->type, p + at, sizeof(out->type));
	}
	out->len = (uint8_t)(n - at - width);
	memcpy(out->bytes, p + at + width, out->len);
	return 0;
}

/* Write the handle's type as it stands in a key, and its width to *flag; returns the width. */
static size_t type_pack(int32_t type, uint8_t *p, uint8_t *flag)
{
	int16_t type16 = (int16_t)type;

	if (type <= UINT8_MAX) { /* as FSAL_VFS has it: negative ones too */
		*flag = KEY_WIDTH_8;
		*p = (uint8_t)type;
		return 1;
	}
	if (type <= INT16_MAX) {
		*flag = KEY_WIDTH_16;
		memcpy(p, &type16, sizeof(type16));
		return sizeof(type16);
	}
	*flag = KEY_WIDTH_32;
	memcpy(p, &type, sizeof(type));
	return sizeof(type);
}

int glue_key_of_handle(const struct fsal_filesystem *fs, const struct stub_handle *h,
		       struct gsh_buffdesc *key)
{
	uint8_t type[sizeof(h->type)], flag, *p = key->addr;
	size_t at, width = type_pack(h->type, type, &flag);
	struct fsal_fsid__ fsid = fs->fsid;
	int n = sizeof_fsid(fs->fsid_type);

	if (n < 0 || key->len < 1 + (size_t)n + width + h->len ||
	    encode_fsid((char *)p + 1, n, &fsid, fs->fsid_type) != n)
		return -EINVAL;
	p[0] = (uint8_t)fs->fsid_type | flag;
	at = 1 + (size_t)n;
	memcpy(p + at, type, width);
	memcpy(p + at + width, h->bytes, h->len);
	key->len = at + width + h->len;
	return 0;
}
