/* SPDX-License-Identifier: GPL-3.0-or-later */
/* names.h - going through a directory of the volume by name. */
#ifndef CRAWLER_NAMES_H
#define CRAWLER_NAMES_H

#include <dirent.h>

#include "stubcore.h"

/* Its access time is left alone. */
#define NAMES_OPEN (O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC)

/* The directory @fd (-errno: there is none), which is closed with it; NULL: it cannot be read. */
DIR *names_of_fd(int fd);
DIR *names_of(struct stub_volume *v, const struct stub_handle *h);
/* The next name but for ".", ".." and ours; NULL: there is none any more. */
struct dirent *names_next(DIR *dir);
/* @name is opened with O_PATH, @flags besides: its descriptor and *out; -errno. */
int names_open(DIR *dir, const char *name, int flags, struct stub_handle *out);

#endif
