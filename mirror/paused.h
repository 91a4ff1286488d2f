/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paused.h - pause is kept for the next start: .postcopy/mirror/paused. */
#ifndef MIRROR_PAUSED_H
#define MIRROR_PAUSED_H

#include "stubcore.h"

bool paused_load(const struct stub_volume *v);
/* Durable on return; -errno. */
int paused_store(const struct stub_volume *v, bool paused);

#endif
