/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * door.c - what smbd loads for "vfs objects = stub": see libstubcore/door.h.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "door.h"

#define DLL_NOT_FOUND 0xc0000135u /* an NTSTATUS */
#define ALWAYS	      0

typedef bool (*header_fn)(int level, int class, const char *location, const char *function);
typedef bool (*text_fn)(const char *format, ...);
typedef uint32_t (*init_fn)(void *mem_ctx);

/* As DEBUG(0, ...) of Samba's debug.h does it. */
static bool log_line(const char *line)
{
	header_fn header;
	text_fn text;

	*(void **)&header = dlsym(RTLD_DEFAULT, "dbghdrclass");
	*(void **)&text = dlsym(RTLD_DEFAULT, "dbgtext");
	return header && text && header(ALWAYS, 0, __FILE__, __func__) && text("%s\n", line);
}

static const struct stub_door door = {
	.plugin = "vfs objects = stub",
	.file = "postcopy_samba.so",
	.server = "samba",
	.version = POSTCOPY_SAMBA_VERSION,
	.package = "samba-vfs-stub",
	.log = log_line,
};

__attribute__((visibility("default"))) uint32_t samba_init_module(void *mem_ctx);
uint32_t samba_init_module(void *mem_ctx)
{
	static void *module;
	init_fn init = NULL;
	char why[64];
	uint32_t status;

	if (!module)
		module = stub_door_open(&door, RTLD_NOW);
	if (!module)
		return DLL_NOT_FOUND;
	*(void **)&init = dlsym(module, "samba_init_module");
	status = init ? init(mem_ctx) : DLL_NOT_FOUND;
	if (status != 0) {
		snprintf(why, sizeof(why), "smbd does not take it: status %08x", status);
		stub_door_refused(&door, why);
	}
	return status;
}
