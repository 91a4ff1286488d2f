/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_exact_internal.h - between smb_exact.c, smb_list.c and smb_about.c; after Samba's headers. */
#ifndef SMB_EXACT_INTERNAL_H
#define SMB_EXACT_INTERNAL_H

#include "smb_worker/smb_about.h"
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
struct timespec exact_time_of(uint64_t nttime);

/* ---- smb_about.c ---- */

#define ABOUT_LOOK (SEC_FILE_READ_ATTRIBUTE | SEC_STD_READ_CONTROL | SEC_FILE_READ_EA)
#define SHARE_ALL  (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

enum { INFO_FILE = 1, INFO_SECURITY = 3 };
enum { CLASS_BASIC = 4, CLASS_EA = 15, CLASS_ALL = 18, CLASS_STREAMS = 22 };

enum { Q_ALL, Q_SECURITY, Q_STREAMS, Q_AT_ONCE, Q_EAS = Q_AT_ONCE, QUESTIONS };

/* What is being asked of one object, and what was answered. */
struct asking {
	struct worker *w;
	const char *path;
	struct cli_state *cli;
	char *there;
	uint16_t file;
	uint64_t stream_max;
	struct about_answer {
		NTSTATUS status;
		DATA_BLOB b;
	} answers[QUESTIONS];
	struct exact_about *out;
	/* other requests are under way, so nothing more can be asked here: whatever wants that, or is
	 * an error, is -EAGAIN */
	bool plain;
};

/* Take the answers apart, into k->out: as exact_about(). */
int about_all(struct asking *k, bool *eas); /* *eas: it has some, which are to be asked for */
int about_descriptor(struct asking *k);
int about_streams(struct asking *k, bool *by_path);
int about_eas(struct asking *k);

/*
 * A list whose entries begin with the offset of the next one: take the entry at *at, and move
 * *at.  1, 0 at the end, -1: @fixed bytes are not there, or the offset is wrong.
 */
int exact_chained(const DATA_BLOB *b, size_t fixed, size_t *at, const uint8_t **entry,
		  size_t *room);
/* The name of @len bytes at @p, UTF-8; NULL: it is none, or there is a NUL in it. */
char *exact_name(TALLOC_CTX *mem, const uint8_t *p, size_t len);

#endif
