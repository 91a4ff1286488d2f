/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_home.h - a worker's private HOME; made by the retriever, removed by who is left. */
#ifndef SMB_HOME_H
#define SMB_HOME_H

#define SMB_HOME_TEMPLATE "/tmp/postcopy-smb-XXXXXX"

/* With all in it; nothing else than what SMB_HOME_TEMPLATE makes. */
void smb_home_remove(const char *path);

#endif
