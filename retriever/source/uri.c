// SPDX-License-Identifier: GPL-3.0-or-later
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "source/uri.h"

enum source_kind source_uri_kind(const char *uri)
{
	static const struct {
		const char *scheme;
		enum source_kind kind;
	} kinds[] = { { "nfs://", SOURCE_NFS }, { "smb://", SOURCE_SMB }, { "file://", SOURCE_FILE } };

	for (size_t i = 0; uri && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(uri, kinds[i].scheme, strlen(kinds[i].scheme)))
			return kinds[i].kind;
	return SOURCE_UNKNOWN;
}

/* Is there an option of an nfs:// one that begins with @text? */
static bool has_option(const char *uri, const char *text)
{
	const char *option = source_uri_kind(uri) == SOURCE_NFS ? strchr(uri, '?') : NULL;

	for (; option; option = strchr(option + 1, '&'))
		if (!strncmp(option + 1, text, strlen(text)))
			return true;
	return false;
}

bool source_uri_nfs4(const char *uri)
{
	return has_option(uri, "version=4");
}

bool source_uri_kerberos(const char *uri)
{
	return has_option(uri, "sec=krb5");
}

static int bad(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return -EINVAL;
}

bool source_uri_port(const char *p, const char *end, uint16_t *out)
{
	uint32_t n = 0;

	if (p >= end || end - p > 5)
		return false;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return false;
		n = n * 10 + (uint32_t)(*p - '0');
	}
	if (n < 1 || n > 65535)
		return false;
	*out = (uint16_t)n;
	return true;
}

/* The address between the brackets.  A link-local one means another host on each interface, and
 * volumes live longer than names of interfaces. */
static int check_address(const char *node, char *why, size_t size)
{
	struct in6_addr a;

	if (strchr(node, '%'))
		return bad(why, size, "an IPv6 address with a zone (%) cannot be used: take the "
				      "server's name, or an address that is not link-local");
	if (inet_pton(AF_INET6, node, &a) != 1)
		return bad(why, size, "what is between [ and ] is no IPv6 address");
	if (IN6_IS_ADDR_LINKLOCAL(&a))
		return bad(why, size, "a link-local IPv6 address (fe80:...) cannot be used: take the "
				      "server's name, or another address of it");
	if (IN6_IS_ADDR_UNSPECIFIED(&a) || IN6_IS_ADDR_MULTICAST(&a))
		return bad(why, size, "the IPv6 address is not one that a server has");
	return 0;
}

static int check_name(const char *node, char *why, size_t size)
{
	for (; *node; node++)
		if (!isalnum((unsigned char)*node) && !strchr("-._", *node))
			return bad(why, size, "the host's name has a character it cannot have");
	return 0;
}

int source_uri_host(const char *p, const char *end, char *shown, char *node, uint16_t *port,
		    char *why, size_t size)
{
	bool address = p < end && *p == '[';
	const char *last = memchr(p, address ? ']' : ':', (size_t)(end - p)), *after;
	size_t n;
	int r;

	*port = 0;
	if (memchr(p, '@', (size_t)(end - p)))
		return bad(why, size, "no user or password can stand before the host, where others "
				      "see it in the list of processes: for SMB they go into the "
				      "file that smb_credentials names");
	if (address && !last)
		return bad(why, size, "no ']' after the IPv6 address");
	p += address;
	after = last ? last + address : end; /* the port's colon, or the end */
	n = (size_t)((last ? last : end) - p);
	if (n == 0)
		return bad(why, size, "no host");
	if (n + 3 > SOURCE_HOST_MAX)
		return bad(why, size, "the host's name is too long");
	memcpy(node, p, n);
	node[n] = '\0';
	snprintf(shown, SOURCE_HOST_MAX, address ? "[%s]" : "%s", node);
	r = address ? check_address(node, why, size) : check_name(node, why, size);
	if (r < 0 || after == end)
		return r;
	if (*after != ':')
		return bad(why, size, "something other than a port after ']'");
	if (!address && memchr(after + 1, ':', (size_t)(end - after - 1)))
		return bad(why, size, "an IPv6 address stands between [ and ]");
	return source_uri_port(after + 1, end, port) ?
		       0 :
		       bad(why, size, "the port is not a number from 1 to 65535");
}

/* Where the host begins, in a URI or in what people write for one: host:/path, //host/share. */
static const char *find_host(const char *uri, bool *scheme)
{
	const char *p = strstr(uri, "://");

	*scheme = p != NULL;
	if (p)
		return p + 3;
	return !strncmp(uri, "//", 2) || !strncmp(uri, "\\\\", 2) ? uri + 2 : uri;
}

/* Is [p, end) a host and nothing else?  What is not may be the beginning of a user:password that
 * has a slash in it. */
static bool only_host(const char *p, const char *end)
{
	char shown[SOURCE_HOST_MAX], node[SOURCE_HOST_MAX], why[256];
	uint16_t port;

	return source_uri_host(p, end, shown, node, &port, why, sizeof(why)) == 0;
}

void source_uri_shown(const char *uri, char *out, size_t size)
{
	bool scheme;
	const char *host = find_host(uri, &scheme), *at = strrchr(host, '@');
	const char *end = host + strcspn(host, scheme ? "/" : "/\\");

	if (!scheme && end > host && end[-1] == ':')
		end--;
	if (!at || only_host(host, end))
		snprintf(out, size, "%s", uri);
	else
		snprintf(out, size, "%.*s***%s", (int)(host - uri), uri, at);
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
