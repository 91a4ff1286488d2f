/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_take.c - the replicator's side of the ledger; a volume gets one, and loses it.
 *
 * .postcopy/ledger/replicator is locked while one has it open.  Inside, one lock for all threads:
 * outermost of the ledger's.
 *
 * Owed is what stands in owed/, or in a list behind the entry up to which owed/ says that it was
 * taken over.  An entry that is taken over gives its object another turn, and a strike counts
 * only for the turn that begin() has read.
 */
#include <dirent.h>
#include <fcntl.h>

#include "ledger.h"

#define TAKE	  1024u
#define STRIKES	  64u /* taken out by one sync */
#define BURY_MS	  200 /* between two looks for owners that are dead */

struct stub_ledger {
	struct stub_volume *v;
	pthread_mutex_t lock;
	int dir_fd, lock_fd;
	struct stub_enter_map *map;
	struct stub_owed_db *db;
	struct stub_owed struck[STRIKES];
	unsigned int n_struck;
	uint64_t epoch; /* moves when changes may have been made that left no trace in the set */
	bool strangers; /* there may be some */
	uint64_t unknown, buried_ms;
};

/* ---- a volume gets one ---- */

static int lock_replicator(int dir_fd)
{
	int fd CLEANUP_CLOSE =
		openat(dir_fd, "replicator", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &f) < 0)
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	return stub_steal_fd(&fd);
}

static int put_state(const struct stub_volume *v, uint32_t version)
{
	const uint64_t none[2] = { 0 }; /* no set, and not frozen */
	int r = stub_io_pwrite(v->state_fd, &version, sizeof(version),
			       offsetof(struct stub_state_page, version));

	if (r == 0)
		r = stub_io_pwrite(v->state_fd, none, sizeof(none),
				   offsetof(struct stub_state_page, ledger));
	return r == 0 && fsync(v->state_fd) < 0 ? -errno : r;
}

_Static_assert(offsetof(struct stub_state_page, frozen) ==
		       offsetof(struct stub_state_page, ledger) + sizeof(uint64_t),
	       "put_state() writes both");

int stub_ledger_parts(int dir_fd, bool all, bool keeps)
{
	int r, fd CLEANUP_CLOSE = -1;

	if (mkdirat(dir_fd, STUB_LEDGER, 0700) < 0)
		return -errno;
	fd = openat(dir_fd, STUB_LEDGER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	r = stub_owed_make(fd, keeps);
	return r == 0 && all ? stub_map_all(fd) : r;
}

int stub_ledger_begin_with(struct stub_volume *v, bool all, bool keeps)
{
	int r;

	if (stub_ledger_is(v))
		return -EEXIST;
	r = stub_volume_alone(v);
	if (r < 0)
		return r;
	r = stub_remove_tree(v->dir_fd, STUB_LEDGER); /* of one that was ended half */
	if (r < 0 && r != -ENOENT)
		return r;
	r = stub_ledger_parts(v->dir_fd, all, keeps);
	if (r == 0 && fsync(v->dir_fd) < 0)
		r = -errno;
	return r < 0 ? r : put_state(v, STUB_STATE_MIRRORED);
}

STUB_PUBLIC int stub_ledger_make(struct stub_volume *v)
{
	return stub_ledger_begin_with(v, false, false);
}

STUB_PUBLIC int stub_ledger_end(struct stub_volume *v)
{
	int r, dir_fd CLEANUP_CLOSE = stub_map_dir(v), lock_fd CLEANUP_CLOSE = -1;

	if (!stub_ledger_is(v))
		return -ENOENT;
	if (dir_fd >= 0)
		lock_fd = lock_replicator(dir_fd);
	if (lock_fd == -EBUSY)
		return -EBUSY;
	r = put_state(v, STUB_STATE_VERSION);
	if (r < 0)
		return r;
	stub_map_remove(v);
	r = stub_remove_tree(v->dir_fd, STUB_LEDGER);
	return r == -ENOENT ? 0 : r;
}

/* ---- lists into owed ---- */

static int doubt(struct stub_ledger *l, const char *why)
{
	l->unknown++;
	return stub_map_unknown(l->v, l->dir_fd, why);
}

static int flush(struct stub_ledger *l)
{
	int r = l->n_struck ? stub_owed_strike(l->db, l->struck, l->n_struck) : 0;

	if (r == 0)
		l->n_struck = 0;
	return r;
}

static int take_list(struct stub_ledger *l, const char *name)
{
	struct stub_owing *o CLEANUP_FREE = malloc(TAKE * sizeof(*o));
	struct stub_list_reader in;
	int n, r = o ? stub_list_open(l->dir_fd, name, &in) : -ENOMEM;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!in.damaged)
		r = stub_owed_taken(l->db, in.id, &in.next);
	while (r == 0 && (n = stub_list_read(&in, o, TAKE)) != 0) {
		r = n < 0 ? n : 0;
		if (r == 0 && in.damaged)
			r = doubt(l, "a list of what was changed is damaged");
		if (r == 0)
			r = stub_owed_put(l->db, o, (size_t)n, in.id, in.next);
		in.damaged = false;
	}
	if (r == 0 && in.damaged)
		r = doubt(l, "a list of what was changed is damaged");
	if (r == 0 && !in.living) {
		if (unlinkat(l->dir_fd, name, 0) < 0)
			r = -errno;
		if (r == 0)
			r = stub_owed_forget(l->db, in.id);
	}
	stub_list_close(&in);
	return r;
}

static int take_lists(struct stub_ledger *l)
{
	int r = 0, fd = openat(l->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		r = -errno;
		stub_cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(d)))
		if (stub_list_is(e->d_name))
			r = take_list(l, e->d_name);
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

/* The set that all use; whoever was in flight in another one is not seen in it. */
static int follow(struct stub_ledger *l)
{
	struct stub_enter_map *m;
	int r;

	if (l->map && stub_map_is_now(l->v, l->map))
		return 0;
	r = stub_map_open(l->v, false, &m);
	if (r < 0)
		return r;
	stub_map_close(l->map);
	l->map = m;
	l->epoch++;
	l->strangers = true;
	return 0;
}

static int bury(struct stub_ledger *l)
{
	int r;

	if (l->strangers) {
		r = stub_map_strangers(l->dir_fd, l->map);
		if (r < 0)
			return r;
		if (r == 0) {
			l->strangers = false;
			l->epoch++;
		}
	}
	if (stub_now_ms() - l->buried_ms < BURY_MS)
		return 0;
	r = stub_map_bury(l->map);
	if (r == 1) /* what the dead had begun may have come after a comparison */
		l->epoch++;
	l->buried_ms = stub_now_ms();
	return r < 0 ? r : 0;
}

static int take(struct stub_ledger *l)
{
	int r = follow(l);

	if (r == 0)
		r = bury(l);
	if (r == 0)
		r = flush(l);
	return r == 0 ? take_lists(l) : r;
}

/* ---- one is opened ---- */

static int open_owed(struct stub_ledger *l)
{
	int r = stub_owed_open(l->dir_fd, &l->v->log, &l->db);

	if (r != -EBADMSG)
		return r;
	r = doubt(l, "what was taken over is damaged");
	if (r == 0)
		r = stub_owed_make(l->dir_fd, l->v->way_back);
	return r < 0 ? r : stub_owed_open(l->dir_fd, &l->v->log, &l->db);
}

STUB_PUBLIC int stub_ledger_open(struct stub_volume *v, struct stub_ledger **out)
{
	struct stub_ledger *l;
	struct stat st;
	int r;

	if (!stub_ledger_is(v))
		return -ENOENT;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->v = v;
	pthread_mutex_init(&l->lock, NULL);
	l->lock_fd = -1;
	l->dir_fd = r = stub_map_dir(v);
	if (r >= 0)
		l->lock_fd = r = lock_replicator(l->dir_fd);
	if (r >= 0)
		r = open_owed(l);
	if (r == 0)
		r = follow(l);
	if (r == 0 && fstatat(l->dir_fd, STUB_SET_UNKNOWN, &st, AT_SYMLINK_NOFOLLOW) == 0)
		l->unknown++;
	else if (r == 0 && errno != ENOENT)
		r = -errno;
	if (r < 0) {
		stub_ledger_close(l);
		return r;
	}
	*out = l;
	return 0;
}

STUB_PUBLIC void stub_ledger_close(struct stub_ledger *l)
{
	if (!l)
		return;
	if (l->db)
		flush(l); /* else it is owed once more */
	stub_owed_close(l->db);
	stub_map_close(l->map);
	stub_cleanup_close(&l->lock_fd);
	stub_cleanup_close(&l->dir_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- what it does ---- */

STUB_PUBLIC int stub_ledger_next(struct stub_ledger *l, uint64_t after, struct stub_owed *out,
				 unsigned int max)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = take(l);
	if (r == 0)
		r = stub_owed_next(l->db, after, out, max);
	pthread_mutex_unlock(&l->lock);
	return r;
}

STUB_PUBLIC int stub_ledger_begin(struct stub_ledger *l, struct stub_owed *o)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = follow(l);
	if (r == 0)
		r = stub_owed_get(l->db, &o->h, &o->what, &o->turn);
	if (r == 0) {
		o->set = l->map->id;
		o->epoch = l->epoch;
		o->word = 0;
		o->place = stub_set_begin(l->map->set, &o->h, &o->word);
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

/* The order is the one of ledger_set.c. */
static int strike(struct stub_ledger *l, const struct stub_owed *o)
{
	uint64_t turn;
	uint32_t what;
	int r = follow(l);

	if (r == 0)
		r = bury(l);
	if (r < 0)
		return r;
	if (l->strangers || o->epoch != l->epoch || o->set != l->map->id ||
	    stub_set_flies(l->map->set, &o->h) ||
	    !stub_set_strike(l->map->set, &o->h, o->place, o->word) ||
	    !stub_map_is_now(l->v, l->map))
		return 1;
	r = stub_owed_get(l->db, &o->h, &what, &turn);
	if (r < 0 || turn != o->turn)
		return r < 0 ? r : 1;
	if (l->n_struck == STRIKES)
		r = flush(l);
	if (r == 0)
		l->struck[l->n_struck++] = *o;
	return r;
}

STUB_PUBLIC int stub_ledger_strike(struct stub_ledger *l, const struct stub_owed *o)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = strike(l, o);
	pthread_mutex_unlock(&l->lock);
	return r;
}

STUB_PUBLIC bool stub_ledger_flies(struct stub_ledger *l, const struct stub_handle *h)
{
	bool flies;

	pthread_mutex_lock(&l->lock);
	flies = follow(l) < 0 || bury(l) < 0 || l->strangers ||
		(h ? stub_set_flies(l->map->set, h) : !stub_set_quiet(l->map->set));
	pthread_mutex_unlock(&l->lock);
	return flies;
}

STUB_PUBLIC int stub_ledger_struck(struct stub_ledger *l, const struct stub_handle *after,
				   struct stub_owed *out, unsigned int max)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = flush(l);
	if (r == 0)
		r = stub_owed_struck(l->db, after, out, max);
	pthread_mutex_unlock(&l->lock);
	return r;
}

STUB_PUBLIC int stub_ledger_put(struct stub_ledger *l, const struct stub_owed *o, size_t n)
{
	struct stub_owing *in CLEANUP_FREE = calloc(n ? n : 1, sizeof(*in));
	size_t missing = 0;
	bool known;
	int r = 0;

	if (!in)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (o[i].h.len == 0 || o[i].h.len > STUB_HANDLE_MAX || o[i].what == 0 ||
		    o[i].what > STUB_OWED_ALL)
			return -EINVAL;
	pthread_mutex_lock(&l->lock);
	known = follow(l) == 0;
	for (size_t i = 0; i < n; i++)
		/* what is active stands in the ledger, and no comparison that began before strikes it now */
		if (!known || !stub_set_touch(l->map->set, &o[i].h, o[i].what))
			in[missing++] = (struct stub_owing){ o[i].h, o[i].what };
	if (missing)
		r = stub_owed_put(l->db, in, missing, 0, 0);
	pthread_mutex_unlock(&l->lock);
	return r;
}

STUB_PUBLIC int stub_ledger_owes(struct stub_ledger *l, const struct stub_handle *h)
{
	uint32_t what;
	uint64_t turn;
	bool flies;
	int r;

	pthread_mutex_lock(&l->lock);
	r = follow(l);
	flies = r == 0 && stub_set_flies(l->map->set, h); /* first: when it lands it is owed */
	if (r == 0)
		r = take(l);
	if (r == 0)
		r = stub_owed_get(l->db, h, &what, &turn);
	pthread_mutex_unlock(&l->lock);
	return r == 0 ? 1 : r == -ENOENT ? flies : r;
}

STUB_PUBLIC int stub_ledger_count(struct stub_ledger *l, uint64_t *owed)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = take(l);
	if (r == 0)
		r = stub_owed_count(l->db, owed);
	pthread_mutex_unlock(&l->lock);
	return r;
}

STUB_PUBLIC uint64_t stub_ledger_unknown(struct stub_ledger *l)
{
	uint64_t n;

	pthread_mutex_lock(&l->lock);
	n = l->unknown;
	pthread_mutex_unlock(&l->lock);
	return n;
}

STUB_PUBLIC int stub_ledger_walked(struct stub_ledger *l, uint64_t number)
{
	int r = 1;

	pthread_mutex_lock(&l->lock);
	if (l->unknown == number) {
		r = unlinkat(l->dir_fd, STUB_SET_UNKNOWN, 0) < 0 && errno != ENOENT ? -errno : 0;
		if (r == 0 && fsync(l->dir_fd) < 0)
			r = -errno;
		if (r == 0)
			l->unknown = 0;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}
