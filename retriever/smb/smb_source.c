// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_source.c - the SMB backend's table: life, state, and the calls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "smb/smb.h"
#include "smb/smb_mangled.h"
#include "source/target.h"

#define PARTS_MAX 4 /* of a listing that wait for its caller */

static unsigned int within(unsigned int value, unsigned int low, unsigned int high)
{
	return value < low ? low : value > high ? high : value;
}

static struct smb_source *smb_of(struct source *s)
{
	return (struct smb_source *)s; /* base is its first member */
}

/* ---- life ---- */

static void release(struct smb_source *s)
{
	tickets_destroy(s->ticket); /* first: it calls back */
	pthread_cond_destroy(&s->work);
	source_pool_finish(&s->pool);
	explicit_bzero(&s->login, sizeof(s->login));
	free(s->pace.path);
	free(s->worker);
	free(s->idmap);
	if (s->wake >= 0)
		close(s->wake);
	free(s);
}

static struct smb_source *allocate(const struct source_config *c)
{
	struct smb_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base.ops = &smb_source_ops;
	s->config = *c;
	s->config.uri = NULL; /* the caller's, as the texts below */
	s->config.connections = within(c->connections, 1, SMB_CONNECTIONS_MAX);
	s->config.inflight = within(c->inflight, 1, SMB_WIRE_MANY);
	s->config.call_timeout_ms =
		c->call_timeout_ms ? within(c->call_timeout_ms, 100, 600000) : 15000;
	s->config.smb.read_bytes = within(c->smb.read_bytes ? c->smb.read_bytes : 4u << 20, 64 << 10,
					  SMB_WIRE_READ);
	s->config.smb.credentials = s->config.smb.kerberos_cache = NULL;
	s->config.smb.kerberos_keytab = s->config.smb.kerberos_principal = NULL;
	s->worker = strdup(c->smb.worker ? c->smb.worker : SMB_WORKER);
	s->idmap = strdup(c->smb.idmap ? c->smb.idmap : "");
	s->config.smb.idmap = NULL;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	source_pool_init(&s->pool, c->give_up_ms);
	s->pool.limiter = c->limiter;
	s->pool.lane = c->lane;
	stub_cond_init(&s->work);
	TAILQ_INIT(&s->queue[0]);
	TAILQ_INIT(&s->queue[1]);
	if (s->worker && s->idmap && s->wake >= 0)
		return s;
	release(s);
	return NULL;
}

/* Those parts of the configuration that may be wrong: 0, or -errno and why. */
static int prepare(struct smb_source *s, const struct source_config *c, char *why, size_t size)
{
	char text[SMB_WHY_MAX - 32];
	int r = smb_uri_parse(c->uri, &s->uri, text, sizeof(text));

	if (r < 0) {
		snprintf(why, size, "source URI %s", text);
		return -EINVAL;
	}
	return smb_login_prepare(s, &c->smb, why, size);
}

static void stop(struct source *base)
{
	struct smb_source *s = smb_of(base);
	uint64_t one = 1;

	tickets_stop(s->ticket);
	pthread_mutex_lock(&s->pool.lock);
	s->pool.stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_cond_broadcast(&s->pool.ready);
	pthread_mutex_unlock(&s->pool.lock);
	if (write(s->wake, &one, sizeof(one)) < 0)
		return; /* the eventfd is readable already */
}

static void destroy(struct source *base)
{
	struct smb_source *s = smb_of(base);

	stop(base);
	for (unsigned int i = 0; i < s->n; i++)
		smb_conn_join(&s->conn[i]);
	release(s);
}

static int connections(struct source *base, unsigned int n)
{
	struct smb_source *s = smb_of(base);
	int r = 0;

	pthread_mutex_lock(&s->pool.lock);
	for (; s->n < n && !s->pool.stop && r == 0; s->n += r == 0)
		r = smb_conn_start(s, s->n);
	if (r == 0)
		s->wanted = n;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
	return r;
}

static void hurry(struct source *base, uint64_t trace)
{
	smb_hurry(smb_of(base), trace);
}

static int create(const struct source_config *c, struct source **out)
{
	struct smb_source *s = allocate(c);
	char why[SMB_WHY_MAX], shown[SOURCE_SHOWN_MAX];
	int r;

	if (!s)
		return -ENOMEM;
	r = prepare(s, c, why, sizeof(why));
	if (r < 0) {
		source_uri_shown(c->uri, shown, sizeof(shown));
		smb_log(s, STUB_LOG_ERROR, "%s: %s", shown, why);
		release(s);
		return r;
	}
	r = connections(&s->base, s->config.connections);
	if (r < 0) {
		destroy(&s->base);
		return r;
	}
	*out = &s->base;
	return 0;
}

static void state(struct source *base, struct source_state *out)
{
	struct smb_source *s = smb_of(base);

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&s->pool.lock);
	source_pool_state(&s->pool, out);
	out->mangled = s->mangled;
	out->wanted = s->wanted;
	for (unsigned int i = 0; i < s->n; i++)
		out->inflight += s->conn[i].working;
	smb_pace_state(s, out);
	pthread_mutex_unlock(&s->pool.lock);
}

static void reload(struct source *base)
{
	smb_pace_hurry(smb_of(base));
}

static int limits(struct source *base, struct source_limits *out)
{
	struct smb_source *s = smb_of(base);
	int r = smb_wait_known(s, NULL);

	*out = (struct source_limits){ .read_bytes = s->config.smb.read_bytes,
					.max_file_size = INT64_MAX };
	return r;
}

/* ---- blocking calls ---- */

struct blocking {
	struct smb_call call;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool over;
	int err;
	struct stub_attr attr;
	struct source_meta *meta;
	void *buf; /* STREAM: of request.length bytes */
	int64_t got;
	struct source_holes *holes;
	struct target_put *put;
	/* LIST */
	struct part *first, **last;
	unsigned int parts;
	bool enough; /* the caller wants no more */
};

struct part { /* of a listing: a message of the worker's, copied */
	struct part *next;
	uint32_t count;
	size_t len;
	uint8_t bytes[];
};

static struct smb_text path_of(const struct stub_origin *o)
{
	return (struct smb_text){ (const char *)o->bytes, o->len };
}

static void take_bytes(struct blocking *b, const struct smb_answer *a)
{
	if (a->rest_len > b->call.request.length) {
		b->err = -EBADMSG;
		return;
	}
	memcpy(b->buf, a->rest, a->rest_len);
	b->got = (int64_t)a->rest_len;
}

static void on_done(struct smb_call *call, int err, struct smb_answer *a)
{
	struct blocking *b = (struct blocking *)call;

	pthread_mutex_lock(&b->lock);
	if (!b->err)
		b->err = err;
	if (!err && a)
		b->attr = a->attr;
	if (!err && b->meta)
		b->err = smb_take_meta(b->meta, a);
	if (!err && b->buf)
		take_bytes(b, a);
	if (!err && b->holes)
		b->err = smb_take_holes(b->holes, a);
	if (!err && b->put)
		*b->put = (struct target_put){ a->differs, a->holds };
	b->over = true;
	pthread_cond_signal(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

static int begin(struct smb_source *s, struct blocking *b, enum smb_wire_type type,
		 enum source_priority p, const struct stub_origin *o)
{
	b->call.prio = p;
	b->call.done = on_done;
	b->call.request.type = type;
	b->call.request.path = path_of(o);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	return smb_submit(s, &b->call);
}

static void finish(struct blocking *b)
{
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
}

static int call(struct source *s, struct blocking *b, enum smb_wire_type type,
		enum source_priority p, const struct stub_origin *o)
{
	int r = begin(smb_of(s), b, type, p, o);

	if (r == 0) {
		pthread_mutex_lock(&b->lock);
		while (!b->over)
			pthread_cond_wait(&b->changed, &b->lock);
		pthread_mutex_unlock(&b->lock);
		r = b->err;
	}
	finish(b);
	return r;
}

static int root(struct source *base, struct stub_origin *out, struct stub_attr *attr)
{
	struct smb_source *s = smb_of(base);

	out->len = (uint16_t)strlen(s->uri.root);
	memcpy(out->bytes, s->uri.root, out->len);
	return smb_wait_known(s, attr);
}

/* "dir/name": its length, or -EOVERFLOW. */
static int join(const struct smb_text *dir, const char *name, size_t len, uint8_t *out)
{
	size_t n = dir->len;

	if (n + (n > 0) + len > STUB_ORIGIN_MAX)
		return -EOVERFLOW;
	memcpy(out, dir->p, n);
	if (n)
		out[n++] = '/';
	memcpy(out + n, name, len);
	return (int)(n + len);
}

static int lookup(struct source *s, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len,
		  struct stub_origin *out, struct stub_attr *attr)
{
	struct blocking b = { .call.request.name = { name, len } };
	const struct smb_text path = path_of(dir);
	int r, n;

	if (len > STUB_NAME_MAX)
		return -ENAMETOOLONG;
	r = call(s, &b, SMB_WIRE_LOOKUP, p, dir);
	if (r < 0)
		return r;
	n = join(&path, name, len, out->bytes);
	if (n < 0)
		return n;
	out->len = (uint16_t)n;
	*attr = b.attr;
	return 0;
}

static int getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr)
{
	struct blocking b = { 0 };
	int r = call(s, &b, SMB_WIRE_GETATTR, p, o);

	if (r == 0)
		*attr = b.attr;
	return r;
}

static int meta_and(struct source *s, enum source_priority p, const struct stub_origin *o,
		    const struct stub_attr *as, uint32_t want, struct source_meta *out)
{
	struct blocking b = { .meta = out, .call.request.want = want };
	int r;

	if (as) {
		b.call.request.has_numbers = true;
		b.call.request.uid = as->uid;
		b.call.request.gid = as->gid;
		b.call.request.bits = as->mode & 07777;
	}
	r = call(s, &b, SMB_WIRE_GETMETA, p, o);

	out->attr = b.attr;
	return r;
}

static int meta(struct source *s, enum source_priority p, const struct stub_origin *o,
		const struct stub_attr *as, struct source_meta *out)
{
	return meta_and(s, p, o, as, 0, out);
}

static void count_bytes(struct smb_source *s, size_t n)
{
	pthread_mutex_lock(&s->pool.lock);
	s->pool.n.read_bytes += n;
	pthread_mutex_unlock(&s->pool.lock);
}

static int meta_data(struct source *s, enum source_priority p, const struct stub_origin *o,
		     uint32_t want, struct source_meta *out)
{
	int r = meta_and(s, p, o, NULL, want <= SMB_WIRE_SMALL ? want : 0, out);

	count_bytes(smb_of(s), out->data_len);
	return r;
}

static int64_t stream(struct source *s, enum source_priority p, const struct stub_origin *o,
		      const char *name, uint64_t offset, void *buf, uint32_t length,
		      uint64_t *size)
{
	struct blocking b = { .buf = buf };
	int r;

	b.call.request.name = (struct smb_text){ name, strlen(name) };
	b.call.request.offset = offset;
	b.call.request.length = length;
	r = call(s, &b, SMB_WIRE_STREAM, p, o);
	*size = b.attr.size;
	return r < 0 ? r : b.got;
}

static int holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		 uint64_t offset, struct source_holes *out)
{
	struct blocking b = { .holes = out };

	b.call.request.offset = offset;
	return call(s, &b, SMB_WIRE_GETHOLES, p, o);
}

/* ---- the one call that changes something ---- */

static int put(struct source *s, const struct stub_origin *o, const struct target_windows *w, bool look,
	       struct target_put *out)
{
	struct blocking b = { .put = out };
	struct smb_request *r = &b.call.request;

	if (w->n > SMB_WIRE_XATTRS)
		return -EIO;
	r->fileid = w->fileid;
	r->look = look;
	r->uid = w->uid;
	r->gid = w->gid;
	r->bits = w->mode;
	r->x = w->x;
	r->n_x = w->n;
	return call(s, &b, SMB_WIRE_PUTMETA, SOURCE_BACKGROUND, o);
}

/* ---- listing ---- */

/* On the connection's thread; waits while the caller is behind. */
static void on_part(struct smb_call *c, struct smb_answer *a)
{
	struct blocking *b = (struct blocking *)c;
	struct part *p = malloc(sizeof(*p) + a->rest_len);

	if (p) {
		*p = (struct part){ .count = a->count, .len = a->rest_len };
		memcpy(p->bytes, a->rest, a->rest_len);
	}
	pthread_mutex_lock(&b->lock);
	while (b->parts >= PARTS_MAX && !b->enough)
		pthread_cond_wait(&b->changed, &b->lock);
	if (!p && !b->err)
		b->err = -ENOMEM;
	if (b->enough || !p) {
		free(p);
	} else {
		*b->last = p;
		b->last = &p->next;
		b->parts++;
	}
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

/* Count names that Samba may have made up, and log the first one. */
static void note_mangled(struct smb_source *s, const struct stub_entry *e, size_t n)
{
	const struct stub_entry *one = NULL;
	uint64_t found = 0, before;

	for (size_t i = 0; i < n; i++) {
		if (smb_name_mangled(e[i].name, e[i].name_len)) {
			one = one ? one : &e[i];
			found++;
		}
	}
	if (!found)
		return;
	pthread_mutex_lock(&s->pool.lock);
	before = s->mangled;
	s->mangled += found;
	pthread_mutex_unlock(&s->pool.lock);
	if (!before)
		smb_log(s, STUB_LOG_WARN,
			"source %s: \"%.*s\" may be a name that Samba made up for one that "
			"Windows does not take: " SMB_MANGLED_ADVICE,
			s->uri.host, (int)one->name_len, one->name);
}

/* The entries of one part, with their origins, to the caller. */
static int hand_on(struct smb_source *s, const struct stub_origin *dir, const struct part *p,
		   source_entries_fn fn, void *arg)
{
	struct smb_answer a = { .count = p->count, .rest = p->bytes, .rest_len = p->len };
	const struct smb_text path = path_of(dir);
	size_t n = 0, most = p->count, text = 0;
	struct stub_entry *e = calloc(most + 1, sizeof(*e));
	uint8_t *origins = malloc(most * ((size_t)dir->len + 1) + p->len + 1);
	struct stub_xattr *x = calloc(most + 1, sizeof(*x));
	struct smb_text name;
	struct smb_told told;
	int r = e && origins && x ? 0 : -ENOMEM;

	while (r == 0 && smb_wire_entry(&a, &e[n].attr, &name, &told)) {
		int len = join(&path, name.p, name.len, origins + text);

		e[n].name = name.p;
		e[n].name_len = name.len;
		e[n].dummy = true;
		e[n].origin = origins + text;
		/* too long a path: the receiver refuses it, without a look at its bytes */
		e[n].origin_len = len < 0 ? STUB_ORIGIN_MAX + 1 : (size_t)len;
		text += len < 0 ? 0 : (size_t)len;
		if (told.len) {
			x[n] = (struct stub_xattr){ "user.DOSATTRIB", told.p, told.len };
			e[n].told = &x[n];
		}
		n++;
	}
	if (r == 0 && n) {
		note_mangled(s, e, n);
		r = fn(arg, e, n);
	}
	free(e);
	free(x);
	free(origins);
	return r;
}

static struct part *next_part(struct blocking *b)
{
	struct part *p;

	pthread_mutex_lock(&b->lock);
	while (!b->first && !b->over)
		pthread_cond_wait(&b->changed, &b->lock);
	p = b->first;
	if (p) {
		b->first = p->next;
		if (!b->first)
			b->last = &b->first;
		b->parts--;
		pthread_cond_broadcast(&b->changed);
	}
	pthread_mutex_unlock(&b->lock);
	return p;
}

static int list(struct source *base, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg)
{
	struct blocking b = { .call.part = on_part };
	struct part *part;
	int r, result = 0;

	b.last = &b.first;
	r = begin(smb_of(base), &b, SMB_WIRE_LIST, p, dir);
	if (r < 0) {
		finish(&b);
		return r;
	}
	while ((part = next_part(&b))) {
		if (!result)
			result = hand_on(smb_of(base), dir, part, fn, arg);
		free(part);
		if (result) {
			pthread_mutex_lock(&b.lock);
			b.enough = true; /* the other parts still come, and are dropped */
			pthread_cond_broadcast(&b.changed);
			pthread_mutex_unlock(&b.lock);
		}
	}
	finish(&b);
	return result ? result : b.err;
}

/* ---- reading ---- */

struct reading {
	struct smb_call call;
	struct smb_source *s;
	struct stub_origin origin;
	source_read_fn fn;
	void *arg;
};

static void on_read(struct smb_call *call, int err, struct smb_answer *a)
{
	struct reading *r = (struct reading *)call;
	struct source_read out = { .result = err };

	if (!err) {
		out = (struct source_read){ (int64_t)a->rest_len, a->rest, true, a->attr };
		count_bytes(r->s, a->rest_len);
	}
	r->fn(r->arg, &out);
	free(r);
}

static int start_read(struct source *base, enum source_priority p, const struct stub_origin *o,
		      uint64_t offset, uint32_t length, source_read_fn fn, void *arg)
{
	struct smb_source *s = smb_of(base);
	struct reading *r;
	int err;

	if (!length || length > s->config.smb.read_bytes || offset > INT64_MAX - (uint64_t)length)
		return -EINVAL;
	r = malloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct reading){
		.call.prio = p,
		.call.done = on_read,
		.call.request.type = SMB_WIRE_READ_,
		.call.request.offset = offset,
		.call.request.length = length,
		.s = s,
		.origin = *o,
		.fn = fn,
		.arg = arg,
	};
	r->call.request.path = path_of(&r->origin);
	err = smb_submit(s, &r->call);
	if (err)
		free(r);
	return err;
}

/* ---- attributes and bytes, for who does not wait ---- */

struct asking {
	struct smb_call call;
	struct smb_source *s;
	struct stub_origin origin;
	source_meta_fn fn;
	void *arg;
};

static void on_meta(struct smb_call *call, int err, struct smb_answer *a)
{
	struct asking *k = (struct asking *)call;
	struct source_meta m = { 0 };

	if (!err) {
		m.attr = a->attr;
		err = smb_take_meta(&m, a);
		count_bytes(k->s, m.data_len);
	}
	k->fn(k->arg, err, &m);
	free(k);
}

static int meta_send(struct source *base, const struct stub_origin *o, uint32_t want, source_meta_fn fn,
		     void *arg)
{
	struct smb_source *s = smb_of(base);
	struct asking *k = malloc(sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	*k = (struct asking){
		.call.prio = SOURCE_BACKGROUND,
		.call.done = on_meta,
		.call.request.type = SMB_WIRE_GETMETA,
		.call.request.want = want <= SMB_WIRE_SMALL ? want : 0,
		.s = s,
		.origin = *o,
		.fn = fn,
		.arg = arg,
	};
	k->call.request.path = path_of(&k->origin);
	err = smb_submit(s, &k->call);
	if (err)
		free(k);
	return err;
}

/* ---- once ---- */

static int one_page(void *arg, const struct stub_entry *e, size_t n)
{
	(void)arg;
	(void)e;
	(void)n;
	return 1;
}

static int probe(const struct source_config *c, unsigned int timeout_ms, char *why, size_t size)
{
	struct source_config config = *c;
	struct smb_source *s;
	struct smb_conn *conn;
	struct stub_attr attr;
	int r;

	config.call_timeout_ms = timeout_ms;
	s = allocate(&config);
	if (!s)
		return -EPROTO;
	conn = &s->conn[0];
	conn->s = s;
	r = prepare(s, c, why, size);
	if (r == -ENOENT || r == -EINVAL) /* a local file is meant; ENOENT would mean the share */
		r = -EACCES;
	if (r == 0) {
		r = smb_conn_dial(conn, &attr);
		if (r < 0)
			snprintf(why, size, "%s", conn->why);
		smb_conn_hangup(conn);
	}
	if (r == -EKEYREJECTED)
		r = -EACCES;
	release(s);
	if (r == 0) {
		struct stub_origin o;
		struct source *base;

		config.connections = 1;
		config.give_up_ms = timeout_ms;
		r = create(&config, &base);
		if (r == 0) {
			r = root(base, &o, &attr);
			if (r == 0)
				r = list(base, SOURCE_DEMAND, &o, NULL, one_page, NULL);
			if (r < 0)
				snprintf(why, size, r == -EACCES ? "no right to list it" :
								   "cannot list it: %s",
					 strerror(-r));
			destroy(base);
		}
	}
	return r > 0 ? 0 : r == -EINVAL || r == -ENOMEM || r == -EIO ? -EPROTO : r;
}

/* Mostly what all SMB servers have: they are asked for little. */
static int traits(const struct source_config *c, unsigned int timeout_ms, struct source_traits *out,
		  char *why, size_t size)
{
	*out = (struct source_traits){
		.have_info = true,
		.time_delta = { 0, 100 },
		.have_names = true,
		.link_max = 1,
		.name_max = STUB_NAME_MAX,
		.case_insensitive = true,
		.case_preserving = true,
		.windows = true,
	};
	return probe(c, timeout_ms, why, size);
}

const struct source_ops smb_source_ops = {
	.create = create,
	.stop = stop,
	.destroy = destroy,
	.probe = probe,
	.traits = traits,
	.state = state,
	.reload = reload,
	.connections = connections,
	.hurry = hurry,
	.root = root,
	.lookup = lookup,
	.getattr = getattr,
	.meta = meta,
	.meta_data = meta_data,
	.meta_bytes = SMB_WIRE_SMALL,
	.meta_send = meta_send,
	.put = put,
	.stream = stream,
	.list = list,
	.holes = holes,
	.read = start_read,
	.limits = limits,
};
