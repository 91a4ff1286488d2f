/* SPDX-License-Identifier: GPL-3.0-or-later */
/* depot_internal.h - between depot.c (directories, placing) and depot_fetch.c */
#ifndef DEPOT_INTERNAL_H
#define DEPOT_INTERNAL_H

#include <stdatomic.h>

#include "depot/depot.h"

struct depot {
	int fd, staging;
	uint64_t id;
	atomic_uint_fast64_t next;
};

struct depot_item {
	struct depot *d;
	int fd; /* of the object, whose owner owns the streams */
	uint64_t ino;
	char name[24]; /* in staging */
};

/* Open the directory @name, made if there is none, with @mode whatever our umask: its
 * descriptor, or -errno. */
int depot_enter(int at, const char *name, mode_t mode);

#endif
