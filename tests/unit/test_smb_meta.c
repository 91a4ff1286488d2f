/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_smb_meta.c - retriever/windows/smb_meta.c, smb_streams.c, smb_limits.c, smb_ndr.c
 *
 * That smbd takes what is made here is seen in tests/conformance/test_smb_meta.py.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "windows/smb_meta.h"

#define DOM   "S-1-5-21-10-20-30-"
#define ALICE DOM "1001"
#define STAFF DOM "2001"

#define PROTECTED 0x1000u
#define PRESENT	  0x0004u
#define AUDIT	  0x0010u
#define SELF	  0x8000u

static struct smb_idmap *map;

/* ---- descriptors -------------------------------------------------------------------- */

struct bytes {
	uint8_t b[80000];
	size_t n;
};

static void put(struct bytes *o, uint64_t x, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		o->b[o->n++] = (uint8_t)(x >> 8 * i);
}

static void put_sid(struct bytes *o, const char *text)
{
	struct smb_sid s;

	assert_int_equal(smb_sid_parse(text, strlen(text), &s), 0);
	put(o, 1, 1);
	put(o, s.n, 1);
	for (int i = 5; i >= 0; i--)
		put(o, s.authority >> 8 * i, 1);
	for (unsigned int i = 0; i < s.n; i++)
		put(o, s.sub[i], 4);
}

static void put_ace(struct bytes *o, uint8_t type, uint8_t flags, uint32_t mask, const char *who,
		    unsigned int more)
{
	size_t at = o->n;

	put(o, type, 1);
	put(o, flags, 1);
	put(o, 0, 2);
	put(o, mask, 4);
	put_sid(o, who);
	for (unsigned int i = 0; i < more; i++)
		put(o, 'c', 1);
	o->b[at + 2] = (uint8_t)(o->n - at);
	o->b[at + 3] = (uint8_t)((o->n - at) >> 8);
}

static size_t acl_begin(struct bytes *o, unsigned int pointer, unsigned int n)
{
	size_t at = o->n;
	uint32_t here = htole32((uint32_t)at);

	memcpy(o->b + pointer, &here, 4);
	put(o, 2, 2);
	put(o, 0, 2);
	put(o, n, 4);
	return at;
}

static void acl_end(struct bytes *o, size_t at)
{
	o->b[at + 2] = (uint8_t)(o->n - at);
	o->b[at + 3] = (uint8_t)((o->n - at) >> 8);
}

/* Up to the group, as Samba orders it: owner, group, SACL, DACL. */
static void sd_begin(struct bytes *o, unsigned int control)
{
	uint32_t owner = htole32(20), group;

	memset(o, 0, sizeof(*o));
	put(o, 1, 2);
	put(o, control, 2);
	o->n = 20;
	memcpy(o->b + 4, &owner, 4);
	put_sid(o, ALICE);
	group = htole32((uint32_t)o->n);
	memcpy(o->b + 8, &group, 4);
	put_sid(o, STAFF);
}

static void usual_sd(struct bytes *o)
{
	size_t at;

	sd_begin(o, SELF | PRESENT | AUDIT | PROTECTED);
	at = acl_begin(o, 12, 1);
	put_ace(o, 2, 0xc0, 0x1f01ff, "S-1-1-0", 0);
	acl_end(o, at);
	at = acl_begin(o, 16, 3);
	put_ace(o, 1, 3, 2, DOM "9999", 0);
	put_ace(o, 0, 0x13, 0x1f01ff, ALICE, 0);
	put_ace(o, 0, 0x13, 0x1200a9, DOM "2002", 0);
	acl_end(o, at);
}

/* Others' rights by a list of @n, nobody of whom is known. */
static void long_sd(struct bytes *o, unsigned int n)
{
	char who[64];
	size_t at;

	sd_begin(o, SELF | PRESENT);
	at = acl_begin(o, 16, n);
	for (unsigned int i = 0; i < n; i++) {
		snprintf(who, sizeof(who), "S-1-5-21-%u", i);
		put_ace(o, 0, 0, 0x1200a9, who, 0);
	}
	acl_end(o, at);
}

/* ---- making it ------------------------------------------------------------------------ */

#define NO_LIMIT ((struct smb_limits){ SMB_XATTR_MAX, 0 })

static int make(const struct smb_meta_in *in, struct smb_limits limits, struct smb_meta *out,
		char *why)
{
	struct smb_meta_config c = { .idmap = map, .limits = limits };

	return smb_meta_make(&c, in, out, why);
}

static struct smb_meta made(const struct smb_meta_in *in, struct smb_limits limits)
{
	char why[SMB_META_WHY];
	struct smb_meta m;

	if (make(in, limits, &m, why) < 0)
		fail_msg("%s", why);
	return m;
}

static const struct smb_xattr *attr(const struct smb_meta *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++) {
		if (!strcmp(m->x[i].name, name))
			return &m->x[i];
	}
	fail_msg("no %s", name);
	return NULL;
}

static void names_are(const struct smb_meta *m, const char *expect)
{
	char all[1024] = "";

	for (size_t i = 0; i < m->n; i++) {
		strcat(all, i ? " " : "");
		strcat(all, m->x[i].name);
	}
	assert_string_equal(all, expect);
}

static void lost_is(const struct smb_meta *m, const char *expect)
{
	char all[4096] = "", line[512];

	for (size_t i = 0; i < m->n_lost; i++) {
		strcat(all, i ? "\n" : "");
		strcat(all, smb_lost_text(&m->lost[i], line, sizeof(line)));
	}
	assert_string_equal(all, expect);
}

/* ---- whole objects ---------------------------------------------------------------------- */

static void everything(void **state)
{
	static const struct smb_stream streams[] = {
		{ "::$DATA", 5, "data!" },
		{ ":Zone.Identifier:$DATA", 3, "abc" },
		{ ":\xc3\xa4 \xc3\xb6:$data", 0, NULL },
	};
	static struct bytes sd;
	struct smb_meta_in in = { .type = S_IFDIR,
				  .attributes = 0x12,
				  .streams = streams,
				  .n_streams = 3,
				  .create_time = 132000000000000001,
				  .write_time = 132000000000000002 };
	const struct smb_xattr *x;
	struct smb_meta m, again;

	usual_sd(&sd);
	in.sd = sd.b;
	in.sd_len = sd.n;
	m = made(&in, NO_LIMIT);
	names_are(&m, "system.posix_acl_access system.posix_acl_default user.DOSATTRIB "
		      "user.DosStream.Zone.Identifier:$DATA user.DosStream.\xc3\xa4 \xc3\xb6:$DATA "
		      "security.NTACL");
	lost_is(&m, "");
	assert_int_equal(m.uid, 1001);
	assert_int_equal(m.gid, 2001);
	assert_int_equal(m.mode, S_IFDIR | 0550); /* an unknown SID is denied writing */

	x = attr(&m, "security.NTACL"); /* the descriptor ends it; its head has offsets */
	assert_int_equal(x->len, sd.n + 160);
	assert_memory_equal(x->value, "\4\0\4\0", 4);
	assert_memory_equal((uint8_t *)x->value + 160, sd.b, 4);
	assert_memory_equal((uint8_t *)x->value + 180, sd.b + 20, sd.n - 20);
	x = attr(&m, "user.DosStream.Zone.Identifier:$DATA");
	assert_int_equal(x->len, 4);
	assert_memory_equal(x->value, "abc", 4);
	x = attr(&m, "user.DosStream.\xc3\xa4 \xc3\xb6:$DATA");
	assert_int_equal(x->len, 1);
	assert_memory_equal(x->value, "", 1);

	again = made(&in, NO_LIMIT); /* made twice is the same */
	assert_int_equal(again.n, m.n);
	for (size_t i = 0; i < m.n; i++) {
		assert_string_equal(again.x[i].name, m.x[i].name);
		assert_int_equal(again.x[i].len, m.x[i].len);
		assert_memory_equal(again.x[i].value, m.x[i].value, m.x[i].len);
	}
	smb_meta_finish(&again);
	smb_meta_finish(&m);
}

static void without_descriptor(void **state)
{
	struct smb_meta_in in = { .type = S_IFREG };
	struct smb_meta m = made(&in, NO_LIMIT);

	names_are(&m, "user.DOSATTRIB");
	assert_int_equal(m.mode, S_IFREG | 0600);
	assert_int_equal(m.uid, 0);
	assert_true(m.owner_unknown && m.group_unknown);
	smb_meta_finish(&m);
}

static void other_types(void **state)
{
	struct smb_meta_in in = { .type = S_IFLNK };
	char why[SMB_META_WHY];
	struct smb_meta m;

	assert_int_equal(make(&in, NO_LIMIT, &m, why), -EINVAL);
	assert_string_equal(why, "neither a file nor a directory");
	assert_int_equal(m.n, 0);
}

/* ---- attributes and times ------------------------------------------------------------------ */

static void dos_attributes(void **state)
{
	/* "", version 5, ATTRIB | CREATE_TIME, 0x23, 132000000000000001 */
	static const uint8_t with_time[] = { 0,	   0, 5, 0, 5, 0, 0,	0,    0x11, 0,	  0,	0,
					     0x23, 0, 0, 0, 1, 0, 0x5a, 0xf6, 0x4c, 0xf5, 0xd4, 1 };
	struct smb_meta_in in = { .type = S_IFREG,
				  .attributes = 0x23,
				  .create_time = 132000000000000001 };
	struct smb_meta m = made(&in, NO_LIMIT);
	const struct smb_xattr *x = attr(&m, "user.DOSATTRIB");

	assert_int_equal(x->len, sizeof(with_time));
	assert_memory_equal(x->value, with_time, x->len);
	smb_meta_finish(&m);

	in.attributes = 0x35; /* DIRECTORY on a file is nonsense */
	in.create_time = 0;
	m = made(&in, NO_LIMIT);
	x = attr(&m, "user.DOSATTRIB");
	assert_int_equal(((uint8_t *)x->value)[8], 1);
	assert_int_equal(((uint8_t *)x->value)[12], 0x25);
	assert_int_equal(m.btime.tv_sec, 0);
	smb_meta_finish(&m);

	in.attributes = 0;
	in.type = S_IFDIR;
	in.create_time = UINT64_MAX; /* "leave it" */
	m = made(&in, NO_LIMIT);
	x = attr(&m, "user.DOSATTRIB");
	assert_int_equal(((uint8_t *)x->value)[8], 1);
	assert_int_equal(((uint8_t *)x->value)[12], 0x10);
	smb_meta_finish(&m);
}

static void lost_attributes(void **state)
{
	struct smb_meta_in in = { .type = S_IFREG, .attributes = 0x005c1280 };
	struct smb_meta m = made(&in, NO_LIMIT);

	lost_is(&m, "");
	smb_meta_finish(&m);
	in.attributes = 0x80006900;
	m = made(&in, NO_LIMIT);
	lost_is(&m, "attribute TEMPORARY: Samba does not store it\n"
		    "attribute COMPRESSED: Samba does not store it\n"
		    "attribute NOT_CONTENT_INDEXED: Samba does not store it\n"
		    "attribute ENCRYPTED: Samba does not store it\n"
		    "attribute 0x80000000: Samba does not store it");
	smb_meta_finish(&m);
}

static void time_is(struct timespec t, int64_t sec, long nsec)
{
	assert_int_equal(t.tv_sec, sec);
	assert_int_equal(t.tv_nsec, nsec);
}

static void times(void **state)
{
	struct smb_meta_in in = { .type = S_IFREG,
				  .create_time = 1,
				  .access_time = 116444736000000000,
				  .write_time = 116444735999999999,
				  .change_time = 132000000000000003 };
	struct smb_meta m = made(&in, NO_LIMIT);

	time_is(m.btime, -11644473600, 100);
	time_is(m.atime, 0, 0);
	time_is(m.mtime, -1, 999999900);
	time_is(m.ctime, 1555526400, 300);
	smb_meta_finish(&m);

	in.access_time = 0; /* FAT has none */
	in.write_time = INT64_MAX;
	in.change_time = UINT64_MAX;
	m = made(&in, NO_LIMIT);
	time_is(m.atime, 910692730085, 477580700);
	time_is(m.ctime, 910692730085, 477580700);
	smb_meta_finish(&m);
}

/* ---- streams ---------------------------------------------------------------------------------- */

static void odd_streams(void **state)
{
	static char name234[240] = ":", name235[240] = ":", big[SMB_XATTR_MAX];
	const struct smb_stream streams[] = {
		{ name234, 1, "x" },
		{ name235, 1, "x" },
		{ ":max:$DATA", SMB_XATTR_MAX - 1, big },
		{ ":more:$DATA", SMB_XATTR_MAX, big },
		{ ":huge:$DATA", UINT64_MAX, NULL },
		{ ":gone:$DATA", 7, NULL },
		{ ":a/b:$DATA", 1, "x" },
		{ ":a\\b:$DATA", 1, "x" },
		{ ":a:b:$DATA", 1, "x" },
		{ ":a\1:$DATA", 1, "x" },
		{ ":idx:$INDEX_ALLOCATION", 1, "x" },
		{ "::$INDEX_ALLOCATION", 1, "x" },
		{ ":twice:$DATA", 1, "1" },
		{ ":twice:$DATA", 1, "2" },
		{ ":Twice:$DATA", 1, "3" },
		{ "plain", 1, "4" },
	};
	struct smb_meta_in in = { .type = S_IFREG,
				  .streams = streams,
				  .n_streams = sizeof(streams) / sizeof(streams[0]) };
	struct smb_meta m;
	char names[2048];

	memset(name234 + 1, 'n', 234);
	memset(name235 + 1, 'm', 235);
	m = made(&in, NO_LIMIT);
	snprintf(names, sizeof(names),
		 "user.DOSATTRIB user.DosStream.%s:$DATA user.DosStream.max:$DATA "
		 "user.DosStream.twice:$DATA user.DosStream.Twice:$DATA user.DosStream.plain:$DATA",
		 name234 + 1);
	names_are(&m, names);
	assert_int_equal(attr(&m, "user.DosStream.max:$DATA")->len, SMB_XATTR_MAX);
	assert_memory_equal(attr(&m, "user.DosStream.twice:$DATA")->value, "1", 2);
#define NAME ": no attribute can have the name, or another one has it\n"
#define SIZE " bytes are more than the new file system or Samba takes\n"
	snprintf(names, sizeof(names),
		 "stream %s" NAME "stream more: 65536" SIZE "stream huge: 18446744073709551615" SIZE
		 "stream gone: 7" SIZE "stream a/b" NAME "stream a\\b" NAME "stream a:b" NAME
		 "stream a\1" NAME "stream :idx:$INDEX_ALLOCATION: Samba does not store it\n"
		 "stream ::$INDEX_ALLOCATION: Samba does not store it\n"
		 "stream twice: no attribute can have the name, or another one has it",
		 name235 + 1);
	lost_is(&m, names);
	smb_meta_finish(&m);
}

static void extended_attributes(void **state)
{
	static char name250[256], name251[256], big[SMB_XATTR_MAX + 1];
	const struct smb_ea eas[] = {
		{ "TEXT", "value", 5 },	       { "none", NULL, 0 },
		{ "BIN", "\0\1", 2 },	       { name250, "x", 1 },
		{ name251, "x", 1 },	       { "", "x", 1 },
		{ "dosattrib", "x", 1 },       { "DosStream.a:$DATA", "x", 1 },
		{ "SAMBA_PAI", "x", 1 },       { "TEXT", "again", 5 },
		{ "MAX", big, SMB_XATTR_MAX }, { "MORE", big, SMB_XATTR_MAX + 1 },
	};
	struct smb_meta_in in = { .type = S_IFREG,
				  .eas = eas,
				  .n_eas = sizeof(eas) / sizeof(eas[0]) };
	struct smb_meta m;
	char names[2048];

	memset(name250, 'n', 250);
	memset(name251, 'm', 251);
	m = made(&in, NO_LIMIT);
	snprintf(names, sizeof(names), "user.DOSATTRIB user.TEXT user.BIN user.%s user.MAX",
		 name250);
	names_are(&m, names);
	assert_int_equal(attr(&m, "user.BIN")->len, 2);
	assert_memory_equal(attr(&m, "user.TEXT")->value, "value", 5);
	snprintf(
		names, sizeof(names),
		"extended attribute %s" NAME "extended attribute " NAME
		"extended attribute dosattrib" NAME "extended attribute DosStream.a:$DATA" NAME
		"extended attribute SAMBA_PAI" NAME "extended attribute TEXT" NAME
		"extended attribute MORE: 65537 bytes are more than the new file system or Samba takes",
		name251);
	lost_is(&m, names);
	smb_meta_finish(&m);
}

/* ---- what the file system takes ------------------------------------------------------------------ */

static void little_room(void **state)
{
	static char big[3000];
	static const struct smb_stream streams[] = { { ":a:$DATA", 2900, big },
						     { ":b:$DATA", 2000, big },
						     { ":c:$DATA", 100, big } };
	static struct bytes sd;
	struct smb_meta_in in = { .type = S_IFREG, .streams = streams, .n_streams = 3 };
	struct smb_meta m;

	long_sd(&sd, 8);
	in.sd = sd.b;
	in.sd_len = sd.n;
	m = made(&in, (struct smb_limits){ 4028, 4028 }); /* the descriptor goes first */
	names_are(&m,
		  "user.DOSATTRIB user.DosStream.b:$DATA user.DosStream.c:$DATA security.NTACL");
	lost_is(&m, "stream a: 2901 bytes are more than the new file system or Samba takes");
	smb_meta_finish(&m);

	long_sd(&sd, 150);
	in.sd_len = sd.n;
	m = made(&in, (struct smb_limits){ 4028, 4028 });
	names_are(&m, "user.DOSATTRIB user.DosStream.a:$DATA user.DosStream.c:$DATA");
	lost_is(&m,
		"security descriptor: 3844 bytes are more than the new file system or Samba takes\n"
		"stream b: 2001 bytes are more than the new file system or Samba takes");
	smb_meta_finish(&m);
	assert_int_equal(smb_stream_max(&(struct smb_limits){ 4028, 4028 }), 4027);
	assert_int_equal(smb_stream_max(&(struct smb_limits){ 1 << 20, 0 }), SMB_XATTR_MAX - 1);
	assert_int_equal(smb_stream_max(&(struct smb_limits){ 0, 0 }), 0);
}

/* The mode shows an ACL's mask: without the ACL it would be everybody's in the group. */
static void no_room_for_acl(void **state)
{
	static struct bytes sd;
	struct smb_meta_in in = { .type = S_IFREG };
	char why[SMB_META_WHY];
	struct smb_meta m;
	size_t at;

	sd_begin(&sd, SELF | PRESENT);
	at = acl_begin(&sd, 16, 2);
	put_ace(&sd, 1, 0, 0x1f01ff, DOM "1002", 0);
	put_ace(&sd, 0, 0, 0x1f01ff, "S-1-1-0", 0);
	acl_end(&sd, at);
	in.sd = sd.b;
	in.sd_len = sd.n;
	m = made(&in, NO_LIMIT);
	assert_int_equal(m.mode, S_IFREG | 0777);
	assert_int_equal(attr(&m, "system.posix_acl_access")->len, 4 + 5 * 8);
	assert_false(m.acl_cut);
	smb_meta_finish(&m);
	m = made(&in, (struct smb_limits){ 1000, 768 + 80 });
	assert_int_equal(m.mode, S_IFREG | 0700);
	names_are(&m, "user.DOSATTRIB");
	assert_true(m.acl_cut);
	smb_meta_finish(&m);

	in.type = S_IFDIR; /* a default ACL there must be, or new files would be open to more */
	sd.b[at + 8 + 1] = 3;
	m = made(&in, (struct smb_limits){ 1000, 768 + 140 });
	names_are(&m, "system.posix_acl_default user.DOSATTRIB");
	assert_int_equal(attr(&m, "system.posix_acl_default")->len, 4 + 3 * 8);
	assert_true(m.acl_cut);
	smb_meta_finish(&m);
	assert_int_equal(make(&in, (struct smb_limits){ 1000, 768 }, &m, why), -ENOSPC);
	in.origin_len = 1023;
	assert_int_equal(make(&in, (struct smb_limits){ 3000, 768 + 140 }, &m, why), -ENOSPC);
	m = made(&in, (struct smb_limits){ 3000, 768 + 1023 - 256 + 140 });
	smb_meta_finish(&m);
	assert_string_equal(why, "the file system has no room for a POSIX ACL");
}

static void probed(void **state)
{
	struct smb_limits l;
	int fd = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), proc;

	assert_true(fd >= 0);
	assert_int_equal(smb_limits_probe(fd, &l), 0);
	assert_true(l.value >= 256 && l.value <= SMB_XATTR_MAX);
	assert_true(l.all == 0 || l.all == l.value);
	close(fd);
	proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(proc >= 0);
	assert_true(smb_limits_probe(proc, &l) < 0);
	close(proc);
}

/* ---- hostile descriptors ---------------------------------------------------------------------------- */

static void conditions(void **state)
{
	static struct bytes sd;
	struct smb_meta_in in = { .type = S_IFREG };
	const struct smb_xattr *ntacl;
	struct smb_meta m;
	size_t at;

	sd_begin(&sd, SELF | PRESENT);
	at = acl_begin(&sd, 16, 2);
	put_ace(&sd, 9, 0, 0x1f01ff, "S-1-1-0", 12);
	put_ace(&sd, 0, 0, 0x1f01ff, ALICE, 0);
	acl_end(&sd, at);
	in.sd = sd.b;
	in.sd_len = sd.n;
	m = made(&in, NO_LIMIT);
	/* Samba 4.22 stores them, 4.17 does not: then it is said */
	ntacl = attr(&m, "security.NTACL");
	lost_is(&m, memmem(ntacl->value, ntacl->len, "cccccccccccc", 12) ? "" :
		    "conditions of 1 entries of the security descriptor: Samba does not store it");
	assert_int_equal(m.mode, S_IFREG | 0700);
	smb_meta_finish(&m);
}

static void too_many_entries(void **state)
{
	static struct bytes sd;
	struct smb_meta_in in = { .type = S_IFREG, .sd = sd.b };
	char why[SMB_META_WHY];
	struct smb_meta m;

	long_sd(&sd, 2000);
	in.sd_len = sd.n;
	m = made(&in, NO_LIMIT);
	assert_int_equal(attr(&m, "security.NTACL")->len, sd.n + 160);
	smb_meta_finish(&m);
	long_sd(&sd, 2001);
	in.sd_len = sd.n;
	assert_int_equal(make(&in, NO_LIMIT, &m, why), -E2BIG);
	assert_true(strstr(why, "more entries than Samba takes") != NULL);
}

static void damaged(void **state)
{
	static struct bytes good, sd;
	struct smb_meta_in in = { .type = S_IFDIR };
	unsigned int bad = 0, seed = 1;
	char why[SMB_META_WHY];
	struct smb_meta m;
	int r;

	usual_sd(&good);
	for (size_t len = 0; len < good.n; len++) { /* cut off: an exact block, for valgrind */
		in.sd = memcpy(malloc(len + 1), good.b, len);
		in.sd_len = len;
		r = make(&in, NO_LIMIT, &m, why);
		assert_int_equal(r, -EBADMSG);
		assert_true(strstr(why, "is damaged") != NULL);
		free((void *)in.sd);
	}
	for (unsigned int i = 0; i < 20000; i++) {
		sd = good;
		for (unsigned int k = 0; k <= i % 3; k++) {
			seed = seed * 1103515245u + 12345u;
			sd.b[(seed >> 8) % sd.n] = (uint8_t)(seed >> 20);
		}
		in.sd = sd.b;
		in.sd_len = sd.n;
		r = make(&in, NO_LIMIT, &m, why);
		assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
		bad += r < 0;
		if (r == 0)
			smb_meta_finish(&m);
	}
	assert_true(bad > 1000 && bad < 19000);
}

static int setup(void **state)
{
	static const char table[] = "uid 1001-1002 " ALICE "\ngid 2001-2002 " STAFF "\n";
	char why[SMB_IDMAP_WHY];

	return smb_idmap_parse(table, sizeof(table) - 1, "idmap", &map, why);
}

static int teardown(void **state)
{
	smb_idmap_destroy(map);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything),	    cmocka_unit_test(without_descriptor),
		cmocka_unit_test(other_types),	    cmocka_unit_test(dos_attributes),
		cmocka_unit_test(lost_attributes),  cmocka_unit_test(times),
		cmocka_unit_test(odd_streams),	    cmocka_unit_test(extended_attributes),
		cmocka_unit_test(little_room),	    cmocka_unit_test(no_room_for_acl),
		cmocka_unit_test(probed),	    cmocka_unit_test(conditions),
		cmocka_unit_test(too_many_entries), cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
