// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstree: connections.
 *
 * A call (nt_op) is at any time in exactly one place: the ready queue, the
 * delayed list (the server said "try again later"), in flight on a link, or on
 * a link's failed list.  A link that breaks gives everything it had in flight
 * back to the ready queue: all calls here only read, so repeating is harmless.
 *
 * libnfs reports a broken connection by failing each call, exactly as it
 * reports a bad reply.  What it was is known only when rpc_service() returns;
 * until then failed calls wait on link->failed.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nfstree.h"

#define PAUSE_FIRST	0.01 /* back-off after JUKEBOX, seconds */
#define PAUSE_LONGEST	0.5
#define RECONNECT_PAUSE 0.1
#define MAX_RPC_ERRORS	5 /* bad replies to one call */

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_UP };

struct nt_link {
	struct rpc_context *rpc;
	enum link_state state;
	int in_flight;
	bool closing;
	bool broken;
	double heard; /* last sign of life, or first call after silence */
	double retry_at;
	struct nt_op *failed;
};

struct nt_stats nt_stats;

static const struct nt_options *opt;
static struct nt_link links[NT_MAX_LINKS];
static struct nt_op *ready_head, **ready_tail = &ready_head;
static struct nt_op *delayed;
static int n_ready, n_delayed, n_in_flight;
static double last_reply;

double nt_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* ---- queues ---- */

void nt_pool_submit(struct nt_op *op)
{
	op->next = NULL;
	*ready_tail = op;
	ready_tail = &op->next;
	n_ready++;
}

static struct nt_op *ready_pop(void)
{
	struct nt_op *op = ready_head;

	if (op) {
		ready_head = op->next;
		if (!ready_head)
			ready_tail = &ready_head;
		n_ready--;
	}
	return op;
}

static void delay_op(struct nt_op *op)
{
	double now = nt_now();

	nt_stats.delays++;
	if (op->first_delay == 0) {
		op->first_delay = now;
		op->pause = PAUSE_FIRST;
	}
	op->not_before = now + op->pause;
	op->pause = op->pause * 2 < PAUSE_LONGEST ? op->pause * 2 : PAUSE_LONGEST;
	op->next = delayed;
	delayed = op;
	n_delayed++;
}

/* Move what has waited long enough to the ready queue; return ms to the next. */
static int wake_delayed(int ms)
{
	double now = nt_now();
	struct nt_op **p = &delayed;

	while (*p) {
		struct nt_op *op = *p;
		double left = op->not_before - now;

		if (left <= 0) {
			*p = op->next;
			n_delayed--;
			nt_pool_submit(op);
			ms = 0;
			continue;
		}
		if (left * 1000 < ms)
			ms = (int)(left * 1000) + 1;
		p = &op->next;
	}
	return ms;
}

int nt_pool_room(void)
{
	return opt->connections * opt->jobs - n_ready - n_delayed - n_in_flight;
}

bool nt_pool_busy(void)
{
	return n_ready || n_delayed || n_in_flight;
}

/* ---- replies ---- */

static void call_cb(struct rpc_context *rpc, int status, void *data, void *private_data)
{
	struct nt_op *op = private_data;
	struct nt_link *link = op->link;

	(void)rpc;
	link->in_flight--;
	n_in_flight--;
	if (status != RPC_STATUS_SUCCESS || !data) {
		op->next = link->failed;
		link->failed = op;
		return;
	}
	link->heard = last_reply = nt_now();
	if (*(nfsstat3 *)data == NFS3ERR_JUKEBOX &&
	    (op->first_delay == 0 || last_reply - op->first_delay < opt->retry_seconds)) {
		delay_op(op);
		return;
	}
	op->first_delay = 0;
	op->done(op, *(nfsstat3 *)data, data);
}

/* What failed goes back to the queue, or is given up after bad replies. */
static void settle_failed(struct nt_link *link, bool connection_lost)
{
	struct nt_op *op;

	while ((op = link->failed)) {
		link->failed = op->next;
		if (!connection_lost && ++op->rpc_errors >= MAX_RPC_ERRORS)
			op->done(op, NFS3ERR_IO, NULL);
		else
			nt_pool_submit(op);
	}
}

/* ---- links ---- */

static void link_drop(struct nt_link *link)
{
	if (link->rpc) {
		link->closing = true;
		rpc_destroy_context(link->rpc); /* fails everything in flight */
		link->closing = false;
		link->rpc = NULL;
	}
	settle_failed(link, true);
	if (link->state == LINK_UP)
		nt_stats.reconnects++;
	link->state = LINK_DOWN;
	link->broken = false;
	link->retry_at = nt_now() + RECONNECT_PAUSE;
}

static void connect_cb(struct rpc_context *rpc, int status, void *data, void *private_data)
{
	struct nt_link *link = private_data;

	(void)rpc;
	(void)data;
	if (link->closing)
		return;
	if (status != RPC_STATUS_SUCCESS) {
		link->broken = true;
		return;
	}
	link->state = LINK_UP;
	link->heard = nt_now();
}

static int start_connect(struct rpc_context *rpc, int port, int program, int version, rpc_cb cb,
			 void *arg)
{
	rpc_set_uid(rpc, opt->uid);
	rpc_set_gid(rpc, opt->gid);
	if (port)
		return rpc_connect_port_async(rpc, opt->server, port, program, version, cb, arg);
	return rpc_connect_program_async(rpc, opt->server, program, version, cb, arg);
}

static void link_connect(struct nt_link *link)
{
	link->rpc = rpc_init_context();
	link->state = LINK_CONNECTING;
	link->heard = nt_now();
	if (!link->rpc ||
	    start_connect(link->rpc, opt->nfs_port, NFS_PROGRAM, NFS_V3, connect_cb, link) != 0)
		link_drop(link);
}

static void dispatch(void)
{
	int tried = 0;
	static int turn;

	while (ready_head && tried < opt->connections) {
		struct nt_link *link = &links[turn++ % opt->connections];
		struct nt_op *op;

		if (link->state != LINK_UP || link->in_flight >= opt->jobs) {
			tried++;
			continue;
		}
		tried = 0;
		op = ready_pop();
		op->link = link;
		if (link->in_flight == 0)
			link->heard = nt_now();
		link->in_flight++;
		n_in_flight++;
		nt_stats.calls++;
		if (op->send(link->rpc, call_cb, op) != 0) {
			link->in_flight--;
			n_in_flight--;
			nt_pool_submit(op);
			link_drop(link);
		}
	}
}

/* Links that are due for reconnecting, or silent for too long. */
static int tend_links(int ms)
{
	double now = nt_now();

	for (int i = 0; i < opt->connections; i++) {
		struct nt_link *link = &links[i];
		bool waiting = link->state == LINK_CONNECTING || link->in_flight;

		if (waiting && now - link->heard > opt->timeout_seconds)
			link_drop(link);
		if (link->state == LINK_DOWN) {
			if (now >= link->retry_at)
				link_connect(link);
			else if ((link->retry_at - now) * 1000 < ms)
				ms = (int)((link->retry_at - now) * 1000) + 1;
		}
	}
	return ms;
}

static void serve(struct nt_link *link, int revents)
{
	bool lost = rpc_service(link->rpc, revents) != 0 || link->broken ||
		    rpc_get_fd(link->rpc) < 0;

	settle_failed(link, lost);
	if (lost)
		link_drop(link);
}

int nt_pool_turn(int ms)
{
	struct pollfd fds[NT_MAX_LINKS];
	struct nt_link *of[NT_MAX_LINKS];
	int n = 0;

	ms = wake_delayed(tend_links(ms));
	dispatch();
	for (int i = 0; i < opt->connections; i++) {
		if (links[i].state == LINK_DOWN)
			continue;
		of[n] = &links[i];
		fds[n].fd = rpc_get_fd(links[i].rpc);
		fds[n].events = rpc_which_events(links[i].rpc);
		fds[n++].revents = 0;
	}
	if (poll(fds, n, ms) < 0 && errno != EINTR)
		return -1;
	for (int i = 0; i < n; i++)
		if (fds[i].revents && of[i]->state != LINK_DOWN)
			serve(of[i], fds[i].revents);
	return nt_pool_busy() && nt_now() - last_reply > opt->retry_seconds ? -1 : 0;
}

int nt_pool_start(const struct nt_options *options)
{
	opt = options;
	last_reply = nt_now();
	return 0;
}

void nt_pool_stop(void)
{
	for (int i = 0; i < opt->connections; i++)
		if (links[i].rpc) {
			links[i].closing = true;
			rpc_destroy_context(links[i].rpc);
			links[i].rpc = NULL;
		}
}

/* ---- MOUNT ---- */

struct mounting {
	int state; /* 0 waiting, 1 connected, 2 done, -1 failed, -2 refused */
	uint8_t *fh;
	uint32_t *fh_len;
};

static void mount_connected_cb(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct mounting *m = arg;

	(void)rpc;
	(void)data;
	m->state = status == RPC_STATUS_SUCCESS ? 1 : -1;
}

static void mount_mnt_cb(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct mounting *m = arg;
	mountres3 *res = data;

	(void)rpc;
	m->state = -1;
	if (status != RPC_STATUS_SUCCESS)
		return;
	m->state = -2;
	if (res->fhs_status != MNT3_OK) {
		fprintf(stderr, "nfstree: mount of %s refused: %s\n", opt->export,
			mountstat3_to_str(res->fhs_status));
		return;
	}
	*m->fh_len = res->mountres3_u.mountinfo.fhandle.fhandle3_len;
	if (*m->fh_len > NT_MAX_FH)
		return;
	memcpy(m->fh, res->mountres3_u.mountinfo.fhandle.fhandle3_val, *m->fh_len);
	m->state = 2;
}

static void mount_wait(struct rpc_context *rpc, struct mounting *m, int from, double end)
{
	while (m->state == from && nt_now() < end) {
		struct pollfd fd = { .fd = rpc_get_fd(rpc), .events = rpc_which_events(rpc) };

		if (poll(&fd, 1, 100) > 0 && rpc_service(rpc, fd.revents) != 0) {
			m->state = -1;
			return;
		}
	}
}

static int mount_once(uint8_t *fh, uint32_t *fh_len)
{
	static struct mounting m; /* libnfs may call back while it is torn down */
	struct rpc_context *rpc = rpc_init_context();
	double end = nt_now() + opt->timeout_seconds;
	int result;

	m = (struct mounting){ .fh = fh, .fh_len = fh_len };
	if (!rpc)
		return -1;
	if (start_connect(rpc, opt->mount_port, MOUNT_PROGRAM, MOUNT_V3, mount_connected_cb, &m) ==
	    0)
		mount_wait(rpc, &m, 0, end);
	if (m.state == 1) {
		m.state = rpc_mount3_mnt_async(rpc, mount_mnt_cb, opt->export, &m) == 0 ? 1 : -1;
		mount_wait(rpc, &m, 1, end);
	}
	result = m.state;
	rpc_destroy_context(rpc);
	return result == 2 ? 0 : result == -2 ? -2 : -1;
}

int nt_pool_mount(uint8_t *fh, uint32_t *fh_len)
{
	double end = nt_now() + opt->retry_seconds;
	int rc;

	while ((rc = mount_once(fh, fh_len)) == -1 && nt_now() < end)
		poll(NULL, 0, 200);
	last_reply = nt_now();
	return rc;
}
