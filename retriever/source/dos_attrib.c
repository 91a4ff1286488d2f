// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * dos_attrib.c - see dos_attrib.h.
 *
 * Samba's xattr_DOSATTRIB (librpc/idl/xattr.idl) of version 5, little-endian, as its own coder writes
 * it for windows/smb_ndr.c; that needs Samba's libraries, which only the SMB worker has:
 *
 *    0  u8[2]   no text
 *    2  u16     version
 *    4  u16     version, of the union; u16 padding
 *    8  u32     which of the next count
 *   12  u32     FILE_ATTRIBUTE_*
 *   16  u64     when it was made: 100 ns since 1601
 */
#include <string.h>

#include "bytes.h"
#include "source/dos_attrib.h"

#define VERSION		    5
#define HAS_ATTRIBUTES	    0x1u
#define HAS_CREATE_TIME	    0x10u
#define ATTRIBUTE_DIRECTORY 0x10u
#define UNTIL_1970	    INT64_C(11644473600) /* seconds since 1601 */
#define LAST		    (INT64_MAX / 10000000 - 1)

bool dos_attrib_born(bool dir, const struct timespec *born, uint8_t out[DOS_ATTRIB_BYTES])
{
	uint64_t ticks;

	if (born->tv_sec <= -UNTIL_1970 || born->tv_sec > LAST - UNTIL_1970)
		return false;
	ticks = (uint64_t)(born->tv_sec + UNTIL_1970) * 10000000 + (uint64_t)born->tv_nsec / 100;
	memset(out, 0, DOS_ATTRIB_BYTES);
	stub_put_le(out + 2, VERSION, 2);
	stub_put_le(out + 4, VERSION, 2);
	stub_put_le(out + 8, HAS_ATTRIBUTES | HAS_CREATE_TIME, 4);
	stub_put_le(out + 12, dir ? ATTRIBUTE_DIRECTORY : 0, 4);
	stub_put_le(out + 16, ticks, 8);
	return true;
}
