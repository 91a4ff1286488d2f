// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_uri.c - nfs://host[:port]/export[?option=value[&...]]
 *
 *   host       name, IPv4 address, or [IPv6 address] without a zone
 *   port       the same as nfsport
 *   export     as in the server's list of exports; %XX for bytes that URIs reserve
 *   nfsport, mountport   ports of the two services; else the portmapper is asked (NFSv4: no
 *              mountport, and nfsport is 2049)
 *   version    3, which is taken if none is given, 4.0, 4.1 or 4.2.  4: the same as 4.0, as volumes
 *              have it that were made before there was a choice
 *   sec        sys, which is taken if none is given; krb5, krb5i, krb5p (NFSv4)
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

static int parse_version(const char *p, const char *end, struct nfs_uri *out, char *why,
			 size_t size)
{
	static const struct {
		const char *text;
		const struct nfs_version *version;
	} known[] = { { "3", &nfs3_version },
		      { "4", &nfs4_version },
		      { "4.0", &nfs4_version },
		      { "4.1", &nfs41_version },
		      { "4.2", &nfs42_version } };
	size_t len = (size_t)(end - p);

	if (out->version)
		return bad(why, size, "version is given twice");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].text) == len && !memcmp(known[i].text, p, len))
			out->version = known[i].version;
	return out->version ? 0 : bad(why, size, "version is none of 3, 4, 4.0, 4.1 and 4.2");
}

static int parse_sec(const char *p, const char *end, struct nfs_uri *out, char *why, size_t size)
{
	size_t len = (size_t)(end - p);

	if (out->sec_given)
		return bad(why, size, "sec is given twice");
	for (int i = NFS_SEC_SYS; i <= NFS_SEC_KRB5P; i++) {
		const char *name = nfs_security_name((enum nfs_security)i);

		if (strlen(name) == len && !memcmp(name, p, len)) {
			out->sec = (enum nfs_security)i;
			out->sec_given = true;
		}
	}
	return out->sec_given ? 0 : bad(why, size, "sec is one of sys, krb5, krb5i and krb5p");
}

static int parse_port(const char *name, const char *p, const char *end, uint16_t *port, char *why,
		      size_t size)
{
	if (*port) {
		snprintf(why, size, "%s is given twice", name);
		return -EINVAL;
	}
	if (!source_uri_port(p, end, port)) {
		snprintf(why, size, "%s is not a number from 1 to 65535", name);
		return -EINVAL;
	}
	return 0;
}

static int parse_option(const char *p, const char *end, struct nfs_uri *out, char *why, size_t size)
{
	const char *eq = find(p, end, '='), *value = eq ? eq + 1 : end;
	size_t len = (size_t)((eq ? eq : end) - p);

	if (len == strlen("nfsport") && !memcmp(p, "nfsport", len))
		return parse_port("nfsport", value, end, &out->nfsport, why, size);
	if (len == strlen("mountport") && !memcmp(p, "mountport", len))
		return parse_port("mountport", value, end, &out->mountport, why, size);
	if (len == strlen("version") && !memcmp(p, "version", len))
		return parse_version(value, end, out, why, size);
	if (len == strlen("sec") && !memcmp(p, "sec", len))
		return parse_sec(value, end, out, why, size);
	snprintf(why, size, "unknown option '%.*s'", len > 40 ? 40 : (int)len, p);
	return -EINVAL;
}

int nfs_uri_parse(const char *uri, struct nfs_uri *out, char *why, size_t why_size)
{
	const char *p, *path, *query, *end;
	int r;

	memset(out, 0, sizeof(*out));
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
	if (!out->version)
		out->version = &nfs3_version;
	if (!r && out->mountport && out->version->number == 4)
		return bad(why, why_size, "mountport is of version=3: NFSv4 has no mount service");
	if (!r && out->sec && out->version == &nfs3_version)
		return bad(why, why_size, "asks for Kerberos with NFSv3, which has none here: add "
					  "version=4");
	return r;
}
