/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs41_server.h - a server of NFSv4.1 and later for unit tests: a thread behind a loopback socket.
 *
 * It knows one export, "/e", whose root is a directory with file id 2.  In that are "with" (handle "file",
 * file id 3) and "plain" (handle "none", file id 4), an empty one without extended attributes.  It looks at sessions as a server has to: slots, their numbers, who asks.
 * What it says wrong is told by its switches.
 */
#ifndef NFS41_SERVER_H
#define NFS41_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "nfs/nfs41.h"

struct nfs41_server {
	/* set before it is started */
	uint32_t minor; /* the highest that it has */
	uint32_t slots, reply_max, ops_max, lease_s;

	/* while it runs: so many calls from now on are answered so */
	atomic_uint lose; /* BADSESSION */
	atomic_uint garble; /* SEQUENCE with another slot */
	atomic_uint later; /* SEQUENCE says DELAY */
	atomic_uint hang_up; /* the connection is closed instead */
	atomic_uint refuse; /* RPC says that it cannot read the call */
	atomic_uint flags; /* sr_status_flags, of all */
	atomic_bool mute; /* the end of a session is not answered */

	/* the file, between calls: its data is bytes of 1, else there are zeros */
	uint64_t size;
	struct stub_range data[64];
	unsigned int n_data;
	uint32_t seek_status; /* SEEK ends with it */
	/* READ ends with it, if it is not 0: the @nth of its compound, from 1; of "plain" */
	uint32_t (*read_status)(struct nfs41_server *s, unsigned int nth, bool plain);
	bool no_end; /* SEEK says of data behind the last: there is none; else NXIO */
	bool back; /* SEEK answers one byte before what was asked about */
	bool both; /* what is a hole is data, too */
	bool liar; /* there is data everywhere */

	/* extended attributes of the file, and how they are told */
	struct {
		const char *name, *value; /* value NULL: it is gone when it is asked for */
		uint32_t name_len, len;
	} xattrs[16];
	unsigned int n_xattrs;
	unsigned int page; /* names in one answer; 0: all */
	bool stuck; /* cookies stand still */
	bool endless; /* 500 names more with each answer, */
	bool too_long; /* ... which no Linux has */
	bool no_support; /* its file system has no extended attributes */
	uint32_t list_status, get_status; /* LISTXATTRS, GETXATTR end with it */
	struct timespec born; /* all 0: no creation times are told */

	/* what was seen */
	atomic_uint lists;
	atomic_uint sessions, destroyed, clients_destroyed, sequences, alone; /* SEQUENCE alone */
	atomic_uint seeks, reads;
	atomic_uint messages, together; /* compounds with READs, and most READs in one */
	atomic_uint wrong; /* calls that break the protocol */
	atomic_uint most; /* the highest slot, from 1 */

	int fd;
	uint16_t port;
	pthread_t thread;
	atomic_bool stop;
};

void nfs41_server_start(struct nfs41_server *s);
void nfs41_server_stop(struct nfs41_server *s);

/* ---- what a source of it logs ---- */

struct nfs41_told {
	pthread_mutex_t lock;
	char text[8192];
};

/* A stub_log_fn; @arg: struct nfs41_told. */
void nfs41_take_log(void *arg, enum stub_log_level level, const char *line);
bool nfs41_was_told(struct nfs41_told *t, const char *what);

#endif
