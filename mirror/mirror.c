/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mirror.c - what all rooms need: to owe, the mirror's root, what its errors mean.
 *
 * The root's place is kept as all places are.  A mirror whose root is another one is taken for
 * gone: a disk that is not mounted over there looks just so, and what is below it must neither be
 * filled nor be taken for a mirror from which everything was removed.
 */
#include "mirror.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rounds.h"

int mirror_log(const struct mirror *m, enum stub_log_level level, const char *fmt, ...)
{
	char line[STUB_LOG_MAX + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (m->log)
		m->log(m->log_arg, level, line);
	return 0;
}

int mirror_owe(struct mirror *m, const struct stub_handle *by, const struct stub_owed *o, size_t n)
{
	int r = stub_ledger_put(m->ledger, o, n);

	if (r == 0)
		rounds_add(m->rounds, by, o, n);
	return r;
}

int mirror_owe_one(struct mirror *m, const struct stub_handle *h, uint32_t what)
{
	struct stub_owed o = { .h = *h, .what = what };

	return mirror_owe(m, NULL, &o, 1);
}

bool mirror_same(const struct mirror *m, const struct stub_origin *a, const struct stub_origin *b)
{
	size_t la, lb;
	const uint8_t *ia = source_inode(m->target, a, &la), *ib = source_inode(m->target, b, &lb);

	return la == lb && !memcmp(ia, ib, la);
}

/* Is @root the one that it was?  The first one is noted. */
static int root_known(struct mirror *m, const struct stub_origin *root)
{
	const struct stub_handle *h = stub_volume_root(m->volume);
	uint64_t ino = stub_volume_root_ino(m->volume);
	struct stub_origin kept;
	int r = stub_place_get(m->volume, ino, h, &kept);
	bool wrong = r == 0 && !mirror_same(m, &kept, root);

	if (wrong && !m->root_wrong)
		mirror_log(m, STUB_LOG_ERROR, "the mirror's root is another directory than before: is its "
					      "disk mounted, and is it exported as it was? nothing is written there");
	m->root_wrong = wrong;
	if (r == 0)
		return wrong ? AWAY : EQUAL;
	if (r != -ENOENT)
		return r;
	r = stub_place_put(m->volume, ino, h, root->bytes, root->len);
	return r == 0 ? stub_place_sync(m->volume) : r;
}

int mirror_root(struct mirror *m, struct stub_origin *out)
{
	struct stub_attr attr;
	int r = 0;

	pthread_mutex_lock(&m->root_lock);
	if (!m->root.len) {
		r = source_root(m->target, out, &attr);
		r = r < 0 ? AWAY : root_known(m, out);
		if (r == 0)
			m->root = *out;
	}
	if (r == 0)
		*out = m->root;
	pthread_mutex_unlock(&m->root_lock);
	return r;
}

bool mirror_has_all(const struct mirror *m)
{
	struct stub_journal_counts n;

	return m->conf.kind == STUB_MIRROR_BACKUP ||
	       (m->journal && stub_journal_counts(m->journal, &n) == 0 && !n.total);
}

/* A place is not valid.  The object's own, or is it the mirror as a whole? */
static int stale(struct mirror *m)
{
	struct stub_origin root;
	struct stub_attr attr;
	int r = source_verify(m->target);

	if (r == 0)
		r = mirror_root(m, &root);
	if (r == 0)
		r = source_getattr(m->target, SOURCE_BACKGROUND, &root, &attr);
	if (r == 0)
		return UNPLACED;
	pthread_mutex_lock(&m->root_lock);
	m->root.len = 0;
	pthread_mutex_unlock(&m->root_lock);
	return AWAY;
}

int mirror_verdict(struct mirror *m, int error)
{
	switch (error) {
	case -ESTALE:
		return stale(m);
	case -ETIMEDOUT:
	case -ENOMEDIUM:
	case -ECANCELED:
	case -EROFS:
		return AWAY;
	case -ENOSPC:
	case -EDQUOT:
		return FULL;
	case -EINPROGRESS:
	case -EAGAIN:
	case -ENOMEM:
		return AGAIN;
	default:
		return error;
	}
}

int mirror_keep_places(struct mirror *m)
{
	int r = 0;

	pthread_mutex_lock(&m->places_lock); /* also while another one's sync is under way */
	if (atomic_exchange(&m->places_new, false))
		r = stub_place_sync(m->volume);
	if (r < 0)
		atomic_store(&m->places_new, true);
	pthread_mutex_unlock(&m->places_lock);
	return r;
}

void mirror_lock_ino(struct mirror *m, uint64_t ino)
{
	pthread_mutex_lock(&m->ino_lock[ino % MIRROR_INO_LOCKS]);
}

void mirror_unlock_ino(struct mirror *m, uint64_t ino)
{
	pthread_mutex_unlock(&m->ino_lock[ino % MIRROR_INO_LOCKS]);
}
