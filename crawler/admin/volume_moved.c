/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_moved.c - a volume's file system was copied block by block, or has another UUID. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/volume_tool.h"

/* Does a retriever run, of this volume or of another copy of it?  Both have the same socket. */
static bool somebody_listens(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool there;

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return true;
	strcpy(addr.sun_path, path);
	there = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0;
	close(fd);
	return there;
}

/* @alone: no other machine can reach its disk. */
static int settle(struct verdict *v, const char *path, struct stub_volume *volume, bool alone)
{
	const struct stub_volume_info *info = stub_volume_info(volume);
	struct stub_journal *journal;
	char at[PATH_MAX + 32];
	int r;

	if (somebody_listens(info->socket))
		return verdict_fail(v, FAIL_BUSY,
				    "a retriever is serving this volume, or another copy of it, at %s: "
				    "stop it first, only one copy can be used",
				    info->socket);
	snprintf(at, sizeof(at), "%s/" STUB_DIR "/journal", path);
	r = stub_journal_open(at, STUB_JOURNAL_EXISTING, verdict_log, NULL, &journal);
	if (r < 0)
		return verdict_fail(v, FAIL_JOURNAL, "cannot open the pending journal of %s: %s",
				    path, strerror(-r));
	r = alone ? stub_volume_unlease(volume) : 0;
	if (r == 0)
		r = stub_volume_settle(volume, journal);
	stub_journal_close(journal);
	if (r == -ENOLCK)
		return verdict_fail(v, FAIL_NOT_ACTIVE,
				    "%s has a lease, and is mounted under none: mount it with postcopy-active(8), or "
				    "say --one-machine if no other can reach its disk any more", path);
	if (r == -EXDEV)
		return verdict_fail(v, FAIL_ELSEWHERE,
				    "%s was copied file by file: what it misses cannot be brought, use "
				    "the volume it was copied from",
				    path);
	return r == 0 ? 0 : verdict_fail(v, FAIL_TARGET, "cannot write %s/" STUB_DIR ": %s", path,
					 strerror(-r));
}

int volume_moved(struct verdict *v, int argc, char **argv)
{
	struct stub_volume *volume;
	char path[PATH_MAX];
	struct json j;
	int r;
	bool alone = argc == 3 && !strcmp(argv[1], "--one-machine");

	if (alone) {
		argc--;
		argv++;
	}
	if (argc != 2 || argv[1][0] == '\0' || argv[1][0] == '-')
		return verdict_fail(v, FAIL_USAGE, "moved: want exactly one DIR");
	if (!realpath(argv[1], path))
		return verdict_fail(v, FAIL_NOT_VOLUME, "%s: %s", argv[1], strerror(errno));
	r = stub_volume_open(path, STUB_OPEN_ANYWHERE, verdict_log, NULL, &volume);
	if (r < 0)
		return verdict_fail(v, r == -ENOENT ? FAIL_NOT_VOLUME : FAIL_VOLUME_DAMAGED,
				    r == -ENOENT ? "%s is not a volume (%s)" :
						   "cannot open the volume %s: %s",
				    argv[1], strerror(-r));
	r = settle(v, path, volume, alone);
	if (r == 0) {
		json_begin(&j, stdout);
		json_bool(&j, "ok", true);
		json_str(&j, "volume", path);
		r = json_end(&j) < 0 ? 1 : 0;
	}
	stub_volume_close(volume);
	return r;
}
