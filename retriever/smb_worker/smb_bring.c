// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_bring.c - what the server knows of an object, as it is to be stored: META. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "smb_worker/smb_about.h"
#include "smb_worker/smb_worker.h"

#define LOST_TEXT 400 /* bytes of a line on something that is lost */
#define ORIGIN_MORE 66 /* bytes of an origin besides the path, if it has an NFS file handle */

int worker_meta_start(struct worker *w, const struct smb_start *s)
{
	char *path = strndup(s->idmap.p ? s->idmap.p : "", s->idmap.len), why[SMB_IDMAP_WHY];
	int r = -ENOMEM;

	if (path)
		r = smb_idmap_read(*path ? path : NULL, &w->idmap, why);
	if (path && r < 0)
		snprintf(w->why, sizeof(w->why), "%s", why);
	free(path);
	w->meta = (struct smb_meta_config){
		.idmap = w->idmap,
		.strict_delete = s->flags & SMB_WIRE_STRICT,
		.traverse = s->flags & SMB_WIRE_TRAVERSE,
		.depot = s->flags & SMB_WIRE_DEPOT,
		.limits = { s->xattr_value ? s->xattr_value : SMB_XATTR_MAX, s->xattr_all },
	};
	return r < 0 ? -EACCES : 0;
}

static void put_line(struct smb_out *o, const struct smb_lost *l)
{
	char line[LOST_TEXT];

	smb_lost_text(l, line, sizeof(line));
	for (char *p = line; *p; p++) /* printable, since it is logged */
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	smb_out_text(o, line, strlen(line));
}

static int send_meta(struct worker *w, const struct stub_attr *attr, const struct smb_meta *m,
		     const char *data, size_t data_len)
{
	struct smb_out *o = &w->out;
	size_t lost = m->n_lost < SMB_WIRE_XATTRS ? m->n_lost : SMB_WIRE_XATTRS;

	if (m->n > SMB_WIRE_XATTRS) {
		snprintf(w->why, sizeof(w->why), "%zu streams and extended attributes: too many",
			 m->n);
		return -EBADMSG;
	}
	smb_out_begin(o, SMB_WIRE_META);
	smb_out_attr(o, attr);
	smb_out_u32(o, (uint32_t)m->n);
	for (size_t i = 0; i < m->n; i++) {
		smb_out_text(o, m->x[i].name, strlen(m->x[i].name));
		smb_out_u32(o, (uint32_t)m->x[i].len);
		smb_out_bytes(o, m->x[i].value, m->x[i].len);
	}
	smb_out_u32(o, (uint32_t)lost);
	for (size_t i = 0; i < lost; i++)
		put_line(o, &m->lost[i]);
	smb_out_u32(o, (uint32_t)m->n_streams);
	for (size_t i = 0; i < m->n_streams; i++) {
		smb_out_text(o, m->streams[i].name, strlen(m->streams[i].name));
		smb_out_u64(o, m->streams[i].size);
	}
	smb_out_u32(o, (uint32_t)data_len);
	smb_out_bytes(o, data, data_len);
	return worker_send(w);
}

int worker_stream(struct worker *w, const char *path, const char *name, uint64_t offset,
		  uint32_t length)
{
	struct stub_attr attr = { .mode = S_IFREG };
	size_t done;
	char *buf;
	int r;

	smb_out_begin(&w->out, SMB_WIRE_DATA);
	smb_out_attr(&w->out, &attr);
	buf = smb_out_room(&w->out, length);
	if (!buf)
		return -ENOMEM;
	r = exact_stream(w, path, name, offset, buf, length, &done, &attr.size);
	if (r != 0)
		return r;
	smb_out_cut(&w->out, length - done);
	smb_out_set_attr(&w->out, 0, &attr);
	return worker_send(w);
}

/* What @about says of @path, as it is to be stored. */
static int answer(struct worker *w, const char *path, struct exact_about *about,
		  const struct smb_request *request, const char *data, size_t data_len)
{
	char why[SMB_META_WHY];
	struct stub_attr attr;
	struct smb_meta m;
	int r;

	worker_attr(w, path, "", &about->info, &attr);
	about->in.type = attr.mode & S_IFMT;
	about->in.has_numbers = request->has_numbers;
	about->in.uid = request->uid;
	about->in.gid = request->gid;
	about->in.bits = request->bits & 07000;
	about->in.origin_len = strlen(path) + ORIGIN_MORE;
	r = smb_meta_make(&w->meta, &about->in, &m, why);
	if (r < 0) {
		snprintf(w->why, sizeof(w->why), "\"%.120s\": %s", path, why);
		return r == -ENOMEM ? -ENOMEM : -EBADMSG;
	}
	if (request->has_numbers && !about->in.sd) {
		attr.uid = request->uid;
		attr.gid = request->gid;
		attr.mode = about->in.type | request->bits;
	}
	if (about->in.sd) { /* without one, owner and mode are the configuration's */
		attr.uid = m.uid;
		attr.gid = m.gid;
		attr.mode = m.mode;
	}
	r = send_meta(w, &attr, &m, data, data_len);
	smb_meta_finish(&m);
	return r;
}

static uint64_t stream_max(const struct worker *w)
{
	return w->meta.depot ? 0 : smb_stream_max(&w->meta.limits);
}

int worker_meta(struct worker *w, const char *path, const struct smb_request *request)
{
	struct exact_about about;
	int r = exact_about(w, path, stream_max(w), &about);

	if (r != 0)
		return r;
	r = answer(w, path, &about, request, NULL, 0);
	exact_about_free(&about);
	return r;
}

bool worker_meta_add(struct worker *w, uint32_t tag, const struct smb_request *r)
{
	struct many_one *o = calloc(1, sizeof(*o));
	char *path = strndup(r->path.p ? r->path.p : "", r->path.len);

	if (!o || !path) {
		free(o);
		free(path);
		return false;
	}
	*o = (struct many_one){
		.tag = tag,
		.has_numbers = r->has_numbers,
		.uid = r->uid,
		.gid = r->gid,
		.bits = r->bits,
		.path = path,
		.want = r->want,
		.stream_max = stream_max(w),
	};
	many_add(w->many, o);
	return true;
}

int worker_meta_of(struct worker *w, struct many_one *o)
{
	const struct smb_request request = {
		.has_numbers = o->has_numbers,
		.uid = o->uid,
		.gid = o->gid,
		.bits = o->bits,
	};

	if (o->result == -EAGAIN)
		return worker_meta(w, o->path, &request);
	if (o->result < 0)
		return o->result;
	return answer(w, o->path, &o->about, &request, o->data, o->data ? o->want : 0);
}
