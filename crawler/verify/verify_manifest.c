/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * verify_manifest.c - a line for each object that is the same on both sides, as mtree(5) has
 * them (docs/manifest.md): others than we can check them, years later.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "verify/verify.h"

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)  ? "file" :
	       S_ISDIR(mode)  ? "dir" :
	       S_ISLNK(mode)  ? "link" :
	       S_ISFIFO(mode) ? "fifo" :
	       S_ISSOCK(mode) ? "socket" :
	       S_ISCHR(mode)  ? "char" :
				"block";
}

/* What is not plain becomes \ooo, as by vis(3) with VIS_OCTAL: one line, no blanks in it. */
static void put_name(FILE *f, const char *name)
{
	for (const uint8_t *p = (const uint8_t *)name; *p; p++) {
		if (*p > ' ' && *p < 0x7f && !strchr("\\#*?[]=\"'", *p))
			putc(*p, f);
		else
			fprintf(f, "\\%03o", *p);
	}
}

void verify_manifest_line(FILE *f, const struct verify_proven *p)
{
	fputs(strcmp(p->path, ".") ? "./" : ".", f);
	if (strcmp(p->path, "."))
		put_name(f, p->path);
	fprintf(f, " type=%s uid=%u gid=%u", type_of(p->st->st_mode), p->st->st_uid, p->st->st_gid);
	if (!S_ISLNK(p->st->st_mode))
		fprintf(f, " mode=0%o", p->st->st_mode & 07777);
	if (!S_ISDIR(p->st->st_mode))
		fprintf(f, " nlink=%ju", (uintmax_t)p->st->st_nlink);
	if (S_ISREG(p->st->st_mode))
		fprintf(f, " size=%jd", (intmax_t)p->st->st_size);
	if (S_ISCHR(p->st->st_mode) || S_ISBLK(p->st->st_mode))
		fprintf(f, " device=linux,%u,%u", major(p->st->st_rdev), minor(p->st->st_rdev));
	fprintf(f, " time=%jd.%09ld", (intmax_t)p->st->st_mtim.tv_sec, p->st->st_mtim.tv_nsec);
	if (p->target) {
		fputs(" link=", f);
		put_name(f, p->target);
	}
	if (p->sha256) {
		fputs(" sha256digest=", f);
		for (unsigned int i = 0; i < VERIFY_DIGEST; i++)
			fprintf(f, "%02x", p->sha256[i]);
	}
	putc('\n', f);
}
