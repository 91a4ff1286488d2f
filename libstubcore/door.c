/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "door.h"

/* The directory that the door itself is in, whatever links led to it. */
static bool beside(const char *file, char *out, size_t size)
{
	char real[PATH_MAX], *slash;
	Dl_info me;
	int n;

	if (!dladdr((const void *)beside, &me) || !realpath(me.dli_fname, real))
		return false;
	slash = strrchr(real, '/');
	n = snprintf(out, size, "%.*s/%s", (int)(slash - real), real, file);
	return n > 0 && (size_t)n < size;
}

void *stub_door_open(const struct stub_door *d, int flags)
{
	char path[PATH_MAX];
	const char *why;
	void *plugin;

	if (!beside(d->file, path, sizeof(path))) {
		stub_door_refused(d, "its place is not known");
		return NULL;
	}
	plugin = dlopen(path, flags);
	why = plugin ? NULL : dlerror();
	if (!plugin)
		stub_door_refused(d, why ? why : "no reason is given");
	return plugin;
}

void stub_door_refused(const struct stub_door *d, const char *why)
{
	char line[STUB_DOOR_LINE];

	snprintf(line, sizeof(line),
		 "postcopy: %s was built for %s %s and does not go with the one that runs: install the "
		 "package %s that was built for this %s, or that %s again; until then nothing is shown "
		 "through it (%s)",
		 d->plugin, d->server, d->version, d->package, d->server, d->server, why);
	if (!d->log(line))
		fprintf(stderr, "%s\n", line);
	syslog(LOG_DAEMON | LOG_CRIT, "%s", line);
}
