/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_read.c - content of both sides, block by block.
 *
 * The volume's is read from its disk, past the page cache (O_DIRECT), so that it is what was
 * stored and not what was just written.  Some blocks of the source are under way while one is
 * compared, and while the disk is read; and those of the next small files (verify_ahead()), or
 * each of these would wait for the source and then for the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "depot/depot.h"
#include "digest/digest.h"
#include "verify/verify_inside.h"

#define AHEAD	   4 /* blocks of one file under way */
#define SMALL	   65536 /* such files are begun before it is their turn */
#define ALIGNED	   4096
#define BLOCK_MOST (1u << 20)
#define CLOSED	   "it cannot be opened on the volume"
#define DISK_FAILS "the volume's disk does not give it (see the kernel's log)"

struct block {
	struct reading *of;
	uint64_t offset;
	uint32_t length;
	char *bytes;
	int64_t result;
	bool pending; /* under way */
};

struct reading {
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct block block[AHEAD];
	unsigned int blocks; /* there is memory for so many of them */
	uint64_t asked; /* where the next block begins ... */
	unsigned int head; /* ... and how many there were before it */
	uint32_t size; /* of a block */
	char *here;    /* one block of the volume */
	char *memory;
	int fd;
	/* NULL: nobody wants it */
	EVP_MD_CTX *digest;
	struct digest_sha *sha;
	struct digest_file *tree;
};

static void on_read(void *arg, const struct source_read *r)
{
	struct block *b = arg;
	struct reading *g = b->of;

	if (r->result > 0)
		memcpy(b->bytes, r->data, (size_t)r->result);
	pthread_mutex_lock(&g->lock);
	b->result = r->result;
	b->pending = false;
	pthread_cond_signal(&g->done);
	pthread_mutex_unlock(&g->lock);
}

static int ask(struct run *k, const struct item *i, struct block *b, uint64_t offset)
{
	struct stub_origin o = { .len = i->origin_len };
	uint64_t left = i->attr.size - offset;
	int r;

	b->offset = offset;
	b->length = left < b->of->size ? (uint32_t)left : b->of->size;
	r = verify_pace_turn(k->v->pace, b->length);
	if (r < 0)
		return r;
	memcpy(o.bytes, i->bytes, o.len);
	b->pending = true;
	r = source_read(k->v->source, SOURCE_DEMAND, &o, offset, b->length, on_read, b);
	if (r < 0)
		b->pending = false;
	return r;
}

static void await(struct block *b)
{
	pthread_mutex_lock(&b->of->lock);
	while (b->pending)
		pthread_cond_wait(&b->of->done, &b->of->lock);
	pthread_mutex_unlock(&b->of->lock);
}

/* Read [offset, offset+length) of @fd into the whole block @to.  Fewer at the end. */
static int64_t read_here(int fd, char *to, uint32_t size, uint32_t length, uint64_t offset)
{
	uint32_t have = 0;

	while (have < length) {
		ssize_t n = pread(fd, to + have, size - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		have += (uint32_t)n;
		if (n == 0 || n % ALIGNED) /* the end, and O_DIRECT takes no other offset */
			break;
	}
	return have;
}

/* The disk is read while the source's answer is on its way. */
static int judge(const struct reading *g, struct block *b, const char **why)
{
	int64_t n = read_here(g->fd, g->here, g->size, b->length, b->offset);

	await(b);
	if (b->result < 0)
		return (int)b->result;
	if (b->result < b->length) {
		*why = "the source gives fewer bytes than it says it has";
		return 1;
	}
	if (n < 0) {
		*why = DISK_FAILS;
		return 1;
	}
	return n < b->length || memcmp(g->here, b->bytes, b->length) != 0;
}

/* ---- digests ---- */

static int digest_begin(struct reading *g, uint64_t size, const struct verify_digests *want)
{
	if (want->plain) {
		g->digest = EVP_MD_CTX_new();
		if (!g->digest || EVP_DigestInit_ex(g->digest, EVP_sha256(), NULL) != 1)
			return -ENOMEM;
	}
	if (want->kept &&
	    (digest_sha_create(&g->sha) < 0 || digest_file_create(size, &g->tree) < 0))
		return -ENOMEM;
	return 0;
}

static int digest(struct reading *g, uint64_t at, const char *bytes, size_t n)
{
	if (g->tree)
		digest_file_add(g->tree, g->sha, at, bytes, n);
	return g->digest && EVP_DigestUpdate(g->digest, bytes, n) != 1 ? -ENOMEM : 0;
}

static int digest_zeros(struct reading *g, uint64_t from, uint64_t end)
{
	static const char zeros[DIGEST_PART];

	if (g->tree)
		digest_file_zeros(g->tree, g->sha, from, end);
	for (; g->digest && from < end; from += sizeof(zeros))
		if (EVP_DigestUpdate(g->digest, zeros,
				     end - from < sizeof(zeros) ? end - from : sizeof(zeros)) != 1)
			return -ENOMEM;
	return 0;
}

static int digest_end(struct reading *g, struct verify_digests *out)
{
	if (g->digest && EVP_DigestFinal_ex(g->digest, out->sha256, NULL) != 1)
		return -ENOMEM;
	return g->tree && !digest_file_end(g->tree, g->sha, out->tree) ? -ENOMEM : 0;
}

static void digest_drop(struct reading *g)
{
	EVP_MD_CTX_free(g->digest);
	digest_file_destroy(g->tree);
	digest_sha_destroy(g->sha);
}

/* ---- both sides ---- */

static int ask_next(struct run *k, struct reading *g, const struct item *i)
{
	int r = ask(k, i, &g->block[g->head % g->blocks], g->asked);

	g->head += r == 0;
	g->asked += g->size;
	return r;
}

static int compare_blocks(struct run *k, struct reading *g, const struct item *i, const char **why)
{
	unsigned int tail = 0;
	uint64_t at = 0;
	int r = 0;

	while (r == 0 && at < i->attr.size) {
		struct block *b = &g->block[tail % g->blocks];

		while (r == 0 && g->asked < i->attr.size && g->head - tail < g->blocks)
			r = ask_next(k, g, i);
		if (r < 0)
			break;
		r = judge(g, b, why);
		if (r == 0)
			r = digest(g, at, b->bytes, b->length);
		tail++;
		at += g->size;
	}
	return r;
}

static int open_here(const struct run *k, const struct here *h, bool direct)
{
	int fd = stub_handle_open_at(k->volume_fd, &h->h, O_RDONLY | O_NOATIME | O_CLOEXEC |
								  (direct ? O_DIRECT : 0));

	if (fd == -EINVAL && direct) /* it has no such reads: what is cached is thrown away */
		fd = stub_handle_open_at(k->volume_fd, &h->h, O_RDONLY | O_NOATIME | O_CLOEXEC);
	if (fd >= 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd;
}

static int prepare(struct run *k, uint64_t size, const struct here *h, struct reading *g)
{
	uint32_t most = k->block < BLOCK_MOST ? k->block : BLOCK_MOST;
	bool direct = most >= ALIGNED;

	g->size = direct ? most / ALIGNED * ALIGNED : most;
	if (direct && size < g->size) /* small files are most: not a MiB for each */
		g->size = ((uint32_t)size + ALIGNED - 1) / ALIGNED * ALIGNED;
	g->blocks = size <= g->size ? 1 : AHEAD;
	g->fd = open_here(k, h, direct);
	if (g->fd < 0)
		return g->fd;
	if (posix_memalign((void **)&g->memory, ALIGNED, (size_t)g->size * (g->blocks + 1)))
		return -ENOMEM;
	g->here = g->memory;
	for (unsigned int n = 0; n < g->blocks; n++) {
		g->block[n].of = g;
		g->block[n].bytes = g->memory + (size_t)g->size * (n + 1);
	}
	return 0;
}

static void finish(struct reading *g)
{
	for (unsigned int n = 0; n < g->blocks; n++)
		await(&g->block[n]);
	digest_drop(g);
	free(g->memory);
	if (g->fd >= 0)
		close(g->fd);
	pthread_cond_destroy(&g->done);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* 0 and *@out, to be finished; 1: @h cannot be opened; -ENOMEM. */
static int begin(struct run *k, uint64_t size, const struct here *h, struct reading **out)
{
	struct reading *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	g->fd = -1;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->done, NULL);
	for (unsigned int n = 0; n < AHEAD; n++)
		g->block[n].of = g;
	r = prepare(k, size, h, g);
	if (r == 0) {
		*out = g;
		return 0;
	}
	finish(g);
	return r == -ENOMEM ? r : 1;
}

/* Is it likely that its content is to be compared, in one block? */
static bool is_worth(const struct run *k, const struct item *i, const struct here *h)
{
	return !i->error && S_ISREG(i->attr.mode) && S_ISREG(h->st.st_mode) && !h->stub &&
	       i->attr.size && i->attr.size <= SMALL && i->attr.size <= k->block &&
	       (uint64_t)h->st.st_size == i->attr.size && h->st.st_nlink == 1 &&
	       h->trust != TRUST_TOUCHED && (i->chosen || !k->v->sample) &&
	       !(h->trust == TRUST_KEPT && h->note.right_in == k->v->number && !k->v->proven);
}

void verify_ahead(struct run *k, const struct item *i, struct here *h)
{
	/* what fails is met again when it is its turn */
	if (!is_worth(k, i, h) || begin(k, i->attr.size, h, &h->ahead) != 0)
		return;
	if (ask_next(k, h->ahead, i) < 0) {
		finish(h->ahead);
		h->ahead = NULL;
	}
}

void verify_ahead_drop(struct here *h)
{
	if (h->ahead)
		finish(h->ahead);
	h->ahead = NULL;
}

int verify_content(struct run *k, const struct item *i, struct here *h,
		   struct verify_digests *out, const char **why)
{
	struct reading *g = h->ahead;
	int r = g ? 0 : begin(k, i->attr.size, h, &g);

	h->ahead = NULL;
	if (r == 1)
		*why = CLOSED;
	if (r)
		return r;
	r = digest_begin(g, i->attr.size, out);
	if (r == 0)
		r = compare_blocks(k, g, i, why);
	if (r == 0)
		r = digest_end(g, out);
	finish(g);
	return r;
}

/* ---- the volume alone ---- */

/* *end becomes where the data, or the hole (then 1), that begins at @at ends. */
static int stretch(int fd, uint64_t at, uint64_t size, uint64_t *end)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole = -1;
	bool rest = data < 0 && errno == ENXIO;

	*end = size;
	if (rest || data > (off_t)at) {
		*end = rest || (uint64_t)data > size ? size : (uint64_t)data;
		return 1;
	}
	if (data >= 0)
		hole = lseek(fd, (off_t)at, SEEK_HOLE);
	if (hole > (off_t)at && (uint64_t)hole < size)
		*end = (uint64_t)hole;
	return 0;
}

static int read_data(struct run *k, struct reading *g, uint64_t at, uint64_t end, const char **why)
{
	while (at < end) {
		uint32_t length = end - at < g->size ? (uint32_t)(end - at) : g->size;
		int64_t n = verify_pace_turn(k->v->pace, length);

		if (n < 0)
			return (int)n;
		n = read_here(g->fd, g->here, g->size, length, at);
		if (n < length) {
			*why = n < 0 ? DISK_FAILS : "it is shorter than its size";
			return 1;
		}
		n = digest(g, at, g->here, length);
		if (n < 0)
			return (int)n;
		at += length;
	}
	return 0;
}

int verify_disk(struct run *k, const struct here *h, struct verify_digests *out, const char **why)
{
	uint64_t at, end, size = (uint64_t)h->st.st_size;
	struct reading *g;
	int r = begin(k, size, h, &g);

	out->kept = true;
	if (r == 1)
		*why = CLOSED;
	if (r)
		return r;
	r = digest_begin(g, size, out);
	for (at = 0; r == 0 && at < size; at = end)
		r = stretch(g->fd, at, size, &end) ? digest_zeros(g, at, end) :
						     read_data(k, g, at, end, why);
	if (r == 0)
		r = digest_end(g, out);
	finish(g);
	return r;
}

/* ---- streams in a depot ---- */

/* One stream, whose file is @fd.  1: not the same. */
static int compare_stream(struct run *k, const struct item *i, const struct source_stream *s,
			  int fd)
{
	struct stub_origin o = { .len = i->origin_len };
	char *there = malloc(SOURCE_STREAM_MAX), *here = malloc(SOURCE_STREAM_MAX);
	uint64_t at = 0, size = s->size;
	int64_t n = there && here ? 0 : -ENOMEM;
	int r = 0;

	memcpy(o.bytes, i->bytes, o.len);
	while (r == 0 && n >= 0 && at < s->size) {
		n = verify_pace_turn(k->v->pace, SOURCE_STREAM_MAX);
		if (n == 0)
			n = source_stream(k->v->source, SOURCE_DEMAND, &o, s->name, at, there,
					  SOURCE_STREAM_MAX, &size);
		if (n < 0)
			break;
		r = n == 0 || size != s->size || pread(fd, here, (size_t)n, (off_t)at) != n ||
		    memcmp(here, there, (size_t)n);
		at += (uint64_t)n;
	}
	free(there);
	free(here);
	return n < 0 ? (int)n : r;
}

int verify_streams(struct run *k, const struct item *i, const struct here *h,
		   const struct source_meta *m, struct timespec since, bool *touched)
{
	char path[DEPOT_PATH_MAX], full[STUB_DEPOT_MAX + DEPOT_PATH_MAX + 2];
	int dir, r = 0, differs = 0;

	depot_path(stub_volume_info(k->v->volume)->depot_id, h->st.st_ino, path);
	snprintf(full, sizeof(full), "%s/%s", k->v->depot, path);
	dir = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 1;
	for (size_t n = 0; r >= 0 && n < m->n_streams; n++) {
		int fd = openat(dir, m->streams[n].name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st = { 0 };

		r = fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != m->streams[n].size;
		if (fd >= 0)
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (r == 0)
			r = compare_stream(k, i, &m->streams[n], fd);
		if (r == 1 && since.tv_sec && st.st_ctim.tv_sec > since.tv_sec)
			*touched = true;
		differs |= r == 1;
		if (fd >= 0)
			close(fd);
	}
	close(dir);
	return r < 0 ? r : differs;
}
