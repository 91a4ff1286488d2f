/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * disk.h - the shared disk: is it in use here, mounting it, and making sure that nothing is written
 * to it any more.
 */
#ifndef ACTIVE_DISK_H
#define ACTIVE_DISK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Has anything here @device open for itself: a mount, also one that was taken out of the tree or is
 * in another mount namespace, or a device mapper's device?  1, 0.
 *   -ENOTBLK  it is no block device; -errno
 */
int disk_busy(const char *device);

/* 1: what is mounted at @dir is @device; 0: nothing is mounted there; -EEXIST: something else is;
 * -errno. */
int disk_mounted(const char *device, const char *dir);

/*
 * mount(8) says on stderr why it fails.
 *   -EIO         it has failed
 *   -EOPNOTSUPP  neither XFS nor ext4, which can be shut down: it is not mounted
 */
int disk_mount(const char *device, const char *dir, const char *options);

/* -EBUSY: it is in use */
int disk_unmount(const char *dir);

/*
 * Nothing is written to the file system on @device from now on, as after a power cut.  It is found in
 * the mount namespaces of all processes.
 *   -ENXIO  it is mounted in none; -errno
 */
int disk_shutdown(const char *device);

#endif
