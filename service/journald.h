/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * journald.h - lines of a log with fields, as systemd's journal takes them
 * (systemd.io/JOURNAL_NATIVE_PROTOCOL): `journalctl VOLUME=/srv/data OBJECT=a/b`.
 *
 * Only if stderr is the journal already ($JOURNAL_STREAM says so): who sends our stderr
 * elsewhere gets all of it there.
 */
#ifndef SERVICE_JOURNALD_H
#define SERVICE_JOURNALD_H

#include "stubcore.h"

#define JOURNALD_SOCKET "/run/systemd/journal/socket"

/* @program and @volume stand in all lines.  Before there are threads; both are kept. */
void journald_begin(const char *program, const char *volume);
/* Likewise, to a @socket that need not be that of the system, and whatever stderr is. */
void journald_open(const char *socket, const char *program, const char *volume);

/* The object, and the reason, of what this thread says from now on; NULL: of nothing. They are
 * not copied. */
void journald_about(const char *object, const char *reason);

/* False: it was not taken, say it on stderr. */
bool journald_line(enum stub_log_level level, const char *text);

/* There, or on stderr with the time and the level. */
void journald_say(enum stub_log_level level, const char *text);

#endif
