/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_back.c - what the old server could take back of what clients write to the volume.
 *
 * What it would refuse (a name, a size) stays owed to it, is told by `postcopy mirror status`, and holds
 * a rollback up; what NFSv3 does not carry stays here, and nothing tells.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"

#define HOLDS "are refused there, and hold a rollback up"

typedef void (*judge_fn)(const struct check_sides *s, struct check_property *p);

static void judge_names(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;
	unsigned int here = s->limits && s->limits->name_max ? s->limits->name_max : 255;

	if (!t->have_names)
		return;
	p->fate = t->case_insensitive || t->name_max < here ? FATE_APPROXIMATED : FATE_KEPT;
	if (t->case_insensitive)
		snprintf(p->why, sizeof(p->why), "two names that differ in case only " HOLDS);
	else if (t->name_max < here)
		snprintf(p->why, sizeof(p->why), "those of more than %u bytes " HOLDS, t->name_max);
}

static void judge_sizes(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;
	uint64_t here = s->limits && s->limits->file_max ? s->limits->file_max : INT64_MAX;

	if (!t->have_info || t->max_file_size >= here)
		return;
	p->fate = FATE_APPROXIMATED;
	snprintf(p->why, sizeof(p->why), "files of more than %" PRIu64 " bytes " HOLDS, t->max_file_size);
}

static void judge_times(const struct check_sides *s, struct check_property *p)
{
	const struct timespec *d = &s->traits->time_delta;
	int n = snprintf(p->why, sizeof(p->why), "before 1970 and after 2106 " HOLDS);

	p->fate = FATE_APPROXIMATED;
	if (s->traits->have_info && (d->tv_sec || d->tv_nsec > 1))
		snprintf(p->why + n, sizeof(p->why) - (size_t)n, "; it claims a precision of %lld.%09ld s",
			 (long long)d->tv_sec, d->tv_nsec);
}

static void judge_links(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;

	if (t->have_info && !t->hard_links) {
		p->fate = FATE_LOST;
		snprintf(p->why, sizeof(p->why), "it has none: they " HOLDS);
	} else if (t->have_names && s->limits && s->limits->link_max > t->link_max) {
		p->fate = FATE_APPROXIMATED;
		snprintf(p->why, sizeof(p->why), "more than %u names of one file " HOLDS, t->link_max);
	}
}

static void judge_symlinks(const struct check_sides *s, struct check_property *p)
{
	if (!s->traits->have_info || s->traits->symlinks)
		return;
	p->fate = FATE_LOST;
	snprintf(p->why, sizeof(p->why), "it has none: they " HOLDS);
}

static void judge_acl(const struct check_sides *s, struct check_property *p)
{
	if (s->traits->have_acl && s->traits->acl)
		return;
	p->fate = FATE_LOST;
	if (s->limits && !s->limits->acl)
		snprintf(p->why, sizeof(p->why), "neither side has any");
	else
		snprintf(p->why, sizeof(p->why), "objects that get one here " HOLDS);
}

#define STAYS "NFSv3 does not carry it: it stays here"

static const struct {
	const char *code, *title;
	enum check_fate fate;
	const char *why;
	judge_fn judge;
} rows[] = {
	{ "names", "names", FATE_KEPT, "byte for byte", judge_names },
	{ "types", "types of objects", FATE_KEPT, "", NULL },
	{ "data", "file data", FATE_KEPT, "", NULL },
	{ "sizes", "file sizes", FATE_KEPT, "", judge_sizes },
	{ "holes", "holes in sparse files", FATE_APPROXIMATED, "in new files; others become zeros", NULL },
	{ "mode", "mode bits", FATE_KEPT, "setuid, setgid and sticky too", NULL },
	{ "owner", "owner and group", FATE_KEPT, "by number", NULL },
	{ "mtime", "modification and access time", FATE_KEPT, "", judge_times },
	{ "ctime", "change time", FATE_LOST, "it makes its own", NULL },
	{ "btime", "creation time", FATE_LOST, STAYS, NULL },
	{ "hard-links", "hard links", FATE_KEPT, "", judge_links },
	{ "symlinks", "symbolic links", FATE_KEPT, "", judge_symlinks },
	{ "special-files", "devices, FIFOs, sockets", FATE_KEPT, "", NULL },
	{ "inode-numbers", "inode numbers, file handles", FATE_APPROXIMATED,
	  "what came from there keeps its own, what is made here gets new ones", NULL },
	{ "posix-acl", "POSIX ACLs", FATE_KEPT, "by the ACL protocol beside NFSv3", judge_acl },
	{ "security-descriptor", "security descriptors (Windows ACLs)", FATE_LOST, STAYS, NULL },
	{ "user-xattrs", "user extended attributes", FATE_LOST, STAYS, NULL },
	{ "streams", "alternate data streams", FATE_LOST, STAYS, NULL },
	{ "dos-attributes", "DOS attributes", FATE_LOST, STAYS, NULL },
	{ "locks", "locks, open files", FATE_LOST, "clients mount the old server anew", NULL },
};

unsigned int check_backs(void)
{
	return sizeof(rows) / sizeof(rows[0]);
}

void check_back(const struct check_sides *sides, unsigned int i, struct check_property *out)
{
	memset(out, 0, sizeof(*out));
	out->code = rows[i].code;
	out->title = rows[i].title;
	out->fate = rows[i].fate;
	snprintf(out->why, sizeof(out->why), "%s", rows[i].why);
	if (rows[i].judge)
		rows[i].judge(sides, out);
}
