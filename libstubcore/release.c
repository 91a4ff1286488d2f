/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * release.c - an asker and a retriever of different releases: which one is older, in words.
 *
 * In the middle of an update both versions of the ask protocol are there for a while.  Nothing
 * is guessed then: the retriever refuses the other version and says so, the asker waits as if
 * there were no retriever.  The file server goes on with what is here.
 */
#include <fcntl.h>
#include <stdio.h>

#include "wire.h"

#define COMM_MAX 31 /* the kernel has 16, with a newline */

void stub_release_of_retriever(const char *socket, unsigned int theirs, char *out, size_t size)
{
	const char *me = program_invocation_short_name;

	if (theirs > STUB_WIRE_VERSION)
		snprintf(out, size,
			 "%s is of an earlier release than the retriever at %s (asks: version %d, there "
			 "%u): restart %s; until then what has not come yet waits",
			 me, socket, STUB_WIRE_VERSION, theirs, me);
	else
		snprintf(out, size,
			 "the retriever at %s is of an earlier release than %s (asks: version %u, here %d): "
			 "restart 'postcopy-retriever@*'; until then what has not come yet waits",
			 socket, me, theirs, STUB_WIRE_VERSION);
}

void stub_release_of_asker(pid_t pid, unsigned int theirs, char *out, size_t size)
{
	char path[32], comm[COMM_MAX + 1] = "", name[4 * COMM_MAX + 5];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	n = stub_io_read_file(AT_FDCWD, path, comm, sizeof(comm) - 1);
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	stub_printable(comm, strlen(comm), name, sizeof(name));
	if (theirs < STUB_WIRE_VERSION)
		snprintf(out, size,
			 "asks: process %d (%s) is of an earlier release than this retriever (asks: "
			 "version %u, here %d): restart it", (int)pid, name, theirs, STUB_WIRE_VERSION);
	else
		snprintf(out, size,
			 "asks: this retriever is of an earlier release than process %d (%s) (asks: version "
			 "%d, there %u): restart 'postcopy-retriever@*'",
			 (int)pid, name, STUB_WIRE_VERSION, theirs);
}
