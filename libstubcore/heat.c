/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * heat.c - .postcopy/heat: the directories in which clients have met what was not here, told by the
 * retriever to the crawler.
 *
 * A hint: never synced, and nothing relies on it.  64 places; a new directory gets that of the
 * one that was told longest ago.  What is damaged is left out:
 *
 *   u64 number   u32 type of the handle   u32 its length   128 bytes of it, then zeros
 *   u64 FNV-1a of all before it                                          (little-endian)
 *
 * Numbers only grow, also over restarts: they are the time in microseconds, or one more.
 */
#include <fcntl.h>
#include <time.h>

#include "bytes.h"
#include "internal.h"

#define NAME  "heat"
#define FIXED (8 + 4 + 4 + STUB_HANDLE_MAX)
#define PLACE (FIXED + 8)
#define BYTES (STUB_HEAT_PLACES * PLACE)

static void pack(const struct stub_heat *t, uint8_t out[PLACE])
{
	memset(out, 0, PLACE);
	stub_put_le(out, t->number, 8);
	stub_put_le(out + 8, (uint32_t)t->h.type, 4);
	stub_put_le(out + 12, t->h.len, 4);
	memcpy(out + 16, t->h.bytes, t->h.len);
	stub_put_le(out + FIXED, stub_fnv(STUB_FNV, out, FIXED), 8);
}

static bool parse(const uint8_t *p, struct stub_heat *out)
{
	uint64_t len = stub_get_le(p + 12, 4);

	if (stub_get_le(p + FIXED, 8) != stub_fnv(STUB_FNV, p, FIXED) || len < 1 ||
	    len > STUB_HANDLE_MAX)
		return false;
	memset(out, 0, sizeof(*out));
	out->number = stub_get_le(p, 8);
	out->h.type = (int32_t)stub_get_le(p + 8, 4);
	out->h.len = (uint8_t)len;
	memcpy(out->h.bytes, p + 16, len);
	return out->number > 0;
}

/* What the file has; a place that is damaged is zeros.  -errno */
static int load(int root_fd, struct stub_heat at[STUB_HEAT_PLACES])
{
	int fd CLEANUP_CLOSE = openat(root_fd, STUB_DIR "/" NAME,
				      O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t bytes[BYTES] = { 0 };

	memset(at, 0, STUB_HEAT_PLACES * sizeof(*at));
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (pread(fd, bytes, sizeof(bytes), 0) < 0)
		return -errno;
	for (int i = 0; i < STUB_HEAT_PLACES; i++) {
		if (!parse(bytes + i * PLACE, &at[i]))
			memset(&at[i], 0, sizeof(at[i]));
	}
	return 0;
}

STUB_PUBLIC int stub_heat_open(struct stub_heat_file *f, int root_fd)
{
	load(root_fd, f->at);
	f->last = 0;
	for (int i = 0; i < STUB_HEAT_PLACES; i++) {
		if (f->at[i].number > f->last)
			f->last = f->at[i].number;
	}
	f->fd = openat(root_fd, STUB_DIR "/" NAME, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	return f->fd < 0 ? -errno : 0;
}

STUB_PUBLIC void stub_heat_close(struct stub_heat_file *f)
{
	stub_cleanup_close(&f->fd);
	f->fd = -1;
}

/* The directory's place, or that of the oldest one. */
static int place_of(const struct stub_heat_file *f, const struct stub_handle *dir)
{
	int oldest = 0;

	for (int i = 0; i < STUB_HEAT_PLACES; i++) {
		const struct stub_heat *t = &f->at[i];

		if (t->number && stub_handle_equal(&t->h, dir))
			return i;
		if (t->number < f->at[oldest].number)
			oldest = i;
	}
	return oldest;
}

STUB_PUBLIC int stub_heat_put(struct stub_heat_file *f, const struct stub_handle *dir)
{
	int place = place_of(f, dir);
	uint8_t bytes[PLACE];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	f->at[place].h = *dir;
	f->at[place].number = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	if (f->at[place].number <= f->last)
		f->at[place].number = f->last + 1;
	f->last = f->at[place].number;
	pack(&f->at[place], bytes);
	return stub_io_pwrite(f->fd, bytes, PLACE, (off_t)place * PLACE);
}

static int by_number(const void *a, const void *b)
{
	const struct stub_heat *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

STUB_PUBLIC int stub_heat_get(int root_fd, uint64_t after, struct stub_heat out[STUB_HEAT_PLACES])
{
	int n = 0, r = load(root_fd, out);

	if (r < 0)
		return r;
	for (int i = 0; i < STUB_HEAT_PLACES; i++) {
		if (out[i].number > after)
			out[n++] = out[i];
	}
	qsort(out, (size_t)n, sizeof(*out), by_number);
	return n;
}
