/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_job_digest.c - retriever/jobs/job_digest.c: digests of what comes, whoever asked for it */
#include "fixture.h"

#include <poll.h>
#include <stdlib.h>

#include "jobs/job_digest.h"

#define MIB (1u << 20)

static struct digests digests;
static char *bytes;

static int setup(void **state)
{
	int r = fixture_setup(state);
	struct fixture *x = *state;

	memset(&digests, 0, sizeof(digests));
	bytes = malloc(4 * MIB);
	for (unsigned int i = 0; i < 4 * MIB; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	return r ? r : digests_start(&digests, x->v);
}

static int teardown(void **state)
{
	digests_stop(&digests);
	digests_finish(&digests);
	free(bytes);
	return fixture_teardown(state);
}

static struct stub_object object(struct fixture *x, const char *name, uint64_t size)
{
	struct stub_entry e = fixture_entry(name, S_IFREG | 0644, size);
	struct stub_handle h;
	struct stub_object o;

	fixture_list(x, &e, 1);
	h = fixture_handle(x, name);
	assert_int_equal(stub_object_open(x->v, &h, &o), 0);
	return o;
}

static int digest(struct fixture *x, const struct stub_object *o, struct stub_digest *out)
{
	return stub_digest_get(x->v, o->ino, &o->h, out);
}

static void assert_digest(struct fixture *x, const struct stub_object *o, const char *want,
			  size_t n)
{
	struct stub_digest d;
	struct digest_sha *sha;
	uint8_t right[DIGEST_BYTES];

	for (int i = 0; i < 20000 && digest(x, o, &d) == -ENOENT; i++)
		poll(NULL, 0, 1); /* a thread may be at it */
	assert_int_equal(digest(x, o, &d), 0);
	assert_int_equal(digest_sha_create(&sha), 0);
	assert_true(digest_of(sha, want, n, right));
	digest_sha_destroy(sha);
	assert_memory_equal(d.digest, right, DIGEST_BYTES);
	assert_int_equal(d.size, n);
	assert_int_equal(stub_time_cmp(d.mtime, o->mtime), 0);
}

static char *copy(size_t at, size_t n)
{
	char *p = malloc(n);

	memcpy(p, bytes + at, n);
	return p;
}

static void all_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", 3 * MIB + 5);
	char *mine = copy(0, 3 * MIB + 5);

	digests_add(&digests, &o, 0, bytes, 3 * MIB + 5);
	assert_digest(x, &o, bytes, 3 * MIB + 5);
	assert_null(digests.first);
	stub_object_close(&o);
	o.mtime.tv_sec++; /* of a later version, and a client's */
	assert_true(digests_later(&digests, &o, 0, &mine, 3 * MIB + 5));
	assert_null(mine);
	for (struct stub_digest d; digest(x, &o, &d) == 0 && d.mtime.tv_sec != o.mtime.tv_sec;)
		poll(NULL, 0, 1);
	assert_digest(x, &o, bytes, 3 * MIB + 5);
}

static void from_clients_and_crawler(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", 4 * MIB);
	struct stub_digest d;
	char *mine = copy(MIB + 1000, 2 * MIB);

	memset(bytes, 0, 12345);
	digests_zeros(&digests, &o, 0, 12345);
	digests_add(&digests, &o, 12345, bytes + 12345, MIB + 1000 - 12345);
	assert_true(digests_later(&digests, &o, MIB + 1000, &mine, 2 * MIB));
	assert_int_equal(digest(x, &o, &d), -ENOENT);
	digests_add(&digests, &o, 3 * MIB + 1000, bytes + 3 * MIB + 1000, MIB - 1000);
	assert_digest(x, &o, bytes, 4 * MIB);
	stub_object_close(&o);
}

/* Bytes of two versions are never mixed. */
static void another_version_begins_anew(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", 2 * MIB);
	struct stub_digest d;

	digests_add(&digests, &o, 0, bytes, MIB);
	o.mtime.tv_nsec ^= 1;
	bytes[5] ^= 1;
	digests_add(&digests, &o, MIB, bytes + MIB, MIB);
	assert_int_equal(digest(x, &o, &d), -ENOENT);
	digests_add(&digests, &o, 0, bytes, MIB);
	assert_digest(x, &o, bytes, 2 * MIB);
	stub_object_close(&o);
}

/* What is begun and never ended: memory is bounded, and the last ones are kept. */
static void many_files_under_way(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", 4 * MIB);
	struct stub_object first = o;
	struct stub_digest d;

	for (uint32_t i = 0; i < 1000; i++) {
		memcpy(o.h.bytes, &i, sizeof(i));
		digests_add(&digests, &o, 0, bytes, 1000); /* a part in pieces: 64 KiB */
		assert_true(digests.memory <= 33u << 20);
	}
	assert_true(digests.memory > 16u << 20);
	digests_add(&digests, &o, 1000, bytes + 1000, 4 * MIB - 1000);
	assert_digest(x, &o, bytes, 4 * MIB);
	o = first;
	memset(o.h.bytes, 0, sizeof(uint32_t));
	digests_add(&digests, &o, 1000, bytes + 1000, 4 * MIB - 1000);
	assert_int_equal(digest(x, &o, &d), -ENOENT);
	stub_object_close(&o);
}

/* A client's worker never waits: what is too much is given up. */
static void too_much_at_once(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", 4 * MIB);
	unsigned int taken = 0;

	for (int i = 0; i < 200; i++) {
		char *mine = copy(0, 2 * MIB), *was = mine;
		bool r;

		pthread_mutex_lock(&digests.queue_lock);
		assert_true(digests.queued <= 16u << 20);
		pthread_mutex_unlock(&digests.queue_lock);
		r = digests_later(&digests, &o, 0, &mine, 2 * MIB);
		assert_true(r ? mine == NULL : mine == was);
		taken += r;
		free(mine);
	}
	assert_true(taken > 0);
	digests_stop(&digests);
	assert_null(digests.queue);
	stub_object_close(&o);
}

static void nobody_wants_them(void **state)
{
	struct fixture *x = *state;
	struct stub_object o = object(x, "f", MIB);
	struct digests off = { 0 };
	struct stub_digest d;
	char *mine = copy(0, MIB), *was = mine;

	assert_int_equal(digests_start(&off, NULL), 0);
	digests_add(&off, &o, 0, bytes, MIB);
	digests_zeros(&off, &o, 0, MIB);
	assert_false(digests_later(&off, &o, 0, &mine, MIB));
	assert_ptr_equal(mine, was);
	free(mine);
	digests_stop(&off);
	digests_finish(&off);
	assert_int_equal(digest(x, &o, &d), -ENOENT);
	assert_int_equal(faccessat(x->v->dir_fd, STUB_DIGESTS, F_OK, 0), -1);
	stub_object_close(&o);
}

#define ON_VOLUME(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_VOLUME(all_at_once),
		ON_VOLUME(from_clients_and_crawler),
		ON_VOLUME(another_version_begins_anew),
		ON_VOLUME(many_files_under_way),
		ON_VOLUME(too_much_at_once),
		ON_VOLUME(nobody_wants_them),
	};

	return cmocka_run_group_tests_name("job_digest", tests, NULL, NULL);
}
