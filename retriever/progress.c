/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "stubcore.h"

#define PATH	STUB_DIR "/progress"
#define MAGIC	0x31677250u
#define VERSION 1
#define DEPTH	56 /* bytes of one depth */
#define SUM_AT	(PROGRESS_HEADER - 8)
#define FIRST	2 /* samples that never go: where it began */

struct progress {
	int fd;
	struct progress_data d;
};

/* ---- the format ---- */

static uint64_t bits_of(double x)
{
	uint64_t u;

	memcpy(&u, &x, sizeof(u));
	return u;
}

static double double_of(uint64_t u)
{
	double x;

	memcpy(&x, &u, sizeof(x));
	return x;
}

static uint32_t check_sum(const uint8_t *p, size_t n)
{
	uint64_t h = stub_fnv(STUB_FNV, p, n);

	return (uint32_t)(h ^ h >> 32);
}

void progress_pack_sample(const struct progress_sample *s, uint8_t out[PROGRESS_SAMPLE])
{
	stub_put_le(out, (uint64_t)s->at, 8);
	stub_put_le(out + 8, s->active_ms, 8);
	stub_put_le(out + 16, s->found, 8);
	stub_put_le(out + 24, s->found_bytes, 8);
	stub_put_le(out + 32, s->done, 8);
	stub_put_le(out + 40, s->done_bytes, 8);
	stub_put_le(out + 48, s->dirs, 4);
	stub_put_le(out + 52, s->parked, 4);
	stub_put_le(out + 56, 0, 4);
	stub_put_le(out + 60, check_sum(out, 60), 4);
}

static bool parse_sample(const uint8_t *p, struct progress_sample *s)
{
	if (stub_get_le(p + 60, 4) != check_sum(p, 60) || stub_get_le(p + 56, 4))
		return false;
	*s = (struct progress_sample){
		.at = (int64_t)stub_get_le(p, 8),
		.active_ms = stub_get_le(p + 8, 8),
		.found = stub_get_le(p + 16, 8),
		.found_bytes = stub_get_le(p + 24, 8),
		.done = stub_get_le(p + 32, 8),
		.done_bytes = stub_get_le(p + 40, 8),
		.dirs = (uint32_t)stub_get_le(p + 48, 4),
		.parked = (uint32_t)stub_get_le(p + 52, 4),
	};
	return s->at > 0 && s->done <= s->found && s->done_bytes <= s->found_bytes;
}

void progress_pack_header(const struct tree_depth tree[TREE_DEPTHS], uint64_t number,
			  uint8_t out[PROGRESS_HEADER])
{
	memset(out, 0, PROGRESS_HEADER);
	stub_put_le(out, MAGIC, 4);
	stub_put_le(out + 4, VERSION, 4);
	stub_put_le(out + 8, number, 8);
	for (unsigned int i = 0; i < TREE_DEPTHS; i++) {
		const struct tree_depth *t = &tree[i];
		const double x[6] = { t->dirs, t->dirs2, t->files, t->files2, t->bytes, t->bytes2 };
		uint8_t *p = out + 16 + i * DEPTH;

		stub_put_le(p, t->listed, 8);
		for (int k = 0; k < 6; k++)
			stub_put_le(p + 8 + 8 * k, bits_of(x[k]), 8);
	}
	stub_put_le(out + SUM_AT, stub_fnv(STUB_FNV, out, SUM_AT), 8);
}

/* Its number; 0: it is not valid. */
static uint64_t parse_header(const uint8_t *h, struct tree_depth tree[TREE_DEPTHS])
{
	if (stub_get_le(h, 4) != MAGIC || stub_get_le(h + 4, 4) != VERSION ||
	    stub_get_le(h + SUM_AT, 8) != stub_fnv(STUB_FNV, h, SUM_AT))
		return 0;
	for (unsigned int i = 0; i < TREE_DEPTHS; i++) {
		const uint8_t *p = h + 16 + i * DEPTH;
		double x[6];

		for (int k = 0; k < 6; k++) {
			x[k] = double_of(stub_get_le(p + 8 + 8 * k, 8));
			if (!isfinite(x[k]) || x[k] < 0)
				return 0;
		}
		tree[i] = (struct tree_depth){ stub_get_le(p, 8), x[0], x[1], x[2], x[3], x[4],
					       x[5] };
	}
	return stub_get_le(h + 8, 8);
}

static bool goes_on(const struct progress_sample *a, const struct progress_sample *b)
{
	return b->at > a->at && b->active_ms >= a->active_ms && b->done >= a->done;
}

struct placed {
	struct progress_sample s;
	uint16_t place;
};

static int by_time(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	return x->s.at < y->s.at ? -1 : x->s.at > y->s.at;
}

void progress_parse(const uint8_t file[PROGRESS_BYTES], struct progress_data *out)
{
	struct tree_depth other[TREE_DEPTHS];
	struct placed *all = calloc(PROGRESS_SAMPLES, sizeof(*all));
	unsigned int n = 0;
	uint64_t second;

	memset(out, 0, sizeof(*out));
	out->number = parse_header(file, out->tree);
	second = parse_header(file + PROGRESS_HEADER, other);
	if (second > out->number) {
		out->number = second;
		memcpy(out->tree, other, sizeof(other));
	} else if (!out->number) {
		memset(out->tree, 0, sizeof(out->tree));
	}
	for (unsigned int i = 0; all && i < PROGRESS_SAMPLES; i++) {
		const uint8_t *p = file + 2 * PROGRESS_HEADER + i * PROGRESS_SAMPLE;

		all[n].place = (uint16_t)i;
		n += parse_sample(p, &all[n].s);
	}
	if (all)
		qsort(all, n, sizeof(*all), by_time);
	for (unsigned int i = 0; i < n; i++) {
		if (out->n && !goes_on(&out->sample[out->n - 1], &all[i].s))
			continue;
		out->sample[out->n] = all[i].s;
		out->place[out->n++] = all[i].place;
	}
	free(all);
}

/* ---- which one goes ---- */

/* How much is it missed: how long a gap it leaves, for how long ago it is. */
static double worth(const struct progress_data *d, unsigned int i, int64_t now)
{
	double gap = (double)(d->sample[i + 1].at - d->sample[i - 1].at);
	double ago = (double)(now - d->sample[i].at);

	return gap / (ago + 60);
}

static unsigned int least(const struct progress_data *d, int64_t now)
{
	unsigned int which = FIRST;

	for (unsigned int i = FIRST; i + 1 < d->n; i++)
		if (worth(d, i, now) < worth(d, which, now))
			which = i;
	return which;
}

static unsigned int free_place(const struct progress_data *d)
{
	bool used[PROGRESS_SAMPLES] = { false };
	unsigned int i = 0;

	for (unsigned int k = 0; k < d->n; k++)
		used[d->place[k]] = true;
	while (used[i])
		i++;
	return i;
}

unsigned int progress_insert(struct progress_data *d, const struct progress_sample *s)
{
	unsigned int place, i;

	if (d->n < PROGRESS_SAMPLES) {
		place = free_place(d);
	} else {
		i = least(d, s->at);
		place = d->place[i];
		memmove(&d->sample[i], &d->sample[i + 1], (d->n - i - 1) * sizeof(d->sample[0]));
		memmove(&d->place[i], &d->place[i + 1], (d->n - i - 1) * sizeof(d->place[0]));
		d->n--;
	}
	d->sample[d->n] = *s;
	d->place[d->n++] = (uint16_t)place;
	return place;
}

/* ---- the file ---- */

/* Ours, whole and with all its blocks: made anew if it is not. */
static int make(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0)
		return -EPERM;
	if (st.st_size == PROGRESS_BYTES)
		return 0;
	if (ftruncate(fd, 0) < 0)
		return -errno;
	return -posix_fallocate(fd, 0, PROGRESS_BYTES);
}

int progress_load(int root, struct progress_data *out)
{
	uint8_t *file = calloc(1, PROGRESS_BYTES);
	struct stat st;
	int fd, r = 0;

	memset(out, 0, sizeof(*out));
	if (!file)
		return -ENOMEM;
	fd = openat(root, PATH, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EPERM;
	else if (pread(fd, file, PROGRESS_BYTES, 0) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	if (r == 0)
		progress_parse(file, out);
	free(file);
	return r;
}

int progress_open(int root, struct progress **out)
{
	struct progress *p = calloc(1, sizeof(*p));
	uint8_t *file = calloc(1, PROGRESS_BYTES);
	int r = p && file ? 0 : -ENOMEM;

	if (r == 0) {
		p->fd = openat(root, PATH, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
			       0600);
		r = p->fd < 0 ? -errno : make(p->fd);
		if (r == 0 && pread(p->fd, file, PROGRESS_BYTES, 0) < 0)
			r = -errno;
		if (r == 0)
			progress_parse(file, &p->d);
		if (r < 0 && p->fd >= 0)
			close(p->fd);
	}
	free(file);
	if (r < 0) {
		free(p);
		return r;
	}
	*out = p;
	return 0;
}

void progress_close(struct progress *p)
{
	if (!p)
		return;
	close(p->fd);
	free(p);
}

const struct progress_data *progress_data(const struct progress *p)
{
	return &p->d;
}

int progress_add(struct progress *p, const struct progress_sample *s,
		 const struct tree_depth tree[TREE_DEPTHS])
{
	uint8_t bytes[PROGRESS_SAMPLE], header[PROGRESS_HEADER];
	unsigned int place;
	int r = 0;

	while (p->d.n && p->d.sample[p->d.n - 1].at >= s->at)
		p->d.n--; /* the clock was set back */
	if (p->d.n && !goes_on(&p->d.sample[p->d.n - 1], s))
		p->d.n = 0; /* counted anew: nothing to go on from */
	place = progress_insert(&p->d, s);
	progress_pack_sample(s, bytes);
	r = stub_io_pwrite(p->fd, bytes, sizeof(bytes),
			   2 * PROGRESS_HEADER + place * PROGRESS_SAMPLE);
	if (r == 0 && memcmp(tree, p->d.tree, sizeof(p->d.tree))) {
		memcpy(p->d.tree, tree, sizeof(p->d.tree));
		progress_pack_header(tree, ++p->d.number, header);
		r = stub_io_pwrite(p->fd, header, sizeof(header),
				   p->d.number % 2 * PROGRESS_HEADER);
	}
	return r;
}
