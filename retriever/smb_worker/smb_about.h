/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_about.h - everything that the server knows of one object beside its data, asked
 * of Samba's libsmb: the bytes as they came, for smb_meta.h.
 */
#ifndef SMB_ABOUT_H
#define SMB_ABOUT_H

#include "smb_worker/smb_exact.h"
#include "windows/smb_meta.h"

struct exact_about {
	struct exact_info info;
	struct smb_meta_in in; /* all but the type; its sd is NULL if the server has none */
	bool no_sacl; /* we may not read auditing entries; all others are in the descriptor */
	void *memory; /* what @in points to */
};

/* Streams of more than @stream_max bytes come without their data (0: all).  Results are those of
 * smb_worker.h; after 0, exact_about_free(). */
int exact_about(struct worker *w, const char *path, uint64_t stream_max, struct exact_about *out);
void exact_about_free(struct exact_about *a);

/* Bytes of stream @name, ":NAME:$DATA", of @path: *@done, fewer than @length only at its
 * end.  *@size is how many it has. */
int exact_stream(struct worker *w, const char *path, const char *name, uint64_t offset, void *buf,
		 size_t length, size_t *done, uint64_t *size);

#endif
