/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_journald.c - service/journald.c */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "journald.h"

static char path[64];
static char got[65536];

static int listen_here(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(path, sizeof(path), "/tmp/test_journald.%d", getpid());
	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* The value of @name in the datagram of @n bytes, NULL: it has none. */
static const char *field(size_t n, const char *name)
{
	static char value[8192];
	size_t at = 0;

	while (at < n) {
		char *end = memchr(got + at, '\n', n - at);
		uint64_t length;
		size_t name_len = (size_t)(end - (got + at));

		memcpy(&length, end + 1, sizeof(length));
		length = le64toh(length);
		assert_true(length < sizeof(value));
		if (name_len == strlen(name) && !memcmp(got + at, name, name_len)) {
			memcpy(value, end + 9, length);
			value[length] = '\0';
			return value;
		}
		at = (size_t)(end - got) + 9 + length;
		assert_int_equal(got[at++], '\n');
	}
	return NULL;
}

static void a_line_has_its_fields(void **state)
{
	int fd = listen_here();
	ssize_t n;

	journald_open(path, "a-program", "/srv/data");
	journald_about("a/b\nPRIORITY=0", "denied");
	assert_true(journald_line(STUB_LOG_WARN, "no luck"));
	n = recv(fd, got, sizeof(got), 0);
	assert_true(n > 0);
	assert_string_equal(field((size_t)n, "MESSAGE"), "no luck");
	assert_string_equal(field((size_t)n, "PRIORITY"), "4");
	assert_string_equal(field((size_t)n, "SYSLOG_IDENTIFIER"), "a-program");
	assert_string_equal(field((size_t)n, "VOLUME"), "/srv/data");
	assert_string_equal(field((size_t)n, "OBJECT"), "a/b\nPRIORITY=0"); /* a name, no field */
	assert_string_equal(field((size_t)n, "REASON"), "denied");

	journald_about(NULL, NULL);
	assert_true(journald_line(STUB_LOG_ERROR, "worse"));
	n = recv(fd, got, sizeof(got), 0);
	assert_string_equal(field((size_t)n, "PRIORITY"), "3");
	assert_null(field((size_t)n, "OBJECT"));
	assert_null(field((size_t)n, "REASON"));
	close(fd);
	unlink(path);
	assert_false(journald_line(STUB_LOG_INFO, "nobody is there")); /* then it goes to stderr */
}

static void only_if_stderr_is_the_journal(void **state)
{
	char stream[64];
	struct stat st;
	int fd;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	fd = listen_here();
	close(fd);
	unlink(path);
	journald_open(path, "x", "y");
	journald_begin("x", "y"); /* another file: changes nothing */
	assert_false(journald_line(STUB_LOG_INFO, "to stderr"));
	setenv("JOURNAL_STREAM", "nonsense", 1);
	journald_begin("x", "y");
	assert_false(journald_line(STUB_LOG_INFO, "to stderr"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_its_fields),
		cmocka_unit_test(only_if_stderr_is_the_journal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
