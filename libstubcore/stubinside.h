/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubinside.h - structs of stubserver.h that callers must have room for, and nothing else:
 * what is in them is the library's.
 */
#ifndef STUBINSIDE_H
#define STUBINSIDE_H

#include "stubtypes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STUB_CHANGE_OBJECTS 4 /* rename: object, replaced object, two directories */

struct stub_ring;
struct stub_record;

struct stub_change_object {
	struct stub_handle h;
	int links; /* names this change added (+) or removed (-) */
	int raised; /* of these, already in the record's count */
	int fd;
	bool stub;
	struct stat before;
	struct stub_record *rec;
};

struct stub_change {
	/* a map has many ranges, see stub_change_written(): the one field that callers read,
	 * also after the bracket has ended */
	bool crowded;
	struct stub_volume *v;
	unsigned int n;
	unsigned int locked; /* inode numbers in ino[] that are locked */
	uint64_t ino[STUB_CHANGE_OBJECTS];
	struct stub_change_object obj[STUB_CHANGE_OBJECTS];
};

struct stub_commit {
	struct stub_volume *v;
	struct stub_handle h;
	bool stub;
	uint64_t era;
	struct stub_map *now;
	uint64_t size; /* of the file's version, with mtime and ctime as at the source */
	struct timespec mtime, ctime;
};

struct stub_news_reader {
	struct stub_ring *ring;
	uint64_t next;
	uint64_t stuck_since;
	uint32_t woken;
};

#ifdef __cplusplus
}
#endif

#endif
