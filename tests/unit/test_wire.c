/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_wire.c - messages to bytes and back, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire.h"

static struct stub_ask ask_of(enum stub_ask_kind kind)
{
	struct stub_ask a = { .kind = kind, .h = { .type = 1, .len = 8, .bytes = "handle.." } };

	if (kind == STUB_ASK_DATA) {
		a.offset = 1ull << 40;
		a.length = 10 << 20;
	}
	if (kind == STUB_ASK_LOOKUP) {
		a.name = "caf\xc3\xa9 \xff";
		a.name_len = 7;
	}
	if (kind >= STUB_ASK_LOOKUP && kind <= STUB_ASK_DATA)
		strcpy(a.who, "alice@192.0.2.7");
	return a;
}

/* ---- good messages ---- */

static void asks_go_there_and_back(void **state)
{
	for (int kind = STUB_ASK_LOOKUP; kind <= STUB_ASK_LEAVE; kind++) {
		for (int len = 1; len <= STUB_HANDLE_MAX; len++) {
			struct stub_ask a = ask_of((enum stub_ask_kind)kind);
			struct stub_wire_message m;
			uint8_t buf[STUB_WIRE_MAX];
			size_t n;

			a.h.type = -len;
			a.h.len = (uint8_t)len;
			memset(a.h.bytes, len, (size_t)len);
			n = stub_wire_put_ask(buf, 0xfffffff0u, &a);
			assert_int_equal(stub_wire_parse(buf, n, &m), 0);
			assert_int_equal(m.type, STUB_WIRE_IS_ASK);
			assert_int_equal(m.id, 0xfffffff0u);
			assert_int_equal(m.ask.kind, kind);
			assert_true(stub_handle_equal(&m.ask.h, &a.h));
			assert_int_equal(m.ask.offset, a.offset);
			assert_int_equal(m.ask.length, a.length);
			assert_int_equal(m.ask.name_len, a.name_len);
			assert_memory_equal(m.ask.name, a.name ? a.name : "", a.name_len);
			assert_string_equal(m.ask.who, a.who);
		}
	}
}

static void layout_is_fixed(void **state)
{
	static const uint8_t want[] = {
		'P',  'C',  'A',  'K',	1,   0,	  1,   0,   4,	 3,
		2,    1,    53,	  0,	0,   0, /* header */
		0,    0,    0,	  0,	0,   0,	  0,   0,   0,	 0,
		0,    0,    0,	  0,	0,   0, /* offset, length */
		0xfe, 0xff, 0xff, 0xff, 1,   8,	  2,   3, /* type, kind, lengths */
		'h',  'a',  'n',  'd',	'l', 'e', '.', '.', 'a', 'b', 'w', '@', 'x'
	};
	struct stub_ask a = ask_of(STUB_ASK_LOOKUP);
	uint8_t buf[STUB_WIRE_MAX];

	a.h.type = -2;
	a.name = "ab";
	a.name_len = 2;
	strcpy(a.who, "w@x");
	a.offset = 7; /* means nothing for a LOOKUP: not sent */
	assert_int_equal(stub_wire_put_ask(buf, 0x01020304, &a), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
}

static void largest_ask_fits(void **state)
{
	char name[STUB_NAME_MAX];
	struct stub_ask a = ask_of(STUB_ASK_LOOKUP);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	size_t n;

	memset(name, 'n', sizeof(name));
	a.name = name;
	a.name_len = sizeof(name);
	a.h.len = STUB_HANDLE_MAX;
	memset(a.who, 'w', STUB_WHO_MAX);
	n = stub_wire_put_ask(buf, 1, &a);
	assert_int_equal(stub_wire_parse(buf, n, &m), 0);
	assert_int_equal(m.ask.name_len, STUB_NAME_MAX);
	assert_int_equal(strlen(m.ask.who), STUB_WHO_MAX);
}

static void who_is_shown_as_it_is(void **state)
{
	static const struct {
		const char *user, *address, *want;
	} t[] = {
		{ "alice", "192.0.2.7", "alice@192.0.2.7" },
		{ "DOM\\al ice", "2001:db8::1", "DOM\\al ice@2001:db8::1" },
		{ NULL, "192.0.2.7", "#1000@192.0.2.7" },
		{ NULL, "::ffff:192.0.2.7", "#1000@192.0.2.7" },
		{ NULL, "::ffff:1:2", "#1000@::ffff:1:2" },
		{ "", "192.0.2.7", "#1000@192.0.2.7" },
		{ "#0", "192.0.2.7", "#1000@192.0.2.7" }, /* nobody passes for another */
		{ "caf\xc3\xa9", "192.0.2.7", "#1000@192.0.2.7" },
		{ "a\nb", "192.0.2.7", "#1000@192.0.2.7" },
		{ "alice", "a\033[0m", "alice@?" },
		{ "alice", "", "alice@" },
	};
	char who[STUB_WHO_MAX + 1], longest[STUB_WHO_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		stub_who(who, t[i].user, 1000, t[i].address);
		assert_string_equal(who, t[i].want);
	}
	memset(longest, 'u', sizeof(longest));
	longest[STUB_WHO_MAX - 2] = '\0';
	stub_who(who, longest, 4294967295u, "a");
	assert_int_equal(strlen(who), STUB_WHO_MAX);
	longest[STUB_WHO_MAX - 2] = 'u';
	longest[STUB_WHO_MAX - 1] = '\0';
	stub_who(who, longest, 4294967295u, "a");
	assert_string_equal(who, "#4294967295@a");
	stub_who(who, "alice", 1, longest);
	assert_string_equal(who, "alice@?");
}

static void hostile_who_is_refused(void **state)
{
	static const uint8_t bad[] = { 0, '\n', 0x1b, 0x1f, 0x7f, 0x80, 0xff };
	struct stub_ask a = ask_of(STUB_ASK_DATA);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	size_t n = stub_wire_put_ask(buf, 1, &a);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf[n - 1] = bad[i];
		assert_int_equal(stub_wire_parse(buf, n, &m), -EBADMSG);
		if (!bad[i])
			continue;
		a.who[3] = (char)bad[i];
		assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	}
	a = ask_of(STUB_ASK_DATA);
	memset(a.who, 'w', sizeof(a.who)); /* without an end */
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	a.who[STUB_WHO_MAX] = '\0';
	assert_int_equal(stub_wire_check_ask(&a), 0);
	n = stub_wire_put_ask(buf, 1, &a);
	buf[n] = 'w';
	buf[12] = (uint8_t)(n + 1);
	buf[39]++; /* one too long, in a packet that is right otherwise */
	assert_int_equal(stub_wire_parse(buf, n + 1, &m), -EBADMSG);
}

/* What was sent before there was a who. */
static void asks_without_who_are_fine(void **state)
{
	struct stub_ask a = ask_of(STUB_ASK_PASS);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	size_t n = stub_wire_put_ask(buf, 1, &a);

	assert_int_equal(n, STUB_WIRE_ASK + a.h.len);
	assert_int_equal(buf[39], 0);
	assert_int_equal(stub_wire_parse(buf, n, &m), 0);
	assert_string_equal(m.ask.who, "");
}

static void answers_are_a_closed_set(void **state)
{
	static const int good[] = { 0,	 -EAGAIN, -ENOENT, -EREMOTEIO, -ENOSPC,
				    -ESTALE, -EINVAL, -EDQUOT, -EROFS,	    -EIO };
	static const int other[] = { -ENOMEM, -EPERM, -ECONNREFUSED, 1, -100000 };
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		size_t n = stub_wire_put_answer(buf, 9, good[i]);

		assert_int_equal(stub_wire_parse(buf, n, &m), 0);
		assert_int_equal(m.type, STUB_WIRE_IS_ANSWER);
		assert_int_equal(m.id, 9);
		assert_int_equal(m.result, good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(other); i++) {
		size_t n = stub_wire_put_answer(buf, 9, other[i]);

		assert_int_equal(stub_wire_parse(buf, n, &m), 0);
		assert_int_equal(m.result, -EREMOTEIO);
	}
	buf[16] = 10;
	assert_int_equal(stub_wire_parse(buf, 20, &m), -EBADMSG);
}

static void errors_carry_text(void **state)
{
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX];
	char text[300];
	size_t n = stub_wire_put_error(buf, 3, EPROTO, "no\033[0m");

	assert_int_equal(stub_wire_parse(buf, n, &m), 0);
	assert_int_equal(m.type, STUB_WIRE_IS_ERROR);
	assert_int_equal(m.error, EPROTO);
	assert_string_equal(m.text, "no?[0m");
	memset(text, 'x', sizeof(text));
	text[299] = '\0';
	n = stub_wire_put_error(buf, 3, EPROTO, text);
	assert_int_equal(stub_wire_parse(buf, n, &m), 0);
	assert_int_equal(strlen(m.text), STUB_WIRE_TEXT);
}

/* ---- bad ones ---- */

static void every_other_length_is_refused(void **state)
{
	struct stub_ask a = ask_of(STUB_ASK_LOOKUP);
	struct stub_wire_message m;
	uint8_t buf[STUB_WIRE_MAX + 1] = { 0 };
	size_t n = stub_wire_put_ask(buf, 1, &a);

	for (size_t len = 0; len <= STUB_WIRE_MAX + 1; len++) {
		if (len == n)
			continue;
		assert_int_equal(stub_wire_parse(buf, len, &m), -EBADMSG);
		buf[12] = (uint8_t)len; /* also when the header agrees */
		buf[13] = (uint8_t)(len >> 8);
		assert_int_equal(stub_wire_parse(buf, len, &m), -EBADMSG);
		buf[12] = (uint8_t)n;
		buf[13] = (uint8_t)(n >> 8);
	}
}

static void bad_fields_are_refused(void **state)
{
	static const struct {
		enum stub_ask_kind kind;
		int at, byte, want;
	} bad[] = {
		{ STUB_ASK_LIST, 0, 'X', -EBADMSG },  { STUB_ASK_LIST, 4, 2, -EPROTO },
		{ STUB_ASK_LIST, 5, 1, -EPROTO },     { STUB_ASK_LIST, 6, 0, -EBADMSG },
		{ STUB_ASK_LIST, 6, 2, -EBADMSG },    { STUB_ASK_LIST, 6, 4, -EBADMSG },
		{ STUB_ASK_LIST, 7, 1, -EBADMSG },    { STUB_ASK_LIST, 15, 1, -EBADMSG },
		{ STUB_ASK_LIST, 36, 0, -EBADMSG },   { STUB_ASK_LIST, 36, 9, -EBADMSG },
		{ STUB_ASK_LIST, 37, 0, -EBADMSG },   { STUB_ASK_LIST, 37, 9, -EBADMSG },
		{ STUB_ASK_LIST, 37, 255, -EBADMSG }, { STUB_ASK_LIST, 38, 1, -EBADMSG },
		{ STUB_ASK_LIST, 16, 1, -EBADMSG },   { STUB_ASK_LIST, 31, 1, -EBADMSG },
		{ STUB_ASK_LOOKUP, 36, 2, -EBADMSG }, { STUB_ASK_LOOKUP, 39, 1, -EBADMSG },
		{ STUB_ASK_LOOKUP, 39, 255, -EBADMSG }, { STUB_ASK_FILL, 39, 1, -EBADMSG },
		{ STUB_ASK_DATA, 36, 5, -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct stub_ask a = ask_of(bad[i].kind);
		struct stub_wire_message m;
		uint8_t buf[STUB_WIRE_MAX];
		size_t n = stub_wire_put_ask(buf, 77, &a);

		buf[bad[i].at] = (uint8_t)bad[i].byte;
		if (stub_wire_parse(buf, n, &m) != bad[i].want)
			fail_msg("byte %d = %d of kind %d", bad[i].at, bad[i].byte, bad[i].kind);
		if (bad[i].want == -EPROTO)
			assert_int_equal(m.id, 77);
	}
}

static void senseless_asks_are_refused(void **state)
{
	static const struct {
		const char *name;
		size_t len;
	} bad[] = { { "", 0 },	{ ".", 1 },    { "..", 2 }, { "a/b", 3 },
		    { "/", 1 }, { "a\0b", 3 }, { NULL, 3 } };
	char name[STUB_NAME_MAX + 1];
	struct stub_ask a = ask_of(STUB_ASK_LOOKUP);

	assert_int_equal(stub_wire_check_ask(&a), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		a.name = bad[i].name;
		a.name_len = bad[i].len;
		assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	}
	memset(name, 'n', sizeof(name));
	a.name = name;
	a.name_len = sizeof(name);
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	a.name_len--;
	assert_int_equal(stub_wire_check_ask(&a), 0);
	a.h.len = 0;
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	a.h.len = STUB_HANDLE_MAX + 1;
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	a = ask_of(STUB_ASK_LIST);
	a.kind = (enum stub_ask_kind)0;
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
	a.kind = (enum stub_ask_kind)(STUB_ASK_LEAVE + 1);
	assert_int_equal(stub_wire_check_ask(&a), -EINVAL);
}

static void absurd_ranges_are_refused(void **state)
{
	static const struct {
		uint64_t offset, length;
		int want;
	} t[] = {
		{ 0, 0, -EINVAL },	    { 0, 1, 0 },
		{ 0, INT64_MAX, 0 },	    { 1, INT64_MAX, -EINVAL },
		{ INT64_MAX, 1, -EINVAL },  { INT64_MAX - 1ull, 1, 0 },
		{ UINT64_MAX, 2, -EINVAL }, { 0, UINT64_MAX, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct stub_ask a = ask_of(STUB_ASK_DATA);

		a.offset = t[i].offset;
		a.length = t[i].length;
		assert_int_equal(stub_wire_check_ask(&a), t[i].want);
		a.kind = STUB_ASK_PASS; /* besides, it is bounded */
		assert_int_equal(stub_wire_check_ask(&a),
				 a.length > STUB_PASS_MAX ? -EINVAL : t[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asks_go_there_and_back),
		cmocka_unit_test(layout_is_fixed),
		cmocka_unit_test(largest_ask_fits),
		cmocka_unit_test(who_is_shown_as_it_is),
		cmocka_unit_test(hostile_who_is_refused),
		cmocka_unit_test(asks_without_who_are_fine),
		cmocka_unit_test(answers_are_a_closed_set),
		cmocka_unit_test(errors_carry_text),
		cmocka_unit_test(every_other_length_is_refused),
		cmocka_unit_test(bad_fields_are_refused),
		cmocka_unit_test(senseless_asks_are_refused),
		cmocka_unit_test(absurd_ranges_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
