/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <pthread.h>

#include "nfs_calls.h"

#define FHSIZE 128 /* RFC 7530, NFS4_FHSIZE; of NFSv3 64 */
#define ROOM 70000 /* bytes of one READ; more than the fuzzed FSINFO says */

/* ---- what source.h promises ---- */

static uint8_t seen; /* every byte that came is read: the sanitizer checks them */

static void look_at(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		seen ^= ((const uint8_t *)p)[i];
}

static bool is_error(int r)
{
	static const int errors[] = { -ENOENT, -ESTALE,	   -ENOTDIR,   -EACCES,	      -EBADMSG,
				      -EIO,    -ETIMEDOUT, -ECANCELED, -ENAMETOOLONG, -ENOMEM,
				      -EXDEV };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i] == r)
			return true;
	return false;
}

static void check_origin(const uint8_t *bytes, size_t len)
{
	CHECK(len >= 1 && len <= FHSIZE);
	look_at(bytes, len);
}

static void check_attr(const struct stub_attr *a)
{
	mode_t type = a->mode & S_IFMT;

	CHECK(S_ISREG(type) || S_ISDIR(type) || S_ISLNK(type) || S_ISCHR(type) || S_ISBLK(type) ||
	      S_ISFIFO(type) || S_ISSOCK(type));
	CHECK(!(a->mode & ~(uint32_t)(S_IFMT | 07777)));
	CHECK(a->atime.tv_nsec < 1000000000 && a->mtime.tv_nsec < 1000000000 &&
	      a->ctime.tv_nsec < 1000000000);
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	(void)arg;
	CHECK(n > 0);
	for (size_t i = 0; i < n; i++) {
		if (e[i].error) {
			CHECK(is_error(e[i].error));
			look_at(e[i].name, e[i].name_len);
			continue;
		}
		check_origin(e[i].origin, e[i].origin_len);
		check_attr(&e[i].attr);
		look_at(e[i].name, e[i].name_len);
		CHECK(!memchr(e[i].name, '\0', e[i].name_len));
		CHECK(!(e[i].name_len == 1 && e[i].name[0] == '.'));
		CHECK(!!e[i].target == S_ISLNK(e[i].attr.mode));
		CHECK(!e[i].target || e[i].target_len <= STUB_TARGET_MAX);
		look_at(e[i].target, e[i].target ? e[i].target_len : 0);
	}
	return 0;
}

struct reading {
	pthread_mutex_t lock;
	pthread_cond_t done;
	uint32_t length;
	unsigned int calls;
};

static void on_read(void *arg, const struct source_read *r)
{
	struct reading *d = arg;

	CHECK(r->result <= (int64_t)d->length);
	if (r->result < 0)
		CHECK(is_error((int)r->result));
	else
		look_at(r->data, (size_t)r->result);
	if (r->result >= 0 && r->have_attr)
		check_attr(&r->attr);
	pthread_mutex_lock(&d->lock);
	d->calls++;
	pthread_cond_signal(&d->done);
	pthread_mutex_unlock(&d->lock);
}

static int read_range(struct source *s, const struct stub_origin *o)
{
	struct reading d = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, ROOM, 0 };
	int r = source_read(s, SOURCE_BACKGROUND, o, 1000, ROOM, on_read, &d);

	pthread_mutex_lock(&d.lock);
	while (r == 0 && !d.calls)
		pthread_cond_wait(&d.done, &d.lock);
	pthread_mutex_unlock(&d.lock);
	CHECK(d.calls == (r == 0));
	return r;
}

static int all_of(struct source *s, const struct stub_origin *o, struct stub_attr *attr)
{
	struct source_meta m;
	int r = source_meta(s, SOURCE_DEMAND, o, &m);

	for (size_t i = 0; i < m.n; i++)
		look_at(m.xattrs[i].value, m.xattrs[i].len);
	CHECK(r == 0 || !m.n);
	*attr = m.attr;
	source_meta_free(&m);
	return r == -ENOMEDIUM ? -ESTALE : r; /* the attributes of two calls may be two objects' */
}

static int holes_of(struct source *s, const struct stub_origin *o)
{
	struct source_holes h;
	int r = source_holes(s, SOURCE_BACKGROUND, o, 1000, &h);
	uint64_t at = 1000;

	for (uint32_t i = 0; r == 0 && i < h.n; at = h.hole[i++].end) {
		CHECK(h.hole[i].start >= at && h.hole[i].end > h.hole[i].start);
		CHECK(h.hole[i].end <= h.end && h.end <= h.attr.size);
	}
	free(h.hole);
	return r == -EOPNOTSUPP ? -EIO : r;
}

/* ---- calls ---- */

void nfs_calls_make(struct source *s, unsigned int what)
{
	struct stub_origin o = { 4, "file" }, root = { 4, "root" }, got = { 0 };
	char target[STUB_TARGET_MAX];
	struct stub_attr attr;
	uint32_t granted;
	size_t len;
	int r = 0;

	switch (what) {
	case 0:
		r = source_root(s, &got, &attr);
		break;
	case 1:
		r = source_lookup(s, SOURCE_DEMAND, &root, NULL, "name", 4, &got, &attr);
		break;
	case 2:
		r = source_getattr(s, SOURCE_DEMAND, &o, &attr);
		break;
	case 3:
		r = source_readlink(s, SOURCE_DEMAND, &o, NULL, target, sizeof(target), &len);
		break;
	case 4:
		r = source_access(s, &o, 1000, 0x3f, &granted);
		break;
	case 5:
		r = source_list(s, SOURCE_BACKGROUND, &root, NULL, on_entries, NULL);
		break;
	case 6:
		r = read_range(s, &o);
		break;
	case 7:
		r = all_of(s, &o, &attr);
		break;
	case 8:
		r = holes_of(s, &o);
		break;
	}
	CHECK(r == 0 || is_error(r) || (what == 5 && r == -EAGAIN));
	if (r == 0 && what < 2)
		check_origin(got.bytes, got.len);
	if (r == 0 && (what < 3 || what == 7))
		check_attr(&attr);
	if (r == 0 && what == 3) {
		CHECK(len <= STUB_TARGET_MAX);
		look_at(target, len);
	}
}
