/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* name.c - what may be the name of an entry. */
#include "internal.h"

STUB_PUBLIC int stub_name_check(const char *name, size_t len)
{
	if (len == 0 || len > STUB_NAME_MAX || memchr(name, '/', len) || memchr(name, '\0', len))
		return -EBADMSG;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return -EBADMSG;
	return 0;
}
