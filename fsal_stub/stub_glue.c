/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stub_glue.c - the verbs with which this plugin asks libstubcore.
 *
 * Invariants kept here for all rooms:
 *   - an object found normal is never looked at again (docs/design.md, invariant 5);
 *   - a request waits for the old server only within its budget, only while no
 *     more than Max_Waiting others do, and never inside a bracket;
 *   - no errno reaches Ganesha but through the table below.
 */
#include "config.h"
#include "fsal.h"
#include "fsal_convert.h"
#include "nfs_core.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "mount.h"
#include "stub_glue.h"

#define SLICE_MS  500u /* longest single wait, so that a shutdown is noticed */
#define RETRY_MS  50u /* pause while no retriever is running */
#define FORGET_MS 60000 /* an absence nobody noticed for so long counts anew */
#define ROOM_MS	  200 /* between two asks for room in the record of one file */
#define TRIES	  8 /* answers "done" that change nothing */

/* ---- errors ---- */

/*
 * ENOMEM and its kind are DELAY: Ganesha drops an NFSv3 request on ERR_FSAL_NOMEM.
 * What is not listed is an I/O error.
 */
static const struct {
	int error;
	fsal_errors_t fsal;
} errors[] = {
	{ EAGAIN, ERR_FSAL_DELAY }, { ENOMEM, ERR_FSAL_DELAY }, { EMFILE, ERR_FSAL_DELAY },
	{ ENFILE, ERR_FSAL_DELAY }, { EREMOTEIO, ERR_FSAL_IO }, { EBADMSG, ERR_FSAL_IO },
	{ EIO, ERR_FSAL_IO },	    { ENOSPC, ERR_FSAL_NOSPC }, { EDQUOT, ERR_FSAL_DQUOT },
	{ ESTALE, ERR_FSAL_STALE }, { ENOENT, ERR_FSAL_NOENT }, { EINVAL, ERR_FSAL_INVAL },
	{ EROFS, ERR_FSAL_ROFS },   { ENOTEMPTY, ERR_FSAL_NOTEMPTY },
};

fsal_status_t glue_status(int r)
{
	if (r >= 0)
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == -r)
			return fsalstat(errors[i].fsal, -r);
	LogWarn(COMPONENT_FSAL, "STUB: unexpected error %s, answered as an I/O error",
		strerror(-r));
	return fsalstat(ERR_FSAL_IO, -r);
}

int glue_errno(fsal_status_t status)
{
	if (!FSAL_IS_ERROR(status))
		return 0;
	return status.minor > 0 ? -status.minor : -EIO;
}

void glue_log(void *arg, enum stub_log_level level, const char *msg)
{
	switch (level) {
	case STUB_LOG_ERROR:
		LogCrit(COMPONENT_FSAL, "STUB: %s", msg);
		break;
	case STUB_LOG_WARN:
		LogWarn(COMPONENT_FSAL, "STUB: %s", msg);
		break;
	case STUB_LOG_INFO:
		LogInfo(COMPONENT_FSAL, "STUB: %s", msg);
		break;
	case STUB_LOG_DEBUG:
		LogDebug(COMPONENT_FSAL, "STUB: %s", msg);
		break;
	}
}

/* ---- identity ---- */

static int handle_of_below(struct stubfs_obj *o, struct stub_handle *out)
{
	struct gsh_buffdesc key = { NULL, 0 };

	below(o->below->obj_ops->handle_to_key(o->below, &key));
	return glue_handle_of_key(&key, out);
}

/* 0, or 1: it has no handle of its own, so it is no stub */
static int handle_of(struct stubfs_obj *o, struct stub_handle *out)
{
	if (handle_of_below(o, out) == 0)
		return 0;
	atomic_store(&o->normal, true);
	return 1;
}

bool glue_migrating(void)
{
	struct stubfs_export *x = stubfs_export();

	return x->volume && !stub_volume_complete(x->volume);
}

bool glue_maybe_stub(const struct stubfs_obj *o)
{
	/* a volume never spans file systems */
	return glue_migrating() && !atomic_load(&o->normal) &&
	       o->handle.fs == stubfs_export()->fs;
}

/* ---- waiting ---- */

static void sleep_ms(uint64_t ms)
{
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static void wait_begin(const struct stubfs_export *x, struct glue_wait *w, bool mount)
{
	bool v3 = op_ctx->req_type == NFS_REQUEST && op_ctx->nfs_vers == NFS_V3;

	if (w->begun)
		return;
	w->begun = true;
	w->until = stub_now_ms() + (mount ? mount_wait_ms(x) :
				    v3	  ? x->options.delay_v3 :
					    x->options.delay_v4);
}

static uint64_t wait_left(const struct stubfs_export *x, const struct glue_wait *w)
{
	uint64_t now = stub_now_ms();

	if (atomic_load(&x->stopping) || admin_shutdown)
		return 0;
	if (x->options.never_delay)
		return SLICE_MS;
	return w->until > now ? w->until - now : 0;
}

/* Nobody listens: has that lasted for Give_Up seconds?  The clock only runs while
 * requests notice; what clients repeat comes every 15 s at the latest. */
static int retriever_gone(struct stubfs_export *x)
{
	int64_t now = (int64_t)stub_now_ms(), since;
	struct stub_link *link;

	if (!x->options.give_up)
		return 0;
	if (stub_link_create(x->volume, &link) == 0) {
		stub_link_destroy(link);
		atomic_store(&x->absent, 0);
		return 0;
	}
	since = atomic_load(&x->absent);
	if (since == 0 || now - atomic_exchange(&x->absent_seen, now) > FORGET_MS) {
		atomic_store(&x->absent_seen, now);
		atomic_store(&x->absent, now);
		return 0;
	}
	return now - since >= (int64_t)x->options.give_up * 1000 ? -EREMOTEIO : 0;
}

/* @fd: of a PASS, else NULL */
static int ask_once(struct stubfs_export *x, const struct stub_ask *ask, uint64_t ms, int *fd)
{
	unsigned int wait = (unsigned int)(ms < SLICE_MS ? ms : SLICE_MS);

	return fd ? stub_pass(x->volume, ask, wait, fd) : stub_ask(x->volume, ask, wait);
}

static int ask_within(struct stubfs_export *x, struct glue_wait *w, const struct stub_ask *ask,
		      int *fd)
{
	for (;;) {
		uint64_t left = wait_left(x, w), began = stub_now_ms(), took;
		int r = ask_once(x, ask, left, fd);

		if (r != -EAGAIN) {
			atomic_store(&x->absent, 0);
			return r;
		}
		r = retriever_gone(x);
		left = wait_left(x, w);
		if (r < 0 || left == 0)
			return r < 0 ? r : -EAGAIN;
		took = stub_now_ms() - began;
		if (took < RETRY_MS)
			sleep_ms(left < RETRY_MS - took ? left : RETRY_MS - took);
	}
}

/* One of the places for waiting requests; without one the answer is DELAY at once. */
static bool place_take(struct stubfs_export *x, struct glue_wait *w)
{
	for (;;) {
		if (atomic_fetch_add(&x->waiting, 1) < x->options.max_waiting)
			return true;
		atomic_fetch_sub(&x->waiting, 1);
		if (!x->options.never_delay || wait_left(x, w) == 0)
			return false;
		sleep_ms(RETRY_MS);
	}
}

static int ask_for(struct stubfs_export *x, struct glue_wait *w, const struct stub_ask *a, int *fd)
{
	bool mount = mount_begin(x);
	int r;

	wait_begin(x, w, mount);
	if (place_take(x, w)) {
		r = ask_within(x, w, a, fd);
		atomic_fetch_sub(&x->waiting, 1);
	} else {
		r = ask_once(x, a, 0, fd); /* the work begins, nobody waits */
	}
	if (mount)
		mount_end(x);
	return r;
}

static int ask(struct stubfs_export *x, struct glue_wait *w, const struct stub_ask *a)
{
	return ask_for(x, w, a, NULL);
}

/* ---- looking ---- */

static int look(struct stubfs_obj *o, struct stub_handle *h, struct stub_view *view)
{
	int r;

	memset(view, 0, sizeof(*view));
	if (!glue_maybe_stub(o) || handle_of(o, h))
		return 0;
	r = stub_view(stubfs_export()->volume, h, view);
	if (r == 0 && view->needs == 0)
		atomic_store(&o->normal, true);
	return r;
}

int glue_look(struct stubfs_obj *o, struct stub_view *view)
{
	struct stub_handle h;

	return look(o, &h, view);
}

static int need(struct stubfs_obj *o, struct glue_wait *w, unsigned int needs,
		enum stub_ask_kind kind, struct stub_view *view)
{
	struct stub_ask a = { .kind = kind };

	for (int i = 0; i < TRIES; i++) {
		int r = look(o, &a.h, view);

		if (r == 0 && view->needs & STUB_NEEDS_FOREIGN && needs & STUB_NEEDS_ENTRIES)
			return -EBADMSG; /* who knows which of them */
		if (r < 0 || !(view->needs & needs))
			return r;
		r = ask(stubfs_export(), w, &a);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

int glue_need_attrs(struct stubfs_obj *o, struct glue_wait *w, struct stub_view *view)
{
	return need(o, w, STUB_NEEDS_ATTRS, STUB_ASK_ATTR, view);
}

int glue_show_attrs(struct stubfs_obj *o, struct glue_wait *w, struct stub_view *view)
{
	int r = glue_need_attrs(o, w, view);

	if (!stub_withheld(r))
		return r;
	view->withheld = true;
	return 0;
}

int glue_need_entries(struct stubfs_obj *dir, struct glue_wait *w)
{
	struct stub_view view;

	return need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LIST, &view);
}

/* A volume without room cannot be listed into. */
static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

int glue_need_leave(struct stubfs_obj *dir, struct glue_wait *w, const char *name)
{
	struct stub_view view;
	int r = need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LIST, &view);

	if (!is_full(r))
		return r;
	r = glue_need_name(dir, w, name);
	if (r == -ENOENT) /* what the old server does not have cannot come back */
		return 0;
	return r < 0 ? r : need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LEAVE, &view);
}

int glue_need_gone(struct stubfs_obj *dir, struct glue_wait *w)
{
	struct stub_view view;
	int r = glue_look(dir, &view);

	if (r < 0 || view.needs & STUB_NEEDS_FOREIGN)
		return r; /* a copy goes if nothing is in it */
	r = need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LIST, &view);
	if (is_full(r))
		r = need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LEAVE, &view);
	return r == 0 && view.needs & STUB_NEEDS_REFUSED ? -ENOTEMPTY : r;
}

struct stubfs_obj *glue_going(struct stubfs_obj *o)
{
	struct stub_view view;

	return o && glue_look(o, &view) == 0 && view.needs & STUB_NEEDS_FOREIGN ? NULL : o;
}

int glue_need_name(struct stubfs_obj *dir, struct glue_wait *w, const char *name)
{
	struct stub_ask a = {
		.kind = STUB_ASK_LOOKUP,
		.name = name,
		.name_len = strlen(name),
	};
	struct stub_view view;
	int r;

	if (!glue_maybe_stub(dir) || !strcmp(name, ".") || !strcmp(name, ".."))
		return -ENOENT;
	r = look(dir, &a.h, &view);
	if (r < 0)
		return r;
	if (view.needs & STUB_NEEDS_FOREIGN)
		return -EBADMSG;
	if (view.needs & STUB_NEEDS_REFUSED) {
		r = stub_refused_has(stubfs_export()->volume, &a.h, name);
		return r == 1 ? -EREMOTEIO : r;
	}
	/* listed since the caller looked for the name: it may have come */
	if (!(view.needs & STUB_NEEDS_ENTRIES))
		return 0;
	return ask(stubfs_export(), w, &a);
}

/* For the recall budget.  Ganesha's own reads are nobody's. */
static void ask_is_for(struct stub_ask *a)
{
	if (op_ctx && op_ctx->client)
		stub_who(a->who, NULL, (uint32_t)op_ctx->creds.caller_uid,
			 op_ctx->client->hostaddr_str);
}

/* An answer may stand for a part of what was asked for: go on where something is
 * missing, as long as that moves. */
int glue_need_data(struct stubfs_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length)
{
	struct stub_ask a = { .kind = STUB_ASK_DATA };
	struct stub_range missing;
	struct stub_view view;
	uint64_t end, last = 0;
	int tries = 0, r = look(o, &a.h, &view);

	if (r < 0 || !(view.needs & (STUB_NEEDS_DATA | STUB_NEEDS_ATTRS | STUB_NEEDS_FOREIGN)))
		return r;
	if (offset >= INT64_MAX || length == 0)
		return 0; /* nothing can be there */
	end = length < INT64_MAX - offset ? offset + length : INT64_MAX;
	ask_is_for(&a);
	while (tries < TRIES) {
		r = stub_data_missing(stubfs_export()->volume, &a.h, offset, end - offset,
				      &missing);
		if (r <= 0)
			return r;
		tries = missing.start > last ? 0 : tries + 1;
		last = missing.start;
		a.offset = missing.start;
		a.length = end - missing.start;
		r = ask(stubfs_export(), w, &a);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

int glue_pass(struct stubfs_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length, int *fd)
{
	struct stub_ask a = { .kind = STUB_ASK_PASS, .offset = offset, .length = length };

	return handle_of(o, &a.h) ? -EINVAL : ask_for(stubfs_export(), w, &a, fd);
}

int glue_missing(struct stubfs_obj *o, uint64_t offset, uint64_t end, struct stub_range *out)
{
	struct stub_handle h;

	if (!glue_maybe_stub(o) || offset >= end || handle_of(o, &h))
		return 0;
	return stub_data_missing(stubfs_export()->volume, &h, offset, end - offset, out);
}

/* ---- changing ---- */

int glue_change_begin(struct glue_change *g, struct stubfs_obj *const o[], unsigned int n)
{
	const struct stub_handle *list[STUB_CHANGE_OBJECTS] = { NULL };
	struct stub_handle h[STUB_CHANGE_OBJECTS];
	bool any = false;
	int r;

	memset(g, 0, sizeof(*g));
	for (unsigned int i = 0; i < n; i++) {
		if (!o[i] || !glue_maybe_stub(o[i]) || handle_of(o[i], &h[i]))
			continue;
		list[i] = &h[i];
		any = true;
	}
	if (!any)
		return 0;
	r = stub_change_begin(stubfs_export()->volume, list, n, &g->c);
	g->open = r == 0;
	return r;
}

int glue_change_look(struct glue_change *g, struct stubfs_obj *o)
{
	struct stub_handle h;
	int r;

	memset(g, 0, sizeof(*g));
	if (!glue_maybe_stub(o) || handle_of(o, &h))
		return 0;
	r = stub_change_look(stubfs_export()->volume, &h, &g->c);
	g->open = r == 0;
	return r;
}

void glue_change_drop(struct glue_change *g)
{
	if (g->open)
		stub_change_drop(&g->c);
	g->open = false;
}

int glue_change_room(struct glue_change *g, struct stubfs_obj *o, struct glue_wait *w,
		     uint64_t offset, uint64_t length)
{
	struct stub_ask a = { .kind = STUB_ASK_ROOM };
	int r;

	if (!g->open)
		return 0;
	r = stub_change_fits(&g->c, 0, offset, length);
	if (r == 0) {
		r = stub_change_clear(&g->c, 0, offset, length);
		if (r < 0)
			glue_change_end(g, glue_status(r));
		return r;
	}
	a.h = g->c.obj[0].h;
	glue_change_end(g, glue_status(r));
	if (r == -ENOSPC)
		r = ask(stubfs_export(), w, &a);
	return r < 0 ? r : 1;
}

void glue_room_ahead(const struct glue_change *g, struct stubfs_obj *o)
{
	int64_t now, last = atomic_load(&o->room_asked);
	struct stub_ask a = { .kind = STUB_ASK_ROOM };

	if (!g->c.crowded || g->open)
		return;
	now = (int64_t)stub_now_ms();
	if (last && now - last < ROOM_MS)
		return;
	if (atomic_compare_exchange_strong(&o->room_asked, &last, now) && !handle_of(o, &a.h))
		stub_ask(stubfs_export()->volume, &a, 0);
}

fsal_status_t glue_change_end(struct glue_change *g, fsal_status_t status)
{
	int r;

	if (!g->open)
		return status;
	g->open = false;
	r = stub_change_end(&g->c, glue_errno(status));
	return r < 0 && !FSAL_IS_ERROR(status) ? glue_status(r) : status;
}

/* What fsync(2) says when data could not be written; any other error lost nothing. */
static bool sync_failed(fsal_status_t status)
{
	int r = glue_errno(status);

	return r == -EIO || r == -ENOSPC || r == -EDQUOT || r == -EROFS;
}

fsal_status_t glue_commit(struct stubfs_obj *o, off_t offset, size_t length)
{
	struct stub_commit c = { .stub = false };
	struct stub_handle h;
	fsal_status_t status;
	int r;

	if (glue_maybe_stub(o) && !handle_of(o, &h)) {
		r = stub_commit_prepare(stubfs_export()->volume, &h, &c);
		if (r < 0)
			return glue_status(r);
	}
	status = below(o->below->obj_ops->commit2(o->below, offset, length));
	if (!c.stub)
		return status;
	if (!FSAL_IS_ERROR(status) || sync_failed(status))
		r = stub_commit_finish(&c, glue_errno(status));
	else
		stub_commit_drop(&c);
	return r < 0 && !FSAL_IS_ERROR(status) ? glue_status(r) : status;
}

uint64_t glue_era(void)
{
	struct stubfs_export *x = stubfs_export();

	return x->volume ? stub_volume_era(x->volume) : 0;
}

/* Who is told at a COMMIT what became of its writes: the client, by its address. */
static uint64_t who_asks(void)
{
	const uint8_t *p = (const uint8_t *)op_ctx->caller_addr;
	size_t n = 0;
	uint64_t sum = 0xcbf29ce484222325u;

	if (p && op_ctx->caller_addr->ss_family == AF_INET) {
		p = (const uint8_t *)&((const struct sockaddr_in *)op_ctx->caller_addr)->sin_addr;
		n = sizeof(struct in_addr);
	} else if (p && op_ctx->caller_addr->ss_family == AF_INET6) {
		p = (const uint8_t *)&((const struct sockaddr_in6 *)op_ctx->caller_addr)->sin6_addr;
		n = sizeof(struct in6_addr);
	}
	while (n--)
		sum = (sum ^ *p++) * 0x100000001b3u;
	return sum;
}

void glue_unstable(struct stubfs_obj *o, uint64_t era)
{
	struct stub_handle h;

	if (!handle_of(o, &h))
		stub_unstable_note(stubfs_export()->volume, &h, who_asks(), era);
}

fsal_status_t glue_commit_client(struct stubfs_obj *o, off_t offset, size_t length)
{
	struct stub_volume *v = stubfs_export()->volume;
	bool noted = v && stub_unstable_any(v);
	struct stub_handle h;
	fsal_status_t status;
	uint64_t era;
	int r = 0;

	/* before the sync: what is written from here on is noted anew */
	if (noted && handle_of_below(o, &h) == 0)
		r = stub_unstable_take(v, &h, who_asks(), &era);
	else
		noted = false;
	if (r < 0)
		return glue_status(r);
	status = glue_commit(o, offset, length);
	if (noted && FSAL_IS_ERROR(status))
		stub_unstable_note(v, &h, who_asks(), era);
	return status;
}
