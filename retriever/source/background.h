/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * background.h - threads that mostly work for the crawler let those go first that work for waiting clients
 * (docs/decisions/0102).
 */
#ifndef SOURCE_BACKGROUND_H
#define SOURCE_BACKGROUND_H

#include <sys/resource.h>

#define BACKGROUND_NICE 10

/* The calling thread, and what it starts, from now on.  Linux has a niceness for each thread. */
static inline void background_thread(void)
{
	setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);
}

#endif
