// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_uri.c - smb://host[:port]/share[/directory...]
 *
 *   host   name, IPv4 address, or [IPv6 address] without a zone
 *   share, directory   %XX for bytes that URIs reserve; UTF-8
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "smb/smb.h"
#include "source/uri.h"

static int bad(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return -EINVAL;
}

/* One name of the path, decoded, to @to; returns its length or -EINVAL. */
static int parse_name(const char *p, const char *end, char *to, size_t room, char *why, size_t size)
{
	size_t n = 0;

	for (; p < end; p++) {
		int c = (unsigned char)*p;

		if (c == '%') {
			c = source_uri_unescape(p, end);
			if (c < 0)
				return bad(why, size, "'%' without two hexadecimal digits");
			p += 2;
		}
		if (c < 0x20 || strchr("/\\:*?\"<>|", c))
			return bad(why, size, "the path has a character that no name over SMB has");
		if (n + 1 >= room)
			return bad(why, size, "is too long");
		to[n++] = (char)c;
	}
	to[n] = '\0';
	if (!strcmp(to, ".") || !strcmp(to, ".."))
		return bad(why, size, "the path has '.' or '..' in it");
	return (int)n;
}

int smb_uri_parse(const char *uri, struct smb_uri *out, char *why, size_t size)
{
	const char *p, *end, *slash;
	size_t at = 0;
	int n;

	memset(out, 0, sizeof(*out));
	if (source_uri_kind(uri) != SOURCE_SMB)
		return bad(why, size, "does not start with smb://");
	if (strlen(uri) > STUB_URI_MAX)
		return bad(why, size, "is too long");
	p = uri + strlen("smb://");
	end = p + strlen(p);
	slash = strchr(p, '/');
	if (!slash || slash + 1 == end)
		return bad(why, size, "no share after the host: smb://host/share");
	if (source_uri_host(p, slash, out->host, out->node, &out->port, why, size) < 0)
		return -EINVAL;
	for (p = slash + 1; p < end; p = slash + (slash < end)) {
		char *to = out->share;
		size_t room = sizeof(out->share);

		slash = memchr(p, '/', (size_t)(end - p));
		slash = slash ? slash : end;
		if (out->share[0]) {
			to = out->root + at + (at > 0);
			room = sizeof(out->root) - at - 1;
		}
		n = parse_name(p, slash, to, room, why, size);
		if (n < 0)
			return n;
		if (n == 0 && !out->share[0])
			return bad(why, size, "no share after the host: smb://host/share");
		if (n && to != out->share) {
			if (at)
				out->root[at++] = '/';
			at += (size_t)n;
		}
	}
	return 0;
}
