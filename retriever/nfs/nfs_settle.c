// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_settle.c - "version=4" is what the server offers when a migration begins, and stays so. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"

#define OPTION "version=4"

/* Where it is in @uri; NULL: there is none that leaves a choice. */
static const char *choice(const char *uri)
{
	const char *option = source_uri_kind(uri) == SOURCE_NFS ? strchr(uri, '?') : NULL;

	for (; option; option = strchr(option + 1, '&')) {
		const char *end = option + 1 + strlen(OPTION);

		if (!strncmp(option + 1, OPTION, strlen(OPTION)) && (!*end || *end == '&'))
			return option + 1;
	}
	return NULL;
}

static int try_versions(struct nfs_dial *d, const char *address, void *arg)
{
	static const struct nfs_version *const known[] = { &nfs42_version, &nfs41_version,
							   &nfs4_version };
	const struct nfs_version **out = arg;
	const struct nfs_uri *uri = d->uri;
	struct nfs_uri with = *uri;
	int r = -EPROTO;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !*out; i++) {
		struct nfs_carrier *rpc;

		with.version = known[i];
		d->uri = &with;
		d->minor_refused = false;
		r = nfs_dial_nfs(d, address, &rpc);
		if (!r) {
			*out = known[i];
			nfs_dial_close(d, rpc);
		} else if (!d->minor_refused) {
			break;
		}
	}
	d->uri = uri;
	return r;
}

int nfs_source_settle(const struct source_config *c, unsigned int timeout_ms, char *uri, size_t size)
{
	const char *at = choice(c->uri);
	const struct nfs_version *version = NULL;
	char why[NFS_WHY_MAX];
	int r;

	snprintf(uri, size, "%s", c->uri);
	if (!at)
		return 0;
	r = nfs_probe_addresses(c, timeout_ms, try_versions, &version, why, sizeof(why));
	if (r)
		return r;
	r = snprintf(uri, size, "%.*sversion=%s%s", (int)(at - c->uri), c->uri, version->option,
		     at + strlen(OPTION));
	return r < 0 || (size_t)r >= size ? -EPROTO : 0;
}
