// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_probe.c - one try, and what to tell the administrator. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "krb5/tickets.h"
#include "nfs/nfs.h"
#include "windows/smb_idmap.h"

static int try_address(struct nfs_dial *d, const char *address, void *arg)
{
	const struct source_config *c = arg;
	struct source_limits limits;
	struct nfs_carrier *rpc;
	struct stub_origin root;
	struct stub_attr attr;
	int r = d->uri->version->root(d, address, &root);

	if (r)
		return r;
	r = nfs_dial_nfs(d, address, &rpc);
	if (r)
		return r;
	r = d->uri->version->limits(d, rpc, &root, c, &limits);
	if (!r)
		r = d->uri->version->getattr(d, rpc, &root, &attr);
	if (!r && !S_ISDIR(attr.mode)) {
		snprintf(d->why, sizeof(d->why), "%.200s is not a directory", d->uri->path);
		r = -EPROTO;
	}
	nfs_dial_close(d, rpc);
	return r;
}

static int try_all(struct nfs_dial *d, uint64_t end, nfs_try_fn try, void *arg)
{
	struct nfs_addresses a;
	int r = nfs_dial_resolve(d, &a);

	for (unsigned int i = 0; !r && i < a.n; i++) {
		uint64_t now = stub_now_ms();

		/* an address that does not answer must leave time for the others */
		d->deadline_ms = now + (end > now ? (end - now) / (a.n - i) : 0);
		r = try(d, a.text[i], arg);
		/* with these errors another address may work */
		if (i + 1 < a.n && (r == -ECONNREFUSED || r == -ETIMEDOUT || r == -EHOSTUNREACH))
			r = 0;
		else
			break;
	}
	return r == -ENOMEM ? -EPROTO : r;
}

/* Nobody hears of tickets while it is tried once: what comes of them is told as its result. */
static void on_tickets(void *arg)
{
	(void)arg;
}

static void on_told(void *arg, enum stub_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int nfs_probe_addresses(const struct source_config *c, unsigned int timeout_ms, nfs_try_fn try,
			void *arg, char *why, size_t why_size)
{
	uint64_t end = stub_now_ms() + timeout_ms;
	struct nfs_uri uri;
	const struct nfs_krb5_told told = { on_tickets, on_told, NULL };
	struct nfs_dial d = { .uri = &uri, .wake = -1 };
	struct smb_idmap *ids;
	int r;

	if (why_size)
		why[0] = '\0';
	if (nfs_uri_parse(c->uri, &uri, d.why, sizeof(d.why))) {
		snprintf(why, why_size, "source URI %s", d.why);
		return -EPROTO;
	}
	if (nfs_ids(c, &uri, &ids, why, why_size))
		return -EPROTO;
	d.ids = ids;
	r = nfs_krb5_tickets(c, &uri, &told, &d.tickets, d.why, sizeof(d.why));
	r = r ? -EKEYREJECTED : try_all(&d, end, try, arg);
	if (r)
		snprintf(why, why_size, "%s", d.why);
	tickets_destroy(d.tickets);
	smb_idmap_destroy(ids);
	/* our callers know one way to be refused: also by a file of keys that is not there */
	return r == -EKEYREJECTED ? -EACCES : r;
}

int nfs_source_probe(const struct source_config *c, unsigned int timeout_ms, char *why,
		     size_t why_size)
{
	struct source_config config = nfs_config(c);

	return nfs_probe_addresses(c, timeout_ms, try_address, &config, why, why_size);
}
