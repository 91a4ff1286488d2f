/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * file.c - content: read, write, commit, seek, punch, locks.
 *
 *   - Nothing is read below before its range is there (docs/design.md, invariant 1): a hole of a
 *     stub says nothing.  Where the volume takes no data it is passed on.
 *     SEEK tells a missing range as data.
 *   - A write is in the bracket from before the bytes until the record says that
 *     they are the client's (invariant 2).  It does not wait for the old server.
 *   - What is acknowledged as stable is on the disk, and its record too.
 *   - What changes content is in the mirror's ledger before, until it is done, of a normal file
 *     too.  COMMIT changes nothing: what it makes durable was entered by its write.  What a
 *     client has not asked to be stable is waited for at its COMMIT, here and over there.
 */
#include "config.h"
#include "fsal.h"
#include "fsal_convert.h"
#include "nfs_core.h"
#include "nfs_proto_data.h"

#include <errno.h>
#include <pthread.h>

#include "stub_glue.h"

static uint64_t io_length(const struct fsal_io_arg *io)
{
	uint64_t sum = 0;

	for (int i = 0; i < io->iov_count; i++)
		sum += io->iov[i].iov_len;
	return sum;
}

/* ---- straight through ---- */

struct passing {
	struct fsal_obj_handle *obj;
	fsal_async_cb done;
	void *arg;
	struct stub_front front; /* of what is read, and what was found to be there */
	struct stub_need need;
	struct stub_entered entered; /* what is written */
};

static void passing_done(struct fsal_obj_handle *sub, fsal_status_t status, void *io, void *arg)
{
	struct passing *p = arg;

	if (!FSAL_IS_ERROR(status) && !stub_need_stands(&p->front, &p->need))
		status = glue_status(-EAGAIN);
	above(p->done(p->obj, status, io, p->arg));
	gsh_free(p);
}

static struct passing *passing_create(struct fsal_obj_handle *obj, fsal_async_cb done, void *arg)
{
	struct passing *p = gsh_malloc(sizeof(*p));

	*p = (struct passing){ .obj = obj, .done = done, .arg = arg };
	return p;
}

/* FSAL_VFS has called back when read2 or write2 returns; another FSAL may do so later. */
struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
	fsal_status_t status;
};

static void waiting_done(struct fsal_obj_handle *sub, fsal_status_t status, void *io, void *arg)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->is_done = true;
	pthread_cond_signal(&w->done);
	pthread_mutex_unlock(&w->lock);
}

/* Call read2 or write2 of the FSAL below, and wait until it is done. */
static fsal_status_t io_below(void (*op)(struct fsal_obj_handle *, bool, fsal_async_cb,
					 struct fsal_io_arg *, void *),
			      struct fsal_obj_handle *sub, bool bypass, struct fsal_io_arg *io)
{
	struct waiting w = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.done = PTHREAD_COND_INITIALIZER,
	};

	below(op(sub, bypass, waiting_done, io, &w));
	pthread_mutex_lock(&w.lock);
	while (!w.is_done)
		pthread_cond_wait(&w.done, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_cond_destroy(&w.done);
	pthread_mutex_destroy(&w.lock);
	return w.status;
}

/* ---- read ---- */

/*
 * NFSv4.2's READ_PLUS.  Ganesha 4.3 means to mark it by io->info, which FSAL_VFS then
 * refuses, but leaves that out (mended upstream by 24da5c304): it would answer "no
 * bytes, end of file", which clients show as zeros.  So the compound tells which operation
 * this is; it is known by the context of a request that came by NFSv4.2, not a nested one.
 */
static bool is_read_plus(const struct fsal_io_arg *io)
{
	const nfs_request_t *req = compat_request();
	const compound_data_t *compound;

	if (io->info)
		return true;
	if (!req || op_ctx->nfs_vers != NFS_V4 || op_ctx->nfs_minorvers < 2 ||
	    op_ctx->saved_op_ctx)
		return false;
	compound = req->proc_data;
	return compound && compound->opcode == NFS4_OP_READ_PLUS;
}

/* ---- a stub whose volume takes no data ---- */
struct passed {
	struct stubfs_obj *o;
	bool bypass;
	struct fsal_io_arg *io;
	fsal_status_t status;
};

static ssize_t passed_read(void *arg)
{
	struct passed *p = arg;

	p->io->io_amount = 0;
	p->status = io_below(p->o->below->obj_ops->read2, p->o->below, p->bypass, p->io);
	return FSAL_IS_ERROR(p->status) ? glue_errno(p->status) : (ssize_t)p->io->io_amount;
}

/* The answer may be short, which every protocol allows. */
static fsal_status_t read_passed(struct stubfs_obj *o, struct stub_wait *w, bool bypass,
				 struct fsal_io_arg *io)
{
	struct passed local = { .o = o, .bypass = bypass, .io = io };
	const struct stub_passing p = {
		.iov = io->iov,
		.n_iov = io->iov_count,
		.offset = io->offset,
		.read = passed_read,
		.arg = &local,
	};
	ssize_t n = stub_front_pass(FRONT(o), w, &p);

	if (n < 0)
		return n == glue_errno(local.status) ? local.status : glue_status((int)n);
	if ((size_t)n < io->io_amount) {
		io->io_amount = (size_t)n;
		io->end_of_file = false;
	}
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static void obj_read2(struct fsal_obj_handle *obj, bool bypass, fsal_async_cb done,
		      struct fsal_io_arg *io, void *arg)
{
	struct stub_need need = { .what = STUB_NEED_DATA, .offset = io->offset,
				  .length = io_length(io) };
	struct stubfs_obj *o = stubfs_obj(obj);
	struct stub_front front = glue_front(o);
	fsal_status_t status = stubfs_refuses(o);
	struct stub_wait wait = { 0 };
	struct passing *p;
	int r;

	if (!FSAL_IS_ERROR(status) && is_read_plus(io))
		status = fsalstat(ERR_FSAL_NOTSUPP, 0);
	if (FSAL_IS_ERROR(status)) {
		done(obj, status, io, arg);
		return;
	}
	r = stub_need_wait(&front, &need, &wait);
	if (stub_takes_no_data(r)) {
		done(obj, read_passed(o, &wait, bypass, io), io, arg);
		return;
	}
	if (r < 0) {
		done(obj, glue_status(r), io, arg);
		return;
	}
	p = passing_create(obj, done, arg);
	p->front = front;
	p->need = need;
	below(o->below->obj_ops->read2(o->below, bypass, passing_done, io, p));
}

/* ---- write ---- */

/* Close a range's bracket: @done bytes are the client's now. */
static fsal_status_t range_end(struct stub_bracket *change, struct stub_front *f,
			       fsal_status_t status, uint64_t offset, uint64_t done)
{
	return glue_both(status, stub_bracket_range_end(change, f, glue_errno(status), offset,
							done));
}

static uint64_t era_now(void)
{
	return stub_gate_era(&stubfs_export()->gate);
}

/* Commit what was changed since @era was read. */
static fsal_status_t commit_own(struct stubfs_obj *o, uint64_t offset, uint64_t length,
				uint64_t era)
{
	fsal_status_t status = glue_commit(o, (off_t)offset, length);

	/* in another era the record may not count what the commit has made durable */
	return !FSAL_IS_ERROR(status) && era_now() != era ? glue_status(-EAGAIN) : status;
}

static fsal_status_t write_within(struct stubfs_obj *o, bool bypass, struct fsal_io_arg *io)
{
	struct stub_front f = glue_front(o);
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	bool stub, stable = io->fsal_stable;
	uint64_t era = era_now();
	fsal_status_t status;
	int r;

	f.owes = GLUE_DATA;
	r = stub_bracket_range(&f, &wait, io->offset, io_length(io), &change);
	if (r < 0)
		return glue_status(r);
	stub = stub_change_any(&change.c);
	if (stub)
		io->fsal_stable = false; /* one sync, with the record, is enough */
	status = io_below(o->below->obj_ops->write2, o->below, bypass, io);
	change.later = !stable && !io->fsal_stable;
	status = range_end(&change, &f, status, io->offset, io->io_amount);
	if (stub && stable && !FSAL_IS_ERROR(status)) {
		status = commit_own(o, io->offset, io->io_amount, era);
		io->fsal_stable = !FSAL_IS_ERROR(status);
	} else if (stub && !FSAL_IS_ERROR(status)) {
		glue_unstable(o, era);
	}
	return status;
}

static void write_done(struct fsal_obj_handle *sub, fsal_status_t status, void *arg_io, void *arg)
{
	const struct fsal_io_arg *io = arg_io;
	struct passing *p = arg;

	stub_front_leave(&p->front, &p->entered);
	if (!FSAL_IS_ERROR(status))
		status = glue_status(io->fsal_stable ? stub_front_await(&p->front, &p->entered) :
						       stub_front_await_later(&p->front, &p->entered));
	passing_done(sub, status, arg_io, p);
}

/* A normal file: no bracket, only the ledger.  No bytes are no change. */
static void write_through(struct fsal_obj_handle *obj, bool bypass, fsal_async_cb done,
			  struct fsal_io_arg *io, void *arg)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct passing *p = passing_create(obj, done, arg);
	int r = 0;

	if (io_length(io) > 0) {
		p->front = glue_front(stubfs_obj(obj));
		r = stub_front_enter(&p->front, GLUE_DATA, &p->entered);
		p->entered.from = io->offset;
		p->entered.to = io->offset + io_length(io);
	}
	if (r == 0) {
		below(sub->obj_ops->write2(sub, bypass, write_done, io, p));
		return;
	}
	gsh_free(p);
	done(obj, glue_status(r), io, arg);
}

static void obj_write2(struct fsal_obj_handle *obj, bool bypass, fsal_async_cb done,
		       struct fsal_io_arg *io, void *arg)
{
	fsal_status_t status = stubfs_refuses(stubfs_obj(obj));

	if (FSAL_IS_ERROR(status))
		done(obj, status, io, arg);
	else if (glue_maybe_stub(stubfs_obj(obj)) && io_length(io) > 0)
		done(obj, write_within(stubfs_obj(obj), bypass, io), io, arg);
	else
		write_through(obj, bypass, done, io, arg);
}

static fsal_status_t obj_commit2(struct fsal_obj_handle *obj, off_t offset, size_t length)
{
	return glue_commit_client(stubfs_obj(obj), offset, length);
}

/* ---- seek ---- */

struct seeking {
	struct fsal_obj_handle *sub;
	struct state_t *state;
	fsal_status_t status;
};

static int seek_below(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found)
{
	struct io_info info = { .io_content.what = data ? NFS4_CONTENT_DATA : NFS4_CONTENT_HOLE };
	struct seeking *s = arg;

	info.io_content.hole.di_offset = at;
	s->status = below(s->sub->obj_ops->seek2(s->sub, s->state, &info));
	*found = info.io_eof ? size : info.io_content.hole.di_offset;
	return glue_errno(s->status);
}

static fsal_status_t seek_stub(struct stubfs_obj *o, struct state_t *state, struct io_info *info)
{
	struct seeking seek = { .sub = o->below, .state = state };
	bool data = info->io_content.what == NFS4_CONTENT_DATA;
	uint64_t size, at = info->io_content.hole.di_offset;
	struct fsal_attrlist attrs;
	fsal_status_t status;
	int r;

	fsal_prepare_attrs(&attrs, ATTR_SIZE);
	status = below(o->below->obj_ops->getattrs(o->below, &attrs));
	size = attrs.filesize;
	fsal_release_attrs(&attrs);
	if (FSAL_IS_ERROR(status))
		return status;
	if (at >= size)
		return posix2fsal_status(ENXIO);
	r = stub_front_seek(FRONT(o), data, at, size, seek_below, &seek, &at);
	if (r < 0)
		return FSAL_IS_ERROR(seek.status) ? seek.status : glue_status(r);
	info->io_eof = at >= size;
	if (!info->io_eof || !data)
		info->io_content.hole.di_offset = at;
	return status;
}

static fsal_status_t obj_seek2(struct fsal_obj_handle *obj, struct state_t *state,
			       struct io_info *info)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stubfs_obj *o = stubfs_obj(obj);
	fsal_status_t status = stubfs_refuses(o);
	struct stub_view view;
	int r;

	if (FSAL_IS_ERROR(status))
		return status;
	r = stub_front_look(FRONT(o), &view);
	if (r < 0)
		return glue_status(r);
	if (view.needs && (info->io_content.what == NFS4_CONTENT_DATA ||
			   info->io_content.what == NFS4_CONTENT_HOLE))
		return seek_stub(o, state, info);
	return below(sub->obj_ops->seek2(sub, state, info));
}

/* ---- space ---- */

/*
 * Reserving fills nothing and takes nothing away; a punched range is the client's.  No
 * COMMIT follows on a DEALLOCATE, and no verifier tells that it was lost: it is stable
 * when it is answered, or the old bytes could come back into the hole.
 */
static fsal_status_t obj_fallocate(struct fsal_obj_handle *obj, struct state_t *state,
				   uint64_t offset, uint64_t length, bool allocate)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_front f = glue_front(stubfs_obj(obj));
	struct stub_wait wait = { 0 };
	struct stub_bracket change;
	uint64_t changed = allocate ? 0 : length, era = era_now();
	fsal_status_t status = stubfs_refuses(stubfs_obj(obj));
	bool stub;
	int r;

	if (FSAL_IS_ERROR(status))
		return status;
	f.owes = GLUE_DATA; /* reserved space may make the file larger */
	r = stub_bracket_range(&f, &wait, offset, changed, &change);
	if (r < 0)
		return glue_status(r);
	stub = stub_change_any(&change.c);
	status = below(sub->obj_ops->fallocate(sub, state, offset, length, allocate));
	status = range_end(&change, &f, status, offset, changed);
	if (stub && !allocate && !FSAL_IS_ERROR(status))
		status = commit_own(stubfs_obj(obj), offset, length, era);
	return status;
}

/* ---- passed on as they are: none of these changes a file, so a mirror is owed nothing ---- */

static fsal_status_t obj_io_advise(struct fsal_obj_handle *obj, struct io_hints *hints)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->io_advise(sub, hints));
}

static fsal_status_t obj_io_advise2(struct fsal_obj_handle *obj, struct state_t *state,
				    struct io_hints *hints)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->io_advise2(sub, state, hints));
}

/* It needs nothing of the old server and never waits.  It must not answer DELAY, which would
 * become DENIED, and an unlock be lost. */
static fsal_status_t obj_lock_op2(struct fsal_obj_handle *obj, struct state_t *state, void *owner,
				  fsal_lock_op_t op, fsal_lock_param_t *request,
				  fsal_lock_param_t *conflict)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->lock_op2(sub, state, owner, op, request, conflict));
}

static fsal_status_t obj_lease_op2(struct fsal_obj_handle *obj, struct state_t *state, void *owner,
				   fsal_deleg_t deleg)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	return below(sub->obj_ops->lease_op2(sub, state, owner, deleg));
}

void stubfs_file_ops(struct fsal_obj_ops *ops)
{
	ops->read2 = obj_read2;
	ops->write2 = obj_write2;
	ops->commit2 = obj_commit2;
	ops->seek2 = obj_seek2;
	ops->fallocate = obj_fallocate;
	ops->io_advise = obj_io_advise;
	ops->io_advise2 = obj_io_advise2;
	ops->lock_op2 = obj_lock_op2;
	ops->lease_op2 = obj_lease_op2;
}
