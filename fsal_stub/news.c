/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * news.c - what other processes do to the volume reaches MDCACHE.
 *
 * One thread for each export that is being migrated waits for news (libstubcore/news.c)
 * and tells MDCACHE not to trust what it has of an object.  MDCACHE then only clears flags,
 * frees and asks for nothing, and needs no lock that a request may hold.  Two exceptions:
 *   - of a directory that was moved MDCACHE forgets the parent, and takes the directory's
 *     content lock for that, which a look-up in it may hold while it waits for the old server;
 *   - a file that has lost a name is closed, as far as the server keeps it open for itself
 *     (for NFSv3, and for reads without state), or its space would stay taken.  That waits for
 *     calls on this descriptor, which are local.  What clients have open stays open.
 *
 * A request that has fetched attributes just before a change may store them in MDCACHE, and
 * set the flags again, just after MDCACHE was told of the change.  So MDCACHE is told a second
 * time, a little later.  (Not of entries: their flags are set before they are read.)
 *
 * When news were lost, anything may have changed: MDCACHE is told of all objects of the volume.
 *
 * The thread ends when the volume is complete (nobody posts any more), and before the
 * export goes: an up-call needs it.
 */
#include "config.h"
#include "fsal.h"
#include "fsal_up.h"

#include <signal.h>
#include <string.h>

#include "stub_glue.h"

#define WAIT_MS	  1000
#define AGAIN_MS  200
#define GATHER_MS 2 /* between two rounds, so that one takes what is posted all the time */
#define BATCH	  64
#define AGAIN	  1024 /* to be told a second time */
#define KEY_MAX	  (1 + 16 + 4 + STUB_HANDLE_MAX)

struct again {
	uint64_t due; /* ms */
	uint32_t flags;
	struct stub_handle h;
};

struct stubfs_listener {
	struct stubfs_export *x;
	pthread_t thread;
	struct stub_news_reader reader;
	struct stub_news news[BATCH];
	uint64_t all_due; /* all objects a second time; 0: no */
	unsigned int first, n; /* of the ring below */
	struct again again[AGAIN];
};

static const uint32_t told_attrs = FSAL_UP_INVALIDATE_ATTRS | FSAL_UP_INVALIDATE_ACL |
				   FSAL_UP_INVALIDATE_FS_LOCATIONS | FSAL_UP_INVALIDATE_SEC_LABEL;
static const uint32_t told_names = FSAL_UP_INVALIDATE_CONTENT | FSAL_UP_INVALIDATE_DIR_POPULATED |
				   FSAL_UP_INVALIDATE_DIR_CHUNKS;

static bool over(const struct stubfs_export *x)
{
	return atomic_load(&x->stopping) || stub_volume_complete(x->gate.volume);
}

/* ---- telling ---- */

static void tell_key(struct stubfs_export *x, struct gsh_buffdesc *key, uint32_t flags)
{
	const struct fsal_up_vector *up = x->export.up_ops;

	up->invalidate(up, key, flags);
}

static void tell(struct stubfs_export *x, const struct stub_handle *h, uint32_t flags)
{
	uint8_t bytes[KEY_MAX];
	struct gsh_buffdesc key = { bytes, sizeof(bytes) };

	if (glue_key_of_handle(x->fs, h, &key) == 0)
		tell_key(x, &key, flags);
}

void stubfs_news_replaced(struct stubfs_obj *o)
{
	struct stubfs_export *x = stubfs_export();
	const struct fsal_up_vector *up = x->export.up_ops;
	struct gsh_buffdesc key;

	o->below->obj_ops->handle_to_key(o->below, &key);
	tell_key(x, &key, told_attrs);
	if (o->handle.type == REGULAR_FILE) /* by another thread: this one has locks of MDCACHE's */
		up->invalidate_close(up, &key, told_attrs);
}

static uint32_t flags_of(unsigned int what)
{
	uint32_t flags = told_attrs;

	if (what & STUB_NEWS_NAMES)
		flags |= told_names;
	if (what & STUB_NEWS_MOVED)
		flags |= FSAL_UP_INVALIDATE_PARENT;
	if (what & STUB_NEWS_UNLINKED)
		flags |= FSAL_UP_INVALIDATE_CLOSE;
	return flags;
}

/* The key of the object in the module's list at @at, if it is one of the volume. */
static bool listed_key(const struct stubfs_export *x, struct glist_head *at,
		       struct gsh_buffdesc *key)
{
	struct stubfs_obj *o = stubfs_obj(glist_entry(at, struct fsal_obj_handle, handles));

	if (o->handle.fs != x->fs)
		return false;
	o->below->obj_ops->handle_to_key(o->below, key);
	return key->len <= KEY_MAX;
}

/* The keys of all objects of the volume, each behind its length: a copy, as no up-call
 * may be made with the module's lock.  The caller frees it. */
static uint8_t *all_keys(struct stubfs_export *x, size_t *len)
{
	struct fsal_module *fsal = &STUBFS.module;
	struct gsh_buffdesc key;
	struct glist_head *at;
	size_t room = 1;
	uint8_t *keys;

	*len = 0;
	PTHREAD_RWLOCK_rdlock(compat_handles_lock(fsal));
	glist_for_each(at, &fsal->handles)
		if (listed_key(x, at, &key))
			room += 1 + key.len;
	keys = gsh_malloc(room);
	glist_for_each(at, &fsal->handles) {
		if (!listed_key(x, at, &key))
			continue;
		keys[*len] = (uint8_t)key.len;
		memcpy(keys + *len + 1, key.addr, key.len);
		*len += 1 + key.len;
	}
	PTHREAD_RWLOCK_unlock(compat_handles_lock(fsal));
	return keys;
}

static void tell_all(struct stubfs_export *x)
{
	size_t len, at = 0;
	uint8_t *keys = all_keys(x, &len);

	while (at < len && !over(x)) {
		struct gsh_buffdesc key = { keys + at + 1, keys[at] };

		tell_key(x, &key, FSAL_UP_INVALIDATE_CACHE);
		at += 1 + key.len;
	}
	gsh_free(keys);
}

/* ---- a second time ---- */

static void again_due(struct stubfs_listener *l, uint64_t now)
{
	while (l->n && (l->again[l->first].due <= now || l->n == AGAIN)) {
		tell(l->x, &l->again[l->first].h, l->again[l->first].flags);
		l->first = (l->first + 1) % AGAIN;
		l->n--;
	}
	if (l->all_due && l->all_due <= now) {
		l->all_due = 0;
		tell_all(l->x);
	}
}

static void again_later(struct stubfs_listener *l, const struct stub_news *news, uint64_t now)
{
	/* CLOSE again too: a request of that moment may have opened the file anew */
	uint32_t flags = told_attrs | (flags_of(news->what) & FSAL_UP_INVALIDATE_CLOSE);

	again_due(l, now); /* one place at least */
	l->again[(l->first + l->n++) % AGAIN] = (struct again){ now + AGAIN_MS, flags, news->h };
}

static unsigned int wait_ms(const struct stubfs_listener *l, uint64_t now)
{
	uint64_t due = now + WAIT_MS;

	if (l->n && l->again[l->first].due < due)
		due = l->again[l->first].due;
	if (l->all_due && l->all_due < due)
		due = l->all_due;
	return due > now ? (unsigned int)(due - now) : 0;
}

/* ---- the thread ---- */

static void news_round(struct stubfs_listener *l)
{
	static const struct timespec gather = { 0, GATHER_MS * 1000000L };
	struct stubfs_export *x = l->x;
	bool lost = false;
	int n = stub_news_wait(x->gate.volume, &l->reader, wait_ms(l, stub_now_ms()), l->news, BATCH,
			       &lost);
	uint64_t now = stub_now_ms();

	if (lost) {
		LogInfo(COMPONENT_FSAL_UP, "STUB: news of the volume were lost");
		tell_all(x);
		l->all_due = stub_now_ms() + AGAIN_MS;
	}
	for (int i = 0; i < n; i++) {
		if (l->news[i].own)
			continue;
		tell(x, &l->news[i].h, flags_of(l->news[i].what));
		again_later(l, &l->news[i], now);
	}
	again_due(l, now);
	if (n > 0 && n < BATCH)
		nanosleep(&gather, NULL);
}

static void *listener_thread(void *arg)
{
	struct stubfs_listener *l = arg;

	SetNameFunction("stub_news"); /* in logs */
	/* MDCACHE is not above us yet when the export is made */
	up_ready_wait((struct fsal_up_vector *)l->x->export.up_ops);
	while (!over(l->x))
		news_round(l);
	return NULL;
}

void stubfs_news_start(struct stubfs_export *x)
{
	struct stubfs_listener *l;
	sigset_t all, before;
	int r;

	if (!x->gate.volume || stub_volume_complete(x->gate.volume))
		return;
	l = gsh_calloc(1, sizeof(*l));
	l->x = x;
	stub_news_begin(x->gate.volume, &l->reader); /* before anything is cached */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = pthread_create(&l->thread, NULL, listener_thread, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		LogCrit(COMPONENT_FSAL_UP, "STUB: no thread for up-calls: %s", strerror(r));
		gsh_free(l);
		return;
	}
	pthread_setname_np(l->thread, "stub_news");
	x->listener = l;
}

void stubfs_news_stop(struct stubfs_export *x)
{
	if (!x->listener)
		return;
	atomic_store(&x->stopping, true);
	up_ready_cancel((struct fsal_up_vector *)x->export.up_ops);
	stub_news_wake(x->gate.volume);
	pthread_join(x->listener->thread, NULL);
	gsh_free(x->listener);
	x->listener = NULL;
}
