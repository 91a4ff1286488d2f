/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preflight_uri.c - which host and which export does the URI mean? */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <string.h>

#include "nfs/nfs.h"
#include "preflight/preflight.h"
#include "smb/smb.h"
#include "source/uri.h"

/* An address as 16 bytes: IPv4 as ::ffff:a.b.c.d. False: neither IPv4 nor IPv6. */
static bool address_bytes(const struct sockaddr *sa, uint8_t out[16])
{
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return true;
	}
	if (sa && sa->sa_family == AF_INET) {
		memset(out, 0, 10);
		memset(out + 10, 0xff, 2);
		memcpy(out + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
		return true;
	}
	return false;
}

static bool address_is_local(const struct sockaddr *sa)
{
	static const uint8_t mapped_loopback[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };
	struct ifaddrs *list, *i;
	uint8_t a[16], b[16];
	bool local = false;

	if (!address_bytes(sa, a))
		return false;
	if (!memcmp(a, mapped_loopback, sizeof(mapped_loopback)))
		return true;
	if (getifaddrs(&list) < 0)
		return false;
	for (i = list; i && !local; i = i->ifa_next)
		local = address_bytes(i->ifa_addr, b) && !memcmp(a, b, sizeof(a));
	freeifaddrs(list);
	return local;
}

static int resolve(struct verdict *v, struct source_facts *facts)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list, *i;
	int r = getaddrinfo(facts->host, NULL, &hints, &list);

	if (r != 0)
		return verdict_fail(v, FAIL_UNKNOWN_HOST,
				    "unknown host '%s' (%s): check the name, or give an address",
				    facts->host, gai_strerror(r));
	for (i = list; i; i = i->ai_next)
		facts->local = facts->local || address_is_local(i->ai_addr);
	freeaddrinfo(list);
	return 0;
}

static int bad(struct verdict *v, const char *which, const char *uri, const char *why,
	       const char *want)
{
	char shown[SOURCE_SHOWN_MAX];

	source_uri_shown(uri, shown, sizeof(shown));
	return verdict_fail(v, FAIL_URI, "%s '%s': %s; want %s", which, shown, why, want);
}

static int check_join(struct verdict *v, const char *uri)
{
	struct smb_uri parts;
	char why[256];

	return smb_uri_parse(uri, &parts, why, sizeof(why)) < 0 ?
		       bad(v, "joined source", uri, why, "smb://host/share") :
		       0;
}

static int smb_parts(struct verdict *v, struct source_facts *facts)
{
	struct smb_uri parts;
	char why[256];

	if (smb_uri_parse(facts->uri, &parts, why, sizeof(why)) < 0)
		return bad(v, "source", facts->uri, why, "smb://host/share");
	facts->smb = true;
	snprintf(facts->host, sizeof(facts->host), "%s", parts.node);
	return resolve(v, facts);
}

/* The URI that is meant, for people who write what mount takes: host:/path, //host/share. */
static void suggest(const char *uri, char *out, size_t size)
{
	const char *bracket = *uri == '[' ? strchr(uri, ']') : NULL;
	const char *colon = bracket ? bracket + 1 : strchr(uri, ':');

	out[0] = '\0';
	if (!strncmp(uri, "//", 2) || !strncmp(uri, "\\\\", 2))
		snprintf(out, size, "; did you mean 'smb://%.200s'?", uri + 2);
	else if (!strncmp(uri, "cifs://", 7))
		snprintf(out, size, "; did you mean 'smb://%.200s'?", uri + 7);
	else if (*uri == '/')
		snprintf(out, size, "; did you mean 'file://%.200s'?", uri);
	else if (colon && colon > uri && *colon == ':' && colon[1] == '/' && colon[2] != '/' &&
		 !memchr(uri, '/', (size_t)(colon - uri)))
		snprintf(out, size, "; did you mean 'nfs://%.*s%.200s'?", (int)(colon - uri), uri,
			 colon + 1);
	for (char *c = out; *c; c++)
		if (*c == '\\')
			*c = '/';
}

static int unknown_kind(struct verdict *v, const char *uri)
{
	char shown[SOURCE_SHOWN_MAX], meant[SOURCE_SHOWN_MAX], text[256];
	char *user;

	source_uri_shown(uri, shown, sizeof(shown));
	snprintf(meant, sizeof(meant), "%s", shown);
	user = strcmp(shown, uri) ? strstr(meant, "***@") : NULL;
	if (user) /* what is right has none */
		memmove(user, user + 4, strlen(user + 4) + 1);
	suggest(meant, text, sizeof(text));
	return verdict_fail(v, FAIL_URI,
			    "source '%s': want nfs://host/export, smb://host/share or "
			    "file:///path%s", shown, text);
}

int preflight_uri(struct verdict *v, const char *uri, struct source_facts *facts)
{
	struct nfs_uri parts;
	char why[256];

	facts->uri = uri;
	if (source_uri_kind(uri) == SOURCE_UNKNOWN)
		return unknown_kind(v, uri);
	if (facts->join && check_join(v, facts->join) < 0)
		return -1;
	if (source_uri_kind(uri) == SOURCE_SMB)
		return smb_parts(v, facts);
	if (source_uri_kind(uri) == SOURCE_FILE)
		return preflight_file_uri(v, facts);
	if (nfs_uri_parse(uri, &parts, why, sizeof(why)) < 0)
		return bad(v, "source", uri, why, "nfs://host/export");
	if (facts->join && source_uri_nfs4(uri))
		return verdict_fail(v, FAIL_USAGE, "an smb:// source cannot be joined to NFSv4 yet: %s",
				    source_uri_kerberos(uri) ?
					    "leave out --join, or use version=3 without Kerberos" :
					    "use version=3");
	snprintf(facts->host, sizeof(facts->host), "%s", parts.node);
	snprintf(facts->path, sizeof(facts->path), "%s", parts.path);
	return resolve(v, facts);
}
