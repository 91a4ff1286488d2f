/* SPDX-License-Identifier: GPL-3.0-or-later */
/* private_file.h - files with keys and passwords, which only we and root may read. */
#ifndef PRIVATE_FILE_H
#define PRIVATE_FILE_H

#include <stddef.h>

/* Is @path a regular file that nobody but its owner, root or us, may read?
 *   -EACCES, -ENOENT, -EINVAL ...  with one line in @why */
int private_file(const char *path, char *why, size_t why_size);
/* The same, of what is open: with @path, for @why. */
int private_file_fd(int fd, const char *path, char *why, size_t why_size);

#endif
