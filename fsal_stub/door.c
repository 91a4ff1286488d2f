/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * door.c - what Ganesha loads for "Name = STUB": see libstubcore/door.h.
 *
 * Ganesha calls fsal_init() of a module whose constructors have registered nothing.  The module
 * proper registers with its constructor (main.c), while that call lasts.
 */
#include <dlfcn.h>

#include "door.h"

/* Of Ganesha's log.h, which is that of one version. */
#define ANY_COMPONENT 0
#define NIV_CRIT      3

typedef void (*display_fn)(int component, const char *file, int line, const char *function,
			   int level, const char *format, ...);

static void *module;

static bool log_line(const char *line)
{
	display_fn display;

	*(void **)&display = dlsym(RTLD_DEFAULT, "DisplayLogComponentLevel");
	if (display)
		display(ANY_COMPONENT, __FILE__, __LINE__, __func__, NIV_CRIT, "%s", line);
	return display != NULL;
}

static const struct stub_door door = {
	.plugin = "FSAL STUB",
	.file = "postcopy_ganesha.so",
	.server = "nfs-ganesha",
	.version = POSTCOPY_GANESHA_VERSION,
	.package = "nfs-ganesha-stub",
	.log = log_line,
};

__attribute__((visibility("default"))) void fsal_init(void);
void fsal_init(void)
{
	if (!module) /* as Ganesha opens modules: names of its own come first */
		module = stub_door_open(&door, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

__attribute__((destructor)) static void door_close(void)
{
	if (module)
		dlclose(module);
}
