/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * job_names.c - names and attributes: LOOKUP, LIST, ATTR.
 */
#include <limits.h>
#include <stdio.h>

#include "jobs/job_whole.h"

#define LIST_TRIES 4 /* of a listing that the old server breaks off */

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
	e->dummy = source_has_meta(j->c.source, &e->attr);
	if (!S_ISLNK(e->attr.mode))
		return 0;
	e->target = target;
	own = (struct source_id){ e->attr.fsid, e->attr.fileid };
	return source_readlink(j->c.source, job_priority(job), origin, &own, target,
			       STUB_TARGET_MAX, &e->target_len);
}

/* The first one is told, all are counted. */
static void count_loss(struct jobs *j, atomic_uint_fast64_t *count, const char *what,
		       const char *name, size_t len)
{
	char shown[64];

	if (atomic_fetch_add(count, 1))
		return;
	stub_printable(name, len, shown, sizeof(shown));
	jobs_log(j, STUB_LOG_WARN,
		 "\"%s\": %s. Further ones are only counted; \"postcopy init --check --names\" "
		 "lists them",
		 shown, what);
}

/* Attributes of the object called @name were stored: count what was lost with them. */
static void count_losses(struct jobs *j, const struct stub_attr *a, const char *name, size_t len)
{
	if (a->acl)
		count_loss(j, &j->n.acls,
			   "not kept: its ACL; its mode gives nobody more than the ACL did", name,
			   len);
	if (a->acl_near)
		count_loss(j, &j->n.near,
			   "its NFSv4 ACL has come as the nearest POSIX ACL, which gives nobody "
			   "more",
			   name, len);
	if (a->time_unsure)
		count_loss(j, &j->n.times,
			   "a time after 2038, or before 1970: NFSv3 does not say which, it is taken "
			   "for the former", name, len);
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
	if (jobs_doubted(j, r) || (r == -ESTALE && jobs_repaired(j, &job->h)))
		r = -EAGAIN;
	refused = r == -EOVERFLOW;
	if (r == -ENOENT)
		absent_remember(&j->absent, job->hash, &job->h, job->name, job->name_len);
	if (r == 0) {
		r = stub_make_entry(j->c.volume, &dir, &e);
		local = r < 0;
		if (r == 0) {
			atomic_fetch_add(&j->n.entries, 1);
			if (!e.dummy)
				count_losses(j, &e.attr, job->name, job->name_len);
		}
		refused = stub_refusal(r);
	}
	stub_object_close(&dir);
	if (r < 0 && r != -ENOENT) {
		char name[64], what[128];

		stub_printable(job->name, job->name_len, name, sizeof(name));
		snprintf(what, sizeof(what), "look-up of \"%s\"", name);
		if (local && !refused)
			return jobs_store_failed(j, &job->h, FULL_NAMES, r, what);
		if (!refused && !source_entrys_own(r))
			return jobs_failed(j, &job->h, r, what);
		/* no failure of the directory; its listing will keep the books */
		jobs_log(j, STUB_LOG_INFO, "%s: %s: %s", what,
			 refused ? "refused here" : "the old server says", strerror(-r));
		return -EREMOTEIO;
	}
	return r;
}

/* Were names of @h refused, which has just been listed or tried again?  Then it is parked, and
 * the names are logged.  @error: why the last one was refused, by the old server (@theirs) or by
 * the new file system.  0 or -EREMOTEIO. */
static int check_refused(struct jobs *j, const struct stub_handle *h, int error, bool theirs)
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
		stub_printable(p, len, name, sizeof(name));
		jobs_log(j, STUB_LOG_WARN, "entry \"%s\" of a directory: left out", name);
		n++;
	}
	snprintf(what, sizeof(what),
		 n > 1 ? "%s: entry \"%s\" (%u names in all)" : "%s: entry \"%s\"",
		 theirs ? "not to be had" : "refused here", name, n);
	return jobs_park(j, h, error, what);
}

struct listing {
	struct jobs *j;
	struct job *job;
	const struct stub_object *dir;
	uint64_t n;
	bool theirs; /* there are entries of which the old server tells nothing */
	bool believe; /* ... also in a second listing: they go into refused */
	char bad[64]; /* name of the entry that failed */
	bool done; /* by another job, while this one began */
	struct stub_refused refused;
	bool local; /* it was our volume that failed */
	struct tree_content content;
	struct whole *whole; /* NULL: nothing is made whole */
};

static void count_content(struct tree_content *c, const struct stub_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double part = e[i].attr.nlink > 1 ? 1.0 / e[i].attr.nlink : 1;

		if (S_ISDIR(e[i].attr.mode))
			c->dirs++;
		else
			c->files += part;
		if (S_ISREG(e[i].attr.mode))
			c->bytes += (double)e[i].attr.size * part;
	}
}

static int make_batch(struct listing *l, const struct stub_entry *e, size_t n, struct stub_whole *w)
{
	size_t bad = 0;
	int r = stub_list_whole(l->j->c.volume, l->j->c.journal, l->dir, e, n, w, &l->refused, &bad);

	if (r == -ENOENT) {
		l->done = true;
		return -ECANCELED;
	}
	l->local = r < 0;
	if (r < 0 && bad < n)
		stub_printable(e[bad].name, e[bad].name_len, l->bad, sizeof(l->bad));
	if (r == 0) {
		for (size_t i = 0; i < n; i++)
			if (!e[i].dummy && !e[i].error)
				count_losses(l->j, &e[i].attr, e[i].name, e[i].name_len);
		l->n += n;
		count_content(&l->content, e, n);
		atomic_fetch_add(&l->j->n.entries, n);
	}
	return r;
}

static int make_entries(struct listing *l, const struct stub_entry *e, size_t n)
{
	struct stub_whole w;
	int r = 0;

	while (r == 0 && n && l->whole && jobs_whole_wanted(l->whole)) {
		size_t some = jobs_whole_fetch(l->whole, l->dir->fd, e, n, &w);

		r = make_batch(l, e, some, &w);
		jobs_whole_made(l->whole, &w);
		e += some;
		n -= some;
	}
	return r == 0 && n ? make_batch(l, e, n, NULL) : r;
}

/* Make entries; those of which the old server tells nothing are left out, see list_all(). */
static int make_told(struct listing *l, const struct stub_entry *e, size_t n)
{
	struct stub_entry *told = malloc(n * sizeof(*told));
	size_t n_told = 0;
	int r;

	if (!told)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!e[i].error)
			told[n_told++] = e[i];
	r = make_entries(l, told, n_told);
	free(told);
	return r;
}

static int list_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct listing *l = arg;
	bool odd = false;

	if (atomic_load(&l->j->stopping))
		return -ECANCELED;
	for (size_t i = 0; i < n; i++)
		odd = odd || e[i].error;
	l->theirs = l->theirs || odd;
	return odd && !l->believe ? make_told(l, e, n) : make_entries(l, e, n);
}

static int list_as(struct jobs *j, struct job *job, const struct stub_object *o,
		   source_entries_fn fn, void *arg)
{
	const struct source_id as = { o->fsid, o->fileid };

	return source_list(j->c.source, job_priority(job), &o->origin, &as, fn, arg);
}

struct seeking {
	struct jobs *j;
	const struct stub_refused *names;
	struct stub_refused *seen;
};

static int seek_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct seeking *s = arg;

	if (atomic_load(&s->j->stopping))
		return -ECANCELED;
	for (size_t i = 0; i < n; i++)
		if (stub_refused_contains(s->names, e[i].name, e[i].name_len))
			stub_refused_add(s->seen, e[i].name, e[i].name_len,
					 e[i].error ? e[i].error : -ESTALE);
	return 0;
}

/*
 * The old server has listed @names, and then said that they do not exist.  List again: names
 * that come again are put into @seen; one that does not was removed there between two calls.
 */
static int still_listed(struct jobs *j, struct job *job, const struct stub_object *o,
			const struct stub_refused *names, struct stub_refused *seen)
{
	struct seeking s = { j, names, seen };

	return list_as(j, job, o, seek_entries, &s);
}

/* One listing, begun again up to LIST_TRIES times if the old server breaks it off. */
static int list_once(struct listing *l)
{
	int r = -EAGAIN;

	for (unsigned int i = 0; i < LIST_TRIES && r == -EAGAIN; i++) {
		l->refused.len = 0;
		l->content = (struct tree_content){ 0 };
		l->theirs = false;
		r = list_as(l->j, l->job, l->dir, list_entries, l);
	}
	return r;
}

/*
 * An entry of which the old server tells nothing may have been removed a moment after it was
 * listed, or the whole source is away.  So it is only believed if a second listing has
 * it, too, from a source that is well.
 */
static int list_all(struct listing *l)
{
	int r = list_once(l);

	if (r == 0 && l->theirs && (r = source_verify(l->j->c.source)) == 0) {
		l->believe = true;
		r = list_once(l);
		if (r == 0 && l->theirs)
			r = source_verify(l->j->c.source);
	}
	return r;
}

static int list_failed(struct listing *l, int error)
{
	const struct stub_handle *h = &l->job->h;
	char what[128];

	if (error == -EAGAIN && !l->local) {
		snprintf(what, sizeof(what), "listing a directory: broken off by the old server "
			 "%d times (BAD_COOKIE, NOT_SYNC)", LIST_TRIES);
		return jobs_park(l->j, h, -EPROTO, what);
	}
	if (l->bad[0])
		snprintf(what, sizeof(what), "listing, entry \"%s\"", l->bad);
	else
		snprintf(what, sizeof(what), "listing a directory");
	return l->local ? jobs_store_failed(l->j, h, FULL_NAMES, error, what) :
			  jobs_failed(l->j, h, error, what);
}

int job_list(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct listing l = { .j = j, .job = job, .dir = o, .whole = jobs_whole_begin(j, job, o) };
	int r = list_all(&l);

	jobs_whole_end(l.whole, job);
	if (l.done)
		return 0;
	if (r == 0) {
		r = stub_list_finish(j->c.volume, j->c.journal, o, &l.refused,
				     stub_finisher_keeps(j->c.finisher, &job->h));
		l.local = r < 0;
	}
	if (r < 0)
		return list_failed(&l, r);
	if (l.refused.len)
		check_refused(j, &job->h, l.refused.error,
			      l.theirs || l.refused.error == -EBADMSG);
	treestat_note(&j->tree, o->depth, &l.content);
	jobs_stored(j, FULL_NAMES);
	if (!job->background) /* a client's: the crawler lists too many to try after each */
		full_hint(&j->full);
	return 0; /* it is listed */
}

/* A name is to be removed, which makes room: so the listing may use the reserved room. */
int job_leave(struct jobs *j, struct job *job, struct stub_object *o)
{
	int r = job_list(j, job, o);

	return r == -ENOSPC && reserve_release(&j->reserve) ? job_list(j, job, o) : r;
}

/* Try the refused @name of @o again.  0, also if it is refused again, by the new file system or
 * (*theirs) by the old server: then *error says why. */
static int retry_name(struct jobs *j, struct job *job, struct stub_object *o, const char *name,
		      size_t len, int *error, bool *theirs)
{
	char target[STUB_TARGET_MAX];
	struct stub_refused names = { .len = 0 }, seen = { .len = 0 };
	struct stub_origin origin;
	struct stub_entry e = { 0 };
	int r = lookup_entry(j, job, o, name, len, &e, &origin, target);

	if (r == -ENOENT) {
		stub_refused_add(&names, name, len, r);
		r = still_listed(j, job, o, &names, &seen);
		if (r < 0)
			return r;
		if (!seen.len)
			return stub_refused_make(j->c.volume, j->c.journal, o, name, len, NULL);
		r = seen.error;
	}
	if (r == -EOVERFLOW)
		return 0;
	if (r == 0) {
		r = stub_refused_make(j->c.volume, j->c.journal, o, name, len, &e);
		*theirs = *theirs || r == -EBADMSG;
		if (!stub_refusal(r) && r != -EBADMSG)
			return r;
	} else if (jobs_doubted(j, r)) {
		return -EAGAIN;
	} else if (source_entrys_own(r)) {
		*theirs = true;
	} else {
		return r;
	}
	*error = r;
	return 0;
}

int job_refused(struct jobs *j, struct job *job, struct stub_object *o)
{
	char shown[64], what[128];
	struct stub_refused names;
	const char *name = "";
	size_t at = 0, len = 0;
	bool theirs = false;
	int error = 0, r = stub_refused_load(j->c.volume, &job->h, &names);

	while (r == 0 && stub_refused_next(&names, &at, &name, &len)) {
		if (atomic_load(&j->stopping))
			return -EAGAIN;
		r = retry_name(j, job, o, name, len, &error, &theirs);
	}
	if (r == 0 || r == -ENOENT || r == -ESTALE) /* the directory may have gone */
		return check_refused(j, &job->h, error, theirs);
	stub_printable(name, len, shown, sizeof(shown));
	snprintf(what, sizeof(what), "refused entry \"%s\"", shown);
	return jobs_failed(j, &job->h, r, what);
}

/* The object's path here, which is its name over there. */
static void count_meta(struct jobs *j, const struct stub_handle *h, const struct stub_attr *a)
{
	char here[PATH_MAX] = "?";

	if ((a->acl || a->acl_near) && jobs_path(j, h, here, sizeof(here)) < 0)
		strcpy(here, "?");
	count_losses(j, a, here, strlen(here));
}

/* Log what cannot be kept, each line with the object's path over there; where origins are handles,
 * with its path here. */
static void tell_lost(struct jobs *j, const struct stub_handle *h, const struct stub_origin *o,
		      const char *lost)
{
	char path[STUB_ORIGIN_MAX + 1], here[PATH_MAX];
	size_t len;

	for (len = 0; len < o->len; len++)
		path[len] = o->bytes[len] < ' ' ? '?' : (char)o->bytes[len];
	path[len] = '\0';
	if (source_by_handle(j->c.source)) {
		if (jobs_path(j, h, here, sizeof(here)) < 0)
			strcpy(here, "?");
		stub_printable(here, strlen(here), path, sizeof(path));
	}
	for (; *lost; lost += len + (lost[len] == '\n')) {
		len = strcspn(lost, "\n");
		atomic_fetch_add(&j->n.lost, 1);
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

	job_wait_turn(t->j, t->job, bytes);
}

/* Fetch attributes and what goes with them, and store them.  0, or what the waiters get. */
static int bring_attr(struct jobs *j, struct job *job, struct stub_object *o)
{
	struct source_meta m;
	char what[128] = "attributes";
	struct turn turn = { j, job };
	struct depot_job fetch = { .source = j->c.source, .p = job_priority(job), .o = o, .m = &m,
				   .turn = wait_turn, .arg = &turn };
	struct depot_item *streams = NULL;
	size_t bad = 0;
	struct brought *b;
	uint32_t want = jobs_brought_begin(j, job, o, &b);
	int r = source_meta_data(j->c.source, job_priority(job), &o->origin, want, &m);
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
	if (r == 0)
		count_meta(j, &job->h, &m.attr);
	if (r == 0 && m.lost)
		tell_lost(j, &job->h, &o->origin, m.lost);
	if (r == 0)
		jobs_brought_end(j, job, b, &m);
	else
		jobs_brought_free(j, b);
	source_meta_free(&m);
	if (r == -ESTALE)
		return jobs_conflict(j, &job->h, "the object has been replaced on the old server");
	if (r == -EBUSY && local)
		return jobs_conflict(j, &job->h, JOBS_LOCAL);
	if (r < 0)
		return local ? jobs_store_failed(j, &job->h, FULL_NAMES, r, what) :
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
