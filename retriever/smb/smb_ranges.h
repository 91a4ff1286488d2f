/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_ranges.h - what a server answers to FSCTL_QUERY_ALLOCATED_RANGES.
 *
 * The answer names the ranges that have data, of those that touch the range that was asked
 * about: u64 offset, u64 length, and so on, in order.  The server may round a range's ends.
 * What is not named is taken for zeros, so an answer that is not just like that means nothing.
 */
#ifndef SMB_RANGES_H
#define SMB_RANGES_H

#include "stubcore.h"

#define SMB_RANGE_BYTES 16 /* of one range */

/*
 * The holes of [offset, end) by the answer @p of @len bytes, but for those shorter than @least:
 * how many, at most @most (at least 1), in @out.  *@known: what comes from there on, up to @end,
 * is another answer's.  -EBADMSG: ranges that are empty, beyond all files, out of order, that
 * overlap, or that do not touch what was asked about.
 */
int smb_ranges_holes(const uint8_t *p, size_t len, uint64_t offset, uint64_t end, uint64_t least,
		     struct stub_range *out, unsigned int most, uint64_t *known);

/* May a file with these FILE_ATTRIBUTE_* have holes, and are they what they seem?  A file that
 * was archived, tiered or deduplicated has its data elsewhere, and none allocated. */
bool smb_ranges_apply(uint32_t attributes);

#endif
