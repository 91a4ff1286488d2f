/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * journal_check.c - is data.mdb fit to be given to LMDB?
 *
 * LMDB maps the file and believes what it finds: a truncated file ends in
 * SIGBUS, a damaged meta page in an assertion.  This file looks first, with
 * pread() and bounds checks, in time independent of the number of entries:
 *
 *   - both meta pages are what LMDB writes, and agree on the page size;
 *   - the roots of the two core trees of the newer one are inside the file and are
 *     tree pages;
 *   - the file is as long as the newer one says.
 *
 * The last is not quite that simple: pages at the end that were allocated and
 * freed in one transaction are never written, so a sound file may be short, if
 * all pages it lacks are in the list of free pages.  That list is a tree of
 * records [count, page, page ...]; it is read here only when the file is short.
 *
 * Damage inside the trees is not looked for (that would cost a full read): LMDB's
 * own checks and the parsers of journal_value.c meet it later.
 *
 * Layout as of LMDB 0.9, data version 1, 64 bits, the machine's byte order.
 */
#include <stdio.h>

#include "journal.h"

_Static_assert(sizeof(size_t) == 8, "layout of data.mdb");
_Static_assert(MDB_VERSION_MAJOR == 0 && MDB_VERSION_MINOR == 9, "layout of data.mdb");

#define MAGIC	     0xBEEFC0DEu
#define DATA_VERSION 1
#define NO_PAGE	     UINT64_MAX
#define PAGE_MAX     32768 /* bytes */
#define FILE_PAGES   (1ull << 36)
#define DEPTH_MAX    32 /* LMDB's cursor stack */
#define SHORT_MAX    (1u << 20) /* pages a sound file may lack */
#define WALK_MAX     (1u << 16) /* pages of the free list's tree; more is a loop */

enum { P_BRANCH = 1, P_LEAF = 2, P_OVERFLOW = 4, P_META = 8 };
enum { NODE_BIG = 1 }; /* the data is on overflow pages */

struct page_head {
	uint64_t pgno;
	uint16_t pad;
	uint16_t flags;
	uint16_t lower; /* end of the node pointers; with upper: overflow pages */
	uint16_t upper;
};

struct tree {
	uint32_t pad; /* of the first tree: page size */
	uint16_t flags;
	uint16_t depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries;
	uint64_t root;
};

struct meta {
	struct page_head head;
	uint32_t magic;
	uint32_t version;
	uint64_t address;
	uint64_t map_size;
	struct tree free, main;
	uint64_t last_pg;
	uint64_t txnid;
};

_Static_assert(sizeof(struct page_head) == 16 && sizeof(struct tree) == 48, "layout of data.mdb");
_Static_assert(sizeof(struct meta) == 152, "layout of data.mdb");

struct node {
	uint16_t lo, hi; /* leaf: size of the data; branch: page number, with flags */
	uint16_t flags;
	uint16_t key_size;
};

struct check {
	int fd;
	const struct stub_log *log;
	uint32_t page_size;
	uint64_t pages; /* whole ones in the file */
	uint64_t lacking; /* from pages to the last page */
	uint64_t found; /* of these, in the free list */
	uint8_t *seen; /* one byte per lacking page */
	uint32_t walked; /* pages of the free list's tree */
};

static int damaged(const struct check *c, const char *what)
{
	stub_log(c->log, STUB_LOG_ERROR, "pending journal: data.mdb is damaged: %s", what);
	return -EBADMSG;
}

static int read_at(const struct check *c, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(c->fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return damaged(c, "the file is too short");
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

static bool tree_ok(const struct tree *t, uint64_t last_pg)
{
	if (t->root == NO_PAGE)
		return t->depth == 0 && t->entries == 0;
	return t->root >= 2 && t->root <= last_pg && t->depth >= 1 && t->depth <= DEPTH_MAX;
}

static int read_meta(const struct check *c, uint64_t offset, struct meta *m)
{
	int r = read_at(c, m, sizeof(*m), offset);
	uint32_t size = m->free.pad;

	if (r < 0)
		return r;
	if (!(m->head.flags & P_META) || m->magic != MAGIC)
		return damaged(c, "no meta page");
	if (m->version != DATA_VERSION)
		return damaged(c, "another version of LMDB's format");
	if (size < 512 || size > PAGE_MAX || (size & (size - 1)))
		return damaged(c, "page size");
	return 0;
}

/* Only the newest meta page must pass this: the roots in an older one, which LMDB has put back
 * after a failed write, may be wrong. */
static int check_newest(const struct check *c, const struct meta *m)
{
	if (m->last_pg < 1 || m->last_pg >= FILE_PAGES)
		return damaged(c, "last page");
	if (m->main.flags || !tree_ok(&m->free, m->last_pg) || !tree_ok(&m->main, m->last_pg))
		return damaged(c, "root of a tree");
	return 0;
}

static int read_page(const struct check *c, uint64_t pgno, uint16_t flag, uint8_t *page)
{
	struct page_head h;
	int r;

	if (pgno < 2 || pgno >= c->pages)
		return damaged(c, "the file is too short");
	r = read_at(c, page, c->page_size, pgno * c->page_size);
	if (r < 0)
		return r;
	memcpy(&h, page, sizeof(h));
	if (h.pgno != pgno || (h.flags & (P_BRANCH | P_LEAF | P_OVERFLOW | P_META)) != flag)
		return damaged(c, "a page is not what its tree says");
	return 0;
}

static int check_root(const struct check *c, const struct tree *t)
{
	uint8_t page[PAGE_MAX];

	if (t->root == NO_PAGE)
		return 0;
	return read_page(c, t->root, t->depth > 1 ? P_BRANCH : P_LEAF, page);
}

/* One record of the free list, or a part of it. */
static void mark_free(struct check *c, const uint8_t *pages, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t pgno;

		memcpy(&pgno, pages + 8 * i, 8);
		if (pgno < c->pages || pgno - c->pages >= c->lacking || c->seen[pgno - c->pages])
			continue;
		c->seen[pgno - c->pages] = 1;
		c->found++;
	}
}

/* A record on overflow pages: @size bytes from page @pgno on. */
static int walk_big(struct check *c, uint64_t pgno, uint64_t size)
{
	uint64_t start = pgno * c->page_size + sizeof(struct page_head), n, at = 8;
	uint8_t page[PAGE_MAX];
	int r;

	if (pgno < 2 || pgno >= c->pages || size < 8)
		return damaged(c, "list of free pages");
	r = read_at(c, &n, 8, start);
	if (r < 0)
		return r;
	if (n > size / 8 - 1)
		return damaged(c, "list of free pages");
	for (uint64_t left = n; left > 0;) {
		uint64_t part = left < PAGE_MAX / 8 ? left : PAGE_MAX / 8;

		r = read_at(c, page, part * 8, start + at);
		if (r < 0)
			return r;
		mark_free(c, page, part);
		at += part * 8;
		left -= part;
	}
	return 0;
}

static int walk_leaf_node(struct check *c, const struct node *n, const uint8_t *data, size_t room)
{
	uint64_t size = n->lo | (uint64_t)n->hi << 16, v;

	if (room < 8)
		return damaged(c, "list of free pages");
	memcpy(&v, data, 8);
	if (n->flags & NODE_BIG)
		return walk_big(c, v, size);
	if (size > room || size < 8 || v > size / 8 - 1)
		return damaged(c, "list of free pages");
	mark_free(c, data + 8, v);
	return 0;
}

static int walk_free(struct check *c, uint64_t pgno, unsigned int depth)
{
	uint8_t *page CLEANUP_FREE = malloc(c->page_size);
	struct page_head h;
	int r;

	if (!page)
		return -ENOMEM;
	if (c->walked++ >= WALK_MAX)
		return damaged(c, "list of free pages");
	r = read_page(c, pgno, depth > 1 ? P_BRANCH : P_LEAF, page);
	if (r < 0)
		return r;
	memcpy(&h, page, sizeof(h));
	if (h.lower < sizeof(h) || h.lower > c->page_size)
		return damaged(c, "list of free pages");
	for (size_t p = sizeof(h); p + 2 <= h.lower && r == 0; p += 2) {
		struct node n;
		uint16_t at;
		size_t data;

		memcpy(&at, page + p, 2);
		if (at < h.lower || at + sizeof(n) > c->page_size)
			return damaged(c, "list of free pages");
		memcpy(&n, page + at, sizeof(n));
		data = at + sizeof(n) + n.key_size;
		if (data > c->page_size)
			return damaged(c, "list of free pages");
		if (depth > 1)
			r = walk_free(c, n.lo | (uint64_t)n.hi << 16 | (uint64_t)n.flags << 32,
				      depth - 1);
		else
			r = walk_leaf_node(c, &n, page + data, c->page_size - data);
	}
	return r;
}

/* The file ends before the last page: all it lacks must be free. */
static int check_short(struct check *c, const struct meta *m)
{
	int r;

	c->lacking = m->last_pg + 1 - c->pages;
	if (c->lacking > SHORT_MAX || m->free.root == NO_PAGE)
		return damaged(c, "the file is too short");
	c->seen = calloc(c->lacking, 1);
	if (!c->seen)
		return -ENOMEM;
	r = walk_free(c, m->free.root, m->free.depth);
	free(c->seen);
	if (r == 0 && c->found != c->lacking)
		r = damaged(c, "the file is too short");
	return r;
}

int stub_journal_check(int fd, const struct stub_log *log)
{
	struct check c = { .fd = fd, .log = log };
	struct meta m[2], *new;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return damaged(&c, "it is not a file");
	r = read_meta(&c, 0, &m[0]);
	if (r == 0)
		r = read_meta(&c, m[0].free.pad, &m[1]);
	if (r < 0)
		return r;
	if (m[0].free.pad != m[1].free.pad)
		return damaged(&c, "page size");
	c.page_size = m[0].free.pad;
	c.pages = (uint64_t)st.st_size / c.page_size;
	new = m[1].txnid > m[0].txnid ? &m[1] : &m[0]; /* as LMDB chooses */
	r = check_newest(&c, new);
	if (r == 0)
		r = check_root(&c, &new->free);
	if (r == 0)
		r = check_root(&c, &new->main);
	if (r == 0 && c.pages <= new->last_pg)
		r = check_short(&c, new);
	return r;
}

static int write_meta(const struct check *c, uint64_t offset, const struct meta *m)
{
	ssize_t n = pwrite(c->fd, m, sizeof(*m), (off_t)offset);

	return n < 0 ? -errno : n == sizeof(*m) ? 0 : -EIO;
}

int stub_journal_put_back(int fd, const struct stub_log *log)
{
	struct check c = { .fd = fd, .log = log };
	struct meta m[2];
	int r = read_meta(&c, 0, &m[0]);

	if (r == 0)
		r = read_meta(&c, m[0].free.pad, &m[1]);
	if (r == 0)
		r = write_meta(&c, 0, &m[0]);
	if (r == 0)
		r = write_meta(&c, m[0].free.pad, &m[1]);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	return r;
}
