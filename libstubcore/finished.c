/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * finished.c - a note of each object that is normal: .postcopy/finished.
 *
 * Nothing of us is left at an object that is finished, and no operation on it tells us
 * anything.  So who compares it with the source later could not tell a client's change from
 * a damage.  The note has the change time that the inode had at the moment in which we let it
 * go: as long as it has that one, nobody has changed it (docs/decisions/0064).
 *
 * A sparse file with a place for each inode number, written by the retriever alone, never
 * read by servers.  It is advice: a note that cannot be written, or was lost in a crash, is
 * none, and then nothing is known of the object.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "volume.h"

#define SLOT	  64
#define MAGIC	  0x316e666370ull /* "pcfn1" */

enum { /* byte 4 of a slot */
	HAS = 1,
	CHANGED = 2, /* clients had changed it before */
	UNSURE = 4,  /* perhaps they had */
	SPLIT = 8,   /* it has fewer names than at the source, and that was told */
};

/*
 * A slot, little endian:
 *    0 u32 sum of the inode's handle   4 u8 flags   5 zeros   8 i64 seconds   16 u32 nanoseconds
 *   20 u32 number of the comparison that has found it right   24 u64 file id at the source
 *   32 zeros
 * Slot 0, which no inode has: u64 magic, u32 version 1.
 */
int stub_finished_create(int dirfd)
{
	int fd CLEANUP_CLOSE = openat(dirfd, STUB_FINISHED,
				      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint8_t slot[SLOT] = { 0 };

	if (fd < 0)
		return -errno;
	stub_put_le(slot, MAGIC, 8);
	stub_put_le(slot + 8, 1, 4);
	return stub_io_pwrite(fd, slot, sizeof(slot), 0);
}

static int open_finished(const struct stub_volume *v, int flags)
{
	uint8_t slot[SLOT];
	int fd = openat(v->dir_fd, STUB_FINISHED, flags | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (pread(fd, slot, sizeof(slot), 0) == sizeof(slot) && stub_get_le(slot, 8) == MAGIC &&
	    stub_get_le(slot + 8, 4) == 1)
		return fd;
	close(fd);
	return -EBADMSG;
}

/* The one descriptor of this process, opened when it is first needed; -errno. */
static int finished_fd(struct stub_volume *v)
{
	int none = -1, fd = atomic_load(&v->finished_fd);

	if (fd >= 0)
		return fd;
	fd = open_finished(v, O_RDWR);
	if (fd >= 0 && !atomic_compare_exchange_strong(&v->finished_fd, &none, fd)) {
		close(fd);
		fd = none;
	}
	return fd;
}

void stub_finished_note(struct stub_volume *v, int fd, uint64_t fileid, unsigned int flags,
			const struct stub_digest *digest)
{
	int notes = finished_fd(v);
	uint8_t slot[SLOT] = { 0 };
	struct stub_handle h;
	struct stat st;
	uint64_t at;

	if (fstat(fd, &st) < 0 || stub_handle_of_fd(fd, &h) < 0)
		return;
	at = stub_slot(v->only_named, st.st_ino);
	if (at == 0)
		return;
	if (digest)
		stub_digest_put(v, st.st_ino, &h, digest);
	if (notes < 0)
		return;
	stub_put_le(slot, stub_handle_sum(&h), 4);
	slot[4] = (uint8_t)(HAS | (flags & STUB_FINISHED_CHANGED ? CHANGED : 0) |
			    (flags & STUB_FINISHED_UNSURE ? UNSURE : 0) |
			    (flags & STUB_FINISHED_SPLIT ? SPLIT : 0));
	stub_put_le(slot + 8, (uint64_t)st.st_ctim.tv_sec, 8);
	stub_put_le(slot + 16, (uint64_t)st.st_ctim.tv_nsec, 4);
	stub_put_le(slot + 24, fileid, 8);
	stub_io_pwrite(notes, slot, sizeof(slot), at * SLOT);
}

void stub_finished_record(struct stub_volume *v, int fd, const struct stub_record *rec, bool split)
{
	/* A change time of the source that is ahead of our clock was shown as ours. */
	int since = stub_time_cmp(rec->ctime, rec->src_ctime);

	stub_finished_note(v, fd, rec->fileid,
			   (since > 0 ? STUB_FINISHED_CHANGED : 0) |
				   (since < 0 ? STUB_FINISHED_UNSURE : 0) |
				   (split ? STUB_FINISHED_SPLIT : 0),
			   NULL);
}

void stub_finished_name(struct stub_volume *v, int dir_fd, const char *name, uint64_t fileid)
{
	int fd CLEANUP_CLOSE = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		stub_finished_note(v, fd, fileid, 0, NULL);
}

STUB_PUBLIC int stub_finished_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
				  struct stub_finished *out)
{
	uint64_t at = stub_slot(v->only_named, ino);
	int notes = finished_fd(v);
	uint8_t slot[SLOT];
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (notes < 0)
		return notes;
	if (at == 0)
		return -ENOENT;
	n = pread(notes, slot, sizeof(slot), (off_t)(at * SLOT));
	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(slot) || !(slot[4] & HAS) ||
	    stub_get_le(slot, 4) != stub_handle_sum(h))
		return -ENOENT;
	out->changed = slot[4] & CHANGED;
	out->unsure = slot[4] & UNSURE;
	out->split = slot[4] & SPLIT;
	out->ctime.tv_sec = (time_t)stub_get_le(slot + 8, 8);
	out->ctime.tv_nsec = (long)stub_get_le(slot + 16, 4);
	out->right_in = (uint32_t)stub_get_le(slot + 20, 4);
	out->fileid = stub_get_le(slot + 24, 8);
	return 0;
}

STUB_PUBLIC int stub_finished_right(struct stub_volume *v, uint64_t ino, uint32_t number)
{
	uint64_t at = stub_slot(v->only_named, ino);
	int notes = finished_fd(v);
	uint8_t bytes[4];

	if (notes < 0)
		return notes;
	if (at == 0)
		return -ENOENT;
	stub_put_le(bytes, number, 4);
	return stub_io_pwrite(notes, bytes, sizeof(bytes), at * SLOT + 20);
}
