/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * news.h - the ring that news.c posts to and waits at, see news_ring.c.
 */
#ifndef STUBCORE_NEWS_H
#define STUBCORE_NEWS_H

#include "internal.h"

#define STUB_RING_SUFFIX ".news1" /* beside the socket; another layout has another name */
#define STUB_RING_MAGIC	 0x31736e2d70637073u
#define STUB_RING_SLOTS	 2048
#define STUB_RING_WORDS	 (2 + STUB_HANDLE_MAX / 8)

struct stub_ring_slot {
	_Atomic uint64_t seq; /* ticket t: 2t+1 being written, 2t+2 complete */
	_Atomic uint64_t sum; /* over seq and words: wrong if two writers have mixed them */
	/* poster << 32 | what << 8 | length of the handle; its type; its bytes */
	_Atomic uint64_t word[STUB_RING_WORDS];
};

struct stub_ring {
	uint64_t magic;
	uint64_t size; /* of all of it, bytes */
	_Atomic uint64_t head __attribute__((aligned(64))); /* the next ticket */
	_Atomic uint64_t taken; /* up to here a reader has read */
	_Atomic uint32_t sleepers; /* is anybody waiting? */
	_Atomic uint32_t wake; /* futex */
	_Atomic uint32_t gone; /* its file is removed: look for the next one */
	struct stub_ring_slot slot[STUB_RING_SLOTS] __attribute__((aligned(64)));
};

struct stub_ring_event {
	uint32_t poster;
	unsigned int what;
	struct stub_handle h;
};

/* Map the ring at @path, made anew if there is none or what is there is damaged.
 * *fd stays open and is the caller's.  -ENOENT: its directory is missing; -EACCES ... */
int stub_ring_map(const char *path, int *fd, struct stub_ring **out);
void stub_ring_unmap(struct stub_ring *r);

uint64_t stub_ring_write(struct stub_ring *r, const struct stub_ring_event *e); /* the ticket */
/* 1 read; 0 not written yet; -EOVERFLOW something else is there: it is lost */
int stub_ring_read(struct stub_ring *r, uint64_t ticket, struct stub_ring_event *out);
/* A reader has read up to @next: what it has read is no reason any more not to post again. */
void stub_ring_take(struct stub_ring *r, uint64_t next);
void stub_ring_wake(struct stub_ring *r); /* whoever waits */
/* Make all readers find that they have missed something. */
void stub_ring_skip(struct stub_ring *r);

/* Wait for *@word to become another than @seen, at most @ms.  @word may be shared. */
void stub_futex_wait(_Atomic uint32_t *word, uint32_t seen, unsigned int ms);
void stub_futex_wake(_Atomic uint32_t *word); /* moves it on */
void stub_futex_wake_all(_Atomic uint32_t *word);

#endif
