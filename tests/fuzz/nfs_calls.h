/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs_calls.h - one call of each kind to a source, and what source.h promises of
 * its outcome.
 */
#ifndef FUZZ_NFS_CALLS_H
#define FUZZ_NFS_CALLS_H

#include "fuzz.h"
#include "source/source.h"

/* 0 root, 1 lookup, 2 getattr, 3 readlink, 4 access, 5 list, 6 read; else nothing. */
void nfs_calls_make(struct source *s, unsigned int what);

#endif
