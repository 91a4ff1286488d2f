/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_journal_value.c - keys, values and reasons of the pending journal.
 *
 * What is taken is what would be written: packed again, a key or value gives the
 * very same bytes.
 */
#include "fuzz.h"
#include "journal.h"

static void try_key(const uint8_t *data, size_t size)
{
	uint8_t key[STUB_JOURNAL_KEY_MAX];
	struct stub_handle h;
	int r = stub_journal_key_parse(data, size, &h);

	if (r < 0) {
		CHECK(r == -EBADMSG);
		return;
	}
	CHECK(stub_journal_handle_ok(&h));
	CHECK(stub_journal_key_pack(&h, key) == size && !memcmp(key, data, size));
}

static void try_value(const uint8_t *data, size_t size)
{
	uint8_t value[STUB_JOURNAL_VALUE_MAX];
	struct stub_journal_entry e = { 0 };
	enum stub_queue queue;
	int r = stub_journal_value_parse(data, size, &e);

	if (r < 0) {
		CHECK(r == -EBADMSG);
		return;
	}
	CHECK(e.kind <= STUB_JOURNAL_LINKS && e.park <= STUB_PARK_CONFLICT);
	CHECK(strlen(e.reason) == size - STUB_JOURNAL_VALUE_FIX);
	queue = stub_journal_queue(&e);
	CHECK(queue < STUB_QUEUES && (queue >= STUB_QUEUE_PARKED) == (e.park != STUB_PARK_NONE));
	CHECK(stub_journal_value_pack(&e, value) == size && !memcmp(value, data, size));
}

/* Any text becomes a reason that the journal takes back. */
static void try_reason(const uint8_t *data, size_t size)
{
	struct stub_journal_entry e = { .kind = STUB_JOURNAL_FILE }, back;
	uint8_t value[STUB_JOURNAL_VALUE_MAX];
	char *text = fuzz_text(data, size);
	size_t n;

	stub_journal_reason(e.reason, text);
	CHECK(strnlen(e.reason, sizeof(e.reason)) <= STUB_REASON_MAX);
	n = stub_journal_value_pack(&e, value);
	CHECK(stub_journal_value_parse(value, n, &back) == 0 && !strcmp(back.reason, e.reason));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_key(data, size);
	try_value(data, size);
	try_reason(data, size);
	return 0;
}
