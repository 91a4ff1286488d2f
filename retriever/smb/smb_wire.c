// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_wire.c - messages between retriever and worker: written, and read as hostile. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "smb/smb_wire.h"

/* What FAIL can say: the errors of source.h, by number on the wire. */
static const int errors[] = { -EIO,    -ENOENT, -ESTALE, -ENOTDIR,	    -EACCES,	  -EBADMSG,
			      -ENOMEM, -EAGAIN, -EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, -EPROTO,
			      -ENAMETOOLONG, -EOVERFLOW, -EKEYREJECTED, -EOPNOTSUPP,
			      -ENOSPC };
#define N_ERRORS (sizeof(errors) / sizeof(errors[0]))

/* ---- writing ---- */

void *smb_out_room(struct smb_out *o, size_t len)
{
	uint8_t *p;

	if (o->failed || len > SMB_WIRE_HEADER + SMB_WIRE_MAX - o->len) {
		o->failed = true;
		return NULL;
	}
	if (o->len + len > o->size) {
		size_t size = o->size * 2 > o->len + len ? o->size * 2 : o->len + len + 256;

		p = realloc(o->p, size);
		if (!p) {
			o->failed = true;
			return NULL;
		}
		o->p = p;
		o->size = size;
	}
	p = o->p + o->len;
	o->len += len;
	return p;
}

void smb_out_cut(struct smb_out *o, size_t len)
{
	o->len -= len;
}

static void out_le(struct smb_out *o, uint64_t x, unsigned int n)
{
	uint8_t *p = smb_out_room(o, n);

	if (p)
		stub_put_le(p, x, n);
}

void smb_out_begin(struct smb_out *o, enum smb_wire_type type)
{
	o->len = 0;
	o->failed = false;
	out_le(o, SMB_WIRE_MAGIC, 4);
	out_le(o, SMB_WIRE_VERSION, 2);
	out_le(o, type, 2);
	out_le(o, 0, 4);
	out_le(o, o->tag, 4);
}

void smb_out_u8(struct smb_out *o, uint8_t x)
{
	out_le(o, x, 1);
}

void smb_out_u32(struct smb_out *o, uint32_t x)
{
	out_le(o, x, 4);
}

void smb_out_u64(struct smb_out *o, uint64_t x)
{
	out_le(o, x, 8);
}

void smb_out_bytes(struct smb_out *o, const void *p, size_t len)
{
	void *to = smb_out_room(o, len);

	if (to && len)
		memcpy(to, p, len);
}

void smb_out_text(struct smb_out *o, const char *p, size_t len)
{
	if (len > SMB_WIRE_TEXT)
		o->failed = true;
	out_le(o, len, 2);
	smb_out_bytes(o, p, len);
}

static void out_time(struct smb_out *o, struct timespec t)
{
	out_le(o, (uint64_t)t.tv_sec, 8);
	out_le(o, (uint64_t)t.tv_nsec, 4);
}

void smb_out_attr(struct smb_out *o, const struct stub_attr *a)
{
	smb_out_u32(o, a->mode);
	smb_out_u32(o, a->uid);
	smb_out_u32(o, a->gid);
	smb_out_u32(o, a->nlink);
	out_le(o, a->size, 8);
	out_le(o, a->fsid, 8);
	out_le(o, a->fileid, 8);
	out_time(o, a->atime);
	out_time(o, a->mtime);
	out_time(o, a->ctime);
}

void smb_out_set_u32(struct smb_out *o, size_t at, uint32_t x)
{
	if (!o->failed && SMB_WIRE_HEADER + at + 4 <= o->len)
		stub_put_le(o->p + SMB_WIRE_HEADER + at, x, 4);
}

void smb_out_set_attr(struct smb_out *o, size_t at, const struct stub_attr *a)
{
	size_t len = o->len;

	if (o->failed)
		return;
	o->len = SMB_WIRE_HEADER + at;
	smb_out_attr(o, a); /* overwrites attributes, which have a fixed length */
	o->len = len;
}

int smb_out_end(struct smb_out *o)
{
	if (o->failed)
		return o->len > SMB_WIRE_MAX / 2 ? -EMSGSIZE : -ENOMEM;
	stub_put_le(o->p + 8, o->len - SMB_WIRE_HEADER, 4);
	return 0;
}

void smb_out_free(struct smb_out *o)
{
	if (o->p)
		explicit_bzero(o->p, o->size);
	free(o->p);
	memset(o, 0, sizeof(*o));
}

static void out_smb_text(struct smb_out *o, const struct smb_text *t)
{
	smb_out_text(o, t->p, t->len);
}

static void out_start(struct smb_out *o, const struct smb_start *s)
{
	smb_out_u32(o, s->flags);
	out_le(o, s->port, 2);
	smb_out_u32(o, s->uid);
	smb_out_u32(o, s->gid);
	smb_out_u32(o, s->file_mode);
	smb_out_u32(o, s->dir_mode);
	smb_out_u32(o, s->xattr_value);
	smb_out_u32(o, s->xattr_all);
	out_smb_text(o, &s->host);
	out_smb_text(o, &s->share);
	out_smb_text(o, &s->root);
	out_smb_text(o, &s->user);
	out_smb_text(o, &s->domain);
	out_smb_text(o, &s->password);
	out_smb_text(o, &s->idmap);
}

static void out_put(struct smb_out *o, const struct smb_request *r)
{
	smb_out_u64(o, r->fileid);
	smb_out_u8(o, r->look);
	smb_out_u32(o, r->uid);
	smb_out_u32(o, r->gid);
	smb_out_u32(o, r->bits);
	smb_out_u32(o, (uint32_t)r->n_x);
	for (size_t i = 0; i < r->n_x; i++) {
		smb_out_text(o, r->x[i].name, strlen(r->x[i].name));
		smb_out_u32(o, (uint32_t)r->x[i].len);
		smb_out_bytes(o, r->x[i].value, r->x[i].len);
	}
}

void smb_out_request(struct smb_out *o, const struct smb_request *r)
{
	smb_out_begin(o, r->type);
	if (r->type == SMB_WIRE_START) {
		out_start(o, &r->start);
		return;
	}
	out_smb_text(o, &r->path);
	if (r->type == SMB_WIRE_LOOKUP || r->type == SMB_WIRE_STREAM)
		out_smb_text(o, &r->name);
	if (r->type == SMB_WIRE_READ_ || r->type == SMB_WIRE_STREAM) {
		out_le(o, r->offset, 8);
		smb_out_u32(o, r->length);
	}
	if (r->type == SMB_WIRE_GETHOLES)
		out_le(o, r->offset, 8);
	if (r->type == SMB_WIRE_GETMETA) {
		smb_out_u8(o, r->has_numbers);
		smb_out_u32(o, r->uid);
		smb_out_u32(o, r->gid);
		smb_out_u32(o, r->bits);
		smb_out_u32(o, r->want);
		smb_out_u8(o, r->alone);
	}
	if (r->type == SMB_WIRE_PUTMETA)
		out_put(o, r);
}

void smb_out_fail(struct smb_out *o, bool final, int error, const char *why)
{
	size_t i;

	for (i = 0; i < N_ERRORS && errors[i] != error; i++)
		;
	smb_out_begin(o, SMB_WIRE_FAIL);
	smb_out_u8(o, final);
	smb_out_u8(o, (uint8_t)(i < N_ERRORS ? i : 0));
	smb_out_text(o, why, strnlen(why, 200));
}

/* ---- reading ---- */

static bool get_flag(struct stub_in *i)
{
	uint64_t x = stub_in_le(i, 1);

	i->bad |= x > 1;
	return x == 1;
}

static void get_text(struct stub_in *i, struct smb_text *out)
{
	size_t len = stub_in_le(i, 2);

	out->p = (const char *)stub_in_take(i, len);
	out->len = out->p ? len : 0;
	if (len > SMB_WIRE_TEXT || (out->p && memchr(out->p, '\0', len)))
		i->bad = true;
}

static struct timespec get_time(struct stub_in *i)
{
	struct timespec t;

	t.tv_sec = (time_t)stub_in_le(i, 8);
	t.tv_nsec = (long)stub_in_le(i, 4);
	if (t.tv_nsec > 999999999)
		i->bad = true;
	return t;
}

static void get_attr(struct stub_in *i, struct stub_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->mode = (uint32_t)stub_in_le(i, 4);
	a->uid = (uint32_t)stub_in_le(i, 4);
	a->gid = (uint32_t)stub_in_le(i, 4);
	a->nlink = (uint32_t)stub_in_le(i, 4);
	a->size = stub_in_le(i, 8);
	a->fsid = stub_in_le(i, 8);
	a->fileid = stub_in_le(i, 8);
	a->atime = get_time(i);
	a->mtime = get_time(i);
	a->ctime = get_time(i);
	if ((!S_ISREG(a->mode) && !S_ISDIR(a->mode)) || a->mode & ~(uint32_t)(S_IFMT | 07777) ||
	    a->uid == UINT32_MAX || a->gid == UINT32_MAX || a->size > INT64_MAX)
		i->bad = true;
}

int smb_wire_header(const uint8_t header[SMB_WIRE_HEADER], enum smb_wire_type *type, uint32_t *len,
		    uint32_t *tag)
{
	struct stub_in i = { header, SMB_WIRE_HEADER, false };

	if (stub_in_le(&i, 4) != SMB_WIRE_MAGIC)
		return -EBADMSG;
	if (stub_in_le(&i, 2) != SMB_WIRE_VERSION)
		return -EPROTO;
	*type = (enum smb_wire_type)stub_in_le(&i, 2);
	*len = (uint32_t)stub_in_le(&i, 4);
	*tag = (uint32_t)stub_in_le(&i, 4);
	return *len > SMB_WIRE_MAX ? -EBADMSG : 0;
}

static void get_start(struct stub_in *i, struct smb_start *s)
{
	s->flags = (uint32_t)stub_in_le(i, 4);
	s->port = (uint16_t)stub_in_le(i, 2);
	s->uid = (uint32_t)stub_in_le(i, 4);
	s->gid = (uint32_t)stub_in_le(i, 4);
	s->file_mode = (uint32_t)stub_in_le(i, 4);
	s->dir_mode = (uint32_t)stub_in_le(i, 4);
	s->xattr_value = (uint32_t)stub_in_le(i, 4);
	s->xattr_all = (uint32_t)stub_in_le(i, 4);
	get_text(i, &s->host);
	get_text(i, &s->share);
	get_text(i, &s->root);
	get_text(i, &s->user);
	get_text(i, &s->domain);
	get_text(i, &s->password);
	get_text(i, &s->idmap);
}

static void get_xattr(struct stub_in *i, struct smb_text *name, const uint8_t **value, size_t *len)
{
	get_text(i, name);
	*len = stub_in_le(i, 4);
	*value = stub_in_take(i, *len);
	if (!i->bad && !smb_wire_xattr_name(name))
		i->bad = true;
}

/* The attributes are walked once, so that later walks need no checks. */
static void get_put(struct stub_in *i, struct smb_request *out)
{
	struct smb_text name;
	const uint8_t *value;
	size_t len;

	out->fileid = stub_in_le(i, 8);
	out->look = get_flag(i);
	out->uid = (uint32_t)stub_in_le(i, 4);
	out->gid = (uint32_t)stub_in_le(i, 4);
	out->bits = (uint32_t)stub_in_le(i, 4);
	out->count = (uint32_t)stub_in_le(i, 4);
	out->rest = i->p;
	out->rest_len = i->left;
	if (out->count > SMB_WIRE_XATTRS || (!S_ISREG(out->bits) && !S_ISDIR(out->bits)))
		i->bad = true;
	for (uint32_t k = 0; k < out->count && !i->bad; k++)
		get_xattr(i, &name, &value, &len);
}

int smb_wire_request(enum smb_wire_type type, const uint8_t *p, size_t len,
		     struct smb_request *out)
{
	struct stub_in i = { p, len, false };

	memset(out, 0, sizeof(*out));
	out->type = type;
	switch (type) {
	case SMB_WIRE_START:
		get_start(&i, &out->start);
		break;
	case SMB_WIRE_READ_:
	case SMB_WIRE_STREAM:
		get_text(&i, &out->path);
		if (type == SMB_WIRE_STREAM)
			get_text(&i, &out->name);
		out->offset = stub_in_le(&i, 8);
		out->length = (uint32_t)stub_in_le(&i, 4);
		if (!out->length || out->length > SMB_WIRE_READ ||
		    out->offset > (uint64_t)INT64_MAX - out->length)
			i.bad = true;
		break;
	case SMB_WIRE_LOOKUP:
		get_text(&i, &out->path);
		get_text(&i, &out->name);
		break;
	case SMB_WIRE_GETMETA:
		get_text(&i, &out->path);
		out->has_numbers = get_flag(&i);
		out->uid = (uint32_t)stub_in_le(&i, 4);
		out->gid = (uint32_t)stub_in_le(&i, 4);
		out->bits = (uint32_t)stub_in_le(&i, 4);
		out->want = (uint32_t)stub_in_le(&i, 4);
		out->alone = get_flag(&i);
		if (out->want > SMB_WIRE_SMALL)
			i.bad = true;
		break;
	case SMB_WIRE_GETATTR:
	case SMB_WIRE_LIST:
		get_text(&i, &out->path);
		break;
	case SMB_WIRE_GETHOLES:
		get_text(&i, &out->path);
		out->offset = stub_in_le(&i, 8);
		if (out->offset > INT64_MAX)
			i.bad = true;
		break;
	case SMB_WIRE_PUTMETA:
		get_text(&i, &out->path);
		get_put(&i, out);
		break;
	default:
		i.bad = true;
	}
	return i.bad || i.left ? -EBADMSG : 0;
}

bool smb_wire_xattr_name(const struct smb_text *name)
{
	static const char *const whole[] = { "security.NTACL", "system.posix_acl_access",
					     "system.posix_acl_default" };

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (name->len == strlen(whole[i]) && !memcmp(name->p, whole[i], name->len))
			return true;
	return name->len > 5 && name->len <= 255 && !memcmp(name->p, "user.", 5);
}

bool smb_wire_stream_name(const struct smb_text *name)
{
	static const char type[] = ":$DATA";
	const size_t n = sizeof(type) - 1;

	if (name->len < n + 2 || name->len > 255 || name->p[0] != ':' ||
	    memcmp(name->p + name->len - n, type, n))
		return false;
	for (size_t i = 1; i < name->len - n; i++)
		if ((unsigned char)name->p[i] < ' ' || strchr("/\\:", name->p[i]))
			return false;
	return true;
}

static void get_stream(struct stub_in *i, struct smb_text *name, uint64_t *size)
{
	get_text(i, name);
	*size = stub_in_le(i, 8);
	if (!i->bad && (!smb_wire_stream_name(name) || *size > INT64_MAX))
		i->bad = true;
}

static void get_told(struct stub_in *i, struct smb_told *out)
{
	out->len = stub_in_le(i, 1);
	out->p = stub_in_take(i, out->len);
}

/* Walk them once, so that later walks need no checks. */
static void check_entries(const struct stub_in *at, uint32_t count, bool xattrs, struct stub_in *i)
{
	struct stub_attr attr;
	struct smb_text name;
	struct smb_told told;
	const uint8_t *value;
	size_t len;

	*i = *at;
	for (uint32_t k = 0; k < count && !i->bad; k++) {
		if (xattrs) {
			get_xattr(i, &name, &value, &len);
		} else {
			get_attr(i, &attr);
			get_text(i, &name);
			get_told(i, &told);
		}
	}
}

/* The lines behind the attributes, which end where @i is, the streams behind them, and the data. */
static void check_lost(struct smb_answer *out, struct stub_in *i)
{
	struct smb_text line;
	uint64_t size;

	out->rest_len = i->bad ? 0 : (size_t)(i->p - out->rest);
	out->lost_count = (uint32_t)stub_in_le(i, 4);
	out->lost = i->p;
	out->lost_len = i->left;
	if (out->lost_count > SMB_WIRE_XATTRS)
		i->bad = true;
	for (uint32_t k = 0; k < out->lost_count && !i->bad; k++)
		get_text(i, &line);
	out->lost_len -= i->bad ? 0 : i->left;
	out->stream_count = (uint32_t)stub_in_le(i, 4);
	out->streams = i->p;
	out->streams_len = i->left;
	if (out->stream_count > SMB_WIRE_COUNT)
		i->bad = true;
	for (uint32_t k = 0; k < out->stream_count && !i->bad; k++)
		get_stream(i, &line, &size);
	out->streams_len -= i->bad ? 0 : i->left;
	out->data_len = stub_in_le(i, 4);
	out->data = stub_in_take(i, out->data_len);
	if (out->data_len > SMB_WIRE_SMALL || (out->data_len && out->data_len != out->attr.size))
		i->bad = true;
}

static void get_hole(struct stub_in *i, struct stub_range *out)
{
	out->start = stub_in_le(i, 8);
	out->end = stub_in_le(i, 8);
}

/* Each begins behind the end of the one before, and ends where the file does at the latest. */
static void check_holes(struct smb_answer *out, struct stub_in *i)
{
	struct stub_range hole;
	uint64_t at = 0;

	out->end = stub_in_le(i, 8);
	out->count = (uint32_t)stub_in_le(i, 4);
	out->rest = i->p;
	out->rest_len = i->left;
	if (out->count > SMB_WIRE_COUNT || out->end > out->attr.size)
		i->bad = true;
	for (uint32_t k = 0; k < out->count && !i->bad; k++) {
		get_hole(i, &hole);
		if ((k && hole.start <= at) || hole.start >= hole.end || hole.end > out->end)
			i->bad = true;
		at = hole.end;
	}
}

int smb_wire_answer(enum smb_wire_type type, const uint8_t *p, size_t len, struct smb_answer *out)
{
	struct stub_in i = { p, len, false };
	uint8_t x;

	memset(out, 0, sizeof(*out));
	out->type = type;
	switch (type) {
	case SMB_WIRE_ALIVE:
	case SMB_WIRE_END:
		break;
	case SMB_WIRE_READY:
	case SMB_WIRE_ATTRS:
		get_attr(&i, &out->attr);
		break;
	case SMB_WIRE_OBJECT:
		get_attr(&i, &out->attr);
		get_text(&i, &out->name);
		break;
	case SMB_WIRE_DATA:
		get_attr(&i, &out->attr);
		out->rest = i.p;
		out->rest_len = i.left;
		i.left = 0;
		break;
	case SMB_WIRE_META:
		get_attr(&i, &out->attr);
		/* fall through */
	case SMB_WIRE_ENTRIES:
		out->count = (uint32_t)stub_in_le(&i, 4);
		out->rest = i.p;
		out->rest_len = i.left;
		if (out->count > (type == SMB_WIRE_META ? SMB_WIRE_XATTRS : SMB_WIRE_COUNT))
			i.bad = true;
		if (!i.bad)
			check_entries(&(struct stub_in){ i.p, i.left, false }, out->count,
				      type == SMB_WIRE_META, &i);
		if (type == SMB_WIRE_META)
			check_lost(out, &i);
		break;
	case SMB_WIRE_HOLES:
		get_attr(&i, &out->attr);
		check_holes(out, &i);
		break;
	case SMB_WIRE_PUT:
		out->differs = (uint32_t)stub_in_le(&i, 4);
		out->holds = get_flag(&i);
		break;
	case SMB_WIRE_FAIL:
		out->final = stub_in_le(&i, 1) == 1;
		x = (uint8_t)stub_in_le(&i, 1);
		out->error = errors[x < N_ERRORS ? x : 0];
		get_text(&i, &out->why);
		break;
	default:
		i.bad = true;
	}
	return i.bad || i.left ? -EBADMSG : 0;
}

int smb_wire_entry(struct smb_answer *a, struct stub_attr *attr, struct smb_text *name,
		   struct smb_told *told)
{
	struct stub_in i = { a->rest, a->rest_len, false };

	if (!a->rest_len)
		return 0;
	get_attr(&i, attr);
	get_text(&i, name);
	get_told(&i, told);
	a->rest = i.p;
	a->rest_len = i.left;
	return !i.bad;
}

static int next_xattr(const uint8_t **rest, size_t *left, struct smb_text *name, const uint8_t **value, size_t *len)
{
	struct stub_in i = { *rest, *left, false };

	if (!*left)
		return 0;
	get_xattr(&i, name, value, len);
	*rest = i.p;
	*left = i.left;
	return !i.bad;
}

int smb_wire_xattr(struct smb_answer *a, struct smb_text *name, const uint8_t **value, size_t *len)
{
	return next_xattr(&a->rest, &a->rest_len, name, value, len);
}

int smb_wire_put_xattr(struct smb_request *r, struct smb_text *name, const uint8_t **value, size_t *len)
{
	return next_xattr(&r->rest, &r->rest_len, name, value, len);
}

int smb_wire_lost(struct smb_answer *a, struct smb_text *line)
{
	struct stub_in i = { a->lost, a->lost_len, false };

	if (!a->lost_len)
		return 0;
	get_text(&i, line);
	a->lost = i.p;
	a->lost_len = i.left;
	return !i.bad;
}

int smb_wire_stream(struct smb_answer *a, struct smb_text *name, uint64_t *size)
{
	struct stub_in i = { a->streams, a->streams_len, false };

	if (!a->streams_len)
		return 0;
	get_stream(&i, name, size);
	a->streams = i.p;
	a->streams_len = i.left;
	return !i.bad;
}

int smb_wire_hole(struct smb_answer *a, struct stub_range *out)
{
	struct stub_in i = { a->rest, a->rest_len, false };

	if (!a->rest_len)
		return 0;
	get_hole(&i, out);
	a->rest = i.p;
	a->rest_len = i.left;
	return !i.bad;
}

/* ---- the socket ---- */

/* 0: ready, else as smb_wire_receive(). */
static int wait_ready(int fd, short events, unsigned int wait_ms, int wake)
{
	struct pollfd p[2] = { { .fd = fd, .events = events }, { .fd = wake, .events = POLLIN } };
	int n;

	do
		n = poll(p, 2, wait_ms > INT32_MAX ? -1 : (int)wait_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	if (p[1].revents)
		return -ECANCELED;
	return 0;
}

int smb_wire_send(int fd, const struct smb_out *o, unsigned int wait_ms, int wake)
{
	size_t done = 0;

	while (done < o->len) {
		int r = wait_ready(fd, POLLOUT, wait_ms, wake);
		ssize_t n;

		if (r < 0)
			return r;
		n = send(fd, o->p + done, o->len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -ECONNRESET;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int smb_wire_receive(int fd, void *p, size_t len, unsigned int wait_ms, int wake)
{
	size_t done = 0;

	while (done < len) {
		int r = wait_ready(fd, POLLIN, wait_ms, wake);
		ssize_t n;

		if (r < 0)
			return r;
		n = recv(fd, (uint8_t *)p + done, len - done, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -ECONNRESET;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}
