/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_progress.c - .postcopy/progress.
 *
 * The input is laid over a file that is right, at a place that it names; checksums are made right
 * if it says so.  What is taken goes forward in time, has no sum that goes back, and goes on being
 * so when samples are added.
 */
#include <math.h>
#include <stdlib.h>

#include "fuzz.h"
#include "progress.h"

#include "bytes.h"

static void right_sums(uint8_t *file)
{
	for (int h = 0; h < 2; h++) {
		uint8_t *p = file + h * PROGRESS_HEADER;

		stub_put_le(p + PROGRESS_HEADER - 8, stub_fnv(STUB_FNV, p, PROGRESS_HEADER - 8), 8);
	}
	for (unsigned int i = 0; i < PROGRESS_SAMPLES; i++) {
		uint8_t *p = file + 2 * PROGRESS_HEADER + i * PROGRESS_SAMPLE;
		uint64_t sum = stub_fnv(STUB_FNV, p, 60);

		stub_put_le(p + 60, (uint32_t)(sum ^ sum >> 32), 4);
	}
}

static void check(const struct progress_data *d)
{
	bool used[PROGRESS_SAMPLES] = { false };

	CHECK(d->n <= PROGRESS_SAMPLES);
	for (unsigned int i = 0; i < d->n; i++) {
		const struct progress_sample *s = &d->sample[i];

		CHECK(d->place[i] < PROGRESS_SAMPLES && !used[d->place[i]]);
		used[d->place[i]] = true;
		CHECK(s->at > 0 && s->done <= s->found && s->done_bytes <= s->found_bytes);
		CHECK(i == 0 || (s->at > s[-1].at && s->active_ms >= s[-1].active_ms &&
				 s->done >= s[-1].done));
	}
	for (unsigned int i = 0; i < TREE_DEPTHS; i++)
		CHECK(isfinite(d->tree[i].bytes2) && d->tree[i].bytes2 >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *file = calloc(1, PROGRESS_BYTES);
	struct progress_data *d = calloc(1, sizeof(*d));
	struct tree_depth tree[TREE_DEPTHS] = { { .listed = 3, .bytes = 4 } };
	struct progress_sample s = { .at = 1000, .found = 10, .done = 1 };
	size_t at;

	CHECK(file && d);
	progress_pack_header(tree, 7, file);
	progress_pack_sample(&s, file + 2 * PROGRESS_HEADER + PROGRESS_SAMPLE);
	if (size >= 3) {
		at = stub_get_le(data, 2) % PROGRESS_BYTES;
		memcpy(file + at, data + 3,
		       size - 3 < PROGRESS_BYTES - at ? size - 3 : PROGRESS_BYTES - at);
		if (data[2] & 1)
			right_sums(file);
	}
	progress_parse(file, d);
	check(d);
	for (int i = 0; i < 3 && d->n && d->sample[d->n - 1].at < INT64_MAX; i++) {
		s = d->sample[d->n - 1];
		s.at++;
		CHECK(progress_insert(d, &s) < PROGRESS_SAMPLES);
		check(d);
	}
	free(d);
	free(file);
	return 0;
}
