/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs_answer.h - answers of the server of nfs_server.h: as the input has them, or
 * as an honest server gives them.  @call is a call of @n bytes, at least 24, without
 * its record marker.
 */
#ifndef FUZZ_NFS_ANSWER_H
#define FUZZ_NFS_ANSWER_H

#include "fuzz.h"

uint32_t nfs_answer_get32(const uint8_t *p);
/* Is it one of those that make a connection? */
bool nfs_answer_is_setup(const uint8_t *call);

/* Both send it; false: close the connection. */
bool nfs_answer_from(int fd, struct fuzz_in *in, const uint8_t *call, size_t n, bool *unanswered);
bool nfs_answer_honestly(int fd, const uint8_t *call, size_t n);

#endif
