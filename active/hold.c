/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hold.c - see hold.h.
 *
 * In this order, and back: the lease; the disk mounted; STUB_ACTIVE_DIR says so, and the volume can
 * be opened.  What cannot be undone in the right order is undone from the bottom: a file system that
 * is in use when the lease is lost, or stays so after we were told to end, is shut down.  Nothing of
 * this node reaches the disk after that, so the lease can go.
 */
#include "hold.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "notify.h"

#define SIGNS_OF_LIFE 2	   /* that tell that the other node is not just dying */
#define LOOK_MS	      1000
#define JOIN_MS	      200
#define UNMOUNT_MS    45000 /* to end what uses it, within TimeoutStopSec of the unit */
#define UNMOUNT_AGAIN_MS 200

struct holder {
	const struct nodes *nodes;
	stub_log_fn log;
	struct lease lease;
	int signals;   /* signalfd */
	int active_fd; /* of stub_active_hold() */
};

enum told { NOTHING, END, LOST };

static void __attribute__((format(printf, 3, 4)))
say(const struct holder *h, enum stub_log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	h->log(NULL, level, text);
	notify("STATUS=%s", text);
}

static const char *node_name(const struct holder *h, unsigned int node, char other[32])
{
	if (node >= 1 && node <= h->nodes->n)
		return h->nodes->name[node - 1];
	snprintf(other, 32, "node %u", node);
	return other;
}

/* So long, or until somebody tells us something. */
static enum told listen_ms(struct holder *h, int ms)
{
	struct pollfd p[2] = { { .fd = h->signals, .events = POLLIN },
			       { .fd = h->lease.sock, .events = POLLIN } };
	struct signalfd_siginfo si;

	if (poll(p, 2, ms) <= 0)
		return NOTHING;
	if (p[1].revents) {
		say(h, STUB_LOG_ERROR, "sanlock has ended: nobody keeps the lease");
		return LOST;
	}
	if (read(h->signals, &si, sizeof(si)) != sizeof(si))
		return NOTHING;
	if (!lease_speaks((int)si.ssi_pid))
		return END;
	say(h, STUB_LOG_ERROR, "the lease cannot be kept: its disk %s does not answer", h->nodes->lease);
	return LOST;
}

/* ---- the beginning ---- */

/* -ECANCELED: we are to end */
static int join(struct holder *h)
{
	int r;

	say(h, STUB_LOG_INFO, "joining the lockspace on %s, which takes %u s, and %u s where this machine was cut off",
	    h->nodes->lease, 2 * h->lease.io_timeout, 8 * h->lease.io_timeout + 60);
	r = lease_join(&h->lease);
	while (r == 0 && (r = lease_joined(&h->lease)) == -EINPROGRESS)
		r = listen_ms(h, JOIN_MS) == NOTHING ? 0 : -ECANCELED;
	return r;
}

/* -EAGAIN: it is another node's; -ECANCELED: we are to end */
static int wait_for_lease(struct holder *h, bool *orphan)
{
	struct lease_owner o, was = { .node = 0 };
	unsigned int signs = 0;
	char other[32];
	int r;

	while ((r = lease_take(&h->lease, orphan)) == -EAGAIN) {
		if (lease_owner(&h->lease, &o) == 0 && o.node) {
			if (o.node != was.node)
				say(h, STUB_LOG_WARN,
				    "%s has the lease: it is waited for, up to %u s, if it is dead, and refused if it "
				    "lives", node_name(h, o.node, other), 8 * h->lease.io_timeout + 60);
			else if (was.time && o.time != was.time && ++signs >= SIGNS_OF_LIFE)
				break;
			if (o.time || o.node != was.node)
				was = o;
		}
		if (listen_ms(h, LOOK_MS) != NOTHING)
			return -ECANCELED;
	}
	if (r == -EAGAIN)
		say(h, STUB_LOG_ERROR, "%s is the active node of %s, and alive: stop it there first",
		    node_name(h, o.node, other), h->nodes->mount);
	else if (r < 0)
		say(h, STUB_LOG_ERROR, "cannot take the lease on %s: %s", h->nodes->lease,
		    r == -EBUSY ? "another postcopy-active has it here" : lease_strerror(r));
	return r;
}

/* The disk, under the lease.  @orphan: it may have been mounted by our predecessor. */
static int bring_up(struct holder *h, bool orphan)
{
	const struct nodes *n = h->nodes;
	int r = disk_mounted(n->device, n->mount);

	if (r == 1 && orphan) {
		say(h, STUB_LOG_WARN, "%s is mounted already, under the lease that this node had: it goes on",
		    n->mount);
		return 0;
	}
	if (r == 1 || r == -EEXIST) {
		say(h, STUB_LOG_ERROR,
		    r == 1 ? "%s is mounted without the lease: end what uses it and unmount it, or restart this machine" :
			     "something else than its device is mounted at %s: unmount that", n->mount);
		return -EEXIST;
	}
	if (r < 0) {
		say(h, STUB_LOG_ERROR, "%s, %s: %s", n->device, n->mount, strerror(-r));
		return r;
	}
	r = disk_busy(n->device);
	if (r != 0) {
		say(h, STUB_LOG_ERROR, r == 1 ? "%s is in use here without the lease: end that, or restart this machine" :
						"%s: %s", n->device, strerror(-r));
		return r == 1 ? -EBUSY : r;
	}
	r = disk_mount(n->device, n->mount, n->options);
	if (r < 0)
		say(h, STUB_LOG_ERROR, r == -EOPNOTSUPP ? "%s: want XFS or ext4, for they can be shut down" :
							  "cannot mount %s: %s", n->device, strerror(-r));
	return r;
}

static int declare(struct holder *h)
{
	struct stub_active a = { .since = (uint64_t)time(NULL) };
	struct stat st;

	strcpy(a.lease, h->lease.name);
	strcpy(a.node, h->nodes->name[h->nodes->here - 1]);
	if (stat(h->nodes->mount, &st) < 0)
		return -errno;
	a.dev = st.st_dev;
	if (mkdir("/run/postcopy", 0700) < 0 && errno != EEXIST)
		return -errno;
	h->active_fd = stub_active_hold(&a);
	if (h->active_fd < 0)
		say(h, STUB_LOG_ERROR, STUB_ACTIVE_DIR ": %s", strerror(-h->active_fd));
	return h->active_fd < 0 ? h->active_fd : 0;
}

/* ---- the end ---- */

/* 0: nothing of this node reaches the disk any more. */
static int stop_writing(struct holder *h)
{
	int r = disk_shutdown(h->nodes->device);

	if (r == -ENXIO && disk_busy(h->nodes->device) == 0)
		r = 0;
	if (r == 0)
		say(h, STUB_LOG_WARN, "the file system at %s was shut down, as after a power cut: nothing of this node "
				      "reaches its disk any more", h->nodes->mount);
	else
		say(h, STUB_LOG_ERROR, "cannot shut the file system at %s down: %s. The lease stays with this node, and "
				       "its watchdog ends it: restart it", h->nodes->mount, strerror(-r));
	return r;
}

/* -EBUSY also if it stays mounted in another mount namespace, or is unmounted there in a moment. */
static int unmount(const struct nodes *n)
{
	int r = disk_unmount(n->mount);

	if (r == 0 || r == -EINVAL) /* EINVAL: it was unmounted already */
		r = disk_busy(n->device);
	return r == 1 ? -EBUSY : r;
}

/* 0: unmounted; else it stays, and is to be shut down. */
static int take_down(struct holder *h)
{
	uint64_t until = stub_now_ms() + UNMOUNT_MS;
	bool told = false;
	int r;

	while ((r = unmount(h->nodes)) == -EBUSY && stub_now_ms() < until) {
		if (!told)
			say(h, STUB_LOG_WARN, "%s is in use: waiting for that to end (fuser -vm %s)", h->nodes->mount,
			    h->nodes->mount);
		told = true;
		if (listen_ms(h, UNMOUNT_AGAIN_MS) == LOST)
			return -EIO;
	}
	return r;
}

static int end(struct holder *h, bool lost)
{
	notify("STOPPING=1");
	if (h->active_fd >= 0)
		close(h->active_fd);
	if (lost || take_down(h) < 0) {
		if (stop_writing(h) < 0)
			return HOLD_LOST;
		if (lost)
			lease_unuse(&h->lease);
		else
			lease_give_back(&h->lease);
		return HOLD_LOST;
	}
	/* the last that others see: from here on one of them may have it */
	say(h, STUB_LOG_INFO, "%s is unmounted, the lease is given back", h->nodes->mount);
	lease_give_back(&h->lease);
	return 0;
}

/* ---- */

static int serve(struct holder *h, bool orphan)
{
	enum told told;
	int r = lease_use(&h->lease);

	if (r < 0)
		say(h, STUB_LOG_ERROR, "sanlock: %s", lease_strerror(r));
	else
		r = bring_up(h, orphan);
	if (r < 0) {
		if (orphan) { /* what is in use is in use under it */
			say(h, STUB_LOG_ERROR, "the lease stays with this node");
			return HOLD_FAILED;
		}
		lease_give_back(&h->lease);
		return HOLD_FAILED;
	}
	if (declare(h) < 0)
		return end(h, false) ? HOLD_LOST : HOLD_FAILED;
	say(h, STUB_LOG_INFO, "this is the active node of %s", h->nodes->mount);
	notify("READY=1");
	do
		told = listen_ms(h, -1);
	while (told == NOTHING);
	return end(h, told == LOST);
}

int hold(const struct nodes *nodes, stub_log_fn log)
{
	struct holder h = { .nodes = nodes, .log = log, .active_fd = -1 };
	bool orphan;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	h.signals = signalfd(-1, &set, SFD_CLOEXEC);
	r = h.signals < 0 ? -errno : lease_open(&h.lease, nodes->lease, nodes->here, LEASE_WAIT_MS);
	if (r == 0)
		r = join(&h);
	if (r == -ECANCELED) {
		lease_leave(&h.lease);
		r = 0;
	} else if (r < 0) {
		say(&h, STUB_LOG_ERROR, "the lease on %s: %s", nodes->lease, lease_strerror(r));
		r = HOLD_FAILED;
	} else {
		r = wait_for_lease(&h, &orphan);
		if (r == 0)
			r = serve(&h, orphan);
		else {
			lease_leave(&h.lease);
			r = r == -EAGAIN ? HOLD_OTHER : r == -ECANCELED ? 0 : HOLD_FAILED;
		}
	}
	lease_close(&h.lease);
	if (h.signals >= 0)
		close(h.signals);
	return r;
}
