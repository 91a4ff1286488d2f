/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_full.c - retriever/jobs/full.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/full.h"

static struct full *make(void)
{
	static struct full f;

	f = (struct full){ .next_kept = 0 };
	full_init(&f);
	return &f;
}

static struct stub_handle handle(uint8_t n)
{
	return (struct stub_handle){ .type = 1, .len = 1, .bytes = { n } };
}

/* ---- does it take data? ---- */

static void a_full_volume_is_left_alone(void **state)
{
	struct full *f = make();
	uint64_t for_ms;

	assert_int_equal(full_now(f), 0);
	full_note(f, FULL_BYTES, -ENOSPC);
	f->until_ms = UINT64_MAX; /* whatever this machine does meanwhile */
	assert_int_equal(full_now(f), -ENOSPC);
	assert_int_equal(full_state(f, &for_ms), ENOSPC);
	f->until_ms = 0;
	assert_int_equal(full_now(f), 0); /* one may try again ... */
	assert_true(f->until_ms > 0);	  /* ... and the others wait for what comes of it */
	assert_int_equal(full_state(f, &for_ms), ENOSPC);
	full_finish(f);
}

static void somebodys_quota_is_not_the_volumes(void **state)
{
	struct full *f = make();
	uint64_t for_ms;

	full_note(f, FULL_BYTES, -EDQUOT);
	f->until_ms = UINT64_MAX;
	assert_int_equal(full_now(f), 0);
	assert_int_equal(full_state(f, &for_ms), EDQUOT);
	full_finish(f);
}

static void it_is_over_once(void **state)
{
	struct full *f = make();
	uint64_t for_ms = 1;

	assert_false(full_is_over(f, FULL_BYTES));
	full_note(f, FULL_BYTES, -EROFS);
	assert_true(full_is_over(f, FULL_BYTES));
	assert_false(full_is_over(f, FULL_BYTES));
	assert_int_equal(full_now(f), 0);
	assert_int_equal(full_state(f, &for_ms), 0);
	assert_int_equal(for_ms, 0);
	full_finish(f);
}

static void a_name_is_not_room_for_bytes(void **state)
{
	struct full *f = make();

	full_note(f, FULL_BYTES, -ENOSPC);
	f->until_ms = UINT64_MAX;
	f->noted_ms = UINT64_MAX / 2; /* just now */
	full_note(f, FULL_NAMES, -ENOSPC);
	f->noted_ms = UINT64_MAX / 2;
	assert_false(full_is_over(f, FULL_NAMES));
	assert_int_equal(full_now(f), -ENOSPC);
	full_hint(f);
	assert_int_equal(full_now(f), 0); /* one tries ... */
	assert_int_equal(full_now(f), -ENOSPC); /* ... and the others wait for what comes of it */
	f->noted_ms = 0; /* no bytes were tried for long */
	assert_true(full_is_over(f, FULL_NAMES));
	full_finish(f);
}

static void a_name_is_room_for_names(void **state)
{
	struct full *f = make();

	full_note(f, FULL_NAMES, -ENOSPC);
	assert_true(full_is_over(f, FULL_NAMES));
	full_note(f, FULL_BYTES, -ENOSPC);
	assert_true(full_is_over(f, FULL_BYTES));
	full_note(f, FULL_NAMES, -ENOSPC); /* what it was before is forgotten */
	assert_true(full_is_over(f, FULL_NAMES));
	full_finish(f);
}

/* ---- what was passed lately ---- */

static void what_was_passed_is_found_again(void **state)
{
	struct stub_handle a = handle(1), b = handle(2);
	struct full *f = make();
	struct stat kept, found;
	int fd = memfd_create("test", MFD_CLOEXEC), again;

	assert_int_equal(fstat(fd, &kept), 0);
	full_keep(f, &a, 10, 20, fd);
	close(fd); /* it has one of its own */
	assert_int_equal(full_find(f, &b, 10, 20), -1);
	assert_int_equal(full_find(f, &a, 11, 20), -1);
	assert_int_equal(full_find(f, &a, 10, 19), -1);
	again = full_find(f, &a, 10, 20);
	assert_int_equal(fstat(again, &found), 0);
	assert_int_equal(found.st_ino, kept.st_ino);
	close(again);
	full_forget(f);
	assert_int_equal(full_find(f, &a, 10, 20), -1);
	full_finish(f);
}

static void the_oldest_one_goes(void **state)
{
	struct stub_handle h = handle(1);
	struct full *f = make();
	int fd = memfd_create("test", MFD_CLOEXEC), again;

	for (unsigned int i = 0; i <= KEPT_MAX; i++)
		full_keep(f, &h, i, 1, fd);
	close(fd);
	assert_int_equal(full_find(f, &h, 0, 1), -1);
	again = full_find(f, &h, KEPT_MAX, 1);
	assert_true(again >= 0);
	close(again);
	full_finish(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_volume_is_left_alone),
		cmocka_unit_test(somebodys_quota_is_not_the_volumes),
		cmocka_unit_test(it_is_over_once),
		cmocka_unit_test(a_name_is_not_room_for_bytes),
		cmocka_unit_test(a_name_is_room_for_names),
		cmocka_unit_test(what_was_passed_is_found_again),
		cmocka_unit_test(the_oldest_one_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
