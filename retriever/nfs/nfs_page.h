/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nfs_page.h - one reply of READDIRPLUS or READDIR, taken out of libnfs's buffer. */
#ifndef NFS_PAGE_H
#define NFS_PAGE_H

#include "nfs/nfs.h"

struct nfs_page {
	struct stub_entry *entries; /* names point into text; "." and ".." are left out */
	uint8_t (*handles)[NFS3_FHSIZE]; /* entry i has its origin in handles[i] */
	bool *complete; /* entry i has attributes and a handle */
	bool *narrowed; /* ... and a mode that may be used: its ACL was asked for */
	size_t n;
	bool have_dir; /* the reply had the directory's attributes */
	struct stub_attr dir;
	char *text;
	size_t seen; /* entries in the reply, with "." and ".." */
	uint64_t last_cookie; /* of the last entry */
	char verf[NFS3_COOKIEVERFSIZE];
	bool eof;
};

/* 0, -ENOMEM, or -EBADMSG with a reason in *why. */
int nfs_page_plus(const struct READDIRPLUS3resok *ok, struct nfs_page *out, const char **why);
int nfs_page_plain(const struct READDIR3resok *ok, struct nfs_page *out, const char **why);
/* The handle of @e, an entry of @p.  0 or -EBADMSG. */
int nfs_page_handle(struct nfs_page *p, struct stub_entry *e, const struct nfs_fh3 *from);
void nfs_page_finish(struct nfs_page *p);

#endif
