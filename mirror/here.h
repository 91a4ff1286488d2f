/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * here.h - the names of one directory of the volume.
 */
#ifndef MIRROR_HERE_H
#define MIRROR_HERE_H

#include "mirror.h"

/* One that is there: a file, directory ... of the volume's own file system. */
struct here_object {
	int fd; /* O_PATH */
	struct stat st;
	struct stub_handle h;
};

/* Each name of @fd, a directory for reading, that clients can see.  @fn's non-zero ends it and is
 * returned; else 0 or -errno. */
int here_each(struct mirror *m, int fd, int (*fn)(void *arg, const char *name, uint64_t ino),
	      void *arg);
/* 0; 1: it is not there any more, or not of this file system; -errno */
int here_open(const struct mirror *m, int dir_fd, const char *name, struct here_object *out);
void here_close(struct here_object *o);

#endif
