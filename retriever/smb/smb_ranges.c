// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_ranges.c - see smb_ranges.h. */
#include <errno.h>

#include "bytes.h"
#include "smb/smb_ranges.h"

enum { /* [MS-FSCC] section 2.6 */
	SPARSE = 0x200,
	REPARSE_POINT = 0x400,
	OFFLINE = 0x1000,
	RECALL_ON_OPEN = 0x40000,
	RECALL_ON_DATA_ACCESS = 0x400000,
};

bool smb_ranges_apply(uint32_t attributes)
{
	return attributes & SPARSE &&
	       !(attributes & (REPARSE_POINT | OFFLINE | RECALL_ON_OPEN | RECALL_ON_DATA_ACCESS));
}

/* The next range of the answer, which has to touch [from, end). */
static int next_range(struct stub_in *in, uint64_t from, uint64_t end, struct stub_range *out)
{
	uint64_t start = stub_in_le(in, 8), length = stub_in_le(in, 8);

	if (in->bad || !length || start > INT64_MAX || length > (uint64_t)INT64_MAX - start ||
	    start >= end || start + length <= from)
		return -EBADMSG;
	*out = (struct stub_range){ start, start + length };
	return 0;
}

int smb_ranges_holes(const uint8_t *p, size_t len, uint64_t offset, uint64_t end, uint64_t least,
		     struct stub_range *out, unsigned int most, uint64_t *known)
{
	struct stub_in in = { p, len, false };
	uint64_t at = offset; /* where the range before ended */
	struct stub_range data;
	bool first = true, all;
	unsigned int n = 0;

	*known = end;
	do {
		all = !in.left;
		data = (struct stub_range){ end, end };
		if (!all && next_range(&in, offset, end, &data) < 0)
			return -EBADMSG;
		if (!first && data.start < at)
			return -EBADMSG;
		first = false;
		if (data.start > at && data.start - at >= least && n < most)
			out[n++] = (struct stub_range){ at, data.start };
		else if (data.start > at && data.start - at >= least && *known == end)
			*known = at;
		at = data.end;
	} while (!all && at < end);
	return in.left ? -EBADMSG : (int)n;
}
