// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_files.c - attributes, and bytes: a file stays open between its blocks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "smb_worker/smb_worker.h"

/* For a server without file ids: a number made of the path.  @name is "" if @path is complete. */
static uint64_t make_fileid(const char *path, const char *name)
{
	uint64_t h = stub_fnv(STUB_FNV, path, strlen(path));

	return stub_fnv(*path && *name ? stub_fnv(h, "/", 1) : h, name, strlen(name));
}

/* SMB has no mode, owner and links as we need them: these are the configuration's. */
void worker_attr(const struct worker *w, const char *path, const char *name,
		 const struct exact_info *i, struct stub_attr *out)
{
	*out = (struct stub_attr){
		.mode = i->dir ? S_IFDIR | w->dir_mode : S_IFREG | w->file_mode,
		.nlink = i->dir ? 2 : 1,
		.uid = w->uid,
		.gid = w->gid,
		.size = i->dir ? 0 : i->size,
		.fileid = i->fileid ? i->fileid : make_fileid(path, name),
		.atime = i->atime,
		.mtime = i->mtime,
		.ctime = i->ctime,
	};
}

/* libsmbclient knows no brackets: it takes what is behind the first colon for a port, and decodes
 * the host after that. */
char *worker_url(const struct worker *w, const char *path)
{
	size_t size = 3 * strlen(path) + 1, host_size = 3 * strlen(w->host) + 1;
	char *encoded = malloc(size), *host = malloc(host_size), *url = NULL, port[8] = "";

	if (w->port)
		snprintf(port, sizeof(port), ":%u", w->port);
	if (encoded && host) {
		smbc_urlencode(encoded, (char *)path, (int)size);
		smbc_urlencode(host, w->host, (int)host_size);
		if (asprintf(&url, "smb://%s%s/%s%s%s", host, port, w->share, *path ? "/" : "",
			     encoded) < 0)
			url = NULL;
	}
	free(encoded);
	free(host);
	return url;
}

int worker_getattr(struct worker *w, const char *path, struct stub_attr *out)
{
	struct exact_info i;
	int r = exact_stat(w, path, &i);

	if (r == 0)
		worker_attr(w, path, "", &i, out);
	return r;
}

int worker_file_look(struct worker *w, struct worker_file *f, struct exact_info *i)
{
	int r = exact_fstat(w, f->path, f->file, i);

	if (r == 0)
		f->size = i->size;
	if (r == 0)
		f->attributes = i->attributes;
	return r;
}

void worker_file_close(struct worker *w, struct worker_file *f)
{
	smbc_getFunctionClose(w->context)(w->context, f->file);
	free(f->path);
	f->path = NULL;
	f->used = 0;
	f->span = 0;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_old(const struct worker_file *f)
{
	return now_ms() - f->opened_ms >= WORKER_HANDLE_MS;
}

bool worker_files_due(const struct worker *w)
{
	for (unsigned int k = 0; k < WORKER_HANDLES; k++)
		if (w->files[k].path && is_old(&w->files[k]))
			return true;
	return false;
}

bool worker_files_rest(struct worker *w)
{
	bool open = false;

	for (unsigned int k = 0; k < WORKER_HANDLES; k++) {
		struct worker_file *f = &w->files[k];

		if (f->path && is_old(f))
			worker_file_close(w, f);
		open = open || f->path;
	}
	return open;
}

int worker_file_open(struct worker *w, const char *path, struct worker_file **out)
{
	struct worker_file *f = &w->files[0];
	struct exact_info i;
	char *url;
	int r = 0;

	for (unsigned int k = 0; k < WORKER_HANDLES; k++) {
		struct worker_file *g = &w->files[k];

		if (g->path && !strcmp(g->path, path)) {
			f = g;
			break;
		}
		if (g->used < f->used)
			f = g;
	}
	if (!f->path || strcmp(f->path, path) || is_old(f)) {
		if (f->path)
			worker_file_close(w, f);
		url = worker_url(w, path);
		f->path = url ? strdup(path) : NULL;
		if (!f->path)
			r = -ENOMEM;
		else if (!(f->file = smbc_getFunctionOpen(w->context)(w->context, url, O_RDONLY, 0)))
			r = worker_failed(w, errno, "opening", path);
		free(url);
		f->opened_ms = now_ms();
		if (r != 0) {
			free(f->path);
			f->path = NULL;
			f->used = 0;
			return r;
		}
		r = worker_file_look(w, f, &i);
		if (r != 0) {
			worker_file_close(w, f);
			return r;
		}
	}
	f->used = ++w->clock;
	*out = f;
	return 0;
}

int64_t worker_file_read(struct worker *w, struct worker_file *f, uint64_t offset, char *buf,
			 uint32_t length)
{
	uint32_t done = 0;

	if (smbc_getFunctionLseek(w->context)(w->context, f->file, (off_t)offset, SEEK_SET) < 0)
		return -1;
	while (done < length) {
		ssize_t n = smbc_getFunctionRead(w->context)(w->context, f->file, buf + done,
							     length - done);

		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (uint32_t)n;
	}
	return done;
}

int worker_read(struct worker *w, const char *path, uint64_t offset, uint32_t length)
{
	struct worker_file *f;
	struct stub_attr attr;
	struct exact_info i;
	int64_t n;
	char *buf;
	int r = worker_file_open(w, path, &f);

	if (r != 0)
		return r;
	/* attributes come first in the message, but are asked for after the bytes were read: so
	 * they show what was written over there before that or meanwhile */
	smb_out_begin(&w->out, SMB_WIRE_DATA);
	memset(&attr, 0, sizeof(attr));
	smb_out_attr(&w->out, &attr);
	buf = smb_out_room(&w->out, length);
	if (!buf)
		return -ENOMEM;
	n = offset < f->size ? (int64_t)(f->size - offset) : 0;
	n = worker_file_read(w, f, offset, buf, n < length ? (uint32_t)n : length);
	r = n < 0 ? worker_failed(w, errno, "reading", path) : worker_file_look(w, f, &i);
	if (r != 0) {
		worker_file_close(w, f);
		return r;
	}
	smb_out_cut(&w->out, length - (uint32_t)n);
	worker_attr(w, path, "", &i, &attr);
	smb_out_set_attr(&w->out, 0, &attr);
	return worker_send(w);
}
