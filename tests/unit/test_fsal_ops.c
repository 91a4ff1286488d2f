/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_fsal_ops.c - the tables of operations and the small parts of fsal_stub.
 *
 * A FSAL that leaves an operation at Ganesha's default is no pass-through: what the
 * FSAL below can do is lost without a word.  Both tables are compared with the
 * structures of the installed server, slot by slot.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "stub_glue.h"
#include "FSAL/fsal_localfs.h"

#include <cmocka.h>

#define SLOTS_MAX 128

typedef void (*slot_fn)(void);

/* ---- names of the slots, from the header ---- */

struct names {
	unsigned int n;
	char name[SLOTS_MAX][64];
};

/* "type (*name)(" and "nfsstat4(*name)(" inside of "struct <what> {" ... "};" */
static void names_read(const char *what, struct names *out)
{
	char line[512], open[64];
	FILE *f = fopen(FSAL_API_H, "r");
	bool inside = false;

	assert_non_null(f);
	snprintf(open, sizeof(open), "struct %s {", what);
	out->n = 0;
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "(*");

		if (!strncmp(line, open, strlen(open)))
			inside = true;
		else if (inside && !strncmp(line, "};", 2))
			break;
		/* one tab: a member; deeper: an argument that is a function */
		else if (inside && at && line[0] == '\t' && line[1] != '\t' && line[1] != '*' &&
			 strchr(at, ')')) {
			assert_true(out->n < SLOTS_MAX);
			at += 2;
			snprintf(out->name[out->n++], sizeof(out->name[0]), "%.*s",
				 (int)strcspn(at, ")"), at);
		}
	}
	fclose(f);
}

static unsigned int compare(const char *what, const void *ours, const void *theirs, size_t size)
{
	unsigned int wrong = 0;
	struct names names;

	names_read(what, &names);
	assert_int_equal(names.n, size / sizeof(slot_fn));
	for (unsigned int i = 0; i < names.n; i++) {
		slot_fn a, b;

		memcpy(&a, (const char *)ours + i * sizeof(a), sizeof(a));
		memcpy(&b, (const char *)theirs + i * sizeof(b), sizeof(b));
		if (!a || a == b) {
			print_error("%s.%s is %s\n", what, names.name[i],
				    a ? "Ganesha's default" : "not set");
			wrong++;
		}
	}
	return wrong;
}

static void test_obj_ops(void **state)
{
	struct fsal_obj_ops ours, theirs;

	memset(&ours, 0, sizeof(ours));
	stubfs_obj_ops_init(&ours);
	fsal_default_obj_ops_init(&theirs);
	assert_int_equal(compare("fsal_obj_ops", &ours, &theirs, sizeof(ours)), 0);
}

static void test_export_ops(void **state)
{
	struct req_op_context ctx = { .ctx_export = NULL };
	struct gsh_export *exp = calloc(1, 4096); /* only its id is read */
	struct fsal_export theirs;
	struct export_ops ours;

	assert_non_null(exp);
	ctx.ctx_export = exp;
	op_ctx = &ctx;
	memset(&ours, 0, sizeof(ours));
	stubfs_export_ops_init(&ours);
	fsal_export_init(&theirs);
	op_ctx = NULL;
	free(exp);
	assert_int_equal(compare("export_ops", &ours, &theirs.exp_ops, sizeof(ours)), 0);
}

/* ---- errors ---- */

static void test_status(void **state)
{
	static const struct {
		int r;
		fsal_errors_t fsal;
	} want[] = {
		{ 0, ERR_FSAL_NO_ERROR },
		{ 1, ERR_FSAL_NO_ERROR },
		{ -EAGAIN, ERR_FSAL_DELAY },
		{ -ENOMEM, ERR_FSAL_DELAY },
		{ -EMFILE, ERR_FSAL_DELAY },
		{ -ENFILE, ERR_FSAL_DELAY },
		{ -EREMOTEIO, ERR_FSAL_IO },
		{ -EBADMSG, ERR_FSAL_IO },
		{ -EIO, ERR_FSAL_IO },
		{ -ENOSPC, ERR_FSAL_NOSPC },
		{ -EDQUOT, ERR_FSAL_DQUOT },
		{ -ESTALE, ERR_FSAL_STALE },
		{ -ENOENT, ERR_FSAL_NOENT },
		{ -EINVAL, ERR_FSAL_INVAL },
		{ -EUSERS, ERR_FSAL_DELAY },
		/* make Ganesha drop a request, or break it otherwise */
		{ -ENOLCK, ERR_FSAL_IO },
		{ -EBADF, ERR_FSAL_IO },
		{ -ECONNREFUSED, ERR_FSAL_IO },
		{ -ETIMEDOUT, ERR_FSAL_IO },
	};

	component_log_level[COMPONENT_FSAL] = NIV_NULL; /* there is no log here */
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(glue_status(want[i].r).major, want[i].fsal);
}

static void test_errno(void **state)
{
	assert_int_equal(glue_errno(fsalstat(ERR_FSAL_NO_ERROR, 0)), 0);
	assert_int_equal(glue_errno(fsalstat(ERR_FSAL_NOSPC, ENOSPC)), -ENOSPC);
	assert_int_equal(glue_errno(fsalstat(ERR_FSAL_STALE, 0)), -EIO);
}

/* ---- identity ---- */

static int key(const void *bytes, size_t len, struct stub_handle *h)
{
	struct gsh_buffdesc desc = { .addr = (void *)bytes, .len = len };

	return glue_handle_of_key(&desc, h);
}

static void test_key_widths(void **state)
{
	/* no fsid; type in one, two and four bytes; two bytes of handle */
	static const uint8_t one[] = { 0x40, 0x81, 0xaa, 0xbb };
	static const uint8_t two[] = { 0x80, 0xff, 0xff, 0xaa, 0xbb };
	static const uint8_t four[] = { 0xc0, 0x78, 0x56, 0x34, 0x12, 0xaa, 0xbb };
	struct stub_handle h;

	assert_int_equal(key(one, sizeof(one), &h), 0);
	assert_int_equal(h.type, 0x81);
	assert_int_equal(h.len, 2);
	assert_memory_equal(h.bytes, "\xaa\xbb", 2);
	assert_int_equal(key(two, sizeof(two), &h), 0);
	assert_int_equal(h.type, -1);
	assert_int_equal(h.len, 2);
	assert_int_equal(key(four, sizeof(four), &h), 0);
	assert_int_equal(h.type, 0x12345678);
	assert_int_equal(h.len, 2);
}

static void test_key_fsid(void **state)
{
	uint8_t bytes[32] = { 0x40 | FSID_TWO_UINT64 };
	struct stub_handle h;

	bytes[17] = 1;
	bytes[18] = 0xcc;
	assert_int_equal(key(bytes, 19, &h), 0);
	assert_int_equal(h.type, 1);
	assert_int_equal(h.len, 1);
	assert_int_equal(h.bytes[0], 0xcc);
	for (size_t n = 0; n < 19; n++)
		assert_int_equal(key(bytes, n, &h), -EINVAL);
}

/* What glue_key_of_handle() makes, glue_handle_of_key() takes apart. */
static void test_key_there_and_back(void **state)
{
	static const int32_t types[] = { 0, 1, 0x81, 255, 256, INT16_MAX, INT16_MAX + 1, INT32_MAX };
	static const enum fsid_type fsids[] = { FSID_NO_TYPE,	 FSID_ONE_UINT64, FSID_MAJOR_64,
						FSID_TWO_UINT64, FSID_TWO_UINT32, FSID_DEVICE };
	struct fsal_filesystem fs = { .fsid = { 0x1122334455667788, 0x99aabbccddeeff00 } };
	struct stub_handle h, back;
	uint8_t room[256];

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (size_t k = 0; k < sizeof(fsids) / sizeof(fsids[0]); k++) {
			struct gsh_buffdesc desc = { room, sizeof(room) };

			fs.fsid_type = fsids[k];
			memset(&h, 0, sizeof(h));
			h.type = types[i];
			h.len = (uint8_t)(12 + 4 * k);
			memset(h.bytes, (int)(0x40 + i), h.len);
			assert_int_equal(glue_key_of_handle(&fs, &h, &desc), 0);
			assert_int_equal(glue_handle_of_key(&desc, &back), 0);
			assert_true(stub_handle_equal(&h, &back));
			desc.len--; /* just not enough */
			assert_int_equal(glue_key_of_handle(&fs, &h, &desc), -EINVAL);
		}
	}
}

static void test_key_refused(void **state)
{
	uint8_t bytes[200] = { 0x40 };
	static const uint8_t dummy[] = { 0x60, 1, 2, 3 }; /* a mount point */
	static const uint8_t nowidth[] = { 0x00, 1, 2, 3 };
	static const uint8_t badfsid[] = { 0x5f, 1, 2, 3 };
	struct stub_handle h;

	assert_int_equal(key(NULL, 0, &h), -EINVAL);
	assert_int_equal(key(dummy, sizeof(dummy), &h), -EINVAL);
	assert_int_equal(key(nowidth, sizeof(nowidth), &h), -EINVAL);
	assert_int_equal(key(badfsid, sizeof(badfsid), &h), -EINVAL);
	assert_int_equal(key(bytes, 2 + STUB_HANDLE_MAX, &h), 0);
	assert_int_equal(key(bytes, 3 + STUB_HANDLE_MAX, &h), -EINVAL);
}

/* ---- attributes ---- */

static void attrs_make(struct fsal_attrlist *a)
{
	fsal_prepare_attrs(a, ATTRS_POSIX);
	a->valid_mask = ATTRS_POSIX;
	a->type = REGULAR_FILE;
	a->filesize = 1000;
	a->spaceused = 0;
	a->numlinks = 1;
	a->mtime = a->ctime = (struct timespec){ 900, 9 };
	a->change = 900000000009;
}

/* A request to an export whose attributes are cached for a minute. */
static int request_begin(void **state)
{
	static struct req_op_context ctx;

	ctx.export_perms.expire_time_attr = 60;
	op_ctx = &ctx;
	return 0;
}

static int request_end(void **state)
{
	op_ctx = NULL;
	return 0;
}

static void test_attrs_of_normal(void **state)
{
	struct stub_view view = { .needs = 0, .mtime = { 1, 2 }, .nlink = 7 };
	struct fsal_attrlist a, before;

	attrs_make(&a);
	before = a;
	before.expire_time_attr = 60;
	stubfs_attrs_show(&view, &a);
	assert_memory_equal(&a, &before, sizeof(a));
}

static void test_attrs_of_stub(void **state)
{
	struct stub_view view = {
		.needs = STUB_NEEDS_DATA,
		.mtime = { 5, 6 },
		.ctime = { 7, 8 },
		.nlink = 3,
	};
	struct fsal_attrlist a;

	attrs_make(&a);
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.mtime.tv_sec, 5);
	assert_int_equal(a.ctime.tv_nsec, 8);
	assert_int_equal(a.numlinks, 3);
	assert_int_equal(a.filesize, 1000);
	assert_int_equal(a.change, 7000000008);
	assert_int_equal(a.spaceused, 1024);
	assert_int_equal(a.expire_time_attr, 1);
	view.mtime.tv_sec = 10;
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.change, 10000000006);
	op_ctx->export_perms.expire_time_attr = 0; /* not cached at all */
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.expire_time_attr, 0);
	op_ctx->export_perms.expire_time_attr = -1; /* for ever */
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.expire_time_attr, 1);
}

/* A directory's local size grows while it is listed. */
static void test_attrs_of_directory(void **state)
{
	struct stub_view view = { .needs = STUB_NEEDS_ENTRIES, .size = 777 };
	struct fsal_attrlist a;

	attrs_make(&a);
	a.type = DIRECTORY;
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.filesize, 777);
	attrs_make(&a);
	a.type = DIRECTORY;
	view.size = 0; /* made by an earlier release */
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.filesize, 1000);
}

/* What is not valid is not touched. */
static void test_attrs_mask(void **state)
{
	struct stub_view view = { .needs = STUB_NEEDS_ENTRIES, .nlink = 3 };
	struct fsal_attrlist a;

	attrs_make(&a);
	a.valid_mask = ATTR_RDATTR_ERR;
	stubfs_attrs_show(&view, &a);
	assert_int_equal(a.numlinks, 1);
	assert_int_equal(a.mtime.tv_sec, 900);
	assert_int_equal(a.spaceused, 0);
}

/* ---- names of xattrs ---- */

static bool hidden(const char *name)
{
	return stubfs_hides_xattr(name, strlen(name));
}

static void test_hides_xattr(void **state)
{
	assert_true(hidden("trusted.postcopy"));
	assert_true(hidden("trusted.postcopy.2"));
	assert_false(hidden("trusted.postcop"));
	assert_false(hidden("user.postcopy"));
	assert_false(hidden(""));
}

#define IN_REQUEST(t) cmocka_unit_test_setup_teardown(t, request_begin, request_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_obj_ops),	      cmocka_unit_test(test_export_ops),
		cmocka_unit_test(test_status),	      cmocka_unit_test(test_errno),
		cmocka_unit_test(test_key_widths),    cmocka_unit_test(test_key_fsid),
		cmocka_unit_test(test_key_refused),   cmocka_unit_test(test_key_there_and_back),
		IN_REQUEST(test_attrs_of_normal),
		IN_REQUEST(test_attrs_of_stub),	      IN_REQUEST(test_attrs_of_directory),
		IN_REQUEST(test_attrs_mask),
		cmocka_unit_test(test_hides_xattr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
