/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_meta_internal.h - between smb_meta.c, smb_meta_list.c and smb_streams.c */
#ifndef SMB_META_INTERNAL_H
#define SMB_META_INTERNAL_H

#include "windows/smb_meta.h"

#define SMB_ATTR_COST 24 /* bytes of an attribute's head, where space is shared */

struct smb_maker {
	struct smb_meta *out;
	size_t value_max;
	size_t room; /* bytes left for all attributes */
};

/* ---- smb_meta_list.c ---- */

/* Append an attribute; takes @value over in any case.  If it does not fit it is put into the
 * list of what is lost, with the name that @fmt makes.  -ENOMEM */
int smb_meta_add(struct smb_maker *m, const char *name, void *value, size_t len, const char *fmt,
		 ...) __attribute__((format(printf, 5, 6)));

/* -ENOMEM */
int smb_meta_lose(struct smb_maker *m, enum smb_lost_why why, uint64_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Make room for one more; a list has room for a power of two.  False: no memory. */
bool smb_meta_grow(void **list, size_t n, size_t size);

/* ---- smb_streams.c ---- */

/* List the streams for a depot, and append the attribute that marks their directory. */
int smb_meta_depot(struct smb_maker *m, const struct smb_meta_in *in);

/* -ENOMEM */
int smb_meta_eas(struct smb_maker *m, const struct smb_meta_in *in);
int smb_meta_streams(struct smb_maker *m, const struct smb_meta_in *in);

#endif
