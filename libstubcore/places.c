/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * places.c - where objects are at the mirror: .postcopy/mirror/places (docs/decisions/0092).
 *
 * A sparse file with a slot for each inode number, as that of finished.c; written by the
 * retriever (way back) and by the replicator, each slot as a whole.  It is advice: without a slot,
 * or with one that is torn or another inode's, an object is made anew over there.  Slots are of a
 * size that divides a page, so that who reads one never meets half of a write.
 *
 * On the way back a stub's place is in its record, too, and is found there if a power cut has taken the slot;
 * the slot is written once more before the sync after which the record goes (finish.c).  What never gets a
 * record has a slot that is synced before its name is there (list.c).
 */
#include <fcntl.h>

#include "volume.h"

#define FILE_NAME "places"
#define SLOT	  128
#define MAGIC	  0x316c706370ull /* "pcpl1" */
#define HEAD	  16
#define HANDLE	  64 /* bytes of an NFSv3 file handle (RFC 1813) */

/*
 * A slot, little endian:
 *    0 u64 sum of the inode's handle and of all that follows   8 u8 length   9 zeros
 *   16 the handle over there   80 zeros
 * Slot 0, which no inode has: u64 magic, u32 version 1.
 */
static uint64_t sum_of(const uint8_t slot[SLOT], const struct stub_handle *h)
{
	uint64_t sum = stub_fnv(STUB_FNV, h->bytes, h->len);

	return stub_fnv(sum, slot + 8, SLOT - 8);
}

int stub_places_make(int dir_fd)
{
	int r, fd CLEANUP_CLOSE =
		openat(dir_fd, FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint8_t slot[SLOT] = { 0 };

	if (fd < 0)
		return -errno;
	stub_put_le(slot, MAGIC, 8);
	stub_put_le(slot + 8, 1, 4);
	r = stub_io_pwrite(fd, slot, sizeof(slot), 0);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

int stub_places_open(int dir_fd)
{
	uint8_t slot[SLOT];
	int fd CLEANUP_CLOSE = openat(dir_fd, STUB_MIRROR "/" FILE_NAME,
				      O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? -EBADMSG : -errno;
	if (!S_ISREG(st.st_mode) || pread(fd, slot, sizeof(slot), 0) != sizeof(slot) ||
	    stub_get_le(slot, 8) != MAGIC || stub_get_le(slot + 8, 4) != 1)
		return -EBADMSG;
	return stub_steal_fd(&fd);
}

STUB_PUBLIC bool stub_place_kept(const struct stub_volume *v)
{
	return v->places_fd >= 0;
}

/* What the record of @h says, if it has one. */
static int of_record(struct stub_volume *v, const struct stub_handle *h, struct stub_origin *out)
{
	int r, fd CLEANUP_CLOSE = v->way_back ? stub_handle_open(v, h, O_PATH) : -ENOENT;
	struct stub_record *rec CLEANUP_FREE = NULL;
	struct stat st;

	if (fd < 0)
		return fd == -ESTALE ? -ENOENT : fd;
	rec = malloc(sizeof(*rec));
	r = rec ? stub_record_load_path(v, fd, h, &st, rec) : -ENOMEM;
	if (r == 0 && (rec->origin.len == 0 || rec->origin.len > HANDLE))
		r = -ENOENT;
	if (r == 0)
		*out = rec->origin;
	return r == -EBADMSG ? -ENOENT : r; /* the record tells nothing */
}

STUB_PUBLIC int stub_place_get(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
			       struct stub_origin *out)
{
	uint64_t at = stub_slot(v->only_named, ino);
	uint8_t slot[SLOT];
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (v->places_fd < 0)
		return v->places_fd;
	if (at == 0)
		return -ENOENT;
	n = pread(v->places_fd, slot, sizeof(slot), (off_t)(at * SLOT));
	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(slot) || stub_get_le(slot, 8) != sum_of(slot, h) ||
	    slot[8] == 0 || slot[8] > HANDLE)
		return of_record(v, h, out);
	out->len = slot[8];
	memcpy(out->bytes, slot + HEAD, out->len);
	return 0;
}

int stub_places_put(int fd, uint64_t at, const struct stub_handle *h, const uint8_t *origin, size_t len)
{
	uint8_t slot[SLOT] = { 0 };

	if (len > HANDLE)
		return -EOVERFLOW;
	if (len == 0)
		return -EINVAL;
	if (at == 0)
		return -ERANGE;
	slot[8] = (uint8_t)len;
	memcpy(slot + HEAD, origin, len);
	stub_put_le(slot, sum_of(slot, h), 8);
	return stub_io_pwrite(fd, slot, sizeof(slot), at * SLOT);
}

STUB_PUBLIC int stub_place_put(struct stub_volume *v, uint64_t ino, const struct stub_handle *h,
			       const uint8_t *origin, size_t len)
{
	if (v->places_fd < 0)
		return v->places_fd == -ENOENT ? 0 : v->places_fd;
	return stub_places_put(v->places_fd, stub_slot(v->only_named, ino), h, origin, len);
}

int stub_place_note(struct stub_volume *v, int fd, const uint8_t *origin, size_t len)
{
	struct stub_handle h;
	struct stat st;
	int r;

	if (!v->way_back || v->places_fd < 0 || len > HANDLE)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	r = stub_handle_of_fd(fd, &h);
	return r < 0 ? r : stub_place_put(v, st.st_ino, &h, origin, len);
}

bool stub_place_alone(const struct stub_volume *v, const struct stub_staged *s)
{
	return v->way_back && s->kind != STUB_STAGED_NONE && !s->journalled && !s->whole;
}

STUB_PUBLIC int stub_place_sync(struct stub_volume *v)
{
	if (v->places_fd < 0)
		return v->places_fd == -ENOENT ? 0 : v->places_fd;
	return fdatasync(v->places_fd) < 0 ? -errno : 0;
}
