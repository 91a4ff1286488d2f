/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_job_holes.c - retriever/jobs/job_holes.c: what is read, and what is not */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobs/job_holes.h"

/* What [start, end) begins with, of a file with holes at 100 to 200 and 500 to 900, of which
 * is known what is before 1000. */
static bool cut(struct holes *h, uint64_t start, uint64_t end, struct stub_range *out)
{
	*out = (struct stub_range){ start, end };
	return holes_cut(h, out);
}

static struct holes some(void)
{
	static struct stub_range hole[] = { { 100, 200 }, { 500, 900 } };

	return (struct holes){ .wanted = true, .known = { .end = 1000, .hole = hole, .n = 2 } };
}

static void from_the_front(void **state)
{
	struct holes h = some();
	struct stub_range r;

	assert_false(cut(&h, 0, 50, &r));
	assert_true(r.start == 0 && r.end == 50);
	assert_false(cut(&h, 50, 150, &r));
	assert_true(r.start == 50 && r.end == 100);
	assert_true(cut(&h, 100, 150, &r)); /* as a whole, though less was asked for */
	assert_true(r.start == 100 && r.end == 200);
	assert_false(cut(&h, 200, 500, &r));
	assert_true(r.start == 200 && r.end == 500);
	assert_true(cut(&h, 500, 2000, &r));
	assert_true(r.start == 500 && r.end == 900);
	assert_false(cut(&h, 900, 2000, &r)); /* as far as it is known */
	assert_true(r.start == 900 && r.end == 1000);
	(void)state;
}

/* What a client has written is not missing: a range may begin anywhere. */
static void in_the_middle(void **state)
{
	struct holes h = some();
	struct stub_range r;

	assert_true(cut(&h, 150, 160, &r));
	assert_true(r.start == 150 && r.end == 200);
	assert_true(cut(&h, 899, 950, &r));
	assert_true(r.start == 899 && r.end == 900);
	assert_false(cut(&h, 950, 960, &r));
	assert_true(r.start == 950 && r.end == 960);
	(void)state;
}

static void none(void **state)
{
	struct holes h = { .known.end = 1000 };
	struct stub_range r;

	assert_false(cut(&h, 0, 4096, &r));
	assert_true(r.start == 0 && r.end == 1000);
	(void)state;
}

/* Not asked again at once, and ever less often; until there are holes. */
static void answers_without_holes(void **state)
{
	const uint64_t mib = 1 << 20;
	struct holes h;
	uint64_t at = 0, rest = 16 * mib;

	holes_init(&h);
	for (int n = 0; n < 10; n++) {
		h.known.end = at + mib;
		holes_known(&h, at);
		assert_int_equal(h.known.end, at + rest);
		at = h.known.end;
		rest = rest < 1024 * mib ? 2 * rest : rest;
	}
	h.known.end = at + 4096 * mib; /* it knew more */
	holes_known(&h, at);
	assert_int_equal(h.known.end, at + 4096 * mib);
	h.known = (struct source_holes){ .end = at + mib,
					 .hole = &(struct stub_range){ at, at + mib }, .n = 1 };
	holes_known(&h, at);
	assert_int_equal(h.known.end, at + mib);
	h.known = (struct source_holes){ .end = at + mib };
	holes_known(&h, at);
	assert_int_equal(h.known.end, at + 16 * mib);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_front),
		cmocka_unit_test(in_the_middle),
		cmocka_unit_test(none),
		cmocka_unit_test(answers_without_holes),
	};

	return cmocka_run_group_tests_name("job_holes", tests, NULL, NULL);
}
