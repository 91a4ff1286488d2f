// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_uri.c - nfs://host[:port]/export[?option=value[&...]]
 *
 *   host       name, IPv4 address, or [IPv6 address] without a zone
 *   port       the same as nfsport
 *   export     as in the server's list of exports; %XX for bytes that URIs reserve
 *   nfsport, mountport   ports of the two services; else the portmapper is asked
 *   version    only 3
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/nfs.h"
#include "source/uri.h"

static int bad(char *why, size_t why_size, const char *text)
{
	snprintf(why, why_size, "%s", text);
	return -EINVAL;
}

static const char *find(const char *p, const char *end, char c)
{
	for (; p < end; p++)
		if (*p == c)
			return p;
	return NULL;
}

/* The export's path in [p, end), which starts with '/'. */
static int parse_path(const char *p, const char *end, struct nfs_uri *out, char *why, size_t size)
{
	size_t n = 0;

	for (; p < end; p++) {
		int c = (unsigned char)*p;

		if (c == '%') {
			c = source_uri_unescape(p, end);
			if (c < 0)
				return bad(why, size, "'%' without two hexadecimal digits");
			if (c == 0)
				return bad(why, size, "the export's path has a zero byte");
			p += 2;
		}
		out->path[n++] = (char)c;
	}
	while (n > 1 && out->path[n - 1] == '/')
		n--;
	out->path[n] = '\0';
	return 0;
}

static int parse_option(const char *p, const char *end, struct nfs_uri *out, char *why, size_t size)
{
	static const char *const names[] = { "nfsport", "mountport", "version" };
	const char *eq = find(p, end, '=');
	size_t len = (size_t)((eq ? eq : end) - p);
	unsigned int i;
	uint16_t *port;

	for (i = 0; i < 3; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], p, len))
			break;
	if (i == 3) {
		snprintf(why, size, "unknown option '%.*s'", len > 40 ? 40 : (int)len, p);
		return -EINVAL;
	}
	if (i == 2)
		return eq && end - eq == 2 && eq[1] == '3' ?
			       0 :
			       bad(why, size, "only version=3 is supported");
	port = i == 0 ? &out->nfsport : &out->mountport;
	if (*port) {
		snprintf(why, size, "%s is given twice", names[i]);
		return -EINVAL;
	}
	if (!eq || !source_uri_port(eq + 1, end, port)) {
		snprintf(why, size, "%s is not a number from 1 to 65535", names[i]);
		return -EINVAL;
	}
	return 0;
}

int nfs_uri_parse(const char *uri, struct nfs_uri *out, char *why, size_t why_size)
{
	const char *p, *path, *query, *end;
	int r;

	memset(out, 0, sizeof(*out));
	out->version = &nfs3_version;
	if (source_uri_kind(uri) != SOURCE_NFS)
		return bad(why, why_size, "does not start with nfs://");
	if (strlen(uri) > STUB_URI_MAX)
		return bad(why, why_size, "is too long");
	p = uri + strlen("nfs://");
	end = uri + strlen(uri);
	query = strchr(p, '?');
	path = find(p, query ? query : end, '/');
	if (!path)
		return bad(why, why_size, "no export after the host: nfs://host/export");
	r = source_uri_host(p, path, out->host, out->node, &out->nfsport, why, why_size);
	if (!r)
		r = parse_path(path, query ? query : end, out, why, why_size);
	while (!r && query && query < end) {
		const char *next = find(query + 1, end, '&');

		r = parse_option(query + 1, next ? next : end, out, why, why_size);
		query = next;
	}
	return r;
}
