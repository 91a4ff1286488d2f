/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * era.c - for how long `now` of a record may be trusted.
 *
 * `now` is right as long as the page cache is: what it counts as present may not be on
 * the disk yet.  Two things end that:
 *   - a sync that failed: the kernel has marked clean what it could not write, no
 *     later sync tells of it again, and it may be gone at any time;
 *   - the end of the mounted file system without a good sync (it shut itself down).
 * Either begins a new era of the volume.  The era is a part of the boot id of each
 * record, so one number sets all objects back to their map `durable`, for every
 * process, without a list of what was touched.  Fetching again is always right.
 *
 * The era is a random number in .postcopy/state, whose page everybody has mapped and
 * locked.  It need not survive anything: who opens a volume that nobody has open
 * begins a new one (it may have been unmounted in between), and another boot ends all.
 * What processes that died had written is folded before, if the file system has not been
 * unmounted since (enter.c, lagging.c).
 *
 * What clients wrote before a new era begins, acknowledged as unstable, is lost.  They
 * must not be told that it is safe: who wrote what in which era is remembered until the
 * COMMIT, which fails if the era is another one then.  (NFSv3's write verifier, the way to
 * make them send it again, is out of a plugin's reach.)
 */
#include <fcntl.h>
#include <sys/random.h>

#include "volume.h"

#define BUCKETS	  1024
#define NOTES_MAX 65536

/* ---- the number ---- */

STUB_PUBLIC uint64_t stub_volume_era(const struct stub_volume *v)
{
	return (uint64_t)atomic_load(&v->state->era) << 32 | atomic_load(&v->own_era);
}

uint64_t stub_volume_boot(const struct stub_volume *v)
{
	return v->boot ^ stub_volume_era(v) * 0x9e3779b97f4a7c15u;
}

/* Through the mapping, but with an error instead of a signal where that fails. */
static int poke(void *to, const void *from, size_t len)
{
	int fd CLEANUP_CLOSE = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return pwrite(fd, from, len, (off_t)(uintptr_t)to) == (ssize_t)len ? 0 : -EIO;
}

int stub_era_draw(const struct stub_volume *v, uint32_t *era)
{
	ssize_t n;

	*era = 0;
	while (*era == 0 || *era == atomic_load(&v->state->era))
		if (getrandom(era, sizeof(*era), 0) != sizeof(*era))
			++*era;
	n = pwrite(v->state_fd, era, sizeof(*era), offsetof(struct stub_state_page, era));
	return n == (ssize_t)sizeof(*era) ? 0 : n < 0 ? -errno : -EIO;
}

int stub_volume_new_era(struct stub_volume *v)
{
	uint32_t era;
	int r = stub_era_draw(v, &era);

	if (r < 0) { /* the file system is read-only or broken: write to the mapped page instead */
		if (poke(&v->state->era, &era, sizeof(era)) == 0)
			r = 0;
		else /* only we know; others do not trust records of an era unknown to them */
			atomic_store(&v->own_era, era);
	}
	stub_log(&v->log, r < 0 ? STUB_LOG_ERROR : STUB_LOG_WARN,
		 "what is not durable on the volume is fetched again%s",
		 r < 0 ? "; other processes cannot be told" : "");
	return r;
}

/* ---- unstable writes ---- */

struct note {
	struct note *next;
	struct stub_handle h;
	uint64_t who, era;
};

struct stub_notes {
	pthread_mutex_t lock; /* a leaf */
	struct note *bucket[BUCKETS];
	atomic_uint n;
	atomic_uint_fast64_t lost_era; /* of a note there was no room for; 0: none */
};

int stub_notes_create(struct stub_notes **out)
{
	struct stub_notes *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

void stub_notes_destroy(struct stub_notes *s)
{
	if (!s)
		return;
	for (unsigned int i = 0; i < BUCKETS; i++) {
		while (s->bucket[i]) {
			struct note *n = s->bucket[i];

			s->bucket[i] = n->next;
			free(n);
		}
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Where the note is, or would be. */
static struct note **note_find(struct stub_notes *s, const struct stub_handle *h, uint64_t who)
{
	struct note **p = &s->bucket[(stub_handle_sum(h) ^ who) % BUCKETS];

	while (*p && !((*p)->who == who && stub_handle_equal(&(*p)->h, h)))
		p = &(*p)->next;
	return p;
}

STUB_PUBLIC void stub_unstable_note(struct stub_volume *v, const struct stub_handle *h,
				    uint64_t who, uint64_t era)
{
	struct stub_notes *s = v->notes;
	struct note **p, *n = NULL;

	pthread_mutex_lock(&s->lock);
	p = note_find(s, h, who);
	if (*p) { /* an era that is over stays: one of the writes is lost */
		if ((*p)->era == stub_volume_era(v))
			(*p)->era = era;
	} else {
		if (atomic_load(&s->n) < NOTES_MAX)
			n = malloc(sizeof(*n));
		if (n) {
			*n = (struct note){ .h = *h, .who = who, .era = era };
			*p = n;
			atomic_fetch_add(&s->n, 1);
		} else if (s->lost_era == 0 || s->lost_era == stub_volume_era(v)) {
			s->lost_era = era;
		}
	}
	pthread_mutex_unlock(&s->lock);
}

STUB_PUBLIC int stub_unstable_take(struct stub_volume *v, const struct stub_handle *h,
				   uint64_t who, uint64_t *era)
{
	struct stub_notes *s = v->notes;
	uint64_t now = stub_volume_era(v);
	struct note **p, *n;

	*era = now;
	pthread_mutex_lock(&s->lock);
	p = note_find(s, h, who);
	n = *p;
	if (n) {
		*era = n->era;
		*p = n->next;
		free(n);
		atomic_fetch_sub(&s->n, 1);
	} else if (s->lost_era) {
		*era = s->lost_era;
	}
	pthread_mutex_unlock(&s->lock);
	return *era == now ? 0 : -EIO;
}

STUB_PUBLIC bool stub_unstable_any(const struct stub_volume *v)
{
	return atomic_load(&v->notes->n) || v->notes->lost_era;
}
