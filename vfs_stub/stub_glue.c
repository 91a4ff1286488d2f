/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub_glue.c - the verbs with which this module asks libstubcore.
 *
 * Invariants kept here for all rooms:
 *   - an object found normal is never looked at again (docs/design.md, invariant 5);
 *   - a call waits for the old server only within its budget and never inside a
 *     bracket;
 *   - libstubcore is only called as root: smbd's user may not see a record, and the
 *     thread that libstubcore may start keeps the rights it is started with.
 */
#include "stub_glue.h"

#include <errno.h>

#define SLICE_MS  500u /* longest single wait: a lost retriever or client is noticed */
#define RETRY_MS  50u /* pause while no retriever is running */
#define SHORT_MS  300u /* a call that comes again */
#define ABSENT_MS 1000u /* a call while no retriever is running, once that is known */
#define OVERDUE_MS 10000
#define ROOM_MS	  200 /* between two asks for room in the record of one file */
#define TRIES	  8 /* answers "done" that change nothing */

/* ---- root ---- */

/* @expr, as root */
#define AS_ROOT(result, expr)                   \
	do {                                    \
		bool root_ = glue_root_enter(); \
		(result) = (expr);              \
		glue_root_leave(root_);         \
	} while (0)

/* ---- identity ---- */

bool glue_migrating(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	return x && !stub_volume_complete(x->volume);
}

void glue_of_fd(struct vfs_handle_struct *handle, int fd, struct glue_obj *o)
{
	struct stat st;

	ZERO_STRUCTP(o);
	if (!glue_migrating(handle))
		return;
	o->x = stubvfs(handle);
	/* what cannot be told is no normal object: without a handle, every look fails */
	o->maybe = true;
	if (fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return;
	/* handles of another file system say nothing here */
	if (st.st_dev != o->x->dev) {
		o->maybe = false;
		return;
	}
	o->ino = st.st_ino;
	o->mode = st.st_mode;
	if (stub_handle_of_fd(fd, &o->h) < 0)
		o->h.len = 0;
}

void glue_of_fsp(struct vfs_handle_struct *handle, const struct files_struct *fsp,
		 struct glue_obj *o)
{
	struct files_struct *f = discard_const_p(struct files_struct, fsp);
	struct glue_known *known;
	int fd;

	ZERO_STRUCTP(o);
	/* a stream's data is in an attribute, or in a file of the new server's own */
	if (!glue_migrating(handle) || !fsp || fsp_is_alternate_stream(fsp))
		return;
	fd = fsp_get_pathref_fd(fsp);
	if (fd == AT_FDCWD || fd < 0) { /* the current directory changes */
		glue_of_fd(handle, fd, o);
		return;
	}
	known = VFS_FETCH_FSP_EXTENSION(handle, f);
	if (known && known->fd == fd) {
		o->x = stubvfs(handle);
		o->known = known;
		o->maybe = !known->normal;
		o->h = known->h;
		return;
	}
	glue_of_fd(handle, fd, o);
	if (o->maybe && !o->h.len)
		return; /* not to be remembered */
	if (!known)
		known = VFS_ADD_FSP_EXTENSION(handle, f, struct glue_known, NULL);
	if (!known)
		return;
	*known = (struct glue_known){ .fd = fd, .normal = !o->maybe, .h = o->h };
	o->known = known;
}

int glue_of_path(struct vfs_handle_struct *handle, int dirfd, const char *path, bool follow,
		 struct glue_obj *o)
{
	int fd;

	ZERO_STRUCTP(o);
	AS_ROOT(fd, openat(dirfd, path, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)));
	if (fd < 0)
		return -errno;
	glue_of_fd(handle, fd, o);
	close(fd);
	return 0;
}

static void found_normal(struct glue_obj *o)
{
	o->maybe = false;
	if (o->known)
		o->known->normal = true;
}

/* ---- waiting ---- */

unsigned int glue_wait_ms(const struct stubvfs *x)
{
	return x->absent ? MIN(x->wait_ms, ABSENT_MS) : x->wait_ms;
}

static void wait_begin(const struct stubvfs *x, struct glue_wait *w)
{
	if (w->begun)
		return;
	w->begun = true;
	w->until = stub_now_ms() + glue_wait_ms(x);
}

void glue_wait_short(struct glue_wait *w)
{
	w->begun = true;
	w->until = stub_now_ms() + SHORT_MS;
}

void glue_wait_none(struct glue_wait *w)
{
	w->begun = true;
	w->until = 0;
}

static uint64_t wait_left(const struct glue_wait *w)
{
	uint64_t now = stub_now_ms();

	return w->until > now ? w->until - now : 0;
}

static bool retriever_runs(struct stubvfs *x)
{
	struct stub_link *link;

	if (stub_link_create(x->volume, &link) < 0)
		return false;
	stub_link_destroy(link);
	return true;
}

void glue_overdue_note(const struct glue_obj *dir)
{
	struct stubvfs *x = dir->x;

	AS_ROOT(x->absent, !retriever_runs(x));
	x->overdue = dir->h;
	x->overdue_until = stub_now_ms() + OVERDUE_MS;
}

void glue_wait_for_entries(const struct glue_obj *dir, struct glue_wait *w)
{
	if (dir->x && dir->x->overdue.len && stub_handle_equal(&dir->x->overdue, &dir->h) &&
	    stub_now_ms() < dir->x->overdue_until)
		glue_wait_short(w);
}

/* @fd: of a PASS, else NULL */
static int ask_as_root(struct stubvfs *x, struct glue_wait *w, const struct stub_ask *ask, int *fd)
{
	wait_begin(x, w);
	for (;;) {
		uint64_t left = wait_left(w), began = stub_now_ms(), took;
		unsigned int slice = (unsigned int)MIN(left, SLICE_MS);
		int r = fd ? stub_pass(x->volume, ask, slice, fd) : stub_ask(x->volume, ask, slice);

		if (r != -EAGAIN) {
			x->absent = false;
			return r;
		}
		left = wait_left(w);
		if (left == 0) {
			x->absent = !retriever_runs(x);
			return -EAGAIN;
		}
		if (glue_client_gone(x))
			return -ECANCELED;
		took = stub_now_ms() - began;
		if (took < RETRY_MS)
			smb_msleep((unsigned int)MIN(left, RETRY_MS - took));
	}
}

static int ask_for(struct stubvfs *x, struct glue_wait *w, const struct stub_ask *ask, int *fd)
{
	int r;

	if (x->brackets) /* a fill would wait for us, and we for it */
		return -EAGAIN;
	AS_ROOT(r, ask_as_root(x, w, ask, fd));
	return r;
}

/* ---- looking ---- */

int glue_look(struct glue_obj *o, struct stub_view *view)
{
	int r;

	ZERO_STRUCTP(view);
	if (!o->maybe)
		return 0;
	AS_ROOT(r, stub_view(o->x->volume, &o->h, view));
	if (r == 0 && view->needs == 0)
		found_normal(o);
	return r;
}

static int need(struct glue_obj *o, struct glue_wait *w, unsigned int needs,
		enum stub_ask_kind kind, struct stub_view *view)
{
	struct stub_ask a = { .kind = kind, .h = o->h };

	for (int i = 0; i < TRIES; i++) {
		int r = glue_look(o, view);

		if (r == 0 && view->needs & STUB_NEEDS_FOREIGN && needs & STUB_NEEDS_ENTRIES)
			return -EBADMSG; /* who knows which of them */
		if (r < 0 || !(view->needs & needs))
			return r;
		r = ask_for(o->x, w, &a, NULL);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

int glue_need_attrs(struct glue_obj *o, struct glue_wait *w, struct stub_view *view)
{
	return need(o, w, STUB_NEEDS_ATTRS, STUB_ASK_ATTR, view);
}

int glue_show_attrs(struct glue_obj *o, struct glue_wait *w, struct stub_view *view)
{
	int r = glue_need_attrs(o, w, view);

	if (!stub_withheld(r))
		return r;
	view->withheld = true;
	return 0;
}

int glue_need_entries(struct glue_obj *dir, struct glue_wait *w)
{
	struct stub_view view;

	return need(dir, w, STUB_NEEDS_ENTRIES, STUB_ASK_LIST, &view);
}

/* A volume without room cannot be listed into. */
static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

int glue_need_leave(struct glue_obj *dir, struct glue_wait *w, const char *name)
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

int glue_need_gone(struct glue_obj *dir, struct glue_wait *w)
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

void glue_going(struct glue_obj *o)
{
	struct stub_view view;

	if (glue_look(o, &view) == 0 && view.needs & STUB_NEEDS_FOREIGN)
		o->maybe = false;
}

int glue_need_name(struct glue_obj *dir, struct glue_wait *w, const char *name)
{
	struct stub_ask a = {
		.kind = STUB_ASK_LOOKUP,
		.h = dir->h,
		.name = name,
		.name_len = strlen(name),
	};
	struct stub_view view;
	int r;

	if (!dir->maybe || ISDOT(name) || ISDOTDOT(name))
		return -ENOENT;
	if (a.name_len > STUB_NAME_MAX)
		return -ENOENT;
	r = glue_look(dir, &view);
	if (r < 0)
		return r;
	if (view.needs & STUB_NEEDS_FOREIGN)
		return -EBADMSG;
	if (view.needs & STUB_NEEDS_REFUSED) {
		AS_ROOT(r, stub_refused_has(dir->x->volume, &dir->h, name));
		return r == 1 ? -EREMOTEIO : r < 0 ? r : -ENOENT;
	}
	/* listed since the caller looked for the name: it may have come */
	if (!(view.needs & STUB_NEEDS_ENTRIES))
		return 0;
	return ask_for(dir->x, w, &a, NULL);
}

/* An answer may stand for a part of what was asked for: go on where something is
 * missing, as long as that moves. */
int glue_need_data(struct glue_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length)
{
	struct stub_ask a = { .kind = STUB_ASK_DATA, .h = o->h };
	uint64_t end, last = 0;
	int tries = 0;

	if (!o->maybe || offset >= INT64_MAX || length == 0)
		return 0;
	end = length < INT64_MAX - offset ? offset + length : INT64_MAX;
	memcpy(a.who, o->x->who, sizeof(a.who));
	while (tries < TRIES) {
		struct stub_range missing;
		int r = glue_missing(o, offset, end, &missing);

		if (r <= 0)
			return r;
		if (o->x->denied)
			return -EACCES;
		tries = missing.start > last ? 0 : tries + 1;
		last = missing.start;
		a.offset = missing.start;
		a.length = end - missing.start;
		r = ask_for(o->x, w, &a, NULL);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

int glue_pass(struct glue_obj *o, struct glue_wait *w, uint64_t offset, uint64_t length, int *fd)
{
	struct stub_ask a = { .kind = STUB_ASK_PASS, .h = o->h, .offset = offset, .length = length };

	return o->maybe ? ask_for(o->x, w, &a, fd) : -EINVAL;
}

int glue_missing(struct glue_obj *o, uint64_t offset, uint64_t end, struct stub_range *out)
{
	int r;

	if (!o->maybe || offset >= end)
		return 0;
	AS_ROOT(r, stub_data_missing(o->x->volume, &o->h, offset, end - offset, out));
	return r;
}

/* ---- changing ---- */

int glue_change_begin(struct glue_change *g, struct glue_obj *const o[], unsigned int n)
{
	const struct stub_handle *list[STUB_CHANGE_OBJECTS] = { NULL };
	bool any = false;
	int r;

	ZERO_STRUCTP(g);
	for (unsigned int i = 0; i < n; i++) {
		if (!o[i] || !o[i]->x)
			continue;
		g->x = o[i]->x;
		g->news[i] = (struct glue_news){ .h = o[i]->h, .what = STUB_NEWS_ATTRS };
		if (!o[i]->maybe || g->x->brackets)
			continue;
		list[i] = &o[i]->h;
		any = true;
	}
	if (!any)
		return 0;
	AS_ROOT(r, stub_change_begin(g->x->volume, list, n, &g->c));
	g->open = r == 0;
	if (g->open)
		g->x->brackets++;
	return r;
}

int glue_change_look(struct glue_change *g, struct glue_obj *o)
{
	int r;

	ZERO_STRUCTP(g);
	if (!o->maybe || o->x->brackets)
		return o->maybe ? -EAGAIN : 0;
	g->x = o->x;
	AS_ROOT(r, stub_change_look(o->x->volume, &o->h, &g->c));
	g->open = r == 0;
	if (g->open)
		g->x->brackets++;
	return r;
}

void glue_change_drop(struct glue_change *g)
{
	bool root;

	if (!g->open)
		return;
	g->open = false;
	g->x->brackets--;
	root = glue_root_enter();
	stub_change_drop(&g->c);
	glue_root_leave(root);
}

/* The place of the news is root's, and may be another one than when the client connected. */
static void post(struct stubvfs *x, const struct stub_handle *h, unsigned int what)
{
	bool root = stub_news_due(x->volume) && glue_root_enter();

	stub_news_post(x->volume, h, what);
	glue_root_leave(root);
}

/* Ganesha keeps what it knows of normal objects too. */
static void tell(struct glue_change *g)
{
	for (unsigned int i = 0; g->x && i < STUB_CHANGE_OBJECTS; i++)
		if (g->news[i].h.len)
			post(g->x, &g->news[i].h, g->news[i].what);
}

void glue_change_tells(struct glue_change *g, unsigned int i, unsigned int what)
{
	g->news[i].what = what;
}

void glue_tell(const struct glue_obj *o)
{
	if (o->x && o->h.len)
		post(o->x, &o->h, STUB_NEWS_ATTRS);
}

static int change_end(struct glue_change *g, int result)
{
	int r;

	g->open = false;
	g->x->brackets--;
	AS_ROOT(r, stub_change_end(&g->c, result));
	return r;
}

ssize_t glue_change_end(struct glue_change *g, ssize_t result)
{
	int saved = errno, r = 0;

	if (g->open)
		r = change_end(g, result < 0 ? -saved : 0);
	if (result >= 0)
		tell(g);
	errno = saved;
	return r < 0 && result >= 0 ? glue_fail(r) : result;
}

int glue_change_room(struct glue_change *g, struct glue_obj *o, struct glue_wait *w,
		     uint64_t offset, uint64_t length)
{
	struct stub_ask a = { .kind = STUB_ASK_ROOM, .h = o->h };
	int r;

	if (!g->open)
		return 0;
	r = stub_change_fits(&g->c, 0, offset, length);
	if (r == 0) {
		AS_ROOT(r, stub_change_clear(&g->c, 0, offset, length));
		if (r < 0)
			change_end(g, r);
		return r;
	}
	change_end(g, r);
	if (r == -ENOSPC)
		r = ask_for(o->x, w, &a, NULL);
	return r < 0 ? r : 1;
}

void glue_room_ahead(const struct glue_change *g, struct glue_obj *o)
{
	struct stub_ask a = { .kind = STUB_ASK_ROOM, .h = o->h };
	int64_t now;
	int r;

	if (!g->c.crowded || g->open || !o->known)
		return;
	now = (int64_t)stub_now_ms();
	if (o->known->room_asked && now - o->known->room_asked < ROOM_MS)
		return;
	o->known->room_asked = now;
	AS_ROOT(r, stub_ask(o->x->volume, &a, 0));
	(void)r; /* -EAGAIN: it goes on */
}

bool glue_change_fsp(struct vfs_handle_struct *handle, struct files_struct *fsp,
		     struct glue_change *g)
{
	struct glue_obj o, *in[1] = { &o };
	struct glue_wait wait = { 0 };
	struct stub_view view;
	int r = 0;

	glue_of_fsp(handle, fsp, &o);
	if (o.maybe && !o.x->brackets)
		r = glue_need_attrs(&o, &wait, &view);
	if (r == 0)
		r = glue_change_begin(g, in, 1);
	return r == 0 || glue_fail(r) == 0;
}

/* ---- stable ---- */

uint64_t glue_era(const struct vfs_handle_struct *handle)
{
	struct stubvfs *x = stubvfs(handle);

	return x ? stub_volume_era(x->volume) : 0;
}

/* A process is one client. */

void glue_unstable(struct vfs_handle_struct *handle, const struct stub_handle *h, uint64_t era)
{
	stub_unstable_note(stubvfs(handle)->volume, h, 0, era);
}

/* Also of what is normal by now, and after completion. */
int glue_unstable_take(struct vfs_handle_struct *handle, struct files_struct *fsp,
		       struct stub_handle *h, uint64_t *era)
{
	struct stubvfs *x = stubvfs(handle);
	int r;

	if (!x || !stub_unstable_any(x->volume) || fsp_is_alternate_stream(fsp) ||
	    stub_handle_of_fd(fsp_get_pathref_fd(fsp), h) < 0)
		return 0;
	r = stub_unstable_take(x->volume, h, 0, era);
	return r < 0 ? r : 1;
}

int glue_commit_prepare(struct glue_obj *o, struct stub_commit *c)
{
	int r;

	ZERO_STRUCTP(c);
	if (!o->maybe)
		return 0;
	AS_ROOT(r, stub_commit_prepare(o->x->volume, &o->h, c));
	return r;
}

int glue_commit_finish(struct stub_commit *c, int result)
{
	int r;

	if (!c->stub)
		return 0;
	AS_ROOT(r, stub_commit_finish(c, result));
	return r;
}
