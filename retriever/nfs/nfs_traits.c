// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_traits.c - what the server says of itself and of the export's file system.
 *
 * Only a server that cannot be reached is an error.  If it refuses a question, or its answer
 * cannot be decoded, that answer is missing.
 */
#include <string.h>

#include "nfs/nfs.h"

static int try_address(struct nfs_dial *d, const char *address, void *out)
{
	struct stub_origin root;
	int r = d->uri->version->root(d, address, &root);

	if (r)
		return r;
	memset(out, 0, sizeof(struct source_traits));
	((struct source_traits *)out)->security = nfs_security_name(d->uri->sec);
	return d->uri->version->traits(d, address, &root, out);
}

int nfs_source_traits(const struct source_config *c, unsigned int timeout_ms,
		      struct source_traits *out, char *why, size_t why_size)
{
	return nfs_probe_addresses(c, timeout_ms, try_address, out, why, why_size);
}
