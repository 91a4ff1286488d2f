/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_home.h - a worker's private HOME; made by the retriever, removed by who is left.
 *
 * Whoever uses one has a shared flock() on it, which ends with him.  What nobody has,
 * because everybody was killed at once, is removed when the next home is made.
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

/* One that is there: the descriptor as above, -ENOENT if it is not, -errno. */
int smb_home_hold(const char *path);

/* With all in it; nothing else than what smb_home_make() makes. */
void smb_home_remove(const char *path);

#endif
