/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dual_origin.h - the origin of an object that has two sources: its NFS file handle, and
 * its path below the export's root, by which the SMB share is asked.
 *
 *   0  u8  1: the path follows; 0: it is too long, NFS alone knows the object
 *   1  u8  bytes of the handle, 1..64
 *   2      the handle, then the path: names with '/' between them, "" for the root
 */
#ifndef DUAL_ORIGIN_H
#define DUAL_ORIGIN_H

#include "stubcore.h"

#define DUAL_ORIGIN_HEAD 2 /* bytes before the handle */

struct dual_origin {
	struct stub_origin nfs;
	bool has_path;
	const char *path; /* not terminated; points into what was decoded */
	size_t path_len;
};

/* -EBADMSG: it is no origin of a joined source */
int dual_origin_decode(const struct stub_origin *o, struct dual_origin *out);

/* The origin of the object @name in @dir, with the NFS file handle @handle; @dir NULL: of the
 * root.  If it would be too long it is made without the path.  Returns the bytes written to @out,
 * which has room for STUB_ORIGIN_MAX, or -EBADMSG: no file handle is so long. */
int dual_origin_encode(const struct dual_origin *dir, const char *name, size_t len,
		       const uint8_t *handle, size_t handle_len, uint8_t *out);

/* Can an SMB client say this path?  UTF-8 without what Windows forbids in names. */
bool dual_path_speakable(const char *path, size_t len);

/* "root/path" for SMB: 0, or -ENAMETOOLONG. */
int dual_path_below(const struct stub_origin *root, const struct dual_origin *o,
		    struct stub_origin *out);

#endif
