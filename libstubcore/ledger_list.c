/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_list.c - the lists of what is owed, one of each process, and how they are read.
 *
 * .postcopy/ledger/PID-N, locked (OFD) while its owner lives, and locked before it is visible.
 * Entries come in batches: one write, one fdatasync, for all who waited (the first of them does
 * it).  An entry says where its batch begins.  The next batch is written when that sync has
 * ended well; after one that has not, the list is given up and another one begun.  So what cannot
 * be read was acknowledged if an entry of a later batch is behind it; else it is the torn end.
 *
 *   header   u64 magic  u64 number of the list  u64 sum, padded to 160 bytes
 *   entry    u64 sum of the rest  u64 number of the list  u32 index  u32 index of its batch's
 *            first  u32 type  u8 what  u8 len  2 bytes 0  handle, padded to 128
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "ledger.h"

#define MAGIC	0x31676c6f63505f54u
#define ENTRY	160
#define ROTATE	((1u << 20) / ENTRY) /* entries, then another list is begun */
#define BATCH	256u
#define AHEAD	512 /* entries looked at behind one that cannot be read, at a time */

struct stub_lists {
	pthread_mutex_t lock; /* a leaf but for the list's file */
	pthread_cond_t ended_one;
	bool busy;		       /* somebody writes */
	uint64_t begun, ended, failed; /* numbers of batches; failed: the last such */
	int error;		       /* of that */
	struct stub_owing wait[BATCH];
	unsigned int n_wait;
	/* of whoever writes */
	struct stub_owing now[BATCH];
	int fd; /* -1: no list yet */
	uint64_t id;
	uint32_t n;
};

static void seal(uint8_t b[ENTRY])
{
	stub_put_le(b, stub_fnv(STUB_FNV, b + 8, ENTRY - 8), 8);
}

static bool sealed(const uint8_t b[ENTRY])
{
	return stub_get_le(b, 8) == stub_fnv(STUB_FNV, b + 8, ENTRY - 8);
}

static int lock(int fd)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &f) < 0 ? -errno : 0;
}

/* ---- written ---- */

/* The header is durable before the name is, so one that cannot be read is damaged. */
static int begin(struct stub_volume *v, struct stub_lists *l)
{
	int r, dir_fd CLEANUP_CLOSE = stub_map_dir(v);
	uint8_t b[ENTRY] = { 0 };
	struct stub_unnamed u;
	char name[32];
	uint64_t id = 0;

	if (dir_fd < 0)
		return dir_fd;
	while (id == 0)
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -EIO;
	r = stub_unnamed_open(v, dir_fd, &u);
	if (r < 0)
		return r;
	stub_put_le(b + 8, MAGIC, 8);
	stub_put_le(b + 16, id, 8);
	seal(b);
	r = stub_io_pwrite(u.fd, b, sizeof(b), 0);
	if (r == 0)
		r = lock(u.fd);
	if (r == 0 && fsync(u.fd) < 0)
		r = -errno;
	if (r == 0)
		r = stub_unnamed_number(v, &u, dir_fd, name, sizeof(name));
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	if (r == 0) {
		stub_cleanup_close(&l->fd); /* the one before: the replicator may remove it */
		l->fd = stub_steal_fd(&u.fd);
	}
	stub_unnamed_drop(v, &u);
	if (r < 0)
		return r;
	l->id = id;
	l->n = 0;
	return 0;
}

static int write_batch(struct stub_volume *v, struct stub_lists *l, unsigned int n)
{
	uint8_t *buf CLEANUP_FREE = calloc(n, ENTRY);
	int r = 0;

	if (!buf)
		return -ENOMEM;
	if (l->fd < 0 || l->n >= ROTATE)
		r = begin(v, l);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < n; i++) {
		const struct stub_owing *o = &l->now[i];
		uint8_t *b = buf + (size_t)i * ENTRY;

		stub_put_le(b + 8, l->id, 8);
		stub_put_le(b + 16, l->n + i, 4);
		stub_put_le(b + 20, l->n, 4);
		stub_put_le(b + 24, (uint32_t)o->h.type, 4);
		b[28] = (uint8_t)o->what;
		b[29] = o->h.len;
		memcpy(b + 32, o->h.bytes, o->h.len);
		seal(b);
	}
	r = stub_io_pwrite(l->fd, buf, (size_t)n * ENTRY, (1 + (uint64_t)l->n) * ENTRY);
	if (r < 0)
		return r; /* without a sync nothing was acknowledged: overwritten by the next */
	if (fdatasync(l->fd) < 0) {
		r = -errno;
		close(stub_steal_fd(&l->fd));
		return r;
	}
	l->n += n;
	return 0;
}

int stub_lists_append(struct stub_volume *v, struct stub_lists *l, const struct stub_owing *o)
{
	uint64_t ticket;
	int r;

	pthread_mutex_lock(&l->lock);
	while (l->n_wait == BATCH)
		pthread_cond_wait(&l->ended_one, &l->lock);
	l->wait[l->n_wait++] = *o;
	ticket = l->begun + 1;
	while (l->ended < ticket) {
		unsigned int n = l->n_wait;

		if (l->busy) {
			pthread_cond_wait(&l->ended_one, &l->lock);
			continue;
		}
		l->busy = true;
		l->begun++;
		memcpy(l->now, l->wait, n * sizeof(l->now[0]));
		l->n_wait = 0;
		pthread_mutex_unlock(&l->lock);
		r = write_batch(v, l, n);
		pthread_mutex_lock(&l->lock);
		l->busy = false;
		l->ended = l->begun;
		if (r < 0) {
			l->failed = l->ended;
			l->error = r;
		}
		pthread_cond_broadcast(&l->ended_one);
	}
	r = l->failed >= ticket ? l->error : 0;
	pthread_mutex_unlock(&l->lock);
	return r;
}

int stub_lists_create(struct stub_lists **out)
{
	struct stub_lists *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	stub_cond_init(&l->ended_one);
	l->fd = -1;
	*out = l;
	return 0;
}

void stub_lists_destroy(struct stub_lists *l)
{
	if (!l)
		return;
	stub_cleanup_close(&l->fd);
	pthread_cond_destroy(&l->ended_one);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- read ---- */

bool stub_list_is(const char *name)
{
	size_t n = strspn(name, "0123456789"), m = name[n] == '-' ? strspn(name + n + 1, "0123456789") : 0;

	return n && m && !name[n + 1 + m];
}

static bool parse(const struct stub_list_reader *r, const uint8_t b[ENTRY], uint32_t index,
		  struct stub_owing *o, uint32_t *first)
{
	if (!sealed(b) || stub_get_le(b + 8, 8) != r->id || stub_get_le(b + 16, 4) != index ||
	    b[28] == 0 || b[28] > STUB_OWED_ALL || b[29] == 0 || b[29] > STUB_HANDLE_MAX)
		return false;
	*first = (uint32_t)stub_get_le(b + 20, 4);
	memset(o, 0, sizeof(*o));
	o->what = b[28];
	o->h.type = (int32_t)(uint32_t)stub_get_le(b + 24, 4);
	o->h.len = b[29];
	memcpy(o->h.bytes, b + 32, b[29]);
	return *first <= index;
}

int stub_list_open(int dir_fd, const char *name, struct stub_list_reader *r)
{
	uint8_t b[ENTRY];
	struct stat st;
	ssize_t n;

	memset(r, 0, sizeof(*r));
	r->fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (r->fd < 0)
		return -errno;
	r->living = lock(r->fd) < 0; /* looked at first: a dead one's grows no more */
	n = pread(r->fd, b, sizeof(b), 0);
	if (n < 0 || fstat(r->fd, &st) < 0) {
		int e = -errno;

		stub_list_close(r);
		return e;
	}
	r->damaged = n != sizeof(b) || !sealed(b) || stub_get_le(b + 8, 8) != MAGIC;
	r->id = stub_get_le(b + 16, 8);
	if (!r->damaged)
		r->end = (uint32_t)(((uint64_t)st.st_size + ENTRY - 1) / ENTRY - 1);
	return 0;
}

/* Was @index acknowledged?  Then there is an entry of a later batch. */
static int lost(struct stub_list_reader *r, uint32_t index)
{
	uint8_t *buf CLEANUP_FREE = malloc((size_t)AHEAD * ENTRY);
	struct stub_owing o;
	uint32_t first;

	if (!buf)
		return -ENOMEM;
	for (uint32_t at = index + 1; at < r->end; at += AHEAD) {
		ssize_t n = pread(r->fd, buf, (size_t)AHEAD * ENTRY, (off_t)(1 + (uint64_t)at) * ENTRY);

		if (n < 0)
			return -errno;
		for (uint32_t i = 0; i < n / ENTRY && at + i < r->end; i++)
			if (parse(r, buf + (size_t)i * ENTRY, at + i, &o, &first) && first > index)
				return 1;
	}
	return 0;
}

int stub_list_read(struct stub_list_reader *r, struct stub_owing *out, unsigned int max)
{
	unsigned int found = 0;

	while (found < max && r->next < r->end) {
		uint8_t b[ENTRY] = { 0 };
		uint32_t first;
		int bad;

		if (pread(r->fd, b, sizeof(b), (off_t)(1 + (uint64_t)r->next) * ENTRY) < 0)
			return -errno;
		if (parse(r, b, r->next, &out[found], &first)) {
			found++;
			r->next++;
			continue;
		}
		bad = lost(r, r->next);
		if (bad < 0)
			return bad;
		if (bad == 0) { /* the torn end, or a batch that is being written */
			r->end = r->next;
			break;
		}
		r->damaged = true;
		r->next++;
	}
	return (int)found;
}

void stub_list_close(struct stub_list_reader *r)
{
	stub_cleanup_close(&r->fd);
	r->fd = -1;
}
