// SPDX-License-Identifier: GPL-3.0-or-later
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "source/uri.h"

enum source_kind source_uri_kind(const char *uri)
{
	static const struct {
		const char *scheme;
		enum source_kind kind;
	} kinds[] = { { "nfs://", SOURCE_NFS }, { "smb://", SOURCE_SMB } };

	for (size_t i = 0; uri && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(uri, kinds[i].scheme, strlen(kinds[i].scheme)))
			return kinds[i].kind;
	return SOURCE_UNKNOWN;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -EINVAL;
}

int source_uri_unescape(const char *p, const char *end)
{
	int hi = end - p > 2 ? hex(p[1]) : -EINVAL, lo = hi >= 0 ? hex(p[2]) : -EINVAL;

	return lo < 0 ? lo : hi * 16 + lo;
}
