/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "show.h"

struct bit {
	unsigned int bit;
	const char *name;
};

static const struct bit needs_names[] = {
	{ STUB_NEEDS_ATTRS, "attrs" },	 { STUB_NEEDS_ENTRIES, "entries" },
	{ STUB_NEEDS_DATA, "data" },	 { STUB_NEEDS_NAMES, "names" },
	{ STUB_NEEDS_FINISH, "finish" }, { STUB_NEEDS_REFUSED, "refused" },
	{ 0, NULL },
};
static const struct bit flag_names[] = {
	{ STUB_FLAG_DUMMY, "dummy" },	  { STUB_FLAG_UNLISTED, "unlisted" },
	{ STUB_FLAG_LINKS, "links" },	  { STUB_FLAG_LOOKUPS, "lookups" },
	{ STUB_FLAG_LOOKUPS_NEW, "new" }, { STUB_FLAG_REFUSED, "refused" },
	{ STUB_FLAG_LINK_KEY, "key" },	  { STUB_FLAG_OVER, "over" },
	{ 0, NULL },
};

void show_map(const char *key, const struct stub_map *m)
{
	printf(", \"%s\": [", key);
	for (uint32_t i = 0; i < m->n; i++)
		printf("%s[%" PRIu64 ", %" PRIu64 "]", i ? ", " : "", m->r[i].start, m->r[i].end);
	putchar(']');
}

static void show_bits(const char *key, unsigned int bits, const struct bit *names)
{
	const char *comma = "";

	printf("\"%s\": [", key);
	for (; names->name; names++) {
		if (!(bits & names->bit))
			continue;
		printf("%s\"%s\"", comma, names->name);
		comma = ", ";
	}
	putchar(']');
}

void show_needs_and_flags(const struct stub_record *r)
{
	show_bits("needs", stub_record_needs(r), needs_names);
	printf(", ");
	show_bits("flags", r->flags, flag_names);
}
