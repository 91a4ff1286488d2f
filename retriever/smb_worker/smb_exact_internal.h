/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_exact_internal.h - between smb_exact.c, smb_list.c and smb_about.c; after Samba's headers. */
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

/* What a server's time is, NTTIME as it comes: see smb_exact.h. */
struct timespec exact_time(const uint8_t *p);

/* ---- smb_about.c ---- */

/*
 * A list whose entries begin with the offset of the next one: take the entry at *at, and move
 * *at.  1, 0 at the end, -1: @fixed bytes are not there, or the offset is wrong.
 */
int exact_chained(const DATA_BLOB *b, size_t fixed, size_t *at, const uint8_t **entry,
		  size_t *room);
/* The name of @len bytes at @p, UTF-8; NULL: it is none, or there is a NUL in it. */
char *exact_name(TALLOC_CTX *mem, const uint8_t *p, size_t len);

#endif
