// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_uri.c - file:///path
 *
 *   path   absolute, of a directory of this machine; %XX for any byte.  No names "." and "..".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "file/file.h"

static int bad(char *why, size_t why_size, const char *text)
{
	snprintf(why, why_size, "%s", text);
	return -EINVAL;
}

static int unescape(const char *p, char *out, char *why, size_t size)
{
	const char *end = p + strlen(p);
	size_t n = 0;

	for (; p < end; p++) {
		int c = (unsigned char)*p;

		if (c == '?' || c == '#')
			return bad(why, size, "'?' and '#' of a path are written %3F and %23");
		if (c == '%') {
			c = source_uri_unescape(p, end);
			if (c < 0)
				return bad(why, size, "'%' without two hexadecimal digits");
			if (c == 0)
				return bad(why, size, "the path has a zero byte");
			p += 2;
		}
		if (c == '/' && n && out[n - 1] == '/')
			continue;
		out[n++] = (char)c;
	}
	while (n > 1 && out[n - 1] == '/')
		n--;
	out[n] = '\0';
	return 0;
}

int file_uri_parse(const char *uri, struct file_uri *out, char *why, size_t why_size)
{
	char copy[STUB_URI_MAX + 1], *name, *at = copy;
	int r;

	memset(out, 0, sizeof(*out));
	if (source_uri_kind(uri) != SOURCE_FILE)
		return bad(why, why_size, "does not start with file://");
	if (strlen(uri) > STUB_URI_MAX)
		return bad(why, why_size, "is too long");
	uri += strlen("file://");
	if (*uri != '/')
		return bad(why, why_size, "there is no host in it: file:///path (three slashes)");
	r = unescape(uri, out->path, why, why_size);
	if (r)
		return r;
	strcpy(copy, out->path);
	while ((name = strsep(&at, "/")))
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			return bad(why, why_size, "the path has a name that is '.' or '..'");
	return 0;
}
