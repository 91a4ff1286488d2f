/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* test_bracket_mirrored.c - libstubcore/bracket.c: what is changed is owed to a mirror */
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "front.h"
#include "mirrored.h"

static const unsigned int bytes_owed = STUB_OWED_DATA | STUB_OWED_ATTRS;

/* "file", a stub, and "normal"; all of a volume that has a mirror. */
static void begin(struct fixture *x, struct front_server *s, struct stub_front *file,
			   struct stub_front *normal)
{
	struct stub_entry e = fixture_entry("file", S_IFREG | 0644, 2000 * FRONT_BLOCK);

	mirrored_make(x, STUB_MIRROR_WAY_BACK, false);
	fixture_list(x, &e, 1);
	close(fixture_open(x, "normal", O_CREAT | O_WRONLY));
	front_server_init(s, x);
	s->gate.alone = true; /* counts them */
	*file = front_of(s, x, "file");
	*normal = front_of(s, x, "normal");
	normal->maybe = false;
	assert_true(stub_gate_mirrored(&s->gate));
}

/* @f is owed @what, and no longer in flight. */
static void assert_owed(struct fixture *x, const struct stub_front *f, unsigned int what)
{
	assert_int_equal(mirrored_owes(x, &f->h), what);
	assert_int_equal(mirrored_settle(x, &f->h), what ? 0 : -ENOENT);
}

static void what_is_changed_is_owed(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal, root, none = { .gate = NULL }, *of[2] = { &file, &normal };
	struct stub_wait w = { 0 };
	struct stub_entered e;
	struct front_server s;
	struct stub_bracket b;

	begin(x, &s, &file, &normal);
	root = front_of(&s, x, ".");
	for (int i = 0; i < 2; i++) {
		struct stub_front *in[] = { of[i], NULL, &none, &root };

		root.owes = STUB_OWED_NAMES;
		root.maybe = i == 0;
		assert_int_equal(stub_bracket_begin(in, 4, &b), 0);
		assert_int_equal(b.open, i == 0);
		assert_int_equal(mirrored_settle(x, &of[i]->h), 1); /* in flight */
		assert_int_equal(mirrored_settle(x, &root.h), 1);
		assert_int_equal(stub_bracket_end(&b, -EDOM), -EDOM); /* who knows what it did */
		assert_owed(x, of[i], STUB_OWED_ATTRS);
		assert_owed(x, &root, STUB_OWED_NAMES);
		of[i]->owes = STUB_OWED_DATA;
		assert_int_equal(stub_bracket_attrs(of[i], &w, &b), 0);
		stub_bracket_drop(&b);
		assert_owed(x, of[i], STUB_OWED_DATA);
		of[i]->owes = 0;
		assert_int_equal(stub_bracket_range(of[i], &w, 0, 10, &b), 0);
		assert_int_equal(mirrored_settle(x, &of[i]->h), 1);
		assert_int_equal(stub_bracket_range_end(&b, of[i], 0, 0, 10), 0);
		assert_owed(x, of[i], bytes_owed);
		assert_int_equal(stub_front_enter(of[i], STUB_OWED_DATA, &e), 0);
		assert_int_equal(mirrored_settle(x, &of[i]->h), 1);
		stub_front_leave(of[i], &e);
		assert_owed(x, of[i], STUB_OWED_DATA);
		assert_int_equal(stub_bracket_look(of[i], &b), 0);
		stub_bracket_drop(&b);
		assert_owed(x, of[i], 0);
	}
	assert_int_equal(s.gate.brackets, 0);
	assert_int_equal(s.roots, 0);
}

static void a_complete_volume_owes_as_well(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal, *in[1] = { &normal };
	struct front_server s;
	struct stub_bracket b;

	begin(x, &s, &file, &normal);
	atomic_store(&x->v->state->complete, 1);
	assert_false(stub_gate_migrating(&s.gate));
	assert_int_equal(stub_bracket_begin(in, 1, &b), 0);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
	assert_owed(x, &normal, STUB_OWED_ATTRS);
}

static void one_inside_another_is_owed_as_well(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal, *in[1] = { &normal };
	struct stub_bracket outer, inner;
	struct stub_wait w = { 0 };
	struct front_server s;

	begin(x, &s, &file, &normal);
	assert_int_equal(stub_bracket_attrs(&file, &w, &outer), 0);
	assert_int_equal(stub_bracket_begin(in, 1, &inner), 0);
	assert_int_equal(stub_bracket_end(&inner, 0), 0);
	assert_owed(x, &normal, STUB_OWED_ATTRS);
	assert_int_equal(stub_bracket_range(&file, &w, 0, 10, &inner), 0);
	assert_false(inner.open);
	assert_int_equal(stub_bracket_range_end(&inner, &file, 0, 0, 10), 0);
	assert_int_equal(mirrored_settle(x, &file.h), 1); /* the outer one's */
	assert_int_equal(stub_bracket_end(&outer, 0), 0);
	assert_owed(x, &file, bytes_owed);
}

/* Whatever ends a bracket before it began, nothing stays in flight. */
static void errors_leave(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal, unknown, *in[2] = { &normal, &unknown };
	atomic_int said = -ENOSPC;
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	unsigned int n;
	char path[128];

	begin(x, &s, &file, &normal);
	unknown = normal;
	unknown.h.len = 0;
	assert_int_equal(stub_bracket_begin(in, 2, &b), -EIO); /* nobody could say what is owed */
	assert_owed(x, &normal, STUB_OWED_ATTRS);
	n = front_fragment(&file);
	assert_owed(x, &file, STUB_OWED_ATTRS);
	front_retriever_start(&t, x, front_answer, &said);
	assert_int_equal(stub_bracket_range(&file, &w, (2 * n + 1) * FRONT_BLOCK, FRONT_BLOCK, &b),
			 -ENOSPC);
	front_retriever_stop(&t);
	assert_owed(x, &file, bytes_owed);
	snprintf(path, sizeof(path), "%s/file", x->dir);
	assert_int_equal(setxattr(path, STUB_XATTR, "rubbish", 7, 0), 0);
	in[0] = &file;
	assert_int_equal(stub_bracket_begin(in, 1, &b), -EBADMSG);
	assert_owed(x, &file, STUB_OWED_ATTRS);
	assert_int_equal(s.gate.brackets, 0);
	assert_int_equal(s.roots, 0);
}

/* While somebody waits for room nothing has changed, and nothing is in flight. */
static int answer_settle(void *arg, const struct stub_request *r)
{
	struct fixture *x = arg;

	assert_int_equal(r->ask.kind, STUB_ASK_ROOM);
	return mirrored_settle(x, &r->ask.h) == 0 ? -ENOSPC : -EDOM;
}

static void who_waits_for_room_is_not_in_flight(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal;
	struct stub_wait w = { 0 };
	struct front_retriever t;
	struct front_server s;
	struct stub_bracket b;
	unsigned int n;

	begin(x, &s, &file, &normal);
	n = front_fragment(&file);
	front_retriever_start(&t, x, answer_settle, x);
	assert_int_equal(stub_bracket_range(&file, &w, (2 * n + 1) * FRONT_BLOCK, FRONT_BLOCK, &b),
			 -ENOSPC);
	front_retriever_stop(&t);
}

static void frozen(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal, *of[2] = { &file, &normal };
	struct stub_wait w = { 0 };
	struct front_server s;
	struct stub_bracket b;
	struct stub_entered e;

	begin(x, &s, &file, &normal);
	assert_int_equal(stub_ledger_freeze(x->v, true), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(stub_bracket_begin(&of[i], 1, &b), -EAGAIN);
		assert_int_equal(stub_bracket_attrs(of[i], &w, &b), -EAGAIN);
		assert_int_equal(stub_bracket_range(of[i], &w, 0, 10, &b), -EAGAIN);
		assert_int_equal(stub_front_enter(of[i], STUB_OWED_DATA, &e), -EAGAIN);
		stub_front_leave(of[i], &e);
		assert_int_equal(stub_bracket_look(of[i], &b), 0);
		stub_bracket_drop(&b);
		assert_owed(x, of[i], 0);
	}
	assert_int_equal(s.gate.brackets, 0);
	assert_int_equal(stub_ledger_freeze(x->v, false), 0);
	assert_int_equal(stub_bracket_attrs(&file, &w, &b), 0);
	assert_int_equal(stub_bracket_end(&b, 0), 0);
}

/* The kernel kills who makes one. */
static bool without_system_calls(struct stub_front *f)
{
	struct stub_front *in[1] = { f };
	struct stub_wait w = { 0 };
	struct stub_bracket b;
	struct stub_entered e;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int r = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);

		r |= stub_bracket_begin(in, 1, &b);
		r |= stub_bracket_end(&b, 0);
		r |= stub_bracket_attrs(f, &w, &b);
		r |= stub_bracket_end(&b, 0);
		r |= stub_bracket_range(f, &w, 0, 10, &b);
		r |= stub_bracket_range_end(&b, f, 0, 0, 10);
		r |= stub_front_enter(f, STUB_OWED_DATA, &e);
		stub_front_leave(f, &e);
		syscall(SYS_exit, r != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
		    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	return WIFEXITED(status);
}

static void a_normal_object_costs_no_system_call(void **state)
{
	struct fixture *x = *state;
	struct stub_front file, normal;
	struct front_server s;
	struct stub_entered e;

	front_server_init(&s, x);
	close(fixture_open(x, "normal", O_CREAT | O_WRONLY));
	normal = front_of(&s, x, "normal");
	normal.maybe = false;
	assert_true(without_system_calls(&normal));
	assert_int_equal(s.entered, 0);
	begin(x, &s, &file, &normal);
	assert_false(without_system_calls(&normal)); /* it is entered: that is durable */
	assert_int_equal(stub_front_enter(&normal, bytes_owed, &e), 0);
	stub_front_leave(&normal, &e);
	assert_true(without_system_calls(&normal)); /* it is active, but for becoming root */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_changed_is_owed),
		TEST(a_complete_volume_owes_as_well),
		TEST(one_inside_another_is_owed_as_well),
		TEST(errors_leave),
		TEST(who_waits_for_room_is_not_in_flight),
		TEST(frozen),
		TEST(a_normal_object_costs_no_system_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
