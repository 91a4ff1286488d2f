/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 512

static struct {
	struct sockaddr_un to;
	socklen_t len; /* of to; 0: there is nobody */
	uint64_t watchdog_ms;
} manager;

static void find_socket(const char *path)
{
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n > sizeof(manager.to.sun_path) - 1 || (path[0] != '/' && path[0] != '@'))
		return; /* not given, or of a kind that is for virtual machines */
	manager.to.sun_family = AF_UNIX;
	memcpy(manager.to.sun_path, path, n);
	if (path[0] == '@') /* abstract */
		manager.to.sun_path[0] = '\0';
	manager.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'));
}

static void find_watchdog(const char *usec, const char *pid)
{
	char *end;
	unsigned long long n;

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return;
	errno = 0;
	n = strtoull(usec, &end, 10);
	if (errno == 0 && end != usec && !*end)
		manager.watchdog_ms = n / 1000;
}

void notify_begin(void)
{
	memset(&manager, 0, sizeof(manager));
	find_socket(getenv("NOTIFY_SOCKET"));
	find_watchdog(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

int notify(const char *fmt, ...)
{
	char text[TEXT_MAX];
	int fd, n, r = 0;
	va_list ap;

	if (!notify_wanted())
		return 1;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof(text))
		return -EMSGSIZE;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT,
		   (struct sockaddr *)&manager.to, manager.len) != n)
		r = -errno;
	close(fd);
	return r;
}

bool notify_wanted(void)
{
	return manager.len != 0;
}

uint64_t notify_watchdog_ms(void)
{
	return manager.watchdog_ms;
}

int notify_reloading(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return notify("RELOADING=1\nMONOTONIC_USEC=%llu",
		      (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000);
}
