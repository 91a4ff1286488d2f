/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_window.c - crawler/window/ */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "window/window.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"

static void zone(const char *tz)
{
	setenv("TZ", tz, 1);
	tzset();
}

/* "2026-11-23 20:00" by the wall clock; a Monday. */
static time_t at(const char *text)
{
	struct tm tm = { .tm_isdst = -1 };

	assert_int_equal(sscanf(text, "%d-%d-%d %d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
				&tm.tm_hour, &tm.tm_min), 5);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return mktime(&tm);
}

static struct windows some(const char *a, const char *b)
{
	struct windows w = { .n = 0 };
	char why[256] = "";

	assert_int_equal(window_parse(a, &w.w[w.n++], why, sizeof(why)), 0);
	if (b)
		assert_int_equal(window_parse(b, &w.w[w.n++], why, sizeof(why)), 0);
	return w;
}

static void text_is_taken_and_given_back(void **state)
{
	static const char *const same[][2] = {
		{ "Mon..Fri 20:00-06:00", "Mon..Fri 20:00-06:00" },
		{ "20:00-06:00", "20:00-06:00" },
		{ "  sat,SUN   0:00-24:00 ", "Sat,Sun 00:00-24:00" },
		{ "Saturday..Monday 22:30-23:00", "Mon,Sat,Sun 22:30-23:00" },
		{ "Fri..Tue 01:00-02:00", "Mon,Tue,Fri..Sun 01:00-02:00" },
		{ "Mon..Sun 01:00-02:00", "01:00-02:00" },
		{ "Sun..Sat 01:00-02:00", "01:00-02:00" },
		{ "Mon,Wed,Fri 20:00-24:00", "Mon,Wed,Fri 20:00-24:00" },
		{ "Mon,Mon,Mon..Tue 20:00-24:00", "Mon,Tue 20:00-24:00" },
	};
	char text[WINDOW_TEXT];

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct windows w = some(same[i][0], NULL);

		window_text(&w.w[0], text);
		assert_string_equal(text, same[i][1]);
	}
	window_text(&(struct window){ .days = 0x55, .from = 1439, .to = 1440 }, text);
	assert_string_equal(text, "Tue,Thu,Sat,Sun 23:59-24:00"); /* the longest there is fits */
}

static void wrong_text_is_refused_with_what_is_right(void **state)
{
	static const char *const wrong[] = {
		"", " ", "Mon", "Mon..Fri", "20:00", "20:00-", "-06:00", "20:00-06:00x", "20-06",
		"20:0-6:0", "25:00-26:00", "20:60-21:00", "24:01-01:00", "Mon-Fri 20:00-06:00",
		"Mo 20:00-06:00", "Mon.. 20:00-06:00", "Mon, 20:00-06:00", ",Mon 20:00-06:00",
		"Mon20:00-06:00", "Mon 20:00 - 06:00", "20:00-06:00 Mon", "*-*-* 20:00", "none",
		"Mon 20:00-06:00, Tue 20:00-06:00", "020:00-06:00", "+2:00-06:00", "20: 0-06:00",
		"20:00-06:00\n", "Mon 20:00-06:00;rm", "\xff 20:00-06:00",
	};
	static const char *const nothing[] = { "20:00-20:00", "24:00-06:00", "22:00-00:00",
					       "00:00-00:00", "24:00-24:00" };
	struct window w;
	char why[256];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (window_parse(wrong[i], &w, why, sizeof(why)) != -EINVAL)
			fail_msg("taken: '%s'", wrong[i]);
		assert_non_null(strstr(why, "Mon..Fri 20:00-06:00"));
	}
	for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
		assert_int_equal(window_parse(nothing[i], &w, why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "00:00-24:00"));
	}
}

static void without_windows_it_is_open(void **state)
{
	struct windows w = { .n = 0 };

	assert_true(windows_open(&w, 0));
	assert_int_equal(windows_change(&w, 0), 0);
}

static void nights_of_work_days(void **state)
{
	struct windows w = some("Mon..Fri 20:00-06:00", NULL);

	zone(BERLIN);
	assert_false(windows_open(&w, at("2026-11-23 05:59"))); /* Monday: Sunday has none */
	assert_false(windows_open(&w, at("2026-11-23 19:59")));
	assert_true(windows_open(&w, at("2026-11-23 20:00")));
	assert_true(windows_open(&w, at("2026-11-24 00:00")));
	assert_true(windows_open(&w, at("2026-11-24 05:59")));
	assert_false(windows_open(&w, at("2026-11-24 06:00")));
	assert_true(windows_open(&w, at("2026-11-28 05:59"))); /* of Friday's */
	assert_false(windows_open(&w, at("2026-11-28 20:00")));
	assert_int_equal(windows_change(&w, at("2026-11-24 12:34")), at("2026-11-24 20:00"));
	assert_int_equal(windows_change(&w, at("2026-11-24 21:00") + 59), at("2026-11-25 06:00"));
	assert_int_equal(windows_change(&w, at("2026-11-28 06:00")), at("2026-11-30 20:00"));
}

static void one_of_several_is_enough(void **state)
{
	struct windows w = some("Sat,Sun 00:00-24:00", "20:00-06:00");

	zone(BERLIN);
	assert_true(windows_open(&w, at("2026-11-28 12:00")));
	assert_true(windows_open(&w, at("2026-11-30 05:59")));
	assert_false(windows_open(&w, at("2026-11-30 06:00")));
	/* open all the time from Friday's evening on */
	assert_int_equal(windows_change(&w, at("2026-11-27 20:00")), at("2026-11-30 06:00"));
	w = some("00:00-24:00", NULL);
	assert_true(windows_open(&w, at("2026-11-28 12:00")));
	assert_int_equal(windows_change(&w, at("2026-11-28 12:00")), 0);
}

static void an_hour_that_is_left_out_or_comes_twice(void **state)
{
	struct windows w = some("02:00-03:00", NULL);
	time_t t;

	zone(BERLIN);
	t = at("2026-03-29 01:59"); /* the clock goes from here to 03:00 */
	assert_false(windows_open(&w, t));
	assert_false(windows_open(&w, t + 60));
	assert_int_equal(windows_change(&w, t), at("2026-03-30 02:00"));
	t = at("2026-10-25 01:59"); /* 02:00 to 03:00 comes twice */
	assert_int_equal(windows_change(&w, t), t + 60);
	assert_true(windows_open(&w, t + 60));
	assert_true(windows_open(&w, t + 3600));
	assert_true(windows_open(&w, t + 7200));
	assert_false(windows_open(&w, t + 7260));
	assert_int_equal(windows_change(&w, t + 60), t + 7260);

	w = some("Sun 02:00-03:00", NULL); /* this week it has none: the next one counts */
	assert_int_equal(windows_change(&w, at("2026-03-29 00:00")), at("2026-04-05 02:00"));
	w = some("20:00-06:00", NULL); /* a night is an hour shorter */
	t = at("2026-03-28 20:00");
	assert_int_equal(windows_change(&w, t), t + 9 * 3600);
}

static void the_machine_s_zone_counts(void **state)
{
	struct windows w = some("12:00-13:00", NULL);
	time_t noon;

	zone("UTC");
	noon = at("2026-11-22 12:00");
	assert_true(windows_open(&w, noon));
	zone("XXX-3:17");
	assert_false(windows_open(&w, noon));
	assert_true(windows_open(&w, noon - 3 * 3600 - 17 * 60));
}

static void the_file_is_whole_or_none(void **state)
{
	char dir[] = "/tmp/test_window.XXXXXX", path[64];
	struct windows w = some("Sat,Sun 00:00-24:00", "20:00-06:00"), got;
	char text[512] = "";
	ssize_t n;
	int root, fd;

	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(root, ".postcopy", 0700), 0);
	assert_int_equal(windows_load(root, &got), 0);
	assert_int_equal(got.n, 0);

	assert_int_equal(windows_store(root, &w), 0);
	assert_int_equal(windows_load(root, &got), 0);
	assert_int_equal(got.n, 2);
	assert_memory_equal(got.w, w.w, 2 * sizeof(w.w[0]));

	/* these bytes are read for good */
	snprintf(path, sizeof(path), "%s/.postcopy/window", dir);
	fd = open(path, O_RDWR);
	n = read(fd, text, sizeof(text) - 1);
	assert_string_equal(text, "windows=1\nSat,Sun 00:00-24:00\n20:00-06:00\nend\n");
	for (ssize_t cut = 0; cut < n; cut++) {
		assert_int_equal(ftruncate(fd, cut), 0);
		assert_int_equal(windows_load(root, &got), -EBADMSG);
	}
	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
	assert_int_equal(pwrite(fd, "windows=2", 9, 0), 9); /* of a newer release */
	assert_int_equal(windows_load(root, &got), -EBADMSG);
	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
	assert_int_equal(pwrite(fd, "\0", 1, 20), 1);
	assert_int_equal(windows_load(root, &got), -EBADMSG);
	close(fd);

	w.n = 0;
	assert_int_equal(windows_store(root, &w), 0);
	assert_int_equal(windows_store(root, &w), 0);
	assert_int_equal(access(path, F_OK), -1);
	w = (struct windows){ .n = WINDOWS_MAX };
	for (int i = 0; i < WINDOWS_MAX; i++)
		w.w[i] = (struct window){ .days = 0x55, .from = 1439, .to = 1440 };
	assert_int_equal(windows_store(root, &w), 0);
	assert_int_equal(windows_load(root, &got), 0);
	assert_int_equal(got.n, WINDOWS_MAX);
	unlink(path);
	unlinkat(root, ".postcopy", AT_REMOVEDIR);
	close(root);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_taken_and_given_back),
		cmocka_unit_test(wrong_text_is_refused_with_what_is_right),
		cmocka_unit_test(without_windows_it_is_open),
		cmocka_unit_test(nights_of_work_days),
		cmocka_unit_test(one_of_several_is_enough),
		cmocka_unit_test(an_hour_that_is_left_out_or_comes_twice),
		cmocka_unit_test(the_machine_s_zone_counts),
		cmocka_unit_test(the_file_is_whole_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
