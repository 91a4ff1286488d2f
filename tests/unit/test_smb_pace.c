/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_smb_pace.c - retriever/smb/smb_pace.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>

#include <cmocka.h>

#include "smb/smb.h"

#define MINUTE_MS 60000

struct world {
	struct smb_source s;
	char path[64];
};

static void say(struct world *w, const char *text)
{
	FILE *f = fopen(w->path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char why[256];
	int fd;

	strcpy(w->path, "/tmp/test_smb_pace-XXXXXX");
	fd = mkstemp(w->path);
	assert_true(fd >= 0);
	close(fd);
	say(w, "username = joe\npassword = one\n");
	strcpy(w->s.uri.host, "old");
	pthread_mutex_init(&w->s.pool.lock, NULL);
	stub_cond_init(&w->s.work);
	stub_cond_init(&w->s.pool.ready);
	TAILQ_INIT(&w->s.queue[0]);
	TAILQ_INIT(&w->s.queue[1]);
	assert_int_equal(smb_pace_prepare(&w->s, w->path, why, sizeof(why)), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	unlink(w->path);
	free(w->s.pace.path);
	free(w);
	return 0;
}

static struct source_state told(struct world *w)
{
	struct source_state out = { 0 };

	smb_pace_state(&w->s, &out);
	return out;
}

/* ---- smb_pace_begin, smb_pace_end ---- */

static void one_at_a_time(void **state)
{
	struct world *w = *state;

	assert_true(smb_pace_begin(&w->s, true));
	assert_true(w->s.pace.dialing);
	smb_pace_end(&w->s, -ECONNREFUSED, "refused", 0);
	assert_false(told(w).refused);
	assert_true(smb_pace_begin(&w->s, false));
	smb_pace_end(&w->s, 0, "", 0);
	assert_true(smb_pace_begin(&w->s, false));
	smb_pace_end(&w->s, 0, "", 0);
}

static void longer_and_longer(void **state)
{
	static const unsigned int minutes[] = { 1, 2, 4, 8, 15, 15 };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(minutes) / sizeof(minutes[0]); i++) {
		struct source_state s;
		uint64_t from = stub_now_ms();

		w->s.pace.next_ms = 0; /* so long have we waited */
		assert_true(smb_pace_begin(&w->s, true));
		smb_pace_end(&w->s, -EKEYREJECTED, "logon failure: no", 0);
		assert_false(smb_pace_begin(&w->s, false));
		s = told(w);
		assert_true(s.refused);
		assert_true(w->s.pace.next_ms >= from + minutes[i] * MINUTE_MS);
		assert_true(w->s.pace.next_ms <= stub_now_ms() + minutes[i] * MINUTE_MS);
		assert_non_null(strstr(s.trouble, "logon failure: no; mend "));
		assert_non_null(strstr(s.trouble, w->path));
	}
	w->s.pace.next_ms = 0;
	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, 0, "", 0);
	assert_false(told(w).refused);
	assert_string_equal(w->s.pool.trouble, "");
	assert_true(smb_pace_begin(&w->s, true)); /* from the start again */
	smb_pace_end(&w->s, -EKEYREJECTED, "no", 0);
	assert_true(w->s.pace.next_ms <= stub_now_ms() + MINUTE_MS);
}

/* The server is not reached any more, or no KDC: that is what is wrong now. */
static void another_trouble(void **state)
{
	struct world *w = *state;
	uint64_t from = stub_now_ms();
	struct source_state s;

	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, -EKEYREJECTED, "logon failure: no", 0);
	w->s.pace.hurry = true;
	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, -EHOSTUNREACH, "no KDC", 0);
	assert_true(told(w).refused); /* it is not time for another logon */
	assert_false(smb_pace_begin(&w->s, false));
	w->s.pace.next_ms = 0;
	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, -EHOSTUNREACH, "no KDC", 0);
	s = told(w);
	assert_false(s.refused);
	assert_null(strstr(s.trouble, "logon failure"));
	assert_string_equal(w->s.pool.trouble, "");
	assert_true(smb_pace_begin(&w->s, false));
	smb_pace_end(&w->s, -EKEYREJECTED, "logon failure: no", 0); /* the second one all the same */
	assert_true(w->s.pace.next_ms >= from + 2 * MINUTE_MS);
}

static void another_password(void **state)
{
	struct world *w = *state;

	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, -EKEYREJECTED, "no", 0);
	say(w, "username = joe\npassword = another\n");
	assert_true(smb_pace_begin(&w->s, true));
	assert_string_equal(w->s.login.password, "another");
	smb_pace_end(&w->s, -EKEYREJECTED, "no", 0);
	say(w, "# nothing new\nusername = joe\npassword = another\n");
	w->s.pool.stop = true; /* nobody waits */
	assert_false(smb_pace_begin(&w->s, true));
}

static void what_cannot_be_read(void **state)
{
	struct world *w = *state;

	say(w, "username = joe\nbroken\n");
	assert_true(smb_pace_begin(&w->s, true));
	assert_string_equal(w->s.login.password, "one");
	smb_pace_end(&w->s, 0, "", 0);
	say(w, "username = joe\npassword = three\n");
	assert_true(smb_pace_begin(&w->s, true));
	assert_string_equal(w->s.login.password, "three");
}

/* ---- smb_pace_hurry ---- */

static void at_once(void **state)
{
	struct world *w = *state;

	assert_true(smb_pace_begin(&w->s, true));
	smb_pace_end(&w->s, -EKEYREJECTED, "no", 0);
	assert_false(smb_pace_begin(&w->s, false));
	smb_pace_hurry(&w->s);
	assert_true(smb_pace_begin(&w->s, false));
	smb_pace_end(&w->s, -EKEYREJECTED, "no", 0);
	assert_false(smb_pace_begin(&w->s, false)); /* once */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(one_at_a_time), T(longer_and_longer), T(another_trouble), T(another_password),
		T(what_cannot_be_read), T(at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
