/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * stubfront.h - what every server does for its clients, once for all servers.
 *
 * stubcore.h has the single steps: look, ask, change.  Here they are put together to what
 * an operation of a client needs, so that the servers' plugins answer alike:
 *
 *   gate     what is the server's own: may this call wait, whose rights are these, who asks
 *   front    an object, for the time of one call
 *   need     what must have come before an operation; a step function says what to ask next
 *   bracket  around a change
 *   sync     around making durable what was written
 *   seek, pass  data of what is not all here
 *
 * A plugin is left with the identity of its objects, its errors, and its server's structures.
 *
 * A gate and what is known of an object are used by all threads at once; the rest belongs to
 * one call.  Nothing here waits for the old server inside a bracket.  Where nothing is to be
 * migrated, or an object is known to be normal, nothing here does a system call.  Errors are
 * those of stubcore.h, none else.
 */
#ifndef STUBFRONT_H
#define STUBFRONT_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "stubcore.h"

/* ---- gate ------------------------------------------------------------------- */

struct stub_gate;

/* What one call may still wait for the old server.  Zeroed to start. */
struct stub_wait {
	bool begun;
	uint64_t until; /* ms, stub_now_ms() */
	/* who asks cannot come again, so that attributes which do not come in time are shown as
	 * withheld, and not waited for at all where no retriever runs (an entry of a listing) */
	bool once;
	unsigned int place; /* the server's own, from wait_begin() to wait_end() */
};

/* The server's. */
struct stub_gate_ops {
	/* As root from here on.  The result is for leave(), which keeps errno.  Both NULL: this
	 * process is root all the time. */
	bool (*enter)(struct stub_gate *g);
	void (*leave)(struct stub_gate *g, bool entered);
	/* One ask begins: sets @w->begun and @w->until at the first one of a call.  False: no
	 * place to wait is free; the work is begun, nobody waits for it, and there is no end(),
	 * which may be NULL. */
	bool (*wait_begin)(struct stub_gate *g, struct stub_wait *w);
	void (*wait_end)(struct stub_gate *g, struct stub_wait *w);
	/* How long it may still wait, ms; 0: no longer.  NULL: until @w->until. */
	uint64_t (*wait_left)(struct stub_gate *g, const struct stub_wait *w);
	/* Nothing has come for a while: 0 to go on as long as something is left, or the -errno
	 * to end with. */
	int (*wait_on)(struct stub_gate *g, const struct stub_wait *w);
	/* Who has data fetched, for the recall budget (stub_who()); NULL: nobody's. */
	void (*who)(struct stub_gate *g, char who[STUB_WHO_MAX + 1]);
	/* Does the server's log want to hear of each ask, now?  The lines come by the log of the
	 * volume, at level debug.  NULL: never. */
	bool (*debugs)(struct stub_gate *g);
};

/* One export or share. */
struct stub_gate {
	struct stub_volume *volume; /* NULL: nothing to migrate, everything passes through */
	const struct stub_gate_ops *ops;
	bool denied; /* no data is fetched for who asks */
	bool tells;  /* other processes are told of changes (stub_news_post) */
	bool alone;  /* one thread works with it: a bracket inside of another is none */
	/* the library's; `brackets` may be read where `alone` */
	unsigned int brackets;
	atomic_bool finished;
	atomic_int_least64_t absent, absent_seen;
};

/* Is there anything left to migrate?  One memory read. */
bool stub_gate_migrating(const struct stub_gate *g);

/* The volume's era, 0 without one.  One memory read. */
uint64_t stub_gate_era(const struct stub_gate *g);

/*
 * Is .postcopy still there to be hidden?  To be asked only once something looks like it:
 * when the migration is finished it is removed under us, its inode numbers come back on new
 * files, and what is called so then is the user's.  One way.
 */
bool stub_gate_hides(struct stub_gate *g);

/*
 * For how long has no retriever been running, ms?  Looks for one, as root; 0: there is one,
 * or this is the first look at its absence.  The clock only runs while somebody looks: an
 * absence that nobody saw for a minute counts anew.
 */
uint64_t stub_gate_absent_ms(struct stub_gate *g);
/* Did the last look, or the last ask, find none?  One memory read. */
bool stub_gate_absent(const struct stub_gate *g);

/* How long the call may still wait, ms: what its gate says. */
uint64_t stub_wait_left(struct stub_gate *g, const struct stub_wait *w);

/*
 * Ask within the call's wait, as stub_ask().
 *   -EAGAIN  also inside a bracket: a fill would wait for us, and we for it
 *   what wait_on() ends with
 */
int stub_gate_ask(struct stub_gate *g, struct stub_wait *w, const struct stub_ask *ask);
/* The same as stub_pass(). */
int stub_gate_pass(struct stub_gate *g, struct stub_wait *w, const struct stub_ask *ask, int *fd);

/*
 * Who sends asks by a link of its own (an event loop): around each.  asks() gives it the name
 * that it has in all logs; answered() has a line for the server's log, if asks() found that
 * it is wanted: @since_us is what that gave.
 */
uint64_t stub_gate_asks(struct stub_gate *g, struct stub_ask *ask);
void stub_gate_answered(struct stub_gate *g, const struct stub_ask *ask, uint64_t since_us,
			int result);

/* Does @error (0 or negative) say that the volume takes no data: it is full, read-only, or
 * broken?  Then data can be passed on; and a sync that says so has lost some. */
bool stub_takes_no_data(int error);

/* ---- front ------------------------------------------------------------------ */

/* What a server remembers of an object, from one look to the next.  Zeroed to start. */
struct stub_known {
	atomic_bool normal; /* one way: no stub, never looked at again */
	atomic_int_least64_t room_asked; /* when room in its record was asked for last, ms */
};

/* An object, or none at all: a struct of zeros, which is taken for a normal one. */
struct stub_front {
	struct stub_gate *gate;
	struct stub_known *known; /* NULL: nobody remembers it */
	bool maybe; /* a stub, for all we know */
	uint64_t ino; /* the server's own, as is mode */
	mode_t mode;
	struct stub_handle h; /* len 0: not to be told; where `maybe`, every look fails */
};

/* How the object is shown now; view->needs is 0 for a normal one, which is one way.  As
 * stub_view(). */
int stub_front_look(struct stub_front *f, struct stub_view *view);

/* A name of it goes: the copy of a stub, which nobody fills and which has no record to be
 * kept true, is left out of brackets. */
void stub_front_going(struct stub_front *f);

/*
 * @f's name in the directory @dir is about to be another object's, and it may have more names.
 * Would it live on in no journal?  That is a file that was only looked up there: the directory
 * must be listed first.  One that has several names at the old server has a provisional file, by
 * which any listing of them finds it.
 */
bool stub_front_strands(struct stub_front *dir, struct stub_front *f);

/* First missing range in [offset, end): 1 and *out, or 0.  As stub_view(). */
int stub_front_missing(struct stub_front *f, uint64_t offset, uint64_t end,
		       struct stub_range *out);

/* ---- need ------------------------------------------------------------------- */

enum stub_need_what {
	/* its attributes */
	STUB_NEED_ATTRS,
	/* all its names */
	STUB_NEED_ENTRIES,
	/* all its names, so that `name` may be taken away; on a full volume it is enough that
	 * the old server has no such name */
	STUB_NEED_LEAVE,
	/* all its names, so that it may be removed if it is empty; -ENOTEMPTY: names that the
	 * new file system refuses are in it */
	STUB_NEED_GONE,
	/* one name, which was not found: 0: look for it again, it may have come; -ENOENT:
	 * there is none.  -EREMOTEIO too: it is one that the new file system refuses */
	STUB_NEED_NAME,
	/* [offset, offset+length), so that it may be read; -EACCES: not for who asks */
	STUB_NEED_DATA,
};

/* A need: set what it is, and zero the rest. */
struct stub_need {
	enum stub_need_what what;
	const char *name; /* LEAVE, NAME */
	uint64_t offset, length; /* DATA */
	struct stub_view view; /* as it was at the last look */
	uint64_t era; /* that it begins in, see stub_need_stands() */
	/* the library's */
	unsigned int stage;
	bool asked;
	int tries;
	uint64_t last;
};

/*
 * What to ask for next?  @result is the answer to the last ask, 0 at first.  Looks, and
 * never waits: who waits for the answers is whoever calls, a thread or an event loop.
 *   1           *ask; its name is need->name.  Come again with the answer
 *   0           it is there
 *   -EAGAIN     asks are answered, and nothing moves: try again later
 *   -EBADMSG    a damaged record, or what the copy of a stub (STUB_NEEDS_FOREIGN) misses
 *   -ENOENT, -ENOTEMPTY, -EREMOTEIO, -EACCES   as above
 *   the @result that ends it; as stub_view()
 */
int stub_need_step(struct stub_front *f, struct stub_need *n, int result, struct stub_ask *ask);

/* Step by step, waiting for each answer.  Further: as stub_gate_ask(). */
int stub_need_wait(struct stub_front *f, struct stub_need *n, struct stub_wait *w);

/* What was found to be there, and read since: does it count?  False: it may have been gone
 * from the page cache before it was read; look again.  One memory read. */
bool stub_need_stands(const struct stub_front *f, const struct stub_need *n);

/* The same for each need.  *view is as in the need. */
int stub_need_attrs(struct stub_front *f, struct stub_wait *w, struct stub_view *view);
int stub_need_entries(struct stub_front *f, struct stub_wait *w);
int stub_need_leave(struct stub_front *f, struct stub_wait *w, const char *name);
int stub_need_gone(struct stub_front *f, struct stub_wait *w);
int stub_need_name(struct stub_front *f, struct stub_wait *w, const char *name);

/* Attributes, to show them only: what cannot be had is shown as withheld
 * (stub_withheld()), and that is no error.  *asked: they were asked for, so that they may be
 * others than a moment ago; @asked may be NULL. */
int stub_need_shown(struct stub_front *f, struct stub_wait *w, struct stub_view *view,
		    bool *asked);

/* ---- bracket ---------------------------------------------------------------- */

/* Around one operation; objects that cannot be stubs cost no lock.  A struct of zeros is a
 * bracket that is not open. */
struct stub_bracket {
	struct stub_gate *gate;
	bool open;
	struct {
		struct stub_handle h; /* len 0: nothing */
		unsigned int what; /* STUB_NEWS_... */
	} news[STUB_CHANGE_OBJECTS];
	struct stub_change c;
};

/*
 * Open it: on @n objects, of which NULL is one that is absent; on one whose attributes have
 * to be there, which is waited for before; on one of which [offset, offset+length) changes,
 * for which there is room in the record then.  Inside another bracket (`alone`: a module of
 * the server's called from the top of its stack again) none is opened: the outer one sees
 * what has changed.
 *   as stub_change_begin(), stub_need_attrs(), and of the last one STUB_ASK_ROOM, and
 *   -EAGAIN  no room yet.  No bracket is open then.
 */
int stub_bracket_begin(struct stub_front *const f[], unsigned int n, struct stub_bracket *b);
int stub_bracket_attrs(struct stub_front *f, struct stub_wait *w, struct stub_bracket *b);
int stub_bracket_range(struct stub_front *f, struct stub_wait *w, uint64_t offset,
		       uint64_t length, struct stub_bracket *b);

/* For looking at one object only, also where nothing can be stored; ended by drop(). */
int stub_bracket_look(struct stub_front *f, struct stub_bracket *b);
void stub_bracket_drop(struct stub_bracket *b);

/* What others are told of object @i instead of STUB_NEWS_ATTRS. */
void stub_bracket_tells(struct stub_bracket *b, unsigned int i, unsigned int what);

/*
 * The operation is done, with @result: 0 or -errno.  Returns what to answer: that, or -errno
 * of stub_change_end().  range(): [offset, offset+done) is the client's now; and if the
 * record is filling up, room is made before a write has to wait for it.
 */
int stub_bracket_end(struct stub_bracket *b, int result);
int stub_bracket_range_end(struct stub_bracket *b, struct stub_front *f, int result,
			   uint64_t offset, uint64_t done);

/* It was changed without a bracket: it was no stub. */
void stub_front_tell(const struct stub_front *f);

/* ---- sync ------------------------------------------------------------------- */

/* Around making an object's data durable.  A struct of zeros is a sync that has ended. */
struct stub_sync {
	struct stub_gate *gate;
	struct stub_commit c;
	bool noted; /* unstable writes were taken for it */
	struct stub_handle h;
	uint64_t who, era;
};

/* A write to a stub, begun in @era, is about to be acknowledged to @who (any number)
 * before it is durable. */
void stub_sync_note(const struct stub_front *f, uint64_t who, uint64_t era);
/* Is there anything that was, and not synced since?  One memory read. */
bool stub_sync_due(const struct stub_gate *g);

/*
 * Before the sync of @f.  If it is for a client: @who asks, and the object's handle is in @h,
 * also if it is normal by now, and after completion.  NULL: it is the server's own.
 *   -EIO  one of the client's writes may be lost
 *   as stub_commit_prepare(); it is ended then
 */
int stub_sync_begin(struct stub_gate *g, struct stub_front *f, const struct stub_handle *h,
		    uint64_t who, struct stub_sync *s);
/* After it, with its result, 0 or -errno: what to answer.  A sync that has failed to store
 * data begins a new era. */
int stub_sync_end(struct stub_sync *s, int result);
/* Instead of end(): nobody wants to know any more, or there was no sync. */
void stub_sync_drop(struct stub_sync *s);

/* ---- data of what is not all here ------------------------------------------- */

/* One local seek: the first byte of data (@data) or of a hole at or after @at; @size if there
 * is none.  0 or -errno. */
typedef int (*stub_seek_fn)(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found);

/*
 * SEEK in a stub of @size bytes: a missing range is data.  @at is within the file.  *found is
 * @size if there is no more data, and of a hole at the file's end.
 *   as stub_view(); what @local ends with
 */
int stub_front_seek(struct stub_front *f, bool data, uint64_t at, uint64_t size,
		    stub_seek_fn local, void *arg, uint64_t *found);

/* A read of a stub whose volume takes no data (docs/decisions/0007). */
struct stub_passing {
	const struct iovec *iov; /* to be filled with what is at offset */
	int n_iov;
	uint64_t offset;
	/* the local bytes, into iov from its beginning: how many, or -errno */
	ssize_t (*read)(void *arg);
	void *arg;
};

/*
 * Read with what is missing from the old server: no more than one memory file of it
 * (STUB_PASS_MAX), so the answer may be short, but 0 only at the end of the file.
 *   -EAGAIN  it changes all the time, or as stub_gate_pass()
 *   as stub_bracket_look(); what read() ends with
 */
ssize_t stub_front_pass(struct stub_front *f, struct stub_wait *w, const struct stub_passing *p);

#endif
