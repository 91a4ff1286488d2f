/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is one function that takes bytes, gives them to the code that must
 * take them for hostile, and checks what that code promises of them.  It is linked
 * twice: with libFuzzer (tests/fuzz/run), and with replay.c, which gives it the
 * kept inputs of tests/fuzz/corpus/ and is a unit test.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_EXPORT __attribute__((visibility("default")))

/* Once, before the first input.  A target without it needs no preparation. */
FUZZ_EXPORT int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
FUZZ_EXPORT int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that was broken is a crash: the fuzzer keeps its input. */
#define CHECK(what)                                                                     \
	do {                                                                            \
		if (!(what)) {                                                          \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                        \
		}                                                                       \
	} while (0)

/* The input, taken from the front; at its end everything is 0. */
struct fuzz_in {
	const uint8_t *p;
	size_t left;
};

static inline uint64_t fuzz_take(struct fuzz_in *in, unsigned int bytes)
{
	uint64_t x = 0;

	for (unsigned int i = 0; i < bytes && in->left; i++, in->p++, in->left--)
		x |= (uint64_t)*in->p << (8 * i);
	return x;
}

/* Up to @want bytes; *got is how many there are. */
static inline const uint8_t *fuzz_bytes(struct fuzz_in *in, size_t want, size_t *got)
{
	const uint8_t *p = in->p;

	*got = want < in->left ? want : in->left;
	in->p += *got;
	in->left -= *got;
	return p;
}

/* A terminated copy, to be freed. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
