// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_list.c - a directory's entries: see smb_exact.h.
 *
 * Taken as they come: libsmb's own parser drops what tells whether a listing has told all that
 * a listing shows (docs/decisions/0069).
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_compat.h"
#include "smb_worker/smb_exact_internal.h"
#include "smb_worker/smb_failed.h"

#define ACCESS	  (SEC_DIR_LIST | SEC_DIR_READ_ATTRIBUTE)
#define CREDIT	  65536u /* bytes of an answer that cost one */
#define PAGE_MAX  (512 * 1024u)

/* FileIdBothDirectoryInformation, MS-FSCC 2.4.22: where what is, and what has a fixed length */
enum {
	AT_CREATED = 8,
	AT_ACCESSED = 16,
	AT_WRITTEN = 24,
	AT_CHANGED = 32,
	AT_SIZE = 40,
	AT_ATTRIBUTES = 56,
	AT_NAME_LENGTH = 60,
	AT_EA_SIZE = 64, /* of a reparse point: its tag */
	AT_FILE_ID = 96,
	AT_NAME = 104,
};

struct listing {
	struct worker *w;
	const char *path;
	exact_entry_fn fn;
	void *arg;
	struct cli_state *cli;
	uint16_t dir;
};

/* A server that sends nonsense: not the object's fault, but no reconnect helps. */
static int nonsense(const struct listing *l)
{
	worker_lost(l->w, "the server's answer makes no sense", "listing", l->path);
	return -EBADMSG;
}

static int on_entry(struct listing *l, TALLOC_CTX *mem, const uint8_t *e, size_t room)
{
	const uint32_t odd = FILE_ATTRIBUTE_REPARSE_POINT;
	uint32_t attributes = IVAL(e, AT_ATTRIBUTES);
	struct exact_info i;
	char *name = NULL;
	int r;

	if (IVAL(e, AT_NAME_LENGTH) <= room)
		name = exact_name(mem, e + AT_NAME, IVAL(e, AT_NAME_LENGTH));
	if (!name || !*name || strpbrk(name, "/\\") || BVAL(e, AT_SIZE) > INT64_MAX)
		return nonsense(l);
	if (ISDOT(name) || ISDOTDOT(name))
		return 0;
	exact_fill(&i, attributes, (off_t)BVAL(e, AT_SIZE), BVAL(e, AT_FILE_ID),
		   exact_time(e + AT_CREATED), exact_time(e + AT_ACCESSED),
		   exact_time(e + AT_WRITTEN), exact_time(e + AT_CHANGED));
	i.created = BVAL(e, AT_CREATED);
	i.listed = !(attributes & odd) && !IVAL(e, AT_EA_SIZE);
	r = l->fn(l->arg, name, &i);
	TALLOC_FREE(name);
	return r;
}

static int on_page(struct listing *l, TALLOC_CTX *mem, const DATA_BLOB *page)
{
	const uint8_t *e;
	size_t at = 0, room;
	int r = 0, more;

	if (!page->length)
		return nonsense(l);
	while (r == 0 && (more = exact_chained(page, AT_NAME, &at, &e, &room)) != 0)
		r = more < 0 ? nonsense(l) : on_entry(l, mem, e, room);
	return r;
}

/* As much as the server takes, and as it has given us credits for. */
static uint32_t page_size(const struct listing *l)
{
	uint32_t credits = smb2cli_conn_get_cur_credits(l->cli->conn);
	uint32_t size = MIN(smb2cli_conn_max_trans_size(l->cli->conn), PAGE_MAX);

	return credits ? MIN(size, credits * CREDIT) : MIN(size, CREDIT);
}

static int all_pages(struct listing *l)
{
	for (bool first = true;; first = false) {
		TALLOC_CTX *mem = talloc_stackframe();
		DATA_BLOB page = { 0 };
		NTSTATUS status = compat_entries(l->cli, l->dir, page_size(l), mem, &page);
		int r;

		/* some servers have not even "." in an empty directory */
		if (NT_STATUS_EQUAL(status, NT_STATUS_NO_MORE_FILES) ||
		    (first && NT_STATUS_EQUAL(status, NT_STATUS_NO_SUCH_FILE))) {
			TALLOC_FREE(mem);
			return 0;
		}
		r = NT_STATUS_IS_OK(status) ? on_page(l, mem, &page) :
					      exact_failed(l->w, status, "listing", l->path);
		TALLOC_FREE(mem);
		if (r != 0)
			return r;
	}
}

int exact_list(struct worker *w, const char *path, exact_entry_fn fn, void *arg)
{
	struct listing l = { .w = w, .path = path, .fn = fn, .arg = arg };
	TALLOC_CTX *frame = talloc_stackframe();
	char *there;
	NTSTATUS status = exact_resolve(w, frame, path, "", &l.cli, &there);
	int r;

	if (NT_STATUS_IS_OK(status))
		status = cli_ntcreate(l.cli, there, 0, ACCESS, FILE_ATTRIBUTE_DIRECTORY, SHARE_ALL,
				      FILE_OPEN, FILE_DIRECTORY_FILE, 0, &l.dir, NULL);
	TALLOC_FREE(frame);
	if (!NT_STATUS_IS_OK(status))
		return exact_failed(w, status, "listing", path);
	r = all_pages(&l);
	cli_close(l.cli, l.dir);
	return r;
}
