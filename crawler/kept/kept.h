/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * kept.h - what an administrator has said of a volume and the crawler reads: a small text in a file
 * of .postcopy/, replaced as a whole or not at all, and read whole.
 */
#ifndef KEPT_H
#define KEPT_H

#include <stddef.h>

/* The text of .postcopy/@name of the volume whose root is @root_fd, at most @size bytes, into
 * @text, which has room for one more; how long it is, 0 if there is none.  -EBADMSG: it has a NUL;
 * other -errno */
int kept_load(int root_fd, const char *name, char *text, size_t size);
/* On the disk when it returns; "": there is none from now on.  -errno */
int kept_store(int root_fd, const char *name, const char *text);

#endif
