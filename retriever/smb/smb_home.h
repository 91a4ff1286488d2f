/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_home.h - a worker's private HOME; made by the retriever, removed by whichever of the two
 * ends last.
 *
 * Each process that uses a home holds a shared flock() on it, which ends with the process.  One
 * on which there is no lock, because all were killed at once, is removed when the next is made.
 */
#ifndef SMB_HOME_H
#define SMB_HOME_H

#include <stddef.h>

#define SMB_HOME_TICKETS "krb5cc" /* in it: the credential cache, of mode 0600 */

/*
 * A new one, of mode 0700, in $TMPDIR or /tmp; @path: its name.
 * Returns the descriptor that holds it, to be closed when it is not used any more,
 * -ENAMETOOLONG, or as mkdtemp(), open() and flock().
 */
int smb_home_make(char *path, size_t size);

/* Hold a home that exists: the descriptor as above, -ENOENT if there is none, -errno. */
int smb_home_hold(const char *path);

/*
 * Remove a home with all in it: nothing has its name any more when this returns, whoever else
 * fills or removes it.  A path that smb_home_make() does not make is left alone.
 */
void smb_home_remove(const char *path);

#endif
