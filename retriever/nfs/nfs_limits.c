// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_limits.c - limits of the configuration's numbers, and those of the server; who has which id */
#include <stdio.h>

#include "nfs/nfs.h"
#include "windows/smb_idmap.h"

int nfs_ids(const struct source_config *c, const struct nfs_uri *uri, struct smb_idmap **out,
	    char *why, size_t size)
{
	char text[SMB_IDMAP_WHY];
	int r;

	*out = NULL;
	if (uri->version == &nfs3_version)
		return 0;
	r = smb_idmap_read(c->smb.idmap && *c->smb.idmap ? c->smb.idmap : NULL, out, text);
	if (r)
		snprintf(why, size, "%s", text);
	return r;
}

static unsigned int within(unsigned int value, unsigned int low, unsigned int high)
{
	return value < low ? low : value > high ? high : value;
}

struct source_config nfs_config(const struct source_config *c)
{
	struct source_config out = *c;

	out.connections = within(c->connections, 1, NFS_CONNECTIONS_MAX);
	out.readdir_bytes = within(c->readdir_bytes, NFS_READDIR_MIN, NFS_READDIR_MAX);
	out.read_bytes = within(c->read_bytes ? c->read_bytes : NFS_READ_MAX, 4096, NFS_READ_MAX);
	out.call_timeout_ms = c->call_timeout_ms ? within(c->call_timeout_ms, 100, 600000) : 15000;
	out.inflight = c->inflight ? within(c->inflight, 1, 256) : 16;
	return out;
}

int nfs_source_limits(struct source *base, struct source_limits *out)
{
	struct nfs_source *s = nfs_of(base);
	int r = nfs_wait_known(s);

	if (r)
		return r;
	pthread_mutex_lock(&s->pool.lock);
	*out = s->limits;
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}
