/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lease.c - see lease.h. */
#include "lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sanlock.h>
#include <sanlock_admin.h>
#include <sanlock_resource.h>
#include <sanlock_rv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <linux/fs.h>

#define AREA	 (1 << 20) /* each of the two */
#define RESOURCE "active"
#define REACH_AGAIN_MS 50

/* sanlock's own numbers are below -200, and mean nothing to strerror(). */
static int plain(int rv)
{
	switch (rv) {
	case SANLK_AIO_TIMEOUT:
		return -ETIMEDOUT;
	case SANLK_LEADER_MAGIC:
		return -ENODATA;
	case SANLK_ACQUIRE_IDLIVE:
	case SANLK_ACQUIRE_OWNED:
	case SANLK_ACQUIRE_OWNED_RETRY:
	case SANLK_ACQUIRE_OTHER:
		return -EAGAIN;
	default:
		return rv;
	}
}

const char *lease_strerror(int r)
{
	switch (r) {
	case -ENODATA:
		return "there is no lease on it";
	case -ECONNREFUSED:
		return "sanlock does not run: systemctl start sanlock";
	case -EADDRINUSE:
		return "this machine has joined it with another number: is nodes.conf as it was?";
	case -EAGAIN:
		return "sanlock is leaving it just now: again in a moment";
	case -ECONNABORTED:
		return "sanlock could not join it (/var/log/sanlock.log). Is nodes.conf the same on all nodes, and "
		       "this host name there once?";
	default:
		return r < -200 ? sanlock_strerror(r) : strerror(-r);
	}
}

static void pause_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* Does it answer at all?  Its calls say only that they could not connect.  Its unit counts as started a
 * moment before it listens. */
static int reach(unsigned int wait_ms)
{
	uint64_t until = stub_now_ms() + wait_ms;
	uint32_t version, proto;

	while (sanlock_version(0, &version, &proto) < 0) {
		if (stub_now_ms() >= until)
			return -ECONNREFUSED;
		pause_ms(REACH_AGAIN_MS);
	}
	return 0;
}

static void lockspace_of(const struct lease *l, struct sanlk_lockspace *ls)
{
	memset(ls, 0, sizeof(*ls));
	strcpy(ls->name, l->name);
	ls->host_id = l->node;
	ls->flags = l->size_flags;
	strcpy(ls->host_id_disk.path, l->device);
}

static struct sanlk_resource *resource_of(const struct lease *l)
{
	struct sanlk_resource *res = calloc(1, sizeof(*res) + sizeof(struct sanlk_disk));

	if (!res)
		return NULL;
	strcpy(res->lockspace_name, l->name);
	strcpy(res->name, RESOURCE);
	res->flags = l->size_flags | SANLK_RES_PERSISTENT;
	res->num_disks = 1;
	strcpy(res->disks[0].path, l->device);
	res->disks[0].offset = AREA;
	return res;
}

static void init(struct lease *l, const char *device, unsigned int node)
{
	memset(l, 0, sizeof(*l));
	strcpy(l->device, device);
	l->node = node;
	l->sock = -1;
}

/* ---- making one ---- */

static int check_empty(const char *device, uint32_t *size_flags)
{
	static char area[LEASE_BYTES];
	int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC), sector, r = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, BLKSSZGET, &sector) < 0)
		r = errno == ENOTTY ? -ENOTBLK : -errno;
	for (size_t at = 0; r == 0 && at < sizeof(area); at += (size_t)n) {
		n = pread(fd, area + at, sizeof(area) - at, (off_t)at);
		if (n <= 0)
			r = n < 0 ? -errno : -EFBIG;
	}
	close(fd);
	for (size_t i = 0; r == 0 && i < sizeof(area); i++)
		if (area[i])
			r = -ENOTEMPTY;
	if (r == 0)
		*size_flags = SANLK_LSF_ALIGN1M | (sector == 4096 ? SANLK_LSF_SECTOR4K : SANLK_LSF_SECTOR512);
	return r;
}

static int new_name(char name[STUB_LEASE_MAX + 1])
{
	int fd = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, name, STUB_LEASE_MAX);

	if (fd >= 0)
		close(fd);
	name[STUB_LEASE_MAX] = '\0';
	return n == STUB_LEASE_MAX ? 0 : -EIO;
}

/* The resource first: a lease without its lockspace is none. */
static int write_both(struct lease *l, unsigned int io_timeout)
{
	struct sanlk_resource *res = resource_of(l);
	struct sanlk_lockspace ls;
	int r;

	if (!res)
		return -ENOMEM;
	res->flags = l->size_flags;
	r = sanlock_write_resource(res, 0, 0, 0);
	lockspace_of(l, &ls);
	if (r == 0)
		r = sanlock_write_lockspace(&ls, 0, 0, io_timeout);
	free(res);
	return plain(r);
}

int lease_make(const char *device, unsigned int io_timeout, char name[STUB_LEASE_MAX + 1])
{
	struct lease l;
	int r = lease_open(&l, device, 0, LEASE_WAIT_MS);

	strcpy(name, r == 0 ? l.name : "");
	lease_close(&l);
	if (r != -ENODATA)
		return r == 0 ? -EEXIST : r;
	init(&l, device, 0);
	r = check_empty(device, &l.size_flags);
	if (r == 0)
		r = new_name(l.name);
	if (r == 0)
		r = write_both(&l, io_timeout);
	if (r == 0)
		strcpy(name, l.name);
	return r;
}

/* ---- its life ---- */

int lease_open(struct lease *l, const char *device, unsigned int node, unsigned int wait_ms)
{
	struct sanlk_lockspace ls = { .host_id_disk = { .offset = 0 } };
	uint32_t io_timeout;
	int r;

	init(l, device, node);
	if (strlen(device) >= sizeof(ls.host_id_disk.path))
		return -ENAMETOOLONG;
	r = access(device, R_OK | W_OK) < 0 ? -errno : reach(wait_ms);
	if (r < 0)
		return r;
	strcpy(ls.host_id_disk.path, device);
	r = plain(sanlock_read_lockspace(&ls, 0, &io_timeout));
	if (r < 0)
		return r;
	if (strnlen(ls.name, sizeof(ls.name)) != STUB_LEASE_MAX) /* somebody else's */
		return -ENOTEMPTY;
	memcpy(l->name, ls.name, STUB_LEASE_MAX);
	l->io_timeout = io_timeout;
	l->size_flags = ls.flags & (SANLK_LSF_ALIGN1M | SANLK_LSF_SECTOR512 | SANLK_LSF_SECTOR4K);
	l->res = resource_of(l);
	return l->res ? 0 : -ENOMEM;
}

void lease_close(struct lease *l)
{
	if (l->sock >= 0)
		close(l->sock);
	l->sock = -1;
	free(l->res);
	l->res = NULL;
}

/* It may be joined already: by a holder that has died, or one that lives. */
static int same_number(const struct lease *l)
{
	struct sanlk_lockspace *all;
	int n, r = sanlock_get_lockspaces(&all, &n, 0);

	if (r < 0)
		return plain(r);
	r = -EADDRINUSE;
	for (int i = 0; i < n; i++)
		if (!strncmp(all[i].name, l->name, sizeof(all[i].name)) && all[i].host_id == l->node)
			r = 0;
	free(all);
	return r;
}

int lease_join(struct lease *l)
{
	struct sanlk_lockspace ls;
	int r;

	l->sock = sanlock_register();
	if (l->sock < 0)
		return -ECONNREFUSED;
	/* SIGTERM alone: who is killed cannot shut the file system down */
	r = plain(sanlock_restrict(l->sock, SANLK_RESTRICT_SIGKILL));
	if (r < 0)
		return r;
	lockspace_of(l, &ls);
	r = sanlock_add_lockspace_timeout(&ls, SANLK_ADD_ASYNC, l->io_timeout);
	return r == -EEXIST ? same_number(l) : r == -EINPROGRESS ? 0 : plain(r);
}

int lease_joined(struct lease *l)
{
	struct sanlk_lockspace ls;
	int r;

	lockspace_of(l, &ls);
	r = sanlock_inq_lockspace(&ls, 0);
	return r == -ENOENT ? -ECONNABORTED : plain(r);
}

void lease_leave(struct lease *l)
{
	struct sanlk_lockspace ls;

	lockspace_of(l, &ls);
	(void)sanlock_rem_lockspace(&ls, SANLK_REM_UNUSED);
}

int lease_take(struct lease *l, bool *orphan)
{
	int r = sanlock_acquire(l->sock, -1, SANLK_ACQUIRE_OWNER_NOWAIT, 1, &l->res, NULL);

	*orphan = false;
	if (r == -EUCLEAN) { /* there is an orphan; ORPHAN_ONLY would take any lease, in sanlock 3.8 */
		r = sanlock_acquire(l->sock, -1, SANLK_ACQUIRE_ORPHAN | SANLK_ACQUIRE_OWNER_NOWAIT, 1, &l->res, NULL);
		*orphan = r == 0;
	}
	return r == -EEXIST ? -EBUSY : plain(r);
}

int lease_use(struct lease *l)
{
	return plain(sanlock_set_config(l->name, 0, SANLK_CONFIG_USED, NULL));
}

int lease_give_back(struct lease *l)
{
	int r = sanlock_release(l->sock, -1, 0, 1, &l->res);

	lease_unuse(l);
	lease_leave(l);
	return plain(r);
}

void lease_unuse(struct lease *l)
{
	(void)sanlock_set_config(l->name, 0, SANLK_CONFIG_UNUSED, NULL);
}

int lease_owner(struct lease *l, struct lease_owner *out)
{
	struct sanlk_host *owners = NULL, *host = NULL;
	int n = 0, r = sanlock_read_resource_owners(l->res, 0, &owners, &n);

	memset(out, 0, sizeof(*out));
	if (r < 0)
		return plain(r);
	if (n > 0) {
		out->node = (unsigned int)owners[0].host_id;
		if (sanlock_get_hosts(l->name, owners[0].host_id, &host, &n, 0) == 0 && n > 0) {
			uint32_t state = host[0].flags & SANLK_HOST_MASK;

			out->time = host[0].timestamp;
			out->dead = state == SANLK_HOST_DEAD || state == SANLK_HOST_FREE ||
				    host[0].generation != owners[0].generation;
		}
	}
	free(owners);
	free(host);
	return 0;
}

/* The daemon has a helper that sends its signals. */
bool lease_speaks(int pid)
{
	char path[64], name[8] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	(void)!fread(name, 1, sizeof(name) - 1, f);
	fclose(f);
	return !strcmp(name, "sanlock");
}
