/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs_server.h - the hostile NFSv3 server of fuzz_nfs_reply.c: one thread that
 * answers the portmapper, MOUNT and NFS with what an input says.
 *
 * The input is a sequence of answers, one for each request as it comes:
 *
 *   u8 form, u16 length, bytes
 *     form & 7   0  envelope (accepted, success) and bytes
 *                1  the honest result, with bytes as changes: u16 place, u8 value
 *                2  the request's xid, then bytes
 *                3  bytes as they are, without even a record marker
 *                4  the honest result
 *                5  none: the connection is closed
 *                6  as 0, but the record does not end
 *                7  as 0, with another xid before it
 *                3, 6, 7: then the connection is closed unless more calls come at
 *                once, so that nobody waits in vain
 *     form & 8   the record goes in two fragments
 *     form & 16  u16 length, u16 count, bytes: so often behind the first
 *     form & 32  the connection stays, and the call without an answer
 *
 * When the input is used up, or without NFS_SERVER_SETUP where a connection is
 * made, answers are honest.
 */
#ifndef FUZZ_NFS_SERVER_H
#define FUZZ_NFS_SERVER_H

#include "fuzz.h"
#include "source/source.h"

#define NFS_SERVER_PORT 2049
#define NFS_SERVER_SETUP 1 /* also what makes a connection is answered by the input */

/* In a network namespace of this process alone. */
void nfs_server_start(void);
/* Take this input from now on; everything of the last one is over. */
void nfs_server_input(const struct fuzz_in *in, unsigned int flags);
/* Whom to stop when it asks for ever; NULL: nobody. */
void nfs_server_client(struct source *s);

#endif
