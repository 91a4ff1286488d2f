/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_smb_idmap.c - retriever/windows/smb_idmap.c, retriever/windows/smb_sid.c */
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

#include "windows/smb_idmap.h"

#define DOM "S-1-5-21-10-20-30"

static struct smb_sid sid(const char *text)
{
	struct smb_sid s;

	assert_int_equal(smb_sid_parse(text, strlen(text), &s), 0);
	return s;
}

static struct smb_idmap *map(const char *text)
{
	struct smb_idmap *m = NULL;
	char why[SMB_IDMAP_WHY] = "";

	if (smb_idmap_parse(text, strlen(text), "idmap", &m, why) < 0)
		fail_msg("%s", why);
	return m;
}

static struct smb_id find(const struct smb_idmap *m, const char *text)
{
	struct smb_sid s = sid(text);
	struct smb_id id;

	smb_idmap_find(m, &s, &id);
	return id;
}

static void is_bad(const char *text, const char *expect)
{
	struct smb_idmap *m = NULL;
	char why[SMB_IDMAP_WHY] = "";

	assert_int_equal(smb_idmap_parse(text, strlen(text), "idmap", &m, why), -EINVAL);
	assert_string_equal(why, expect);
	assert_null(m);
}

/* ---- smb_sid_parse, smb_sid_text, smb_sid_cmp -------------------------------- */

static void sid_there_and_back(void **state)
{
	static const char *const texts[] = {
		"S-1-0",
		"S-1-1-0",
		"S-1-5-32-544",
		"S-1-22-1-4294967295",
		DOM "-1104",
		"S-1-0x00ffffffffff-1",
		"S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15",
		"S-1-0xffffffffffff-4294967295-4294967295-4294967295-4294967295-4294967295-4294967295"
		"-4294967295-4294967295-4294967295-4294967295-4294967295-4294967295-4294967295"
		"-4294967295-4294967295",
	};
	char buf[SMB_SID_TEXT];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct smb_sid s = sid(texts[i]);

		assert_string_equal(smb_sid_text(&s, buf), texts[i]);
	}
}

static void sid_bad(void **state)
{
	static const char *const texts[] = {
		"",
		"S",
		"S-1",
		"S-1-",
		"S-2-5-1",
		"X-1-5",
		"S-1-5-",
		"S-1-5--1",
		"S-1-5-1-",
		"S-1-5-4294967296",
		"S-1-281474976710656",
		"S-1-0x1000000000000-1",
		"S-1-0x-1",
		"S-1-5-0x10",
		"S-1-5-1 ",
		"S-1-5-a",
		"S-1-99999999999999999999999",
		"S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
	};
	struct smb_sid s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(smb_sid_parse(texts[i], strlen(texts[i]), &s), -EINVAL);
}

static void sid_order(void **state)
{
	struct smb_sid a = sid(DOM "-1"), b = sid(DOM "-2"), c = sid("S-1-5-21-10-20-31-1");

	assert_int_equal(smb_sid_cmp(&a, &a), 0);
	assert_int_equal(smb_sid_cmp(&a, &b), -1);
	assert_int_equal(smb_sid_cmp(&b, &a), 1);
	assert_int_equal(smb_sid_cmp(&b, &c), -1); /* neighbours before the next domain */
}

/* ---- smb_idmap_parse, smb_idmap_find ------------------------------------------ */

static void lines(void **state)
{
	struct smb_idmap *m = map("# who is who\n"
				  "uid 1000 " DOM "-1104 # alice\n"
				  "\n"
				  "\tgid\t500  " DOM "-513\r\n"
				  "uid 10000-19999 " DOM "-2000\n"
				  "gid 10000-19999 " DOM "-2000\n"
				  "everyone S-1-5-11\n"
				  "default uid 70\n"
				  "default gid 71");
	struct smb_id id = find(m, DOM "-1104");

	assert_true(id.has_uid && !id.has_gid && !id.everyone);
	assert_int_equal(id.uid, 1000);
	id = find(m, DOM "-513");
	assert_true(!id.has_uid && id.has_gid);
	assert_int_equal(id.gid, 500);
	id = find(m, DOM "-2000");
	assert_true(id.has_uid && id.has_gid);
	assert_int_equal(id.uid, 10000);
	id = find(m, DOM "-11999");
	assert_int_equal(id.uid, 19999);
	assert_int_equal(id.gid, 19999);
	id = find(m, DOM "-12000");
	assert_false(id.has_uid || id.has_gid);
	id = find(m, DOM "-1999");
	assert_false(id.has_uid || id.has_gid);
	id = find(m, "S-1-5-21-10-20-31-2000");
	assert_false(id.has_uid || id.has_gid);
	id = find(m, "S-1-5-11");
	assert_true(id.everyone && !id.has_uid && !id.has_gid);
	assert_int_equal(smb_idmap_default_uid(m), 70);
	assert_int_equal(smb_idmap_default_gid(m), 71);
	smb_idmap_destroy(m);
}

static void built_in(void **state)
{
	struct smb_idmap *m = map("uid 7 S-1-22-1-1000\n");
	struct smb_id id = find(m, "S-1-22-1-1001");

	assert_true(id.has_uid && !id.has_gid);
	assert_int_equal(id.uid, 1001);
	id = find(m, "S-1-22-2-1001");
	assert_true(!id.has_uid && id.has_gid);
	assert_int_equal(id.gid, 1001);
	id = find(m, "S-1-22-1-1000"); /* the table goes first */
	assert_int_equal(id.uid, 7);
	id = find(m, "S-1-22-1-4294967295"); /* "leave it" to chown() */
	assert_false(id.has_uid || id.has_gid);
	id = find(m, "S-1-22-3-5");
	assert_false(id.has_uid || id.has_gid);
	id = find(m, "S-1-5-18");
	assert_true(id.has_uid && !id.has_gid && id.uid == 0);
	id = find(m, "S-1-5-32-544");
	assert_true(id.has_uid && id.has_gid && id.uid == 0 && id.gid == 0);
	id = find(m, "S-1-1-0");
	assert_false(id.has_uid || id.has_gid || id.everyone);
	assert_int_equal(smb_idmap_default_uid(m), 0);
	assert_int_equal(smb_idmap_default_gid(m), 0);
	smb_idmap_destroy(m);
}

static void errors(void **state)
{
	is_bad("uid", "idmap line 1: expected 'uid N SID'");
	is_bad("\n\nuser 5 S-1-5-1\n",
	       "idmap line 3: 'user': expected uid, gid, everyone or default");
	is_bad("uid x S-1-5-1", "idmap line 1: 'x' is no id");
	is_bad("uid -1 S-1-5-1", "idmap line 1: '-1' is no id");
	is_bad("uid 4294967295 S-1-5-1", "idmap line 1: '4294967295' is no id");
	is_bad("gid 99999999999 S-1-5-1", "idmap line 1: '99999999999' is no id");
	is_bad("uid 5- S-1-5-1", "idmap line 1: '5-' is no range of ids");
	is_bad("uid 5-4 S-1-5-1", "idmap line 1: the range '5-4' ends before it begins");
	is_bad("uid 5 S-1-5", "idmap line 1: 'S-1-5' is no SID");
	is_bad("uid 5 alice", "idmap line 1: 'alice' is no SID");
	is_bad("uid 5 S-1-5-1 alice bob", "idmap line 1: too many words");
	is_bad("uid 5 S-1-5-1 alice", "idmap line 1: expected 'uid N SID'");
	is_bad("everyone 5 S-1-5-1", "idmap line 1: expected 'everyone SID'");
	is_bad("default 5", "idmap line 1: expected 'default uid N' or 'default gid N'");
	is_bad("default uid 5\ndefault uid 5",
	       "idmap line 2: there is a default in line 1 already");
	is_bad("uid 0-1 S-1-5-4294967295", "idmap line 1: the range goes beyond the largest SID");
}

static void contradictions(void **state)
{
	struct smb_idmap *m;

	is_bad("uid 5 S-1-5-7\n#\nuid 6 S-1-5-7\n", "idmap line 3: S-1-5-7 is in line 1 already");
	is_bad("uid 6 S-1-5-21-9\nuid 5-9 S-1-5-21-5\n",
	       "idmap line 2: S-1-5-21-9 is in line 1 already");
	m = map("uid 5-8 S-1-5-21-5\nuid 6 S-1-5-21-9\ngid 6 S-1-5-21-9\nuid 6 S-1-5-22-6\n");
	assert_int_equal(find(m, "S-1-5-21-8").uid, 8);
	assert_int_equal(find(m, "S-1-5-21-9").uid, 6);
	assert_int_equal(find(m, "S-1-5-22-6").uid, 6);
	smb_idmap_destroy(m);
}

static uint32_t named(const struct smb_idmap *m, bool group, const char *name)
{
	uint32_t id = 12345;

	return smb_idmap_name(m, group, name, strlen(name), &id) ? id : UINT32_MAX;
}

static void names(void **state)
{
	struct smb_idmap *m = map("uid 1001 bob@example.org # of NFSv4\n"
				  "uid 1000 alice@example.org\ngid 7 bob@example.org\n"
				  "uid 5 S-1-5-7\nuid 4294967294 x@\nuid 1001 b@e\n");

	assert_int_equal(named(m, false, "alice@example.org"), 1000);
	assert_int_equal(named(m, false, "bob@example.org"), 1001);
	assert_int_equal(named(m, true, "bob@example.org"), 7);
	assert_int_equal(named(m, false, "b@e"), 1001);
	assert_int_equal(named(m, false, "x@"), 4294967294);
	assert_int_equal(named(m, true, "alice@example.org"), UINT32_MAX);
	assert_int_equal(named(m, false, "alice@example.or"), UINT32_MAX);
	assert_int_equal(named(m, false, "alice@example.orgs"), UINT32_MAX);
	assert_int_equal(named(m, false, ""), UINT32_MAX);
	assert_int_equal(named(NULL, false, "alice@example.org"), UINT32_MAX);
	assert_int_equal(find(m, "S-1-5-7").uid, 5);
	smb_idmap_destroy(m);
	is_bad("uid 5-6 a@b", "idmap line 1: '5-6' is no id");
	is_bad("everyone a@b", "idmap line 1: 'a@b' is no SID");
	is_bad("gid 5 a@b\nuid 5 a@b\ngid 6 a@b\n", "idmap line 3: a@b is in line 1 already");
}

static void nul_byte(void **state)
{
	static const char text[] = "uid 5 S-1-5-1\nuid\0 6 S-1-5-2\n";
	struct smb_idmap *m = NULL;
	char why[SMB_IDMAP_WHY];

	assert_int_equal(smb_idmap_parse(text, sizeof(text) - 1, "idmap", &m, why), -EINVAL);
	assert_string_equal(why, "idmap line 2: there is a NUL byte in it");
}

/* A search by halves agrees with one line after the other. */
static void many_ranges(void **state)
{
	char *text = malloc(200000), line[80];
	size_t len = 0;
	struct smb_idmap *m;

	for (uint32_t i = 0; i < 2000; i++) { /* 10 of each 20, in an odd order */
		uint32_t k = (i * 1237) % 2000;

		len += (size_t)sprintf(text + len,
				       "uid %" PRIu32 "-%" PRIu32 " " DOM "-%" PRIu32 "\n", k * 100,
				       k * 100 + 9, k * 20);
	}
	m = map(text);
	for (uint32_t rid = 0; rid < 40010; rid++) {
		struct smb_id id;

		sprintf(line, DOM "-%" PRIu32, rid);
		id = find(m, line);
		if (rid < 40000 && rid % 20 < 10) {
			assert_true(id.has_uid);
			assert_int_equal(id.uid, rid / 20 * 100 + rid % 20);
		} else {
			assert_false(id.has_uid);
		}
	}
	smb_idmap_destroy(m);
	free(text);
}

/* ---- smb_idmap_read ------------------------------------------------------------ */

static void files(void **state)
{
	char path[] = "/tmp/postcopy-idmap-XXXXXX", why[SMB_IDMAP_WHY], expect[SMB_IDMAP_WHY];
	int fd = mkstemp(path);
	struct smb_idmap *m = NULL;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "uid 5 S-1-5-21-1\n", 17), 17);
	assert_int_equal(smb_idmap_read(path, &m, why), 0);
	assert_int_equal(find(m, "S-1-5-21-1").uid, 5);
	smb_idmap_destroy(m);

	assert_int_equal(fchmod(fd, 0664), 0);
	assert_int_equal(smb_idmap_read(path, &m, why), -EPERM);
	snprintf(expect, sizeof(expect), "%s: must belong to root and be writable by nobody else",
		 path);
	assert_string_equal(why, expect);
	assert_int_equal(fchmod(fd, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 12345, 0), 0);
		assert_int_equal(smb_idmap_read(path, &m, why), -EPERM);
		assert_int_equal(fchown(fd, 0, 0), 0);
	}

	assert_int_equal(ftruncate(fd, (16 << 20) + 1), 0);
	assert_int_equal(smb_idmap_read(path, &m, why), -EFBIG);
	assert_int_equal(smb_idmap_read("/tmp", &m, why), -EISDIR);
	assert_int_equal(unlink(path), 0);
	close(fd);
	assert_int_equal(smb_idmap_read(path, &m, why), -ENOENT);
	snprintf(expect, sizeof(expect), "%s: No such file or directory", path);
	assert_string_equal(why, expect);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sid_there_and_back), cmocka_unit_test(sid_bad),
		cmocka_unit_test(sid_order),	      cmocka_unit_test(lines),
		cmocka_unit_test(built_in),	      cmocka_unit_test(errors),
		cmocka_unit_test(contradictions),     cmocka_unit_test(nul_byte),
		cmocka_unit_test(many_ranges),	      cmocka_unit_test(files),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
