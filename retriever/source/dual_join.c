// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * dual_join.c - what the share knows of an object that NFS knows.
 *
 * What the share says is only taken if it is the same object: see same_object().  Otherwise
 * the object gets NFS's attributes alone, and that is logged.  While the share cannot be
 * reached, filling waits: without its descriptor, an object could be open to people whom the
 * descriptor keeps out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "source/dual.h"

#define SHOWN_MAX 200 /* bytes of a path in a log line */
#define TRIES	  3 /* to find an object unchanged between two looks */

/* Where the share begins, and whether the two servers count files alike.  Waits for both. */
static int know(struct dual_source *d, struct stub_origin *smb_root, bool *same_ids)
{
	struct stub_origin nfs, smb;
	struct stub_attr a, b;
	bool known;
	int r;

	pthread_mutex_lock(&d->lock);
	known = d->known;
	*smb_root = d->smb_root;
	*same_ids = d->same_ids;
	pthread_mutex_unlock(&d->lock);
	if (known)
		return 0;
	r = source_root(d->nfs, &nfs, &a);
	if (r == 0)
		r = source_root(d->smb, &smb, &b);
	if (r < 0)
		return r;
	*smb_root = smb;
	*same_ids = a.fileid == b.fileid;
	pthread_mutex_lock(&d->lock);
	d->known = true;
	d->smb_root = *smb_root;
	d->same_ids = *same_ids;
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* An object is not joined: count it, and log why. */
static void tell(struct dual_source *d, const struct dual_origin *o, const char *why)
{
	char line[sizeof(d->mismatch)], path[SHOWN_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < o->path_len && n + 4 < sizeof(path); i++) {
		unsigned char c = (unsigned char)o->path[i];

		if (c < ' ' || c > '~' || c == '\\')
			n += (size_t)snprintf(path + n, sizeof(path) - n, "\\x%02x", c);
		else
			path[n++] = (char)c;
	}
	path[n] = '\0';
	snprintf(line, sizeof(line), "\"%s\": not joined: %s", path, why);
	pthread_mutex_lock(&d->lock);
	d->mismatches++;
	memcpy(d->mismatch, line, sizeof(line));
	pthread_mutex_unlock(&d->lock);
	stub_log_to(d->log, d->log_arg, STUB_LOG_WARN, "%s", line);
}

/* Times of SMB count in units of 100 ns, those of NFSv3 in 32 bits of seconds. */
static bool same_time(struct timespec a, struct timespec b)
{
	return (uint32_t)a.tv_sec == (uint32_t)b.tv_sec && a.tv_nsec / 100 == b.tv_nsec / 100;
}

/*
 * If the roots have the same file id at both servers, so must all objects.  If the servers
 * number files differently, it is enough that size and write time agree.
 */
static bool same_object(const struct stub_attr *nfs, const struct stub_attr *smb, bool same_ids,
			char *why, size_t size)
{
	if ((nfs->mode & S_IFMT) != (smb->mode & S_IFMT))
		snprintf(why, size, "over SMB it is of another type");
	else if (same_ids && nfs->fileid != smb->fileid)
		snprintf(why, size, "file id %" PRIu64 ", over SMB %" PRIu64, nfs->fileid,
			 smb->fileid);
	else if (!same_ids && S_ISREG(nfs->mode) && nfs->size != smb->size)
		snprintf(why, size, "%" PRIu64 " bytes, over SMB %" PRIu64, nfs->size, smb->size);
	else if (!same_ids && !same_time(nfs->mtime, smb->mtime))
		snprintf(why, size, "written at %lld, over SMB at %lld",
			 (long long)nfs->mtime.tv_sec, (long long)smb->mtime.tv_sec);
	else
		return true;
	return false;
}

/* Does the share not have the object?  Then only NFS is asked. */
static bool not_there(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ESTALE ||
	       error == -ENAMETOOLONG || error == -EINVAL;
}

/* Is SMB's time the better one?  It is if NFSv3 cannot express it and @nfs is what a server makes
 * of it then: its lower 32 bits, or the nearest end of the range.  Else *smb becomes @nfs. */
static bool better(struct timespec nfs, struct timespec *smb)
{
	bool beyond = smb->tv_sec < 0 || smb->tv_sec > (time_t)UINT32_MAX;
	time_t end = smb->tv_sec < 0 ? 0 : UINT32_MAX;

	if (beyond && (nfs.tv_sec == (time_t)(uint32_t)smb->tv_sec || nfs.tv_sec == end ||
		       (end && nfs.tv_sec == INT32_MAX)))
		return true;
	*smb = nfs;
	return false;
}

/* Make m->attr NFS's attributes, but with owner and mode as they were made with the descriptor:
 * the NT ACL that is stored is tied to exactly these by a hash. */
static void merge(const struct stub_attr *nfs, struct source_meta *m)
{
	struct stub_attr all = *nfs;
	bool atime, mtime;

	m->times[0] = m->attr.atime;
	m->times[1] = m->attr.mtime;
	atime = better(nfs->atime, &m->times[0]);
	mtime = better(nfs->mtime, &m->times[1]);
	m->has_times = atime || mtime;
	all.mode = (nfs->mode & S_IFMT) | (m->attr.mode & 07777);
	all.uid = m->attr.uid;
	all.gid = m->attr.gid;
	all.acl = false; /* the ACL comes with the descriptor */
	all.time_unsure = false; /* SMB's times have 64 bits */
	m->attr = all;
}

/* Attributes of an object that is not joined. */
static int nfs_alone(struct dual_source *d, enum source_priority p, const struct dual_origin *own,
		     struct stub_attr *out)
{
	int r = source_getattr(d->nfs, p, &own->nfs, out);

	return r < 0 ? r : source_rights(d->nfs, p, &own->nfs, out);
}

/* What the share says of the object, merged with @nfs; or @nfs alone, and @why. */
static int ask_share(struct dual_source *d, enum source_priority p, const struct stub_origin *there,
		     const struct stub_attr *nfs, bool same_ids, struct source_meta *out, char *why,
		     size_t size)
{
	int r = d->smb->ops->meta(d->smb, p, there, nfs, out);

	*why = '\0';
	if (r == 0 && same_object(nfs, &out->attr, same_ids, why, size)) {
		merge(nfs, out);
		return 0;
	}
	if (r < 0 && !not_there(r))
		return r;
	if (r < 0)
		snprintf(why, size, "the share does not have it");
	source_meta_free(out);
	out->attr = *nfs;
	return 0;
}

static bool unchanged(const struct stub_attr *a, const struct stub_attr *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size &&
	       a->fsid == b->fsid && a->fileid == b->fileid &&
	       !memcmp(&a->mtime, &b->mtime, sizeof(a->mtime)) &&
	       !memcmp(&a->ctime, &b->ctime, sizeof(a->ctime));
}

/*
 * The share is asked between two looks at the NFS handle.  While that is valid, no other file
 * gets its inode: so what had the same file id in between was this object, and its descriptor
 * belongs to the mode and owner that it is stored with.  If the object changes with every try,
 * the last answer is taken: it will be found changed when its data comes.
 */
static int ask_both(struct dual_source *d, enum source_priority p, const struct dual_origin *own,
		    const struct stub_origin *there, bool same_ids, struct source_meta *out,
		    char *why, size_t size)
{
	struct stub_attr before, seen, after;
	int r;

	for (unsigned int i = 0; i < TRIES; i++) {
		source_meta_free(out);
		r = source_getattr(d->nfs, p, &own->nfs, &before);
		seen = before;
		if (r == 0) /* this mode is used if there is no descriptor, or it is not joined */
			r = source_rights(d->nfs, p, &own->nfs, &seen);
		if (r == 0)
			r = ask_share(d, p, there, &seen, same_ids, out, why, size);
		if (r == 0)
			r = source_getattr(d->nfs, p, &own->nfs, &after);
		if (r < 0 || unchanged(&before, &after))
			break;
	}
	return r;
}

int dual_meta(struct source *base, enum source_priority p, const struct stub_origin *o,
	      const struct stub_attr *as, struct source_meta *out)
{
	struct dual_source *d = dual_of(base);
	struct stub_origin smb_root, there;
	struct dual_origin own;
	bool same_ids = false;
	char why[128] = "";
	int r = dual_origin_decode(o, &own);

	(void)as;
	if (r == 0)
		r = know(d, &smb_root, &same_ids);
	if (r < 0)
		return r;
	if (!own.has_path || dual_path_below(&smb_root, &own, &there) < 0) {
		r = nfs_alone(d, p, &own, &out->attr);
		snprintf(why, sizeof(why), "its path is too long (file id %" PRIu64 ")",
			 out->attr.fileid);
	} else if (!dual_path_speakable(own.path, own.path_len)) {
		r = nfs_alone(d, p, &own, &out->attr);
		snprintf(why, sizeof(why), "SMB has no such names");
	} else {
		r = ask_both(d, p, &own, &there, same_ids, out, why, sizeof(why));
	}
	if (r == 0 && *why)
		tell(d, &own, why);
	return r;
}

int64_t dual_stream(struct source *base, enum source_priority p, const struct stub_origin *o,
		    const char *name, uint64_t offset, void *buf, uint32_t length, uint64_t *size)
{
	struct dual_source *d = dual_of(base);
	struct stub_origin smb_root, there;
	struct dual_origin own;
	bool same_ids;
	int r = dual_origin_decode(o, &own);

	if (r == 0)
		r = know(d, &smb_root, &same_ids);
	if (r < 0)
		return r;
	if (!own.has_path || dual_path_below(&smb_root, &own, &there) < 0)
		return -ESTALE;
	return d->smb->ops->stream(d->smb, p, &there, name, offset, buf, length, size);
}
