/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_streams.c - extended attributes, and alternate data streams as smbd's modules
 * streams_xattr or streams_depot store them.
 *
 * streams_xattr: a stream's value is the stream's bytes and one zero byte more: a stream
 * may be empty, the value of an attribute that smbd reads may not.
 *
 * streams_depot: a stream is a file (depot.h), and an attribute of the object says that the
 * directory in the depot is this object's, and not of one that had the inode before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "windows/smb_meta_internal.h"

#define PREFIX SMB_STREAM_PREFIX
#define TYPE   ":$DATA"
#define MARK   "user.SAMBA_STREAMS"

static bool is_there(const struct smb_maker *m, const char *name)
{
	for (size_t i = 0; i < m->out->n; i++) {
		if (!strcmp(m->out->x[i].name, name))
			return true;
	}
	return false;
}

/* No client of the old server could have set one,
 * if it was a Samba, and no client of the new one would see it. */
bool smb_xattr_private(const char *attr)
{
	static const char *const names[] = { "user.DOSATTRIB", "user.SAMBA_PAI",
					     "user.SAMBA_STREAMS", "user.org.netatalk.Metadata" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcasecmp(attr, names[i]))
			return true;
	}
	return !strncasecmp(attr, PREFIX, strlen(PREFIX));
}

static int add_ea(struct smb_maker *m, const struct smb_ea *ea)
{
	char attr[SMB_NAME_MAX + 2];
	void *value;
	int len;

	if (!ea->len)
		return 0;
	len = snprintf(attr, sizeof(attr), "user.%s", ea->name);
	if (len < 0 || len > (int)SMB_NAME_MAX || !ea->name[0] || smb_xattr_private(attr) ||
	    is_there(m, attr))
		return smb_meta_lose(m, SMB_LOST_NAME, 0, "extended attribute %s", ea->name);
	value = malloc(ea->len);
	if (!value)
		return -ENOMEM;
	memcpy(value, ea->value, ea->len);
	return smb_meta_add(m, attr, value, ea->len, "extended attribute %s", ea->name);
}

int smb_meta_eas(struct smb_maker *m, const struct smb_meta_in *in)
{
	int r = 0;

	for (size_t i = 0; i < in->n_eas && r == 0; i++)
		r = add_ea(m, &in->eas[i]);
	return r;
}

uint64_t smb_stream_max(const struct smb_limits *l)
{
	size_t value = l->value < SMB_XATTR_MAX ? l->value : SMB_XATTR_MAX;

	return value ? value - 1 : 0;
}

/* ":name:$DATA" -> name; its length. */
static const char *name_of(const struct smb_stream *s, size_t *len, const char **type)
{
	const char *name = s->name + (s->name[0] == ':');

	*type = strrchr(name, ':');
	*len = *type ? (size_t)(*type - name) : strlen(name);
	return name;
}

static bool name_fits(const char *name, size_t len, const char *prefix)
{
	if (len > SMB_NAME_MAX - strlen(prefix) - strlen(TYPE))
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)name[i] < ' ' || strchr("/\\:", name[i]))
			return false;
	}
	return true;
}

/* The stream's name without type.  1; 0: it is the file's own data, or put into the list of what
 * is lost; -errno. */
static int name_to_keep(struct smb_maker *m, const struct smb_stream *s, const char *prefix,
			const char **name, size_t *len)
{
	const char *type;

	*name = name_of(s, len, &type);
	if (!*len && (!type || !strcasecmp(type, TYPE)))
		return 0;
	if (type && strcasecmp(type, TYPE))
		return smb_meta_lose(m, SMB_LOST_KIND, 0, "stream %s", s->name);
	if (!name_fits(*name, *len, prefix))
		return smb_meta_lose(m, SMB_LOST_NAME, 0, "stream %.*s", (int)*len, *name);
	return 1;
}

static int add_stream(struct smb_maker *m, const struct smb_stream *s)
{
	char attr[SMB_NAME_MAX + 1];
	const char *name;
	uint8_t *value;
	size_t len;
	int r;

	r = name_to_keep(m, s, PREFIX, &name, &len);
	if (r <= 0)
		return r;
	snprintf(attr, sizeof(attr), PREFIX "%.*s" TYPE, (int)len, name);
	if (is_there(m, attr)) /* of two streams with one name the first is taken */
		return smb_meta_lose(m, SMB_LOST_NAME, 0, "stream %.*s", (int)len, name);
	if (s->size >= m->value_max || (!s->data && s->size))
		return smb_meta_lose(m, SMB_LOST_SIZE, s->size, "stream %.*s", (int)len, name);
	value = malloc((size_t)s->size + 1);
	if (!value)
		return -ENOMEM;
	if (s->size)
		memcpy(value, s->data, (size_t)s->size);
	value[s->size] = 0;
	return smb_meta_add(m, attr, value, (size_t)s->size + 1, "stream %.*s", (int)len, name);
}

int smb_meta_streams(struct smb_maker *m, const struct smb_meta_in *in)
{
	int r = 0;

	for (size_t i = 0; i < in->n_streams && r == 0; i++)
		r = add_stream(m, &in->streams[i]);
	return r;
}

static bool is_kept(const struct smb_meta *out, const char *name)
{
	for (size_t i = 0; i < out->n_streams; i++) {
		if (!strcmp(out->streams[i].name, name))
			return true;
	}
	return false;
}

static int keep_stream(struct smb_maker *m, const struct smb_stream *s)
{
	struct smb_meta *out = m->out;
	char file[SMB_NAME_MAX + 1];
	const char *name;
	char *copy;
	size_t len;
	int r;

	r = name_to_keep(m, s, ":", &name, &len);
	if (r <= 0)
		return r;
	snprintf(file, sizeof(file), ":%.*s" TYPE, (int)len, name);
	if (is_kept(out, file)) /* of two streams with one name the first is taken */
		return smb_meta_lose(m, SMB_LOST_NAME, 0, "stream %.*s", (int)len, name);
	if (s->size > INT64_MAX)
		return smb_meta_lose(m, SMB_LOST_SIZE, s->size, "stream %.*s", (int)len, name);
	copy = strdup(file);
	if (!copy ||
	    !smb_meta_grow((void **)&out->streams, out->n_streams, sizeof(*out->streams))) {
		free(copy);
		return -ENOMEM;
	}
	out->streams[out->n_streams++] = (struct smb_kept){ copy, s->size };
	return 0;
}

int smb_meta_depot(struct smb_maker *m, const struct smb_meta_in *in)
{
	struct smb_meta *out = m->out;
	size_t at = out->n;
	char *mark;
	int r = 0;

	for (size_t i = 0; i < in->n_streams && r == 0; i++)
		r = keep_stream(m, &in->streams[i]);
	if (r < 0 || !out->n_streams)
		return r;
	mark = strdup("1");
	if (!mark)
		return -ENOMEM;
	r = smb_meta_add(m, MARK, mark, 1, "mark that there are streams");
	while (r == 0 && out->n == at && out->n_streams) { /* no mark: smbd would see no stream */
		struct smb_kept *s = &out->streams[--out->n_streams];

		r = smb_meta_lose(m, SMB_LOST_SIZE, s->size, "stream %s", s->name);
		free(s->name);
	}
	return r;
}
