// SPDX-License-Identifier: GPL-3.0-or-later
/* `postcopy-volume check`: one name, twins, the table of properties, the command line. */
#include <errno.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check/check.h"
#include "source/dual_origin.h"

#define BIT(kind) (1u << (kind))

static const struct source_traits no_traits;

static struct check_sides sides(unsigned int exports, const struct target_limits *limits)
{
	return (struct check_sides){ .protocol = "nfs",
				     .traits = &no_traits,
				     .limits = limits,
				     .exports = exports };
}

static struct stub_entry file(const char *name, size_t len)
{
	return (struct stub_entry){ .name = name,
				    .name_len = len,
				    .attr = { .mode = S_IFREG | 0644, .nlink = 1 } };
}

/* ---- check_utf8 ---- */

static void utf8(void **state)
{
	static const struct {
		const char *bytes;
		unsigned int n;
		uint32_t c;
	} cases[] = {
		{ "a", 1, 'a' },
		{ "\x7f", 1, 0x7f },
		{ "\xc2\x80", 2, 0x80 },
		{ "\xc3\xa4", 2, 0xe4 },
		{ "\xdf\xbf", 2, 0x7ff },
		{ "\xe0\xa0\x80", 3, 0x800 },
		{ "\xed\x9f\xbf", 3, 0xd7ff },
		{ "\xef\xbf\xbf", 3, 0xffff },
		{ "\xf0\x90\x80\x80", 4, 0x10000 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
		{ "\x80", 0, 0 }, /* a continuation */
		{ "\xc1\xbf", 0, 0 }, /* overlong */
		{ "\xe0\x9f\xbf", 0, 0 },
		{ "\xf0\x8f\xbf\xbf", 0, 0 },
		{ "\xed\xa0\x80", 0, 0 }, /* a surrogate */
		{ "\xf4\x90\x80\x80", 0, 0 },
		{ "\xf8\x88\x80\x80\x80", 0, 0 },
		{ "\xc3", 0, 0 }, /* cut */
		{ "\xc3(", 0, 0 },
		{ "\xff", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t c = 0;

		assert_int_equal(check_utf8(cases[i].bytes, strlen(cases[i].bytes), &c),
				 cases[i].n);
		assert_int_equal(c, cases[i].c);
	}
}

/* ---- check_name ---- */

static uint32_t kinds_of(const struct check_sides *s, const char *name)
{
	struct stub_entry e = file(name, strlen(name));
	char why[CHECK_WHY_MAX];

	return check_name(s, &e, strlen(name), why);
}

static void name_for_smb(void **state)
{
	static const struct {
		const char *name;
		uint32_t kinds;
	} cases[] = {
		{ "plain", 0 },
		{ "gr\xc3\xbc\xc3\x9f"
		  "e.txt",
		  0 },
		{ ".hidden", 0 },
		{ "#~$&'();=@[]^_`{}!%+-,", 0 },
		{ "\x7f", 0 },
		{ "latin\xe4", BIT(CHECK_ENCODING) },
		{ "a<b", BIT(CHECK_CHARACTER) },
		{ "a>b", BIT(CHECK_CHARACTER) },
		{ "a:b", BIT(CHECK_CHARACTER) },
		{ "a\"b", BIT(CHECK_CHARACTER) },
		{ "a|b", BIT(CHECK_CHARACTER) },
		{ "a?b", BIT(CHECK_CHARACTER) },
		{ "a*b", BIT(CHECK_CHARACTER) },
		{ "a\\b", BIT(CHECK_CHARACTER) },
		{ "a\x1f"
		  "b",
		  BIT(CHECK_CHARACTER) },
		{ "new\nline", BIT(CHECK_CHARACTER) },
		{ "dot.", BIT(CHECK_ENDING) },
		{ "space ", BIT(CHECK_ENDING) },
		{ "...", BIT(CHECK_ENDING) },
		{ " leading", 0 },
		{ "CON", BIT(CHECK_DEVICE) },
		{ "con", BIT(CHECK_DEVICE) },
		{ "Nul.tar.gz", BIT(CHECK_DEVICE) },
		{ "aux .c", BIT(CHECK_DEVICE) },
		{ "prn ", BIT(CHECK_DEVICE) | BIT(CHECK_ENDING) },
		{ "COM1", BIT(CHECK_DEVICE) },
		{ "lpt9.txt", BIT(CHECK_DEVICE) },
		{ "COM\xc2\xb9", BIT(CHECK_DEVICE) },
		{ "conin$", BIT(CHECK_DEVICE) },
		{ "COM0", 0 },
		{ "COM10", 0 },
		{ "COM", 0 },
		{ "console", 0 },
		{ "acon", 0 },
		{ "nulls.txt", 0 },
		{ "\xff?.", BIT(CHECK_ENCODING) | BIT(CHECK_CHARACTER) | BIT(CHECK_ENDING) },
	};
	struct check_sides smb = sides(EXPORT_SMB, NULL),
			   both = sides(EXPORT_SMB | EXPORT_NFS, NULL),
			   nfs = sides(EXPORT_NFS, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (kinds_of(&smb, cases[i].name) != cases[i].kinds)
			fail_msg("'%s': %x", cases[i].name, kinds_of(&smb, cases[i].name));
		assert_int_equal(kinds_of(&both, cases[i].name), cases[i].kinds);
		assert_int_equal(kinds_of(&nfs, cases[i].name), 0);
	}
}

static void name_made_up(void **state)
{
	static const struct {
		const char *name;
		bool is;
	} cases[] = {
		{ "C3W1ED~P.TXT", true },
		{ "_0OXM4~7", true },
		{ "LONGNA~1.C", true },
		{ "A$-_00~0.~_$", true },
		{ "abcdef~1", false }, /* small letters are never made */
		{ "C3W1ED~P.txt", false },
		{ "C3W1ED~P.", false },
		{ "C3W1ED~P.TEXT", false },
		{ "C3W1ED~", false },
		{ "C3W1ED~~", false },
		{ "C3W1E~P", false },
		{ "C3W1ED~PX", false },
		{ "C3W1EDDP.TXT", false },
		{ "C3 1ED~P", false },
		{ "", false },
	};
	struct check_sides smb = { .protocol = "smb", .traits = &no_traits, .exports = EXPORT_SMB },
			   nfs = sides(EXPORT_NFS | EXPORT_SMB, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t found = kinds_of(&smb, cases[i].name) & BIT(CHECK_MANGLED);

		if (!!found != cases[i].is)
			fail_msg("'%s'", cases[i].name);
		assert_int_equal(kinds_of(&nfs, cases[i].name) & BIT(CHECK_MANGLED), 0);
	}
}

static void name_lengths(void **state)
{
	struct target_limits l = { .name_max = 100 };
	struct check_sides s = sides(EXPORT_SMB, NULL), small = sides(EXPORT_NFS, &l);
	char why[CHECK_WHY_MAX], name[300];
	struct stub_entry e = file(name, 255);

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_int_equal(check_name(&s, &e, CHECK_PATH_MAX, why), 0);
	assert_int_equal(check_name(&s, &e, CHECK_PATH_MAX + 1, why), BIT(CHECK_LONG_PATH));
	assert_int_equal(check_name(&small, &e, 255, why), BIT(CHECK_LONG_NAME));
	e.name_len = 100;
	assert_int_equal(check_name(&small, &e, 5000, why), 0);
	e.name_len = 256;
	assert_int_equal(check_name(&s, &e, 256, why), BIT(CHECK_LONG_NAME));
}

/* What the library refuses as hostile (stub_entry_check()) must be told before. */
static void name_impossible(void **state)
{
	struct check_sides s = sides(EXPORT_NFS, NULL);
	char why[CHECK_WHY_MAX];
	struct stub_entry e;

	(void)state;
	assert_int_equal(kinds_of(&s, ".."), BIT(CHECK_IMPOSSIBLE));
	assert_int_equal(kinds_of(&s, "a/b"), BIT(CHECK_IMPOSSIBLE));
	assert_int_equal(kinds_of(&s, ""), BIT(CHECK_IMPOSSIBLE));
	e = file("a\0b", 3);
	assert_int_equal(check_name(&s, &e, 3, why), BIT(CHECK_IMPOSSIBLE));
	e = file("f", 1);
	e.attr.gid = UINT32_MAX;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_IMPOSSIBLE));
	assert_non_null(strstr(why, "4294967295"));
	e = file("f", 1);
	e.attr.size = (uint64_t)INT64_MAX + 1;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_IMPOSSIBLE));
	e.attr.size--;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	assert_string_equal(why, "");
	e.attr.mode = S_IFLNK | 0777;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_IMPOSSIBLE));
}

static void name_refused(void **state)
{
	struct target_limits l = { .name_max = 255,
				   .symlink_max = 1023,
				   .file_max = 1000000,
				   .link_max = 65000,
				   .times_known = true,
				   .time_min = -10,
				   .time_max = 1000 };
	struct check_sides s = sides(EXPORT_NFS, &l);
	struct stub_entry e = file("f", 1);
	char why[CHECK_WHY_MAX];

	(void)state;
	e.attr.size = 1000000;
	e.attr.nlink = 65000;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.attr.size++;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	assert_string_equal(why, "a file of 1000001 bytes, 1000000 are the most");
	e.attr.size = 0;
	e.origin_len = STUB_ORIGIN_MAX;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.origin_len++;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	e.origin_len = 1;
	e.attr.nlink++;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	e.attr.mode = S_IFDIR | 0755; /* counts its subdirectories: another limit, or none */
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.attr = (struct stub_attr){ .mode = S_IFLNK | 0777, .nlink = 1 };
	e.target = "x";
	e.target_len = 1023;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.target_len = 1024;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	e.attr = (struct stub_attr){ .mode = S_IFBLK, .rdev_major = 0xfff, .rdev_minor = 0xfffff };
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.attr.rdev_minor++;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	e.attr.rdev_minor = 0;
	e.attr.rdev_major = 0x1000;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_REFUSED));
	e = file("f", 1);
	e.attr.mtime.tv_sec = 1000;
	e.attr.atime.tv_sec = -10;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
	e.attr.mtime.tv_sec = 1001;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_TIME));
	e.attr.mtime.tv_sec = 0;
	e.attr.atime.tv_sec = -11;
	assert_int_equal(check_name(&s, &e, 1, why), BIT(CHECK_TIME));
	l.times_known = false;
	assert_int_equal(check_name(&s, &e, 1, why), 0);
}

/* ---- check_twins ---- */

static int add(struct check_twins *t, const char *name, char twin[STUB_NAME_MAX + 1])
{
	const char *first;
	size_t len;
	int r = check_twins_add(t, name, strlen(name), &first, &len);

	twin[0] = '\0';
	if (r > 0) {
		memcpy(twin, first, len);
		twin[len] = '\0';
	}
	return r;
}

static void twins_fold(void **state)
{
	static const struct {
		const char *a, *b;
		bool twins;
	} cases[] = {
		{ "case", "Case", true },
		{ "case", "CASE", true },
		{ "case", "case", false }, /* twice the same entry is no twin */
		{ "case", "cases", false },
		{ "gr\xc3\xbc\xc3\x9f", "GR\xc3\x9c\xc3\x9f", true }, /* ue; sharp s stays */
		{ "\xc3\x9f", "ss", false },
		{ "\xcf\x83", "\xcf\x82", true }, /* both are SIGMA in capitals */
		{ "\xd0\xb6", "\xd0\x96", true }, /* Cyrillic */
		{ "\xf0\x90\x90\xa8", "\xf0\x90\x90\x80", true }, /* Deseret */
		{ "\xc2\xb5", "\xce\xbc", false }, /* micro sign, mu */
		{ "\xc4\xb1", "i", false }, /* dotless i */
		{ "\xc5\xbf", "s", false }, /* long s */
		{ "\xe4x", "\xe4X", true }, /* not UTF-8: ASCII is folded still */
		{ "\xe4", "\xc4", false },
		{ "\xc3\xa4", "a\xcc\x88", false }, /* composed and not: two names */
		{ "[", "{", false },
	};
	char twin[STUB_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct check_twins *t = check_twins_create(1 << 20);

		assert_non_null(t);
		assert_int_equal(add(t, cases[i].a, twin), 0);
		if (add(t, cases[i].b, twin) != cases[i].twins)
			fail_msg("case %zu", i);
		assert_string_equal(twin, cases[i].twins ? cases[i].a : "");
		check_twins_reset(t, 0, 1);
		assert_int_equal(add(t, cases[i].b, twin), 0);
		check_twins_destroy(t);
	}
	check_twins_destroy(NULL);
}

/* Each pair falls into exactly one part, whole. */
static void twins_in_parts(void **state)
{
	enum { N = 50000, PARTS = 7 };
	struct check_twins *t = check_twins_create(64 << 20);
	unsigned int found = 0, in_part[PARTS] = { 0 };
	char name[32], twin[STUB_NAME_MAX + 1];

	(void)state;
	for (unsigned int part = 0; part < PARTS; part++) {
		check_twins_reset(t, part, PARTS);
		for (unsigned int i = 0; i < 2 * N; i++) {
			snprintf(name, sizeof(name), "%s-%u", i < N ? "name" : "NAME", i % N);
			if (add(t, name, twin) > 0)
				in_part[part]++;
		}
		found += in_part[part];
	}
	assert_int_equal(found, N);
	for (unsigned int part = 0; part < PARTS; part++) /* and no part is much larger */
		assert_in_range(in_part[part], N / PARTS / 2, N / PARTS * 2);
	check_twins_destroy(t);
}

static void twins_bounded(void **state)
{
	struct check_twins *t = check_twins_create(1 << 20);
	char name[300], twin[STUB_NAME_MAX + 1];
	unsigned int n = 0;
	int r;

	(void)state;
	memset(name, 'x', sizeof(name));
	do {
		snprintf(name, sizeof(name), "%0200u", n++);
		r = add(t, name, twin);
	} while (r == 0);
	assert_int_equal(r, -ENOSPC);
	assert_in_range(n, 1000, (1 << 20) / 200); /* used well, and not exceeded */
	snprintf(name, sizeof(name), "%0290u", 0); /* no name: nothing to fold with */
	assert_int_equal(add(t, name, twin), 0);
	check_twins_reset(t, 0, 1);
	assert_int_equal(add(t, "a", twin), 0);
	assert_int_equal(add(t, "A", twin), 1);
	check_twins_destroy(t);
}

/* ---- check_property ---- */

static struct check_property property(const struct check_sides *s, const char *code)
{
	struct check_property p;

	for (unsigned int i = 0; i < check_properties(); i++) {
		check_property(s, i, &p);
		if (!strcmp(p.code, code))
			return p;
	}
	fail_msg("no property %s", code);
	return p;
}

static void expect(const struct check_sides *s, const char *code, enum check_seen seen,
		   enum check_fate fate, const char *why)
{
	struct check_property p = property(s, code);

	if (p.seen != seen || p.fate != fate || !strstr(p.why, why))
		fail_msg("%s: %s, %s, '%s'", code, check_seen_name(p.seen), check_fate_name(p.fate),
			 p.why);
}

static void table_of_nfs(void **state)
{
	struct source_traits t = { .have_info = true,
				   .max_file_size = INT64_MAX,
				   .time_delta = { 0, 1 },
				   .hard_links = true,
				   .symlinks = true,
				   .have_names = true,
				   .link_max = 32000,
				   .name_max = 255,
				   .case_preserving = true,
				   .chown_restricted = true,
				   .have_acl = true };
	struct target_limits l = { .name_max = 255,
				   .symlink_max = STUB_TARGET_MAX,
				   .file_max = INT64_MAX,
				   .link_max = 65000,
				   .times_known = true,
				   .time_min = INT64_MIN,
				   .time_max = INT64_MAX,
				   .time_unit = 1,
				   .acl = true,
				   .user_xattrs = true };
	struct check_sides s = { "nfs", &t, &l, EXPORT_NFS, NULL, false, false };

	(void)state;
	expect(&s, "names", SEEN_YES, FATE_KEPT, "byte for byte");
	expect(&s, "sizes", SEEN_YES, FATE_KEPT, "");
	expect(&s, "hard-links", SEEN_YES, FATE_KEPT, "");
	expect(&s, "symlinks", SEEN_YES, FATE_KEPT, "");
	expect(&s, "mtime", SEEN_YES, FATE_KEPT, "0.000000001 s");
	expect(&s, "posix-acl", SEEN_NO, FATE_LOST, "NFSv3");
	expect(&s, "btime", SEEN_NO, FATE_LOST, "NFSv3");
	expect(&s, "streams", SEEN_NO, FATE_LOST, "NFSv3");
	expect(&s, "security-descriptor", SEEN_NO, FATE_LOST, "NFSv3");
	expect(&s, "snapshots", SEEN_NO, FATE_LOST, "old server");
	expect(&s, "owner", SEEN_YES, FATE_KEPT, "by number");

	t.case_insensitive = true;
	t.chown_restricted = false;
	t.name_max = 1024;
	t.link_max = 100000;
	t.acl = true;
	l.file_max = 1 << 20;
	l.symlink_max = 1023;
	l.time_max = INT32_MAX;
	l.time_unit = 1000000000;
	expect(&s, "names", SEEN_YES, FATE_APPROXIMATED, "A and a");
	expect(&s, "names", SEEN_YES, FATE_APPROXIMATED, "255 fit here");
	expect(&s, "owner", SEEN_YES, FATE_KEPT, "only root");
	expect(&s, "sizes", SEEN_YES, FATE_APPROXIMATED, "1048576");
	expect(&s, "hard-links", SEEN_YES, FATE_APPROXIMATED, "65000");
	expect(&s, "symlinks", SEEN_YES, FATE_APPROXIMATED, "1023");
	expect(&s, "mtime", SEEN_YES, FATE_APPROXIMATED, "2038-01-19");
	expect(&s, "atime", SEEN_YES, FATE_APPROXIMATED, "rounded to 1000000000 ns");
	expect(&s, "posix-acl", SEEN_YES, FATE_KEPT, "beside NFSv3");
	expect(&s, "mode", SEEN_YES, FATE_KEPT, "cannot come");
	l.acl = false;
	expect(&s, "posix-acl", SEEN_YES, FATE_LOST, "has none");
	expect(&s, "mode", SEEN_YES, FATE_APPROXIMATED, "has an ACL");
	l.folds = true;
	expect(&s, "names", SEEN_YES, FATE_LOST, "differ in case only");

	t.hard_links = t.symlinks = false;
	expect(&s, "hard-links", SEEN_NO, FATE_KEPT, "has none");
	expect(&s, "symlinks", SEEN_NO, FATE_KEPT, "has none");
}

static void table_of_nfs4(void **state)
{
	struct source_traits t = { .have_info = true, .have_names = true, .chown_restricted = true,
				   .hard_links = true, .symlinks = true, .have_acl = true,
				   .nfs4 = true };
	struct target_limits l = { .acl = true, .user_xattrs = true };
	struct check_sides s = { "nfs", &t, &l, EXPORT_NFS, NULL, false, false };

	expect(&s, "btime", SEEN_NO, FATE_LOST, "does not tell it");
	expect(&s, "user-xattrs", SEEN_NO, FATE_LOST, "NFSv4.0 does not carry them");
	expect(&s, "holes", SEEN_NO, FATE_APPROXIMATED, "read over the wire");
	expect(&s, "streams", SEEN_NO, FATE_LOST, "NFSv4 does");
	t.born = true;
	expect(&s, "btime", SEEN_YES, FATE_LOST, "creation_times = 1");
	s.born = true;
	expect(&s, "btime", SEEN_YES, FATE_KEPT, "as Samba");
	l.user_xattrs = false;
	expect(&s, "btime", SEEN_YES, FATE_LOST, "has no user");
	l.user_xattrs = true;
	t.minor = 2;
	expect(&s, "user-xattrs", SEEN_NO, FATE_LOST, "offers none");
	expect(&s, "holes", SEEN_YES, FATE_APPROXIMATED, "not read");
	t.xattrs = true;
	expect(&s, "user-xattrs", SEEN_YES, FATE_KEPT, "user.*");
	expect(&s, "posix-acl", SEEN_NO, FATE_LOST, "NFSv4 does");
	expect(&s, "nfs4-acl", SEEN_NO, FATE_LOST, "offers none");
	expect(&s, "mode", SEEN_YES, FATE_KEPT, "");
	expect(&s, "owner", SEEN_YES, FATE_KEPT, "by number");
	assert_null(strstr(property(&s, "mtime").why, "1970"));
	t.acl = true;
	expect(&s, "nfs4-acl", SEEN_YES, FATE_APPROXIMATED, "nobody more");
	expect(&s, "mode", SEEN_YES, FATE_KEPT, "as of a FIFO");
	l.acl = false;
	expect(&s, "nfs4-acl", SEEN_YES, FATE_LOST, "no ACLs");
	expect(&s, "mode", SEEN_YES, FATE_APPROXIMATED, "has an ACL");
}

/* What was not answered is unknown, and no reason to lose anything. */
static void table_without_answers(void **state)
{
	struct target_limits nothing = { 0 };
	struct check_sides s = sides(EXPORT_NFS, NULL);

	(void)state;
	for (int i = 0; i < 2; i++) {
		expect(&s, "names", SEEN_YES, FATE_KEPT, "");
		expect(&s, "sizes", SEEN_YES, FATE_KEPT, "");
		expect(&s, "mtime", SEEN_YES, FATE_KEPT, "");
		expect(&s, "hard-links", SEEN_UNKNOWN, FATE_KEPT, "");
		expect(&s, "symlinks", SEEN_UNKNOWN, FATE_KEPT, "");
		expect(&s, "posix-acl", SEEN_UNKNOWN, FATE_LOST, "");
		expect(&s, "mode", SEEN_YES, FATE_APPROXIMATED, "not known");
		s.limits = &nothing;
	}
	s.exports |= EXPORT_SMB;
	expect(&s, "names", SEEN_YES, FATE_APPROXIMATED, "SMB cannot show");
}

static void from(const struct check_sides *s, const char *code, const char *who)
{
	struct check_property p = { 0 };

	for (unsigned int i = 0; i < check_properties() && (i == 0 || strcmp(p.code, code)); i++)
		check_property(s, i, &p);
	assert_string_equal(p.code, code);
	assert_string_equal(p.from, who);
}

static void table_of_both(void **state)
{
	struct source_traits nfs = { .have_info = true, .hard_links = true, .symlinks = true,
				     .have_acl = true },
			     smb = { .windows = true };
	struct target_limits l = { .user_xattrs = true, .acl = true };
	struct check_sides s = { "nfs", &nfs, &l, EXPORT_NFS | EXPORT_SMB, &smb, false, false };
	static const char *const of_nfs[] = { "names", "data", "owner", "group", "mtime",
					      "hard-links", "symlinks", "special-files" },
				 *const of_smb[] = { "btime", "security-descriptor", "streams",
						     "dos-attributes", "user-xattrs",
						     "posix-acl", "mode" },
				 *const of_none[] = { "nfs4-acl", "locks", "quotas", "snapshots",
						      "holes" };

	(void)state;
	for (size_t i = 0; i < sizeof(of_nfs) / sizeof(of_nfs[0]); i++)
		from(&s, of_nfs[i], "nfs");
	for (size_t i = 0; i < sizeof(of_smb) / sizeof(of_smb[0]); i++)
		from(&s, of_smb[i], "smb");
	for (size_t i = 0; i < sizeof(of_none) / sizeof(of_none[0]); i++)
		from(&s, of_none[i], "");
	expect(&s, "hard-links", SEEN_YES, FATE_KEPT, "");
	expect(&s, "owner", SEEN_YES, FATE_KEPT, "by number");
	expect(&s, "mode", SEEN_YES, FATE_APPROXIMATED, "sticky are NFS's");
	expect(&s, "security-descriptor", SEEN_YES, FATE_KEPT, "whole");
	expect(&s, "posix-acl", SEEN_NO, FATE_APPROXIMATED, "descriptor");
	nfs.acl = true; /* they are made from the descriptor all the same */
	expect(&s, "posix-acl", SEEN_NO, FATE_APPROXIMATED, "descriptor");
	expect(&s, "nfs4-acl", SEEN_NO, FATE_LOST, "NFSv3 does not carry it; SMB does not");
	expect(&s, "quotas", SEEN_NO, FATE_LOST, "new server");
	l.user_xattrs = false;
	expect(&s, "streams", SEEN_NO, FATE_LOST, "no user extended attributes");
	smb.windows = false;
	expect(&s, "mode", SEEN_YES, FATE_KEPT, "");
	expect(&s, "security-descriptor", SEEN_NO, FATE_LOST, "does not bring it");
}

/* What the share is not asked for, of an entry with that path below the export's root. */
static void names_not_joined(void **state)
{
	static const struct {
		const char *dir, *name, *why; /* NULL: it is joined */
	} cases[] = {
		{ "", "plain", NULL },
		{ "a/b", "gr\xc3\xbc\xc3\x9f", NULL },
		{ "", "latin\xe4", "SMB has no such names" },
		{ "", "a:b", "SMB has no such names" },
		{ "a:b", "plain", "SMB has no such names" },
		{ "", "dot.", "unless" },
		{ "", "space ", "unless" },
		{ "x", "con.txt", "unless" },
		{ NULL, "below what is too long", "its path is too long" },
	};
	struct source_traits smb = { .windows = true };
	struct check_sides s = sides(EXPORT_NFS, NULL), alone = s;
	uint8_t handle[8] = { 1 }, origin[STUB_ORIGIN_MAX];
	char why[CHECK_WHY_MAX];

	(void)state;
	s.join = &smb;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stub_entry e = file(cases[i].name, strlen(cases[i].name));
		struct dual_origin dir = { .has_path = cases[i].dir, .path = cases[i].dir };
		uint32_t want = cases[i].why ? BIT(CHECK_NOT_JOINED) : 0;

		dir.path_len = cases[i].dir ? strlen(cases[i].dir) : 0;
		e.dummy = true;
		e.origin = origin;
		e.origin_len = (size_t)dual_origin_encode(&dir, e.name, e.name_len, handle,
							  sizeof(handle), origin);
		if (check_name(&s, &e, e.name_len, why) != want)
			fail_msg("'%s'", cases[i].name);
		assert_non_null(strstr(why, cases[i].why ? cases[i].why : ""));
		assert_int_equal(check_name(&alone, &e, e.name_len, why), 0);
		e.dummy = false; /* a symlink: SMB is not asked for those */
		assert_int_equal(check_name(&s, &e, e.name_len, why), 0);
		e.dummy = true;
		e.attr.uid = UINT32_MAX; /* NFS has told of it */
		assert_int_equal(check_name(&s, &e, e.name_len, why), BIT(CHECK_IMPOSSIBLE));
	}
}

static void table_of_smb(void **state)
{
	static const char *const windows[] = { "security-descriptor", "dos-attributes", "streams",
					       "btime", "user-xattrs" };
	struct source_traits t = { .windows = true };
	struct target_limits l = { .user_xattrs = true, .acl = true };
	struct check_sides s = { "smb", &t, &l, EXPORT_SMB, NULL, false, false };

	(void)state;
	expect(&s, "names", SEEN_YES, FATE_KEPT, "UTF-8");
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
		expect(&s, windows[i], SEEN_YES,
		       !strcmp(windows[i], "streams") ? FATE_APPROXIMATED : FATE_KEPT, "");
	expect(&s, "streams", SEEN_YES, FATE_APPROXIMATED, "64 KiB");
	expect(&s, "security-descriptor", SEEN_YES, FATE_KEPT, "whole");
	l.xattrs_max = 4096;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
		expect(&s, windows[i], SEEN_YES, FATE_APPROXIMATED, "shares 4096 bytes");
	l.xattrs_max = 0;
	expect(&s, "mode", SEEN_NO, FATE_APPROXIMATED, "descriptor");
	expect(&s, "owner", SEEN_YES, FATE_APPROXIMATED, "idmap");
	expect(&s, "posix-acl", SEEN_NO, FATE_APPROXIMATED, "descriptor");
	expect(&s, "special-files", SEEN_NO, FATE_LOST, "SMB");
	expect(&s, "hard-links", SEEN_UNKNOWN, FATE_LOST, "");
	l.user_xattrs = false;
	expect(&s, "security-descriptor", SEEN_YES, FATE_KEPT, "whole");
	for (size_t i = 1; i < sizeof(windows) / sizeof(windows[0]); i++)
		expect(&s, windows[i], SEEN_YES, FATE_LOST, "no user extended attributes");
	l = (struct target_limits){ .user_xattrs = true, .acl = true, .xattrs_max = 4096 };
	s.depot = true; /* files: room for attributes does not matter */
	expect(&s, "streams", SEEN_YES, FATE_KEPT, "any size");
	expect(&s, "dos-attributes", SEEN_YES, FATE_APPROXIMATED, "shares 4096 bytes");
	l.user_xattrs = false;
	expect(&s, "streams", SEEN_YES, FATE_LOST, "no user extended attributes");
	t.windows = false; /* a source that brings names, sizes, data and times alone */
	l = (struct target_limits){ .user_xattrs = true, .acl = true };
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
		expect(&s, windows[i], SEEN_YES, FATE_LOST, "does not bring it");
	expect(&s, "posix-acl", SEEN_NO, FATE_LOST, "does not make");
	expect(&s, "mode", SEEN_NO, FATE_APPROXIMATED, "configured");
	expect(&s, "owner", SEEN_YES, FATE_APPROXIMATED, "configured");
	expect(&s, "group", SEEN_YES, FATE_APPROXIMATED, "configured");
}

/* Codes are what --accept takes: no two may be the same. */
static void codes_are_unique(void **state)
{
	struct check_sides s = sides(EXPORT_NFS, NULL);
	struct check_property a, b;

	(void)state;
	for (unsigned int i = 0; i < check_properties(); i++) {
		check_property(&s, i, &a);
		assert_true(check_property_known(a.code, strlen(a.code)));
		assert_false(check_property_known(a.code, strlen(a.code) - 1));
		for (unsigned int j = 0; j < i; j++) {
			check_property(&s, j, &b);
			assert_string_not_equal(a.code, b.code);
		}
		for (unsigned int j = 0; j < CHECK_KINDS; j++)
			assert_string_not_equal(a.code, check_kinds[j].code);
	}
	assert_false(check_property_known("", 0));
}

/* ---- check_options ---- */

static int parse(struct check_options *o, struct verdict *v, const char *line)
{
	char *words[16], *text = strdup(line), *save, *word;
	int n = 0, r;

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
		words[n++] = word;
	words[n] = NULL;
	optind = 0;
	memset(v, 0, sizeof(*v));
	r = check_options_parse(v, n, words, o);
	free(text); /* what o points at is not looked at below, but when r says so */
	return r;
}

static void options(void **state)
{
	static const char *const bad[] = {
		"check",
		"check --source",
		"check --source u a b",
		"check --source u --frob",
		"check --source u --protocols cifs",
		"check --source u --protocols nfs,",
		"check --source u --protocols ,nfs",
		"check --source u --accept frob",
		"check --source u --accept posix-acl,,quotas",
		"check --source u --limit -1",
		"check --source u --limit 1x",
		"check --source u --limit 99999999999999999999",
		"check --source u --workers 0",
		"check --source u --workers 17",
	};
	struct check_options o;
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(&o, &v, bad[i]) != -1 || v.fail != FAIL_USAGE)
			fail_msg("%s", bad[i]);
	}
	assert_int_equal(parse(&o, &v, "check --source u"), 0);
	assert_true(!o.names && !o.exports && !o.dir && o.limit == 20 && o.workers == 8);
	assert_int_equal(
		parse(&o, &v,
		      "check --source u --names --protocols smb,nfs --limit 0 --workers 3 d"),
		0);
	assert_true(o.names && o.dir && o.exports == (EXPORT_NFS | EXPORT_SMB) && !o.limit &&
		    o.workers == 3);
	assert_int_equal(parse(&o, &v, "check --source u --accept posix-acl,case-twin"), 0);
	o.accept = "posix-acl,case-twin";
	assert_true(check_accepted(&o, "posix-acl") && check_accepted(&o, "case-twin"));
	assert_false(check_accepted(&o, "posix") || check_accepted(&o, "quotas"));
	o.accept = NULL;
	assert_false(check_accepted(&o, "posix-acl"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8),		  cmocka_unit_test(name_for_smb),
		cmocka_unit_test(name_made_up),
		cmocka_unit_test(name_lengths),	  cmocka_unit_test(name_impossible),
		cmocka_unit_test(name_refused),	  cmocka_unit_test(twins_fold),
		cmocka_unit_test(twins_in_parts), cmocka_unit_test(twins_bounded),
		cmocka_unit_test(table_of_nfs),	  cmocka_unit_test(table_of_nfs4),
		cmocka_unit_test(table_without_answers),
		cmocka_unit_test(table_of_both),  cmocka_unit_test(names_not_joined),
		cmocka_unit_test(table_of_smb),	  cmocka_unit_test(codes_are_unique),
		cmocka_unit_test(options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
