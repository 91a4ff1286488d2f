/* SPDX-License-Identifier: GPL-3.0-or-later */
/* active/nodes.c: what nodes.conf may say, and what is said of all else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "nodes.h"

static char path[] = "/tmp/postcopy-nodes-XXXXXX";
static struct nodes got;
static struct nodes_problem why;

/* @text: $ME is this machine. */
static int read_text(const char *text, const char *dir)
{
	FILE *f = fopen(path, "w");
	struct utsname me;
	const char *at;

	assert_non_null(f);
	assert_int_equal(uname(&me), 0);
	while ((at = strstr(text, "$ME"))) {
		fwrite(text, 1, (size_t)(at - text), f);
		fputs(me.nodename, f);
		text = at + 3;
	}
	assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
	why.text[0] = '\0';
	return nodes_read(path, dir, &got, &why);
}

static void says(const char *text)
{
	if (!strstr(why.text, text))
		fail_msg("'%s' does not say '%s'", why.text, text);
	assert_null(strchr(why.text, '\n'));
}

static int setup(void **state)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	return unlink(path);
}

#define DISK "device = \"/dev/a\"\n lease = \"/dev/b\"\n"

static void test_a_disk(void **state)
{
	const char *text = "# of all nodes\ndisk \"/srv/one\" {\n " DISK " nodes = { \"nas1\", \"$ME\" }\n"
			   " options = \"noatime,nodiscard\" # of the mount\n}\n"
			   "disk \"/srv/one/two/\" {\n" DISK "nodes = {\"nas1\", \"nas2\", \"nas3\"}\n}\n";

	assert_int_equal(read_text(text, "/srv/one"), 0);
	assert_string_equal(got.mount, "/srv/one");
	assert_string_equal(got.device, "/dev/a");
	assert_string_equal(got.lease, "/dev/b");
	assert_string_equal(got.options, "noatime,nodiscard");
	assert_int_equal(got.n, 2);
	assert_string_equal(got.name[0], "nas1");
	assert_int_equal(got.here, 2);
	assert_int_equal(read_text(text, "/srv/one/"), 0);
	assert_int_equal(read_text(text, "/srv/one/data"), 0);
	assert_string_equal(got.mount, "/srv/one");
	assert_int_equal(read_text(text, "/srv/one/two/data"), 0); /* the nearest */
	assert_string_equal(got.mount, "/srv/one/two");
	assert_string_equal(got.options, "");
	assert_int_equal(got.n, 3);
	assert_int_equal(got.here, 0);
	assert_int_equal(read_text(text, "/srv/ones"), -ENOENT);
	says("no disk in it that is mounted at /srv/ones or above");
	assert_int_equal(read_text(text, "/"), -ENOENT);
	assert_int_equal(read_text("", "/srv/one"), -ENOENT);
}

static void test_no_file(void **state)
{
	assert_int_equal(nodes_read("/nonexistent/nodes.conf", "/srv", &got, &why), -ENOENT);
	says("/nonexistent/nodes.conf: no such file");
}

static void test_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "disk \"/srv\" {", "" },
		{ "disk \"/srv\" { color = \"red\" }", "color" },
		{ "disks \"/srv\" { }", "disks" },
		{ "disk \"/srv\" { lease = \"/dev/b\" nodes = {\"a\", \"b\"} }", "device is missing" },
		{ "disk \"/srv\" { device = \"/dev/a\" nodes = {\"a\", \"b\"} }", "lease is missing" },
		{ "disk \"/srv\" { device = \"sda\" lease = \"/dev/b\" nodes = {\"a\", \"b\"} }", "begins with /" },
		{ "disk \"/srv\" { device = \"/dev/a\" lease = \"/dev/a\" nodes = {\"a\", \"b\"} }", "of its own" },
		{ "disk \"/srv\" { " DISK " }", "2 to 64" },
		{ "disk \"/srv\" { " DISK " nodes = {\"a\"} }", "2 to 64" },
		{ "disk \"/srv\" { " DISK " nodes = {\"a\", \"a\"} }", "twice" },
		{ "disk \"/srv\" { " DISK " nodes = {\"a\", \"b c\"} }", "node 2" },
		{ "disk \"/srv\" { " DISK " nodes = {\"\", \"b\"} }", "node 1" },
		{ "disk \"/srv\" { " DISK " nodes = {\"a\", \"b\"} options = \"-o ro\" }", "mount -o" },
		{ "disk \"srv\" { " DISK " nodes = {\"a\", \"b\"} }", "mount point" },
		{ "disk \"//\" { " DISK " nodes = {\"a\", \"b\"} }", "root of all" },
		{ "disk \"/x\" { " DISK " nodes = {\"a\", \"b\"} }\ndisk \"/x\" { " DISK " nodes = {\"a\", \"b\"} }", "" },
		/* the one that is asked for is right */
		{ "disk \"/srv\" { " DISK " nodes = {\"a\", \"b\"} }\ndisk \"/x\" { }", "disk /x" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_text(bad[i].text, "/srv"), -EINVAL);
		says(bad[i].says);
		assert_true(why.text[0]);
	}
}

static void test_bytes(void **state)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fwrite("disk\0", 1, 5, f);
	fclose(f);
	assert_int_equal(nodes_read(path, "/srv", &got, &why), -EINVAL);
	f = fopen(path, "w");
	assert_non_null(f);
	for (int i = 0; i < 70000; i++)
		fputc('\n', f);
	fclose(f);
	assert_int_equal(nodes_read(path, "/srv", &got, &why), -EINVAL);
	says("64 KiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_disk),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_what_is_wrong),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
