/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_failed.h - how a worker's call fails; usable together with Samba's headers. */
#ifndef SMB_FAILED_H
#define SMB_FAILED_H

#include <libsmbclient.h>

struct worker;

/*
 * Results of the worker's rooms: 0, or
 *   -errno of source.h: what the server says; final
 *   WORKER_LOST: no answer can be had on this connection
 */
#define WORKER_LOST 1

/* @e, an errno of libsmbclient, met while doing @what at @path. */
int worker_failed(struct worker *w, int e, const char *what, const char *path);
/* -EIO: the server does not do @what with this object, and says @why. */
int worker_refused(struct worker *w, const char *why, const char *what, const char *path);
int worker_lost(struct worker *w, const char *why, const char *what, const char *path);
/* Directory @path has no @name: -ENOENT. */
int worker_absent(struct worker *w, const char *path, const char *name);
SMBCCTX *worker_context(struct worker *w);

#endif
