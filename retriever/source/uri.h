/* SPDX-License-Identifier: GPL-3.0-or-later */
/* uri.h - what all URIs of sources have in common. */
#ifndef SOURCE_URI_H
#define SOURCE_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_HOST_MAX 258 /* bytes of a host with its NUL: a name, or [address] */
#define SOURCE_SHOWN_MAX 512 /* what is enough of a URI in a message */

enum source_kind { SOURCE_UNKNOWN, SOURCE_NFS, SOURCE_SMB, SOURCE_FILE };

/* By how it begins: nfs://, smb://, file://.  NULL: unknown. */
enum source_kind source_uri_kind(const char *uri);

/* Does an nfs:// one ask for NFSv4? */
bool source_uri_nfs4(const char *uri);

/* Does an nfs:// one ask for Kerberos? */
bool source_uri_kerberos(const char *uri);

/*
 * @uri as it may be shown to anybody, also one that is no good: without what may be a password,
 * whose place is before an '@' ("***@" instead).  @size: that of @out, which is cut to it.
 */
void source_uri_shown(const char *uri, char *out, size_t size);

/*
 * host[:port] in [p, end), where host is a name, an IPv4 address or [IPv6 address]: as it is to be
 * shown, with the brackets, and as resolvers take it, without them; both of SOURCE_HOST_MAX bytes.
 * @port: 0 if there is none.  0, or -EINVAL with one line in @why.
 */
int source_uri_host(const char *p, const char *end, char *shown, char *node, uint16_t *port,
		    char *why, size_t size);

/* A decimal number from 1 to 65535 in [p, end). */
bool source_uri_port(const char *p, const char *end, uint16_t *out);

/* The byte that "%XX" at the beginning of [p, end) stands for, or -EINVAL: two hexadecimal
 * digits are not there. */
int source_uri_unescape(const char *p, const char *end);

#endif
