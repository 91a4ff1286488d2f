/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_put.h - what Windows knows of one object, made the same at the server: PUT.
 *
 * smb_want.c takes apart what is stored here, smb_put.c compares it with what the server has
 * (smb_about.h), and sets what differs.
 */
#ifndef SMB_PUT_H
#define SMB_PUT_H

#include "smb_worker/smb_about.h"
#include "source/target.h"

/* How it is to be. */
struct put_want {
	bool dir;
	uint64_t fileid;
	bool has_attributes;
	uint32_t attributes; /* FILE_ATTRIBUTE_*, those that Samba stores */
	uint64_t create_time; /* NTTIME; 0: as it is */
	struct smb_stream *streams;
	size_t n_streams;
	struct smb_ea *eas;
	size_t n_eas;
	void *sd; /* NULL: none is in force */
	size_t sd_len;
};

/* Results are those of smb_worker.h, and -ESTALE: another object has the path. */
int exact_put(struct worker *w, const char *path, const struct put_want *want, bool look,
	      struct target_put *out);

#endif
