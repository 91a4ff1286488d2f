/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "journald.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIELDS_MAX 8

static struct {
	int fd; /* valid if open */
	bool open;
	struct sockaddr_un to;
	const char *program, *volume;
} journal;

static __thread struct {
	const char *object, *reason;
} about;

/* A datagram in the making: name, newline, length, value, newline of each field. */
struct entry {
	struct iovec part[FIELDS_MAX * 4];
	uint64_t length[FIELDS_MAX];
	unsigned int fields, parts;
};

static void add_part(struct entry *e, const void *bytes, size_t n)
{
	e->part[e->parts++] = (struct iovec){ (void *)bytes, n };
}

/* In the form that takes any bytes; @name ends in a newline. */
static void add(struct entry *e, const char *name, const char *value)
{
	uint64_t *length = &e->length[e->fields];

	if (!value || !*value || e->fields == FIELDS_MAX)
		return;
	e->fields++;
	*length = htole64(strlen(value));
	add_part(e, name, strlen(name));
	add_part(e, length, sizeof(*length));
	add_part(e, value, strlen(value));
	add_part(e, "\n", 1);
}

void journald_open(const char *socket_path, const char *program, const char *volume)
{
	journal.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	journal.open = journal.fd >= 0 && strlen(socket_path) < sizeof(journal.to.sun_path);
	if (!journal.open)
		return;
	journal.to.sun_family = AF_UNIX;
	strcpy(journal.to.sun_path, socket_path);
	journal.program = program;
	journal.volume = volume;
}

/* $JOURNAL_STREAM is DEVICE:INODE of what the manager has made stderr. */
static bool is_journal(const char *stream, int fd)
{
	unsigned long long dev, ino;
	struct stat st;
	int end = 0;

	return stream && sscanf(stream, "%llu:%llu%n", &dev, &ino, &end) == 2 && !stream[end] &&
	       fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void journald_begin(const char *program, const char *volume)
{
	if (is_journal(getenv("JOURNAL_STREAM"), STDERR_FILENO))
		journald_open(JOURNALD_SOCKET, program, volume);
}

void journald_about(const char *object, const char *reason)
{
	about.object = object;
	about.reason = reason;
}

bool journald_line(enum stub_log_level level, const char *text)
{
	static const char *const priority[] = { "3", "4", "6", "7" };
	struct entry e = { .fields = 0 };
	struct msghdr m = { .msg_name = &journal.to, .msg_namelen = sizeof(journal.to) };
	ssize_t n;

	if (!journal.open)
		return false;
	add(&e, "MESSAGE\n", text);
	add(&e, "PRIORITY\n", priority[level]);
	add(&e, "SYSLOG_IDENTIFIER\n", journal.program);
	add(&e, "VOLUME\n", journal.volume);
	add(&e, "OBJECT\n", about.object);
	add(&e, "REASON\n", about.reason);
	m.msg_iov = e.part;
	m.msg_iovlen = e.parts;
	do {
		n = sendmsg(journal.fd, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n >= 0;
}

void journald_say(enum stub_log_level level, const char *text)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	struct timespec t;
	struct tm tm;
	char stamp[32];

	if (journald_line(level, text))
		return;
	clock_gettime(CLOCK_REALTIME, &t);
	localtime_r(&t.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%F %T", &tm);
	fprintf(stderr, "%s.%03ld %s: %s\n", stamp, t.tv_nsec / 1000000, names[level], text);
}
