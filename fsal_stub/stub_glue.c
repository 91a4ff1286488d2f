/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stub_glue.c - identity, waiting and errors of this plugin.
 *
 * Invariants kept here for all rooms:
 *   - a request waits for the old server only within its budget, and only while no
 *     more than Max_Waiting others do;
 *   - no errno reaches Ganesha but through the table below.
 */
#include "config.h"
#include "fsal.h"
#include "fsal_convert.h"
#include "nfs_core.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "mount.h"
#include "stub_glue.h"

#define NEVER_MS 500u /* given as left of a wait without end (Never_Delay) */
#define PLACE_MS 50 /* between two looks for a place */

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
	{ EUSERS, ERR_FSAL_DELAY }, /* the ledger's owners; the dead are buried */
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

fsal_status_t glue_both(fsal_status_t status, int r)
{
	return r < 0 && !FSAL_IS_ERROR(status) ? glue_status(r) : status;
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

static int handle_of(struct fsal_obj_handle *sub, struct stub_handle *out)
{
	struct gsh_buffdesc key = { NULL, 0 };

	below(sub->obj_ops->handle_to_key(sub, &key));
	return glue_handle_of_key(&key, out);
}

bool glue_migrating(void)
{
	return stub_gate_migrating(&stubfs_export()->gate);
}

bool glue_mirrored(void)
{
	return stub_gate_mirrored(&stubfs_export()->gate);
}

bool glue_heeds_changes(void)
{
	return glue_migrating() || glue_mirrored();
}

bool glue_maybe_stub(const struct stubfs_obj *o)
{
	/* a volume never spans file systems */
	return glue_migrating() && !atomic_load(&o->known.normal) &&
	       o->handle.fs == stubfs_export()->fs;
}

bool glue_heeds(const struct stubfs_obj *o)
{
	return glue_maybe_stub(o) || (glue_mirrored() && o->handle.fs == stubfs_export()->fs);
}

struct stub_front glue_front(struct stubfs_obj *o)
{
	struct stub_front f = { .gate = &stubfs_export()->gate, .known = &o->known };
	bool maybe = glue_maybe_stub(o);

	if (o->handle.fs != stubfs_export()->fs)
		f.gate = NULL; /* not of the volume: it is owed to no mirror */
	else if (maybe || glue_mirrored())
		f.maybe = handle_of(o->below, &f.h) == 0 && maybe;
	if (maybe && !f.maybe) /* its key has no handle, so it is no stub */
		atomic_store(&o->known.normal, true);
	return f;
}

/* ---- waiting ---- */

static struct stubfs_export *export_of(const struct stub_gate *g)
{
	return container_of(g, struct stubfs_export, gate);
}

static uint64_t gate_wait_left(struct stub_gate *g, const struct stub_wait *w)
{
	const struct stubfs_export *x = export_of(g);
	uint64_t now = stub_now_ms();

	if (atomic_load(&x->stopping) || admin_shutdown)
		return 0;
	if (x->options.never_delay)
		return NEVER_MS;
	return w->until > now ? w->until - now : 0;
}

/* No retriever: has that lasted for Give_Up seconds?  (Clients repeat their requests at least
 * every 15 s, often enough for stub_gate_absent_ms().) */
static int gate_wait_on(struct stub_gate *g, const struct stub_wait *w)
{
	uint64_t give_up = (uint64_t)export_of(g)->options.give_up * 1000;

	return give_up && stub_gate_absent_ms(g) >= give_up ? -EREMOTEIO : 0;
}

/* One of the places for waiting requests; without one the answer is DELAY at once. */
static bool place_take(struct stubfs_export *x, struct stub_wait *w)
{
	static const struct timespec pause = { 0, PLACE_MS * 1000000L };

	for (;;) {
		if (atomic_fetch_add(&x->waiting, 1) < x->options.max_waiting)
			return true;
		atomic_fetch_sub(&x->waiting, 1);
		if (!x->options.never_delay || gate_wait_left(&x->gate, w) == 0)
			return false;
		nanosleep(&pause, NULL);
	}
}

static void gate_wait_end(struct stub_gate *g, struct stub_wait *w)
{
	atomic_fetch_sub(&export_of(g)->waiting, 1);
	if (w->place)
		mount_end(export_of(g));
}

static bool gate_wait_begin(struct stub_gate *g, struct stub_wait *w)
{
	bool v3 = op_ctx->req_type == NFS_REQUEST && op_ctx->nfs_vers == NFS_V3;
	struct stubfs_export *x = export_of(g);

	w->place = mount_begin(x);
	if (!w->begun)
		w->until = stub_now_ms() + (w->place ? mount_wait_ms(x) :
					    v3	     ? x->options.delay_v3 :
						       x->options.delay_v4);
	w->begun = true;
	if (place_take(x, w))
		return true;
	if (w->place)
		mount_end(x);
	return false;
}

/* What Ganesha reads for itself counts for nobody. */
static void gate_who(struct stub_gate *g, char who[STUB_WHO_MAX + 1])
{
	if (op_ctx && op_ctx->client)
		stub_who(who, NULL, (uint32_t)op_ctx->creds.caller_uid,
			 op_ctx->client->hostaddr_str);
}

static bool gate_debugs(struct stub_gate *g)
{
	return isDebug(COMPONENT_FSAL);
}

const struct stub_gate_ops glue_gate_ops = {
	.wait_begin = gate_wait_begin,
	.wait_end = gate_wait_end,
	.wait_left = gate_wait_left,
	.wait_on = gate_wait_on,
	.who = gate_who,
	.debugs = gate_debugs,
};

/* ---- changing ---- */

int glue_begin(struct stub_bracket *b, struct stubfs_obj *const o[], const unsigned int owes[],
	       const char *const names[], unsigned int n, unsigned int going)
{
	struct stub_front front[STUB_CHANGE_OBJECTS], *in[STUB_CHANGE_OBJECTS] = { NULL };

	for (unsigned int i = 0; i < n; i++) {
		if (!o[i])
			continue;
		front[i] = glue_front(o[i]);
		front[i].owes = owes[i];
		front[i].name = names[i];
		in[i] = &front[i];
		if (i == going)
			stub_front_going(in[i]);
	}
	return stub_bracket_begin(in, n, b);
}

fsal_status_t glue_end(struct stub_bracket *b, fsal_status_t status)
{
	return glue_both(status, stub_bracket_end(b, glue_errno(status)));
}

int glue_made(struct fsal_obj_handle *sub)
{
	struct stub_front f = { .gate = &stubfs_export()->gate };
	struct stub_entered entered;
	int r;

	if (!glue_mirrored() || sub->fs != stubfs_export()->fs)
		return 0;
	r = handle_of(sub, &f.h);
	if (r < 0)
		return r;
	r = stub_front_enter(&f, sub->type == REGULAR_FILE ? GLUE_DATA : STUB_OWED_ATTRS, &entered);
	if (r == 0)
		stub_front_leave(&f, &entered);
	return r;
}

/* The client, by its address: a COMMIT tells it what became of its own writes. */
static uint64_t who_asks(void)
{
	const sockaddr_t *from = op_ctx->caller_addr;

	if (from && from->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)from;

		return stub_fnv(STUB_FNV, &in->sin_addr, sizeof(in->sin_addr));
	}
	if (from && from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

		return stub_fnv(STUB_FNV, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
	return STUB_FNV;
}

void glue_unstable(struct stubfs_obj *o, uint64_t era)
{
	struct stub_front f = { .gate = &stubfs_export()->gate };

	if (handle_of(o->below, &f.h) == 0)
		stub_sync_note(&f, who_asks(), era);
}

/* @client: the object's handle where it is a client's COMMIT, else NULL */
static fsal_status_t commit(struct stubfs_obj *o, const struct stub_handle *client, off_t offset,
			    size_t length)
{
	struct stub_sync sync;
	fsal_status_t status;
	int r = stub_sync_begin(&stubfs_export()->gate, FRONT(o), client, who_asks(), &sync);

	if (r < 0)
		return glue_status(r);
	status = below(o->below->obj_ops->commit2(o->below, offset, length));
	return glue_both(status, stub_sync_end(&sync, glue_errno(status)));
}

fsal_status_t glue_commit(struct stubfs_obj *o, off_t offset, size_t length)
{
	return commit(o, NULL, offset, length);
}

fsal_status_t glue_commit_client(struct stubfs_obj *o, off_t offset, size_t length)
{
	struct stub_handle h;
	bool due = stub_sync_due(&stubfs_export()->gate) && handle_of(o->below, &h) == 0;
	fsal_status_t status = commit(o, due ? &h : NULL, offset, length);

	return FSAL_IS_ERROR(status) ? status : glue_status(stub_front_await_noted(FRONT(o)));
}
