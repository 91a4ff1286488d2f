// SPDX-License-Identifier: GPL-3.0-or-later
#include "commands.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "answer.h"

#define LINE_MAX_BYTES (32 * 1024) /* a path, each byte of it escaped */
#define CLIENT_TIMEOUT_MS 5000
#define CLIENTS_MAX 16

struct commands {
	commands_fn fn;
	void *arg;
	struct sockaddr_un at;
	int listen_fd, wake_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t gone;
	unsigned int clients;
};

struct client {
	struct commands *c;
	int fd;
};

static struct json_object *run_line(struct commands *c, const char *line)
{
	struct json_object *in = json_tokener_parse(line), *cmd, *out = NULL;
	const char *name = NULL;

	if (in && json_object_is_type(in, json_type_object) &&
	    json_object_object_get_ex(in, "cmd", &cmd))
		name = json_object_get_string(cmd);
	if (name)
		out = c->fn(c->arg, name, in);
	if (!out)
		out = answer_error(name ? "unknown command" : "not a JSON object with \"cmd\"");
	json_object_put(in);
	return out;
}

static int send_answer(int fd, struct json_object *o)
{
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	size_t len = strlen(text), at = 0;
	int r = 0;

	while (at < len) {
		ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			r = -EPIPE;
			break;
		}
		at += (size_t)n;
	}
	if (r == 0 && send(fd, "\n", 1, MSG_NOSIGNAL) != 1)
		r = -EPIPE;
	json_object_put(o);
	return r;
}

/* One line, without its newline: 1; 0 at the end; -errno. */
static int read_line(struct client *cl, char *line, size_t *have)
{
	for (;;) {
		struct pollfd p[2] = { { cl->fd, POLLIN, 0 }, { cl->c->wake_fd, POLLIN, 0 } };
		ssize_t n;

		if (memchr(line, '\n', *have))
			return 1;
		if (*have == LINE_MAX_BYTES)
			return -EMSGSIZE;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[1].revents)
			return 0;
		n = recv(cl->fd, line + *have, LINE_MAX_BYTES - *have, MSG_DONTWAIT);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0)
			*have += (size_t)n;
	}
}

static void *client_thread(void *arg)
{
	struct client *cl = arg;
	struct commands *c = cl->c;
	char line[LINE_MAX_BYTES + 1];
	size_t have = 0;

	while (read_line(cl, line, &have) == 1) {
		char *end = memchr(line, '\n', have);
		size_t used = (size_t)(end - line) + 1;

		*end = '\0';
		if (send_answer(cl->fd, run_line(c, line)) < 0)
			break;
		memmove(line, line + used, have - used);
		have -= used;
	}
	close(cl->fd);
	free(cl);
	pthread_mutex_lock(&c->lock);
	c->clients--;
	pthread_cond_signal(&c->gone);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void accept_client(struct commands *c)
{
	struct timeval limit = { CLIENT_TIMEOUT_MS / 1000, 0 };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct client *cl;
	pthread_t t;
	int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	cl = malloc(sizeof(*cl));
	pthread_mutex_lock(&c->lock);
	if (!cl || c->clients >= CLIENTS_MAX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != 0) {
		pthread_mutex_unlock(&c->lock);
		free(cl);
		close(fd);
		return;
	}
	*cl = (struct client){ c, fd };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (pthread_create(&t, NULL, client_thread, cl) == 0) {
		pthread_detach(t);
		c->clients++;
	} else {
		free(cl);
		close(fd);
	}
	pthread_mutex_unlock(&c->lock);
}

static void *commands_thread(void *arg)
{
	struct commands *c = arg;

	for (;;) {
		struct pollfd p[2] = { { c->listen_fd, POLLIN, 0 }, { c->wake_fd, POLLIN, 0 } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			break;
		if (p[0].revents)
			accept_client(c);
	}
	return NULL;
}

static int listen_on(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;
	mode_t mask;

	if (fd < 0)
		return -errno;
	unlink(at->sun_path);
	mask = umask(0177);
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0)
		r = -errno;
	umask(mask);
	if (r == 0 && listen(fd, 8) < 0)
		r = -errno;
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

int commands_create(const char *path, commands_fn fn, void *arg, struct commands **out)
{
	struct commands *c;
	int r;

	if (strlen(path) >= sizeof(c->at.sun_path))
		return -ENAMETOOLONG;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->fn = fn;
	c->arg = arg;
	c->at.sun_family = AF_UNIX;
	strcpy(c->at.sun_path, path);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->gone, NULL);
	c->wake_fd = eventfd(0, EFD_CLOEXEC);
	c->listen_fd = listen_on(&c->at);
	r = c->wake_fd < 0 ? -errno : c->listen_fd < 0 ? c->listen_fd : 0;
	if (r == 0)
		r = -pthread_create(&c->thread, NULL, commands_thread, c);
	if (r < 0) {
		if (c->listen_fd >= 0)
			close(c->listen_fd);
		if (c->wake_fd >= 0)
			close(c->wake_fd);
		free(c);
		return r;
	}
	*out = c;
	return 0;
}

void commands_destroy(struct commands *c)
{
	uint64_t one = 1;

	if (!c)
		return;
	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd at 0 takes a 1 */
	pthread_join(c->thread, NULL);
	pthread_mutex_lock(&c->lock);
	while (c->clients)
		pthread_cond_wait(&c->gone, &c->lock);
	pthread_mutex_unlock(&c->lock);
	unlink(c->at.sun_path);
	close(c->listen_fd);
	close(c->wake_fd);
	pthread_cond_destroy(&c->gone);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
