/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_digest.c - retriever/digest/: one digest, in whatever order the bytes come */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "digest/digest.h"

#define MIB (1u << 20)

static struct digest_sha *sha;

static int setup(void **state)
{
	(void)state;
	return digest_sha_create(&sha);
}

static int teardown(void **state)
{
	(void)state;
	digest_sha_destroy(sha);
	return 0;
}

static void sha256(const void *p, size_t n, uint8_t *out)
{
	assert_int_equal(EVP_Digest(p, n, out, NULL, EVP_sha256(), NULL), 1);
}

/* As digest.h says it, from front to back. */
static void expected(const uint8_t *p, size_t size, uint8_t out[DIGEST_BYTES])
{
	uint8_t *part = calloc(size / DIGEST_PART + 1, DIGEST_BYTES), *stretch = NULL;
	size_t parts = (size + DIGEST_PART - 1) / DIGEST_PART, stretches = 0;

	for (size_t i = 0; i < parts; i++) {
		size_t left = size - i * DIGEST_PART;

		sha256(p + i * DIGEST_PART, left < DIGEST_PART ? left : DIGEST_PART,
		       part + i * DIGEST_BYTES);
	}
	if (parts == 1)
		memcpy(out, part, DIGEST_BYTES);
	stretch = calloc(parts / DIGEST_PARTS + 1, DIGEST_BYTES);
	for (size_t i = 0; parts > 1 && i < parts; i += DIGEST_PARTS) {
		size_t n = parts - i < DIGEST_PARTS ? parts - i : DIGEST_PARTS;

		sha256(part + i * DIGEST_BYTES, n * DIGEST_BYTES, stretch + stretches++ * DIGEST_BYTES);
	}
	if (stretches == 1)
		memcpy(out, stretch, DIGEST_BYTES);
	if (stretches > 1)
		sha256(stretch, stretches * DIGEST_BYTES, out);
	free(part);
	free(stretch);
}

static uint8_t *noise(size_t size)
{
	static uint64_t x = 88172645463325252u;
	uint8_t *p = malloc(size + sizeof(x));

	for (size_t i = 0; i < size; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, sizeof(x));
	}
	return p;
}

static struct digest_file *file(uint64_t size)
{
	struct digest_file *f;

	assert_int_equal(digest_file_create(size, &f), 0);
	return f;
}

static void assert_ends(struct digest_file *f, const uint8_t *want)
{
	uint8_t got[DIGEST_BYTES];

	assert_true(digest_file_end(f, sha, got));
	assert_memory_equal(got, want, DIGEST_BYTES);
	digest_file_destroy(f);
}

static void a_small_file_is_plain_sha256(void **state)
{
	static const uint8_t abc[DIGEST_BYTES] = {
		0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
		0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
		0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
	};
	struct digest_file *f = file(3);
	uint8_t got[DIGEST_BYTES];

	(void)state;
	assert_true(digest_of(sha, "abc", 3, got));
	assert_memory_equal(got, abc, DIGEST_BYTES);
	digest_file_add(f, sha, 0, "abc", 3);
	assert_ends(f, abc);
	assert_int_equal(digest_file_create(0, &f), -22);
	assert_int_equal(digest_file_create(UINT64_MAX, &f), -22);
}

static void in_one_go(void **state)
{
	static const size_t sizes[] = { 1, DIGEST_PART - 1, DIGEST_PART, DIGEST_PART + 1, MIB,
					3 * MIB + 77, DIGEST_STRETCH, DIGEST_STRETCH + 1,
					2 * DIGEST_STRETCH + DIGEST_PART + 5 };
	uint8_t want[DIGEST_BYTES], got[DIGEST_BYTES];

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *p = noise(sizes[i]);

		expected(p, sizes[i], want);
		assert_true(digest_of(sha, p, sizes[i], got));
		assert_memory_equal(got, want, DIGEST_BYTES);
		p[sizes[i] / 2] ^= 1;
		assert_true(digest_of(sha, p, sizes[i], got));
		assert_memory_not_equal(got, want, DIGEST_BYTES);
		free(p);
	}
}

/* Pieces of @most bytes at the most, those of eight together shuffled, some twice. */
static void shuffled(const uint8_t *p, size_t size, size_t most, const uint8_t *want)
{
	struct digest_file *f = file(size);
	struct {
		size_t at, n;
	} piece[8];
	size_t at = 0;

	while (at < size) {
		unsigned int n = 0;

		for (; n < 8 && at < size; n++) {
			piece[n].at = at;
			piece[n].n = 1 + (size_t)rand() % most;
			if (piece[n].n > size - at)
				piece[n].n = size - at;
			at += piece[n].n;
		}
		for (unsigned int i = 0; i < n + n / 2; i++) {
			unsigned int k = i < n ? i : (unsigned int)rand() % n;
			unsigned int j = i + 1 < n ? i + (unsigned int)rand() % (n - i) : k;
			size_t a = piece[j].at, len = piece[j].n;

			piece[j] = piece[k];
			piece[k].at = a;
			piece[k].n = len;
			digest_file_add(f, sha, a, p + a, len);
		}
	}
	assert_ends(f, want);
}

static void in_any_order(void **state)
{
	size_t size = 3 * MIB + 77;
	uint8_t want[DIGEST_BYTES], *p = noise(size);

	(void)state;
	expected(p, size, want);
	for (unsigned int seed = 1; seed < 40; seed++) {
		srand(seed);
		/* eight pieces never meet more parts than are kept */
		shuffled(p, size, seed % 3 == 0 ? 5000 : seed % 3 == 1 ? 65536 : MIB, want);
	}
	free(p);
}

static void what_is_missing_is_missing(void **state)
{
	struct digest_file *f = file(3 * MIB);
	uint8_t *p = noise(3 * MIB), got[DIGEST_BYTES], want[DIGEST_BYTES];

	(void)state;
	expected(p, 3 * MIB, want);
	digest_file_add(f, sha, 1001, p + 1001, 3 * MIB - 1001); /* one byte, in the middle */
	digest_file_add(f, sha, 1, p + 1, 999);
	digest_file_add(f, sha, 0, p, 1);
	assert_false(digest_file_end(f, sha, got));
	digest_file_add(f, sha, 1000, p + 1000, 1);
	assert_ends(f, want);
	f = file(3 * MIB);
	digest_file_add(f, sha, 0, p, 1000);
	digest_file_add(f, sha, 1001, p + 1001, 3 * MIB - 1001);
	assert_false(digest_file_end(f, sha, got));
	digest_file_destroy(f);
	f = file(3 * MIB);
	digest_file_add(f, sha, 1, p + 1, 3 * MIB - 1);
	assert_false(digest_file_end(f, sha, got));
	digest_file_add(f, sha, 4 * MIB, p, MIB); /* behind the end */
	digest_file_add(f, sha, UINT64_MAX, p, MIB);
	digest_file_zeros(f, sha, 3 * MIB, UINT64_MAX);
	assert_false(digest_file_end(f, sha, got));
	digest_file_add(f, sha, 0, p, 1);
	assert_true(digest_file_end(f, sha, got));
	digest_file_destroy(f);
	free(p);
}

/* What came first counts: it is what was stored. */
static void the_first_bytes_count(void **state)
{
	struct digest_file *f = file(MIB);
	uint8_t want[DIGEST_BYTES], *p = noise(MIB);

	(void)state;
	expected(p, MIB, want);
	digest_file_add(f, sha, 0, p, MIB / 2);
	p[5] ^= 1;
	digest_file_add(f, sha, 0, p, MIB);
	assert_ends(f, want);
	free(p);
}

static void holes_are_zeros(void **state)
{
	static const struct {
		uint64_t from, end;
	} holes[] = { { 0, 2 * DIGEST_STRETCH + 5 }, { 70000, 70001 }, { 1000, 3 * DIGEST_PART - 1 },
		      { DIGEST_STRETCH, 2 * DIGEST_STRETCH }, { 1, DIGEST_STRETCH + 1 } };
	size_t size = 2 * DIGEST_STRETCH + 5;
	uint8_t want[DIGEST_BYTES], *p;

	(void)state;
	for (unsigned int i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
		struct digest_file *f = file(size);

		p = noise(size);
		memset(p + holes[i].from, 0, holes[i].end - holes[i].from);
		expected(p, size, want);
		digest_file_add(f, sha, 0, p, holes[i].from);
		digest_file_zeros(f, sha, holes[i].from, holes[i].end);
		digest_file_add(f, sha, holes[i].end, p + holes[i].end, size - holes[i].end);
		assert_ends(f, want);
		free(p);
	}
}

static void sixteen_tebibytes_of_nothing(void **state)
{
	uint64_t size = UINT64_C(16) << 40;
	struct digest_file *f = file(size);
	uint8_t some[DIGEST_BYTES], none[DIGEST_BYTES], *p = noise(MIB);

	(void)state;
	digest_file_zeros(f, sha, 0, size - MIB);
	assert_false(digest_file_end(f, sha, none));
	digest_file_add(f, sha, size - MIB, p, MIB);
	assert_true(digest_file_end(f, sha, some));
	assert_true(digest_file_memory(f) < 16 * MIB);
	digest_file_destroy(f);
	f = file(size);
	digest_file_zeros(f, sha, 0, size);
	assert_true(digest_file_end(f, sha, none));
	assert_memory_not_equal(some, none, DIGEST_BYTES);
	digest_file_destroy(f);
	free(p);
}

/* What an odd order of bytes costs is bounded; it has no digest then. */
static void too_many_pieces(void **state)
{
	struct digest_file *f = file(32 * MIB);
	uint8_t *p = noise(MIB), got[DIGEST_BYTES];

	(void)state;
	for (uint64_t at = 0; at < 32 * MIB; at += 1000)
		digest_file_add(f, sha, at, p, 500);
	assert_true(digest_file_memory(f) < 2 * MIB);
	for (uint64_t at = 500; at < 32 * MIB; at += 1000)
		digest_file_add(f, sha, at, p, 500);
	assert_false(digest_file_end(f, sha, got));
	for (uint64_t at = 0; at < 32 * MIB; at += MIB)
		digest_file_add(f, sha, at, p, MIB);
	assert_true(digest_file_end(f, sha, got));
	digest_file_destroy(f);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_file_is_plain_sha256),
		cmocka_unit_test(in_one_go),
		cmocka_unit_test(in_any_order),
		cmocka_unit_test(what_is_missing_is_missing),
		cmocka_unit_test(the_first_bytes_count),
		cmocka_unit_test(holes_are_zeros),
		cmocka_unit_test(sixteen_tebibytes_of_nothing),
		cmocka_unit_test(too_many_pieces),
	};

	return cmocka_run_group_tests_name("digest", tests, setup, teardown);
}
