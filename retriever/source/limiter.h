/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limiter.h - care for the old server: how many requests of the background it gets, so that it
 * stays quick for others.
 *
 * How many are under way is found by measuring (pace.h): as many as bring more answers.  It begins with what
 * a quick server may answer in the least time that one took so far: a few near it, hundreds at the end of a
 * long line.  Where it is full and nothing comes back for a second, what is under way hangs, and others go.
 *
 * Two rules, each of which may be absent.  Requests per second: they go at even distances.  A set
 * point of latency, which then says how many: while answers take longer on average, ever fewer requests are
 * under way, and at last one at a time with pauses of up to 15 times its own duration between; while they
 * take less than four fifths of it, ever more.  Requests for waiting clients are never held, but
 * their answers are looked at too.
 *
 * What an answer took counts by 64 KiB of data: a READ of 1 MiB may take 16 times the set point.
 * Answers to listings are not looked at: how long they take depends on the directory.  While
 * requests are under way and nothing at all is heard, no others go.
 *
 * Decisions 0101, 0103.  NULL, of which nothing counts, is taken by all but limiter_go(); all may be called from any
 * thread, with any lock held: the limiter's own is a leaf.
 */
#ifndef SOURCE_LIMITER_H
#define SOURCE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#define LIMITER_REQUESTS_MAX 1000000
#define LIMITER_LATENCY_MAX  60000
#define LIMITER_CALLS_MAX    4096
#define LIMITER_LANES	     2 /* of a joined source: each half has its own number under way */

struct limiter;

struct limiter_rules {
	uint32_t requests;   /* per second, to LIMITER_REQUESTS_MAX; 0: no limit */
	uint32_t latency_ms; /* the set point, to LIMITER_LATENCY_MAX; 0: none */
	uint32_t calls;	     /* so many under way, if there is no set point, to LIMITER_CALLS_MAX; 0: found */
};

/* Without rules yet.  @all: no client waits, so demand is held, too.  0 or -ENOMEM */
int limiter_create(bool all, struct limiter **out);
void limiter_destroy(struct limiter *l);
void limiter_set(struct limiter *l, const struct limiter_rules *r); /* in force at once, if they are others */

/* Is a request like this to be asked for at all? */
bool limiter_counts(const struct limiter *l, bool background);
/* May one more that counts go now?  The number of its flight: it is under way until limiter_over().  0: no, and
 * *again_us is when to ask again, by stub_now_us(). */
unsigned int limiter_go(struct limiter *l, unsigned int lane, uint64_t *again_us);
void limiter_over(struct limiter *l, unsigned int lane, unsigned int flight);
/* One that counts waits for a place on a connection: not more can be under way than are. */
void limiter_full(struct limiter *l, unsigned int lane);
/* One that is under way takes another request, which cannot be held: those that follow are. */
void limiter_another(struct limiter *l);

/* An answer came to what was sent at @sent_us, with @bytes of data. */
void limiter_answered(struct limiter *l, unsigned int lane, uint64_t sent_us, uint64_t bytes);
void limiter_heard(struct limiter *l, unsigned int lane); /* the old server lives */

/* Is something of the background held now by a rule, while the old server lives? */
bool limiter_holds(struct limiter *l);

struct limiter_state {
	struct limiter_rules rules;
	bool backs_off;	     /* fewer requests go because of the set point */
	uint64_t latency_us; /* of answers, the last average of the slower half; 0: not known, or no set point */
	unsigned int calls;  /* of the background that may be under way now, of the half that may have more; 1 at least */
};
void limiter_state(struct limiter *l, struct limiter_state *out);

#endif
