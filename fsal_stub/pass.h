/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * pass.h - reading a stub whose volume takes no data.
 */
#ifndef FSAL_STUB_PASS_H
#define FSAL_STUB_PASS_H

#include "stub_glue.h"

/* Does an answer to a need for data say that the volume could not store it? */
bool pass_instead(int r);

/* read2 of @o with the old server's bytes where they are missing.  @w is what is left
 * of the request's wait. */
fsal_status_t pass_read(struct stubfs_obj *o, struct glue_wait *w, bool bypass,
			struct fsal_io_arg *io);

/* file.c: a read2 or write2 of the FSAL below, waited for */
fsal_status_t io_below(void (*op)(struct fsal_obj_handle *, bool, fsal_async_cb,
				  struct fsal_io_arg *, void *),
		       struct fsal_obj_handle *sub, bool bypass, struct fsal_io_arg *io);

#endif
