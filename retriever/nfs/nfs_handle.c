// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_handle.c - what a file handle tells of its inode.
 *
 * A handle is the server's secret, and only compared: equal handles are one inode's.
 * Different handles are of different inodes, except on servers that put into a handle the
 * directory in which the object was found.  One such server is everywhere, and its handles
 * can be told from all others by their form: the Linux kernel's, with subtree_check.  In
 * these, what identifies the inode (with its subvolume and generation) comes first, and the
 * directory follows.
 *
 *   u8 1  u8 0  u8 fsid_type  u8 fileid_type   fsid   fileid
 *
 * Their lengths are those of the types, to the byte; any other handle counts whole.
 */
#include "nfs/nfs.h"

#define HEAD 4

static const uint8_t fsid_bytes[] = { 8, 4, 12, 8, 8, 8, 16, 24 };

/* File ids of two objects: the file and its directory. */
static const struct {
	uint8_t type, bytes, own;
} with_parent[] = {
	{ 0x02, 16, 8 }, /* ino32, generation: ext4 and others */
	{ 0x82, 24, 12 }, /* ino64, generation: XFS */
	{ 0x4e, 32, 20 }, /* object, subvolume, generation: btrfs ... */
	{ 0x4f, 40, 20 }, /* ... and the directory is in another subvolume */
};

size_t nfs_handle_inode(const uint8_t *h, size_t len)
{
	size_t fsid;

	if (len < HEAD || h[0] != 1 || h[1] != 0 || h[2] >= sizeof(fsid_bytes))
		return len;
	fsid = fsid_bytes[h[2]];
	for (size_t i = 0; i < sizeof(with_parent) / sizeof(with_parent[0]); i++)
		if (h[3] == with_parent[i].type && len == HEAD + fsid + with_parent[i].bytes)
			return HEAD + fsid + with_parent[i].own;
	return len;
}
