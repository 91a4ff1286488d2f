// SPDX-License-Identifier: GPL-3.0-or-later
#ifndef SMB_MANGLED_H
#define SMB_MANGLED_H

#include <stdbool.h>
#include <stddef.h>

/* What to do about such names. */
#define SMB_MANGLED_ADVICE "set 'mangled names = no' on the old share"

/*
 * Can @name be one that Samba makes up for a name that Windows does not take?  Its form:
 * six characters, of which all but the first `mangle prefix` are a number, '~', one more
 * digit, and an extension of up to three.  It need not be: a file may really have such a name.
 */
bool smb_name_mangled(const char *name, size_t len);

#endif
