/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_names.c - names and attributes: LOOKUP, LIST, ATTR.
 */
#include <inttypes.h>
#include <stdio.h>

#include "jobs_internal.h"

/* A name as it may be shown in a log line or a reason. */
static void printable(const char *name, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 5 < size; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c < 0x20 || c > 0x7e || c == '\\')
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	out[n] = '\0';
}

/* @name as the old server has it; @origin and @target are where @e keeps its own.  -ENOENT
 * also for a name that is too long over there. */
static int lookup_entry(struct jobs *j, struct job *job, const struct stub_object *dir,
			const char *name, size_t len, struct stub_entry *e,
			struct stub_origin *origin, char *target)
{
	const struct source_id as = { dir->fsid, dir->fileid };
	struct source_id own;
	int r = source_lookup(j->c.source, job_priority(job), &dir->origin, &as, name, len, origin,
			      &e->attr);

	if (r < 0)
		return r == -ENAMETOOLONG ? -ENOENT : r;
	e->name = name;
	e->name_len = len;
	e->origin = origin->bytes;
	e->origin_len = origin->len;
	e->inode = source_inode(j->c.source, origin, &e->inode_len);
	e->dummy = source_has_meta(j->c.source, e->attr.mode);
	if (!S_ISLNK(e->attr.mode))
		return 0;
	e->target = target;
	own = (struct source_id){ e->attr.fsid, e->attr.fileid };
	return source_readlink(j->c.source, job_priority(job), origin, &own, target,
			       STUB_TARGET_MAX, &e->target_len);
}

int job_lookup(struct jobs *j, struct job *job)
{
	char target[STUB_TARGET_MAX];
	struct stub_origin origin;
	struct stub_entry e = { 0 };
	struct stub_object dir;
	bool refused = false, local = false;
	int r = stub_object_open(j->c.volume, &job->h, &dir);

	if (r == -ENOENT)
		return 0; /* listed by now */
	if (r == -ESTALE)
		return r;
	if (r < 0)
		return jobs_failed(j, &job->h, r, "stub record of a directory");
	if (!(dir.needs & STUB_NEEDS_ENTRIES)) {
		stub_object_close(&dir);
		return 0;
	}
	if (absent_known(&j->absent, job->hash, &job->h, job->name, job->name_len)) {
		stub_object_close(&dir);
		return -ENOENT;
	}
	r = lookup_entry(j, job, &dir, job->name, job->name_len, &e, &origin, target);
	refused = r == -EOVERFLOW;
	if (r == -ENOENT)
		absent_remember(&j->absent, job->hash, &job->h, job->name, job->name_len);
	if (r == 0) {
		r = stub_make_entry(j->c.volume, &dir, &e);
		local = r < 0;
		if (r == 0)
			atomic_fetch_add(&j->entries, 1);
		refused = stub_refusal(r);
	}
	stub_object_close(&dir);
	if (r < 0 && r != -ENOENT) {
		char name[64], what[128];

		printable(job->name, job->name_len, name, sizeof(name));
		snprintf(what, sizeof(what), "look-up of \"%s\"", name);
		if (!refused)
			return local ? jobs_store_failed(j, &job->h, r, what) :
				       jobs_failed(j, &job->h, r, what);
		/* no failure of the directory; its listing will keep the books */
		jobs_log(j, STUB_LOG_INFO, "%s: refused here: %s", what, strerror(-r));
		return -EREMOTEIO;
	}
	return r;
}

/* Is @h, which has just been listed or tried again, without some of its names?  Then it
 * is parked, and they are said.  @error: why the last one was refused.  0 or -EREMOTEIO. */
static int check_refused(struct jobs *j, const struct stub_handle *h, int error)
{
	struct stub_refused refused;
	char name[64], what[STUB_REASON_MAX + 1];
	const char *p;
	size_t at = 0, len;
	unsigned int n = 0;
	int r = stub_refused_load(j->c.volume, h, &refused);

	if (r < 0)
		return r == -ESTALE ? 0 : jobs_failed(j, h, r, "refused names");
	if (!refused.len)
		return 0;
	while (stub_refused_next(&refused, &at, &p, &len)) {
		printable(p, len, name, sizeof(name));
		jobs_log(j, STUB_LOG_WARN, "entry \"%s\" of a directory: refused", name);
		n++;
	}
	snprintf(what, sizeof(what),
		 n > 1 ? "refused here: entry \"%s\" (%u names in all)" :
			 "refused here: entry \"%s\"",
		 name, n);
	return jobs_park(j, h, error, what);
}

struct listing {
	struct jobs *j;
	struct job *job;
	const struct stub_object *dir;
	uint64_t n;
	char bad[64]; /* name of the entry that failed */
	bool done; /* by another job, while this one began */
	struct stub_refused refused;
	bool local; /* it was our volume that failed */
};

static int list_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct listing *l = arg;
	size_t bad = 0;
	int r;

	if (atomic_load(&l->j->stopping))
		return -ECANCELED;
	r = stub_list_batch(l->j->c.volume, l->j->c.journal, l->dir, e, n, &l->refused, &bad);
	if (r == -ENOENT) {
		l->done = true;
		return -ECANCELED;
	}
	l->local = r < 0;
	if (r < 0 && bad < n)
		printable(e[bad].name, e[bad].name_len, l->bad, sizeof(l->bad));
	if (r == 0) {
		l->n += n;
		atomic_fetch_add(&l->j->entries, n);
	}
	return r;
}

int job_list(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct listing l = { .j = j, .job = job, .dir = o };
	const struct source_id as = { o->fsid, o->fileid };
	int r = source_list(j->c.source, job_priority(job), &o->origin, &as, list_entries, &l);

	if (l.done)
		return 0;
	if (r == 0) {
		r = stub_list_finish(j->c.volume, j->c.journal, o, &l.refused);
		l.local = r < 0;
	}
	if (r < 0) {
		char what[128];

		if (l.bad[0])
			snprintf(what, sizeof(what), "listing, entry \"%s\"", l.bad);
		else
			snprintf(what, sizeof(what), "listing a directory");
		return l.local ? jobs_store_failed(j, &job->h, r, what) :
				 jobs_failed(j, &job->h, r, what);
	}
	if (l.refused.len)
		check_refused(j, &job->h, l.refused.error);
	jobs_stored(j);
	return 0; /* it is listed */
}

/* A name is to be removed: that makes room, so it may have the last there is. */
int job_leave(struct jobs *j, struct job *job, struct stub_object *o)
{
	int r = job_list(j, job, o);

	return r == -ENOSPC && reserve_release(&j->reserve) ? job_list(j, job, o) : r;
}

int job_refused(struct jobs *j, struct job *job, struct stub_object *o)
{
	char target[STUB_TARGET_MAX], shown[64], what[128];
	struct stub_refused names;
	struct stub_origin origin;
	const char *name = "";
	size_t at = 0, len = 0;
	int error = 0, r = stub_refused_load(j->c.volume, &job->h, &names);

	while (r == 0 && stub_refused_next(&names, &at, &name, &len)) {
		struct stub_entry e = { 0 };

		if (atomic_load(&j->stopping))
			return -EAGAIN;
		r = lookup_entry(j, job, o, name, len, &e, &origin, target);
		if (r < 0 && r != -ENOENT && r != -EOVERFLOW)
			break;
		if (r != -EOVERFLOW)
			r = stub_refused_make(j->c.volume, j->c.journal, o, name, len,
					      r == 0 ? &e : NULL);
		if (stub_refusal(r)) {
			error = r;
			r = 0;
		}
	}
	if (r == 0 || r == -ENOENT || r == -ESTALE) /* the directory may have gone */
		return check_refused(j, &job->h, error);
	printable(name, len, shown, sizeof(shown));
	snprintf(what, sizeof(what), "refused entry \"%s\"", shown);
	return jobs_failed(j, &job->h, r, what);
}

/* Never silently: each line of it with the object's path over there. */
static void tell_lost(struct jobs *j, const struct stub_origin *o, const char *lost)
{
	char path[STUB_ORIGIN_MAX + 1];
	size_t len;

	for (len = 0; len < o->len; len++)
		path[len] = o->bytes[len] < ' ' ? '?' : (char)o->bytes[len];
	path[len] = '\0';
	for (; *lost; lost += len + (lost[len] == '\n')) {
		len = strcspn(lost, "\n");
		atomic_fetch_add(&j->lost, 1);
		jobs_log(j, STUB_LOG_WARN, "\"%s\": not kept: %.*s", path, (int)len, lost);
	}
}

struct turn {
	struct jobs *j;
	struct job *job;
};

static void wait_turn(void *arg, uint64_t bytes)
{
	const struct turn *t = arg;

	jobs_wait_turn(t->j, t->job, bytes);
}

/* Attributes and what goes with them, fetched and stored.  0, or what the waiters get. */
static int bring_attr(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct source_meta m;
	char what[128] = "attributes";
	struct turn turn = { j, job };
	struct depot_job fetch = { .source = j->c.source, .p = job_priority(job), .o = o, .m = &m,
				   .turn = wait_turn, .arg = &turn };
	struct depot_item *streams = NULL;
	size_t bad = 0;
	int r = source_meta(j->c.source, job_priority(job), &o->origin, &m);
	bool local = false;

	if (r == 0 && j->c.depot) {
		snprintf(what, sizeof(what), "streams");
		r = depot_fetch(j->c.depot, &fetch, &streams);
		local = fetch.local;
	}
	if (r == 0) {
		local = true;
		snprintf(what, sizeof(what), "attributes");
		r = stub_fill_attr_and(j->c.volume, o, &m.attr, source_meta_times(&m), m.xattrs,
				       m.n, &bad, depot_place, streams);
	} else {
		bad = m.n;
	}
	depot_item_free(streams);
	if (local && r < 0 && bad < m.n)
		snprintf(what, sizeof(what), "attribute %.80s of %zu bytes", m.xattrs[bad].name,
			 m.xattrs[bad].len);
	if (r == 0 && m.lost)
		tell_lost(j, &o->origin, m.lost);
	source_meta_free(&m);
	if (r == -ESTALE)
		return jobs_conflict(j, &job->h, "the object has been replaced on the old server");
	if (r < 0)
		return local ? jobs_store_failed(j, &job->h, r, what) :
			       jobs_failed(j, &job->h, r, what);
	return 0;
}

int job_attr(struct jobs *j, struct job *job, struct stub_object *o)
{
	int r = bring_attr(j, job, o);

	if (r < 0)
		return r;
	stub_object_close(o);
	r = stub_object_open(j->c.volume, &job->h, o);
	if (r == -ENOENT || r == -ESTALE) {
		*o = (struct stub_object){ .h = job->h, .fd = -1 };
		return 0;
	}
	return r < 0 ? jobs_failed(j, &job->h, r, "stub record") : 0;
}

int jobs_changed(const struct stub_object *o, const struct stub_attr *a, char *why, size_t size)
{
	if ((a->mode & S_IFMT) != o->type || a->fileid != o->fileid || a->fsid != o->fsid)
		snprintf(why, size, "replaced on the old server: file id %" PRIu64 " -> %" PRIu64,
			 o->fileid, a->fileid);
	else if (a->size != o->size)
		snprintf(why, size, "changed on the old server: size %" PRIu64 " -> %" PRIu64
			 " bytes", o->size, a->size);
	else if (a->mtime.tv_sec != o->mtime.tv_sec || a->mtime.tv_nsec != o->mtime.tv_nsec)
		snprintf(why, size, "changed on the old server: mtime %lld.%09ld -> %lld.%09ld",
			 (long long)o->mtime.tv_sec, o->mtime.tv_nsec,
			 (long long)a->mtime.tv_sec, a->mtime.tv_nsec);
	else
		return 0;
	return 1;
}

bool jobs_touched(const struct stub_object *o, const struct stub_attr *a)
{
	return a->ctime.tv_sec != o->ctime.tv_sec || a->ctime.tv_nsec != o->ctime.tv_nsec;
}
