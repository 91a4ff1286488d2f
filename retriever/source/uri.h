/* SPDX-License-Identifier: GPL-3.0-or-later */
/* uri.h - what all URIs of sources have in common. */
#ifndef SOURCE_URI_H
#define SOURCE_URI_H

enum source_kind { SOURCE_UNKNOWN, SOURCE_NFS, SOURCE_SMB };

/* By how it begins: nfs://, smb://.  NULL: unknown. */
enum source_kind source_uri_kind(const char *uri);

/* The byte that "%XX" at the beginning of [p, end) stands for, or -EINVAL: two hexadecimal
 * digits are not there. */
int source_uri_unescape(const char *p, const char *end);

#endif
