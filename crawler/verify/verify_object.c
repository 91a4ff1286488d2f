/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_object.c - one object of both sides: is it the same, and if not, may that be a
 * client's doing?
 *
 * What clients changed is known by the change time: each change moves it, and nobody sets it
 * back.  Was it moved, then attributes may differ.  Content may if the write time was moved,
 * too; else that is unclear, for the change may have been another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "verify/verify_inside.h"

#define LIST_MAX  65536
#define VALUE_MAX 65536

/* ---- an object of the volume ---- */

static void judge_trust(struct here *h)
{
	h->trust = TRUST_NONE;
	if (!h->noted)
		return;
	if (h->note.changed || time_cmp(h->note.ctime, h->st.st_ctim) != 0)
		h->trust = TRUST_TOUCHED;
	else if (!h->note.unsure)
		h->trust = TRUST_KEPT;
}

static struct timespec time_of(struct statx_timestamp t)
{
	return (struct timespec){ t.tv_sec, t.tv_nsec };
}

/* What is looked at here, in one call. */
static int stat_of(struct here *h)
{
	struct statx x;

	if (statx(h->fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME,
		  &x) < 0)
		return -errno;
	h->st = (struct stat){
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_nlink = x.stx_nlink,
		.st_uid = x.stx_uid,
		.st_gid = x.stx_gid,
		.st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor),
		.st_size = (off_t)x.stx_size,
		.st_blksize = x.stx_blksize,
		.st_blocks = (blkcnt_t)x.stx_blocks,
		.st_atim = time_of(x.stx_atime),
		.st_mtim = time_of(x.stx_mtime),
		.st_ctim = time_of(x.stx_ctime),
	};
	if (x.stx_mask & STATX_BTIME)
		h->born = time_of(x.stx_btime);
	return 0;
}

static int look(struct run *k, struct here *h)
{
	int r = stat_of(h);

	if (r < 0)
		return r;
	if (!h->h.len) {
		if (k->volume_dev != h->st.st_dev)
			return -EXDEV;
		r = stub_handle_of_fd(h->fd, &h->h);
		if (r < 0)
			return r;
	}
	r = stub_marked(h->fd);
	if (r < 0)
		return r;
	h->stub = r > 0;
	h->noted = stub_finished_get(k->v->volume, h->st.st_ino, &h->h, &h->note) == 0;
	judge_trust(h);
	return 0;
}

int here_look(struct run *k, int dir_fd, const char *name, const struct stub_handle *h,
	      struct here *out)
{
	int r;

	memset(out, 0, sizeof(*out));
	if (name) {
		out->fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (out->fd < 0)
			return -errno;
	} else {
		out->h = *h;
		out->fd = stub_handle_open_at(k->volume_fd, h, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (out->fd < 0)
			return out->fd;
	}
	r = look(k, out);
	if (r < 0)
		here_close(out);
	return r;
}

void here_close(struct here *h)
{
	verify_ahead_drop(h);
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

enum trust dir_trust(struct run *k, struct dir *d)
{
	enum trust trust = TRUST_TOUCHED;
	struct here h;

	if (d->here && here_look(k, -1, NULL, &d->h, &h) == 0) {
		trust = h.stub ? TRUST_NONE : h.trust;
		here_close(&h);
	}
	pthread_mutex_lock(&k->lock);
	if (d->trust == TRUST_KEPT)
		d->trust = trust;
	trust = d->trust;
	pthread_mutex_unlock(&k->lock);
	return trust;
}

bool here_younger(const struct here *h, const struct dir *d)
{
	return h->born.tv_sec && d->since.tv_sec && time_cmp(h->born, d->since) > 0;
}

/* ---- attributes ---- */

static unsigned int bit_of(const char *name)
{
	if (!strcmp(name, "security.NTACL") || !strncmp(name, "system.posix_acl_", 17))
		return VERIFY_ACL;
	if (!strncmp(name, "user.DosStream.", 15))
		return VERIFY_STREAM;
	return VERIFY_XATTR;
}

/* What the source has, is it here? */
static unsigned int xattrs_here(const char *path, const struct source_meta *m, char *buf)
{
	unsigned int what = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct stub_xattr *x = &m->xattrs[i];
		ssize_t n = getxattr(path, x->name, buf, VALUE_MAX);

		if (n < 0 || (size_t)n != x->len || memcmp(buf, x->value, x->len))
			what |= bit_of(x->name);
	}
	return what;
}

static bool migrated(const char *name)
{
	return !strncmp(name, "user.", 5) || !strcmp(name, "security.NTACL") ||
	       !strncmp(name, "system.posix_acl_", 17);
}

/* What is here, does the source have it? */
static unsigned int xattrs_there(const char *path, const struct source_meta *m, char *buf)
{
	ssize_t n = listxattr(path, buf, LIST_MAX);
	unsigned int what = 0;

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : VERIFY_XATTR;
	for (const char *name = buf; name < buf + n; name += strlen(name) + 1) {
		bool known = !migrated(name);

		for (size_t i = 0; i < m->n && !known; i++)
			known = !strcmp(name, m->xattrs[i].name);
		what |= known ? 0 : bit_of(name);
	}
	return what;
}

static unsigned int compare_xattrs(const struct here *h, const struct source_meta *m)
{
	char path[32], *buf;
	unsigned int what;

	if (S_ISLNK(h->st.st_mode))
		return 0;
	buf = malloc(LIST_MAX > VALUE_MAX ? LIST_MAX : VALUE_MAX);
	if (!buf)
		return VERIFY_UNREAD;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", h->fd);
	what = xattrs_here(path, m, buf) | xattrs_there(path, m, buf);
	free(buf);
	return what;
}

static unsigned int compare_target(const struct item *i, const struct here *h)
{
	char target[STUB_TARGET_MAX + 1];
	ssize_t n = readlinkat(h->fd, "", target, sizeof(target));

	return n == i->target_len && !memcmp(target, item_target(i), i->target_len) ? 0 :
										      VERIFY_TARGET;
}

/* What a listing tells of an object; of dummies that is not all. */
static unsigned int compare_listed(const struct item *i, const struct here *h)
{
	uint32_t names = i->attr.nlink > 1 ? i->attr.nlink : 1;
	unsigned int what = 0;

	if ((i->attr.mode & S_IFMT) != (h->st.st_mode & S_IFMT))
		return VERIFY_TYPE;
	if (S_ISREG(i->attr.mode) && (uint64_t)h->st.st_size != i->attr.size)
		what |= VERIFY_SIZE;
	if (S_ISLNK(i->attr.mode) && !i->dummy)
		what |= compare_target(i, h);
	if ((S_ISCHR(i->attr.mode) || S_ISBLK(i->attr.mode)) &&
	    h->st.st_rdev != makedev(i->attr.rdev_major, i->attr.rdev_minor))
		what |= VERIFY_DEVICE;
	if (!S_ISDIR(i->attr.mode) && h->st.st_nlink != names && !(h->noted && h->note.split))
		what |= VERIFY_LINKS;
	return what;
}

struct timespec time_expressed(const struct run *k, struct timespec t)
{
	if (t.tv_sec < k->v->time_min)
		t = (struct timespec){ k->v->time_min, 0 };
	if (t.tv_sec >= k->v->time_max)
		t = (struct timespec){ k->v->time_max, t.tv_sec > k->v->time_max ? 0 : t.tv_nsec };
	if (k->v->time_unit > 1)
		t.tv_nsec -= t.tv_nsec % k->v->time_unit;
	return t;
}

static unsigned int compare_attr(const struct run *k, const struct stub_attr *a,
				 const struct timespec *times, const struct here *h)
{
	struct timespec mtime = time_expressed(k, times ? times[1] : a->mtime);
	unsigned int what = 0;

	if (a->uid != h->st.st_uid || a->gid != h->st.st_gid)
		what |= VERIFY_OWNER;
	if (!S_ISLNK(a->mode) && (a->mode & 07777) != (h->st.st_mode & 07777))
		what |= VERIFY_MODE;
	if ((times || !a->time_unsure) && time_cmp(mtime, h->st.st_mtim) != 0)
		what |= VERIFY_MTIME;
	return what;
}

/* ---- all of an object ---- */

struct comparing {
	unsigned int what;
	const char *why;
	bool read;	     /* its content was compared */
	struct verify_digests digests; /* of what was read */
	bool earlier;	     /* and was found right by an earlier run */
	bool stream_touched; /* clients have changed a stream */
};

static int compare_meta(struct run *k, const struct item *i, const struct here *h,
			struct comparing *c)
{
	struct stub_origin o = { .len = i->origin_len };
	struct source_meta m = { 0 };
	int r;

	memcpy(o.bytes, i->bytes, o.len);
	if (!source_has_meta(k->v->source, &i->attr)) {
		c->what |= compare_attr(k, &i->attr, NULL, h) | compare_xattrs(h, &m);
		return 0;
	}
	r = source_meta(k->v->source, SOURCE_DEMAND, &o, &m);
	if (r == 0) {
		c->what |= compare_attr(k, &m.attr, source_meta_times(&m), h) | compare_xattrs(h, &m);
		if (m.n_streams && *k->v->depot)
			r = verify_streams(k, i, h, &m, h->note.ctime, &c->stream_touched);
		if (r > 0) {
			c->what |= VERIFY_STREAM;
			r = 0;
		}
	}
	source_meta_free(&m);
	return r;
}

/* Is there no digest of this version? */
static bool lacks_digest(const struct run *k, const struct item *i, const struct here *h)
{
	struct stub_digest d;

	return k->v->digests && (stub_digest_get(k->v->volume, h->st.st_ino, &h->h, &d) < 0 ||
				 d.size != i->attr.size || time_cmp(d.mtime, i->attr.mtime) != 0);
}

static void keep_digest(struct run *k, const struct item *i, const struct here *h,
			const struct verify_digests *got)
{
	struct stub_digest d = { .size = i->attr.size, .mtime = i->attr.mtime };

	memcpy(d.digest, got->tree, sizeof(d.digest));
	stub_digest_put(k->v->volume, h->st.st_ino, &h->h, &d);
}

static int compare_content(struct run *k, const struct item *i, struct here *h,
			   struct comparing *c)
{
	int r;

	if (!S_ISREG(i->attr.mode) || !i->attr.size ||
	    c->what & (VERIFY_TYPE | VERIFY_SIZE | VERIFY_UNREAD))
		return 0;
	if (h->trust == TRUST_TOUCHED && c->what & VERIFY_MTIME)
		return 0; /* clients have written to it */
	if (h->trust == TRUST_KEPT && h->note.right_in == k->v->number && !k->v->proven) {
		c->earlier = true;
		return 0;
	}
	c->digests = (struct verify_digests){ .plain = k->v->proven, .kept = lacks_digest(k, i, h) };
	r = verify_content(k, i, h, &c->digests, &c->why);
	c->read = r >= 0;
	if (r == 0 && c->digests.kept)
		keep_digest(k, i, h, &c->digests);
	if (r > 0)
		c->what |= VERIFY_CONTENT;
	return r < 0 ? r : 0;
}

static int compare(struct run *k, const struct item *i, struct here *h, bool full,
		   struct comparing *c)
{
	int r = i->error;

	if (r == 0) {
		c->what = compare_listed(i, h);
		if (c->what & VERIFY_TYPE)
			return 0;
		if (full)
			r = compare_meta(k, i, h, c);
		else if (!i->dummy && !source_has_meta(k->v->source, &i->attr))
			c->what |= compare_attr(k, &i->attr, NULL, h);
	}
	if (r == 0 && full)
		r = compare_content(k, i, h, c);
	if (run_fatal(r))
		return r;
	if (r < 0) {
		c->what |= VERIFY_UNREAD;
		c->why = strerror(-r);
	}
	return 0;
}

static enum verify_class classify(struct run *k, struct dir *d, const struct here *h,
				  const struct comparing *c)
{
	if (c->what & VERIFY_UNREAD)
		return VERIFY_UNCLEAR;
	if (h->noted && c->stream_touched && c->what == VERIFY_STREAM)
		return VERIFY_CHANGED;
	if (h->trust == TRUST_KEPT)
		return VERIFY_DIFFERENT;
	if (h->trust == TRUST_TOUCHED)
		return c->what & VERIFY_CONTENT && !(c->what & VERIFY_MTIME) ? VERIFY_UNCLEAR :
									       VERIFY_CHANGED;
	/* it is not what we made in this place */
	if (!h->noted && here_younger(h, d)) {
		enum trust trust = dir_trust(k, d);

		return trust == TRUST_TOUCHED ? VERIFY_CHANGED :
		       trust == TRUST_KEPT    ? VERIFY_DIFFERENT :
						VERIFY_UNCLEAR;
	}
	return VERIFY_UNCLEAR;
}

static void count(struct run *k, const struct item *i, const struct here *h,
		  const struct comparing *c, bool full)
{
	struct verify_counts *n = &k->v->n;

	pthread_mutex_lock(&k->lock);
	n->read += c->read;
	n->bytes += c->read ? i->attr.size : 0;
	n->earlier += c->earlier;
	if (!c->what && full) {
		n->right++;
		n->listed -= i->chosen && k->v->sample && n->listed;
	} else if (!c->what) {
		n->listed++;
	}
	pthread_mutex_unlock(&k->lock);
	if (!c->what && full && h->trust == TRUST_KEPT && c->read)
		stub_finished_right(k->v->volume, h->st.st_ino, k->v->number);
}

/* Was it changed while it was compared?  Then what was known of it before counts no more. */
static int look_again(struct run *k, struct here *h)
{
	struct here now;
	int r = here_look(k, -1, NULL, &h->h, &now);

	if (r < 0)
		return r == -ESTALE ? 1 : r; /* it is gone */
	r = time_cmp(now.st.st_ctim, h->st.st_ctim) != 0;
	if (r) {
		h->st = now.st;
		h->stub = now.stub;
		h->noted = now.noted;
		h->note = now.note;
		h->trust = now.trust;
	}
	here_close(&now);
	return r;
}

const uint8_t verify_empty[VERIFY_DIGEST] = {
	0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
	0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
};

static int tell_proven(struct run *k, const struct dir *d, const struct item *i,
		       const struct here *h, const struct comparing *c, const char *now)
{
	struct verify_proven p = { .st = &h->st };
	char *path = strcmp(item_name(i), ".") ? path_join(d->at ? d->at : d->path, item_name(i)) :
						 strdup(".");

	if (!path)
		return -ENOMEM;
	p.path = now ? now : path;
	p.target = S_ISLNK(i->attr.mode) && !i->dummy ? item_target(i) : NULL;
	if (S_ISREG(i->attr.mode))
		p.sha256 = i->attr.size ? c->digests.sha256 : verify_empty;
	pthread_mutex_lock(&k->lock);
	k->v->proven(k->v->arg, &p);
	pthread_mutex_unlock(&k->lock);
	free(path);
	return 0;
}

static int tell(struct run *k, struct dir *d, const struct item *i, const struct here *h,
		const struct comparing *c, const char *now)
{
	char *path = path_join(d->path, item_name(i));
	char *at = d->at && !now ? path_join(d->at, item_name(i)) : NULL;
	struct verify_found f = { .class = classify(k, d, h, c), .what = c->what,
				  .now = now ? now : at, .why = c->why };

	if (path) {
		f.path = strcmp(item_name(i), ".") ? path : ".";
		f.source_newer = i->attr.ctime.tv_sec > (int64_t)k->created;
		run_tell(k, &f);
	}
	free(at);
	free(path);
	return path ? 0 : -ENOMEM;
}

int verify_object(struct run *k, struct dir *d, struct item *i, struct here *h,
		  const char *now)
{
	bool full = i->chosen || !k->v->sample;
	struct comparing c = { 0 };
	int r, again = 1;

	if (h->stub) {
		run_count(k, &k->v->n.pending, !(i->chosen && k->v->sample));
		return 0;
	}
	for (int tries = 0; again && tries < 3; tries++) {
		c = (struct comparing){ 0 };
		r = compare(k, i, h, full, &c);
		if (r < 0)
			return r;
		again = c.what ? look_again(k, h) : 0;
		if (again < 0)
			return again;
	}
	count(k, i, h, &c, full);
	c.what &= ~i->told;
	if (c.what && !i->chosen)
		i->told = c.what;
	if (!c.what && k->v->proven)
		return tell_proven(k, d, i, h, &c, now);
	return c.what ? tell(k, d, i, h, &c, now) : 0;
}
