/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_exact_internal.h - between smb_exact.c and smb_about.c; after Samba's headers. */
#ifndef SMB_EXACT_INTERNAL_H
#define SMB_EXACT_INTERNAL_H

#include "smb_worker/smb_exact.h"

/* The result for @status, met while doing @what at @path. */
int exact_failed(struct worker *w, NTSTATUS status, const char *what, const char *path);

/* The connection on which @path is (DFS: perhaps to another server), and in *there its path on
 * that: @path, "/" and @name, with backslashes. */
NTSTATUS exact_resolve(struct worker *w, TALLOC_CTX *mem, const char *path, const char *name,
		       struct cli_state **cli, char **there);

void exact_fill(struct exact_info *out, uint32_t attr, off_t size, SMB_INO_T ino, struct timespec b,
		struct timespec a, struct timespec m, struct timespec c);

#endif
