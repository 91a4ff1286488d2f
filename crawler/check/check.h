/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check.h - `postcopy-volume check`: what a migration from a source keeps, what it
 * loses. Nothing is written, neither to the source nor to the target.
 *
 *   volume_check.c  asks both sides, and prints the answer as JSON
 *   check_options.c the command line
 *   check_table.c   property by property, from what the two sides say of themselves
 *   check_back.c    what the old server could take back
 *   check_name.c    one entry: can the target, and its clients, express it?
 *   check_twins.c   names of one directory that differ in case only
 *   check_visit.c   one directory of the source, by the two before
 *   check_read.c    may each file be read?
 *   check_walk.c    the whole source, directory by directory
 */
#ifndef CHECK_H
#define CHECK_H

#include "preflight/preflight.h"

/* What the volume will be exported by, bits. */
enum { EXPORT_NFS = 1, EXPORT_SMB = 2 };

/* What a migration makes of a property or an entry. */
enum check_fate { FATE_KEPT, FATE_APPROXIMATED, FATE_LOST };
const char *check_fate_name(enum check_fate fate); /* "kept" ... */

/* ---- check_table.c ---- */

/* Does the old server tell of a property? */
enum check_seen { SEEN_YES, SEEN_NO, SEEN_UNKNOWN };
const char *check_seen_name(enum check_seen seen); /* "seen", "not offered", "unknown" */

struct check_sides {
	const char *protocol; /* of the source: "nfs", "smb" or "file" */
	const struct source_traits *traits;
	const struct target_limits *limits; /* NULL: no target given */
	unsigned int exports;
	const struct source_traits *join; /* of the share joined with it; NULL: none */
	bool depot; /* streams go into a depot */
	bool born; /* creation times of NFSv4 are wanted */
};

#define CHECK_WHY_MAX 256

struct check_property {
	const char *code; /* for programs */
	const char *title; /* for people */
	enum check_seen seen;
	enum check_fate fate;
	const char *from; /* "nfs", "smb" or "file": who tells of it, "": nobody */
	char why[CHECK_WHY_MAX];
};

unsigned int check_properties(void); /* how many there are */
/* The property number @i. */
void check_property(const struct check_sides *sides, unsigned int i, struct check_property *out);
bool check_property_known(const char *code, size_t len);

/* ---- check_back.c ---- */

unsigned int check_backs(void); /* how many properties it has */
/* Property @i of what is changed here: what becomes of it over there (code, title, fate, why). */
void check_back(const struct check_sides *sides, unsigned int i, struct check_property *out);

/* ---- check_name.c ---- */

enum check_kind {
	CHECK_TWIN, /* another name of the directory differs in case only */
	CHECK_ENCODING, /* not UTF-8 */
	CHECK_CHARACTER, /* a character that SMB names cannot have */
	CHECK_ENDING, /* a dot or a space, which SMB clients drop */
	CHECK_DEVICE, /* a name that Windows keeps for a device */
	CHECK_MANGLED, /* the old Samba may have made it up */
	CHECK_NOT_JOINED, /* known to NFS only: the joined share cannot be asked for it */
	CHECK_LONG_PATH, /* more than CHECK_PATH_MAX bytes below the export's root */
	CHECK_LONG_NAME, /* more bytes than the new file system takes */
	CHECK_REFUSED, /* the new file system will not have it */
	CHECK_IMPOSSIBLE, /* such an entry cannot exist: its directory will be parked */
	CHECK_TIME, /* a time that the new file system cannot hold */
	CHECK_UNREADABLE, /* the old server does not let us read the file */
	CHECK_UNLISTED, /* the old server does not list the directory */
	CHECK_CYCLE, /* a directory that is its own ancestor, or absurdly deep */
	CHECK_UNSURE, /* a time that the old server may mean otherwise */
	CHECK_ACL, /* it has a POSIX ACL, and gets a narrower mode */
	CHECK_ACL_NEAR, /* an NFSv4 ACL that no POSIX ACL says */
	CHECK_SUBVOLUME, /* a directory with the numbers of another one, but not its handle */
	CHECK_BORDER, /* a directory with another fsid than the one it lies in */
	CHECK_KINDS,
};

#define CHECK_PATH_MAX 1023

struct check_kind_info {
	const char *code;
	const char *what; /* one line for people */
	enum check_fate fate; /* of what is found */
};
extern const struct check_kind_info check_kinds[CHECK_KINDS];

/*
 * Which kinds is this entry of (bits 1 << kind)? @path_len: bytes of its path below
 * the export's root. @why gets one line for CHECK_REFUSED, CHECK_IMPOSSIBLE and
 * CHECK_NOT_JOINED, else "". CHECK_TWIN, CHECK_UNREADABLE, CHECK_UNLISTED, CHECK_CYCLE,
 * CHECK_SUBVOLUME and CHECK_BORDER are found elsewhere, never here.
 */
uint32_t check_name(const struct check_sides *sides, const struct stub_entry *e, size_t path_len,
		    char why[CHECK_WHY_MAX]);

/* Bytes of the UTF-8 sequence at @s, of which @left are there; 0: it is none. */
unsigned int check_utf8(const char *s, size_t left, uint32_t *out);

/* ---- check_twins.c ---- */

/*
 * The names of one directory. Memory is bounded: when the names do not fit, add()
 * says so, and the directory is listed again in parts, each with the names whose
 * key falls into it. The key is secret, so that no source can choose its names to
 * fall together.
 */
struct check_twins;

/* @most: bytes it may take. NULL: out of memory. */
struct check_twins *check_twins_create(size_t most);
void check_twins_destroy(struct check_twins *t);
/* Forget everything; look at part @part of @parts from now on. */
void check_twins_reset(struct check_twins *t, unsigned int part, unsigned int parts);
/*
 * Add a name. Returns 0, or 1 and in @first the earlier name that it folds to, valid
 * until the next call. A name that is there already, byte for byte, is no twin.
 *   -ENOSPC  it does not fit: the names so far stay, no more can be added to this part
 *   -ENOMEM
 */
int check_twins_add(struct check_twins *t, const char *name, size_t len, const char **first,
		    size_t *first_len);

/* ---- check_options.c ---- */

struct check_options {
	const char *source, *join, *dir, *accept, *config;
	const char *depot; /* of --streams; NULL: xattr */
	unsigned int exports; /* 0: what the source speaks */
	uint64_t limit; /* of names told for each kind; 0: none */
	unsigned int workers;
	bool names;
	bool read; /* with names */
	bool way_back; /* what could go back, too */
};

/* --streams xattr | depot:DIR of @command: *depot is NULL or DIR, in @text.  -1 with the
 * verdict set. */
int streams_parse(struct verdict *v, const char *command, const char *text, const char **depot);
/* @option of @command is none, or has no value.  -1 with the verdict set. */
int option_bad(struct verdict *v, const char *command, const char *option);
/* The number @text of --@option of @command.  -1 with the verdict set. */
int option_number(struct verdict *v, const char *command, const char *option, const char *text,
		  uint64_t least, uint64_t most, uint64_t *out);
/* Can the share @join (NULL: none) be joined with @source?  -1 with the verdict set. */
int join_check(struct verdict *v, const char *command, const char *source, const char *join);
/* Can @source have a way back?  -1 with the verdict set. */
int way_back_check(struct verdict *v, const char *command, const char *source, const char *join,
		   bool way_back);
/* -1 with the verdict set. */
int check_options_parse(struct verdict *v, int argc, char **argv, struct check_options *o);
/* Did the administrator say that this loss (a property, or a kind of name) is fine? */
bool check_accepted(const struct check_options *o, const char *code);

/* ---- check_walk.c ---- */

#define CHECK_WORKERS_MOST 16

struct check_found {
	enum check_kind kind;
	const char *path; /* below the export's root, terminated */
	const char *why; /* "" if there is no more to say than the kind does */
	const char *twin; /* CHECK_TWIN: the other name, terminated; else NULL */
};

struct check_walk {
	/* set by the caller */
	const struct check_sides *sides;
	unsigned int workers; /* at most CHECK_WORKERS_MOST */
	bool reads; /* one byte of every file */
	void (*found)(void *arg, const struct check_found *f); /* one call at a time */
	void (*progress)(void *arg, const struct check_walk *w); /* every second */
	void *arg;
	/* how far it came */
	uint64_t objects, dirs, read;
	/* NFS: files that take less room over there than their size, and how much less, together */
	uint64_t sparse, sparse_bytes;
	uint64_t count[CHECK_KINDS];
	bool stopped; /* by SIGINT or SIGTERM: the rest was not looked at */
};

/* Walk the whole of @s, whose root is in @facts. Returns 0 (w->stopped too), or
 *   -ETIMEDOUT  the old server does not answer any more
 *   -ENOMEM, or what it said of its root */
int check_walk(struct check_walk *w, struct source *s, const struct source_facts *facts);

#endif
