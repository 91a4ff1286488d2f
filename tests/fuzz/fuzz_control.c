/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_control.c - JSON lines on the retriever's control socket.
 *
 * A whole retriever but its main(): volume, journal, finisher, workers, and a
 * source that nobody answers for.  The input is what one client sends; each line
 * that is not too long must get its one answer, whatever it says.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <json-c/json.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control.h"
#include "fuzz.h"
#include "source/trace.h"

#define LINE_MAX_BYTES (32 * 1024) /* as commands.c takes them, with the newline */
#define ANSWERS_MAX    (1u << 20)
#define WAIT_MS	       20000
#define REFUSED_MAX    1000 /* times: clients that have gone may still be counted */

static struct config config;
static struct control_config c;
static struct control *control;
static char dir[200], control_path[STUB_PATH_MAX + 1], answers[ANSWERS_MAX];

/* ---- the retriever ---- */

static void stop(void *arg, bool gone)
{
	(void)arg, (void)gone; /* a main() that takes its time */
}

static void debug(void *arg, bool on)
{
	(void)arg;
	trace_set(on);
}

static void make_volume(void)
{
	const char *tmp = getenv("TMPDIR");
	struct stub_volume_info info = {
		.uuid = "00000000-0000-0000-0000-000000000001",
		.source = "nfs://127.0.0.1/x?nfsport=1&mountport=1",
		.source_id = 1,
	};
	struct stub_origin root = { 4, "root" };
	struct stub_attr attr = { .mode = S_IFDIR | 0755, .nlink = 2, .fsid = 1, .fileid = 2 };
	char path[300];

	snprintf(dir, sizeof(dir), "%s/postcopy-fuzz-XXXXXX", tmp ? tmp : "/var/tmp");
	CHECK(mkdtemp(dir) && strlen(dir) + 5 <= STUB_PATH_MAX);
	snprintf(info.socket, sizeof(info.socket), "%.90s.ask", dir);
	snprintf(info.control, sizeof(info.control), "%.90s.ctl", dir);
	strcpy(control_path, info.control);
	CHECK(stub_volume_create(dir, &info, &root, &attr, false, NULL, NULL, NULL) == 0);
	CHECK(stub_volume_open(dir, 0, NULL, NULL, &c.volume) == 0);
	snprintf(path, sizeof(path), "%s/" STUB_DIR "/journal", dir);
	CHECK(stub_journal_open(path, 0, NULL, NULL, &c.journal) == 0);
	CHECK(stub_finisher_create(c.volume, c.journal, NULL, NULL, &c.finisher) == 0);
}

static void make_retriever(void)
{
	struct source_config sc = {
		.uri = stub_volume_info(c.volume)->source,
		.connections = 1,
	};
	struct jobs_config jc = {
		.volume = c.volume,
		.journal = c.journal,
		.finisher = c.finisher,
		.demand_workers = 1,
		.fill_workers = 1,
		.block_bytes = 1 << 20,
		.buffer_bytes = 4 << 20,
		.max_tries = 5,
	};

	CHECK(source_create(&sc, &c.source) == 0);
	jc.source = c.source;
	CHECK(jobs_create(&jc, &c.jobs) == 0);
	config_defaults(&config);
	c.config = &config;
	c.stop = stop;
	c.debug = debug;
	CHECK(control_create(&c, &control) == 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void clean_up(void)
{
	control_destroy(control);
	source_stop(c.source);
	jobs_stop(c.jobs);
	jobs_destroy(c.jobs);
	stub_finisher_destroy(c.finisher);
	source_destroy(c.source);
	stub_journal_close(c.journal);
	stub_volume_close(c.volume);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	sigset_t all, before;

	(void)argc;
	(void)argv;
	sigfillset(&all); /* libFuzzer's timer is for its own thread */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	make_volume();
	make_retriever();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	atexit(clean_up);
	return 0;
}

/* ---- a client ---- */

/* Lines that are answered: all before the first one that is too long. */
static unsigned int count_lines(const uint8_t *p, size_t n)
{
	unsigned int lines = 0;
	const uint8_t *end;

	while (n && (end = memchr(p, '\n', n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES))) {
		n -= (size_t)(end - p) + 1;
		p = end + 1;
		lines++;
	}
	return lines;
}

/* Send all and take all that comes, at the same time.  Bytes of answers. */
static size_t talk(const uint8_t *p, size_t n)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t got = 0;
	ssize_t r = 1;

	strcpy(a.sun_path, control_path);
	CHECK(fd >= 0);
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		CHECK(errno == EINTR);
	while (r > 0) {
		struct pollfd w = { .fd = fd, .events = (short)(POLLIN | (n ? POLLOUT : 0)) };
		int ready = poll(&w, 1, WAIT_MS);

		CHECK(ready > 0 || (ready < 0 && errno == EINTR));
		if (ready > 0 && (w.revents & POLLOUT)) {
			r = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
			n = r > 0 ? n - (size_t)r : errno == EAGAIN || errno == EINTR ? n : 0;
			p += r > 0 ? r : 0;
			if (!n)
				shutdown(fd, SHUT_WR);
			r = 1;
		} else if (ready > 0) {
			CHECK(got < sizeof(answers));
			r = recv(fd, answers + got, sizeof(answers) - got, MSG_DONTWAIT);
			got += r > 0 ? (size_t)r : 0;
			if (r < 0 && (errno == EAGAIN || errno == EINTR))
				r = 1;
		}
	}
	close(fd);
	return got;
}

static void check_answer(const char *line, size_t n)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *o = json_tokener_parse_ex(t, line, (int)n), *ok, *error;

	CHECK(o && json_tokener_get_error(t) == json_tokener_success);
	CHECK(json_object_is_type(o, json_type_object));
	CHECK(json_object_object_get_ex(o, "ok", &ok) && json_object_is_type(ok, json_type_boolean));
	if (!json_object_get_boolean(ok)) {
		CHECK(json_object_object_get_ex(o, "error", &error));
		CHECK(json_object_is_type(error, json_type_string));
	}
	json_object_put(o);
	json_tokener_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int want, lines = 0, refused = 0;
	uint8_t *text = malloc(size + 1);
	const char *p = answers, *end;
	size_t got;

	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\n';
	want = count_lines(text, size + 1);
	while (!(got = talk(text, size + 1)) && want && refused++ < REFUSED_MAX)
		poll(NULL, 0, 1);
	while ((end = memchr(p, '\n', got))) {
		check_answer(p, (size_t)(end - p));
		got -= (size_t)(end - p) + 1;
		p = end + 1;
		lines++;
	}
	CHECK(lines == want && got == 0);
	free(text);
	return 0;
}
