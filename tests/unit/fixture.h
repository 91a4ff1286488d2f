/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fixture.h - a real volume in a private directory, for unit tests of libstubcore.
 * The file system must have trusted xattrs, handles and O_TMPFILE (ext4, XFS).
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "internal.h"
#include "volume.h"

struct fixture {
	char dir[64];
	char beside[64]; /* what the names of its sockets begin with, on another file system perhaps */
	struct stub_volume *v;
	struct stub_journal *j;
	struct stub_finisher *f;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Close everything, and open it again, as after the death of the retriever. */
void fixture_close(struct fixture *x);
void fixture_reopen(struct fixture *x);

/* stub_volume_settle() of the closed volume, as the retriever and 'postcopy moved' do it; @before (or NULL), which
 * must succeed, comes first. */
int fixture_settle(struct fixture *x, int (*before)(struct stub_volume *v));

/* An entry as the old server would send it; fileid is made of the name. */
struct stub_entry fixture_entry(const char *name, mode_t mode, uint64_t size);

/* The root as an object. */
struct stub_object fixture_root(struct fixture *x);

/* List the root with these entries. */
void fixture_list(struct fixture *x, const struct stub_entry *e, size_t n);

struct stub_handle fixture_handle(struct fixture *x, const char *name);
struct stub_view fixture_view(struct fixture *x, const char *name);
int fixture_open(struct fixture *x, const char *name, int flags);
struct stub_scan fixture_scan(struct fixture *x);

#endif
