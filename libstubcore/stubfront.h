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
 * A plugin still has to know which object is meant, to translate errors, and to fill its
 * server's structures.
 *
 * struct stub_gate and struct stub_known are used by all threads at once; the rest belongs to
 * one call.  Nothing here waits for the old server inside a bracket.  Where nothing is to be
 * migrated, or an object is known to be normal, nothing here does a system call.  Errors are
 * those of stubcore.h, none else.
 */
#ifndef STUBFRONT_H
#define STUBFRONT_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "stubcore.h"

#pragma GCC visibility push(default) /* what libstubcore.so exports */

/* ---- gate ------------------------------------------------------------------- */

struct stub_gate;

/* What one call may still wait for the old server.  Zeroed to start. */
struct stub_wait {
	bool begun;
	uint64_t until; /* ms, stub_now_ms() */
	/* the client cannot be told to try again (an entry of a listing): attributes that do not
	 * come in time are shown as withheld; without a retriever they are not waited for */
	bool once;
	unsigned int place; /* for the plugin's use, from wait_begin() to wait_end() */
};

/* What the plugin implements. */
struct stub_gate_ops {
	/* enter() makes this thread root; its result is given to leave(), which keeps errno.
	 * Both NULL: this process is root all the time. */
	bool (*enter)(struct stub_gate *g);
	void (*leave)(struct stub_gate *g, bool entered);
	/* Before each ask; the first one of a call sets @w->begun and @w->until.  False: too
	 * many calls are waiting; the ask is sent but not waited for, and wait_end() is not
	 * called.  wait_end may be NULL. */
	bool (*wait_begin)(struct stub_gate *g, struct stub_wait *w);
	void (*wait_end)(struct stub_gate *g, struct stub_wait *w);
	/* How long it may still wait, ms; 0: no longer.  NULL: until @w->until. */
	uint64_t (*wait_left)(struct stub_gate *g, const struct stub_wait *w);
	/* No answer has come for a while: 0 to go on waiting until wait_left() is 0, or the
	 * -errno to end with. */
	int (*wait_on)(struct stub_gate *g, const struct stub_wait *w);
	/* Whose recall it is, for the recall budget (stub_who()); NULL: it counts for nobody. */
	void (*who)(struct stub_gate *g, char who[STUB_WHO_MAX + 1]);
	/* Does the server's log want to hear of each ask, now?  The lines come by the log of the
	 * volume, at level debug.  NULL: never. */
	bool (*debugs)(struct stub_gate *g);
};

/* One export or share. */
struct stub_gate {
	struct stub_volume *volume; /* NULL: nothing to migrate, everything passes through */
	const struct stub_gate_ops *ops;
	bool denied; /* this user or client may not recall data */
	bool tells;  /* other processes are told of changes (stub_news_post) */
	bool alone;  /* only one thread uses it; inside a bracket no other one is opened */
	/* the library's; plugins may read `brackets` if `alone` is set */
	unsigned int brackets;
	atomic_bool finished;
	atomic_int_least64_t absent, absent_seen;
};

/* Is there anything left to migrate?  One memory read. */
bool stub_gate_migrating(const struct stub_gate *g);

/* The volume's era, 0 without one.  One memory read. */
uint64_t stub_gate_era(const struct stub_gate *g);

/*
 * Is .postcopy still there, so that it must be hidden?  Ask only when a name or an inode number
 * looks like it: after the migration it is removed while servers run, its inode numbers are
 * given to new files, and a file of that name is the user's.  Once false, always false.
 */
bool stub_gate_hides(struct stub_gate *g);

/*
 * For how long has no retriever been running, ms?  Looks for one, as root; 0: there is one,
 * or this is the first look that finds none.  The time only counts while somebody looks: after
 * a minute without a look it begins at 0 again.
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
/* The same for stub_pass(). */
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
 * broken?  Then reads can be passed on; a sync that ended with it has lost data. */
bool stub_takes_no_data(int error);

/* ---- front ------------------------------------------------------------------ */

/* What a server remembers of an object, from one look to the next.  Zeroed to start. */
struct stub_known {
	atomic_bool normal; /* one way: no stub, never looked at again */
	atomic_int_least64_t room_asked; /* when room in its record was asked for last, ms */
};

/* An object, during one call.  A struct of zeros is no object; it is treated as a normal one. */
struct stub_front {
	struct stub_gate *gate;
	struct stub_known *known; /* NULL: nobody remembers it */
	bool maybe; /* it may be a stub; false: it is treated as a normal one */
	/* what the caller is going to change of it (STUB_OWED_...), for a mirror; 0: attributes.  Set
	 * it before a bracket is begun */
	unsigned int owes;
	const char *name; /* likewise, the name that comes to this directory, or goes; NULL: not told */
	uint64_t ino; /* for the plugin's use, as is mode */
	mode_t mode;
	struct stub_handle h; /* len 0: not known; if `maybe` is set, every look fails then */
};

/* How the object is shown now; view->needs 0: it is normal, and stays so.  Errors: as
 * stub_view(). */
int stub_front_look(struct stub_front *f, struct stub_view *view);
/* The same; @fd is the object, may be O_PATH, and spares opening it; -1: none. */
int stub_front_look_fd(struct stub_front *f, int fd, struct stub_view *view);

/* Call it before a name of @f is removed: if @f is the copy of a stub, whose record is not its
 * own and cannot be brought up to date, it is left out of brackets from then on. */
void stub_front_going(struct stub_front *f);

/*
 * A name of @f in the directory @dir is about to be replaced.  Would @f live on, under another
 * name, without a journal entry?  So it is if @f was only looked up in @dir: then list @dir
 * first.  A file with several names at the old server has a provisional file, and is found when
 * any of the directories with its names is listed.
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
	/* one name, which was not found here.  0: look for it again, it may have come; -ENOENT:
	 * the old server has none; -EREMOTEIO also: the new file system refuses this name */
	STUB_NEED_NAME,
	/* [offset, offset+length), so that it may be read; -EACCES: gate->denied */
	STUB_NEED_DATA,
};

/* A need: set what it is, and zero the rest. */
struct stub_need {
	enum stub_need_what what;
	const char *name; /* LEAVE, NAME */
	uint64_t offset, length; /* DATA */
	struct stub_view view; /* as it was at the last look */
	uint64_t era; /* in which it begins, see stub_need_stands() */
	/* the library's */
	unsigned int stage;
	bool asked;
	int tries;
	uint64_t last;
};

/*
 * What to ask for next?  @result is the answer to the last ask, 0 at first.  Looks, and
 * never waits: the caller, a thread or an event loop, sends *ask and waits for the answer.
 *   1           send *ask (its name is need->name), and call again with the answer
 *   0           the need is met
 *   -EAGAIN     asks are answered, but nothing changes: try again later
 *   -EBADMSG    the record is damaged, or it is the copy of a stub (STUB_NEEDS_FOREIGN)
 *   -ENOENT, -ENOTEMPTY, -EREMOTEIO, -EACCES   as above
 *   the @result that ends it; errors of stub_view()
 */
int stub_need_step(struct stub_front *f, struct stub_need *n, int result, struct stub_ask *ask);

/* All steps, waiting for each answer.  Errors: also those of stub_gate_ask(). */
int stub_need_wait(struct stub_front *f, struct stub_need *n, struct stub_wait *w);

/* The need was met, and the caller has read the data: are these bytes right?  False: a sync
 * has failed, and the kernel may have dropped pages before they were read; begin anew.  One
 * memory read. */
bool stub_need_stands(const struct stub_front *f, const struct stub_need *n);

/* stub_need_wait() for each kind of need.  *view is as in the need. */
int stub_need_attrs(struct stub_front *f, struct stub_wait *w, struct stub_view *view);
int stub_need_entries(struct stub_front *f, struct stub_wait *w);
int stub_need_leave(struct stub_front *f, struct stub_wait *w, const char *name);
int stub_need_gone(struct stub_front *f, struct stub_wait *w);
int stub_need_name(struct stub_front *f, struct stub_wait *w, const char *name);

/* Attributes, to show them only: what cannot be had is shown as withheld
 * (stub_withheld()), and that is no error.  *asked: they were asked for, so what the caller
 * has read before may no longer be right; @asked may be NULL. */
int stub_need_shown(struct stub_front *f, struct stub_wait *w, struct stub_view *view,
		    bool *asked);

/* ---- bracket ---------------------------------------------------------------- */

/* A bracket around one operation; objects that cannot be stubs cost no lock.  A struct of zeros
 * is a bracket that is not open. */
struct stub_bracket {
	struct stub_gate *gate;
	bool open;
	struct {
		struct stub_handle h; /* len 0: nothing */
		unsigned int what; /* STUB_NEWS_... */
	} news[STUB_CHANGE_OBJECTS];
	struct stub_change c;
	struct stub_entered entered[STUB_CHANGE_OBJECTS]; /* in the ledger of what is owed */
	bool later; /* of range(), set before its end: not durable when it is acknowledged, as front_await_later() */
};

/*
 * Open a bracket
 *   begin  on @n objects; NULL is an absent one
 *   attrs  on one object, whose attributes are waited for before
 *   range  likewise, of which [offset, offset+length) will change; its record has room for it
 * Where `alone` is set one may be open already (a module of the server has called its stack from
 * the top): then none is opened, and the outer one sees the change.
 * After an error no bracket is open:
 *   as stub_change_begin(); attrs, range: stub_need_attrs(); range: STUB_ASK_ROOM, and
 *   -EAGAIN  there is no room yet
 * With a mirror also: as stub_ledger_enter(), before anything is done; -EIO: an object's handle is
 * not known.
 */
int stub_bracket_begin(struct stub_front *const f[], unsigned int n, struct stub_bracket *b);
int stub_bracket_attrs(struct stub_front *f, struct stub_wait *w, struct stub_bracket *b);
int stub_bracket_range(struct stub_front *f, struct stub_wait *w, uint64_t offset,
		       uint64_t length, struct stub_bracket *b);

/* A bracket for looking at one object only, also where nothing can be stored; ended by drop(). */
int stub_bracket_look(struct stub_front *f, struct stub_bracket *b);
void stub_bracket_drop(struct stub_bracket *b);

/* Other processes are told @what of object @i, instead of STUB_NEWS_ATTRS. */
void stub_bracket_tells(struct stub_bracket *b, unsigned int i, unsigned int what);

/*
 * The operation is done, with @result: 0 or -errno.  Returns what to answer: that, or -errno
 * of stub_change_end().  range(): [offset, offset+done) is the client's now; and if the
 * record is filling up, room is made before a write has to wait for it.
 */
int stub_bracket_end(struct stub_bracket *b, int result);
int stub_bracket_range_end(struct stub_bracket *b, struct stub_front *f, int result,
			   uint64_t offset, uint64_t done);

/* Tell other processes that @f, a normal object, was changed without a bracket. */
void stub_front_tell(const struct stub_front *f);

/*
 * Has the volume a mirror?  Then each object that is changed is entered into the ledger before
 * (stub_ledger_enter()), normal ones and those of a complete volume too: fronts have their handle `h`,
 * brackets enter by themselves, and what changes without a bracket is put between these two (0, or
 * what stub_ledger_enter() says; leave() in any case).  One memory read.
 */
bool stub_gate_mirrored(const struct stub_gate *g);
int stub_front_enter(struct stub_front *f, unsigned int what, struct stub_entered *e);
void stub_front_leave(struct stub_front *f, struct stub_entered *e);
/* After leave() of what has changed: as stub_ledger_await(), which brackets do by themselves. */
int stub_front_await(struct stub_front *f, const struct stub_entered *e);
/* Instead of await(), of a write that is not durable when it is acknowledged; what was put off so is waited for before
 * @f's data are acknowledged as durable: as stub_ledger_await_later(), stub_ledger_await_noted(). */
int stub_front_await_later(struct stub_front *f, const struct stub_entered *e);
int stub_front_await_noted(struct stub_front *f);

/* ---- sync ------------------------------------------------------------------- */

/* Around making an object's data durable.  A struct of zeros is a sync that has ended. */
struct stub_sync {
	struct stub_gate *gate;
	struct stub_commit c;
	bool noted; /* notes of unstable writes were taken, for the client that asks */
	struct stub_handle h;
	uint64_t who, era;
};

/* A write to a stub, begun in @era, is about to be acknowledged to @who (any number)
 * before it is durable. */
void stub_sync_note(const struct stub_front *f, uint64_t who, uint64_t era);
/* Is any such write not synced yet?  One memory read. */
bool stub_sync_due(const struct stub_gate *g);

/*
 * Before the sync of @f.  If the client @who asks for it, @h is the object's handle, also of a
 * normal object and after completion; NULL: the server syncs for itself.
 *   -EIO  one of the client's writes may be lost
 *   as stub_commit_prepare().  After an error @s has ended
 */
int stub_sync_begin(struct stub_gate *g, struct stub_front *f, const struct stub_handle *h,
		    uint64_t who, struct stub_sync *s);
/* After the sync, with its @result, 0 or -errno: returns what to answer.  If the sync failed
 * to store data a new era begins. */
int stub_sync_end(struct stub_sync *s, int result);
/* Instead of end(): nobody wants to know any more, or there was no sync. */
void stub_sync_drop(struct stub_sync *s);

/* ---- data of a file that is not all here ------------------------------------ */

/* One local seek: the first byte of data (@data) or of a hole at or after @at; @size if there
 * is none.  0 or -errno. */
typedef int (*stub_seek_fn)(void *arg, bool data, uint64_t at, uint64_t size, uint64_t *found);

/*
 * SEEK in a stub of @size bytes: a missing range is data.  @at is within the file.  *found is
 * @size if there is no more data, and of a hole at the file's end.
 *   as stub_view(); errors of @local
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
 * Read, with missing bytes from the old server: at most STUB_PASS_MAX of them, so the answer
 * may be short, but it is 0 only at the end of the file.
 *   -EAGAIN  the file changes all the time, or as stub_gate_pass()
 *   as stub_bracket_look(); errors of read()
 */
ssize_t stub_front_pass(struct stub_front *f, struct stub_wait *w, const struct stub_passing *p);

#pragma GCC visibility pop

#endif
