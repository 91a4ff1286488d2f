/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_notify.c - service/notify.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "notify.h"

/* The manager's end. */
static int listen_at(const char *name, size_t len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, name, len);
	assert_int_equal(bind(fd, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
	return fd;
}

static void assert_told(int fd, const char *text)
{
	char got[1024] = "";
	ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

	assert_true(n > 0);
	assert_string_equal(got, text);
}

static void without_a_manager_nothing_is_told(void **state)
{
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	notify_begin();
	assert_int_equal(notify("READY=1"), 1);
	assert_false(notify_wanted());
	assert_int_equal(notify_watchdog_ms(), 0);
}

static void it_is_told_at_a_path(void **state)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_notify.%d", getpid());
	fd = listen_at(path, strlen(path));
	setenv("NOTIFY_SOCKET", path, 1);
	notify_begin();
	assert_true(notify_wanted());
	assert_null(getenv("NOTIFY_SOCKET")); /* a child is not the service */
	assert_int_equal(notify("READY=1\nSTATUS=%d to go", 7), 0);
	assert_told(fd, "READY=1\nSTATUS=7 to go");
	close(fd);
	unlink(path);
	assert_int_equal(notify("STOPPING=1"), -ENOENT);
}

static void and_at_an_abstract_name(void **state)
{
	char name[64], got[256] = "";
	int fd;

	snprintf(name, sizeof(name), "@test_notify.%d", getpid());
	setenv("NOTIFY_SOCKET", name, 1);
	name[0] = '\0';
	fd = listen_at(name, 1 + strlen(name + 1));
	notify_begin();
	assert_int_equal(notify_reloading(), 0);
	assert_true(recv(fd, got, sizeof(got) - 1, 0) > 0);
	assert_int_equal(strncmp(got, "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
	assert_true(strtoull(got + 27, NULL, 10) > 0);
	close(fd);
}

/* The manager is stopped in a debugger: that must not stop the daemon. */
static void one_that_reads_nothing_is_not_waited_for(void **state)
{
	char path[64];
	int fd, r = 0;

	snprintf(path, sizeof(path), "/tmp/test_notify.%d", getpid());
	fd = listen_at(path, strlen(path));
	setenv("NOTIFY_SOCKET", path, 1);
	notify_begin();
	for (int i = 0; i < 100000 && r == 0; i++)
		r = notify("STATUS=%d", i);
	assert_int_equal(r, -EAGAIN);
	close(fd);
	unlink(path);
}

static void what_is_no_socket_is_passed_over(void **state)
{
	static const char *const bad[] = { "", "/", "relative", "vsock:2:1234" };
	char longer[300];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("NOTIFY_SOCKET", bad[i], 1);
		notify_begin();
		assert_int_equal(notify("READY=1"), 1);
	}
	memset(longer, '/', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	setenv("NOTIFY_SOCKET", longer, 1);
	notify_begin();
	assert_int_equal(notify("READY=1"), 1);
}

static void the_watchdog_is_ours_or_not(void **state)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_USEC", "180000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	notify_begin();
	assert_int_equal(notify_watchdog_ms(), 180000);
	assert_null(getenv("WATCHDOG_USEC"));

	setenv("WATCHDOG_USEC", "180000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	notify_begin();
	assert_int_equal(notify_watchdog_ms(), 0);

	setenv("WATCHDOG_USEC", "soon", 1);
	unsetenv("WATCHDOG_PID");
	notify_begin();
	assert_int_equal(notify_watchdog_ms(), 0);
}

static void what_is_too_long_is_not_cut(void **state)
{
	char text[1000];

	setenv("NOTIFY_SOCKET", "/nowhere", 1);
	notify_begin();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(notify("STATUS=%s", text), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_manager_nothing_is_told),
		cmocka_unit_test(it_is_told_at_a_path),
		cmocka_unit_test(and_at_an_abstract_name),
		cmocka_unit_test(one_that_reads_nothing_is_not_waited_for),
		cmocka_unit_test(what_is_no_socket_is_passed_over),
		cmocka_unit_test(the_watchdog_is_ours_or_not),
		cmocka_unit_test(what_is_too_long_is_not_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
