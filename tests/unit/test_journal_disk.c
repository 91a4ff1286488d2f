/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * test_journal_disk.c - a disk that fails below the pending journal, and then the power.
 *
 * What the journal writes to its data file goes through here: this program's own pwrite()
 * and so on stand before the C library's, for LMDB too.
 * Behind the file, which is the page cache, there is a disk: what a sync has written.
 * A sync that fails leaves pages that only the cache has, and the kernel does not write
 * them again: that is how Linux behaves.  Then the power goes: from the disk alone, and
 * from it with some of what was under way, the journal must open and hold what was
 * acknowledged.
 */
#include <dlfcn.h>
#include <sys/uio.h>

#define WORK_TOP "/dev/shm" /* real syncs say nothing here */

#include "journal_util.h"

#define PAGE	  4096
#define PAGES	  64
#define ENTRIES	  40 /* fill more than one page */
#define STEPS	  6
#define SYNCS	  10 /* the first failure is at one of these */
#define FAILURES  3 /* syncs in a row, each of which may fail */

/* Syncs come from the journal's thread too, which cmocka's assertions do not know. */
#define must(condition)                                                             \
	do {                                                                        \
		if (!(condition)) {                                                 \
			fprintf(stderr, "%s: first %u, plan %u, sync %u\n", #condition, \
				disk.first, disk.plan, disk.syncs);                 \
			abort();                                                    \
		}                                                                   \
	} while (0)

/* What becomes of a sync. */
enum outcome { DONE, LOST, UNSURE }; /* UNSURE: written, but said to have failed */

static struct {
	ino_t ino; /* of the data file; 0: nothing is watched */
	int fd; /* for reading it */
	uint8_t image[PAGES * PAGE];
	bool dirty[PAGES];
	unsigned int pages; /* so many the disk has */
	unsigned int syncs; /* so far */
	unsigned int first; /* from this one on ... */
	unsigned int plan; /* ... outcomes, base 3 */
} disk;

static void power_cut(void);

static void *next_of(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	must(f);
	return f;
}

static bool watched(int fd)
{
	struct stat st;

	return disk.ino && fstat(fd, &st) == 0 && st.st_ino == disk.ino;
}

static void touch(off_t offset, ssize_t len)
{
	for (off_t p = offset / PAGE; len > 0 && p <= (offset + len - 1) / PAGE; p++) {
		must(p < PAGES);
		disk.dirty[p] = true;
	}
}

static void write_page(unsigned int p, uint8_t *image)
{
	uint8_t page[PAGE] = { 0 };

	must(pread(disk.fd, page, PAGE, (off_t)p * PAGE) >= 0);
	memcpy(image + (size_t)p * PAGE, page, PAGE);
}

static enum outcome outcome_of(unsigned int sync)
{
	unsigned int plan = disk.plan;

	if (sync < disk.first || sync >= disk.first + FAILURES)
		return DONE;
	for (unsigned int i = disk.first; i < sync; i++)
		plan /= 3;
	return (enum outcome)(plan % 3);
}

static int sync_to_disk(void)
{
	enum outcome o;

	power_cut();
	o = outcome_of(disk.syncs++);
	for (unsigned int p = 0; p < PAGES; p++) {
		if (!disk.dirty[p])
			continue;
		disk.dirty[p] = false;
		if (o == LOST)
			continue;
		write_page(p, disk.image);
		if (p >= disk.pages)
			disk.pages = p + 1;
	}
	errno = EIO;
	return o == DONE ? 0 : -1;
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	ssize_t n = ((ssize_t(*)(int, const void *, size_t, off_t))next_of("pwrite64"))(fd, buf, len,
										       offset);

	if (n > 0 && watched(fd)) {
		touch(offset, n);
		if (fcntl(fd, F_GETFL) & O_DSYNC && sync_to_disk() < 0)
			return -1;
	}
	return n;
}

/* LMDB was built without _FILE_OFFSET_BITS, which gives the one above another name. */
ssize_t plain_pwrite(int fd, const void *buf, size_t len, off_t offset) __asm__("pwrite");

ssize_t plain_pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	return pwrite(fd, buf, len, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
	bool ours = watched(fd);
	off_t at = ours ? lseek(fd, 0, SEEK_CUR) : 0;
	ssize_t r = ((ssize_t(*)(int, const struct iovec *, int))next_of("writev"))(fd, iov, n);

	if (ours)
		touch(at, r);
	return r;
}

int fdatasync(int fd)
{
	int r = ((int (*)(int))next_of("fdatasync"))(fd);

	return r == 0 && watched(fd) ? sync_to_disk() : r;
}

/* ---- the power goes ---- */

static atomic_bool wanted[ENTRIES], unwanted[ENTRIES]; /* neither: not known */

static uint64_t bytes_of(struct stub_journal *j)
{
	struct stub_journal_cursor c = { 0 };
	struct stub_journal_entry e[100];
	uint64_t sum = 0;
	int n;

	while ((n = stub_journal_next(j, &c, false, e, 100)) > 0)
		for (int i = 0; i < n; i++)
			sum += e[i].kind == STUB_JOURNAL_FILE ? e[i].size : 0;
	return sum;
}

static void check_entries(struct stub_journal *j)
{
	struct stub_journal_totals t;
	struct stub_journal_counts c;

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct stub_handle h = handle_of(i);
		struct stub_journal_entry e;
		int r = stub_journal_get(j, &h, &e);

		must(r == 0 || r == -ENOENT);
		must(!(wanted[i] && r < 0));
		must(!(unwanted[i] && r == 0));
	}
	must(stub_journal_counts(j, &c) == 0);
	must(walk_all(j, true) == (int64_t)c.total);
	/* counted in the transaction that counts, whichever one that is */
	must(stub_journal_totals(j, &t) == 0);
	must(t.whole && t.left + t.parked == c.total && t.left_bytes == bytes_of(j));
}

static void check_image(const uint8_t *image, unsigned int pages)
{
	struct stub_journal *j = NULL;
	char dir[96], file[128];
	FILE *f;

	snprintf(dir, sizeof(dir), "%s/after", work_dir);
	snprintf(file, sizeof(file), "%s/after/data.mdb", work_dir);
	must(mkdir(dir, 0700) == 0 || errno == EEXIST);
	f = fopen(file, "we");
	must(f && fwrite(image, PAGE, pages, f) == pages && fclose(f) == 0);
	must(stub_journal_open(dir, STUB_JOURNAL_READONLY, count_log, NULL, &j) == 0);
	check_entries(j);
	stub_journal_close(j);
}

/* From the disk alone, and with one more page of what was under way. */
static void power_cut(void)
{
	static uint8_t image[PAGES * PAGE];
	ino_t ino = disk.ino;

	if (!ino)
		return;
	disk.ino = 0;
	check_image(disk.image, disk.pages);
	for (unsigned int p = 0; p < disk.pages; p++) {
		if (!disk.dirty[p])
			continue;
		memcpy(image, disk.image, sizeof(image));
		write_page(p, image);
		check_image(image, disk.pages);
	}
	disk.ino = ino;
}

/* ---- what the journal does meanwhile ---- */

static struct stub_journal *begin(void)
{
	struct stub_journal *j;
	struct stat st;
	char file[128];

	memset(&disk, 0, sizeof(disk));
	j = open_journal(0);
	add_many(j, 0, ENTRIES / 2);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		wanted[i] = i < ENTRIES / 2;
		unwanted[i] = !wanted[i];
	}
	snprintf(file, sizeof(file), "%s/data.mdb", journal_dir);
	disk.fd = open(file, O_RDONLY | O_CLOEXEC);
	assert_true(disk.fd >= 0 && fstat(disk.fd, &st) == 0);
	disk.pages = (unsigned int)(st.st_size / PAGE);
	assert_in_range(disk.pages, 1, PAGES);
	for (unsigned int p = 0; p < disk.pages; p++)
		write_page(p, disk.image);
	disk.ino = st.st_ino;
	return j;
}

static struct stub_journal *restart(struct stub_journal *j)
{
	for (int tries = 0; tries < 2 * FAILURES; tries++) {
		stub_journal_close(j);
		j = NULL;
		if (stub_journal_open(journal_dir, 0, count_log, NULL, &j) == 0)
			return j;
	}
	fail_msg("the journal does not open again");
	return NULL;
}

/* Add one, remove another; both may fail, and then it is not known whether they are done. */
static void step(struct stub_journal *j, uint32_t i)
{
	uint32_t in = ENTRIES / 2 + i, out = i;
	struct stub_journal_entry e = entry_of(in, i % 3 ? STUB_JOURNAL_FILE : STUB_JOURNAL_DIR, 10);
	struct stub_handle h = handle_of(out);
	struct stub_journal_counts c;

	unwanted[in] = false;
	wanted[in] = stub_journal_add(j, &e, 1) == 0;
	wanted[out] = false;
	stub_journal_remove(j, &h, 1);
	stub_journal_counts(j, &c); /* waits for it; fails as long as the disk does */
	power_cut();
}

static void fail_so(unsigned int first, unsigned int plan, bool restarts)
{
	struct stub_journal *j = begin();

	disk.first = first;
	disk.plan = plan;
	for (uint32_t i = 0; i < STEPS; i++) {
		step(j, i);
		if (restarts && i % 2)
			j = restart(j);
	}
	disk.first = UINT32_MAX / 2;
	unwanted[ENTRIES - 1] = false;
	add_one(j, ENTRIES - 1, STUB_JOURNAL_FILE, 10); /* goes on once the disk is well */
	wanted[ENTRIES - 1] = true;
	power_cut();
	disk.ino = 0;
	close(disk.fd);
	stub_journal_close(j);
}

static void fail_everywhere(bool restarts)
{
	for (unsigned int first = 0; first < SYNCS; first++)
		for (unsigned int plan = 1; plan < 3 * 3 * 3; plan++) {
			void *state = NULL;

			if (plan % 3 == 0)
				continue; /* as one that begins later */
			fail_so(first, plan, restarts);
			assert_int_equal(remove_work_dir(&state), 0);
			assert_int_equal(make_work_dir(&state), 0);
		}
}

static void test_failing_disk(void **state)
{
	fail_everywhere(false);
}

static void test_failing_disk_and_restarts(void **state)
{
	fail_everywhere(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(test_failing_disk),
		journal_test(test_failing_disk_and_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
