/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub_glue.c - identity, waiting and results of this module.
 *
 * Invariants kept here for all rooms:
 *   - a call waits for the old server only within its budget;
 *   - libstubcore is only called as root: smbd's user may not see a record, and the
 *     thread that libstubcore may start keeps the rights it is started with.
 */
#include "stub_glue.h"

#include <errno.h>

#define SHORT_MS   300u /* a call that smbd repeats, or that need not wait long */
#define ABSENT_MS  1000u /* a call while it is known that no retriever runs */
#define OVERDUE_MS 10000

/* ---- identity ---- */

bool glue_migrating(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	return x && stub_gate_migrating(&x->gate);
}

bool glue_mirrored(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	return x && stub_gate_mirrored(&x->gate);
}

bool glue_heeds_changes(const struct vfs_handle_struct *handle)
{
	return glue_migrating(handle) || glue_mirrored(handle);
}

uint64_t glue_era(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	return x ? stub_gate_era(&x->gate) : 0;
}

void glue_of_fd(struct vfs_handle_struct *handle, int fd, struct stub_front *o)
{
	struct stat st;

	ZERO_STRUCTP(o);
	if (!glue_heeds_changes(handle))
		return;
	o->gate = &stubvfs(handle)->gate;
	/* until we know better it may be a stub; without a handle every look fails, and every
	 * change where there is a mirror */
	o->maybe = glue_migrating(handle);
	if (fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return;
	/* handles of another file system say nothing here */
	if (st.st_dev != stubvfs(handle)->dev) {
		ZERO_STRUCTP(o);
		return;
	}
	o->ino = st.st_ino;
	o->mode = st.st_mode;
	if (stub_handle_of_fd(fd, &o->h) < 0)
		o->h.len = 0;
}

void glue_of_fsp(struct vfs_handle_struct *handle, const struct files_struct *fsp,
		 struct stub_front *o)
{
	struct files_struct *f = discard_const_p(struct files_struct, fsp);
	struct glue_known *known;
	bool stream;
	int fd;

	ZERO_STRUCTP(o);
	if (!glue_heeds_changes(handle) || !fsp)
		return;
	/* a stream's data is in an attribute, or in a file of the new server's own: that is no
	 * stub, but a mirror has it too */
	stream = fsp_is_alternate_stream(fsp);
	if (stream && !glue_mirrored(handle))
		return;
	fd = fsp_get_pathref_fd(fsp);
	if (fd == AT_FDCWD || fd < 0) { /* the current directory changes */
		glue_of_fd(handle, fd, o);
		return;
	}
	known = VFS_FETCH_FSP_EXTENSION(handle, f);
	if (known && known->fd == fd) {
		o->gate = known->h.len ? &stubvfs(handle)->gate : NULL;
		o->known = &known->known;
		o->maybe = !atomic_load(&known->known.normal);
		o->h = known->h;
		return;
	}
	glue_of_fd(handle, fd, o);
	o->maybe = o->maybe && !stream;
	if (o->gate && !o->h.len)
		return; /* not to be remembered */
	if (!known)
		known = VFS_ADD_FSP_EXTENSION(handle, f, struct glue_known, NULL);
	if (!known)
		return;
	*known = (struct glue_known){ .known.normal = !o->maybe, .fd = fd, .h = o->h };
	o->known = &known->known;
}

int glue_open_path(int dirfd, const char *path, bool follow)
{
	bool root = glue_root_enter();
	int fd = openat(dirfd, path, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)), error = errno;

	glue_root_leave(root);
	return fd < 0 ? -error : fd;
}

int glue_of_path(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		 struct stub_front *o)
{
	int fd = glue_open_path(dirfd, path, follow);

	ZERO_STRUCTP(o);
	if (fd < 0)
		return fd;
	glue_of_fd(handle, fd, o);
	close(fd);
	return 0;
}

/* ---- waiting ---- */

unsigned int glue_wait_ms(const struct stubvfs *x)
{
	return stub_gate_absent(&x->gate) ? MIN(x->wait_ms, ABSENT_MS) : x->wait_ms;
}

void glue_wait_short(struct stub_wait *w)
{
	w->begun = true;
	w->until = stub_now_ms() + SHORT_MS;
}

void glue_overdue_note(const struct stub_front *dir)
{
	struct stubvfs *x = glue_connection(dir);

	stub_gate_absent_ms(dir->gate);
	x->overdue = dir->h;
	x->overdue_until = stub_now_ms() + OVERDUE_MS;
}

void glue_wait_for_entries(const struct stub_front *dir, struct stub_wait *w)
{
	const struct stubvfs *x = dir->gate ? glue_connection(dir) : NULL;

	if (x && x->overdue.len && stub_handle_equal(&x->overdue, &dir->h) &&
	    stub_now_ms() < x->overdue_until)
		glue_wait_short(w);
}

/* ---- the gate ---- */

static bool gate_enter(struct stub_gate *g)
{
	return glue_root_enter();
}

static void gate_leave(struct stub_gate *g, bool entered)
{
	glue_root_leave(entered);
}

static bool gate_wait_begin(struct stub_gate *g, struct stub_wait *w)
{
	if (!w->begun)
		w->until = stub_now_ms() + glue_wait_ms(stubvfs_of(g));
	w->begun = true;
	return true;
}

static int gate_wait_on(struct stub_gate *g, const struct stub_wait *w)
{
	if (stub_wait_left(g, w) > 0)
		return glue_client_gone(stubvfs_of(g)) ? -ECANCELED : 0;
	stub_gate_absent_ms(g); /* if there is no retriever, the next call waits less */
	return 0;
}

static void gate_who(struct stub_gate *g, char who[STUB_WHO_MAX + 1])
{
	memcpy(who, stubvfs_of(g)->who, STUB_WHO_MAX + 1);
}

static bool gate_debugs(struct stub_gate *g)
{
	return CHECK_DEBUGLVL(DBGLVL_DEBUG);
}

const struct stub_gate_ops glue_gate_ops = {
	.enter = gate_enter,
	.leave = gate_leave,
	.wait_begin = gate_wait_begin,
	.wait_on = gate_wait_on,
	.who = gate_who,
	.debugs = gate_debugs,
};

/* ---- changing ---- */

bool glue_change_fsp(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     unsigned int owes, struct stub_bracket *b)
{
	struct stub_wait wait = { 0 };
	struct stub_front o;
	int r;

	glue_of_fsp(handle, fsp, &o);
	o.owes = owes;
	r = stub_bracket_attrs(&o, &wait, b);
	return r == 0 || glue_fail(r) == 0;
}

ssize_t glue_result(ssize_t result, int error, int r)
{
	errno = error;
	return r < 0 && result >= 0 ? glue_fail(r) : result;
}

ssize_t glue_end(struct stub_bracket *b, ssize_t result)
{
	int saved = errno;

	return glue_result(result, saved, stub_bracket_end(b, result < 0 ? -saved : 0));
}

/* The connection may end first, with its share: that stays open for what is still in flight, or its
 * owner would pass for dead in the ledger while the change goes on. */
int glue_flight_begin(const struct stub_front *o, unsigned int owes, struct glue_flight *f)
{
	int r;

	ZERO_STRUCTP(f);
	if (!o->gate || !stub_gate_mirrored(o->gate))
		return 0;
	f->o = *o;
	f->o.known = NULL; /* the file may be closed by then */
	r = stub_front_enter(&f->o, owes, &f->entered);
	if (r < 0) {
		stub_front_leave(&f->o, &f->entered);
		return r;
	}
	f->x = glue_connection(o);
	f->x->flying++;
	return 0;
}

int glue_flight_end(struct glue_flight *f, bool done)
{
	struct stubvfs *x = f->x;
	int r;

	if (!x)
		return 0;
	f->x = NULL;
	stub_front_leave(&f->o, &f->entered);
	r = done ? stub_front_await(&f->o, &f->entered) : 0;
	if (--x->flying == 0 && x->over)
		talloc_free(x);
	return r;
}
