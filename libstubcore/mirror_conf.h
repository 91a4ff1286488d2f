/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* mirror_conf.h - the file, for who makes a mirror. */
#ifndef STUBCORE_MIRROR_CONF_H
#define STUBCORE_MIRROR_CONF_H

#include "stubmirror.h"
#include "volume.h"

int stub_mirror_open(int dir_fd); /* .postcopy/mirror, of .postcopy (@dir_fd) */
/* Errors as stub_mirror_conf_read(). */
int stub_mirror_conf_get(const struct stub_volume *v, struct stub_mirror_conf *out);
/* conf, in .postcopy/mirror (@dir): durable, whole or not at all. */
int stub_mirror_conf_put(int dir, const struct stub_mirror_conf *c);

#endif
