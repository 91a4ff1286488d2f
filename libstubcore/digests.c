/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * digests.c - digests of what the old server has given: .postcopy/digests.
 *
 * What a digest is of, and how it is made, the retriever says (retriever/digest/digest.h); here
 * it is 32 bytes.  It goes with the size and the write time of the version whose bytes they
 * were, so it says something of the source, and nothing of the disk: it stays true whatever
 * clients do, and whatever a crash leaves.  Whether the disk should have those bytes is known by
 * the note of finished.c (docs/decisions/0074).
 *
 * A sparse file with a place for each inode number, as that of finished.c; written by the
 * retriever, and by a comparison with the source, each place as a whole.  It is advice: a digest
 * that was lost, or is another inode's, is none.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "volume.h"

#define SLOT	  64
#define MAGIC	  0x3167646370ull /* "pcdg1" */
#define KIND	  1		  /* SHA-256, of parts of 64 KiB */

/*
 * A slot, little endian:
 *    0 u32 sum of the inode's handle and of all that follows   4 u8 kind, 0: no digest   5 zeros
 *    8 u64 size   16 i64 seconds   24 u32 nanoseconds   28 zeros   32 digest
 * Slot 0, which no inode has: u64 magic, u32 version 1.  Nothing is synced, so a power cut may
 * leave zeros there beside places that are whole: each of these vouches for itself.
 */
static uint32_t sum_of(const uint8_t slot[SLOT], const struct stub_handle *h)
{
	uint32_t handle = stub_handle_sum(h);
	uint64_t sum = stub_fnv(STUB_FNV, &handle, sizeof(handle));

	sum = stub_fnv(sum, slot + 4, SLOT - 4);
	return (uint32_t)(sum ^ sum >> 32);
}

static int check_header(int fd, bool write)
{
	static const uint8_t none[SLOT];
	uint8_t slot[SLOT] = { 0 };

	if (pread(fd, slot, sizeof(slot), 0) < 0)
		return -errno;
	if (!memcmp(slot, none, sizeof(slot))) {
		stub_put_le(slot, MAGIC, 8);
		stub_put_le(slot + 8, 1, 4);
		return write ? stub_io_pwrite(fd, slot, sizeof(slot), 0) : 0;
	}
	return stub_get_le(slot, 8) == MAGIC && stub_get_le(slot + 8, 4) == 1 ? 0 : -EBADMSG;
}

/* The one descriptor of this process, opened when it is first needed; -errno. */
static int digests_fd(struct stub_volume *v, bool create)
{
	int r, none = -1, fd = atomic_load(&v->digests_fd);

	if (fd >= 0)
		return fd;
	fd = openat(v->dir_fd, STUB_DIGESTS,
		    O_RDWR | (create ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = check_header(fd, create);
	if (r == 0 && atomic_compare_exchange_strong(&v->digests_fd, &none, fd))
		return fd;
	close(fd);
	return r < 0 ? r : none;
}

STUB_PUBLIC int stub_digest_put(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
				const struct stub_digest *d)
{
	uint64_t at = stub_slot(v->only_named, ino);
	uint8_t slot[SLOT] = { [4] = KIND };
	int fd;

	if (at == 0)
		return -ERANGE;
	fd = digests_fd(v, true);
	if (fd < 0)
		return fd;
	stub_put_le(slot + 8, d->size, 8);
	stub_put_le(slot + 16, (uint64_t)d->mtime.tv_sec, 8);
	stub_put_le(slot + 24, (uint64_t)d->mtime.tv_nsec, 4);
	memcpy(slot + 32, d->digest, STUB_DIGEST);
	stub_put_le(slot, sum_of(slot, h), 4);
	return stub_io_pwrite(fd, slot, sizeof(slot), at * SLOT);
}

STUB_PUBLIC int stub_digest_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
				struct stub_digest *out)
{
	uint64_t at = stub_slot(v->only_named, ino);
	int fd = digests_fd(v, false);
	uint8_t slot[SLOT];
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return fd;
	if (at == 0)
		return -ENOENT;
	n = pread(fd, slot, sizeof(slot), (off_t)(at * SLOT));
	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(slot) || slot[4] != KIND || stub_get_le(slot, 4) != sum_of(slot, h))
		return -ENOENT;
	out->size = stub_get_le(slot + 8, 8);
	out->mtime.tv_sec = (time_t)stub_get_le(slot + 16, 8);
	out->mtime.tv_nsec = (long)stub_get_le(slot + 24, 4);
	memcpy(out->digest, slot + 32, STUB_DIGEST);
	return 0;
}

void stub_digest_forget(struct stub_volume *v, uint64_t ino)
{
	static const uint8_t none[SLOT];
	uint64_t at = stub_slot(v->only_named, ino);
	int fd = digests_fd(v, false);
	struct stat st;

	if (fd >= 0 && at > 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size > at * SLOT)
		stub_io_pwrite(fd, none, sizeof(none), at * SLOT);
}
