/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * open.c - open a volume.
 *
 *   .postcopy/            mode 0700
 *     volume.conf         "key=value" lines; its rename into place makes the volume
 *     state               one page, mapped by everybody: the flag "complete", the era
 *     lock                per-inode exclusion, see lock.c
 *     journal/            LMDB, see journal.c
 *     staging/            inodes being prepared, see stage.c
 *     provisional/        hard links waiting for their names, see links.c
 *     lagging/            what each process has to make durable yet, see lagging.c
 *     resolved            what the administrator decided of parked objects; the retriever's
 *     settings            paused or not, the byte rate; likewise
 *     limits              requests, latency, connections; likewise
 *     finished            what was let go, and when: see finished.c
 *     ledger/             what is owed to a mirror: see ledger.h
 *     mirror/             which mirror, and where objects are over there: mirror.c, places.c
 *     aborted             a link to the list of what is missing: see abort.c
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "ledger.h"
#include "wire.h"

/* -ENOENT: no .postcopy in this directory */
static int open_here(struct stub_volume *v, int fd)
{
	v->dir_fd = stub_dir_open(fd);
	return v->dir_fd < 0 ? v->dir_fd : stub_conf_load(v->dir_fd, &v->log, &v->info);
}

static int find_root(struct stub_volume *v, const char *path, unsigned int flags)
{
	int r, fd CLEANUP_CLOSE = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while ((r = open_here(v, fd)) == -ENOENT && flags & STUB_OPEN_SEARCH) {
		if (v->dir_fd >= 0)
			close(stub_steal_fd(&v->dir_fd));
		r = stub_dir_up(&fd, O_RDONLY);
		if (r < 0)
			return r;
	}
	if (r == 0)
		v->fd = stub_steal_fd(&fd);
	return r;
}

/* It stays open: when it is removed while we serve, a client's file must not get its inode number. */
static int hide(struct stub_volume *v, const char *name)
{
	int fd CLEANUP_CLOSE = openat(v->dir_fd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (v->n_hidden == STUB_HIDDEN_MAX || fstat(fd, &st) < 0)
		return -EIO;
	v->hidden[v->n_hidden] = st.st_ino;
	v->hidden_fd[v->n_hidden++] = stub_steal_fd(&fd);
	return 0;
}

static int map_state(struct stub_volume *v)
{
	struct stat st;
	void *p;

	v->state_fd = openat(v->dir_fd, STUB_STATE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (v->state_fd < 0 || fstat(v->state_fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(*v->state))
		return -EBADMSG;
	p = mmap(NULL, sizeof(*v->state), PROT_READ | PROT_WRITE, MAP_SHARED, v->state_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	v->state = p;
	/* The page must not be read from the disk again, where an older era may be.  Without
	 * the privilege to lock it that is only unlikely. */
	mlock(p, sizeof(*v->state));
	if (v->state->magic != STUB_STATE_MAGIC || v->state->version < STUB_STATE_VERSION)
		return -EBADMSG;
	if (v->state->version == STUB_STATE_VERSION || v->state->version == STUB_STATE_MIRRORED)
		return 0;
	stub_log(&v->log, STUB_LOG_ERROR, STUB_DIR "/" STUB_STATE ": of a newer release of postcopy");
	return -EPROTONOSUPPORT;
}

static int open_parts(struct stub_volume *v)
{
	static const char *const secret[] = { ".",	     STUB_CONF,	    STUB_STATE,
					      STUB_LOCK,     STUB_JOURNAL,  STUB_STAGING,
					      STUB_PROVISIONAL, STUB_LAGGING, STUB_RESOLVED,
					      STUB_SETTINGS, STUB_LIMITS,   STUB_FINISHED, STUB_LEDGER,
					      STUB_MIRROR,   STUB_MIRROR "/conf", STUB_MIRROR "/places",
					      STUB_JOURNAL "/data.mdb",
					      STUB_JOURNAL "/lock.mdb", STUB_JOURNAL "/writer" };
	struct stat st;
	int r;

	v->staging_fd = openat(v->dir_fd, STUB_STAGING, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	v->provisional_fd =
		openat(v->dir_fd, STUB_PROVISIONAL, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	v->lock_fd = openat(v->dir_fd, STUB_LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (v->staging_fd < 0 || v->provisional_fd < 0 || v->lock_fd < 0 || fstat(v->fd, &st) < 0)
		return -errno;
	v->dev = st.st_dev;
	v->root_ino = st.st_ino;
	r = stub_only_named(v->fd, &v->only_named);
	if (r == 0)
		r = stub_handle_of_fd(v->fd, &v->root);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(secret); i++)
		r = hide(v, secret[i]);
	if (r == 0)
		r = map_state(v);
	if (r < 0)
		return r;
	v->boot = stub_boot_id();
	r = stub_locks_init(&v->locks, v->lock_fd);
	return r < 0 ? r : stub_volume_enter(v);
}

/* Called after stub_volume_enter(), so that nobody opens the volume while an abort begins. */
static int check_aborted(const struct stub_volume *v, unsigned int flags)
{
	struct stat st;

	if (stub_volume_gone(v))
		return -ENOENT;
	if (flags & STUB_OPEN_ABORT)
		return 0;
	if (fstatat(v->dir_fd, STUB_ABORTED, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	stub_log(&v->log, STUB_LOG_ERROR,
		 "its migration is being given up: 'postcopy abort' ends that, nobody else opens it");
	return -ECANCELED;
}

STUB_PUBLIC int stub_volume_open(const char *path, unsigned int flags, stub_log_fn log,
				 void *log_arg, struct stub_volume **out)
{
	struct stub_volume *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return -ENOMEM;
	v->log = (struct stub_log){ log, log_arg };
	stub_local_forget(v);
	v->fd = v->dir_fd = v->staging_fd = v->provisional_fd = v->lock_fd = v->state_fd = -1;
	v->places_fd = -ENOENT;
	pthread_mutex_init(&v->spread.lock, NULL);
	atomic_init(&v->finished_fd, -1);
	atomic_init(&v->digests_fd, -1);
	r = find_root(v, path, flags);
	if (r == 0 && !(flags & STUB_OPEN_ANYWHERE))
		r = stub_home_check(v);
	if (r == 0 && !(flags & STUB_OPEN_ANYWHERE))
		r = stub_active_check(v);
	if (r == 0)
		r = open_parts(v);
	if (r == 0)
		r = check_aborted(v, flags);
	if (r == 0)
		stub_mirror_learn(v);
	if (r == 0)
		r = stub_ask_pool_create(v, &v->pool);
	if (r == 0)
		r = stub_notes_create(&v->notes);
	if (r == 0)
		r = stub_later_create(&v->later);
	if (r == 0)
		r = stub_enterer_create(&v->enterer);
	if (r == 0 && flags & (STUB_OPEN_FOLD | STUB_OPEN_KEEP))
		r = stub_folder_create(v, flags & STUB_OPEN_KEEP, &v->folder);
	if (r == 0 && flags & STUB_OPEN_NEWS)
		r = stub_hub_create(v, &v->hub);
	if (r < 0) {
		stub_volume_close(v);
		return r;
	}
	*out = v;
	return 0;
}

STUB_PUBLIC void stub_volume_close(struct stub_volume *v)
{
	if (!v)
		return;
	stub_folder_destroy(v->folder);
	stub_hub_destroy(v->hub);
	stub_notes_destroy(v->notes);
	stub_later_destroy(v->later);
	stub_enterer_destroy(v->enterer);
	stub_ask_pool_destroy(v->pool);
	if (v->boot)
		stub_locks_finish(&v->locks);
	if (v->state)
		munmap(v->state, sizeof(*v->state));
	stub_cleanup_close(&v->state_fd);
	while (v->n_hidden)
		close(v->hidden_fd[--v->n_hidden]);
	stub_cleanup_close((int *)&v->finished_fd);
	stub_cleanup_close((int *)&v->digests_fd);
	stub_cleanup_close(&v->places_fd);
	stub_cleanup_close(&v->lock_fd);
	stub_cleanup_close(&v->provisional_fd);
	stub_cleanup_close(&v->staging_fd);
	stub_cleanup_close(&v->dir_fd);
	stub_cleanup_close(&v->fd);
	pthread_mutex_destroy(&v->spread.lock);
	free(v);
}
