// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * sourcecat - use retriever/source/source.h from the command line, for tests.
 *
 *   sourcecat [options] URI list PATH    one line per entry: type mode uid gid size name
 *   sourcecat [options] URI count PATH   number of entries
 *   sourcecat [options] URI cat PATH     the file's bytes
 *   sourcecat [options] URI stat PATH    attributes
 *   sourcecat [options] URI access PATH  ACCESS bits of uid -u
 *   sourcecat [options] URI holes PATH   where it has no data: START END, and how far that goes
 *   sourcecat [options] URI bench PATH   read the file, print MiB/s
 *   sourcecat [options] URI probe        source_probe()
 *
 * Options: -c connections, -w reads in flight, -i calls in flight per connection,
 * -r bytes per read, -t call_timeout_ms, -g give_up_ms, -u uid, -n repeats, -v;
 * of SMB: -a credentials, -p worker, -s (no signing required), -e (encryption required).
 * PATH is relative to the export.  Every read callback is checked to come once.
 * Exit status 0, or 1 with the error on stderr.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/source.h"

#define WINDOW_MAX 256

static struct source_config config = {
	.connections = 4,
	.readdir_bytes = 256 * 1024,
	.read_bytes = 1024 * 1024,
	.call_timeout_ms = 3000,
	.inflight = 16,
	.smb = { .sign = true, .file_mode = 0600, .dir_mode = 0700 },
};
static unsigned int window = 16, repeats = 1;
static uint32_t uid;
static int verbose;

static void on_log(void *arg, enum stub_log_level level, const char *msg)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	(void)arg;
	if (verbose || level <= STUB_LOG_WARN)
		fprintf(stderr, "sourcecat: %s: %s\n", names[level], msg);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int resolve(struct source *s, const char *path, struct stub_origin *o, struct stub_attr *a)
{
	int r = source_root(s, o, a);

	while (!r && *path) {
		size_t len = strcspn(path, "/");

		if (len) {
			struct stub_origin dir = *o;

			r = source_lookup(s, SOURCE_DEMAND, &dir, NULL, path, len, o, a);
		}
		path += len + (path[len] == '/');
	}
	return r;
}

/* ---- stat, list, access ---- */

static void show(const struct stub_attr *a, const char *name, int len)
{
	printf("%06o %u %u:%u %" PRIu64 " %u,%u %" PRId64 ".%09ld %" PRIx64 ":%" PRIu64 " %.*s",
	       a->mode, a->nlink, a->uid, a->gid, a->size, a->rdev_major, a->rdev_minor,
	       (int64_t)a->mtime.tv_sec, a->mtime.tv_nsec, a->fsid, a->fileid, len, name);
}

static int do_stat(struct source *s, const char *path)
{
	struct stub_origin o;
	struct stub_attr a;
	char target[STUB_TARGET_MAX];
	size_t len = 0;
	int r = resolve(s, path, &o, &a);

	if (!r)
		r = source_getattr(s, SOURCE_BACKGROUND, &o, &a);
	if (!r && S_ISLNK(a.mode))
		r = source_readlink(s, SOURCE_DEMAND, &o, NULL, target, sizeof(target), &len);
	if (r)
		return r;
	show(&a, path, (int)strlen(path));
	printf(len ? " -> %.*s\n" : "%.*s\n", (int)len, target);
	return 0;
}

static int do_holes(struct source *s, const char *path)
{
	struct source_holes h = { 0 };
	struct stub_origin o;
	struct stub_attr a;
	uint64_t at = 0;
	int r = resolve(s, path, &o, &a);

	while (!r && at < a.size) {
		r = source_holes(s, SOURCE_BACKGROUND, &o, at, &h);
		for (uint32_t i = 0; i < h.n && !r; i++)
			printf("%" PRIu64 " %" PRIu64 "\n", h.hole[i].start, h.hole[i].end);
		if (!r)
			printf("to %" PRIu64 "\n", h.end);
		if (!r && h.end <= at)
			r = -EPROTO;
		at = h.end;
		free(h.hole);
	}
	return r;
}

struct counting {
	uint64_t n, links;
	int print;
};

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	struct counting *c = arg;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!e[i].error && (!e[i].origin_len || !e[i].attr.mode))
			return -EPROTO; /* incomplete: must not happen */
		if (c->print && e[i].error)
			printf("%.*s: %s\n", (int)e[i].name_len, e[i].name, strerror(-e[i].error));
		if (e[i].error)
			continue;
		c->links += e[i].target != NULL;
		if (!c->print)
			continue;
		show(&e[i].attr, e[i].name, (int)e[i].name_len);
		if (e[i].target)
			printf(" -> %.*s", (int)e[i].target_len, e[i].target);
		putchar('\n');
	}
	c->n += n;
	return 0;
}

static int do_list(struct source *s, const char *path, int print)
{
	struct counting c = { .print = print };
	struct stub_origin o;
	struct stub_attr a;
	double start;
	int r = resolve(s, path, &o, &a);

	start = now();
	if (!r)
		r = source_list(s, SOURCE_BACKGROUND, &o, NULL, on_entries, &c);
	if (!r && !print)
		printf("%" PRIu64 " entries, %" PRIu64 " symlinks, %.3f s\n", c.n, c.links,
		       now() - start);
	return r;
}

static int do_access(struct source *s, const char *path)
{
	struct stub_origin o;
	struct stub_attr a;
	uint32_t granted;
	int r = resolve(s, path, &o, &a);

	if (!r)
		r = source_access(s, &o, uid, 0x3f, &granted);
	if (!r)
		printf("%#x\n", granted);
	return r;
}

/* ---- reading ---- */

struct slot {
	struct reader *r;
	uint64_t offset;
	uint32_t length;
	int calls; /* of the callback for this read */
	bool busy;
	int64_t result;
	uint8_t *data; /* cat only */
};

struct reader {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t bytes, sum;
	int err, twice;
	bool keep;
	struct slot slot[WINDOW_MAX];
};

static void on_read(void *arg, const struct source_read *got)
{
	struct slot *slot = arg;
	struct reader *r = slot->r;
	uint64_t sum = 0, word;
	int64_t i;

	for (i = 0; i + 8 <= got->result; i += 4096) {
		memcpy(&word, (const uint8_t *)got->data + i, sizeof(word));
		sum ^= word + slot->offset + (uint64_t)i;
	}
	if (r->keep && got->result > 0)
		memcpy(slot->data, got->data, (size_t)got->result);
	pthread_mutex_lock(&r->lock);
	r->twice += slot->calls++ != 0;
	slot->result = got->result;
	slot->busy = false;
	if (got->result < 0)
		r->err = (int)got->result;
	else
		r->bytes += (uint64_t)got->result;
	r->sum += sum;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

/* Wait until @slot is free; write what it brought, in order. */
static int finish_slot(struct reader *r, struct slot *slot)
{
	int err;

	pthread_mutex_lock(&r->lock);
	while (slot->busy)
		pthread_cond_wait(&r->changed, &r->lock);
	err = r->err;
	pthread_mutex_unlock(&r->lock);
	if (r->keep && slot->result > 0 && !err &&
	    fwrite(slot->data, 1, (size_t)slot->result, stdout) != (size_t)slot->result)
		err = -EIO;
	slot->result = 0;
	return err;
}

static int read_all(struct source *s, struct reader *r, const struct stub_origin *o, uint64_t size,
		    uint32_t bytes)
{
	uint64_t offset = 0;
	unsigned int i = 0, n;
	int err = 0;

	for (; offset < size && !err; offset += bytes, i++) {
		struct slot *slot = &r->slot[i % window];

		err = finish_slot(r, slot);
		if (err)
			break;
		slot->r = r;
		slot->offset = offset;
		slot->length = size - offset < bytes ? (uint32_t)(size - offset) : bytes;
		slot->calls = 0;
		slot->busy = true;
		err = source_read(s, SOURCE_BACKGROUND, o, offset, slot->length, on_read, slot);
		if (err)
			slot->busy = false;
	}
	for (n = 0; n < window; n++, i++) {
		int e = finish_slot(r, &r->slot[i % window]);

		err = err ? err : e;
	}
	return err;
}

static int do_read(struct source *s, const char *path, bool keep)
{
	struct reader *r = calloc(1, sizeof(*r));
	struct source_limits limits = { 0 };
	struct stub_origin o;
	struct stub_attr a;
	unsigned int i;
	double start;
	int err = resolve(s, path, &o, &a);

	if (!err)
		err = source_limits(s, &limits);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->keep = keep;
	for (i = 0; i < window; i++)
		r->slot[i].data = keep ? malloc(limits.read_bytes + 1) : NULL;
	start = now();
	if (!err)
		err = read_all(s, r, &o, a.size, limits.read_bytes);
	if (!err && r->bytes != a.size) {
		fprintf(stderr, "sourcecat: %" PRIu64 " bytes of %" PRIu64 "\n", r->bytes, a.size);
		err = -EIO;
	}
	if (r->twice) {
		fprintf(stderr, "sourcecat: %d callbacks too many\n", r->twice);
		err = -EPROTO;
	}
	if (!err && !keep)
		printf("%" PRIu64 " bytes, %.3f s, %.0f MiB/s, reads of %u, sum %016" PRIx64 "\n",
		       r->bytes, now() - start, (double)r->bytes / 1048576 / (now() - start),
		       limits.read_bytes, r->sum);
	for (i = 0; i < window; i++)
		free(r->slot[i].data);
	free(r);
	return err;
}

/* ---- main ---- */

static int do_probe(void)
{
	char why[256] = "";
	int r = source_probe(&config, config.call_timeout_ms, why, sizeof(why));

	printf("%s%s%s\n", r ? strerror(-r) : "ok", r ? ": " : "", why);
	return 0;
}

static int command(struct source *s, const char *name, const char *path)
{
	if (!strcmp(name, "stat"))
		return do_stat(s, path);
	if (!strcmp(name, "list"))
		return do_list(s, path, 1);
	if (!strcmp(name, "count"))
		return do_list(s, path, 0);
	if (!strcmp(name, "cat"))
		return do_read(s, path, true);
	if (!strcmp(name, "bench"))
		return do_read(s, path, false);
	if (!strcmp(name, "access"))
		return do_access(s, path);
	if (!strcmp(name, "holes"))
		return do_holes(s, path);
	return -EINVAL;
}

static void show_state(struct source *s)
{
	struct source_state st;

	source_state(s, &st);
	fprintf(stderr,
		"sourcecat: connected %d reconnects %" PRIu64 " calls %" PRIu64 " lookups %" PRIu64
		" readdirs %" PRIu64 " reads %" PRIu64 " bytes %" PRIu64 " retries %" PRIu64
		" inflight %u\n",
		st.connected, st.reconnects, st.calls, st.lookups, st.readdirs, st.reads,
		st.read_bytes, st.retries, st.inflight);
}

static int options(int argc, char **argv)
{
	int o;

	while ((o = getopt(argc, argv, "c:w:i:r:t:g:u:n:a:p:sev")) >= 0) {
		unsigned int n = optarg ? (unsigned int)strtoul(optarg, NULL, 0) : 0;

		switch (o) {
		case 'c':
			config.connections = n;
			break;
		case 'w':
			window = n < 1 ? 1 : n > WINDOW_MAX ? WINDOW_MAX : n;
			break;
		case 'i':
			config.inflight = n;
			break;
		case 'r':
			config.read_bytes = config.smb.read_bytes = n;
			break;
		case 'a':
			config.smb.credentials = optarg;
			break;
		case 'p':
			config.smb.worker = optarg;
			break;
		case 's':
			config.smb.sign = false;
			break;
		case 'e':
			config.smb.encrypt = true;
			break;
		case 't':
			config.call_timeout_ms = n;
			break;
		case 'g':
			config.give_up_ms = n;
			break;
		case 'u':
			uid = n;
			break;
		case 'n':
			repeats = n;
			break;
		case 'v':
			verbose = 1;
			break;
		default:
			return -1;
		}
	}
	return argc - optind >= 2 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct source *s;
	const char *path;
	int r;

	if (options(argc, argv)) {
		fprintf(stderr,
			"usage: sourcecat [options] URI list|count|cat|stat|access|bench|probe "
			"[PATH]\n");
		return 2;
	}
	config.uri = argv[optind];
	config.log = on_log;
	path = argc - optind > 2 ? argv[optind + 2] : "";
	if (!strcmp(argv[optind + 1], "probe"))
		return do_probe();
	r = source_create(&config, &s);
	if (!r) {
		while (!r && repeats--)
			r = command(s, argv[optind + 1], path);
		if (verbose)
			show_state(s);
		source_destroy(s);
	}
	if (r)
		fprintf(stderr, "sourcecat: %s\n", strerror(-r));
	return fflush(stdout) || r ? 1 : 0;
}
