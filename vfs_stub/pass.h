/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef VFS_STUB_PASS_H
#define VFS_STUB_PASS_H

#include "stub_glue.h"

/* Is @r why the volume takes no data, which can be passed on instead? */
bool pass_instead(int r);

/* Read as SMB_VFS_NEXT_PREAD(), with what is missing from the old server.  May be short. */
ssize_t pass_read(struct vfs_handle_struct *handle, struct files_struct *fsp, struct glue_obj *o,
		  struct glue_wait *w, void *data, size_t n, off_t offset);

#endif
