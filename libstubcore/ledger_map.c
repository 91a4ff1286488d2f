/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * ledger_map.c - the memory of ledger_set.c as a file, and who owns what in it.
 *
 * It lies beside the volume's socket, as the ring of news (news_ring.c says why), and `state`
 * says which set is the one that counts.  Who enters looks there each time: in a set that is not
 * that one nothing is believed.  After a crash of the machine there is none: whoever comes first
 * makes one, and nothing is lost, for nothing that was in flight had been struck.
 *
 * If it goes while the machine runs (somebody has removed the file), what is in flight in the old
 * one is not seen any more.  So nothing is struck as long as a process lives that has not gone
 * over to the new one with all that it does.  That is told by the locks: owner N of a set holds
 * byte N of .postcopy/ledger/owners-ID.
 *
 * .postcopy/ledger/lock: held while a set is made or looked for.  A leaf.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "ledger.h"
#include "mirror_conf.h"

#define OWNERS "owners-"

/* ---- locks ---- */

static int lock_bytes(int fd, int cmd, short type, off_t from, off_t n)
{
	struct flock f = { .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = n };

	while (fcntl(fd, cmd, &f) < 0)
		if (errno != EINTR)
			return errno == EACCES ? -EAGAIN : -errno;
	return cmd == F_OFD_GETLK ? f.l_type != F_UNLCK : 0;
}

int stub_map_dir(const struct stub_volume *v)
{
	int fd = openat(v->dir_fd, STUB_LEDGER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int take_lock(int dir_fd)
{
	int r, fd CLEANUP_CLOSE =
		openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	r = lock_bytes(fd, F_OFD_SETLKW, F_WRLCK, 0, 1);
	return r < 0 ? r : stub_steal_fd(&fd);
}

static int open_owners(int dir_fd, uint64_t id)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), OWNERS "%016" PRIx64, id);
	fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

/* ---- the file ---- */

static void set_path(const struct stub_volume *v, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s" STUB_SET_SUFFIX, v->info.socket);
}

void stub_map_remove(const struct stub_volume *v)
{
	char path[PATH_MAX];

	set_path(v, path);
	unlink(path);
}

int stub_map_all(int dir_fd)
{
	int fd CLEANUP_CLOSE = openat(dir_fd, STUB_SET_UNKNOWN,
				      O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 || fsync(fd) < 0 || fsync(dir_fd) < 0 ? -errno : 0;
}

int stub_map_unknown(struct stub_volume *v, int dir_fd, const char *why)
{
	stub_log(&v->log, STUB_LOG_ERROR,
		 "the mirror's ledger does not know what is owed: %s; everything is compared", why);
	return stub_map_all(dir_fd);
}

static uint64_t rule_of(const struct stub_mirror_conf *c)
{
	return (uint64_t)c->gone << 8 | (uint64_t)c->mode;
}

static int make_set(const struct stub_volume *v, const char *path, uint64_t id)
{
	struct stub_set *zero CLEANUP_FREE = calloc(1, sizeof(*zero));
	char dir[PATH_MAX], self[32], *slash;
	struct stub_mirror_conf conf;
	int r, fd CLEANUP_CLOSE = -1;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!zero || !slash)
		return zero ? -EINVAL : -ENOMEM;
	slash[slash == dir] = '\0';
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	zero->magic = STUB_SET_MAGIC;
	zero->size = sizeof(*zero);
	zero->id = id;
	zero->boot = v->boot;
	zero->made_ms = stub_now_ms();
	r = stub_mirror_conf_get(v, &conf);
	if (r == 0)
		zero->rule = rule_of(&conf);
	else if (r != -ENOENT) /* a ledger alone has none */
		return r;
	r = stub_io_pwrite(fd, zero, sizeof(*zero), 0);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	return r;
}

/* -EBADMSG: not the set that `state` names, or not only root may write it */
static int map_set(const struct stub_volume *v, const char *path, struct stub_set **out)
{
	int fd CLEANUP_CLOSE = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stub_set *s;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == EISDIR || errno == ENXIO ?
			       -EBADMSG :
			       -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_mode & 077 ||
	    st.st_size != (off_t)sizeof(*s))
		return -EBADMSG;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		return -errno;
	if (s->magic != STUB_SET_MAGIC || s->size != sizeof(*s) || s->boot != v->boot ||
	    s->id == 0 || s->id != atomic_load(&v->state->ledger)) {
		munmap(s, sizeof(*s));
		return -EBADMSG;
	}
	*out = s;
	return 0;
}

/* Make a set, and let `state` name it: from then on no other one is believed. */
static int renew(const struct stub_volume *v, const char *path)
{
	uint64_t id = 0;
	int r;

	while (id == 0 || id == atomic_load(&v->state->ledger))
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -EIO;
	r = make_set(v, path, id);
	if (r < 0)
		return r;
	return stub_io_pwrite(v->state_fd, &id, sizeof(id),
			      offsetof(struct stub_state_page, ledger));
}

/* ---- owners ---- */

/* Before there is no place for one more: where nobody replicates, nothing that is owed can be
 * struck, and whoever comes may bury the dead. */
static int bury_alone(int dir_fd, struct stub_enter_map *m)
{
	int r, fd CLEANUP_CLOSE =
		openat(dir_fd, "replicator", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	r = lock_bytes(fd, F_OFD_SETLK, F_WRLCK, 0, 1);
	return r == 0 ? stub_map_bury(m) : r == -EAGAIN ? -EUSERS : r;
}

static int own(int dir_fd, struct stub_enter_map *m)
{
	for (int again = 0; again < 2; again++) {
		int r;

		for (uint32_t o = 1; o < STUB_SET_OWNERS; o++) {
			if (atomic_load(&m->set->owner[o]) ||
			    lock_bytes(m->owners_fd, F_OFD_SETLK, F_WRLCK, o, 1) < 0)
				continue;
			if (atomic_load(&m->set->owner[o]) == 0) {
				atomic_store(&m->set->owner[o], 1);
				m->owner = o;
				return 0;
			}
			lock_bytes(m->owners_fd, F_OFD_SETLK, F_UNLCK, o, 1);
		}
		r = again ? -EUSERS : bury_alone(dir_fd, m);
		if (r < 0)
			return r;
	}
	return -EUSERS;
}

int stub_map_bury(struct stub_enter_map *m)
{
	/* not m->owners_fd: what this process owns itself must be seen as locked */
	char self[32];
	int fd CLEANUP_CLOSE = -1;
	bool any = false;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", m->owners_fd);
	fd = open(self, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (uint32_t o = 1; o < STUB_SET_OWNERS; o++) {
		if (!atomic_load(&m->set->owner[o]) ||
		    lock_bytes(fd, F_OFD_SETLK, F_WRLCK, o, 1) < 0)
			continue;
		any = stub_set_bury(m->set, o) || any;
		stub_slots_bury(m->set, o);
		atomic_store(&m->set->owner[o], 0);
		lock_bytes(fd, F_OFD_SETLK, F_UNLCK, o, 1);
	}
	return any;
}

int stub_map_strangers(int dir_fd, const struct stub_enter_map *m)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char mine[40];
	struct dirent *e;

	if (!d) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	snprintf(mine, sizeof(mine), OWNERS "%016" PRIx64, m->id);
	while (r == 0 && (e = readdir(d))) {
		int f CLEANUP_CLOSE = -1;

		if (strncmp(e->d_name, OWNERS, strlen(OWNERS)) || !strcmp(e->d_name, mine))
			continue;
		f = openat(dir_fd, e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (f < 0)
			continue;
		r = lock_bytes(f, F_OFD_GETLK, F_WRLCK, 0, 0);
		if (r == 0)
			unlinkat(dir_fd, e->d_name, 0);
	}
	closedir(d);
	return r;
}

/* ---- a mapping ---- */

static int open_locked(struct stub_volume *v, int dir_fd, bool owner, struct stub_enter_map **out)
{
	struct stub_enter_map *m;
	char path[PATH_MAX];
	int r;

	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->owners_fd = -1;
	set_path(v, path);
	r = map_set(v, path, &m->set);
	if (r == -EBADMSG) {
		r = renew(v, path);
		if (r == 0)
			r = map_set(v, path, &m->set);
	}
	if (r == 0) {
		m->id = m->set->id;
		m->owners_fd = open_owners(dir_fd, m->id);
		r = m->owners_fd < 0 ? m->owners_fd : owner ? own(dir_fd, m) : 0;
	}
	if (r < 0) {
		stub_log(&v->log, STUB_LOG_ERROR, "the mirror's ledger: %s: %s", path, strerror(-r));
		stub_map_close(m);
		return r;
	}
	*out = m;
	return 0;
}

int stub_map_open(struct stub_volume *v, bool owner, struct stub_enter_map **out)
{
	int dir_fd CLEANUP_CLOSE = stub_map_dir(v), lock_fd CLEANUP_CLOSE = -1;

	if (dir_fd < 0)
		return dir_fd;
	lock_fd = take_lock(dir_fd);
	return lock_fd < 0 ? lock_fd : open_locked(v, dir_fd, owner, out);
}

int stub_map_rule(struct stub_volume *v, const struct stub_mirror_conf *c,
		  int (*write)(struct stub_volume *v, const struct stub_mirror_conf *c))
{
	int r, dir_fd CLEANUP_CLOSE = stub_map_dir(v), lock_fd CLEANUP_CLOSE = -1;
	struct stub_enter_map *m;

	if (dir_fd < 0)
		return dir_fd;
	lock_fd = take_lock(dir_fd);
	if (lock_fd < 0)
		return lock_fd;
	r = write(v, c);
	if (r == 0)
		r = open_locked(v, dir_fd, false, &m);
	if (r < 0)
		return r;
	atomic_store(&m->set->rule, rule_of(c));
	stub_map_close(m);
	return 0;
}

void stub_map_let_go(struct stub_enter_map *m)
{
	if (m->owners_fd >= 0)
		close(stub_steal_fd(&m->owners_fd));
}

void stub_map_close(struct stub_enter_map *m)
{
	if (!m)
		return;
	/* a bracket that has not ended is left to whoever buries us */
	if (m->set && m->owner && m->owners_fd >= 0 && !stub_set_flying(m->set, m->owner))
		atomic_store(&m->set->owner[m->owner], 0);
	stub_map_let_go(m);
	if (m->set)
		munmap(m->set, sizeof(*m->set));
	free(m);
}

bool stub_map_is_now(const struct stub_volume *v, const struct stub_enter_map *m)
{
	return atomic_load(&v->state->ledger) == m->id;
}
