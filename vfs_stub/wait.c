/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * wait.c - asks that do not stop the session.
 *
 * One connection (stub_link) to the retriever carries all asks of a connection to the
 * share that wait on smbd's event loop; answers come in any order and are told apart by
 * their id.  When the retriever goes away, all of them are sent again to the next one,
 * which is looked for every RETRY_MS: asks are idempotent.  An ask that has waited for
 * give_up seconds is answered -EREMOTEIO.
 *
 * A request that smbd frees (the client has gone) leaves the list; its answer, when it
 * comes, belongs to nobody.  A CLOSE waits in smbd for the reads of the file: those that
 * wait for the old server are given up then, since nobody wants them any more.
 */
#include "stub_glue.h"

#include "lib/util/dlinklist.h"
#include "smbd/globals.h"

#include <errno.h>
#include <poll.h>

#define RETRY_MS 100
#define CLOSE_MS 200 /* between two looks whether the client wants to close the file */

struct asking {
	struct asking *prev, *next;
	struct tevent_req *req;
	struct stubvfs_link *link; /* NULL: in no list */
	struct stub_ask ask;
	bool sent;
	uint32_t id;
	uint64_t since_us; /* of stub_gate_asks() */
	int result;
};

struct stubvfs_link {
	struct stubvfs *x;
	struct tevent_context *ev;
	struct stub_link *link; /* NULL: no retriever now */
	struct tevent_fd *fde;
	struct tevent_timer *timer;
	struct asking *list;
};

static void link_retry(struct stubvfs_link *l);

/* ---- the connection ---- */

static void link_break(struct stubvfs_link *l)
{
	TALLOC_FREE(l->fde);
	stub_link_destroy(l->link);
	l->link = NULL;
	for (struct asking *a = l->list; a; a = a->next)
		a->sent = false;
}

static void asking_leave(struct asking *a, int result)
{
	stub_gate_answered(&a->link->x->gate, &a->ask, a->since_us, result);
	DLIST_REMOVE(a->link->list, a);
	a->link = NULL;
}

static void asking_done(struct asking *a, int result)
{
	asking_leave(a, result);
	a->result = result;
	tevent_req_done(a->req);
}

static struct asking *asking_of(struct stubvfs_link *l, uint32_t id)
{
	struct asking *a = l->list;

	while (a && !(a->sent && a->id == id))
		a = a->next;
	return a;
}

/* What has come.  A callback may ask anew, but not close the connection. */
static void link_readable(struct tevent_context *ev, struct tevent_fd *fde, uint16_t flags,
			  void *private_data)
{
	struct stubvfs_link *l = private_data;
	uint32_t id;
	int result, r;

	while (l->link && (r = stub_link_receive(l->link, 0, &id, &result)) != 0) {
		struct asking *a = r < 0 ? NULL : asking_of(l, id);

		if (r < 0) {
			link_break(l);
			link_retry(l);
		} else if (a && result == -EAGAIN) { /* it is stopping */
			a->sent = false;
			link_retry(l);
		} else if (a) {
			asking_done(a, result);
		}
	}
}

static bool link_open(struct stubvfs_link *l)
{
	bool root;
	int r;

	if (l->link)
		return true;
	root = glue_root_enter();
	r = stub_link_create(l->x->gate.volume, &l->link);
	glue_root_leave(root);
	if (r < 0) {
		l->link = NULL;
		return false;
	}
	l->fde = tevent_add_fd(l->ev, l, stub_link_fd(l->link), TEVENT_FD_READ, link_readable, l);
	if (!l->fde)
		link_break(l);
	return l->link != NULL;
}

static void link_send(struct stubvfs_link *l)
{
	for (struct asking *a = l->list; a; a = a->next) {
		if (a->sent)
			continue;
		if (!link_open(l) || stub_link_send(l->link, &a->ask, &a->id) < 0) {
			if (l->link)
				link_break(l);
			link_retry(l);
			return;
		}
		a->sent = true;
	}
}

static void link_timer(struct tevent_context *ev, struct tevent_timer *te, struct timeval now,
		       void *private_data)
{
	struct stubvfs_link *l = private_data;

	TALLOC_FREE(l->timer);
	link_send(l);
}

static void link_retry(struct stubvfs_link *l)
{
	if (!l->timer)
		l->timer = tevent_add_timer(l->ev, l, timeval_current_ofs_msec(RETRY_MS),
					    link_timer, l);
}

static struct stubvfs_link *link_of(struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	if (!x->link) {
		x->link = talloc_zero(x, struct stubvfs_link);
		if (x->link) {
			x->link->x = x;
			x->link->ev = handle->conn->sconn->ev_ctx;
		}
	}
	return x->link;
}

void glue_link_destroy(struct stubvfs *x)
{
	if (!x->link)
		return;
	while (x->link->list)
		asking_done(x->link->list, -ECANCELED);
	link_break(x->link);
	TALLOC_FREE(x->link);
}

/*
 * A call that stops the session must look for itself: smbd learns of it only on its event loop,
 * and until then what the client had open and locked stays so.
 */
bool glue_client_gone(const struct stubvfs *x)
{
	const struct smbXsrv_connection *c = x->sconn->client->connections;
	bool any = c != NULL;

	for (; c; c = c->next) {
		struct pollfd p = { .fd = c->transport.sock, .events = POLLRDHUP };

		if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
			return false;
	}
	return any;
}

/* ---- one ask ---- */

static void asking_cleanup(struct tevent_req *req, enum tevent_req_state state)
{
	struct asking *a = tevent_req_data(req, struct asking);

	if (a->link)
		asking_leave(a, state == TEVENT_REQ_TIMED_OUT ? -EREMOTEIO : -ECANCELED);
}

struct tevent_req *glue_ask_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
				 struct vfs_handle_struct *handle, const struct stub_ask *ask)
{
	struct stubvfs *x = stubvfs(handle);
	struct tevent_req *req;
	struct asking *a;

	req = tevent_req_create(mem_ctx, &a, struct asking);
	if (!req)
		return NULL;
	a->req = req;
	a->ask = *ask;
	tevent_req_set_cleanup_fn(req, asking_cleanup);
	if (ev != handle->conn->sconn->ev_ctx) { /* the caller waits with a loop of its own */
		struct stub_wait wait = { 0 };

		a->result = stub_gate_ask(&x->gate, &wait, ask);
		tevent_req_done(req);
		return tevent_req_post(req, ev);
	}
	if (tevent_req_nomem(link_of(handle), req))
		return tevent_req_post(req, ev);
	if (x->give_up &&
	    !tevent_req_set_endtime(req, ev, timeval_current_ofs(x->give_up, 0)))
		return tevent_req_post(req, ev);
	a->since_us = stub_gate_asks(&x->gate, &a->ask);
	a->link = x->link;
	DLIST_ADD_END(x->link->list, a);
	link_send(x->link);
	return req;
}

int glue_ask_recv(struct tevent_req *req)
{
	struct asking *a = tevent_req_data(req, struct asking);
	enum tevent_req_state state;
	uint64_t error;
	int r = a->result;

	if (tevent_req_is_error(req, &state, &error))
		r = state == TEVENT_REQ_TIMED_OUT ? -EREMOTEIO : -ENOMEM;
	tevent_req_received(req);
	return r;
}

/* ---- what a file needs ---- */

struct need_wait {
	struct tevent_context *ev;
	struct vfs_handle_struct *handle;
	struct files_struct *fsp;
	struct stub_front o;
	struct stub_need *need;
	struct tevent_req *sub; /* the ask we wait for */
	int result;
};

static void need_answered(struct tevent_req *sub);

static void need_go(struct tevent_req *req, int result)
{
	struct need_wait *w = tevent_req_data(req, struct need_wait);
	struct stub_ask ask;

	w->sub = NULL;
	w->result = stub_need_step(&w->o, w->need, result, &ask);
	if (w->result <= 0) {
		tevent_req_done(req);
		return;
	}
	w->sub = glue_ask_send(w, w->ev, w->handle, &ask);
	if (!tevent_req_nomem(w->sub, req))
		tevent_req_set_callback(w->sub, need_answered, req);
}

static void need_answered(struct tevent_req *sub)
{
	struct tevent_req *req = tevent_req_callback_data(sub, struct tevent_req);
	int r = glue_ask_recv(sub);

	TALLOC_FREE(sub);
	need_go(req, r);
}

static void need_timer(struct tevent_context *ev, struct tevent_timer *te, struct timeval now,
		       void *private_data)
{
	struct tevent_req *req = private_data;
	struct need_wait *w = tevent_req_data(req, struct need_wait);

	if (!w->fsp->fsp_flags.closing) {
		tevent_add_timer(ev, w, timeval_current_ofs_msec(CLOSE_MS), need_timer, req);
		return;
	}
	TALLOC_FREE(w->sub);
	w->result = -ECANCELED;
	tevent_req_done(req);
}

struct tevent_req *glue_need_send(TALLOC_CTX *mem_ctx, struct tevent_context *ev,
				  struct vfs_handle_struct *handle, struct files_struct *fsp,
				  const struct stub_front *o, struct stub_need *need)
{
	struct tevent_req *req;
	struct need_wait *w;

	req = tevent_req_create(mem_ctx, &w, struct need_wait);
	if (!req)
		return NULL;
	*w = (struct need_wait){ .ev = ev, .handle = handle, .fsp = fsp, .o = *o, .need = need };
	w->o.known = NULL; /* the file may be closed by then */
	need_go(req, 0);
	if (!tevent_req_is_in_progress(req))
		return tevent_req_post(req, ev);
	if (!tevent_add_timer(ev, w, timeval_current_ofs_msec(CLOSE_MS), need_timer, req))
		tevent_req_nomem(NULL, req);
	return tevent_req_is_in_progress(req) ? req : tevent_req_post(req, ev);
}

int glue_need_recv(struct tevent_req *req)
{
	struct need_wait *w = tevent_req_data(req, struct need_wait);
	enum tevent_req_state state;
	uint64_t error;
	int r = w->result;

	if (tevent_req_is_error(req, &state, &error))
		r = -ENOMEM;
	tevent_req_received(req);
	return r;
}
