/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_sid.h - security identifiers of SMB servers ([MS-DTYP] 2.4.2).
 *
 * Plain values without Samba's headers, so that the identity map and the mapping of
 * access rights stand by themselves.
 */
#ifndef SMB_SID_H
#define SMB_SID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMB_SID_SUBS 15
#define SMB_SID_TEXT 192 /* bytes that hold any of them as text */

struct smb_sid {
	uint64_t authority; /* 48 bits */
	uint8_t n; /* of sub[]; the rest is zero */
	uint32_t sub[SMB_SID_SUBS];
};

/* "S-1-5-21-...", all of @len bytes.  Hexadecimal authorities ("0x...") too.  -EINVAL */
int smb_sid_parse(const char *text, size_t len, struct smb_sid *out);

/* Write it as text to @buf of SMB_SID_TEXT bytes, which is returned. */
char *smb_sid_text(const struct smb_sid *sid, char *buf);

/* A total order in which SIDs that differ in the last number only are neighbours. */
int smb_sid_cmp(const struct smb_sid *a, const struct smb_sid *b);

/* Is it the one with this authority and these @n numbers? */
bool smb_sid_is(const struct smb_sid *sid, uint64_t authority, unsigned int n, const uint32_t *sub);

#endif
