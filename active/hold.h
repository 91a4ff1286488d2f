/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hold.h - be the active node of a disk, until a signal: take the lease, mount the disk; unmount
 * it, give the lease back.
 */
#ifndef ACTIVE_HOLD_H
#define ACTIVE_HOLD_H

#include "lease.h"
#include "nodes.h"

/* Exit statuses */
#define HOLD_FAILED 1
#define HOLD_OTHER  5 /* another node is the active one, and lives */
#define HOLD_LOST   6 /* the lease could not be kept, or the disk not be unmounted: it was shut down */

/* The exit status.  SIGTERM and SIGINT are blocked.  Says on @log what it does, to the service
 * manager also how it is. */
int hold(const struct nodes *nodes, stub_log_fn log);

#endif
