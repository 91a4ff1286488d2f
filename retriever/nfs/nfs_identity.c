// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_identity.c - is it still the object that it was?
 *
 * A handle is valid as long as the server says so; but some handles lead to another object
 * without an error.  When the old server's disk is not mounted, the handle of an export's root
 * (by fsid=, or by path) is that of the empty directory below the mount point: an empty
 * list, and "no such name" for everything, from a server that works.  So what is said of a
 * directory is only believed with attributes that have the directory's fsid and file id.
 * An answer with others is none (-ENOMEDIUM).
 *
 * If the export's root itself is another one, or is stale or denied, the source is lost: all
 * connections are closed, and none is usable again before the root is the right one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"

bool nfs_is(const struct source_id *as, const struct stub_attr *a)
{
	return !as || (as->fsid == a->fsid && as->fileid == a->fileid);
}

int nfs_root_check(struct nfs_source *s, struct nfs_dial *d, struct nfs_carrier *rpc,
		   const struct stub_origin *root)
{
	const struct source_id *as = &s->config.root;
	struct stub_attr now;
	int r;

	r = d->uri->version->getattr(d, rpc, root, &now);
	if (r)
		return r;
	if (s->config.root_known && !nfs_is(as, &now)) {
		snprintf(d->why, sizeof(d->why),
			 "%.60s is another directory there than when the migration began (fsid "
			 "%" PRIu64 ", file id %" PRIu64 ", not %" PRIu64 ", %" PRIu64
			 "): is its disk not mounted?",
			 s->uri.path, now.fsid, now.fileid, as->fsid, as->fileid);
		return -ENOENT;
	}
	pthread_mutex_lock(&s->pool.lock);
	s->wrong_root = false;
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}

int nfs_source_verify(struct source *base)
{
	struct nfs_source *s = nfs_of(base);
	struct stub_origin root;
	struct stub_attr now;
	bool wrong;
	int r;

	if (nfs_wait_known(s))
		return -ENOMEDIUM;
	pthread_mutex_lock(&s->pool.lock);
	root = s->root;
	wrong = s->wrong_root;
	pthread_mutex_unlock(&s->pool.lock);
	if (wrong)
		return -ENOMEDIUM;
	r = source_getattr(base, SOURCE_DEMAND, &root, &now);
	if (!r && (!s->config.root_known || nfs_is(&s->config.root, &now)))
		return 0;
	if (r == -ECANCELED || r == -ETIMEDOUT || r == -ENOMEM)
		return -ENOMEDIUM; /* not even the root can be asked: no object is to blame */
	pthread_mutex_lock(&s->pool.lock);
	s->wrong_root = true;
	for (unsigned int i = 0; i < s->n; i++)
		nfs_conn_wake(&s->conn[i]);
	pthread_mutex_unlock(&s->pool.lock);
	return -ENOMEDIUM;
}

int nfs_astray(struct nfs_source *s, const struct source_id *as, const struct stub_attr *now)
{
	uint64_t ms = stub_now_ms();
	bool tell;

	if (nfs_source_verify(&s->base))
		return -ENOMEDIUM; /* why is logged when the connections are made again */
	pthread_mutex_lock(&s->pool.lock);
	tell = !s->astray_ms || ms - s->astray_ms >= NFS_ASTRAY_MS;
	s->astray_ms = ms;
	snprintf(s->astray, sizeof(s->astray),
		 "the old server shows another object (fsid %" PRIu64 ", file id %" PRIu64
		 ") in place of fsid %" PRIu64 ", file id %" PRIu64
		 ": is one of its disks not mounted? Waiting for it",
		 now->fsid, now->fileid, as->fsid, as->fileid);
	pthread_mutex_unlock(&s->pool.lock);
	if (tell)
		nfs_log(s, STUB_LOG_WARN, "source %s: %s", s->uri.host, s->astray);
	return -ENOMEDIUM;
}

int nfs_confirm(struct nfs_source *s, enum source_priority p, const struct stub_origin *o,
		const struct source_id *as, const struct stub_attr *now)
{
	struct stub_attr asked;
	int r;

	if (!as)
		return 0;
	if (!now) {
		r = source_getattr(&s->base, p, o, &asked);
		if (r)
			return r;
		now = &asked;
	}
	return nfs_is(as, now) ? 0 : nfs_astray(s, as, now);
}
