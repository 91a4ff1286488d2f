/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * gate.h - whose rights the files behind stubfront.h work with.
 */
#ifndef STUBCORE_GATE_H
#define STUBCORE_GATE_H

#include "internal.h"
#include "stubfront.h"

static inline bool stub_gate_enter(struct stub_gate *g)
{
	return g->ops->enter && g->ops->enter(g);
}

static inline void stub_gate_leave(struct stub_gate *g, bool entered)
{
	if (g->ops->leave)
		g->ops->leave(g, entered);
}

/* @expr, as root */
#define AS_ROOT(gate, result, expr)                    \
	do {                                           \
		bool root_ = stub_gate_enter(gate);    \
		(result) = (expr);                     \
		stub_gate_leave(gate, root_);          \
	} while (0)

#endif
