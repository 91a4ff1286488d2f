/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nodes.h - /etc/postcopy/nodes.conf: disks that several nodes can reach, with the volumes that are on
 * them, and where their leases are.  The same file on all of these nodes.
 */
#ifndef ACTIVE_NODES_H
#define ACTIVE_NODES_H

#include <limits.h>
#include <stdio.h>

#include "stubtools.h"

#define NODES_DEFAULT_PATH "/etc/postcopy/nodes.conf"
#define NODES_MAX	   64

struct nodes {
	char mount[PATH_MAX];  /* the mount point, absolute */
	char device[PATH_MAX]; /* what is mounted there, absolute */
	char lease[PATH_MAX];  /* the device of the lease, absolute */
	char options[512];     /* of the mount; "": the usual ones */
	char name[NODES_MAX][STUB_NODE_MAX + 1];
	unsigned int n;	   /* how many names */
	unsigned int here; /* number of this machine among them, from 1; 0: it is none of them */
};

struct nodes_problem {
	char text[1024]; /* one line that says what to do */
};

/*
 * What the file at @path (NULL: NODES_DEFAULT_PATH) says of the disk that is mounted at @dir, or at the
 * nearest directory above it; only the names count.
 *   -ENOENT   there is no such file, or no such disk in it
 *   -EINVAL   something is wrong in it, also of another disk
 *   -ENOMEM, -errno
 * Of all but 0 @why tells.
 */
int nodes_read(const char *path, const char *dir, struct nodes *out, struct nodes_problem *why);

#endif
