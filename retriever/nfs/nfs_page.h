/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nfs_page.h - one page of a listing, taken out of libnfs's buffer. */
#ifndef NFS_PAGE_H
#define NFS_PAGE_H

#include "nfs/nfs.h"

struct nfs_page {
	struct stub_entry *entries; /* names point into text; "." and ".." are left out */
	uint8_t (*handles)[NFS_HANDLE_MAX]; /* entry i has its origin in handles[i] */
	bool *complete; /* entry i has attributes and a handle */
	bool *maybe; /* ... and extended attributes, perhaps: it is to be asked for them (NFSv4.2) */
	bool *narrowed; /* ... and a mode that may be used: its ACL was asked for */
	size_t n;
	bool have_dir; /* the reply had the directory's attributes */
	struct stub_attr dir;
	char *text;
	size_t text_used;
	size_t seen; /* entries in the reply, with "." and ".." */
	uint64_t last_cookie; /* of the last entry */
	char verf[NFS3_COOKIEVERFSIZE];
	bool eof;
};

/* An entry, as a reply has it. */
struct nfs_item {
	const char *name;
	size_t len;
	uint64_t cookie;
	bool have_attr;
	struct stub_attr attr;
	bool maybe; /* it may have extended attributes */
	bool have_handle;
	const void *handle;
	size_t handle_len;
	int error; /* of this entry */
};

/* Room for @n entries whose names have @text bytes together.  0 or -ENOMEM. */
int nfs_page_reserve(struct nfs_page *p, size_t n, size_t text);
/* 0, or -EBADMSG with a reason in *why. */
int nfs_page_add(struct nfs_page *p, const struct nfs_item *i, const char **why);

/* Of NFSv3: 0, -ENOMEM, or -EBADMSG with a reason in *why. */
int nfs_page_plus(const struct READDIRPLUS3resok *ok, struct nfs_page *out, const char **why);
int nfs_page_plain(const struct READDIR3resok *ok, struct nfs_page *out, const char **why);
/* The handle of @e, an entry of @p.  0, or -EBADMSG: none is so long. */
int nfs_page_handle(struct nfs_page *p, struct stub_entry *e, const void *from, size_t len);
void nfs_page_finish(struct nfs_page *p);

#endif
