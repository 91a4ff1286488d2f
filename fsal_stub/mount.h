/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef FSAL_STUB_MOUNT_H
#define FSAL_STUB_MOUNT_H

#include "fsal_stub.h"

/* Is this a request of the MOUNT protocol, which may wait longer than others?  true: end it with
 * mount_end(); false: it is not, or enough of them are waiting. */
bool mount_begin(struct stubfs_export *x);
void mount_end(struct stubfs_export *x);

/* How much longer the request may wait, milliseconds. */
uint32_t mount_wait_ms(const struct stubfs_export *x);

#endif
