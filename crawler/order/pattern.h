/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pattern.h - which directories an order means: "projects", "home/x?", from the volume's root.
 *
 * A pattern has components as a path has. Each is as for fnmatch(3), so * ? [...] stand for what is
 * in one name (also for a dot at its beginning); ** is any number of names, also none. It
 * means directories, each with all that is in it.
 */
#ifndef ORDER_PATTERN_H
#define ORDER_PATTERN_H

#include <stdbool.h>

#define PATTERN_SIZE  256 /* with its end */
#define PATTERN_DEPTH 32 /* names */

struct pattern_met {
	unsigned int depth; /* names of the longest path, of it and those above, that is meant */
	bool below; /* it may mean something below that it does not mean here */
};

/* Without what says nothing more: "projects/" is "projects", and so it is with ** behind it.
 * NULL: it is fine, else what is wrong. */
const char *pattern_take(const char *text, char out[PATTERN_SIZE]);

/* @path: of a directory, from the root, "" is the root. */
struct pattern_met pattern_meets(const char *pattern, const char *path);
/* It names all directories on the way to what it means. */
bool pattern_is_way(const char *pattern);

#endif
