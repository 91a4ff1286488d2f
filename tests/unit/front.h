/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * front.h - a server of the tests' own, for what stubfront.h says to servers: its gate, and
 * a retriever that answers as it is told.
 */
#ifndef FRONT_H
#define FRONT_H

#include "fixture.h"
#include "gate.h"

struct front_server {
	struct stub_gate gate;
	bool debugs; /* its log wants to hear of asks */
	bool full; /* no place to wait is free */
	uint64_t wait_ms; /* of one call */
	int end; /* what wait_on() says */
	unsigned int places; /* taken now */
	atomic_uint waits; /* times that nothing had come */
	int roots; /* entered now */
	unsigned int entered;
};

void front_server_init(struct front_server *s, struct fixture *x);

/* @f, a stub: every second block is written, until the record has no room for the next one.  How
 * many blocks are. */
#define FRONT_BLOCK 4096
unsigned int front_fragment(struct stub_front *f);

/* What is called so, as the server meets it. */
struct stub_front front_of(struct front_server *s, struct fixture *x, const char *name);

/*
 * A retriever: @answer says what becomes of an ask, on a thread of its own; what was asked
 * is kept in order.  A PASS that is answered 0 comes with bytes of FRONT_PASSED.
 */
#define FRONT_PASSED 'p'

struct front_retriever {
	struct stub_server *server;
	int (*answer)(void *arg, const struct stub_request *r);
	void *arg;
	pthread_mutex_t lock;
	unsigned int n;
	enum stub_ask_kind asked[64];
};

void front_retriever_start(struct front_retriever *t, struct fixture *x,
			   int (*answer)(void *arg, const struct stub_request *r), void *arg);
void front_retriever_stop(struct front_retriever *t);

/* How often it was asked.  Afterwards t->n says so too. */
unsigned int front_retriever_asked(struct front_retriever *t);
/* Wait for the first time. */
void front_retriever_wait(struct front_retriever *t);

/* An answer that is always *(atomic_int *)@arg. */
int front_answer(void *arg, const struct stub_request *r);

#endif
