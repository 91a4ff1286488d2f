/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * logdisk - a disk that remembers everything it was told, for power cuts.
 *
 *	logdisk DIR IMAGE LOG
 *
 * Mounts a file system with two files on DIR, speaking to /dev/fuse itself:
 *
 *	disk	the contents of IMAGE; to be put under a loop device with direct I/O
 *	ctl	each write to it is one command:
 *		mark TEXT	put TEXT into the log
 *		delay USEC	writes and flushes take 0..USEC longer
 *		fail w|r|f N	the next N writes, reads, flushes get EIO (-1: all)
 *		fail d N	the next N writes of text, which is what files hold here and
 *				neither a file system's metadata nor the journal is
 *		spare FROM TO	writes to the bytes [FROM, TO) do not fail (0 0: all may)
 *		freeze		from now on nothing reaches image or log any more
 *
 * LOG is a sequence of struct rec, a write's bytes or a mark's text behind it.  A
 * write is there twice: when it comes and when it is answered, so is a flush.
 * After a power cut the disk holds every write that was answered before some
 * answered flush came, and any part of the others.  An answer is in the log before
 * it is given: nobody can act upon it earlier than the log says.
 *
 * Ends when DIR is unmounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define WRITE_MAX (1u << 20)
#define ROOM	  (WRITE_MAX + 65536) /* of one request with its headers */
#define THREADS	  8 /* requests in flight */
#define FOREVER	  3600 /* seconds the kernel may believe our attributes */
#define MAGIC	  0x474f4c44u /* "DLOG" */

enum node { NODE_ROOT = FUSE_ROOT_ID, NODE_DISK, NODE_CTL };

enum what {
	REC_WRITE = 'w',
	REC_WRITTEN = 'W',
	REC_FLUSH = 'f',
	REC_FLUSHED = 'F',
	REC_MARK = 'm',
	REC_ERROR = 'e',
};

struct rec {
	uint32_t magic;
	uint32_t what;
	uint32_t id; /* pairs a request and its answer */
	uint32_t len; /* bytes that follow */
	uint64_t offset;
};

static struct {
	int fuse, image, log;
	uint64_t size;
	pthread_mutex_t lock; /* order of the log = order in which the image changes */
	uint32_t id;
	bool frozen;
	atomic_int delay_us;
	atomic_int fail_write, fail_text, fail_read, fail_flush;
	atomic_ulong spare_from, spare_to;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void die(const char *what)
{
	fprintf(stderr, "logdisk: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the log ---- */

/* With the lock held. */
static void put(enum what what, uint32_t id, uint64_t offset, const void *data, uint32_t len)
{
	struct rec rec = { MAGIC, what, id, len, offset };
	struct iovec v[2] = { { &rec, sizeof(rec) }, { (void *)data, len } };

	if (writev(disk.log, v, 2) != (ssize_t)(sizeof(rec) + len))
		die("writing the log");
}

/* The request's number, or 0 if nothing is to happen any more. */
static uint32_t put_request(enum what what, uint64_t offset, const void *data, uint32_t len)
{
	uint32_t id = 0;

	pthread_mutex_lock(&disk.lock);
	if (!disk.frozen) {
		id = ++disk.id;
		put(what, id, offset, data, len);
		if (len && pwrite(disk.image, data, len, (off_t)offset) != (ssize_t)len)
			die("writing the image");
	}
	pthread_mutex_unlock(&disk.lock);
	return id;
}

static void put_answer(enum what what, uint32_t id)
{
	pthread_mutex_lock(&disk.lock);
	if (!disk.frozen)
		put(what, id, 0, NULL, 0);
	pthread_mutex_unlock(&disk.lock);
}

static void take_time(void)
{
	int most = atomic_load(&disk.delay_us);
	struct timespec t = { 0 };

	if (most <= 0)
		return;
	t.tv_nsec = (random() % most) * 1000L;
	nanosleep(&t, NULL);
}

/* Is this one to fail? */
static bool take_failure(atomic_int *left, char kind)
{
	int n = atomic_load(left);

	while (n > 0 && !atomic_compare_exchange_weak(left, &n, n - 1))
		;
	if (n == 0)
		return false;
	pthread_mutex_lock(&disk.lock);
	put(REC_ERROR, (uint32_t)kind, 0, NULL, 0);
	pthread_mutex_unlock(&disk.lock);
	return true;
}

static bool is_spared(uint64_t offset)
{
	return offset >= atomic_load(&disk.spare_from) && offset < atomic_load(&disk.spare_to);
}

static bool is_text(const void *data, uint32_t len)
{
	const unsigned char *p = data;

	for (uint32_t i = 0; i < 4; i++)
		if (i >= len || p[i] < ' ' || p[i] > '~')
			return false;
	return true;
}

/* ---- commands ---- */

static void command(const char *data, uint32_t len)
{
	unsigned long from, to;
	char text[4096], kind;
	int n;

	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	memcpy(text, data, len);
	while (len && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	if (strncmp(text, "mark ", 5) == 0) {
		pthread_mutex_lock(&disk.lock);
		if (!disk.frozen)
			put(REC_MARK, 0, 0, text + 5, len - 5);
		pthread_mutex_unlock(&disk.lock);
	} else if (sscanf(text, "delay %d", &n) == 1 && n < 1000000) {
		atomic_store(&disk.delay_us, n);
	} else if (sscanf(text, "fail %c %d", &kind, &n) == 2) {
		atomic_store(kind == 'w' ? &disk.fail_write :
			     kind == 'd' ? &disk.fail_text :
			     kind == 'r' ? &disk.fail_read :
					   &disk.fail_flush,
			     n);
	} else if (sscanf(text, "spare %lu %lu", &from, &to) == 2) {
		atomic_store(&disk.spare_from, from);
		atomic_store(&disk.spare_to, to);
	} else if (strcmp(text, "freeze") == 0) {
		pthread_mutex_lock(&disk.lock);
		disk.frozen = true;
		pthread_mutex_unlock(&disk.lock);
	} else {
		fprintf(stderr, "logdisk: unknown command: %s\n", text);
	}
}

/* ---- requests ---- */

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t len)
{
	struct fuse_out_header out = { .unique = in->unique, .error = -error };
	struct iovec v[2] = { { &out, sizeof(out) }, { (void *)data, error ? 0 : len } };

	out.len = (uint32_t)(sizeof(out) + v[1].iov_len);
	/* ENOENT: whoever asked was interrupted and is gone */
	if (writev(disk.fuse, v, 2) < 0 && errno != ENOENT)
		die("answering");
}

static struct fuse_attr attr_of(uint64_t node)
{
	struct fuse_attr a = {
		.ino = node,
		.nlink = 1,
		.blksize = 4096,
		.mode = node == NODE_ROOT ? S_IFDIR | 0700 : S_IFREG | 0600,
	};

	if (node == NODE_DISK) {
		a.size = disk.size;
		a.blocks = disk.size / 512;
	}
	return a;
}

static void do_init(const struct fuse_in_header *in, const void *arg, void *room)
{
	const struct fuse_init_in *i = arg;
	struct fuse_init_out o = {
		.major = FUSE_KERNEL_VERSION,
		.minor = 36,
		.max_readahead = i->max_readahead,
		.flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_ASYNC_DIO,
		.max_background = 64,
		.congestion_threshold = 48,
		.max_write = WRITE_MAX,
		.max_pages = WRITE_MAX / 4096,
		.time_gran = 1,
	};

	answer(in, 0, &o, sizeof(o));
}

static void do_lookup(const struct fuse_in_header *in, const void *arg, void *room)
{
	struct fuse_entry_out o = { .generation = 1,
				    .entry_valid = FOREVER,
				    .attr_valid = FOREVER };

	if (strcmp(arg, "disk") == 0)
		o.nodeid = NODE_DISK;
	else if (strcmp(arg, "ctl") == 0)
		o.nodeid = NODE_CTL;
	o.attr = attr_of(o.nodeid);
	answer(in, o.nodeid ? 0 : ENOENT, &o, sizeof(o));
}

static void do_attr(const struct fuse_in_header *in, const void *arg, void *room)
{
	struct fuse_attr_out o = { .attr_valid = FOREVER, .attr = attr_of(in->nodeid) };

	answer(in, 0, &o, sizeof(o));
}

static void do_open(const struct fuse_in_header *in, const void *arg, void *room)
{
	/* nothing stays in the page cache above us: the loop device's order is ours */
	struct fuse_open_out o = { .open_flags = FOPEN_DIRECT_IO };

	if (in->nodeid == NODE_DISK)
		o.open_flags |= FOPEN_PARALLEL_DIRECT_WRITES;
	answer(in, 0, &o, sizeof(o));
}

static void do_statfs(const struct fuse_in_header *in, const void *arg, void *room)
{
	struct fuse_statfs_out o = { .st = { .bsize = 4096, .frsize = 4096, .namelen = 255 } };

	answer(in, 0, &o, sizeof(o));
}

static void do_read(const struct fuse_in_header *in, const void *arg, void *room)
{
	const struct fuse_read_in *r = arg;
	ssize_t n = 0;

	if (in->nodeid == NODE_DISK) {
		if (take_failure(&disk.fail_read, 'r')) {
			answer(in, EIO, NULL, 0);
			return;
		}
		n = pread(disk.image, room, r->size < WRITE_MAX ? r->size : WRITE_MAX,
			  (off_t)r->offset);
	}
	answer(in, n < 0 ? errno : 0, room, n < 0 ? 0 : (size_t)n);
}

static void do_write(const struct fuse_in_header *in, const void *arg, void *room)
{
	const struct fuse_write_in *w = arg;
	struct fuse_write_out o = { .size = w->size };
	uint32_t id;

	if (in->nodeid != NODE_DISK) {
		command((const char *)(w + 1), w->size);
	} else if (!is_spared(w->offset) &&
		   (take_failure(&disk.fail_write, 'w') ||
		    (is_text(w + 1, w->size) && take_failure(&disk.fail_text, 'd')))) {
		answer(in, EIO, NULL, 0);
		return;
	} else {
		id = put_request(REC_WRITE, w->offset, w + 1, w->size);
		take_time();
		if (id)
			put_answer(REC_WRITTEN, id);
	}
	answer(in, 0, &o, sizeof(o));
}

static void do_flush(const struct fuse_in_header *in, const void *arg, void *room)
{
	uint32_t id;

	if (in->nodeid == NODE_DISK) {
		if (take_failure(&disk.fail_flush, 'f')) {
			answer(in, EIO, NULL, 0);
			return;
		}
		id = put_request(REC_FLUSH, 0, NULL, 0);
		take_time();
		if (id)
			put_answer(REC_FLUSHED, id);
	}
	answer(in, 0, NULL, 0);
}

static void do_nothing(const struct fuse_in_header *in, const void *arg, void *room)
{
	answer(in, 0, NULL, 0);
}

static void do_forget(const struct fuse_in_header *in, const void *arg, void *room)
{
	/* has no answer */
}

static void do_destroy(const struct fuse_in_header *in, const void *arg, void *room)
{
	answer(in, 0, NULL, 0);
	exit(0);
}

typedef void (*request_fn)(const struct fuse_in_header *in, const void *arg, void *room);

/* What is missing here is refused; without FALLOCATE the block layer writes zeros. */
static const request_fn requests[] = {
	[FUSE_INIT] = do_init,	     [FUSE_DESTROY] = do_destroy,     [FUSE_LOOKUP] = do_lookup,
	[FUSE_FORGET] = do_forget,   [FUSE_BATCH_FORGET] = do_forget, [FUSE_INTERRUPT] = do_forget,
	[FUSE_GETATTR] = do_attr,    [FUSE_SETATTR] = do_attr,	      [FUSE_ACCESS] = do_nothing,
	[FUSE_STATFS] = do_statfs,   [FUSE_OPEN] = do_open,	      [FUSE_RELEASE] = do_nothing,
	[FUSE_OPENDIR] = do_nothing, [FUSE_RELEASEDIR] = do_nothing,  [FUSE_READDIR] = do_nothing,
	[FUSE_FLUSH] = do_nothing,   [FUSE_READ] = do_read,	      [FUSE_WRITE] = do_write,
	[FUSE_FSYNC] = do_flush,
};

static void *serve(void *unused)
{
	char *request = aligned_alloc(4096, ROOM), *room = aligned_alloc(4096, WRITE_MAX);

	if (!request || !room)
		die("memory");
	for (;;) {
		const struct fuse_in_header *in = (const void *)request;
		ssize_t n = read(disk.fuse, request, ROOM);
		request_fn fn;

		if (n < 0 && errno == ENODEV)
			exit(0); /* unmounted */
		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n < (ssize_t)sizeof(*in))
			die("reading a request");
		fn = in->opcode < sizeof(requests) / sizeof(requests[0]) ? requests[in->opcode] :
									   NULL;
		if (fn)
			fn(in, in + 1, room);
		else
			answer(in, ENOSYS, NULL, 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	char options[96];
	struct stat st;
	pthread_t t;

	if (argc != 4) {
		fprintf(stderr, "usage: logdisk DIR IMAGE LOG\n");
		return 2;
	}
	disk.image = open(argv[2], O_RDWR | O_CLOEXEC);
	if (disk.image < 0 || fstat(disk.image, &st) < 0)
		die(argv[2]);
	disk.size = (uint64_t)st.st_size;
	disk.log = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (disk.log < 0)
		die(argv[3]);
	disk.fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (disk.fuse < 0)
		die("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", disk.fuse);
	if (mount("logdisk", argv[1], "fuse.logdisk", MS_NOSUID | MS_NODEV, options) < 0)
		die("mount");
	/* memory that we need must not wait for writes to the disk that we are */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	for (int i = 1; i < THREADS; i++)
		if (pthread_create(&t, NULL, serve, NULL))
			die("thread");
	serve(NULL);
}
