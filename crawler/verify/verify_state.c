/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_state.c - .postcopy/verify: how the last comparison went, or where it is.
 *
 *   verify=1
 *   number=N   sample=N   result=WORD   began=SECONDS   ended=SECONDS   and the counts, a line each
 *   end
 *
 * Earlier releases do not look at it.  Its size does not depend on the tree's: what was found
 * right already stands in the notes of the objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "verify/verify.h"

#define PART VERIFY_STATE ".part"
#define SIZE 2048

const char *const verify_results[] = {
	[VERIFY_NEVER] = "never",   [VERIFY_RUNNING] = "running", [VERIFY_BROKEN] = "broken-off",
	[VERIFY_RIGHT] = "right", [VERIFY_WRONG] = "wrong",
};
#define RESULTS (sizeof(verify_results) / sizeof(verify_results[0]))

#define COUNT(field) { #field, offsetof(struct verify_counts, field) }
static const struct {
	const char *key;
	size_t at;
} counts[] = {
	COUNT(objects), COUNT(right), COUNT(read), COUNT(bytes),  COUNT(earlier), COUNT(listed),
	COUNT(pending), COUNT(made),  COUNT(gone), COUNT(moved),
	{ "different", offsetof(struct verify_counts, found[VERIFY_DIFFERENT]) },
	{ "unclear", offsetof(struct verify_counts, found[VERIFY_UNCLEAR]) },
	{ "changed", offsetof(struct verify_counts, found[VERIFY_CHANGED]) },
};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static int parts_open(int root_fd)
{
	int fd = openat(root_fd, STUB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int verify_state_lock(int root_fd)
{
	int parts = parts_open(root_fd), fd, r;

	if (parts < 0)
		return parts;
	fd = openat(parts, VERIFY_STATE ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : 0;
	close(parts);
	if (r == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
	}
	return r < 0 ? r : fd;
}

static bool take(struct verify_state *s, const char *key, const char *value)
{
	uint64_t n = strtoull(value, NULL, 10);

	for (size_t i = 0; i < COUNTS; i++)
		if (!strcmp(key, counts[i].key)) {
			memcpy((char *)&s->n + counts[i].at, &n, sizeof(n));
			return true;
		}
	if (!strcmp(key, "number"))
		s->number = (uint32_t)n;
	else if (!strcmp(key, "sample"))
		s->sample = n;
	else if (!strcmp(key, "began"))
		s->began = n;
	else if (!strcmp(key, "ended"))
		s->ended = n;
	else if (!strcmp(key, "verify"))
		return n == 1;
	else if (!strcmp(key, "result")) {
		for (size_t i = 0; i < RESULTS; i++)
			if (!strcmp(value, verify_results[i])) {
				s->result = (enum verify_result)i;
				return true;
			}
		return false;
	} else {
		return false;
	}
	return true;
}

static int parse(char *text, struct verify_state *s)
{
	char *rest = text, *line, *value;

	while ((line = strsep(&rest, "\n"))) {
		if (!strcmp(line, "end"))
			return rest && !*rest && s->number && s->result != VERIFY_NEVER ? 0 :
											  -EBADMSG;
		value = strchr(line, '=');
		if (!value)
			return -EBADMSG;
		*value++ = '\0';
		if (!take(s, line, value))
			return -EBADMSG;
	}
	return -EBADMSG;
}

int verify_state_load(int root_fd, struct verify_state *out)
{
	char text[SIZE + 1];
	int parts = parts_open(root_fd), fd;
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (parts < 0)
		return parts;
	fd = openat(parts, VERIFY_STATE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? -errno : 0;
	close(parts);
	if (n < 0)
		return n == -ENOENT ? 0 : (int)n;
	n = pread(fd, text, SIZE, 0);
	close(fd);
	if (n < 0)
		return -EIO;
	text[n] = '\0';
	return parse(text, out);
}

static int write_part(int fd, const struct verify_state *s)
{
	char text[SIZE];
	uint64_t value;
	int n, r;

	n = snprintf(text, sizeof(text),
		     "verify=1\nnumber=%" PRIu32 "\nsample=%" PRIu64 "\nresult=%s\nbegan=%" PRIu64
		     "\nended=%" PRIu64 "\n",
		     s->number, s->sample, verify_results[s->result], s->began, s->ended);
	for (size_t i = 0; i < COUNTS; i++) {
		memcpy(&value, (const char *)&s->n + counts[i].at, sizeof(value));
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s=%" PRIu64 "\n", counts[i].key,
			      value);
	}
	n += snprintf(text + n, sizeof(text) - (size_t)n, "end\n");
	r = stub_io_pwrite(fd, text, (size_t)n, 0);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

int verify_state_store(int root_fd, const struct verify_state *s)
{
	int parts = parts_open(root_fd), fd, r;

	if (parts < 0)
		return parts;
	fd = openat(parts, PART, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : write_part(fd, s);
	if (fd >= 0)
		close(fd);
	if (r == 0 && (renameat(parts, PART, parts, VERIFY_STATE) < 0 || fsync(parts) < 0))
		r = -errno;
	close(parts);
	return r;
}
