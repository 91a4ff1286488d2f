/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_formats.c - what is on the disks of those who migrate, byte by byte.
 *
 * Nothing here may ever be changed to make a test green: volumes live for months, and an
 * update finds them half-way.  A new form gets bytes of its own beside these (HACKING.md).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "journal.h"
#include "volume.h"

#define BYTES_MAX 512

static size_t bytes_of(const char *hex, uint8_t out[BYTES_MAX])
{
	size_t n = 0;
	int used;

	for (; sscanf(hex, " %2hhx%n", &out[n], &used) == 1; hex += used)
		assert_true(++n < BYTES_MAX);
	return n;
}

static void assert_bytes(const uint8_t *found, size_t len, const char *hex)
{
	uint8_t kept[BYTES_MAX];
	size_t n = bytes_of(hex, kept);

	if (len != n || memcmp(found, kept, n)) {
		for (size_t i = 0; i < len; i++)
			printf("%02x%s", found[i], i % 16 == 15 ? "\n" : " ");
		printf("\n");
	}
	assert_int_equal(len, n);
	assert_memory_equal(found, kept, n);
}

/* ---- records ---- */

/* A file's, nothing of which is here. */
static struct stub_record plain(void)
{
	struct stub_record r = {
		.source_id = 1,
		.depth = 2,
		.ino = 131,
		.handle_sum = 0x01020304,
		.boot = 0x1122334455667788,
		.origin = { .len = 4, .bytes = "fh01" },
		.size = 300000,
		.src_mtime = { 1700000000, 123456789 },
		.src_ctime = { 1700000001, 5 },
		.mtime = { 1700000000, 123456789 },
		.ctime = { 1700000001, 5 },
		.fsid = 0x2a,
		.fileid = 4711,
		.nlink = 1,
		.nlink_shown = 1,
	};

	stub_map_init(&r.now, r.size);
	stub_map_init(&r.durable, r.size);
	return r;
}

/* One that clients have changed since: parts of it are here, and not all of that durably. */
static struct stub_record changed(void)
{
	struct stub_record r = plain();

	r.flags = STUB_FLAG_LINKS | STUB_FLAG_LINK_KEY;
	r.link_key = 0xfedcba9876543210;
	r.nlink = 3;
	r.nlink_shown = 2;
	r.mtime = (struct timespec){ -5, 999999999 };
	r.ctime = (struct timespec){ 1800000000, 0 };
	assert_int_equal(stub_map_subtract(&r.now, 4096, 8192), 0);
	assert_int_equal(stub_map_subtract(&r.now, 100000, 200000), 0);
	assert_int_equal(stub_map_subtract(&r.durable, 4096, 8192), 0);
	return r;
}

/* A directory's, unlisted, with lookups; and one listed but for two names. */
static struct stub_record unlisted(void)
{
	struct stub_record r = plain();

	r.flags = STUB_FLAG_DUMMY | STUB_FLAG_UNLISTED | STUB_FLAG_LOOKUPS | STUB_FLAG_LOOKUPS_NEW;
	r.size = 4096;
	stub_map_init(&r.now, 0);
	stub_map_init(&r.durable, 0);
	return r;
}

static struct stub_record refused(void)
{
	struct stub_record r = unlisted();

	r.flags = STUB_FLAG_REFUSED | STUB_FLAG_OVER;
	r.refused.len = 8;
	memcpy(r.refused.names, "\3a:b\3c|d", 8);
	return r;
}

static const struct {
	const char *what;
	struct stub_record (*make)(void);
	const char *hex;
} records[] = {
	{ "plain", plain,
	  "01 00 01 00 02 83 00 00 00 00 00 00 00 04 03 02 "
	  "01 88 77 66 55 44 33 22 11 04 66 68 30 31 e0 a7 "
	  "12 80 c4 9f d5 0c 95 9a ef 3a 82 c4 9f d5 0c 05 "
	  "2a e7 24 01 01 07 01 00 e0 a7 12 7c 6e 66 ee" },
	{ "changed", changed,
	  "01 44 01 00 02 83 00 00 00 00 00 00 00 04 03 02 "
	  "01 88 77 66 55 44 33 22 11 04 66 68 30 31 e0 a7 "
	  "12 80 c4 9f d5 0c 95 9a ef 3a 82 c4 9f d5 0c 05 "
	  "2a e7 24 03 02 08 09 ff 93 eb dc 03 80 c8 ce b4 "
	  "0d 00 03 00 80 20 80 20 a0 cd 05 a0 8d 06 a0 8d "
	  "06 01 a0 8d 06 a0 8d 06 10 32 54 76 98 ba dc fe "
	  "2a 0a 97 7e" },
	{ "unlisted", unlisted,
	  "01 1b 01 00 02 83 00 00 00 00 00 00 00 04 03 02 "
	  "01 88 77 66 55 44 33 22 11 04 66 68 30 31 80 20 "
	  "80 c4 9f d5 0c 95 9a ef 3a 82 c4 9f d5 0c 05 2a "
	  "e7 24 01 01 07 00 a7 4b b6 80" },
	{ "refused", refused,
	  "01 a0 01 00 02 83 00 00 00 00 00 00 00 04 03 02 "
	  "01 88 77 66 55 44 33 22 11 04 66 68 30 31 80 20 "
	  "80 c4 9f d5 0c 95 9a ef 3a 82 c4 9f d5 0c 05 2a "
	  "e7 24 01 01 07 00 08 03 61 3a 62 03 63 7c 64 3c "
	  "db 19 3a" },
};

static void assert_record(const struct stub_record *r, const char *hex)
{
	uint8_t bytes[BYTES_MAX];
	int len = stub_record_encode(r, bytes, sizeof(bytes));

	assert_true(len > 0);
	assert_bytes(bytes, (size_t)len, hex);
}

static void test_records(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		struct stub_record r = records[i].make();
		uint8_t bytes[BYTES_MAX];
		size_t len = bytes_of(records[i].hex, bytes);

		print_message("%s\n", records[i].what);
		assert_record(&r, records[i].hex);
		assert_int_equal(stub_record_decode(bytes, len, &r), 0);
		assert_record(&r, records[i].hex); /* nothing in them was read as another thing */
	}
}

/* ---- the journal's keys and values ---- */

static struct stub_handle handle(int32_t type, const char *bytes, uint8_t len)
{
	struct stub_handle h = { .type = type, .len = len };

	memcpy(h.bytes, bytes, len);
	return h;
}

static void test_journal(void **state)
{
	static const struct stub_journal_entry parked = {
		.kind = STUB_JOURNAL_FILE,
		.park = STUB_PARK_ERROR,
		.tries = 258,
		.error = -5,
		.size = 300000,
		.mtime = -2,
		.reason = "READ: EIO",
	};
	struct stub_handle ext4 = handle(1, "\x83\x01\0\0\x0a\x0b\x0c\x0d", 8);
	struct stub_handle xfs = handle(0x81, "\x83\x01\0\0\0\0\0\x7f\x0a\x0b\x0c\x0d", 12), back;
	uint8_t bytes[STUB_JOURNAL_VALUE_MAX + STUB_JOURNAL_KEY_MAX];
	struct stub_journal_entry e;

	(void)state;
	assert_bytes(bytes, stub_journal_key_pack(&ext4, bytes),
		     "00 00 00 01 00 00 01 83 0a 0b 0c 0d");
	assert_int_equal(stub_journal_key_parse(bytes, 12, &back), 0);
	assert_true(stub_handle_equal(&ext4, &back));
	assert_bytes(bytes, stub_journal_key_pack(&xfs, bytes),
		     "00 00 00 81 7f 00 00 00 00 00 01 83 0a 0b 0c 0d");
	assert_int_equal(stub_journal_key_parse(bytes, 16, &back), 0);
	assert_true(stub_handle_equal(&xfs, &back));

	assert_bytes(bytes, stub_journal_value_pack(&parked, bytes),
		     "01 01 01 09 fb ff ff ff e0 93 04 00 00 00 00 00 "
		     "fe ff ff ff ff ff ff ff 02 01 52 45 41 44 3a 20 "
		     "45 49 4f");
	assert_int_equal(stub_journal_value_parse(bytes, STUB_JOURNAL_VALUE_FIX + 9, &e), 0);
	assert_int_equal(e.kind, parked.kind);
	assert_int_equal(e.park, parked.park);
	assert_int_equal(e.tries, parked.tries);
	assert_int_equal(e.error, parked.error);
	assert_int_equal(e.size, parked.size);
	assert_int_equal(e.mtime, parked.mtime);
	assert_string_equal(e.reason, parked.reason);
}

/* ---- volume.conf ---- */

static char told[512];

static void tell(void *arg, enum stub_log_level level, const char *msg)
{
	snprintf(told, sizeof(told), "%s", msg);
}

static int load(const char *text, struct stub_volume_info *info)
{
	const struct stub_log log = { tell, NULL };
	char dir[] = "/var/tmp/postcopy-unit-XXXXXX";
	int fd, r;

	told[0] = '\0';

	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(stub_io_write_file(fd, STUB_CONF, text), 0);
	r = stub_conf_load(fd, &log, info);
	unlinkat(fd, STUB_CONF, 0);
	close(fd);
	rmdir(dir);
	return r;
}

#define CONF(format, more)                                                    \
	"format=" format "\nuuid=0f0e0d0c-0b0a-4908-8706-050403020100\n"       \
	"source=nfs://192.0.2.1/export\n" more                                  \
	"socket=/run/postcopy/a.sock\ncontrol=/run/postcopy/a.control\n"        \
	"created=1700000000\n"

static void test_volume_conf(void **state)
{
	struct stub_volume_info v;

	(void)state;
	/* before volumes knew where they were made, and the numbers of the source's root */
	assert_int_equal(load(CONF("1", "source_id=1\n"), &v), 0);
	assert_string_equal(v.uuid, "0f0e0d0c-0b0a-4908-8706-050403020100");
	assert_string_equal(v.source, "nfs://192.0.2.1/export");
	assert_string_equal(v.socket, "/run/postcopy/a.sock");
	assert_string_equal(v.control, "/run/postcopy/a.control");
	assert_int_equal(v.source_id, 1);
	assert_int_equal(v.created, 1700000000);
	assert_string_equal(v.home, "");
	assert_false(v.root_known);

	assert_int_equal(load(CONF("2", "join=smb://192.0.2.1/share\njoin_root=18446744073709551615\n"
				   "depot=/srv/depot\ndepot_id=7\nroot_fsid=42\nroot_fileid=2\n"
				   "source_id=65535\nhome=xfs:5\n"), &v), 0);
	assert_string_equal(v.join, "smb://192.0.2.1/share");
	assert_int_equal(v.join_root, UINT64_MAX);
	assert_string_equal(v.depot, "/srv/depot");
	assert_int_equal(v.depot_id, 7);
	assert_true(v.root_known);
	assert_int_equal(v.root_fsid, 42);
	assert_int_equal(v.root_fileid, 2);
	assert_int_equal(v.source_id, UINT16_MAX);
	assert_string_equal(v.home, "xfs:5");
}

/* Of a release to come: refused, whatever else it says. */
static void test_volume_conf_of_later(void **state)
{
	struct stub_volume_info v;

	(void)state;
	assert_int_equal(load(CONF("3", "flavour=new\n"), &v), -EPROTONOSUPPORT);
	assert_string_equal(told, ".postcopy/volume.conf line 1: made by a newer release of postcopy");
	assert_int_equal(load(CONF("2", "flavour=new\n"), &v), -EBADMSG);
	assert_string_equal(told, ".postcopy/volume.conf line 4: unknown key \"flavour\": written by a "
				  "newer postcopy?");
	assert_int_equal(load(CONF("4294967296", ""), &v), -EBADMSG);
	assert_string_equal(told, ".postcopy/volume.conf line 1: format is not a number from 0 to "
				  "4294967295");
}

/* What is wrong, and in which line. */
static void test_volume_conf_damaged(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "line 0: its last line has no end: it was cut off" },
		{ CONF("2", "source_id=1\nsource_id\n"),
		  "line 5: no '=' in the line" },
		{ CONF("2", "\n\n\033[2J\"=1\n"),
		  "line 6: unknown key \"\\x1b[2J\\x22\": written by a newer postcopy?" },
		{ CONF("2", "source_id=65536\n"), "line 4: source_id is not a number from 0 to 65535" },
		{ CONF("2", "depot_id=-1\n"),
		  "line 4: depot_id is not a number from 0 to 18446744073709551615" },
		{ CONF("2", "uuid=0f0e0d0c-0b0a-4908-8706-0504030201000\n"),
		  "line 4: uuid is longer than 36 bytes" },
		{ "format=2\nuuid=1\n", "line 2: no line \"source=\" up to here: the file is damaged" },
		{ CONF("2", "join=smb://me:se@cret@old/share\n"),
		  "line 7: source and join can have no user or password before the host: take it "
		  "out (for SMB: smb_credentials)" },
		{ "format=2\nuuid=1\nsour", "line 0: its last line has no end: it was cut off" },
	};
	struct stub_volume_info v;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(load(cases[i].text, &v), -EBADMSG);
		assert_string_equal(told + strlen(".postcopy/volume.conf "), cases[i].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_journal),
		cmocka_unit_test(test_volume_conf),
		cmocka_unit_test(test_volume_conf_of_later),
		cmocka_unit_test(test_volume_conf_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
