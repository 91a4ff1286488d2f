/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * share.c - over SMB an object has no handle, but a path: the one that it has here.  Over there it may have
 * another one for a moment, when it was renamed here and its directory has not been compared yet; so the share
 * is told which file id it must find.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "source/dual_origin.h"
#include "source/posix_acl.h"

#define NAMES_MAX 65536 /* bytes of the names of one object's attributes: the kernel's limit */
#define TAKEN_MAX 1024 /* attributes of one object */
#define PATIENCE  20 /* comparisons in a row in which another object has the path, until it is told */

struct share {
	struct mirror *m;
	struct source *source;
	pthread_mutex_t lock;
	struct share_counts counts; /* under lock */
};

/* ---- what is stored here ---- */

struct stored {
	char *names;
	struct stub_xattr x[TAKEN_MAX];
	size_t n;
};

static void stored_free(struct stored *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		free((void *)s->x[i].value);
	if (s)
		free(s->names);
	free(s);
}

static bool is_taken(const char *name)
{
	return !strncmp(name, "user.", 5) || !strcmp(name, "security.NTACL") || !strcmp(name, POSIX_ACL_ACCESS) ||
	       !strcmp(name, POSIX_ACL_DEFAULT);
}

/* -EAGAIN: it was changed meanwhile; -E2BIG: more than one message holds.  What is empty is none. */
static int take(const struct task *t, struct stored *s, const char *name)
{
	int r = s->n < TAKEN_MAX ? task_xattr(t, name, &s->x[s->n]) : -E2BIG;

	if (r == 0 && s->x[s->n].len)
		s->n++;
	return r;
}

static int stored_load(const struct task *t, struct stored **out)
{
	struct stored *s = calloc(1, sizeof(*s));
	ssize_t len;
	int r = 0;

	if (s)
		s->names = malloc(NAMES_MAX);
	len = s && s->names ? flistxattr(t->fd, s->names, NAMES_MAX) : -1;
	if (len < 0) {
		r = s && s->names ? -errno : -ENOMEM;
		len = 0;
	}
	for (ssize_t at = 0; at < len && r == 0; at += (ssize_t)strlen(s->names + at) + 1)
		if (is_taken(s->names + at))
			r = take(t, s, s->names + at);
	if (r < 0) {
		stored_free(s);
		return r;
	}
	*out = s;
	return 0;
}

/* ---- where it is ---- */

static void leave_out(struct share *s, const char *path)
{
	bool first;

	pthread_mutex_lock(&s->lock);
	first = s->counts.left_out++ == 0;
	snprintf(s->counts.path, sizeof(s->counts.path), "%s", path);
	pthread_mutex_unlock(&s->lock);
	if (first)
		mirror_log(s->m, STUB_LOG_WARN,
			   "a name that SMB has not, or a path that is too long: what only SMB carries is not mirrored "
			   "there; the status counts them");
}

/* In *out its path at the share: 1; 0: it has none there; UNPLACED: none is known now. */
static int path_of(struct task *t, struct stub_origin *out)
{
	struct share *s = t->m->share;
	struct dual_origin own = { .has_path = true };
	struct stub_origin root;
	struct stub_attr attr;
	struct stat st;
	char path[4096];
	int r;

	task_path(t, path, sizeof(path));
	if (!path[0] || (!t->root && (fstatat(stub_volume_fd(t->m->volume), path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
				      st.st_ino != t->st.st_ino || st.st_dev != t->st.st_dev)))
		return UNPLACED;
	r = source_root(s->source, &root, &attr);
	if (r < 0)
		return r;
	own.path = t->root ? "" : path;
	own.path_len = strlen(own.path);
	if (dual_path_speakable(own.path, own.path_len) && dual_path_below(&root, &own, out) == 0)
		return 1;
	leave_out(s, path);
	return 0;
}

/* Is it to be put off?  Whoever waits for what NFS carries need not wait for this, and a path that is not known
 * now is found by others. */
static bool put_off(struct task *t)
{
	if (!t->awaited || t->o.what & STUB_OWED_ATTRS)
		return false;
	t->partly = true;
	return true;
}

static int no_path(struct task *t)
{
	if (t->look) /* it is looked at once more later */
		return AGAIN;
	if (t->awaited) {
		t->partly = true;
		return EQUAL;
	}
	if (S_ISDIR(t->st.st_mode)) /* the kernel knows the paths of all directories that are open */
		return AGAIN;
	return UNPLACED;
}

/* ---- both sides ---- */

static int put(struct task *t, const struct stub_origin *o, uint64_t fileid, bool look, struct target_put *out)
{
	struct target_windows w = { .fileid = fileid, .uid = t->st.st_uid, .gid = t->st.st_gid, .mode = t->st.st_mode };
	struct stored *s;
	int r = stored_load(t, &s);

	if (r < 0)
		return r;
	w.x = s->x;
	w.n = s->n;
	r = target_put(t->m->share->source, o, &w, look, out);
	stored_free(s);
	return r;
}

static const char *what_of(uint32_t differs)
{
	return differs & TARGET_DESCRIPTOR ? "descriptor of Windows" :
	       differs & TARGET_STREAMS	   ? "streams" :
	       differs & TARGET_EAS	   ? "extended attributes" :
					     "DOS attributes";
}

/* Where another object has the path, names are owed; or somebody else has been there, which does not pass by
 * itself. */
static int verdict(struct task *t, int r)
{
	if (r == -ESTALE || r == -ENOENT || r == -ENOTDIR)
		return t->tries < PATIENCE ? AGAIN : -ESTALE;
	return r < 0 ? mirror_verdict(t->m, r) : r;
}

static int compare(struct task *t, uint64_t fileid, bool look, struct target_put *out, bool *asked)
{
	struct stub_origin o;
	int r;

	t->what = "what only SMB carries";
	r = path_of(t, &o);
	if (r == UNPLACED)
		return no_path(t);
	if (r == 1) {
		r = put(t, &o, fileid, look, out);
		*asked = r == 0;
	}
	return verdict(t, r);
}

int share_look(struct task *t, uint64_t fileid, struct shared *out)
{
	struct target_put found = { 0 };
	int r = 0;

	*out = (struct shared){ .asked = false };
	if (!t->m->share || (!S_ISREG(t->st.st_mode) && !S_ISDIR(t->st.st_mode)))
		return EQUAL;
	if (!put_off(t))
		r = compare(t, fileid, true, &found, &out->asked);
	out->differs = found.differs;
	out->in_force = out->asked && found.holds;
	out->holds = out->in_force && !(found.differs & TARGET_DESCRIPTOR);
	if (r == 0 && found.differs && t->look) {
		t->what = what_of(found.differs);
		return DIFFERS;
	}
	return r;
}

int share_make(struct task *t, uint64_t fileid)
{
	struct target_put made = { 0 };
	bool asked = false;
	int r = compare(t, fileid, false, &made, &asked);

	if (r == 0 && made.differs) { /* it is asked again and again, and says so */
		t->what = what_of(made.differs);
		return -EOPNOTSUPP;
	}
	return r;
}

/* ---- life ---- */

int share_create(struct mirror *m, const struct source_config *config, struct share **out)
{
	struct share *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->m = m;
	pthread_mutex_init(&s->lock, NULL);
	r = source_create(config, &s->source);
	if (r < 0) {
		share_destroy(s);
		return r;
	}
	*out = s;
	return 0;
}

void share_stop(struct share *s)
{
	if (s)
		source_stop(s->source);
}

void share_destroy(struct share *s)
{
	if (!s)
		return;
	source_destroy(s->source);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void share_state(struct mirror *m, struct source_state *out)
{
	struct source_state smb;

	source_state(m->target, out);
	if (!m->share)
		return;
	source_state(m->share->source, &smb);
	if (smb.connected)
		return;
	if (out->connected) {
		out->lost_since_ms = smb.lost_since_ms;
		memcpy(out->trouble, smb.trouble, sizeof(out->trouble));
	}
	out->connected = false;
}

void share_reload(struct share *s)
{
	source_reload(s->source);
}

void share_counts(struct share *s, struct share_counts *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->counts;
	pthread_mutex_unlock(&s->lock);
}
