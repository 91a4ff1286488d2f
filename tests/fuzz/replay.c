/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replay.c - gives a fuzz target kept inputs, without a fuzzer: replay_<target>
 * FILE-OR-DIRECTORY...  Each is read into memory of just its size, so that a
 * sanitizer or valgrind sees every byte read beyond it.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned int replayed;

static void die(const char *path)
{
	fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
	exit(2);
}

static void replay_file(const char *path, size_t size)
{
	uint8_t *data = malloc(size ? size : 1);
	FILE *f = fopen(path, "rb");

	if (!f || !data || fread(data, 1, size, f) != size)
		die(path);
	fclose(f);
	fprintf(stderr, "replay: %s\n", path); /* the last one named is the one that crashed */
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	replayed++;
}

static void replay(const char *path)
{
	struct stat st;
	struct dirent *e;
	char name[4096];
	DIR *d;

	if (stat(path, &st) < 0)
		die(path);
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return;
	}
	d = opendir(path);
	if (!d)
		die(path);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		replay(name);
	}
	closedir(d);
}

int main(int argc, char **argv)
{
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	if (!replayed) {
		fprintf(stderr, "replay: no input\n");
		return 2;
	}
	/* what tests/tally counts: the corpus of a target is one test */
	printf("%u inputs\n[==========] 1 test(s) run.\n[  PASSED  ] 1 test(s).\n", replayed);
	return 0;
}
