/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A depot of streams: names as smbd has them, what is replaced, what a crash leaves.  The
 * source is this test. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "depot/depot.h"

#define UUID "12345678-1234-1234-1234-123456789abc"

static char bytes[3 << 20]; /* of every stream of the source */
static uint64_t size_now; /* that the source tells */
static struct stub_attr attr_now;
static unsigned int looks, moves_at; /* the object's change time moves before look number... */

int source_getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	*attr = attr_now;
	if (++looks == moves_at)
		attr->ctime.tv_nsec++;
	return 0;
}

int64_t source_stream(struct source *s, enum source_priority p, const struct stub_origin *o,
		      const char *name, uint64_t offset, void *buf, uint32_t length,
		      uint64_t *size)
{
	uint64_t n = offset < size_now ? size_now - offset : 0;

	assert_true(length <= SOURCE_STREAM_MAX);
	*size = size_now;
	n = n < length ? n : length;
	memcpy(buf, bytes + offset, n);
	return (int64_t)n;
}

struct fixture {
	char dir[64], object[64];
	struct stub_volume_info info;
	struct depot *d;
	struct stub_object o;
	struct source_stream streams[2];
	struct source_meta m;
	char place[128]; /* of the object's streams */
};

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int run(const char *fmt, const char *arg)
{
	char line[512];

	snprintf(line, sizeof(line), fmt, arg);
	return system(line);
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	char path[DEPOT_PATH_MAX], parent[128];
	struct stat st;

	strcpy(x->dir, "/var/tmp/test-depot-XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	snprintf(x->object, sizeof(x->object), "%s/object", x->dir);
	put(x->dir, "object", "");
	x->o.fd = open(x->object, O_RDONLY);
	assert_int_equal(fstat(x->o.fd, &st), 0);
	snprintf(x->info.depot, sizeof(x->info.depot), "%s", x->dir);
	strcpy(x->info.uuid, UUID);
	x->info.depot_id = 0x1234;
	depot_path(x->info.depot_id, st.st_ino, path);
	snprintf(x->place, sizeof(x->place), "%s/%s", x->dir, path);
	assert_int_equal(depot_open(&x->info, &x->d), -ENOENT); /* not a depot */
	assert_int_equal(run("mkdir -p %s/FF/FF", x->dir), 0); /* depot_make() makes more */
	path[5] = '\0';
	snprintf(parent, sizeof(parent), "%s/%s", x->dir, path);
	assert_int_equal(run("mkdir -p %s", parent), 0);
	x->streams[0] = (struct source_stream){ ":a:$DATA", sizeof(bytes) - 5 };
	x->streams[1] = (struct source_stream){ ":b:$DATA", sizeof(bytes) - 5 };
	x->m.streams = x->streams;
	x->m.n_streams = 2;
	x->m.attr = (struct stub_attr){ .mode = S_IFREG | 0640, .uid = 70001, .gid = 70010,
					.fileid = 7, .mtime = { 1000000000, 5 } };
	attr_now = x->m.attr;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	size_now = sizeof(bytes) - 5;
	looks = moves_at = 0;
	*state = x;
	return depot_open(&x->info, &x->d);
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	depot_close(x->d);
	close(x->o.fd);
	assert_int_equal(run("rm -rf %s", x->dir), 0);
	free(x);
	return 0;
}

static bool staging_empty(const struct fixture *x)
{
	return run("test -z \"$(ls -A %s/.postcopy-" UUID ")\"", x->dir) == 0;
}

static int fetch(struct fixture *x, struct depot_item **item, bool *local)
{
	struct depot_job job = { .o = &x->o, .m = &x->m };
	int r = depot_fetch(x->d, &job, item);

	*local = job.local;
	return r;
}

/* Two in which an smbd 4.17 with fileid:algorithm = fsname has found streams. */
static void names(void **state)
{
	char path[DEPOT_PATH_MAX];

	(void)state;
	depot_path(UINT64_C(0x37a985db8946a729), 0x80040, path);
	assert_string_equal(path, "9A/5C/29A74689DB85A9374000080000000000");
	depot_path(UINT64_C(0x37a985db8946a729), 0x185044, path);
	assert_string_equal(path, "5A/F7/29A74689DB85A9374450180000000000");
}

static void placed(void **state)
{
	struct fixture *x = *state;
	struct depot_item *item;
	char path[256], *got = malloc(sizeof(bytes));
	struct stat st;
	bool local;
	int fd;

	assert_int_equal(fetch(x, &item, &local), 0);
	assert_int_equal(access(x->place, F_OK), -1); /* not yet */
	assert_int_equal(depot_place(item), 0);
	depot_item_free(item);
	assert_true(staging_empty(x));
	snprintf(path, sizeof(path), "%s/:b:$DATA", x->place);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, got, sizeof(bytes)), sizeof(bytes) - 5);
	assert_memory_equal(got, bytes, sizeof(bytes) - 5);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(st.st_uid, 70001);
	assert_int_equal(st.st_gid, 70010);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	close(fd);
	assert_int_equal(stat(x->place, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	free(got);
}

/* Of a former owner of the inode, or of a try that a crash ended: all of it goes. */
static void replaced(void **state)
{
	struct fixture *x = *state;
	struct depot_item *item;
	bool local;

	assert_int_equal(run("mkdir -p %s/deep/er", x->place), 0);
	put(x->place, ":old:$DATA", "old");
	put(x->place, ":a:$DATA", "old");
	assert_int_equal(fetch(x, &item, &local), 0);
	assert_int_equal(depot_place(item), 0);
	depot_item_free(item);
	assert_true(staging_empty(x));
	assert_int_equal(run("test \"$(ls -A %s | tr '\\n' ' ')\" = ':a:$DATA :b:$DATA '", x->place), 0);
}

/* What is not placed leaves nothing. */
static void given_up(void **state)
{
	struct fixture *x = *state;
	struct depot_item *item;
	bool local;

	assert_int_equal(fetch(x, &item, &local), 0);
	depot_item_free(item);
	assert_true(staging_empty(x));
	assert_int_equal(access(x->place, F_OK), -1);
	x->m.n_streams = 0;
	assert_int_equal(fetch(x, &item, &local), 0);
	assert_null(item);
	assert_int_equal(depot_place(item), 0);
	depot_item_free(item);
}

/* Removed over NFS while its streams came: nobody would remove those. */
static void removed(void **state)
{
	struct fixture *x = *state;
	struct depot_item *item;
	bool local;

	assert_int_equal(fetch(x, &item, &local), 0);
	assert_int_equal(unlink(x->object), 0);
	assert_int_equal(depot_place(item), -ENOENT);
	depot_item_free(item);
	assert_int_equal(access(x->place, F_OK), -1);
	assert_true(staging_empty(x));
}

/* Bytes of two versions are never mixed. */
static void changed(void **state)
{
	struct fixture *x = *state;
	struct depot_item *item;
	bool local;

	size_now--; /* shorter than it was listed */
	assert_int_equal(fetch(x, &item, &local), -EIO);
	size_now += 2;
	assert_int_equal(fetch(x, &item, &local), -EIO);
	size_now--;
	looks = 0;
	moves_at = 2;
	assert_int_equal(fetch(x, &item, &local), -EIO);
	attr_now.fileid = 8; /* another object */
	looks = 0;
	moves_at = 0;
	assert_int_equal(fetch(x, &item, &local), -EIO);
	assert_false(local);
	assert_null(item);
	assert_true(staging_empty(x));
}

static void crashed(void **state)
{
	struct fixture *x = *state;
	struct depot *d;

	assert_int_equal(run("mkdir %s/.postcopy-" UUID "/5", x->dir), 0);
	assert_int_equal(run("echo half > '%s/.postcopy-" UUID "/5/:a:$DATA'", x->dir), 0);
	assert_int_equal(depot_open(&x->info, &d), 0);
	depot_close(d);
	assert_true(staging_empty(x));
	assert_int_equal(depot_leave(&x->info), 0);
	assert_int_equal(run("test ! -e %s/.postcopy-" UUID, x->dir), 0);
	depot_close(x->d);
	assert_int_equal(depot_open(&x->info, &x->d), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test_setup_teardown(placed, setup, teardown),
		cmocka_unit_test_setup_teardown(replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(removed, setup, teardown),
		cmocka_unit_test_setup_teardown(changed, setup, teardown),
		cmocka_unit_test_setup_teardown(crashed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
