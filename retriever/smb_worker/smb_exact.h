/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_exact.h - what libsmbclient does not tell, asked of Samba's libsmb below it.
 *
 * libsmbclient's own calls find names whatever their case, re-read each entry of a
 * listing as a URL and end it in silence at one they cannot read, and keep whole
 * directories in memory.  Here names are the server's, byte for byte, and entries come
 * one by one (docs/decisions/0013).  libsmb's ABI is that of one release of Samba, so
 * the worker is built for exactly that one, as the VFS module is.
 *
 * Paths are relative to the share, '/' between names.  Results are those of
 * smb_worker.h.
 */
#ifndef SMB_EXACT_H
#define SMB_EXACT_H

#include <libsmbclient.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct exact_info {
	bool dir;
	uint32_t attributes; /* FILE_ATTRIBUTE_* */
	uint64_t size, fileid; /* fileid 0: the server has none */
	struct timespec btime, atime, mtime, ctime;
	/* of a listing: nothing else of it would be shown in one (it has no extended attributes,
	 * and is what it seems to be); created is its creation time, NTTIME */
	bool listed;
	uint64_t created;
};

struct worker;

/* ---- smb_logon.c ---- */

struct exact_who {
	const char *host, *user, *domain, *password;
	int port; /* 0: the usual one */
	bool kerberos; /* with the tickets of KRB5CCNAME, and no password */
};

/*
 * One logon, on a connection of its own that ends with it.  0; an errno that libsmbclient
 * would give, of the connection; or with one line in @why
 *   -EKEYREJECTED  the server does not let us in, or only as a guest: it counts such
 *                  attempts, and may lock the account
 *   -EPROTO        it speaks no protocol version that we speak, or cannot check logons now
 */
int exact_logon(SMBCCTX *c, const struct exact_who *who, int timeout_ms, char *why, size_t size);

/* ---- smb_list.c ---- */

/* Every entry but "." and "..".  @fn returning other than 0 ends it with that. */
typedef int (*exact_entry_fn)(void *arg, const char *name, const struct exact_info *i);
int exact_list(struct worker *w, const char *path, exact_entry_fn fn, void *arg);

/* ---- smb_exact.c ---- */

bool exact_is_guest(SMBCCTX *c);     /* has the server made us a guest? */
/* Encrypt from now on; libsmbclient by itself goes on without.  False: the server cannot. */
bool exact_encrypt(SMBCCTX *c);

/* The entry of directory @path whose name is, byte for byte, @name. */
int exact_find(struct worker *w, const char *path, const char *name, struct exact_info *out);
int exact_stat(struct worker *w, const char *path, struct exact_info *out);
int exact_fstat(struct worker *w, const char *path, SMBCFILE *f, struct exact_info *out);
/*
 * What the server answers to FSCTL_QUERY_ALLOCATED_RANGES about a part of an open file: *len
 * bytes, at most @size, in @out.
 *   -EMSGSIZE    there are more: ask about less
 *   -EOPNOTSUPP  it does not answer that
 */
int exact_ranges(struct worker *w, const char *path, SMBCFILE *f, uint64_t offset, uint64_t length,
		 void *out, size_t size, size_t *len);

#endif
