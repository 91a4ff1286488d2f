/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <sys/mman.h>

#include "front.h"

static struct front_server *server_of(struct stub_gate *g)
{
	return (struct front_server *)((char *)g - offsetof(struct front_server, gate));
}

static bool gate_enter(struct stub_gate *g)
{
	struct front_server *s = server_of(g);

	s->entered++;
	return s->roots++ == 0;
}

static void gate_leave(struct stub_gate *g, bool entered)
{
	struct front_server *s = server_of(g);

	s->roots--;
	assert_int_equal(entered, s->roots == 0);
}

static bool gate_wait_begin(struct stub_gate *g, struct stub_wait *w)
{
	struct front_server *s = server_of(g);

	if (!w->begun)
		w->until = stub_now_ms() + s->wait_ms;
	w->begun = true;
	s->places += !s->full;
	return !s->full;
}

static void gate_wait_end(struct stub_gate *g, struct stub_wait *w)
{
	server_of(g)->places--;
}

static int gate_wait_on(struct stub_gate *g, const struct stub_wait *w)
{
	server_of(g)->waits++;
	return server_of(g)->end;
}

static void gate_who(struct stub_gate *g, char who[STUB_WHO_MAX + 1])
{
	stub_who(who, "tester", 0, "127.0.0.1");
}

static bool gate_debugs(struct stub_gate *g)
{
	return server_of(g)->debugs;
}

static const struct stub_gate_ops ops = {
	.enter = gate_enter,
	.leave = gate_leave,
	.wait_begin = gate_wait_begin,
	.wait_end = gate_wait_end,
	.wait_on = gate_wait_on,
	.who = gate_who,
	.debugs = gate_debugs,
};

void front_server_init(struct front_server *s, struct fixture *x)
{
	*s = (struct front_server){ .wait_ms = 30000 };
	s->gate.volume = x->v;
	s->gate.ops = &ops;
}

struct stub_front front_of(struct front_server *s, struct fixture *x, const char *name)
{
	return (struct stub_front){ .gate = &s->gate, .maybe = true,
				    .h = fixture_handle(x, name) };
}

unsigned int front_fragment(struct stub_front *f)
{
	struct stub_front *in[1] = { f };
	struct stub_bracket b;
	unsigned int i = 0;

	for (; i < STUB_MAP_MAX; i++) {
		assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
		if (stub_change_fits(&b.c, 0, (2 * i + 1) * FRONT_BLOCK, FRONT_BLOCK) < 0)
			break;
		assert_int_equal(stub_change_written(&b.c, 0, (2 * i + 1) * FRONT_BLOCK, FRONT_BLOCK), 0);
		assert_int_equal(stub_bracket_end(&b, 0), 0);
	}
	assert_int_equal(stub_bracket_end(&b, 0), 0);
	return i;
}

static void pass(struct stub_request *r)
{
	int fd = memfd_create("passed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *bytes = malloc(r->ask.length);

	assert_true(fd >= 0 && bytes);
	memset(bytes, FRONT_PASSED, r->ask.length);
	assert_int_equal(stub_io_pwrite(fd, bytes, r->ask.length, 0), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	stub_request_pass(r, fd);
	free(bytes);
	close(fd);
}

static void serve(void *arg, struct stub_request *r)
{
	struct front_retriever *t = arg;
	int result;

	pthread_mutex_lock(&t->lock);
	if (t->n < ARRAY_LEN(t->asked))
		t->asked[t->n++] = r->ask.kind;
	pthread_mutex_unlock(&t->lock);
	result = t->answer(t->arg, r);
	if (result == 0 && r->ask.kind == STUB_ASK_PASS)
		pass(r);
	else
		stub_request_answer(r, result);
}

void front_retriever_start(struct front_retriever *t, struct fixture *x,
			   int (*answer)(void *arg, const struct stub_request *r), void *arg)
{
	*t = (struct front_retriever){ .answer = answer, .arg = arg };
	pthread_mutex_init(&t->lock, NULL);
	assert_int_equal(stub_server_create(x->v, serve, t, NULL, NULL, &t->server), 0);
}

void front_retriever_stop(struct front_retriever *t)
{
	stub_server_destroy(t->server);
	pthread_mutex_destroy(&t->lock);
}

unsigned int front_retriever_asked(struct front_retriever *t)
{
	unsigned int n;

	pthread_mutex_lock(&t->lock);
	n = t->n;
	pthread_mutex_unlock(&t->lock);
	return n;
}

void front_retriever_wait(struct front_retriever *t)
{
	for (int i = 0; i < 30000 && front_retriever_asked(t) == 0; i++)
		usleep(1000);
}

int front_answer(void *arg, const struct stub_request *r)
{
	return atomic_load((atomic_int *)arg);
}
