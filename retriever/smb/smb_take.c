// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_take.c - answers of the worker become what source.h promises: copies, which outlive them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "smb/smb.h"

/* Take what cannot be kept, one line for each. */
static int take_lost(struct source_meta *out, struct smb_answer *a)
{
	struct smb_text line;
	char *p;

	if (!a->lost_count)
		return 0;
	out->lost = out->lost_memory = p = malloc(a->lost_len + 1);
	if (!p)
		return -ENOMEM;
	while (smb_wire_lost(a, &line)) { /* each has had two bytes of length */
		p = mempcpy(p, line.p, line.len);
		*p++ = '\n';
	}
	*p = '\0';
	return 0;
}

/* A copy of META's list, in one piece: structs, then what they point to. */
static int take_xattrs(struct source_meta *out, struct smb_answer *a)
{
	struct smb_text name;
	const uint8_t *value;
	size_t len, size = a->count * (sizeof(struct stub_xattr) + 1) + a->rest_len + 1;
	char *p = malloc(size), *text;

	if (!p)
		return -ENOMEM;
	out->memory = p;
	out->xattrs = (struct stub_xattr *)p;
	text = p + a->count * sizeof(struct stub_xattr);
	while (smb_wire_xattr(a, &name, &value, &len)) {
		struct stub_xattr *x = &((struct stub_xattr *)p)[out->n++];

		x->name = memcpy(text, name.p, name.len);
		text += name.len;
		*text++ = '\0';
		x->value = memcpy(text, value, len);
		x->len = len;
		text += len;
	}
	return 0;
}

/* A copy of META's streams, likewise. */
static int take_streams(struct source_meta *out, struct smb_answer *a)
{
	const size_t structs = a->stream_count * sizeof(struct source_stream);
	struct source_stream *s;
	struct smb_text name;
	char *text;
	uint64_t size;

	if (!a->stream_count)
		return 0;
	s = malloc(structs + a->streams_len); /* each has had ten bytes beside its name */
	if (!s)
		return -ENOMEM;
	text = (char *)s + structs;
	out->streams = out->stream_memory = s;
	while (smb_wire_stream(a, &name, &size)) {
		s[out->n_streams++] = (struct source_stream){ text, size };
		text = mempcpy(text, name.p, name.len);
		*text++ = '\0';
	}
	return 0;
}

static int take_data(struct source_meta *out, const struct smb_answer *a)
{
	if (!a->data_len)
		return 0;
	out->data = out->data_memory = malloc(a->data_len);
	if (!out->data)
		return -ENOMEM;
	memcpy(out->data_memory, a->data, a->data_len);
	out->data_len = a->data_len;
	return 0;
}

int smb_take_meta(struct source_meta *out, struct smb_answer *a)
{
	int r = take_xattrs(out, a);

	if (r == 0)
		r = take_lost(out, a);
	if (r == 0)
		r = take_streams(out, a);
	return r == 0 ? take_data(out, a) : r;
}

int smb_take_holes(struct source_holes *out, struct smb_answer *a)
{
	out->hole = malloc(a->count * sizeof(*out->hole) + 1);
	if (!out->hole)
		return -ENOMEM;
	out->attr = a->attr;
	out->end = a->end;
	while (smb_wire_hole(a, &out->hole[out->n]))
		out->n++;
	return 0;
}
