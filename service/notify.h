/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * notify.h - tells the service manager how we are: the protocol of sd_notify(3), which is
 * a datagram of text to the socket that $NOTIFY_SOCKET names.  Without one nothing is told,
 * and nothing waits.  docs/decisions/0052.
 */
#ifndef SERVICE_NOTIFY_H
#define SERVICE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the environment, and takes out of it what is not for our children: call it once,
 * before there are threads. */
void notify_begin(void);

/*
 * Send lines such as "READY=1" or "STATUS=...", made as by printf.  0: sent; 1: nobody wants
 * to know; -errno.  Never blocks: one that the manager has no room for is lost (-EAGAIN).
 */
int notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Is there anybody to tell?  What costs something to find out need not be, without. */
bool notify_wanted(void);

/* So long, in ms, the manager waits for a WATCHDOG=1; 0: it does not. */
uint64_t notify_watchdog_ms(void);

/* The configuration is read again; READY=1 ends it. */
int notify_reloading(void);

#endif
