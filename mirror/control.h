/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * control.h - the control socket, the retriever's with ".mirror" behind it: service/commands.h.
 *
 *   {"cmd":"status"}            state (see below), kind, mode, uri, owed, unknown, aside, parked (a list of
 *                               path, what, error, text; parked_count has all), waiting_for_fill,
 *                               objects_total, bytes_total, foreign_total, lag_seconds, paused,
 *                               target: connected, lost_seconds, trouble
 *                               not_mirrored: what NFSv3 cannot carry; gone; awaited: clients wait for the mirror; lag_bound_seconds, delay_us of each change
 *   {"cmd":"drained"}           "drained": nothing is owed, parked, aside or unknown, durably
 *   {"cmd":"sync","timeout_s":N} answers when what is owed now has been carried over; "synced": false
 *                               if that took longer (60)
 *   {"cmd":"retry"}             what is parked, or rests, at once
 *   {"cmd":"pause"} {"cmd":"resume"}
 *   {"cmd":"freeze"} {"cmd":"thaw"} nobody can change the volume
 *   {"cmd":"walk"}              compare everything
 *   {"cmd":"verify"}            compare everything, and change nothing; "repair": true: what differs is owed by that
 *   {"cmd":"verified"}          how far that is: "verify" (never, running, done, stopped, failed; "reason"), seconds,
 *                               objects, bytes, waiting, owed (could not be compared), different, repairs, differences
 *                               (the first ones: path, what)
 *   {"cmd":"verify-stop"}
 *   {"cmd":"again"}             (of a way back) what was ever struck is owed again: "objects"
 *   {"cmd":"over"}              (of a way back) frozen and drained, it is frozen for good, and the replicator
 *                               ends: clients are back at the old server
 *   {"cmd":"leave"}             the directory for what is aside goes; once drained
 *   {"cmd":"stop"}              end
 *
 * state: frozen, gone (the mirror is away), full, walking (all is owed), catching-up, following
 */
#ifndef MIRROR_CONTROL_H
#define MIRROR_CONTROL_H

#include "mirror.h"
#include "replicator.h"

struct control;

int control_create(struct mirror *m, struct replicator *r, struct control **out);
void control_destroy(struct control *c);

#endif
