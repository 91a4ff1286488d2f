/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lease.h - a lease on a shared disk, which one node at a time has: sanlock's (sanlock(8)).
 *
 * The disk has a lockspace and one resource in it, 1 MiB each.  The lockspace's name is a UUID, which
 * is the lease's name.  A node has a number in the lockspace, and writes there every 2 * io_timeout
 * seconds as long as it lives; who has the resource, and has not written for 8 * io_timeout + 60
 * seconds, is dead: by then its own sanlock has ended what used the lease, or its watchdog the machine.
 *
 * The resource is *persistent*: it stays this node's when its holder dies, and another holder here
 * takes it over.  From lease_use() on until lease_give_back() the node does not live on without
 * the lease: if nobody here lets go of it in time, the watchdog resets the machine.
 *
 * One thread uses a lease.
 */
#ifndef ACTIVE_LEASE_H
#define ACTIVE_LEASE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "stubtools.h"

struct sanlk_resource;

#define LEASE_BYTES	 (2 << 20)
#define LEASE_TIMEOUT	 10 /* s, of one access to the disk; as sanlock has it */
#define LEASE_TIMEOUT_MAX 60
#define LEASE_WAIT_MS	 5000 /* for sanlock */

struct lease {
	char device[PATH_MAX];
	char name[STUB_LEASE_MAX + 1];
	unsigned int io_timeout; /* s */
	unsigned int node;	 /* our number */
	uint32_t size_flags;	 /* of sector and area, as sanlock has them */
	int sock;		 /* registered with sanlock; readable when that has ended; -1: not yet */
	struct sanlk_resource *res;
};

struct lease_owner {
	unsigned int node; /* 0: nobody */
	uint64_t time;	   /* changes with each of its signs of life; 0: not known */
	bool dead;	   /* and its watchdog has reset it, if it had to */
};

/*
 * Make a lease on @device, whose first LEASE_BYTES must be zeros, and say its name.
 *   -EEXIST     it has one, whose name is said
 *   -ENOTEMPTY  something else is there
 *   -EBUSY      it is in use
 *   -EFBIG      it is smaller
 *   as lease_open()
 */
int lease_make(const char *device, unsigned int io_timeout, char name[STUB_LEASE_MAX + 1]);

/*
 * What is on @device; nothing is held.  @node may be 0: to look only.  So long sanlock, which may have been
 * started a moment ago, is waited for.
 *   -ENODATA       there is no lease
 *   -ECONNREFUSED  sanlock does not run
 *   -EIO           it cannot be read; -errno
 */
int lease_open(struct lease *l, const char *device, unsigned int node, unsigned int wait_ms);
void lease_close(struct lease *l); /* without a word to others */

/*
 * Begin to become node @node of the lockspace.
 *   -EADDRINUSE  this machine has joined it with another number
 *   -EAGAIN      sanlock is leaving it just now
 *   -errno
 */
int lease_join(struct lease *l);
/*
 * Has it joined?  That takes 2 io_timeouts, and as long as a dead node is waited for if this machine was
 * cut off from the lease before.
 *   -EINPROGRESS   not yet
 *   -ECONNABORTED  it could not, as where another machine has that number
 */
int lease_joined(struct lease *l);
void lease_leave(struct lease *l);

/*
 * Take the lease; does not wait for anybody.
 *   0        and @orphan: this node had it already, from a holder that has died
 *   -EAGAIN  another node has it, see lease_owner()
 *   -EBUSY   another process of this node has it
 *   -errno
 */
int lease_take(struct lease *l, bool *orphan);
/* What it guards is used from now on.  -errno */
int lease_use(struct lease *l);
/* It no longer is: the node may live on, whatever becomes of the lease. */
void lease_unuse(struct lease *l);
/* It no longer is; the lease is everybody's, and we leave the lockspace.  -errno */
int lease_give_back(struct lease *l);

/* Who has it; what is not on the disk is known only to who has joined.  -errno */
int lease_owner(struct lease *l, struct lease_owner *out);

/* Is process @pid, which tells us to end, sanlock?  Then the lease is being lost. */
bool lease_speaks(int pid);

/* Of what lease_*() has returned. */
const char *lease_strerror(int r);

#endif
