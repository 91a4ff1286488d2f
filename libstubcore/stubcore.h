/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubcore.h - all of libstubcore; a header for each kind of reader.
 *
 * libstubcore is the mechanism of postcopy: what a stub is, what it still
 * misses, who may change it when, and how it becomes a normal file.  It knows
 * nothing of Ganesha, Samba, NFS or SMB.  Three kinds of program use it:
 *
 *   stubserver.h  server plugins: look, ask and change; how to write a plugin, in a page.
 *                 stubfront.h puts these steps together to what a client's operation needs
 *   stubfill.h    the retriever: lists, fills, finishes, keeps the journal, serves asks
 *   stubtools.h   tools: create a volume, scan it, end it
 *
 * All of them use stubtypes.h.  Nobody needs to read stubinside.h.
 *
 * Conventions
 *   - Functions return 0 (or a count) on success and -errno on failure.
 *   - Output parameters come last.  Destroyers take NULL.
 *   - Sizes and offsets are bytes; times are struct timespec unless a name
 *     ends in _ms (milliseconds).
 *   - All functions may be called from any thread.  A struct belongs to one
 *     thread at a time unless its comment says otherwise.
 *   - No errno of the old server ever comes out of here: what a plugin sees is
 *     one of the values documented at the function.
 *
 * Lock order (outermost first): an inode's exclusion (stub_change, or inside
 * the fill functions), the journal's writer.  Several inodes are only ever
 * locked by one stub_change_begin() call, which sorts them.
 */
#ifndef STUBCORE_H
#define STUBCORE_H

#include "stubtypes.h"
#include "stubserver.h"
#include "stubfill.h"
#include "stubledger.h"
#include "stubmirror.h"
#include "stubtools.h"

#endif
