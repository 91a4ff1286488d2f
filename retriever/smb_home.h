/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_home.h - a worker's private HOME; made by the retriever, removed by who is left. */
#ifndef SMB_HOME_H
#define SMB_HOME_H

#include <stddef.h>

#define SMB_HOME_TICKETS "krb5cc" /* in it: the credential cache, of mode 0600 */

/* In $TMPDIR or /tmp: 0, -ENAMETOOLONG or as mkdtemp(). */
int smb_home_make(char *path, size_t size);

/* With all in it; nothing else than what smb_home_make() makes. */
void smb_home_remove(const char *path);

#endif
