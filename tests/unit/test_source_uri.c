// SPDX-License-Identifier: GPL-3.0-or-later
/* test_source_uri.c - retriever/source/uri.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "source/uri.h"

/* ---- source_uri_kind ---- */

static void the_scheme_tells_the_kind(void **state)
{
	assert_int_equal(source_uri_kind("nfs://old/export"), SOURCE_NFS);
	assert_int_equal(source_uri_kind("smb://old/share"), SOURCE_SMB);
	assert_int_equal(source_uri_kind("file:///mnt/old"), SOURCE_FILE);
}

static void all_else_is_unknown(void **state)
{
	static const char *const none[] = { "", "nfs", "nfs:/", "NFS://h/e", " nfs://h/e", "smb:h",
					    "smbx://h/s", "old:/export", "//old/share", "file:/a" };

	assert_int_equal(source_uri_kind(NULL), SOURCE_UNKNOWN);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(source_uri_kind(none[i]), SOURCE_UNKNOWN);
}

/* ---- source_uri_nfs4 ---- */

static void the_version_is_an_option(void **state)
{
	assert_true(source_uri_nfs4("nfs://h/a?version=4"));
	assert_true(source_uri_nfs4("nfs://h/a?nfsport=1&version=4.0"));
	assert_false(source_uri_nfs4("nfs://h/a?version=3"));
	assert_false(source_uri_nfs4("nfs://h/version=4"));
	assert_false(source_uri_nfs4("nfs://h/a?nfsport=1"));
	assert_false(source_uri_nfs4("smb://h/a?version=4"));
	assert_false(source_uri_nfs4(NULL));
}

/* ---- source_uri_kerberos ---- */

static void security_is_an_option(void **state)
{
	assert_true(source_uri_kerberos("nfs://h/a?version=4&sec=krb5"));
	assert_true(source_uri_kerberos("nfs://h/a?sec=krb5p&version=4"));
	assert_false(source_uri_kerberos("nfs://h/a?version=4&sec=sys"));
	assert_false(source_uri_kerberos("nfs://h/sec=krb5"));
	assert_false(source_uri_kerberos("smb://h/a?sec=krb5"));
	assert_false(source_uri_kerberos(NULL));
}

/* ---- source_uri_unescape ---- */

static int unescape(const char *text)
{
	return source_uri_unescape(text, text + strlen(text));
}

static void two_digits_are_a_byte(void **state)
{
	assert_int_equal(unescape("%20"), 0x20);
	assert_int_equal(unescape("%fFx"), 0xff);
	assert_int_equal(unescape("%00"), 0);
}

static void fewer_are_none(void **state)
{
	static const char short_one[] = "%41";

	assert_int_equal(unescape("%"), -EINVAL);
	assert_int_equal(unescape("%4"), -EINVAL);
	assert_int_equal(unescape("%4g"), -EINVAL);
	assert_int_equal(unescape("%g4"), -EINVAL);
	assert_int_equal(source_uri_unescape(short_one, short_one + 2), -EINVAL);
}

/* ---- source_uri_host ---- */

static char shown[SOURCE_HOST_MAX], node[SOURCE_HOST_MAX], why[256];

static int host(const char *text, uint16_t *port)
{
	return source_uri_host(text, text + strlen(text), shown, node, port, why, sizeof(why));
}

static void hosts_are_names_and_addresses(void **state)
{
	static const struct {
		const char *text, *shown, *node;
		uint16_t port;
	} good[] = {
		{ "old-1.example.org", "old-1.example.org", "old-1.example.org", 0 },
		{ "192.0.2.1:2049", "192.0.2.1", "192.0.2.1", 2049 },
		{ "[fd00::1]", "[fd00::1]", "fd00::1", 0 },
		{ "[2001:db8::a:0:1]:65535", "[2001:db8::a:0:1]", "2001:db8::a:0:1", 65535 },
		{ "[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]", "::ffff:192.0.2.1", 0 },
	};
	uint16_t port;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(host(good[i].text, &port), 0);
		assert_string_equal(shown, good[i].shown);
		assert_string_equal(node, good[i].node);
		assert_int_equal(port, good[i].port);
	}
}

static void what_is_no_host_is_said(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "no host" },
		{ ":5", "no host" },
		{ "[]", "no host" },
		{ "[::1", "no ']'" },
		{ "[::1]x", "other than a port" },
		{ "[::1]:", "the port" },
		{ "h:65536", "the port" },
		{ "fd00::1", "stands between [ and ]" },
		{ "::1", "no host" },
		{ "[fd00::g]", "no IPv6 address" },
		{ "[192.0.2.1]", "no IPv6 address" },
		{ "[fe80::1]", "link-local" },
		{ "[fe80::1%eth0]", "with a zone" },
		{ "[fe80::1%25eth0]", "with a zone" },
		{ "[::]", "not one that a server has" },
		{ "[ff02::1]", "not one that a server has" },
		{ "me@h", "no user" },
		{ "me:secret@h", "no user" },
		{ "h h", "a character" },
		{ "h\xc3\xbc", "a character" },
	};
	char longest[SOURCE_HOST_MAX + 1];
	uint16_t port;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(host(bad[i].text, &port), -EINVAL);
		if (!strstr(why, bad[i].says))
			fail_msg("%s: %s", bad[i].text, why);
	}
	memset(longest, 'h', sizeof(longest));
	longest[SOURCE_HOST_MAX - 3] = '\0';
	assert_int_equal(host(longest, &port), 0);
	longest[SOURCE_HOST_MAX - 3] = 'h';
	longest[SOURCE_HOST_MAX - 2] = '\0';
	assert_int_equal(host(longest, &port), -EINVAL);
}

/* ---- source_uri_shown ---- */

static void no_password_is_shown(void **state)
{
	static const struct {
		const char *uri, *shown;
	} cases[] = {
		{ "smb://me:secret@old/share", "smb://***@old/share" },
		{ "smb://DOM;me:se@cret@old:445/share/dir", "smb://***@old:445/share/dir" },
		{ "smb://me:sec/ret@old/share", "smb://***@old/share" }, /* refused: no port */
		{ "smb://me:sec?re/t@old/a@b", "smb://***@b" },
		{ "nfs://me:secret@[fd00::1]/export", "nfs://***@[fd00::1]/export" },
		{ "ftp://me:secret@old/share", "ftp://***@old/share" },
		{ "//me:secret@old/share", "//***@old/share" },
		{ "\\\\me:secret@old\\share", "\\\\***@old\\share" },
		{ "me:secret@old:/export", "***@old:/export" },
		{ "smb://me:secret@", "smb://***@" },
		{ "@", "***@" },
	};
	char out[SOURCE_SHOWN_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		source_uri_shown(cases[i].uri, out, sizeof(out));
		assert_string_equal(out, cases[i].shown);
	}
	source_uri_shown("smb://me:secret@old/share", out, 10);
	assert_string_equal(out, "smb://***");
}

static void all_else_is(void **state)
{
	static const char *const plain[] = {
		"", "old", "nfs://old/export?nfsport=1", "smb://old/a@b", "smb://old:445/share/a@b",
		"nfs://[fd00::1]:2049/home/me@site", "old:/home/me@site", "//old/me@site",
		"[fd00::1]:/home/me@site",
	};
	char out[SOURCE_SHOWN_MAX];

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		source_uri_shown(plain[i], out, sizeof(out));
		assert_string_equal(out, plain[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_scheme_tells_the_kind),
		cmocka_unit_test(all_else_is_unknown),
		cmocka_unit_test(the_version_is_an_option),
		cmocka_unit_test(security_is_an_option),
		cmocka_unit_test(two_digits_are_a_byte),
		cmocka_unit_test(fewer_are_none),
		cmocka_unit_test(hosts_are_names_and_addresses),
		cmocka_unit_test(what_is_no_host_is_said),
		cmocka_unit_test(no_password_is_shown),
		cmocka_unit_test(all_else_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
