/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_reasons.c - crawler/admin/reasons.c: the reason that an entry of the journal has */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "admin/reasons.h"

/* ---- reason_of() ---- */

/* What retrievers have written into journals, of this release and of those before. */
static const struct {
	enum stub_park park;
	int error;
	const char *text, *word;
} known[] = {
	{ STUB_PARK_ERROR, EACCES, "read: Permission denied", "denied" },
	{ STUB_PARK_ERROR, EPERM, "attributes: Operation not permitted", "denied" },
	{ STUB_PARK_ERROR, EACCES, "listing a directory: Permission denied", "denied" },
	{ STUB_PARK_ERROR, EIO, "read: Input/output error", "read-error" },
	{ STUB_PARK_ERROR, EIO, "read: shorter than the size says: Input/output error", "cut-short" },
	{ STUB_PARK_ERROR, ESTALE, "read: Stale file handle", "gone-there" },
	{ STUB_PARK_ERROR, ENOENT, "attributes: No such file or directory", "gone-there" },
	{ STUB_PARK_ERROR, EBADMSG, "read: Bad message", "bad-answer" },
	{ STUB_PARK_ERROR, EBADMSG, "listing, entry \"a/b\": Bad message", "bad-answer" },
	{ STUB_PARK_ERROR, EIO, "listing a directory: Input/output error", "list-failed" },
	{ STUB_PARK_ERROR, EPROTO,
	  "listing a directory: broken off by the old server 10 times (BAD_COOKIE, NOT_SYNC): "
	  "Protocol error", "list-failed" },
	{ STUB_PARK_ERROR, ENAMETOOLONG, "refused here: entry \"x\": File name too long",
	  "name-refused" },
	{ STUB_PARK_ERROR, EACCES, "refused here: entry \"x\" (2 names in all): Permission denied",
	  "name-refused" },
	{ STUB_PARK_ERROR, EIO, "not to be had: entry \"x\": Input/output error",
	  "name-unreadable" },
	{ STUB_PARK_ERROR, E2BIG,
	  "attributes: its attributes do not fit beside each other: Argument list too long",
	  "does-not-fit" },
	{ STUB_PARK_ERROR, E2BIG, "attribute user.DosStream.a of 70000 bytes: Argument list too long",
	  "does-not-fit" },
	{ STUB_PARK_ERROR, EIO, "write to the new volume: Input/output error", "store-failed" },
	{ STUB_PARK_ERROR, EIO, "new volume, attributes: Input/output error", "store-failed" },
	{ STUB_PARK_ERROR, EIO, "new volume, attribute user.x of 3 bytes: Input/output error",
	  "store-failed" },
	{ STUB_PARK_ERROR, EBADMSG, "stub record: Bad message", "damaged-record" },
	{ STUB_PARK_ERROR, EBADMSG, "stub record of a directory: Bad message", "damaged-record" },
	{ STUB_PARK_ERROR, EINVAL, "fill: Invalid argument", "other-error" },
	{ STUB_PARK_ERROR, 0, "", "other-error" },
	{ STUB_PARK_CONFLICT, ESTALE, "changed on the old server: size 1 -> 2 bytes",
	  "changed-there" },
	{ STUB_PARK_CONFLICT, ESTALE, "replaced on the old server: file id 1 -> 2",
	  "changed-there" },
	{ STUB_PARK_CONFLICT, ESTALE, "the object has been replaced on the old server",
	  "changed-there" },
	{ STUB_PARK_CONFLICT, ESTALE,
	  "changed on the new server itself, not through Ganesha or Samba: not overwritten",
	  "changed-here" },
	{ STUB_PARK_CONFLICT, EIO, "", "other-conflict" },
};

static void test_known(void **state)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct stub_journal_entry e = { .park = (uint8_t)known[i].park,
						.error = known[i].error };
		size_t r;

		snprintf(e.reason, sizeof(e.reason), "%s", known[i].text);
		r = reason_of(&e);
		assert_string_equal(reasons[r].word, known[i].word);
		assert_int_equal(reasons[r].park, known[i].park);
	}
}

/* What a name from outside says counts for nothing, and no number is too strange. */
static void test_hostile(void **state)
{
	static const int errors[] = { 0, 1, -1, EACCES, -EACCES, INT32_MAX, INT32_MIN };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct stub_journal_entry e = { .park = STUB_PARK_ERROR, .error = errors[i] };

		strcpy(e.reason, "refused here: entry \"write to the new volume: x\"");
		assert_string_equal(reasons[reason_of(&e)].word, "name-refused");
		memset(e.reason, 'x', STUB_REASON_MAX);
		assert_int_equal(reasons[reason_of(&e)].park, STUB_PARK_ERROR);
	}
}

/* ---- the table ---- */

static void test_table(void **state)
{
	for (size_t i = 0; i < REASONS; i++) {
		const char *word = reasons[i].word;

		assert_int_equal(strspn(word, "abcdefghijklmnopqrstuvwxyz-"), strlen(word));
		assert_true(reasons[i].park == STUB_PARK_ERROR ||
			    reasons[i].park == STUB_PARK_CONFLICT);
		assert_true(strlen(reasons[i].says) > 10 && strlen(reasons[i].advice) > 10);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(word, reasons[k].word);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
