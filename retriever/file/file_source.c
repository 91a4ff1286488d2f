// SPDX-License-Identifier: GPL-3.0-or-later
/* file_source.c - the file backend's table: life, state, and the calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "file/file.h"

static unsigned int within(unsigned int value, unsigned int low, unsigned int high)
{
	return value < low ? low : value > high ? high : value;
}

/* ---- life ---- */

static struct file_source *allocate(const struct source_config *c)
{
	struct file_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base.ops = &file_source_ops;
	s->config = *c;
	s->config.uri = s->config.join = NULL; /* the caller's */
	s->config.read_bytes =
		within(c->read_bytes ? c->read_bytes : FILE_READ_MAX, 4096, FILE_READ_MAX);
	s->config.call_timeout_ms = c->call_timeout_ms ? within(c->call_timeout_ms, 100, 600000) :
							 15000;
	s->refs = 1;
	source_pool_init(&s->pool, c->give_up_ms);
	s->pool.limiter = c->limiter;
	s->pool.lane = c->lane;
	stub_cond_init(&s->work);
	stub_cond_init(&s->tick);
	stub_cond_init(&s->look);
	stub_cond_init(&s->looked);
	TAILQ_INIT(&s->queue[0]);
	TAILQ_INIT(&s->queue[1]);
	TAILQ_INIT(&s->running);
	return s;
}

static int start_thread(struct file_source *s, void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_mutex_lock(&s->pool.lock);
	s->refs++;
	s->threads++;
	pthread_mutex_unlock(&s->pool.lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, run, s);
	pthread_attr_destroy(&attr);
	if (r == 0)
		return 0;
	pthread_mutex_lock(&s->pool.lock);
	s->threads--;
	pthread_mutex_unlock(&s->pool.lock);
	file_source_put(s);
	return -r;
}

static void stop(struct source *base)
{
	struct file_source *s = file_of(base);
	struct file_calls ended = TAILQ_HEAD_INITIALIZER(ended);

	pthread_mutex_lock(&s->pool.lock);
	s->pool.stop = true;
	file_take_all(s, &ended);
	pthread_cond_broadcast(&s->work);
	pthread_cond_broadcast(&s->tick);
	pthread_cond_broadcast(&s->look);
	pthread_cond_broadcast(&s->looked);
	pthread_cond_broadcast(&s->pool.ready);
	pthread_mutex_unlock(&s->pool.lock);
	file_tell_all(s, &ended, -ECANCELED);
}

/* Threads that are in the kernel may stay there: they keep what they need. */
static void destroy(struct source *base)
{
	struct file_source *s = file_of(base);
	uint64_t end = stub_now_ms() + FILE_STOP_MS;

	stop(base);
	pthread_mutex_lock(&s->pool.lock);
	while (s->threads && stub_now_ms() < end)
		stub_cond_wait_until(&s->looked, &s->pool.lock, end);
	pthread_mutex_unlock(&s->pool.lock);
	file_source_put(s);
}

/* Threads, that is. */
static int connections(struct source *base, unsigned int n)
{
	unsigned int wanted = within(n * 4, FILE_THREADS_MIN, FILE_THREADS_MAX), more;
	struct file_source *s = file_of(base);
	int r = 0;

	pthread_mutex_lock(&s->pool.lock);
	more = s->n < wanted ? wanted - s->n : 0;
	pthread_mutex_unlock(&s->pool.lock);
	for (unsigned int i = 0; i < more && r == 0; i++)
		r = start_thread(s, file_thread);
	pthread_mutex_lock(&s->pool.lock);
	if (r == 0) {
		s->n += more;
		s->wanted = wanted;
	}
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

static void hurry(struct source *base, uint64_t trace)
{
	file_hurry(file_of(base), trace);
}

static int create(const struct source_config *c, struct source **out)
{
	struct file_source *s = allocate(c);
	char why[FILE_WHY_MAX];
	int r;

	if (!s)
		return -ENOMEM;
	r = file_uri_parse(c->uri, &s->uri, why, sizeof(why));
	if (r < 0) {
		file_log(s, STUB_LOG_ERROR, "source URI %s", why);
		file_source_put(s);
		return r;
	}
	r = start_thread(s, file_clock_thread);
	if (r == 0)
		r = start_thread(s, file_look_thread);
	if (r == 0)
		r = connections(&s->base, c->connections);
	if (r < 0) {
		destroy(&s->base);
		return r;
	}
	*out = &s->base;
	return 0;
}

static void state(struct source *base, struct source_state *out)
{
	struct file_source *s = file_of(base);
	struct file_call *c;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&s->pool.lock);
	source_pool_state(&s->pool, out);
	out->wanted = s->wanted / 4;
	TAILQ_FOREACH(c, &s->running, link)
	out->inflight++;
	pthread_mutex_unlock(&s->pool.lock);
}

static int wait_known(struct file_source *s)
{
	int r;

	pthread_mutex_lock(&s->pool.lock);
	r = source_pool_wait_known(&s->pool, &s->tick);
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

static int limits(struct source *base, struct source_limits *out)
{
	struct file_source *s = file_of(base);

	*out = (struct source_limits){ .read_bytes = s->config.read_bytes,
					.readdir_bytes = FILE_DENTS_BYTES,
					.max_file_size = INT64_MAX };
	return wait_known(s);
}

static int root(struct source *base, struct stub_origin *out, struct stub_attr *attr)
{
	struct file_source *s = file_of(base);
	int r = wait_known(s);

	if (r)
		return r;
	pthread_mutex_lock(&s->pool.lock);
	*out = s->root;
	*attr = s->root_attr;
	pthread_mutex_unlock(&s->pool.lock);
	return 0;
}

/* ---- blocking calls ---- */

typedef int (*work_fn)(struct file_call *c, const struct file_mount *m, void *buf);

static struct file_call *begin(struct source *s, enum called kind, const char *what,
			       enum source_priority p, const struct stub_origin *o, work_fn work)
{
	struct file_call *c = file_call_new(file_of(s), kind, what, p, o);

	if (c)
		c->work = work;
	return c;
}

static int lookup(struct source *s, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len, struct stub_origin *out,
		  struct stub_attr *attr)
{
	struct file_call *c;
	bool mine;
	int r;

	if (len > STUB_NAME_MAX)
		return -ENAMETOOLONG;
	c = begin(s, CALLED_LOOKUP, "LOOKUP", p, dir, file_work_lookup);
	if (!c)
		return -ENOMEM;
	memcpy(c->name, name, len);
	c->has_as = as;
	if (as)
		c->as = *as;
	pthread_mutex_lock(&c->s->pool.lock);
	c->s->pool.n.lookups++;
	pthread_mutex_unlock(&c->s->pool.lock);
	r = file_run(c, &mine);
	if (r == 0 && mine) {
		*out = c->found;
		*attr = c->attr;
	}
	file_call_put(c);
	return r;
}

static int getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	struct file_call *c = begin(s, CALLED_ATTRIBUTES, "GETATTR", p, o, file_work_getattr);
	bool mine;
	int r;

	if (!c)
		return -ENOMEM;
	r = file_run(c, &mine);
	if (r == 0 && mine)
		*attr = c->attr;
	file_call_put(c);
	return r;
}

static int meta(struct source *s, enum source_priority p, const struct stub_origin *o,
		const struct stub_attr *as, struct source_meta *out)
{
	struct file_call *c = begin(s, CALLED_ATTRIBUTES, "META", p, o, file_work_meta);
	bool mine;
	int r;

	(void)as;
	if (!c)
		return -ENOMEM;
	r = file_run(c, &mine);
	if (mine) {
		*out = c->meta;
		memset(&c->meta, 0, sizeof(c->meta));
	}
	file_call_put(c);
	return r;
}

static int read_link(struct source *s, enum source_priority p, const struct stub_origin *o,
		     const struct source_id *as, char *buf, size_t size, size_t *len)
{
	struct file_call *c = begin(s, CALLED_OTHER, "READLINK", p, o, file_work_readlink);
	bool mine;
	int r;

	(void)as; /* a handle of ours leads to one inode, or to none */
	if (!c)
		return -ENOMEM;
	r = file_run(c, &mine);
	if (r == 0 && c->target_len > size)
		r = -ENAMETOOLONG;
	if (r == 0 && mine) {
		memcpy(buf, c->target, c->target_len);
		*len = c->target_len;
	}
	file_call_put(c);
	return r;
}

static int open_file(struct source *s, enum source_priority p, const struct stub_origin *o, int *fd)
{
	struct file_call *c = begin(s, CALLED_OTHER, "OPEN", p, o, file_work_open);
	bool mine;
	int r;

	if (!c)
		return -ENOMEM;
	r = file_run(c, &mine);
	if (r == 0 && mine) {
		*fd = c->fd;
		c->fd = -1;
	}
	file_call_put(c);
	return r;
}

static int holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		 uint64_t offset, struct source_holes *out)
{
	struct file_call *c = begin(s, CALLED_OTHER, "HOLES", p, o, file_work_holes);
	bool mine;
	int r;

	if (!c)
		return -ENOMEM;
	c->offset = offset;
	r = file_run(c, &mine);
	if (r == 0 && mine) {
		*out = c->holes;
		c->holes.hole = NULL;
	}
	file_call_put(c);
	return r;
}

/* ---- reading ---- */

static void on_read(struct file_call *c, int err)
{
	struct source_read out = { .result = err };

	if (!err) {
		out = (struct source_read){ c->got, c->data, true, c->attr };
		pthread_mutex_lock(&c->s->pool.lock);
		c->s->pool.n.read_bytes += (uint64_t)c->got;
		pthread_mutex_unlock(&c->s->pool.lock);
	}
	c->fn(c->arg, &out);
}

static int start_read(struct source *base, enum source_priority p, const struct stub_origin *o,
		      uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	struct file_source *s = file_of(base);
	struct file_call *c;
	int r;

	if (!length || length > s->config.read_bytes || offset > INT64_MAX - (uint64_t)length)
		return -EINVAL;
	c = begin(base, CALLED_READ, "READ", p, o, file_work_read);
	if (!c)
		return -ENOMEM;
	c->offset = offset;
	c->length = length;
	c->fn = fn;
	c->arg = arg;
	c->done = on_read;
	pthread_mutex_lock(&s->pool.lock);
	s->pool.n.reads++;
	pthread_mutex_unlock(&s->pool.lock);
	r = file_submit(c);
	if (r == -ETIMEDOUT) { /* given up: told as an answer */
		on_read(c, r);
		r = 0;
	}
	file_call_put(c);
	return r;
}

const struct source_ops file_source_ops = {
	.create = create,
	.stop = stop,
	.destroy = destroy,
	.probe = file_source_probe,
	.traits = file_source_traits,
	.state = state,
	.connections = connections,
	.hurry = hurry,
	.root = root,
	.lookup = lookup,
	.verify = file_source_verify,
	.getattr = getattr,
	.meta = meta,
	.meta_told = true,
	.by_handle = true,
	.readlink = read_link,
	.list = file_source_list,
	.read = start_read,
	.open = open_file,
	.holes = holes,
	.limits = limits,
};
