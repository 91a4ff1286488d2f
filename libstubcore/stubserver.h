/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubserver.h - what a file server's plugin does with libstubcore.
 *
 * A plugin, in a page.  stubfront.h puts steps 3 to 6 together to what an operation of a
 * client needs, so that all servers answer alike: use that, and this to know what it does.
 *
 * 1. Open.  For each export or share once, as root: stub_volume_open() with SEARCH, FOLD
 *    and, to keep caches true, NEWS.  -ENOENT: there is nothing to migrate, and the plugin
 *    passes everything through; any other error: do not serve it.  The same once
 *    stub_volume_complete() says yes, which costs a memory read and stays so.
 *
 * 2. Hide.  No client meets .postcopy: not by name (stub_volume_hides_name), not in a
 *    listing, not by a handle of before (stub_volume_hides).
 *
 * 3. Look.  An object is its kernel handle, stub_handle_of_fd(), never its path.
 *    stub_view() says what it needs and how it is shown: these times and this count of names
 *    instead of stat's.  needs 0: it is normal, remember that and never look again.
 *
 * 4. Ask, before the server goes on, for what the operation needs, and look again:
 *      attributes, opening, ACLs      NEEDS_ATTRS     STUB_ASK_ATTR
 *      one name of a directory        NEEDS_ENTRIES   STUB_ASK_LOOKUP
 *      all of them                    NEEDS_ENTRIES   STUB_ASK_LIST
 *      a name goes, or is replaced    NEEDS_ENTRIES   STUB_ASK_LEAVE of its directory
 *      bytes: stub_data_missing()     1               STUB_ASK_DATA
 *    stub_ask() waits as long as this client may; -EAGAIN is the protocol's "try again",
 *    everything else what its comment says.  Opening is not reading: no data for that.  An
 *    entry of a listing whose attributes cannot be had is shown without: stub_withheld().
 *    SEEK: a missing range is data.  If the volume takes no data (-ENOSPC, -EDQUOT, -EROFS,
 *    -EIO), stub_pass() fetches the bytes for this one reader.
 *
 * 5. Change, in a bracket around the local operation:
 *      stub_change_begin(v, handles, n, &c)     directories and objects it is about
 *        write, punch:  stub_change_fits()      -ENOSPC: end, ask for ROOM, begin again
 *        write:         stub_change_clear()     before the bytes are written
 *        link:          stub_change_linking()   before the name is there
 *        ... the operation itself ...
 *        write, punch:  stub_change_written()   if it went well
 *        remove:        stub_change_links()
 *      stub_change_end(&c, result)              what it returns is the client's answer
 *    Never ask inside of one: the fill would wait for us.  A write need not fetch what it
 *    writes around; a truncate is only the bracket.
 *
 * 6. Make durable.  COMMIT, fsync: stub_commit_prepare(), the sync, stub_commit_finish().
 *    A server that answers writes before they are durable notes each (stub_unstable_note)
 *    and takes the notes at the COMMIT (stub_unstable_take).
 *
 * 7. Tell the others: stub_news_post() after each change; a thread in stub_news_wait() drops
 *    from our cache what they have changed.
 *
 * Whatever has STUB_NEEDS_FOREIGN, or cannot be looked at, is an I/O error, never empty or
 * short.
 */
#ifndef STUBSERVER_H
#define STUBSERVER_H

#include "stubtypes.h"

#pragma GCC visibility push(default) /* what libstubcore.so exports */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a server shows ------------------------------------------------ */

/*
 * For a server that shall show the volume @uuid at @path and nothing else, so that an empty
 * mount point is not served in its place.  @v is what stub_volume_open() has found there,
 * NULL: nothing.  Root only.  0: @path is in that volume, or was until its migration ended
 * (stub_volume_remove).
 *   -ENODEV  it is neither: another volume, or the file system is not mounted
 *   -EINVAL  @uuid is not a UUID
 *   -errno   it cannot be told
 */
int stub_volume_expect(const struct stub_volume *v, const char *path, const char *uuid);

/*
 * May a server whose volume is @own (NULL: it has none) show the directory @dir_fd (any
 * descriptor, O_PATH too) of another file system as it is?  0, or why not, with @path
 * (@size bytes, cut off if need be; "" if the kernel does not know) filled:
 *   STUB_FOREIGN_VOLUME  it is, or lies in, another volume, whose root is @path
 *   STUB_FOREIGN_STUB    it is a stub, or may be one, in no volume or in a snapshot of @own
 *                        (whose normal objects may be shown); @path is the directory's
 *   -EACCES (not root), -ENOTDIR, -EIO, -ENOMEM  it cannot be told: no
 */
enum stub_foreign { STUB_FOREIGN_VOLUME = 1, STUB_FOREIGN_STUB };
int stub_dir_foreign(const struct stub_volume *own, int dir_fd, char *path, size_t size);

/* Has the object behind @fd (any descriptor, O_PATH too) a stub record, of any inode?  What
 * has one, and is in no volume that is open, must not be served.  Root only.
 * 1, 0, or -errno. */
int stub_marked(int fd);

/* Must this inode number be hidden from clients (.postcopy/ and the files in it)? */
bool stub_volume_hides(const struct stub_volume *v, uint64_t ino);

/* Is @name, in the directory with the inode number @dir_ino, .postcopy? */
bool stub_volume_hides_name(const struct stub_volume *v, uint64_t dir_ino, const char *name);

/* ---- looking ------------------------------------------------------------ */

enum { /* what an object still needs, a bit set; 0 is a normal object */
	STUB_NEEDS_ATTRS = 1,	/* dummy */
	STUB_NEEDS_ENTRIES = 2, /* unlisted directory */
	STUB_NEEDS_DATA = 4,	/* partial file with missing ranges */
	STUB_NEEDS_NAMES = 8,	/* hard-linked file, not all names made yet */
	STUB_NEEDS_REFUSED = 32, /* directory: listed but for names that were refused here */
	STUB_NEEDS_FINISH = 16, /* nothing from the source any more, but its record is still there */
	STUB_NEEDS_FOREIGN = 64, /* its record is another inode's: the copy of a stub, which nobody
				  * fills.  Never with other bits.  It is shown as it is and may be
				  * removed; all else is an I/O error */
};

/* How a stub must be shown to clients (docs/design.md, invariant 8): these values replace what
 * stat(2) says.  Only valid while needs != 0. */
struct stub_view {
	unsigned int needs;
	struct timespec mtime;
	struct timespec ctime;
	uint32_t nlink;
	uint64_t size; /* directories: the size to show; 0, and for others: stat's */
	/* for the plugins, see stub_withheld(): show it as root's, of mode 0, with type, size and
	 * times as far as they are known */
	bool withheld;
};

/*
 * An object's attributes could not be had: is it to be shown as withheld (docs/decisions/0033)?
 * True for an @error that says something is wrong with it; false for what means later
 * (-EAGAIN, -ENOMEM ...) or gone (-ESTALE, -ENOENT): that is answered as it is.
 */
bool stub_withheld(int error);

/*
 * What is the object behind @h, and how is it shown?  One open_by_handle_at, one
 * getxattr, no lock.
 *   -ESTALE   no such inode
 *   -EBADMSG  the record is damaged: neither stub nor normal; answer an I/O error
 *   -EMFILE, -ENFILE, -ENOMEM, -EIO
 */
int stub_view(struct stub_volume *v, const struct stub_handle *h, struct stub_view *out);
int stub_view_fd(struct stub_volume *v, int fd, struct stub_view *out); /* fd not O_PATH */

/*
 * May [offset, offset+length) be read from the local file now?  No lock is
 * needed: a range that is there once stays there.
 * Returns 1 yes, 0 no (ask for it), or as stub_view; -EBADMSG also if its record is
 * another inode's.  The same holds for all that follows.
 */
int stub_data_ready(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		    uint64_t length);

/* First missing range inside [offset, offset+length): 1 and *out, 0 if none, or
 * as stub_view.  For SEEK: a missing range is data. */
int stub_data_missing(struct stub_volume *v, const struct stub_handle *h, uint64_t offset,
		      uint64_t length, struct stub_range *out);

/* ---- changing ----------------------------------------------------------- */

/* A bracket around one operation of a client on up to four objects.  A struct of zeros is
 * a bracket that has ended and has no objects. */
struct stub_change;

/*
 * The bracket.  begin() locks every object of @h that is a stub against fills and
 * other changes, in all threads and processes; normal objects cost one look and
 * no lock.  Between begin() and end() the caller does the operation on the local
 * file system.  end() brings the records up to date and unlocks; it must be
 * called exactly once after a successful begin(), with the operation's outcome:
 * 0 or -errno (then no more than the maps changes: they are clipped to the file's size).
 * Duplicate handles are allowed; NULL is an object that is absent.
 *
 * end() with result 0:
 *   - times: what the operation moved is shown from now on, ctime always moves
 *   - size: the missing maps are clipped to the file's size (truncate)
 *   - nlink: shown count moves by what stub_change_links() and stub_change_linking() were told
 * and returns 0, or -errno if the records could not be written: then the
 * operation must be answered with that error (-ENOSPC, -EDQUOT, -EIO).
 *
 * begin(): -ESTALE, -EBADMSG, -ENOMEM, -EMFILE; -ENOSPC, -EDQUOT, -EROFS, -EIO: the
 * records could not be stored after the operation.  Nothing is locked then.
 */
int stub_change_begin(struct stub_volume *v, const struct stub_handle *const h[], unsigned int n,
		      struct stub_change *c);
int stub_change_end(struct stub_change *c, int result);

/* A bracket for looking at one object and its missing map, also where nothing can be
 * stored; ended by drop(). */
int stub_change_look(struct stub_volume *v, const struct stub_handle *h, struct stub_change *c);
void stub_change_drop(struct stub_change *c);

/*
 * The calls up to stub_change_clear() are about the objects of an open bracket.  For an
 * absent object, and when the bracket has ended, they say that nothing is missing, and do
 * nothing.
 */

/* Is any object of the bracket a stub? */
bool stub_change_any(const struct stub_change *c);

/* Object @i of the bracket: what does it need (0 = normal), its missing map
 * (valid until end(), NULL for a normal object). */
unsigned int stub_change_needs(const struct stub_change *c, unsigned int i);
const struct stub_map *stub_change_missing(const struct stub_change *c, unsigned int i);

/*
 * Before the operation: it gives object @i, no directory, one more name.  Where names of it are still to
 * come from the source, the record says so before the name is there.
 *   -ENOSPC, -EDQUOT, -EROFS, -EIO  it cannot be stored: then end() is called with that, and nothing
 *                                   else is done
 */
int stub_change_linking(struct stub_change *c, unsigned int i);

/* Object @i has @delta more names (or less) if the operation succeeds: of directories, and of what loses
 * one. */
void stub_change_links(struct stub_change *c, unsigned int i, int delta);

/*
 * Inside the bracket, after a write, punch or zero-range of object @i succeeded:
 * [offset, offset+length) is the client's now and is never fetched again.  Written
 * to disk by end().  If the record is filling up with ranges, c->crowded is set: ask for
 * STUB_ASK_ROOM after the bracket, without waiting, and later writes need not wait.
 *   -ENOSPC  the record has no room for so many ranges.  Call stub_change_fits() before
 *            the operation.
 */
int stub_change_written(struct stub_change *c, unsigned int i, uint64_t offset, uint64_t length);

/* Would stub_change_written() fit the record?  0, or -ENOSPC: ask for STUB_ASK_ROOM,
 * outside the bracket. */
int stub_change_fits(const struct stub_change *c, unsigned int i, uint64_t offset,
		     uint64_t length);

/*
 * Inside the bracket, before a write into [offset, offset+length) of object @i: removes what
 * a failed sync may have left in missing blocks (clear.c).  Moves the local mtime if it
 * removes any.
 *   -EIO, -ENOSPC ...  as of open() and fallocate(): the write must not be tried
 */
int stub_change_clear(const struct stub_change *c, unsigned int i, uint64_t offset,
		      uint64_t length);

/* ---- making durable ----------------------------------------------------- */

/*
 * fsync and COMMIT of a stub (docs/design.md, section 11): prepare(), then the caller makes
 * the file's data durable (fsync), then finish(), which folds the maps and makes
 * the record durable before it returns.  A normal object: both return 0 at once.
 * finish() with result != 0 (the fsync failed) begins a new era.
 *   errors as stub_view; -ENOSPC, -EIO from writing the record
 *   -EAGAIN  finish(): an era has ended meanwhile, or the file's version was given up for
 *            another one (stub_resolve_theirs()); write and commit again
 */
struct stub_commit;
int stub_commit_prepare(struct stub_volume *v, const struct stub_handle *h, struct stub_commit *c);
int stub_commit_finish(struct stub_commit *c, int result);
void stub_commit_drop(struct stub_commit *c); /* instead of finish(): there was no fsync */

/*
 * The era, in which what is present but not durable counts (era.c): a number that changes
 * when a sync fails.  One memory read, no system call.
 */
uint64_t stub_volume_era(const struct stub_volume *v);

/*
 * Writes to stubs that were acknowledged before they are durable, per client (@who, any
 * number).  note() with the era from before the write; take() at the client's COMMIT.
 * take() returns -EIO if the era of a write is over: it may be lost, and the client must
 * hear that.  *era is what to note again if the COMMIT fails otherwise.
 * any() is one memory read: is there anything to take?
 */
void stub_unstable_note(struct stub_volume *v, const struct stub_handle *h, uint64_t who,
			uint64_t era);
int stub_unstable_take(struct stub_volume *v, const struct stub_handle *h, uint64_t who,
		       uint64_t *era);
bool stub_unstable_any(const struct stub_volume *v);

/* ---- news: what other processes have cached ----------------------------- */

enum { /* what has changed, a bit set */
	STUB_NEWS_ATTRS = 1, /* attributes, ACLs, extended attributes */
	STUB_NEWS_NAMES = 2, /* a directory: its entries, and its attributes with them */
	STUB_NEWS_MOVED = 4, /* a directory: its parent is another one */
	STUB_NEWS_UNLINKED = 8, /* a file: a name of it is gone, maybe the last */
};

/*
 * Tell the other processes that have this volume open that the object behind @h has
 * changed.  Call it when the change is made, for each object that it has touched:
 *   write, truncate, setattr, setxattr   the object: ATTRS
 *   create, link                         the directory: NAMES; link: the object: ATTRS
 *   remove                               the directory: NAMES, the object: ATTRS | UNLINKED
 *   rename                               both directories: NAMES; the object, and one that
 *                                        was replaced: ATTRS; a directory that moved:
 *                                        | MOVED; what was replaced: | UNLINKED
 * Does nothing in a volume opened without STUB_OPEN_NEWS, and once it is complete.
 * Takes no lock, never waits, and has no errors: what cannot be told is not told, and
 * caches expire.  No system call but to wake somebody who waits; what this process has
 * posted already, and nobody has taken yet, is not posted again.
 * Only root can open the ring (news_ring.c).  It is opened with the volume, but sometimes has
 * to be opened again: a thread with another user's rights calls stub_news_due() first, and if
 * that is true, posts as root.
 */
void stub_news_post(struct stub_volume *v, const struct stub_handle *h, unsigned int what);

/* Would the next post, now or a little later, open a file?  No system call. */
bool stub_news_due(const struct stub_volume *v);

struct stub_news {
	struct stub_handle h;
	unsigned int what;
	bool own; /* posted through this very struct stub_volume */
};

/* How far one reader has read.  Belongs to one thread; plain memory, nothing to free. */
struct stub_news_reader;

/* Read what is posted from now on. */
void stub_news_begin(struct stub_volume *v, struct stub_news_reader *r);

/*
 * Wait up to @wait_ms (and 20 ms more if a poster is in the middle) for news; they are in
 * @out, at most @max.  *lost: others may have been missed, anything may have changed;
 * what is in @out is good all the same.
 * Returns how many; 0 also after stub_news_wake().
 *   -EINVAL  the volume was opened without STUB_OPEN_NEWS
 */
int stub_news_wait(struct stub_volume *v, struct stub_news_reader *r, unsigned int wait_ms,
		   struct stub_news *out, unsigned int max, bool *lost);

/* All readers of the volume return, in all processes: those who are waiting, and those
 * who begin to wait next.  They look for a reason to end. */
void stub_news_wake(struct stub_volume *v);

/* ---- asking ------------------------------------------------------------- */

enum stub_ask_kind {
	STUB_ASK_LOOKUP = 1, /* materialise one name of an unlisted directory */
	STUB_ASK_LIST = 2,   /* materialise all names */
	STUB_ASK_ATTR = 3,   /* dummy -> partial */
	STUB_ASK_DATA = 4,   /* bytes [offset, offset+length) of a file */
	STUB_ASK_FILL = 5,   /* everything the object needs (the crawler's) */
	STUB_ASK_PASS = 6,   /* bytes of a file, passed on without being stored */
	STUB_ASK_ROOM = 7,   /* the smallest missing ranges, to make room in the record */
	STUB_ASK_LEAVE = 8,  /* LIST before a name is removed: also with the room kept for that */
};

#define STUB_PASS_MAX (1u << 20) /* bytes of one PASS */
#define STUB_WHO_MAX  80	 /* bytes of who an ask is for, without the NUL */

struct stub_ask {
	enum stub_ask_kind kind;
	struct stub_handle h;
	uint64_t offset; /* DATA, PASS */
	uint64_t length;
	const char *name; /* LOOKUP: bytes */
	size_t name_len;
	char who[STUB_WHO_MAX + 1]; /* stub_who(), for the recall budget; "": nobody's (crawler) */
	uint32_t id; /* its name in all logs, stub_ask_id(); 0: the library gives it one when sent */
};

/* A name for an ask, so that one that is sent again keeps it: unlike that of all others that
 * this volume's user asks, and most likely that of anybody on this machine.  Never 0. */
uint32_t stub_ask_id(struct stub_volume *v);

/* An ask in words, for a line at level debug: kind, type and bytes of the handle, name, range,
 * for whom.  All that fits @size bytes; STUB_ASK_TEXT is enough. */
#define STUB_ASK_TEXT 1600
void stub_ask_text(const struct stub_ask *ask, char *out, size_t size);

/* A result of stub_ask(), 0 or -errno, in a word. */
const char *stub_result_text(int result);

/*
 * Who an ask is for, in printable ASCII: "user@address".  A @user that is NULL, too long,
 * or not printable ASCII becomes "#uid"; an IPv4 address has one form.  Same client and
 * user, same bytes.
 */
void stub_who(char who[STUB_WHO_MAX + 1], const char *user, uint32_t uid, const char *address);

/*
 * Ask the retriever and wait up to @wait_ms.  The work goes on when the wait ends.
 *   0           done: look again
 *   -EAGAIN     not done in time, a part of it is done (FILL of a large file), or no
 *               retriever is running: ask again later
 *   -ENOENT     LOOKUP: the old server has no such name
 *   -EREMOTEIO  the source's policy limit is over, or the object is parked: an
 *               I/O error for the client; nothing on disk changed
 *   -ENOSPC     the new volume is full: the object stays a stub (before a removal: ask for
 *               the name alone, then for LEAVE)
 *   -EDQUOT, -EROFS, -EIO   likewise: the volume takes no data for another reason
 *   -ESTALE     no such inode, or it is in no volume of this retriever
 *   -EINVAL     the ask makes no sense (name with '/', "..", too long)
 */
int stub_ask(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms);

/*
 * What the volume cannot store, straight from the old server: for after an answer
 * -ENOSPC, -EDQUOT, -EROFS or -EIO to DATA.  @ask is a PASS of bytes that are missing.
 * *fd is a sealed memory file of ask->length bytes, the caller's to close; its byte 0
 * is that at ask->offset.  Valid where the object's map, under its exclusion, still
 * says missing, and nowhere else.
 *   as stub_ask(); -EINVAL: the range is not within the file
 */
int stub_pass(struct stub_volume *v, const struct stub_ask *ask, unsigned int wait_ms, int *fd);

/* The same in two steps, for many asks in flight on one connection (the crawler)
 * or an event loop (smbd).  A link belongs to one thread. */
struct stub_link;
int stub_link_create(struct stub_volume *v, struct stub_link **out); /* -EAGAIN: no retriever */
void stub_link_destroy(struct stub_link *l);
int stub_link_fd(const struct stub_link *l); /* poll for POLLIN */
/* -EAGAIN: the retriever has gone; destroy and create anew.  *id names the answer. */
int stub_link_send(struct stub_link *l, const struct stub_ask *ask, uint32_t *id);
/* 1: an answer, its result as stub_ask's in *result; 0: none within wait_ms; -EAGAIN: gone */
int stub_link_receive(struct stub_link *l, unsigned int wait_ms, uint32_t *id, int *result);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#include "stubinside.h"

#endif
