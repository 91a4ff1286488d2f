/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * joinedmode - owner, group and mode of objects that have numbers of NFS and a descriptor
 * of SMB, by the rules of retriever/windows/smb_acl.h.
 *
 *   joinedmode IDMAP DIR      DIR: on the file system that is to take them
 *
 * Reads lines "d|f UID GID MODE DESCRIPTOR" (MODE octal, as NFS has it; DESCRIPTOR in hex,
 * self-relative) and answers each with "UID GID MODE", or "- why".
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "windows/smb_meta.h"

/* Hex digits to bytes, in place; their number. */
static size_t unhex(char *text)
{
	unsigned int byte;
	size_t n = 0;

	while (sscanf(text + 2 * n, "%2x", &byte) == 1 && text[2 * n + 1])
		((uint8_t *)text)[n++] = (uint8_t)byte;
	return n;
}

static void answer(const struct smb_meta_config *c, char *line)
{
	struct smb_meta_in in = { .has_numbers = true };
	unsigned int uid, gid, mode;
	char why[SMB_META_WHY], type;
	struct smb_meta m;
	int at = 0;

	if (sscanf(line, "%c %u %u %o %n", &type, &uid, &gid, &mode, &at) != 4 || !at)
		errx(2, "not understood: %.100s", line);
	in.type = type == 'd' ? S_IFDIR : S_IFREG;
	in.uid = uid;
	in.gid = gid;
	in.bits = mode & 07000;
	in.sd = line + at;
	in.sd_len = unhex(line + at);
	if (smb_meta_make(c, &in, &m, why) < 0) {
		printf("- %s\n", why);
	} else {
		printf("%u %u %o\n", m.uid, m.gid, m.mode & 07777);
		smb_meta_finish(&m);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct smb_meta_config c = { 0 };
	struct smb_idmap *map = NULL;
	char why[SMB_IDMAP_WHY], *line = NULL;
	size_t size = 0;
	int dir;

	if (argc != 3)
		errx(2, "usage: joinedmode IDMAP DIR");
	if (smb_idmap_read(argv[1], &map, why) < 0)
		errx(2, "%s", why);
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || smb_limits_probe(dir, &c.limits) < 0)
		err(2, "%s", argv[2]);
	c.idmap = map;
	while (getline(&line, &size, stdin) > 0)
		answer(&c, line);
	free(line);
	smb_idmap_destroy(map);
	return 0;
}
