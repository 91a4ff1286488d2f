// SPDX-License-Identifier: GPL-3.0-or-later
/* backends.c - which backend a source has; calls that need no source yet. */
#include <errno.h>
#include <stdio.h>

#include "source/source_ops.h"
#include "source/uri.h"

static const struct source_ops *backend_of(const struct source_config *c)
{
	if (c->uri && c->join && *c->join)
		return &dual_source_ops;
	switch (source_uri_kind(c->uri)) {
	case SOURCE_NFS:
		return &nfs_source_ops;
	case SOURCE_SMB:
		return &smb_source_ops;
	case SOURCE_FILE:
		return &file_source_ops;
	case SOURCE_UNKNOWN:
		break;
	}
	return NULL;
}

int source_create(const struct source_config *c, struct source **out)
{
	const struct source_ops *ops = backend_of(c);
	char shown[SOURCE_SHOWN_MAX];

	if (ops) {
		int r = ops->create(c, out);

		if (r == 0 && c->hides && c->root_known) {
			snprintf((*out)->hides, sizeof((*out)->hides), "%s", c->hides);
			(*out)->root = c->root;
		}
		return r;
	}
	source_uri_shown(c->uri ? c->uri : "(none)", shown, sizeof(shown));
	stub_log_to(c->log, c->log_arg, STUB_LOG_ERROR,
		    "source URI %s: no kind of source begins like this", shown);
	return -EINVAL;
}

static int unknown(char *why, size_t why_size)
{
	snprintf(why, why_size, "source URI: no kind of source begins like this");
	return -EPROTO;
}

int source_probe(const struct source_config *c, unsigned int timeout_ms, char *why, size_t why_size)
{
	const struct source_ops *ops = backend_of(c);

	return ops ? ops->probe(c, timeout_ms, why, why_size) : unknown(why, why_size);
}

int source_traits(const struct source_config *c, unsigned int timeout_ms, struct source_traits *out,
		  char *why, size_t why_size)
{
	const struct source_ops *ops = backend_of(c);

	return ops ? ops->traits(c, timeout_ms, out, why, why_size) : unknown(why, why_size);
}

int source_settle(const struct source_config *c, unsigned int timeout_ms, char *uri, size_t size)
{
	const struct source_ops *ops = backend_of(c);

	if ((size_t)snprintf(uri, size, "%s", c->uri) >= size)
		return -EPROTO;
	return ops && ops->settle ? ops->settle(c, timeout_ms, uri, size) : 0;
}
