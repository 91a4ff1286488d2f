/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * volume_tool.h - the sub-commands of postcopy-volume.
 *
 * Each gets its name and arguments as main() does, prints one JSON object on stdout
 * and returns 0, or -1 with the verdict set. A positive value is an exit status; all
 * that there is to print has been printed then.
 */
#ifndef VOLUME_TOOL_H
#define VOLUME_TOOL_H

#include <limits.h>

#include "order/order.h"
#include "report/json_out.h"
#include "report/verdict.h"
#include "stubmirror.h"
#include "window/window.h"

#define STATUS_DIRTY 3 /* scan: it found what must not be; check: something will be lost */
#define STATUS_INTERRUPTED 130 /* check: SIGINT or SIGTERM while it walked */

/* Open the volume at @dir, whose real path is put into @path; -1 with the verdict set. */
int volume_tool_open(struct verdict *v, const char *dir, char path[PATH_MAX],
		     struct stub_volume **out);

/* -1, with the verdict: other processes have the volume at @path open, which are named. */
int volume_tool_in_use(struct verdict *v, const char *path);

/* postcopy-mirror can listen beside the volume's control socket; or -1, with the verdict. */
int volume_tool_mirror_socket(struct verdict *v, const struct stub_volume_info *info);

/* -1, with the verdict: it has a mirror, whose ledger would go; @over: it may, after a rollback. */
int volume_tool_mirrored(struct verdict *v, const char *path, const struct stub_volume *volume, bool over);

/* What 'window' prints of them. */
void volume_tool_windows(struct json *j, const struct windows *w);
/* What 'order' prints of it. */
void volume_tool_order(struct json *j, const struct order *o);
/* The volume that is a sub-command's only argument, and its journal. */
struct opened {
	struct stub_volume *volume;
	struct stub_journal *journal; /* NULL unless asked for */
	char path[PATH_MAX]; /* real path of the volume */
};

/* .postcopy/mirror/conf.  1: it has no mirror; -1, with the verdict. */
int volume_tool_mirror_conf(struct verdict *v, const struct opened *o, struct stub_mirror_conf *c);

int opened_volume(struct verdict *v, int argc, char **argv, struct opened *o);
int opened_journal(struct verdict *v, struct opened *o); /* to read; 0, or -1 with the verdict */
void opened_close(struct opened *o);

int volume_init(struct verdict *v, int argc, char **argv); /* volume_init.c */
int volume_check(struct verdict *v, int argc, char **argv); /* volume_check.c */
int volume_counts(struct verdict *v, int argc, char **argv); /* volume_report.c */
int volume_scan(struct verdict *v, int argc, char **argv);
int volume_history(struct verdict *v, int argc, char **argv); /* volume_history.c */
int volume_parked(struct verdict *v, int argc, char **argv); /* volume_parked.c */
int volume_errors(struct verdict *v, int argc, char **argv);
int volume_reasons(struct verdict *v, int argc, char **argv);
int volume_window(struct verdict *v, int argc, char **argv); /* volume_window.c */
int volume_order(struct verdict *v, int argc, char **argv); /* volume_order.c */
int volume_mirror(struct verdict *v, int argc, char **argv); /* volume_mirror.c */
int volume_mirror_add(struct verdict *v, int argc, char **argv);
int volume_mirror_remove(struct verdict *v, int argc, char **argv);
int volume_mirror_mode(struct verdict *v, int argc, char **argv);
int volume_mirror_thaw(struct verdict *v, int argc, char **argv);
int volume_moved(struct verdict *v, int argc, char **argv); /* volume_moved.c */
int volume_verify(struct verdict *v, int argc, char **argv); /* volume_verify.c */
int volume_verified(struct verdict *v, int argc, char **argv);
int volume_rehearse(struct verdict *v, int argc, char **argv); /* volume_rehearse.c */
int volume_abort(struct verdict *v, int argc, char **argv); /* volume_abort.c */
int volume_remove(struct verdict *v, int argc, char **argv);

#endif
