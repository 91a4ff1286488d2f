/* SPDX-License-Identifier: GPL-3.0-or-later */
/* show.h - a record in JSON, for the tools that print records. */
#ifndef TOOLS_SHOW_H
#define TOOLS_SHOW_H

#include "internal.h"

/* ', "key": [[start, end], ...]' */
void show_map(const char *key, const struct stub_map *m);
/* '"needs": [...], "flags": [...]', by name */
void show_needs_and_flags(const struct stub_record *r);

#endif
