// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_names.c - listings, in messages of some hundred entries; look-ups of one name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "smb_worker/smb_worker.h"

#define PAGE_BYTES (64 * 1024)

struct page {
	struct worker *w;
	const char *path;
	uint32_t count;
};

static void page_begin(struct page *p)
{
	p->count = 0;
	smb_out_begin(&p->w->out, SMB_WIRE_ENTRIES);
	smb_out_u32(&p->w->out, 0);
}

static int page_send(struct page *p)
{
	smb_out_set_u32(&p->w->out, 0, p->count);
	return worker_send(p->w);
}

/* What a listing of Samba's shows of the entry, if its own listing has told all that. */
static int put_told(struct smb_out *o, const struct exact_info *i)
{
	void *value = NULL;
	size_t len = 0;

	if (i->listed &&
	    smb_meta_dosattrib(i->dir, i->attributes, i->created, &value, &len) < 0)
		return -ENOMEM;
	if (len > UINT8_MAX)
		len = 0;
	smb_out_u8(o, (uint8_t)len);
	smb_out_bytes(o, value, len);
	free(value);
	return 0;
}

static int on_entry(void *arg, const char *name, const struct exact_info *i)
{
	struct page *p = arg;
	struct stub_attr attr;
	int r;

	worker_attr(p->w, p->path, name, i, &attr);
	smb_out_attr(&p->w->out, &attr);
	smb_out_text(&p->w->out, name, strlen(name));
	r = put_told(&p->w->out, i);
	p->count++;
	if (r == 0 && p->w->out.len >= PAGE_BYTES) {
		r = page_send(p);
		page_begin(p);
	}
	return r;
}

int worker_list(struct worker *w, const char *path)
{
	struct page p = { w, path, 0 };
	int r;

	page_begin(&p);
	r = exact_list(w, path, on_entry, &p);
	if (r == 0 && p.count)
		r = page_send(&p);
	if (r != 0)
		return r;
	smb_out_begin(&w->out, SMB_WIRE_END);
	return worker_send(w);
}

int worker_lookup(struct worker *w, const char *path, const char *name)
{
	struct stub_attr attr;
	struct exact_info i;
	int r = exact_find(w, path, name, &i);

	if (r != 0)
		return r;
	worker_attr(w, path, name, &i, &attr);
	smb_out_begin(&w->out, SMB_WIRE_OBJECT);
	smb_out_attr(&w->out, &attr);
	smb_out_text(&w->out, name, strlen(name));
	return worker_send(w);
}
