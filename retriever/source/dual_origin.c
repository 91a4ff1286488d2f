// SPDX-License-Identifier: GPL-3.0-or-later
/* dual_origin.c - origins of objects with two sources, and their paths. */
#include <errno.h>
#include <string.h>

#include "source/dual_origin.h"

#define HANDLE_MAX 64 /* NFS3_FHSIZE */

int dual_origin_decode(const struct stub_origin *o, struct dual_origin *out)
{
	size_t handle = o->len > DUAL_ORIGIN_HEAD ? o->bytes[1] : 0;

	if (!handle || handle > HANDLE_MAX || DUAL_ORIGIN_HEAD + handle > o->len || o->bytes[0] > 1 ||
	    (!o->bytes[0] && o->len > DUAL_ORIGIN_HEAD + handle))
		return -EBADMSG;
	out->nfs.len = (uint16_t)handle;
	memcpy(out->nfs.bytes, o->bytes + DUAL_ORIGIN_HEAD, handle);
	out->has_path = o->bytes[0];
	out->path = (const char *)o->bytes + DUAL_ORIGIN_HEAD + handle;
	out->path_len = o->len - DUAL_ORIGIN_HEAD - handle;
	return 0;
}

int dual_origin_encode(const struct dual_origin *dir, const char *name, size_t len,
		       const uint8_t *handle, size_t handle_len, uint8_t *out)
{
	size_t n = DUAL_ORIGIN_HEAD + handle_len, above = dir ? dir->path_len : 0;

	if (!handle_len || handle_len > HANDLE_MAX)
		return -EBADMSG;
	out[0] = (!dir || dir->has_path) &&
		 n + above + (above > 0) + (dir ? len : 0) <= STUB_ORIGIN_MAX;
	out[1] = (uint8_t)handle_len;
	memcpy(out + DUAL_ORIGIN_HEAD, handle, handle_len);
	if (!out[0] || !dir)
		return (int)n;
	memcpy(out + n, dir->path, above);
	n += above;
	if (above)
		out[n++] = '/';
	memcpy(out + n, name, len);
	return (int)(n + len);
}

/* Bytes of the UTF-8 character at @p, 0 if it is none. */
static size_t character(const uint8_t *p, size_t left)
{
	size_t n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 :
		   *p >= 0xf0 && *p < 0xf5				      ? 4 :
										0;

	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* too long a form, surrogates, beyond the last one */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] >= 0x90))
		return 0;
	return n;
}

bool dual_path_speakable(const char *path, size_t len)
{
	const uint8_t *p = (const uint8_t *)path;

	for (size_t n; len; p += n, len -= n) {
		n = character(p, len);
		if (!n || *p < ' ' || *p == 0x7f || strchr("\\:*?\"<>|", *p))
			return false;
	}
	return true;
}

int dual_path_below(const struct stub_origin *root, const struct dual_origin *o,
		    struct stub_origin *out)
{
	size_t n = root->len;

	if (n + 1 + o->path_len > STUB_ORIGIN_MAX)
		return -ENAMETOOLONG;
	*out = *root;
	if (n && o->path_len)
		out->bytes[n++] = '/';
	memcpy(out->bytes + n, o->path, o->path_len);
	out->len = (uint16_t)(n + o->path_len);
	return 0;
}
