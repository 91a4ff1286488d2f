/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_nfs_handle.c - retriever/nfs/nfs_handle.c, and the same below a path (dual_source.c) */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "source/dual_origin.h"
#include "nfs/nfs.h"

/* Handles as the Linux kernel makes them: types of the export's id and of the file's. */
static void test_kernel_handles(void **state)
{
	static const struct {
		uint8_t fsid_type, fileid_type;
		size_t len, inode;
	} cases[] = {
		{ 1, 1, 16, 16 }, /* ext4, fsid=: of the file alone */
		{ 1, 2, 24, 16 }, /* with subtree_check */
		{ 6, 0x81, 32, 32 }, { 6, 0x82, 44, 32 }, /* XFS, by UUID */
		{ 7, 0x4d, 48, 48 }, { 7, 0x4e, 60, 48 }, /* btrfs, by UUID and inode */
		{ 1, 0x4f, 48, 28 }, /* ... and the directory in another subvolume */
		{ 1, 0, 8, 8 }, /* an export's root */
		/* no lengths of these types */
		{ 1, 2, 28, 28 }, { 6, 0x82, 40, 40 }, { 0, 2, 24, 24 }, { 8, 2, 24, 24 },
		{ 1, 3, 24, 24 }, { 1, 2, 3, 3 },
	};
	uint8_t h[64] = { 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		h[2] = cases[i].fsid_type;
		h[3] = cases[i].fileid_type;
		assert_int_equal(nfs_handle_inode(h, cases[i].len), cases[i].inode);
	}
	h[2] = 1;
	h[3] = 2;
	h[1] = 1; /* not the kernel's */
	assert_int_equal(nfs_handle_inode(h, 24), 24);
	h[1] = 0;
	h[0] = 0;
	assert_int_equal(nfs_handle_inode(h, 24), 24);
}

/* With a joined share the handle is part of the origin. */
static void test_below_a_path(void **state)
{
	uint8_t h[24] = { 1, 0, 1, 2 };
	struct dual_origin dir = { .has_path = true, .path = "a", .path_len = 1 };
	struct stub_origin o = { 0 };
	const uint8_t *inode;
	size_t len;

	(void)state;
	for (uint8_t i = 8; i < sizeof(h); i++)
		h[i] = i;
	o.len = (uint16_t)dual_origin_encode(&dir, "name", 4, h, sizeof(h), o.bytes);
	inode = dual_source_ops.inode(&o, &len);
	assert_int_equal(len, 16);
	assert_memory_equal(inode, h, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_handles),
		cmocka_unit_test(test_below_a_path),
	};

	return cmocka_run_group_tests_name("nfs_handle", tests, NULL, NULL);
}
