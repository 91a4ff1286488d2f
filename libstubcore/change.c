/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * change.c - what clients do to stubs, in the server process.
 *
 * Invariants 2 (never old over new) and 8 (fill is invisible; docs/design.md) are kept here:
 *   - the inode's exclusion is held from before the operation until the record is
 *     up to date, so no fill stores anything in between;
 *   - data first, then the record.  If we die in between, the write was not
 *     acknowledged and its range is still missing: the source's bytes come;
 *   - the record is stored before the operation too, unchanged, with room for what the
 *     operation may add: a volume that cannot take it says so before anything is done;
 *   - a truncate cuts the file first (loads clip the map to the size), but a map
 *     that disagrees with the size is stored before anything may extend the file;
 *   - of an object that has names to come at the source, the count is raised before a client
 *     gives it another one: if we die in between it is too high, which keeps it from passing for
 *     complete before all of its names have come.  Too low a count would do that;
 *   - times are compared before and after the operation under the exclusion, so
 *     what a fill moved is never taken for what a client moved.
 */
#include <fcntl.h>

#include "internal.h"

static void change_close(struct stub_change *c)
{
	for (unsigned int i = 0; i < c->n; i++) {
		if (c->obj[i].fd >= 0)
			close(stub_steal_fd(&c->obj[i].fd));
		free(c->obj[i].rec);
		c->obj[i].rec = NULL;
	}
	c->n = 0;
}

/* Is it a stub?  Without a lock: the answer "no" is final. */
static int change_look(struct stub_volume *v, struct stub_change_object *o)
{
	int r;

	o->fd = stub_handle_open(v, &o->h, O_PATH);
	if (o->fd < 0)
		return o->fd;
	o->rec = malloc(sizeof(*o->rec));
	if (!o->rec)
		return -ENOMEM;
	r = stub_record_load(v, o->fd, &o->h, &o->before, o->rec);
	if (r == -ENOENT)
		return 0;
	o->stub = r == 0;
	return r;
}

/* Under the exclusion: the record as it is now, on disk too, where it then agrees with
 * the file's size and has room. */
static int change_load(struct stub_volume *v, struct stub_change_object *o, bool only_look)
{
	int r = only_look ? stub_record_load(v, o->fd, &o->h, &o->before, o->rec) :
			    stub_record_load_settled(v, o->fd, &o->h, &o->before, o->rec);

	if (r == -ENOENT) { /* finished while we waited */
		o->stub = false;
		return 0;
	}
	if (r == 0 && !only_look)
		r = stub_record_rehearse(v, o->fd, o->rec);
	return r;
}

static unsigned int change_inodes(const struct stub_change *c, uint64_t *ino)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->n; i++)
		if (c->obj[i].rec)
			ino[n++] = c->obj[i].before.st_ino;
	return n;
}

static void change_unlock(struct stub_change *c)
{
	uint64_t ino[STUB_CHANGE_OBJECTS];
	unsigned int n = c->locked;

	memcpy(ino, c->ino, sizeof(ino));
	c->locked = 0;
	if (n)
		stub_unlock(&c->v->locks, ino, n);
}

static bool change_known(const struct stub_change *c, const struct stub_handle *h)
{
	for (unsigned int i = 0; i < c->n; i++)
		if (stub_handle_equal(&c->obj[i].h, h))
			return true;
	return false;
}

static int begin(struct stub_volume *v, const struct stub_handle *const h[], unsigned int n,
		 bool only_look, struct stub_change *c)
{
	unsigned int k;
	int r = 0;

	if (n > STUB_CHANGE_OBJECTS)
		return -EINVAL;
	memset(c, 0, sizeof(*c));
	c->v = v;
	for (unsigned int i = 0; i < n && r == 0; i++) {
		struct stub_change_object *o = &c->obj[c->n];
		bool look = h[i] && !change_known(c, h[i]);

		c->n++;
		o->fd = -1;
		if (h[i])
			o->h = *h[i];
		if (!look)
			continue;
		r = change_look(v, o);
		if (r == 0 && !o->stub) {
			close(stub_steal_fd(&o->fd));
			free(o->rec);
			o->rec = NULL;
		}
	}
	k = r == 0 ? change_inodes(c, c->ino) : 0;
	if (k) {
		r = stub_lock(&v->locks, c->ino, k, &c->locked);
		for (unsigned int i = 0; i < c->n && r == 0; i++)
			if (c->obj[i].stub)
				r = change_load(v, &c->obj[i], only_look);
	}
	if (r < 0) {
		change_unlock(c);
		change_close(c);
	}
	return r;
}

STUB_PUBLIC int stub_change_begin(struct stub_volume *v, const struct stub_handle *const h[],
				  unsigned int n, struct stub_change *c)
{
	return begin(v, h, n, false, c);
}

STUB_PUBLIC int stub_change_look(struct stub_volume *v, const struct stub_handle *h,
				 struct stub_change *c)
{
	return begin(v, &h, 1, true, c);
}

static struct timespec later(struct timespec a, struct timespec b)
{
	return stub_time_cmp(a, b) < 0 ? b : a;
}

static struct timespec just_after(struct timespec t)
{
	if (++t.tv_nsec >= 1000000000) {
		t.tv_nsec = 0;
		t.tv_sec++;
	}
	return t;
}

/* Names added and removed through every slot that stands for this object. */
static int64_t change_links(const struct stub_change *c, const struct stub_change_object *o)
{
	int64_t sum = 0;

	for (unsigned int i = 0; i < c->n; i++)
		if (stub_handle_equal(&c->obj[i].h, &o->h))
			sum += c->obj[i].links;
	return sum;
}

/* What clients are to see, once the operation is over. */
static uint32_t change_nlink(const struct stub_change *c, const struct stub_change_object *o, int result)
{
	int64_t nlink = (int64_t)o->rec->nlink_shown - o->raised + (result == 0 ? change_links(c, o) : 0);

	return nlink < 0 ? 0 : (uint32_t)nlink;
}

static int change_store(struct stub_change *c, struct stub_change_object *o, int result)
{
	struct stub_record *rec = o->rec;
	struct stat after;
	int r, times = 0;

	if (fstat(o->fd, &after) < 0)
		return -errno;
	if (result < 0 && stub_time_cmp(after.st_mtim, o->before.st_mtim) != 0)
		/* left so, it would pass for a local change: clients are not shown it (local.c) */
		times = stub_times_restore(o->fd, rec);
	if (result == 0) {
		if (stub_time_cmp(after.st_mtim, o->before.st_mtim) != 0)
			rec->mtime = after.st_mtim;
		rec->ctime = later(just_after(rec->ctime), after.st_ctim);
	}
	rec->nlink_shown = change_nlink(c, o, result);
	if (S_ISREG(after.st_mode) && !(rec->flags & STUB_FLAG_DUMMY)) {
		stub_map_clip(&rec->now, (uint64_t)after.st_size);
		stub_map_clip(&rec->durable, (uint64_t)after.st_size);
	}
	r = stub_record_told(stub_record_store_lagging(c->v, o->fd, &o->h, rec));
	if (r == 0 && times < 0) /* store it with room: an operation has not ended (local.c) */
		(void)stub_record_rehearse(c->v, o->fd, rec);
	return r;
}

STUB_PUBLIC int stub_change_end(struct stub_change *c, int result)
{
	int r = 0;

	for (unsigned int i = 0; i < c->n; i++) {
		int one;

		if (!c->obj[i].stub)
			continue;
		one = change_store(c, &c->obj[i], result);
		if (one < 0 && r == 0)
			r = one;
	}
	change_unlock(c);
	change_close(c);
	return r;
}

STUB_PUBLIC void stub_change_drop(struct stub_change *c)
{
	change_unlock(c);
	change_close(c);
}

STUB_PUBLIC bool stub_change_any(const struct stub_change *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		if (c->obj[i].stub)
			return true;
	return false;
}

/* In which slot is object @i?  c->n: it is absent. */
static unsigned int change_index(const struct stub_change *c, unsigned int i)
{
	for (unsigned int k = 0; i < c->n && k < i; k++)
		if (stub_handle_equal(&c->obj[k].h, &c->obj[i].h))
			return k;
	return i < c->n ? i : c->n;
}

static const struct stub_change_object *change_slot(const struct stub_change *c, unsigned int i)
{
	static const struct stub_change_object nothing = { .fd = -1 };
	unsigned int k = change_index(c, i);

	return k < c->n ? &c->obj[k] : &nothing;
}

STUB_PUBLIC unsigned int stub_change_needs(const struct stub_change *c, unsigned int i)
{
	const struct stub_change_object *o = change_slot(c, i);

	return o->stub ? stub_record_needs(o->rec) : 0;
}

STUB_PUBLIC const struct stub_map *stub_change_missing(const struct stub_change *c, unsigned int i)
{
	const struct stub_change_object *o = change_slot(c, i);

	return o->stub ? &o->rec->now : NULL;
}

STUB_PUBLIC void stub_change_links(struct stub_change *c, unsigned int i, int delta)
{
	if (i < c->n)
		c->obj[i].links += delta;
}

STUB_PUBLIC int stub_change_linking(struct stub_change *c, unsigned int i)
{
	unsigned int k = change_index(c, i);
	struct stub_change_object *o;

	if (k == c->n)
		return 0;
	o = &c->obj[k];
	o->links++;
	if (!o->stub || !(o->rec->flags & STUB_FLAG_LINKS))
		return 0;
	o->rec->nlink_shown++;
	o->raised++;
	return stub_record_rehearse(c->v, o->fd, o->rec);
}

STUB_PUBLIC int stub_change_written(struct stub_change *c, unsigned int i, uint64_t offset,
				    uint64_t length)
{
	const struct stub_change_object *o = change_slot(c, i);
	uint64_t end = offset + length < offset ? UINT64_MAX : offset + length;
	int r;

	if (!o->stub || length == 0)
		return 0;
	r = stub_map_subtract(&o->rec->now, offset, end);
	c->crowded |= o->rec->now.n >= STUB_MAP_CROWDED;
	return r;
}

STUB_PUBLIC int stub_change_fits(const struct stub_change *c, unsigned int i, uint64_t offset,
				 uint64_t length)
{
	const struct stub_change_object *o = change_slot(c, i);
	uint64_t end = offset + length < offset ? UINT64_MAX : offset + length;
	struct stub_map now;

	if (!o->stub)
		return 0;
	stub_map_copy(&now, &o->rec->now);
	if (stub_map_subtract(&now, offset, end) < 0)
		return -ENOSPC;
	if (now.n <= o->rec->now.n) /* no more ranges than before */
		return 0;
	return now.n <= STUB_MAP_WRITES && stub_record_fits(o->rec, &now) ? 0 : -ENOSPC;
}

STUB_PUBLIC int stub_change_clear(const struct stub_change *c, unsigned int i, uint64_t offset,
				  uint64_t length)
{
	const struct stub_change_object *o = change_slot(c, i);
	uint64_t end = offset + length < offset ? UINT64_MAX : offset + length;
	int r, fd CLEANUP_CLOSE = -1;

	if (!o->stub || !stub_map_overlaps(&o->rec->now, offset, end))
		return 0;
	fd = stub_handle_open(c->v, &o->h, O_RDWR | O_NONBLOCK);
	r = fd < 0 ? fd : stub_missing_clear(fd, &o->before, o->rec, offset, end);
	return r < 0 ? r : 0;
}
