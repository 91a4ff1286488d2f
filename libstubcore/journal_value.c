/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_value.c - keys and values of the pending journal on disk.
 *
 * Key: handle type (4 bytes, big-endian), handle bytes.  File systems put the
 * inode number first, in the machine's byte order: it is turned to big-endian, so
 * that the walk goes through the volume by inode number and a directory's
 * new inodes fall into neighbouring pages.  For handles of unknown make this is
 * still a permutation of the bytes and loses nothing.
 *
 * Value, little-endian:
 *    0 version (1)   1 kind   2 park   3 length of the reason
 *    4 error (4)     8 size (8)       16 mtime (8)      24 tries (2)
 *   26 reason
 *
 * Neither is believed when read: a key or value that this file would not have
 * written is -EBADMSG.
 */
#include <endian.h>

#include "journal.h"

#define VALUE_VERSION 1

enum stub_queue stub_journal_queue(const struct stub_journal_entry *e)
{
	if (e->park == STUB_PARK_ERROR)
		return STUB_QUEUE_ERRORS;
	if (e->park == STUB_PARK_CONFLICT)
		return STUB_QUEUE_CONFLICTS;
	if (e->kind == STUB_JOURNAL_DIR)
		return STUB_QUEUE_DIRS;
	if (e->kind == STUB_JOURNAL_LINKS)
		return STUB_QUEUE_LINKS;
	return e->size < STUB_QUEUE_LARGE_SIZE ? STUB_QUEUE_SMALL : STUB_QUEUE_LARGE;
}

/* Bytes of the inode number at the front of a handle of this type. */
static size_t ino_width(uint32_t type)
{
	switch (type) {
	case 0x81: /* XFS, 64-bit inode, without and with parent */
	case 0x82:
	case 0x4d: /* btrfs, likewise, and parent in another root */
	case 0x4e:
	case 0x4f:
		return 8;
	default:
		return 4;
	}
}

/* Its own inverse: machine order to big-endian and back. */
static void turn_ino(uint32_t type, uint8_t *bytes, size_t len)
{
	uint32_t u32;
	uint64_t u64;

	if (ino_width(type) == 8 && len >= 8) {
		memcpy(&u64, bytes, 8);
		u64 = htobe64(u64);
		memcpy(bytes, &u64, 8);
	} else if (len >= 4) {
		memcpy(&u32, bytes, 4);
		u32 = htobe32(u32);
		memcpy(bytes, &u32, 4);
	}
}

size_t stub_journal_key_pack(const struct stub_handle *h, uint8_t key[STUB_JOURNAL_KEY_MAX])
{
	uint32_t type = htobe32((uint32_t)h->type);

	memcpy(key, &type, 4);
	memcpy(key + 4, h->bytes, h->len);
	turn_ino((uint32_t)h->type, key + 4, h->len);
	return 4 + (size_t)h->len;
}

int stub_journal_key_parse(const uint8_t *key, size_t len, struct stub_handle *out)
{
	uint32_t type;

	if (len < 5 || len > STUB_JOURNAL_KEY_MAX)
		return -EBADMSG;
	memset(out, 0, sizeof(*out));
	memcpy(&type, key, 4);
	out->type = (int32_t)be32toh(type);
	out->len = (uint8_t)(len - 4);
	memcpy(out->bytes, key + 4, out->len);
	turn_ino((uint32_t)out->type, out->bytes, out->len);
	return 0;
}

size_t stub_journal_value_pack(const struct stub_journal_entry *e,
			       uint8_t value[STUB_JOURNAL_VALUE_MAX])
{
	size_t reason = strnlen(e->reason, STUB_REASON_MAX);

	value[0] = VALUE_VERSION;
	value[1] = e->kind;
	value[2] = e->park;
	value[3] = (uint8_t)reason;
	stub_put_le(value + 4, (uint32_t)e->error, 4);
	stub_put_le(value + 8, e->size, 8);
	stub_put_le(value + 16, (uint64_t)e->mtime, 8);
	stub_put_le(value + 24, e->tries, 2);
	memcpy(value + STUB_JOURNAL_VALUE_FIX, e->reason, reason);
	return STUB_JOURNAL_VALUE_FIX + reason;
}

static bool printable(unsigned char c)
{
	return c >= 0x20 && c != 0x7f;
}

int stub_journal_value_parse(const uint8_t *value, size_t len, struct stub_journal_entry *out)
{
	size_t reason;

	if (len < STUB_JOURNAL_VALUE_FIX || value[0] != VALUE_VERSION)
		return -EBADMSG;
	reason = value[3];
	if (reason > STUB_REASON_MAX || len != STUB_JOURNAL_VALUE_FIX + reason)
		return -EBADMSG;
	if (value[1] > STUB_JOURNAL_LINKS || value[2] > STUB_PARK_CONFLICT)
		return -EBADMSG;
	for (size_t i = 0; i < reason; i++)
		if (!printable(value[STUB_JOURNAL_VALUE_FIX + i]))
			return -EBADMSG;
	out->kind = value[1];
	out->park = value[2];
	out->error = (int32_t)stub_get_le(value + 4, 4);
	out->size = stub_get_le(value + 8, 8);
	out->mtime = (int64_t)stub_get_le(value + 16, 8);
	out->tries = (uint16_t)stub_get_le(value + 24, 2);
	memcpy(out->reason, value + STUB_JOURNAL_VALUE_FIX, reason);
	memset(out->reason + reason, 0, sizeof(out->reason) - reason);
	return 0;
}

/* Bytes of the UTF-8 character at @s that a terminal may be shown, 0 if it is none:
 * control characters (U+0080 to U+009F too), overlong ones, surrogates. */
static size_t shown(const unsigned char *s, size_t left)
{
	static const struct {
		uint8_t first, last, low, high; /* first byte from, to; second byte from, to */
		size_t n;
	} forms[] = {
		{ 0xc2, 0xc2, 0xa0, 0xbf, 2 }, { 0xc3, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	if (s[0] < 0x80)
		return printable(s[0]);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t n = forms[i].n, more = 2;

		if (s[0] < forms[i].first || s[0] > forms[i].last)
			continue;
		if (n > left || s[1] < forms[i].low || s[1] > forms[i].high)
			return 0;
		while (more < n && (s[more] & 0xc0) == 0x80)
			more++;
		return more == n ? n : 0;
	}
	return 0;
}

void stub_journal_reason(char out[STUB_REASON_MAX + 1], const char *text)
{
	size_t n = text ? strlen(text) : 0, at = 0;

	memset(out, 0, STUB_REASON_MAX + 1);
	while (at < n) {
		size_t len = shown((const unsigned char *)text + at, n - at);

		if (at + (len ? len : 1) > STUB_REASON_MAX)
			break; /* not in the middle of a character */
		if (len)
			memcpy(out + at, text + at, len);
		else
			out[at] = '?';
		at += len ? len : 1;
	}
}
