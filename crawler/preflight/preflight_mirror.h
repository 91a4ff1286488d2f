/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preflight_mirror.h - may postcopy-mirror do over there what it will have to?  The only preflight that
 * writes to another server.
 */
#ifndef PREFLIGHT_MIRROR_H
#define PREFLIGHT_MIRROR_H

#include "preflight/preflight.h"

struct mirror_trial {
	const char *who; /* for messages: "mirror", "way back to" */
	const char *uri;
	struct source *target; /* target_able() */
	const struct stub_origin *root;
	const struct stub_attr *attr; /* its times are set back; NULL: they are not */
	const char *name; /* which is made and removed: nobody else's */
	struct source *share; /* the same tree over SMB; NULL: none */
	const char *share_uri;
	int volume_fd; /* its root must not be the same directory; -1: it is another one for certain */
};

/* Root can make something, give it to another user, and remove it; and the share shows it, and keeps what only
 * SMB carries. 0, or -1 with the verdict. */
int mirror_trial(struct verdict *v, const struct mirror_trial *t);
/* Of the directory that is @made over there. */
int share_trial(struct verdict *v, const struct mirror_trial *t, const struct stub_attr *made);
/* @error of @what over there. */
int mirror_trial_fail(struct verdict *v, const struct mirror_trial *t, const char *what, int error);

#endif
