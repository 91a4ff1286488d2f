/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sysgate.h - what the files of sysgate share.
 *
 *   sysgate.c         commands, numbering, acting
 *   sysgate_look.c    what a process that waits is about to do, and to what
 *   sysgate_filter.c  which calls are gated, and how a tree gets under the filter
 */
#ifndef SYSGATE_H
#define SYSGATE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define PATH_ROOM (2 * PATH_MAX)

enum gated_object {
	OBJECT_FD,     /* args[arg] is a descriptor */
	OBJECT_PATH,   /* args[arg] is a path; two: so is args[1] */
	OBJECT_AT,     /* args[arg], args[arg + 1]: directory and name */
	OBJECT_AT_TWO, /* the same, and args[2], args[3] */
};

struct gated {
	int nr;
	const char *name;
	enum gated_object object;
	int arg;
	bool two;
	bool changes; /* not a mere sync */
};

/* ---- sysgate_filter.c ---- */

const struct gated *gate_find(int nr);
bool gate_is_write(int nr); /* write(2) */

/* Run @argv in a child behind the filter.  Its pid and the descriptor on which calls
 * are received, or -1 and errno. */
pid_t gate_start(char **argv, int *listener);

/* Wait a moment for a call: true if one is there. */
bool gate_wait(int listener);

/* ---- sysgate_look.c ---- */

/* One call that waits. */
struct call {
	pid_t tid, pid;
	char name[16]; /* of the process */
	const struct gated *what;
	const unsigned long long *args;
	char path[2][PATH_ROOM];
};

/* A file of /proc/@id, cut at @size. */
bool proc_read(pid_t id, const char *file, char *out, size_t size);
/* Fill in pid and name. */
void call_identify(struct call *c);
/* Is it about an object on file system @dev?  Fills in the paths, as a log shows them. */
bool call_on_volume(struct call *c, dev_t dev);

#endif
