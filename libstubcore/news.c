/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * news.c - processes tell each other what they have changed.
 *
 * A server that caches attributes and directories (Ganesha) waits; whoever fills,
 * finishes or changes an object behind its back (the retriever, smbd) posts the object's
 * handle after the change.  A piece of news says "look again" and nothing else, so one
 * too many does no harm, and nobody has to believe what stands in it.
 *
 * Nothing is waited for on the poster's side, and it does no system call but to wake a
 * reader that sleeps.  News of a handle that this process has posted, and that no reader
 * has come to yet, is not posted again: `taken` is moved before reading, the change is
 * made before looking at `taken`, so the reader that comes later sees this change too.
 *
 * A reader is told when it may have missed something: overrun, a writer that died in the
 * middle, another ring.  Nothing of all this is needed for anything to be right, only
 * for caches to be fresh: without a ring (no /run/postcopy) nobody is told, and caches
 * expire.
 *
 * The ring may be removed and made again (/run wiped).  Everybody looks once a second
 * whether its own is still linked, and who finds that it is not says so in it, for all
 * the others: what is posted there after a reader has left it would be lost without a
 * word.  What could not be posted at all is told as lost once there is a ring.  Old
 * mappings stay until the volume is closed, for other threads may be in them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "news.h"

#define CHECK_MS 1000
#define STUCK_MS 20 /* a ticket not written by then never will be */
#define BUCKETS	 256

struct mapping {
	struct mapping *older;
	struct stub_ring *ring;
	int fd;
};

#define RING_PATH (STUB_PATH_MAX + sizeof(STUB_RING_SUFFIX))

struct stub_hub {
	char path[RING_PATH];
	uint32_t id; /* who we are: random */
	struct mapping *_Atomic now; /* NULL: none yet */
	_Atomic int64_t checked; /* ms, when `now` was found right; 0: never */
	struct mapping *_Atomic stuck; /* the ring is gone, and no new one could be opened */
	atomic_bool dropped; /* something could not be posted: there was no ring */
	_Atomic uint32_t wake; /* waits where there is no ring */
	_Atomic uint64_t last[BUCKETS]; /* ticket + 1 of what was posted, by handle */
};

/* ---- the ring as it is now ---- */

static int64_t coarse_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool linked(const struct mapping *m)
{
	struct stat st;

	return fstat(m->fd, &st) == 0 && st.st_nlink > 0;
}

static int renew(struct stub_hub *hub, struct mapping *old)
{
	struct mapping *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->older = old;
	r = stub_ring_map(hub->path, &m->fd, &m->ring);
	if (r == 0 && !atomic_compare_exchange_strong(&hub->now, &old, m)) {
		stub_ring_unmap(m->ring);
		close(m->fd);
		r = -EAGAIN;
	}
	if (r < 0)
		free(m);
	else if (atomic_exchange(&hub->dropped, false))
		stub_ring_skip(m->ring);
	return r;
}

/* Is it time to look whether @m is still the one? */
static bool due(struct stub_hub *hub, const struct mapping *m, int64_t now)
{
	return now - atomic_load(&hub->checked) >= CHECK_MS ||
	       (m && atomic_load(&m->ring->gone) && m != atomic_load(&hub->stuck));
}

static struct stub_ring *ring_now(struct stub_hub *hub)
{
	struct mapping *m = atomic_load(&hub->now);
	int64_t now = coarse_ms();

	if (due(hub, m, now)) {
		atomic_store(&hub->checked, now);
		if (m)
			atomic_store(&m->ring->gone, !linked(m)); /* what it says may be garbage */
		if ((!m || atomic_load(&m->ring->gone)) && renew(hub, m) < 0)
			atomic_store(&hub->stuck, m);
		m = atomic_load(&hub->now);
	}
	return m && !atomic_load(&m->ring->gone) ? m->ring : NULL;
}

static void ring_path(const struct stub_volume *v, char out[RING_PATH])
{
	snprintf(out, RING_PATH, "%s" STUB_RING_SUFFIX, v->info.socket);
}

int stub_hub_create(struct stub_volume *v, struct stub_hub **out)
{
	struct stub_hub *hub = calloc(1, sizeof(*hub));
	int r;

	if (!hub)
		return -ENOMEM;
	ring_path(v, hub->path);
	if (getrandom(&hub->id, sizeof(hub->id), 0) != sizeof(hub->id))
		hub->id = (uint32_t)getpid();
	atomic_store(&hub->checked, coarse_ms());
	r = stub_volume_complete(v) ? 0 : renew(hub, NULL);
	if (r < 0)
		stub_log(&v->log, STUB_LOG_INFO, "%s: %s; changes by other processes are seen late",
			 hub->path, strerror(-r));
	*out = hub;
	return 0;
}

void stub_hub_destroy(struct stub_hub *hub)
{
	struct mapping *m;

	if (!hub)
		return;
	m = atomic_load(&hub->now);
	while (m) {
		struct mapping *older = m->older;

		stub_ring_unmap(m->ring);
		close(m->fd);
		free(m);
		m = older;
	}
	free(hub);
}

void stub_ring_remove(const struct stub_volume *v)
{
	char path[RING_PATH];

	ring_path(v, path);
	unlink(path);
}

/* ---- posting ---- */

/* Is the same news there already, posted by us, and not read by any reader yet? */
static bool posted(struct stub_ring *ring, uint64_t ticket, const struct stub_ring_event *e)
{
	struct stub_ring_event there;

	return stub_ring_read(ring, ticket, &there) == 1 && there.poster == e->poster &&
	       (there.what & e->what) == e->what && stub_handle_equal(&there.h, &e->h) &&
	       (int64_t)(ticket - atomic_load(&ring->taken)) >= 0;
}

STUB_PUBLIC bool stub_news_due(const struct stub_volume *v)
{
	return v->hub && !stub_volume_complete(v) &&
	       due(v->hub, atomic_load(&v->hub->now), coarse_ms());
}

STUB_PUBLIC void stub_news_post(struct stub_volume *v, const struct stub_handle *h,
				unsigned int what)
{
	struct stub_hub *hub = v->hub;
	struct stub_ring_event e = { .what = what, .h = *h };
	_Atomic uint64_t *last;
	struct stub_ring *ring;
	uint64_t ticket;

	if (!hub || stub_volume_complete(v) || h->len == 0 || h->len > STUB_HANDLE_MAX)
		return;
	ring = ring_now(hub);
	if (!ring) {
		atomic_store(&hub->dropped, true);
		return;
	}
	e.poster = hub->id;
	last = &hub->last[stub_handle_sum(h) % BUCKETS];
	ticket = atomic_load(last);
	if (ticket && posted(ring, ticket - 1, &e))
		return;
	atomic_store(last, stub_ring_write(ring, &e) + 1);
	if (atomic_load(&ring->sleepers) && atomic_exchange(&ring->sleepers, 0))
		stub_futex_wake(&ring->wake);
}

/* ---- waiting ---- */

STUB_PUBLIC void stub_news_begin(struct stub_volume *v, struct stub_news_reader *r)
{
	memset(r, 0, sizeof(*r));
	r->ring = v->hub ? ring_now(v->hub) : NULL;
	if (!r->ring)
		return;
	r->woken = atomic_load(&r->ring->wake);
	r->next = atomic_load(&r->ring->head);
	stub_ring_take(r->ring, r->next);
}

/* Go on with what comes from now on; what was before may be lost. */
static void jump(struct stub_news_reader *r, bool *lost)
{
	r->next = atomic_load(&r->ring->head);
	r->stuck_since = 0;
	stub_ring_take(r->ring, r->next);
	*lost = true;
}

/* The next ticket is not written yet.  Has that lasted too long? */
static bool stuck(struct stub_news_reader *r)
{
	uint64_t now = stub_now_ms();

	if (!r->stuck_since)
		r->stuck_since = now;
	return now - r->stuck_since >= STUCK_MS;
}

/* Read what there is, and say how many; *writing: the next one is being written. */
static unsigned int drain(const struct stub_hub *hub, struct stub_news_reader *r,
			  struct stub_news *out, unsigned int max, bool *lost, bool *writing)
{
	uint64_t left = atomic_load(&r->ring->head) - r->next;
	struct stub_ring_event e;
	unsigned int n = 0;

	*writing = false;
	if (left > STUB_RING_SLOTS)
		jump(r, lost);
	else
		stub_ring_take(r->ring, r->next + (left < max ? left : max));
	while (left <= STUB_RING_SLOTS && n < max && n < left) {
		int got = stub_ring_read(r->ring, r->next, &e);

		if (got < 0 || (got == 0 && n == 0 && stuck(r))) {
			jump(r, lost);
			break;
		}
		*writing = got == 0;
		if (got == 0)
			break;
		r->stuck_since = 0;
		r->next++;
		out[n++] = (struct stub_news){
			.h = e.h,
			.what = e.what,
			.own = e.poster == hub->id,
		};
	}
	return n;
}

/* Another ring than before: who knows what was in the old one. */
static bool reader_ring(struct stub_volume *v, struct stub_news_reader *r, bool *lost)
{
	struct stub_ring *ring = ring_now(v->hub);

	if (ring && ring != r->ring) {
		stub_news_begin(v, r);
		*lost = true;
	}
	return r->ring != NULL;
}

static void sleep_once(struct stub_hub *hub, struct stub_news_reader *r, unsigned int ms)
{
	_Atomic uint32_t *word = r->ring ? &r->ring->wake : &hub->wake;

	stub_futex_wait(word, r->woken, ms < CHECK_MS ? ms : CHECK_MS);
	r->woken = atomic_load(word);
}

STUB_PUBLIC int stub_news_wait(struct stub_volume *v, struct stub_news_reader *r,
			       unsigned int wait_ms, struct stub_news *out, unsigned int max,
			       bool *lost)
{
	uint64_t until = stub_now_ms() + wait_ms;
	unsigned int n = 0;

	*lost = false;
	if (!v->hub || max == 0)
		return -EINVAL;
	for (;;) {
		uint64_t now;
		uint32_t woken = r->woken;
		bool writing = false;

		if (reader_ring(v, r, lost))
			n = drain(v->hub, r, out, max, lost, &writing);
		if (r->ring && n == 0 && !*lost) { /* posters look at it after they have written */
			atomic_store(&r->ring->sleepers, 1);
			n = drain(v->hub, r, out, max, lost, &writing);
		}
		now = stub_now_ms();
		if (n || *lost || (!writing && now >= until))
			break;
		sleep_once(v->hub, r, writing ? 1 : (unsigned int)(until - now));
		if (r->woken != woken && !writing)
			until = 0; /* for news, or by stub_news_wake(): look once more */
	}
	return (int)n;
}

STUB_PUBLIC void stub_news_wake(struct stub_volume *v)
{
	struct mapping *m = v->hub ? atomic_load(&v->hub->now) : NULL;

	if (m)
		stub_ring_wake(m->ring);
	if (v->hub)
		stub_futex_wake(&v->hub->wake);
}
