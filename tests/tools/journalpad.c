/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * journalpad - fill a pending journal with entries of inodes that do not exist.
 *
 *   journalpad VOLUME COUNT [links]
 *
 * links: hard-linked files that wait for names.
 *
 * For tests of what must not depend on the number of pending files. The handles
 * have the volume's own type and length, so each is opened in vain and dropped as
 * stale, as the crawler does with files that clients removed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BATCH 10000

static int pad(struct stub_volume *v, struct stub_journal *j, unsigned long count,
	       enum stub_journal_kind kind)
{
	struct stub_journal_entry *e = calloc(BATCH, sizeof(*e));
	unsigned long done = 0;
	int r = e ? 0 : -ENOMEM;

	while (r == 0 && done < count) {
		size_t n = 0;

		for (; n < BATCH && done < count; n++, done++) {
			/* an inode number far beyond any, another one each time */
			uint64_t ino = 0x4000000000u + done;

			memset(&e[n], 0, sizeof(e[n]));
			e[n].h = *stub_volume_root(v);
			memcpy(e[n].h.bytes, &ino, e[n].h.len < 8 ? e[n].h.len : 8);
			e[n].kind = kind;
			e[n].size = 4096;
			e[n].mtime = 1700000000;
		}
		r = stub_journal_add(j, e, n);
	}
	free(e);
	return r;
}

int main(int argc, char **argv)
{
	struct stub_volume *v = NULL;
	struct stub_journal *j = NULL;
	char path[4200];
	int r;

	if (argc != 3 && (argc != 4 || strcmp(argv[3], "links"))) {
		fputs("usage: journalpad VOLUME COUNT [links]\n", stderr);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/" STUB_DIR "/journal", argv[1]);
	r = stub_volume_open(argv[1], 0, NULL, NULL, &v);
	if (r == 0)
		r = stub_journal_open(path, 0, NULL, NULL, &j);
	if (r == 0)
		r = pad(v, j, strtoul(argv[2], NULL, 10),
			argc == 4 ? STUB_JOURNAL_LINKS : STUB_JOURNAL_FILE);
	stub_journal_close(j);
	stub_volume_close(v);
	if (r < 0)
		fprintf(stderr, "journalpad: %s\n", strerror(-r));
	return r < 0;
}
