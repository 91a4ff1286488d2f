/* SPDX-License-Identifier: GPL-3.0-or-later */
/* show.c - see show.h. */
#include "show.h"

#include <errno.h>

#include "report/json_out.h"

static const char *state(const struct lease_owner *o, bool here)
{
	return here ? "alive" : o->dead ? "dead" : o->time ? "alive" : "unknown";
}

int show(const struct nodes *nodes)
{
	struct stub_active a;
	struct lease_owner o;
	struct lease l;
	struct json j;
	bool here;
	int r = lease_open(&l, nodes->lease, nodes->here, 0);

	if (r == 0)
		r = lease_owner(&l, &o);
	here = r == 0 && stub_active_get(l.name, &a) == 0;
	if (r == 0) {
		json_begin(&j, stdout);
		json_bool(&j, "ok", true);
		json_str(&j, "mount", nodes->mount);
		json_str(&j, "lease", l.name);
		json_u64(&j, "io_timeout", l.io_timeout);
		json_str(&j, "this", nodes->name[nodes->here - 1]);
		json_bool(&j, "here", here);
		if (here)
			json_u64(&j, "since", a.since);
		if (o.node && o.node <= nodes->n) {
			json_str(&j, "owner", nodes->name[o.node - 1]);
			json_str(&j, "owner_state", state(&o, here && o.node == nodes->here));
		}
		json_array(&j, "nodes");
		for (unsigned int i = 0; i < nodes->n; i++)
			json_str(&j, NULL, nodes->name[i]);
		json_array_end(&j);
		r = json_end(&j);
	}
	lease_close(&l);
	return r;
}
