/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * list.c - names of an unlisted directory come into being.
 *
 * A batch: stage every inode, journal all that are stubs in one transaction, then
 * link them in (docs/design.md, invariant 4: the handle is in the journal before the name can be
 * seen).  A single name needs no entry: its directory is unlisted and findable.
 *
 * A name that is there already is ours from an earlier try (journalled before it
 * was linked), ours from a look-up (STUB_FLAG_LOOKUPS on the directory: finishing
 * then searches it for stubs and journals them, also those that the source finds
 * but does not list), or a client's, then it wins: clients remove or rename names
 * only in listed directories, so a taken name stays taken.
 *
 * Files that are made whole are no stubs: they are linked in when they are synced, or become
 * stubs after all (docs/decisions/0066).  Never has a name what has neither record nor sync.
 *
 * An entry that the file system refuses does not keep the others away: it is left
 * out, and the directory's record remembers its name (refused.c).
 *
 * In the record of a listed directory nothing is missing.  It is dropped, or kept until the
 * finisher drops it: dropping moves the change time and the size that clients see.  It is kept,
 * too, if the source is also the mirror: the finisher syncs, so its place (places.c) outlives it.
 *
 * Invariant 8: a directory's mtime does not move.  Linking happens under the
 * directory's exclusion and mtime is set back to what its record shows before it
 * is released; the server plugins' brackets hold the same exclusion.
 */
#include <dirent.h>
#include <fcntl.h>

#include "internal.h"

#define BATCH_MAX 1024 /* staged inodes, hence descriptors, at a time */

static void name_of(const struct stub_entry *e, char out[STUB_NAME_MAX + 1])
{
	memcpy(out, e->name, e->name_len);
	out[e->name_len] = '\0';
}

struct batch {
	struct stub_staged staged[BATCH_MAX];
	const struct stub_entry *of[BATCH_MAX];
	const struct stub_entry *full[BATCH_MAX]; /* the same; of a dummy that is made whole, all of it */
	const uint8_t *digest[BATCH_MAX]; /* NULL: not known */
	struct stub_journal_entry entries[BATCH_MAX];
	size_t n_staged, n_entries, n_whole;
	uint64_t n_plain, plain_bytes; /* linked, and miss nothing */
	struct stub_whole *whole;	/* NULL: none */
	struct stub_staging at;
};

/* 0 if the entry is fine, or if it is left out and noted in @refused. */
static int check(const struct stub_object *dir, const struct stub_entry *e,
		 struct stub_refused *refused)
{
	int r = stub_entry_check(dir, e);

	if (r == -EOVERFLOW)
		return 0;
	if (r == -EBADMSG && stub_name_check(e->name, e->name_len) == 0)
		return stub_refused_add(refused, e->name, e->name_len, e->error ? e->error : r);
	return r;
}

static int batch_prepare(struct stub_volume *v, const struct stub_object *dir,
			 const struct stub_entry *e, struct batch *b)
{
	char name[STUB_NAME_MAX + 1];
	struct stat st;
	int r;

	if (e->origin_len > STUB_ORIGIN_MAX)
		return -EOVERFLOW;
	name_of(e, name);
	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		/* a client may have replaced what a look-up made: the provisional file of
		 * its inode is found nowhere else then */
		r = stub_stage_entry(v, e, &b->entries[b->n_entries]);
		b->n_entries += r > 0;
		return r < 0 ? r : 0;
	}
	if (errno != ENOENT)
		return -errno;
	r = stub_stage(v, dir, &b->at, e, &b->staged[b->n_staged]);
	if (r < 0)
		return r;
	if (b->staged[b->n_staged].journalled)
		b->entries[b->n_entries++] = b->staged[b->n_staged].entry;
	b->digest[b->n_staged] = NULL;
	b->full[b->n_staged] = e;
	b->of[b->n_staged++] = e;
	return 0;
}

/* The same, of an entry whose bytes are here; no matter if its name is taken. */
static int batch_prepare_whole(struct stub_volume *v, const struct stub_object *dir,
			       const struct stub_entry *e, const struct stub_entry *full, size_t index,
			       struct batch *b)
{
	const void *data = b->whole->data[index];
	int r = stub_stage_whole(v, dir, &b->at, full, data, &b->staged[b->n_staged]);

	if (r < 0)
		return r;
	b->digest[b->n_staged] = b->whole->digest ? b->whole->digest[index] : NULL;
	b->full[b->n_staged] = full;
	b->of[b->n_staged++] = e;
	b->n_whole++;
	return 0;
}

/* @e could not be made: 0 if that is noted in @refused, else @error. */
static int refuse(struct stub_refused *refused, const struct stub_entry *e, int error)
{
	return stub_refusal(error) ? stub_refused_add(refused, e->name, e->name_len, error) : error;
}

/* Number @i was not synced: @done says why not. */
static int make_stub(struct stub_volume *v, const struct stub_object *dir, struct batch *b, size_t i,
		     int done)
{
	struct stub_staged *s = &b->staged[i];

	if (done == -EAGAIN)
		return stub_staged_hurry(v, dir, b->full[i], s);
	stub_staged_drop(v, s); /* its bytes may be lost */
	return stub_stage(v, dir, &b->at, b->of[i], s);
}

/* Wait for the sync of what was made whole; what has not got it becomes stubs. */
static int batch_sync(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		      struct batch *b, uint64_t ticket, struct stub_refused *refused)
{
	const struct stub_whole *w = b->whole;
	int r, done = stub_syncer_wait(w->syncer, ticket, w->hurry, w->arg);
	size_t before = b->n_entries;

	for (size_t i = 0; i < b->n_staged; i++) {
		struct stub_staged *s = &b->staged[i];

		/* in another era a sync has failed since its bytes were written */
		if (!s->whole || (done == 0 && s->boot == stub_volume_boot(v)))
			continue;
		r = make_stub(v, dir, b, i, done);
		if (r < 0) {
			stub_staged_drop(v, s);
			r = refuse(refused, b->of[i], r);
			if (r < 0)
				return r;
		} else if (s->journalled) {
			b->entries[b->n_entries++] = s->entry;
		}
	}
	if (b->n_entries == before)
		return 0;
	return stub_journal_add(j, b->entries + before, b->n_entries - before);
}

/* The digest of what was made whole, or, in a hurry, a stub that misses nothing; NULL: none. */
static const struct stub_digest *digest_of(const struct batch *b, size_t i, struct stub_digest *d)
{
	const struct stub_attr *a = &b->full[i]->attr;

	if (!b->digest[i])
		return NULL;
	*d = (struct stub_digest){ .size = a->size, .mtime = a->mtime };
	memcpy(d->digest, b->digest[i], STUB_DIGEST);
	return d;
}

/* What has just got its name. */
static void linked(struct stub_volume *v, const struct stub_object *dir, struct batch *b, size_t i,
		   const char *name)
{
	const struct stub_entry *e = b->full[i];
	const struct stub_staged *s = &b->staged[i];
	struct stub_digest d;
	struct stat st;

	if (s->kind == STUB_STAGED_FD && !s->journalled)
		stub_finished_note(v, s->fd, e->attr.fileid, 0, digest_of(b, i, &d));
	else if (!s->journalled)
		stub_finished_name(v, dir->fd, name, e->attr.fileid);
	if (s->here && digest_of(b, i, &d) && fstat(s->fd, &st) == 0)
		stub_digest_put(v, st.st_ino, &s->entry.h, &d);
	if (s->here)
		stub_finisher_add_whole(b->whole->finisher, &s->entry.h);
	if (!s->journalled)
		b->n_plain++;
	if (s->whole) {
		b->whole->files++;
		b->whole->bytes += e->attr.size;
		b->plain_bytes += s->journalled ? 0 : e->attr.size;
	}
}

/* Link what is staged, whole slices at a time so that clients' changes to the
 * directory get their turn. */
static int batch_link(struct stub_volume *v, const struct stub_object *dir, struct batch *b,
		      struct stub_refused *refused)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	char name[STUB_NAME_MAX + 1];
	size_t i = 0;
	struct stat st;
	uint64_t ino;
	int r = 0;

	if (!rec)
		return -ENOMEM;
	while (i < b->n_staged && r == 0) {
		size_t end = i + 128 < b->n_staged ? i + 128 : b->n_staged;

		r = stub_lock_record(v, dir, &ino, &st, rec);
		if (r < 0)
			return r;
		if (!(rec->flags & STUB_FLAG_UNLISTED))
			r = -ENOENT; /* listed by another: clients remove names since then */
		for (; i < end && r == 0; i++) {
			if (b->staged[i].kind == STUB_STAGED_NONE)
				continue; /* refused by batch_sync() */
			name_of(b->of[i], name);
			r = stub_staged_link(v, &b->staged[i], dir->fd, name);
			if (r == 0)
				linked(v, dir, b, i, name);
			if (r < 0)
				r = r == -EEXIST ? 0 : refuse(refused, b->of[i], r);
		}
		if (r == 0)
			r = stub_times_restore(dir->fd, rec);
		stub_unlock(&v->locks, &ino, 1);
	}
	return r;
}

static void batch_drop(struct stub_volume *v, struct batch *b)
{
	for (size_t i = 0; i < b->n_staged; i++)
		stub_staged_drop(v, &b->staged[i]);
	b->n_staged = b->n_entries = b->n_whole = 0;
	b->n_plain = b->plain_bytes = 0;
}

static bool may_be_whole(const struct stub_object *dir, const struct stub_entry *e)
{
	return stub_entry_check(dir, e) == 0 && S_ISREG(e->attr.mode) && e->attr.size > 0 &&
	       !e->dummy && !stub_entry_linked(e);
}

/* Stage @e, number @index of the list; with its bytes if they are here. */
static int batch_add(struct stub_volume *v, const struct stub_object *dir, const struct stub_entry *e,
		     size_t index, struct batch *b, struct stub_refused *refused)
{
	bool data = b->whole && b->whole->data[index];
	const struct stub_entry *full = data && e->dummy && b->whole->full ? b->whole->full[index] : e;
	int r;

	if (stub_entry_check(dir, e) == -EBADMSG)
		return 0;
	/* no room for it, or whatever it is: without its bytes it may do */
	if (data && full && may_be_whole(dir, full) &&
	    batch_prepare_whole(v, dir, e, full, index, b) == 0)
		return 0;
	r = batch_prepare(v, dir, e, b);
	return r < 0 ? refuse(refused, e, r) : 0;
}

/* All is staged: make it findable, durable, and then visible. */
static int batch_end(struct stub_volume *v, struct stub_journal *j, const struct stub_object *dir,
		     struct batch *b, struct stub_refused *refused)
{
	uint64_t ticket = b->n_whole ? stub_syncer_ask(b->whole->syncer) : 0;
	int r = b->n_entries ? stub_journal_add(j, b->entries, b->n_entries) : 0;

	if (r == 0 && b->n_whole)
		r = batch_sync(v, j, dir, b, ticket, refused);
	for (size_t i = 0; i < b->n_staged && r == 0; i++) {
		if (!stub_place_alone(v, &b->staged[i]))
			continue;
		r = stub_place_sync(v); /* one for all of them */
		break;
	}
	return r == 0 ? batch_link(v, dir, b, refused) : r;
}

STUB_PUBLIC int stub_list_whole(struct stub_volume *v, struct stub_journal *j,
				const struct stub_object *dir, const struct stub_entry *e, size_t n,
				struct stub_whole *w, struct stub_refused *refused, size_t *bad)
{
	struct batch *b CLEANUP_FREE = NULL;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		*bad = i;
		r = check(dir, &e[i], refused);
		if (r < 0)
			return r;
	}
	r = 0;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->whole = w;
	b->at.fd = -1;
	for (size_t i = 0; i < n && r == 0;) {
		size_t end = n - i > BATCH_MAX ? i + BATCH_MAX : n;

		for (; i < end && r == 0; i++) {
			*bad = i;
			r = batch_add(v, dir, &e[i], i, b, refused);
		}
		if (r == 0)
			r = batch_end(v, j, dir, b, refused);
		stub_journal_plain(j, b->n_plain, b->plain_bytes);
		batch_drop(v, b);
	}
	stub_staging_close(&b->at);
	return r;
}

STUB_PUBLIC int stub_list_batch(struct stub_volume *v, struct stub_journal *j,
				const struct stub_object *dir, const struct stub_entry *e, size_t n,
				struct stub_refused *refused, size_t *bad)
{
	return stub_list_whole(v, j, dir, e, n, NULL, refused, bad);
}

/* The journal entry of the stub called @name: 1; 0 if it is none. */
static int found_entry(struct stub_volume *v, int dir_fd, const char *name,
		       struct stub_journal_entry *out)
{
	int r, fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stat st;

	if (!rec)
		return -ENOMEM;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	memset(out, 0, sizeof(*out));
	r = stub_handle_of_fd(fd, &out->h);
	if (r == 0)
		r = stub_record_load(v, fd, &out->h, &st, rec);
	if (r == -ENOENT)
		return 0; /* normal, or a client's */
	if (r < 0 && r != -EBADMSG) /* a damaged one is journalled too, to be parked */
		return r;
	out->kind = S_ISDIR(st.st_mode) ? STUB_JOURNAL_DIR : STUB_JOURNAL_FILE;
	out->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	out->mtime = st.st_mtim.tv_sec;
	return 1;
}

/* Journal every stub that is in the directory now. */
static int journal_found(struct stub_volume *v, struct stub_journal *j, int dir_fd)
{
	struct stub_journal_entry *e CLEANUP_FREE = calloc(BATCH_MAX, sizeof(*e));
	/* the directory's access time is the source's until a client reads it */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
	struct dirent *d;
	size_t n = 0;
	DIR *dir;
	int r = 0;

	dir = fd >= 0 && e ? fdopendir(fd) : NULL;
	if (!dir) {
		r = e ? -errno : -ENOMEM;
		stub_cleanup_close(&fd);
		return r;
	}
	while (r >= 0 && (d = readdir(dir))) {
		if (stub_name_check(d->d_name, strlen(d->d_name)) < 0)
			continue;
		r = found_entry(v, fd, d->d_name, &e[n]);
		if (r > 0 && ++n == BATCH_MAX) {
			r = stub_journal_add(j, e, n);
			n = 0;
		}
	}
	if (r >= 0 && n)
		r = stub_journal_add(j, e, n);
	closedir(dir);
	return r < 0 ? r : 0;
}

/* Store the record of a directory that is listed, or drop it if nothing is left in it. */
static int close_record(struct stub_volume *v, int fd, const struct stub_record *rec,
			bool keep)
{
	int r = rec->flags || keep ? stub_record_store(v, fd, rec) : -ENOENT;

	if (r == 0 || rec->flags)
		return r;
	r = stub_record_drop(fd); /* works on a full volume too */
	if (r == 0)
		stub_finished_record(v, fd, rec, false);
	return r;
}

/* One try: 0 done, 1 look-ups have made names that must be journalled first. */
static int list_close(struct stub_volume *v, const struct stub_object *dir,
		      const struct stub_refused *refused, bool searched, bool keep,
		      struct stub_record *rec)
{
	struct stat st;
	uint64_t ino;
	int r = stub_lock_record(v, dir, &ino, &st, rec);

	if (r == -ENOENT)
		return 0; /* listed already */
	if (r < 0)
		return r;
	if (!(rec->flags & STUB_FLAG_UNLISTED)) {
		r = 0; /* likewise, and it has a record for another reason */
	} else if ((rec->flags & STUB_FLAG_LOOKUPS_NEW) ||
		   ((rec->flags & STUB_FLAG_LOOKUPS) && !searched)) {
		rec->flags &= (uint16_t)~STUB_FLAG_LOOKUPS_NEW;
		r = stub_record_store(v, dir->fd, rec);
		r = r < 0 ? r : 1;
	} else {
		rec->flags &= (uint16_t)~(STUB_FLAG_UNLISTED | STUB_FLAG_LOOKUPS);
		if (refused->len) {
			rec->flags |= STUB_FLAG_REFUSED;
			rec->refused = *refused;
		}
		r = stub_times_restore(dir->fd, rec);
		if (r == 0)
			r = close_record(v, dir->fd, rec, keep);
		if ((r == -E2BIG || r == -EOVERFLOW) && refused->error)
			r = refused->error; /* the origin is so long that the names do not fit */
	}
	stub_unlock(&v->locks, &ino, 1);
	return r;
}

STUB_PUBLIC int stub_list_finish(struct stub_volume *v, struct stub_journal *j,
				 const struct stub_object *dir, const struct stub_refused *refused,
				 bool keep)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	bool searched = false;
	int r;

	if (!rec)
		return -ENOMEM;
	while ((r = list_close(v, dir, refused, searched, keep || v->way_back, rec)) == 1) {
		r = journal_found(v, j, dir->fd);
		if (r < 0)
			return r;
		searched = true;
	}
	if (r == 0) /* ATTRS will do: nobody has been shown its names yet */
		stub_news_post(v, &dir->h, STUB_NEWS_ATTRS);
	return r;
}

/* Under the exclusion: remember in the record that a look-up makes a name here. */
static int note_lookup(struct stub_volume *v, const struct stub_object *dir,
		       struct stub_record *rec)
{
	const uint16_t both = STUB_FLAG_LOOKUPS | STUB_FLAG_LOOKUPS_NEW;

	if ((rec->flags & both) == both)
		return 0;
	rec->flags |= both;
	return stub_record_store(v, dir->fd, rec);
}

/* Under the exclusion.  While the directory is unlisted no name was ever removed from it, so
 * none comes back by this. */
static int make_locked(struct stub_volume *v, const struct stub_object *dir,
		       const struct stub_entry *e, const char *name, struct stub_record *rec,
		       struct stub_staging *at, struct stub_staged *s)
{
	int r = 0;

	if (!(rec->flags & STUB_FLAG_UNLISTED))
		return 0;
	if (s->kind == STUB_STAGED_NONE)
		r = stub_stage(v, dir, at, e, s);
	if (r == 0)
		r = note_lookup(v, dir, rec);
	if (r == 0)
		r = stub_staged_link(v, s, dir->fd, name);
	if (r == 0 && !s->journalled)
		stub_finished_name(v, dir->fd, name, e->attr.fileid);
	return r == -EEXIST ? 0 : r;
}

STUB_PUBLIC int stub_make_entry(struct stub_volume *v, const struct stub_object *dir,
				const struct stub_entry *e)
{
	struct stub_record *rec CLEANUP_FREE = malloc(sizeof(*rec));
	struct stub_staging at CLEANUP_STAGING = { .fd = -1 };
	struct stub_staged s = { .kind = STUB_STAGED_NONE, .fd = -1 };
	char name[STUB_NAME_MAX + 1];
	struct stat st;
	uint64_t ino;
	int r;

	if (!rec)
		return -ENOMEM;
	r = stub_entry_check(dir, e);
	if (r < 0)
		return r;
	name_of(e, name);
	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	/* What has several names is staged under the exclusion: its provisional file stays
	 * whatever becomes of this name, so none may be made after the directory was
	 * listed.  The inode may be complete by then, and nobody would remove the file. */
	if (!stub_entry_linked(e))
		r = stub_stage(v, dir, &at, e, &s);
	if (r == 0 && stub_place_alone(v, &s))
		r = stub_place_sync(v);
	if (r < 0)
		return r;
	r = stub_lock_record(v, dir, &ino, &st, rec);
	if (r == 0) {
		r = make_locked(v, dir, e, name, rec, &at, &s);
		if (r == 0)
			r = stub_times_restore(dir->fd, rec);
		stub_unlock(&v->locks, &ino, 1);
	} else if (r == -ENOENT) {
		r = 0; /* listed meanwhile: whatever is there now is right */
	}
	stub_staged_drop(v, &s);
	return r;
}
