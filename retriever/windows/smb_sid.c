/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "windows/smb_sid.h"

static int digit(char c, unsigned int base)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (base == 16 && c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (base == 16 && c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* One number up to @max at *at, which moves behind it. */
static int number(const char **at, const char *end, unsigned int base, uint64_t max, uint64_t *out)
{
	const char *p = *at;
	uint64_t x = 0;
	int d;

	while (p < end && (d = digit(*p, base)) >= 0) {
		x = x * base + (unsigned int)d; /* max is far below overflow */
		if (x > max)
			return -EINVAL;
		p++;
	}
	if (p == *at)
		return -EINVAL;
	*at = p;
	*out = x;
	return 0;
}

int smb_sid_parse(const char *text, size_t len, struct smb_sid *out)
{
	const char *p = text + 4, *end = text + len;
	unsigned int base = 10;
	uint64_t x;

	memset(out, 0, sizeof(*out));
	if (len < 5 || (memcmp(text, "S-1-", 4) && memcmp(text, "s-1-", 4)))
		return -EINVAL;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
		base = 16;
		p += 2;
	}
	if (number(&p, end, base, ((uint64_t)1 << 48) - 1, &out->authority) < 0)
		return -EINVAL;
	while (p < end) {
		if (*p++ != '-' || out->n == SMB_SID_SUBS ||
		    number(&p, end, 10, UINT32_MAX, &x) < 0)
			return -EINVAL;
		out->sub[out->n++] = (uint32_t)x;
	}
	return 0;
}

char *smb_sid_text(const struct smb_sid *sid, char *buf)
{
	int at;

	if (sid->authority > UINT32_MAX)
		at = snprintf(buf, SMB_SID_TEXT, "S-1-0x%012" PRIx64, sid->authority);
	else
		at = snprintf(buf, SMB_SID_TEXT, "S-1-%" PRIu64, sid->authority);
	for (unsigned int i = 0; i < sid->n; i++)
		at += snprintf(buf + at, SMB_SID_TEXT - (size_t)at, "-%" PRIu32, sid->sub[i]);
	return buf;
}

int smb_sid_cmp(const struct smb_sid *a, const struct smb_sid *b)
{
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->authority != b->authority)
		return a->authority < b->authority ? -1 : 1;
	for (unsigned int i = 0; i < a->n; i++) {
		if (a->sub[i] != b->sub[i])
			return a->sub[i] < b->sub[i] ? -1 : 1;
	}
	return 0;
}

bool smb_sid_is(const struct smb_sid *sid, uint64_t authority, unsigned int n, const uint32_t *sub)
{
	return sid->authority == authority && sid->n == n &&
	       !memcmp(sid->sub, sub, n * sizeof(*sub));
}
