// SPDX-License-Identifier: GPL-3.0-or-later
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "smb_home.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	remove(path);
	return 0;
}

void smb_home_remove(const char *path)
{
	size_t fixed = strlen(SMB_HOME_TEMPLATE) - 6;

	if (strlen(path) == fixed + 6 && !strncmp(path, SMB_HOME_TEMPLATE, fixed) &&
	    !strchr(path + fixed, '/'))
		nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
