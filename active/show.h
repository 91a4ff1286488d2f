/* SPDX-License-Identifier: GPL-3.0-or-later */
/* show.h - who has the lease of a disk, as a JSON object. */
#ifndef ACTIVE_SHOW_H
#define ACTIVE_SHOW_H

#include "lease.h"
#include "nodes.h"

/* 0, or -errno with nothing printed: of lease_open() and lease_owner() */
int show(const struct nodes *nodes);

#endif
