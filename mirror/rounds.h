/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * rounds.h - has everything that was owed at some moment been compared since, with success?
 *
 * An object that is changed all the time is never struck; but one comparison that began after
 * that moment saw everything of before.  What such a comparison owes to others joins; what is owed by a later
 * one of the same object, is newer (of names alone it joins all the same: aside.c goes by them).
 */
#ifndef MIRROR_ROUNDS_H
#define MIRROR_ROUNDS_H

#include "mirror.h"

struct round;

int rounds_create(struct rounds **out);
void rounds_destroy(struct rounds *r); /* no round is left */

/* From now on; @names: only what is owed as a directory with names.  -errno of the ledger */
int round_begin(struct mirror *m, bool names, struct round **out);
bool round_over(struct mirror *m, struct round *r);
void round_end(struct mirror *m, struct round *r);

/* A comparison begins: what it is called. */
uint64_t rounds_now(struct rounds *r);
/* Comparison @begun of @h has found its names right, or (@all) everything that was owed. */
void rounds_right(struct rounds *r, uint64_t begun, const struct stub_handle *h, bool all);
/* It was struck: it has not been changed since it was compared, whenever that began. */
#define ROUNDS_STRUCK UINT64_MAX
/* It is owed, too, by a comparison of @by; NULL: by nobody's. */
void rounds_add(struct rounds *r, const struct stub_handle *by, const struct stub_owed *o, size_t n);

#endif
