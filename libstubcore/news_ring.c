/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * news_ring.c - the memory through which processes tell each other of changes.
 *
 * A file of fixed size beside the volume's socket, in /run, which is memory: on the
 * volume itself a store to a mapped page is a signal (SIGBUS) as soon as the file system
 * is full, read-only or broken, and would end a server that has to live on then.  All of
 * it is allocated when it is made, for the same reason.
 *
 * Many writers, many readers, no locks.  A writer draws a ticket from `head`; ticket t
 * stands in slot t mod STUB_RING_SLOTS.  It claims the slot (seq = 2t+1), writes, and
 * completes it (seq = 2t+2).  A writer that dies in between leaves a slot that is never
 * completed: its readers give that ticket up, and the next writer of the slot takes it
 * over.  Should the dead one come to life again, the slot may be a mixture: its sum is
 * wrong then, and that is a loss which the reader notices.  Losses are always noticed,
 * by the numbers; they are told to the reader, and everything may have changed then.
 *
 * Whatever stands in the file is only believed to be in a slot if its sum is right, and
 * then is no more than a hint to look again.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "news.h"

#define LAPS_MAX (1 << 20) /* a seq further ahead than so many laps is nonsense */

/* ---- the file ---- */

/* It gets its name when it is complete: nobody maps half of it. */
static int make(const char *path)
{
	char dir[PATH_MAX], self[32], *slash;
	struct stub_ring *zero CLEANUP_FREE = calloc(1, sizeof(*zero));
	int r, fd CLEANUP_CLOSE = -1;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!zero || !slash)
		return zero ? -EINVAL : -ENOMEM;
	slash[slash == dir] = '\0';
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	zero->magic = STUB_RING_MAGIC;
	zero->size = sizeof(*zero);
	r = stub_io_pwrite(fd, zero, sizeof(*zero), 0);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (r == 0 && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 &&
	    errno != EEXIST)
		r = -errno;
	return r;
}

/* -EBADMSG: it is no ring of this layout, or not only root may write it */
static int check(int fd)
{
	uint64_t head[2] = { 0, 0 };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_mode & 077 ||
	    st.st_size != sizeof(struct stub_ring) ||
	    pread(fd, head, sizeof(head), 0) != sizeof(head) || head[0] != STUB_RING_MAGIC ||
	    head[1] != sizeof(struct stub_ring))
		return -EBADMSG;
	return 0;
}

static int open_checked(const char *path)
{
	int r, fd CLEANUP_CLOSE = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EBADMSG : -errno;
	r = check(fd);
	return r < 0 ? r : stub_steal_fd(&fd);
}

int stub_ring_map(const char *path, int *fd, struct stub_ring **out)
{
	int f CLEANUP_CLOSE = open_checked(path);
	void *p;

	if (f == -EBADMSG && unlink(path) < 0 && errno != ENOENT)
		return -errno;
	if (f == -EBADMSG || f == -ENOENT) {
		int r = make(path);

		if (r < 0)
			return r;
		f = open_checked(path);
	}
	if (f < 0)
		return f;
	p = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	*fd = stub_steal_fd(&f);
	return 0;
}

void stub_ring_unmap(struct stub_ring *r)
{
	munmap(r, sizeof(*r));
}

/* ---- slots ---- */

static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
	return sum ^ sum >> 29;
}

static unsigned int words_of(unsigned int len)
{
	return 2 + (len + 7) / 8;
}

static void pack(const struct stub_ring_event *e, uint64_t word[STUB_RING_WORDS])
{
	memset(word, 0, STUB_RING_WORDS * sizeof(*word));
	word[0] = (uint64_t)e->poster << 32 | (uint64_t)(e->what & 0xff) << 8 | e->h.len;
	word[1] = (uint32_t)e->h.type;
	memcpy(word + 2, e->h.bytes, e->h.len);
}

uint64_t stub_ring_write(struct stub_ring *r, const struct stub_ring_event *e)
{
	uint64_t word[STUB_RING_WORDS], t = atomic_fetch_add(&r->head, 1);
	struct stub_ring_slot *s = &r->slot[t % STUB_RING_SLOTS];
	uint64_t seq = atomic_load(&s->seq), mine = 2 * t + 1, sum;

	pack(e, word);
	do { /* if a later ticket is there, we slept for a lap, and ours is lost */
		uint64_t ahead = seq - mine;

		if (ahead < (uint64_t)LAPS_MAX * 2 * STUB_RING_SLOTS)
			return t;
	} while (!atomic_compare_exchange_weak(&s->seq, &seq, mine));
	sum = mix(0, mine + 1);
	for (unsigned int i = 0; i < words_of(e->h.len); i++) {
		atomic_store_explicit(&s->word[i], word[i], memory_order_release);
		sum = mix(sum, word[i]);
	}
	atomic_store_explicit(&s->sum, sum, memory_order_release);
	seq = mine;
	atomic_compare_exchange_strong(&s->seq, &seq, mine + 1); /* unless taken over */
	return t;
}

int stub_ring_read(struct stub_ring *r, uint64_t ticket, struct stub_ring_event *out)
{
	struct stub_ring_slot *s = &r->slot[ticket % STUB_RING_SLOTS];
	uint64_t want = 2 * ticket + 2, seq = atomic_load(&s->seq), word[STUB_RING_WORDS], sum;

	if (seq != want)
		return (int64_t)(seq - want) < 0 ? 0 : -EOVERFLOW;
	word[0] = atomic_load_explicit(&s->word[0], memory_order_acquire);
	out->poster = (uint32_t)(word[0] >> 32);
	out->what = (unsigned int)(word[0] >> 8) & 0xff;
	out->h.len = (uint8_t)word[0];
	if (out->h.len == 0 || out->h.len > STUB_HANDLE_MAX)
		return -EOVERFLOW;
	sum = mix(mix(0, want), word[0]);
	for (unsigned int i = 1; i < words_of(out->h.len); i++) {
		word[i] = atomic_load_explicit(&s->word[i], memory_order_acquire);
		sum = mix(sum, word[i]);
	}
	if (atomic_load_explicit(&s->sum, memory_order_acquire) != sum ||
	    atomic_load(&s->seq) != want)
		return -EOVERFLOW;
	out->h.type = (int32_t)(uint32_t)word[1];
	memcpy(out->h.bytes, word + 2, out->h.len);
	return 1;
}

void stub_ring_skip(struct stub_ring *r)
{
	atomic_fetch_add(&r->head, STUB_RING_SLOTS + 1);
}

void stub_ring_take(struct stub_ring *r, uint64_t next)
{
	uint64_t taken = atomic_load(&r->taken);

	while ((int64_t)(next - taken) > 0 &&
	       !atomic_compare_exchange_weak(&r->taken, &taken, next))
		;
}

/* ---- waiting ---- */

void stub_futex_wait(_Atomic uint32_t *word, uint32_t seen, unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void stub_futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void stub_futex_wake(_Atomic uint32_t *word)
{
	atomic_fetch_add(word, 1);
	stub_futex_wake_all(word);
}

void stub_ring_wake(struct stub_ring *r)
{
	atomic_store(&r->sleepers, 0);
	stub_futex_wake(&r->wake);
}
