// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_mangled.c - names in the short form of Samba's "mangling method = hash2". */
#include "smb/smb_mangled.h"

#define STEM 8 /* characters before the dot; the '~' is the one but last */

static bool is_digit36(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}

static bool is_kept(char c)
{
	return is_digit36(c) || c == '_' || c == '-' || c == '$' || c == '~';
}

bool smb_name_mangled(const char *name, size_t len)
{
	if (len < STEM || len == STEM + 1 || len > STEM + 4)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool good = i == STEM - 2 ? name[i] == '~' :
			    i == STEM - 1 ? is_digit36(name[i]) :
			    i == STEM	  ? name[i] == '.' :
					    is_kept(name[i]);

		if (!good)
			return false;
	}
	return true;
}
