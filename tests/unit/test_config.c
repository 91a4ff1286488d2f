// SPDX-License-Identifier: GPL-3.0-or-later
/* test_config.c - retriever/config.c, and the example file */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "config.h"

#define EXAMPLE "packaging/examples/postcopy.conf"

/* What was told: "LINE KEY: TEXT\n" each; harmless ones with a '~'. */
static char told[8192];

static void on_problem(void *arg, const struct config_problem *p)
{
	size_t n = strlen(told);

	snprintf(told + n, sizeof(told) - n, "%s%u %s: %s\n", p->harmless ? "~" : "", p->line,
		 p->key, p->text);
}

static int read_bytes(const char *text, size_t size, struct config *c)
{
	char path[32];
	int fd = memfd_create("config", MFD_CLOEXEC), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	told[0] = '\0';
	r = config_read_telling(path, on_problem, NULL, c);
	close(fd);
	return r;
}

static int read_text(const char *text, struct config *c)
{
	return read_bytes(text, strlen(text), c);
}

static struct config_value found;
static const char *wanted;

static void look(void *arg, const struct config_value *v)
{
	if (!strcmp(v->key, wanted))
		found = *v;
}

static const struct config_value *value(const struct config *c, const char *key)
{
	memset(&found, 0, sizeof(found));
	wanted = key;
	config_each(c, look, NULL);
	assert_non_null(found.key);
	return &found;
}

/* ---- what is taken ---- */

static void all_kinds_of_values(void **state)
{
	struct config c;

	assert_int_equal(read_text("# comment\n"
				   "connections = 7 # \"of\" 16\n"
				   "\n"
				   "\t smb_file_mode=0640\n"
				   "smb_credentials = \"/etc/my secrets\"\n"
				   "smb_idmap = '/a#b'\n"
				   "smb_worker = /bin/true\n"
				   "smb_signing = desired\n"
				   "log_level = debug\n", &c), 0);
	assert_string_equal(told, "");
	assert_int_equal(c.connections, 7);
	assert_int_equal(c.smb_file_mode, 0640);
	assert_string_equal(c.smb_credentials, "/etc/my secrets");
	assert_string_equal(c.smb_idmap, "/a#b");
	assert_string_equal(c.smb_worker, "/bin/true");
	assert_false(c.smb_signing);
	assert_int_equal(c.log_level, STUB_LOG_DEBUG);
	assert_int_equal(c.inflight, 128);
	assert_int_equal(value(&c, "connections")->line, 2);
	assert_string_equal(value(&c, "connections")->def_text, "4");
	assert_int_equal(value(&c, "smb_file_mode")->line, 4);
	assert_string_equal(value(&c, "smb_file_mode")->text, "0640");
	assert_int_equal(value(&c, "log_level")->line, 9);
	assert_int_equal(value(&c, "inflight")->line, 0);
}

static void files_of_windows(void **state)
{
	struct config c;

	assert_int_equal(read_text("\xef\xbb\xbf"
				   "connections = 7\r\n# x\r\n\r\ninflight = 5", &c), 0);
	assert_string_equal(told, "");
	assert_int_equal(c.connections, 7);
	assert_int_equal(c.inflight, 5);
	assert_int_equal(value(&c, "inflight")->line, 4);
	assert_int_equal(read_bytes("\xff\xfe" "c\0o\0\n\0", 8, &c), -EINVAL);
	assert_string_equal(told, "1 : there is a zero byte in it: it must be plain text (UTF-8)\n");
}

static void no_file_at_all(void **state)
{
	struct config c;

	told[0] = '\0';
	assert_int_equal(config_read_telling("/nonexistent/x", on_problem, NULL, &c), -ENOENT);
	assert_string_equal(told, "0 : cannot read it: No such file or directory\n");
	told[0] = '\0';
	assert_int_equal(config_read_telling("/tmp", on_problem, NULL, &c), -ENOENT);
	assert_string_equal(told, "0 : cannot read it: Is a directory\n");
}

/* ---- what is refused: everything at once, each with its line ---- */

static void each_with_its_line(void **state)
{
	struct config c;

	assert_int_equal(read_text("# a\n# b\n/* c */\n\n"
				   "conections = 4\n"
				   "connections = 17  # too many\n"
				   "# ###\n"
				   "inflight = many\n"
				   "smb_file_mode = 010000\n"
				   "smb_signing = no\n"
				   "log_level = \"loud\"\n"
				   "buffer\n"
				   "throttle =\n"
				   "smb_idmap = /my files\n"
				   "flavour = \"vanilla\"\n"
				   "max_tries = 9\n", &c), -EINVAL);
	assert_string_equal(
		told,
		"5 conections: unknown key \"conections\"; did you mean connections?\n"
		"6 connections: connections = 17: must be a number between 1 and 16\n"
		"8 inflight: inflight: must be a number between 1 and 256\n"
		"9 smb_file_mode: smb_file_mode = 010000: must be a number between 0 and 07777\n"
		"10 smb_signing: smb_signing = no: must be required or desired\n"
		"11 log_level: log_level = loud: must be error, warn, info or debug\n"
		"12 buffer: buffer: there is no value after it\n"
		"13 throttle: throttle: there is no value after it\n"
		"14 smb_idmap: smb_idmap: more follows its value; quote values with blanks in them\n"
		"15 flavour: unknown key \"flavour\"; postcopy-retriever(8) has all keys\n");
	assert_int_equal(c.max_tries, 9);
}

static void what_is_left_open_ends_with_its_line(void **state)
{
	static const char *const open[] = { "smb_idmap = \"x", "smb_idmap = 'x", "/* x", "\"",
					    "smb_idmap = \"${x\"}", "smb_idmap = \"\\400",
					    "smb_idmap = x//'", "a = ${'}" };
	struct config c;
	char text[128];

	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		snprintf(text, sizeof(text), "# x\n%s\nconnections = 5\ninflght = 3\n", open[i]);
		assert_int_equal(read_text(text, &c), -EINVAL);
		assert_int_equal(c.connections, 5);
		assert_int_equal(value(&c, "connections")->line, 3);
		assert_ptr_equal(strstr(told, "2 "), told);
		assert_non_null(strstr(told, "\n4 inflght: unknown key \"inflght\"; did you mean inflight?"));
	}
}

static void hostile_names_are_shown_harmless(void **state)
{
	struct config c;

	assert_int_equal(read_text("\033[2J = 1\n", &c), -EINVAL);
	assert_string_equal(told, "1 \\x1b[2J: unknown key \"\\x1b[2J\"; postcopy-retriever(8) has all "
				  "keys\n");
}

/* ---- what is odd, and taken ---- */

static void a_key_twice(void **state)
{
	struct config c;

	assert_int_equal(read_text("throttle = 5\n\nthrottle = 6\n", &c), 0);
	assert_string_equal(told, "~3 throttle: throttle was set in line 1 already: this one counts\n");
	assert_int_equal(c.throttle, 6);
	assert_int_equal(value(&c, "throttle")->line, 3);
}

static void two_ways_to_log_in(void **state)
{
	struct config c;

	assert_int_equal(read_text("smb_credentials = /a\nsmb_kerberos_cache = /b\n", &c), 0);
	assert_string_equal(told, "~0 : more than one of smb_credentials, smb_kerberos_keytab and "
				  "smb_kerberos_cache is set: an smb:// source wants one\n");
	assert_int_equal(read_text("nfs_kerberos_keytab = /a\nnfs_kerberos_cache = /b\n", &c), 0);
	assert_string_equal(told, "~0 : both of nfs_kerberos_keytab and nfs_kerberos_cache are set: "
				  "an nfs:// source with sec=krb5 wants one\n");
	assert_int_equal(read_text("nfs_kerberos_principal = root\n", &c), 0);
	assert_string_equal(told, "~0 nfs_kerberos_principal: nfs_kerberos_principal is for "
				  "nfs_kerberos_keytab, which is not set\n");
}

/* ---- config_changed ---- */

static void a_changed_file_is_seen(void **state)
{
	char dir[] = "/var/tmp/postcopy-unit-XXXXXX", path[64], other[64];
	struct config c;
	FILE *f;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/conf", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	for (int i = 0; i < 2; i++) {
		f = fopen(i ? other : path, "w");
		fputs("throttle = 5\n", f);
		fclose(f);
	}
	assert_int_equal(config_read_telling(path, on_problem, NULL, &c), 0);
	assert_string_equal(c.file.path, path);
	assert_false(config_changed(&c));
	assert_int_equal(rename(other, path), 0); /* as editors do */
	assert_true(config_changed(&c));
	assert_int_equal(config_read_telling(path, on_problem, NULL, &c), 0);
	assert_false(config_changed(&c));
	assert_int_equal(truncate(path, 0), 0);
	assert_true(config_changed(&c));
	/* a symlink that leads elsewhere */
	assert_int_equal(symlink("conf", other), 0);
	assert_int_equal(config_read_telling(other, on_problem, NULL, &c), 0);
	assert_false(config_changed(&c));
	assert_int_equal(unlink(other), 0);
	assert_int_equal(symlink("/dev/null", other), 0);
	assert_true(config_changed(&c));
	assert_int_equal(unlink(other), 0);
	assert_int_equal(config_read_telling(path, on_problem, NULL, &c), 0);
	assert_int_equal(unlink(path), 0);
	assert_true(config_changed(&c));
	rmdir(dir);
}

/* ---- the example ---- */

static void is_default_and_set(void *arg, const struct config_value *v)
{
	if (!v->line || strcmp(v->text, v->def_text))
		fail_msg("%s: line %u has %s, the default is %s", v->key, v->line, v->text, v->def_text);
}

static void the_example_has_all_keys_and_their_defaults(void **state)
{
	struct config c;

	told[0] = '\0';
	assert_int_equal(config_read_telling(EXAMPLE, on_problem, NULL, &c), 0);
	assert_string_equal(told, "");
	config_each(&c, is_default_and_set, NULL);
}

static void its_values_are_what_an_empty_file_gives(void **state)
{
	struct config example, empty;

	assert_int_equal(config_read_telling(EXAMPLE, on_problem, NULL, &example), 0);
	assert_int_equal(read_text("", &empty), 0);
	assert_memory_equal(&example, &empty, offsetof(struct config, line));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_of_values),
		cmocka_unit_test(files_of_windows),
		cmocka_unit_test(no_file_at_all),
		cmocka_unit_test(each_with_its_line),
		cmocka_unit_test(what_is_left_open_ends_with_its_line),
		cmocka_unit_test(hostile_names_are_shown_harmless),
		cmocka_unit_test(a_key_twice),
		cmocka_unit_test(two_ways_to_log_in),
		cmocka_unit_test(a_changed_file_is_seen),
		cmocka_unit_test(the_example_has_all_keys_and_their_defaults),
		cmocka_unit_test(its_values_are_what_an_empty_file_gives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
