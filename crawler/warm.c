/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "warm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names.h"

#define LOOK_MS 200 /* the retriever's list is looked at so often */
#define AGAIN_MS 20 /* a directory that is being listed: so often, too */
#define STEPS	256 /* names that are looked at in one call */

struct place {
	struct stub_handle h;
	uint64_t again_ms; /* not before */
	bool asked;
};

struct warm {
	struct stub_volume *volume;
	uint64_t look_at_ms;
	uint64_t seen; /* number of the last one that was taken */
	struct place dirs[STUB_HEAT_PLACES]; /* the last one is the next one */
	unsigned int n;
	DIR *dir; /* is being gone through; NULL: none is */
	struct stub_handle h; /* its handle */
};

int warm_create(struct stub_volume *v, struct warm **out)
{
	struct warm *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->volume = v;
	*out = w;
	return 0;
}

static void dir_close(struct warm *w)
{
	if (w->dir)
		closedir(w->dir);
	w->dir = NULL;
}

void warm_destroy(struct warm *w)
{
	if (!w)
		return;
	dir_close(w);
	free(w);
}

static void drop(struct warm *w, unsigned int i)
{
	memmove(w->dirs + i, w->dirs + i + 1, (--w->n - i) * sizeof(w->dirs[0]));
}

/* Put it on top; if there are too many the oldest goes. */
static void put(struct warm *w, const struct stub_handle *h)
{
	for (unsigned int i = 0; i < w->n; i++) {
		if (stub_handle_equal(&w->dirs[i].h, h)) {
			drop(w, i);
			break;
		}
	}
	if (w->n == STUB_HEAT_PLACES)
		drop(w, 0);
	w->dirs[w->n++] = (struct place){ .h = *h };
}

static void look(struct warm *w, uint64_t now_ms)
{
	struct stub_heat told[STUB_HEAT_PLACES];
	int n;

	if (now_ms < w->look_at_ms)
		return;
	w->look_at_ms = now_ms + LOOK_MS;
	n = stub_heat_get(stub_volume_fd(w->volume), w->seen, told);
	if (n <= 0)
		return;
	/* what is being gone through goes on after these, from its beginning */
	if (w->dir && !stub_handle_equal(&w->h, &told[n - 1].h)) {
		put(w, &w->h);
		dir_close(w);
	}
	for (int i = 0; i < n; i++)
		put(w, &told[i].h);
	w->seen = told[n - 1].number;
}

/* The next name of the directory: 1 if it is pending, and *out; 0: it is not; -errno; -ENOENT:
 * there is no name any more. */
static int step(struct warm *w, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	struct dirent *d = names_next(w->dir);
	struct stub_handle h;
	int fd, r;

	if (!d)
		return -ENOENT;
	fd = names_open(w->dir, d->d_name, 0, &h);
	if (fd < 0)
		return 0;
	close(fd);
	r = queue_ask(q, &h, false, now_ms, out);
	return r == QUEUE_RESTS ? 0 : r;
}

static void dir_open(struct warm *w, const struct stub_handle *h)
{
	w->h = *h;
	w->dir = names_of(w->volume, h);
}

/*
 * Open the next directory that is listed.  1: *out is one that has to be first; 0; -errno.
 *
 * Each is asked for: one that was made by a look-up has no entry in the journal, and its record
 * cannot be read by whom the unit starts (trusted attributes want CAP_SYS_ADMIN).  If it is listed
 * already the retriever says so at once.
 */
static int open_next(struct warm *w, struct queue *q, uint64_t now_ms,
		     struct stub_journal_entry *out)
{
	for (unsigned int i = w->n; i-- > 0 && !w->dir;) {
		struct place *p = &w->dirs[i];
		int r = 0;

		if (now_ms < p->again_ms)
			continue;
		if (!p->asked)
			r = queue_ask(q, &p->h, true, now_ms, out);
		if (r < 0)
			return r;
		p->asked = true;
		if (r == 1 || queue_flies(q, &p->h)) {
			p->again_ms = now_ms + AGAIN_MS;
			if (r == 1)
				return 1;
			continue;
		}
		dir_open(w, &p->h);
		drop(w, i);
	}
	return 0;
}

int warm_next(struct warm *w, struct queue *q, uint64_t now_ms, struct stub_journal_entry *out)
{
	look(w, now_ms);
	for (unsigned int i = 0; i < STEPS; i++) {
		int r;

		if (!w->dir) {
			r = open_next(w, q, now_ms, out);
			if (r != 0 || !w->dir)
				return r;
		}
		r = step(w, q, now_ms, out);
		if (r == -ENOENT)
			dir_close(w);
		else if (r != 0)
			return r;
	}
	return 0;
}
