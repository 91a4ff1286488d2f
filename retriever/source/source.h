/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * source.h - the old server, as the retriever sees it.
 *
 * A backend owns its connections and threads.  It reconnects for ever: a call
 * that is under way when the old server goes away is sent again when it is back,
 * however long that takes (every call here only reads; those of target.h are sent again
 * likewise, and say what that means).  Callers therefore only
 * see errors that the old server itself gave, -ECANCELED after source_stop(), or
 * -ETIMEDOUT when the limit of source_config.give_up_ms is over.
 *
 * Errors, all calls (the old server's own codes are translated here, once):
 *   -ENOENT     no such name
 *   -ESTALE     the origin is not valid any more
 *   -ENOTDIR    not a directory
 *   -EACCES     permission denied, or root is squashed
 *   -EBADMSG    the old server sent something impossible (logged with what it was)
 *   -EIO        it reported an I/O error, or gave a short read
 *   -ETIMEDOUT  unreachable or silent longer than give_up_ms
 *   -ECANCELED  source_stop() was called
 *   -EINPROGRESS  it says "later" of this object (JUKEBOX) for longer than jukebox_ms: it may
 *               be on a tape, and take minutes
 *   -ENOMEDIUM  it shows another object in this place, as when one of its disks is not
 *               mounted: that says nothing of the object that was meant, which has to wait
 *   -EOVERFLOW  source_lookup(): an origin longer than STUB_ORIGIN_MAX
 *   -EXDEV      another file system begins at this name, which does not belong to the source: one
 *               that is mounted there (file), or lies on another server (NFSv4: a referral)
 *   -ENAMETOOLONG, -ENOMEM
 */
#ifndef SOURCE_H
#define SOURCE_H

#include "stubcore.h"

struct source; /* all functions may be called from any thread */

enum source_priority { SOURCE_DEMAND, SOURCE_BACKGROUND }; /* demand goes first in every queue */

/* By this an object is known again, besides its origin; NFSv3 has it in most answers. */
struct source_id {
	uint64_t fsid, fileid;
};

struct source_smb { /* of smb:// sources only */
	const char *worker;	    /* path of postcopy-smb-worker; NULL: where it is installed */
	const char *credentials;    /* file with user and password, mode 0600 */
	/* instead of them; NULL or "": none */
	const char *kerberos_cache;  /* a credential cache that somebody keeps filled */
	const char *kerberos_keytab; /* a keytab, mode 0600: we get tickets ourselves */
	const char *kerberos_principal; /* whose key in it; NULL or "": the first one */
	bool sign, encrypt;	    /* required */
	unsigned int read_bytes;    /* largest read, up to 16 MiB; 0: 4 MiB */
	/* owner, group and modes of objects for which the server gives none */
	uint32_t uid, gid, file_mode, dir_mode;
	/* file id that the root must have, 0: any.  A disk that is not mounted over there
	 * must not look like one on which everything was removed. */
	uint64_t root_fileid;
	const char *idmap;  /* postcopy-idmap(5); NULL or "": the usual one */
	bool strict_delete, traverse; /* see smb_acl.h */
	/* bytes of one extended attribute, and of all of a file's, that the new file system
	 * takes; 0: no limit */
	uint32_t xattr_value, xattr_all;
	bool depot; /* source_meta() names streams, and source_stream() brings them */
};

struct source_nfs { /* of nfs:// sources with sec=krb5, krb5i or krb5p only; as above */
	const char *kerberos_cache, *kerberos_keytab, *kerberos_principal;
};

struct source_config {
	const char *uri;		/* nfs://host/export[?nfsport=N&mountport=N&version=4&sec=krb5i...]
					 * smb://host[:port]/share[/dir]
					 * file:///path */
	const char *hides; /* with root_known: a name in the root that is not shown; NULL: none */
	const char *join; /* smb://...: what Windows knows of the same tree; NULL or "": nothing.
			   * Origins of a source with it are of no use without it. */
	/* NFS: numbers that the root must have.  As long as it has others, the source is lost. */
	bool root_known;
	struct source_id root;
	bool root_anew; /* NFS: a root that has become stale is asked for again.  The caller compares
			 * what source_root() says then. */
	bool no_acl; /* NFS: the new file system keeps no POSIX ACLs, so they are only asked for
		      * to narrow modes */
	bool ntacl; /* NFSv4: ACLs for Samba's acl_xattr, too */
	bool born; /* NFSv4: creation times are kept, as Samba stores them */
	unsigned int connections;	/* TCP connections, 1..16 */
	unsigned int readdir_bytes;	/* READDIRPLUS reply size wanted, 64..256 KiB */
	unsigned int read_bytes;	/* largest READ, up to 1 MiB */
	unsigned int call_timeout_ms;	/* no answer for so long: reconnect and send again */
	unsigned int give_up_ms;	/* 0: never */
	unsigned int jukebox_ms;	/* "later" is taken for so long; 0: for ever */
	unsigned int inflight;		/* calls in flight per connection (SMB: META only, up to 64) */
	struct limiter *limiter;	/* of the background's calls; outlives the source; NULL: none */
	unsigned int lane;		/* there: 1 of the SMB half of a joined source, else 0 */
	struct source_smb smb;
	struct source_nfs nfs;
	stub_log_fn log;
	void *log_arg;
};

/* Starts connecting in the background and returns at once.  What @c points to is copied.
 *   -EINVAL  the URI cannot be parsed (logged)
 *   -EACCES, -ENOENT  no credentials, or others may read them (logged) */
int source_create(const struct source_config *c, struct source **out);
void source_stop(struct source *s); /* all calls, now and later, end with -ECANCELED */
void source_destroy(struct source *s);

/* Try once, within timeout_ms, without the endless reconnect: for `postcopy init`.
 * On failure @why gets one line for the administrator (unknown host, connection
 * refused, not an export, permission denied ...).
 *   -EHOSTUNREACH, -ECONNREFUSED, -ENOENT (not an export), -EACCES, -ETIMEDOUT, -EPROTO,
 *   -ESTALE (NFS: an export without anything behind it) */
int source_probe(const struct source_config *c, unsigned int timeout_ms, char *why, size_t why_size);

/*
 * The URI by which a migration that begins now is to go on, into @uri: as c->uri, but for what it
 * leaves to the server (version=4 becomes the highest minor version that it has).  Errors as above;
 * @uri is c->uri then.
 */
int source_settle(const struct source_config *c, unsigned int timeout_ms, char *uri, size_t size);

/*
 * What the old server says of itself and of the file system behind the export, for
 * `postcopy init --check`.  It may leave anything unanswered: a group of answers counts
 * only if its have_* is set, and nothing of it is checked for sense.
 */
#define SOURCE_BELOW_MAX 2048

struct source_traits {
	bool have_info;
	uint64_t max_file_size;	    /* bytes; 0: not said */
	struct timespec time_delta; /* what its times are multiples of; 0: not said */
	bool hard_links, symlinks;  /* it has such */

	bool have_names;
	uint32_t link_max; /* names of one object */
	uint32_t name_max; /* bytes */
	bool case_insensitive, case_preserving;
	bool chown_restricted; /* only root gives files away */

	bool have_space;
	uint64_t bytes_total, bytes_free;
	uint64_t files_total, files_free;

	/* SMB: source_meta() brings what Windows knows of an object: security descriptor,
	 * attributes, creation time, streams, extended attributes */
	bool windows;

	bool read_only; /* file: it is mounted so */
	const char *security; /* NFS: of the connection, as in the URI: "sys", "krb5i"; NULL: none */

	bool have_acl; /* it was asked, and answered, whether it has ACLs on offer: POSIX ACLs */
	bool acl;
	bool nfs4; /* NFSv4 has answered; NFSv4's ACLs are meant then */
	/* NFSv4: the minor version; of the root, it tells creation times, and has extended attributes */
	uint32_t minor;
	bool born, xattrs;

	/* NFSv3: the server's exports below this one, as paths from its root, each terminated; an
	 * empty one ends them.  Those for which there is no room are left out. */
	char below[SOURCE_BELOW_MAX];
};

/* Ask, within timeout_ms, without the endless reconnect.  Errors and @why as above. */
int source_traits(const struct source_config *c, unsigned int timeout_ms, struct source_traits *out,
		  char *why, size_t why_size);

struct source_state {
	bool connected;		 /* at least one connection is usable */
	uint64_t lost_since_ms;	 /* CLOCK_MONOTONIC; 0 while connected */
	uint64_t reconnects;
	uint64_t calls, lookups, readdirs, reads, read_bytes, retries;
	uint32_t inflight;
	uint32_t wanted; /* connections, of each protocol; of file://, a quarter of its threads */
	char trouble[512]; /* why it is not connected, or what else is wrong, one line; else "" */
	bool refused; /* SMB, NFS with Kerberos: it does not let us in */
	uint64_t next_try_ms; /* refused: how long until the next try */
	uint64_t mangled; /* SMB: names listed that the old server may have made up */
	/* join: how many objects came without what Windows knows; a line about the last one */
	uint64_t mismatches;
	char mismatch[512];
};
void source_state(struct source *s, struct source_state *out);

/* Read credentials again, and try a logon that was refused at once. */
void source_reload(struct source *s);

/* So many connections at most from now on, 1..16; of file://, a quarter of its threads.  What is under way on
 * others ends first. */
#define SOURCE_CONNECTIONS_MAX 16
int source_connections(struct source *s, unsigned int n); /* 0; -errno: fewer than that, no thread starts */

/* A client waits for what is called for as @trace (trace.h): what of it waits for its turn in the background
 * goes as demand. */
void source_hurry(struct source *s, uint64_t trace);

/* Is @error one entry's own, which says nothing of other entries of its directory?  If not,
 * nothing can be asked now, or the directory is at fault. */
bool source_entrys_own(int error);

/* The calls below block the calling thread. */

/* Origin and attributes of the export's root. */
int source_root(struct source *s, struct stub_origin *out, struct stub_attr *attr);

/* One name of the directory @dir; @name is bytes without '/' or NUL.  @as, here and below (NFS
 * only): what @dir must be known by, else -ENOMEDIUM; NULL: it is not compared. */
int source_lookup(struct source *s, enum source_priority p, const struct stub_origin *dir,
		  const struct source_id *as, const char *name, size_t len,
		  struct stub_origin *out, struct stub_attr *attr);

/* Something is not as it should be: is the source as a whole lost?  0: no, its root is the right
 * one; -ENOMEDIUM: yes, or the root cannot be asked (NFS: from now on calls wait until the root
 * is the right one again). */
int source_verify(struct source *s);

/* The bytes in @o that belong to the inode alone (struct stub_entry, inode): *len of them. */
const uint8_t *source_inode(const struct source *s, const struct stub_origin *o, size_t *len);

/* The mode is as the server says it: if the object has an ACL it may grant more than that. */
int source_getattr(struct source *s, enum source_priority p, const struct stub_origin *o,
		   struct stub_attr *attr);

/* Narrows the mode that source_getattr() gave, so that nobody gets more rights than the object's
 * ACL gives; look-ups, listings and source_meta() do that themselves. */
int source_rights(struct source *s, enum source_priority p, const struct stub_origin *o,
		  struct stub_attr *attr);

/*
 * What is kept of an object beside its data: attributes, and the extended attributes
 * that hold what a server of its kind knows of it (ACLs, streams, DOS attributes), in
 * the order in which they are to be stored.  NFSv4.2 has users' extended attributes, NFSv4 creation
 * times (source_config.born).  NFSv3 has POSIX ACLs, if the server has the ACL
 * protocol beside it; where one does not come (attr.acl), the mode is narrowed.  Freed with
 * source_meta_free(), also after a failure.
 */
struct source_meta {
	struct stub_attr attr;
	/* the true access and write times, where a protocol cannot express them; attr has them as
	 * the old server gives them, for comparing with it later */
	bool has_times;
	struct timespec times[2];
	const struct stub_xattr *xattrs;
	size_t n;
	const char *lost; /* what cannot be kept: lines that end with '\n'; NULL: nothing */
	/* streams that go into a depot (depot.h), by the names of their files there; source_stream()
	 * has their bytes */
	const struct source_stream *streams;
	size_t n_streams;
	const void *data; /* source_meta_data(): all of the file's, of the version of attr; or NULL */
	size_t data_len;
	void *memory, *lost_memory, *stream_memory, *data_memory;
};
struct source_stream {
	const char *name; /* ":NAME:$DATA", never with a '/' */
	uint64_t size;
};
int source_meta(struct source *s, enum source_priority p, const struct stub_origin *o,
		struct source_meta *out);
void source_meta_free(struct source_meta *m);
/* The same of a file that had @want bytes, which are wanted next: where it costs less than a call of
 * its own (SMB, up to 64 KiB) they come with it. */
int source_meta_data(struct source *s, enum source_priority p, const struct stub_origin *o,
		     uint32_t want, struct source_meta *out);

/*
 * The same without waiting, for the background, of a file of at most source_meta_sends() bytes (0: this
 * source only waits).  @fn is called exactly once, on a thread of the source, with what source_meta_data()
 * would have given: @m is @fn's, to be freed with source_meta_free(), also if there is an error.  It must
 * not block for long.  0, or -ECANCELED, -ENOMEM (then @fn is not called).
 */
typedef void (*source_meta_fn)(void *arg, int error, struct source_meta *m);
uint32_t source_meta_sends(const struct source *s);
int source_meta_send(struct source *s, const struct stub_origin *o, uint32_t want, source_meta_fn fn,
		     void *arg);

/* For backends: @x behind what @m has, in one piece of memory; a line of what is lost, without its
 * end.  0 or -ENOMEM. */
int source_meta_append(struct source_meta *m, const struct stub_xattr *x, size_t n);
int source_meta_lose(struct source_meta *m, const char *line);

/* As stub_fill_attr() wants them. */
static inline const struct timespec *source_meta_times(const struct source_meta *m)
{
	return m->has_times ? m->times : NULL;
}

/*
 * Bytes [offset, offset+length) of one of its streams into @buf; @length at most
 * SOURCE_STREAM_MAX.  Returns how many, fewer only at the stream's end; *@size is how many
 * it has.  -ESTALE: it is not there any more.
 */
#define SOURCE_STREAM_MAX (1u << 20)
int64_t source_stream(struct source *s, enum source_priority p, const struct stub_origin *o,
		      const char *name, uint64_t offset, void *buf, uint32_t length,
		      uint64_t *size);

/* Does source_meta() bring more than look-ups and listings do, for the object with these attributes?
 * Then these make dummies. */
bool source_has_meta(const struct source *s, const struct stub_attr *a);

/* Are its origins handles, which no line for people may have? */
bool source_by_handle(const struct source *s);

/* Target of a symlink; at most STUB_TARGET_MAX bytes, not terminated. */
int source_readlink(struct source *s, enum source_priority p, const struct stub_origin *o,
		    const struct source_id *as, char *buf, size_t size, size_t *len);

/* What may @uid do with it: ACCESS of RFC 1813 section 3.3.4.  For init.
 *   -EOPNOTSUPP  this kind of source cannot tell */
int source_access(struct source *s, const struct stub_origin *o, uint32_t uid, uint32_t want,
		  uint32_t *granted);

/*
 * All entries of a directory, batch by batch.  "." and ".." are left out (but if
 * the old server says one of them is no directory: -EBADMSG).  Every entry comes
 * complete: attributes and origin that READDIRPLUS left out are asked for with
 * LOOKUP, symlink targets with READLINK, all in parallel.  (SMB: they are dummies.)  An
 * entry of which the old server does not tell that, or tells impossible things, has an
 * error instead: any of the above.  Names are as sent (the receiver checks them with
 * stub_name_check()).  @fn returning non-zero ends the listing with that value.
 *   -EBADMSG  also: the same cookie twice, or a page without entries that is not the last
 *   -EAGAIN   the old server has broken the listing off: it knows its cookies no more
 * @fn is called on the calling thread; entries are valid only during the call.
 */
typedef int (*source_entries_fn)(void *arg, const struct stub_entry *e, size_t n);
int source_list(struct source *s, enum source_priority p, const struct stub_origin *dir,
		const struct source_id *as, source_entries_fn fn, void *arg);

/*
 * Read [offset, offset+length), length at most read_bytes of source_limits().
 * Asynchronous: @fn is called exactly once, on a thread of the source, with the
 * data (valid only during the call) and the attributes that came with it (valid
 * if have_attr): type, size, fsid, file id, mtime and ctime, which tell the version; of others
 * nothing is said.  result: bytes (== length unless the file ends before), or -errno.
 * @fn must not block for long.  Short replies before the end are asked for again
 * inside.  Returns 0, or -ECANCELED (then @fn is not called).
 */
struct source_read {
	int64_t result;
	const void *data;
	bool have_attr;
	struct stub_attr attr;
};
typedef void (*source_read_fn)(void *arg, const struct source_read *r);
int source_read(struct source *s, enum source_priority p, const struct stub_origin *o,
		uint64_t offset, uint32_t length, source_read_fn fn, void *arg);

/*
 * A descriptor of the file's bytes, O_RDONLY, where the source is a file system of this machine:
 * for calls of the kernel that take two files, and share their blocks.  *fd is the caller's.
 *   -EOPNOTSUPP  it is not
 */
int source_open(struct source *s, enum source_priority p, const struct stub_origin *o, int *fd);

/* Does source_open() give descriptors? */
bool source_opens(const struct source *s);

/*
 * Where a file has no data, from @offset on, as the old server says it: there it reads as zeros.
 * Holes that are not worth a read of their own are left out.  What is behind @end was not
 * asked about.  Blocks.  *@out is freed by free(out->hole), also after a failure.
 *   -EOPNOTSUPP  the old server, or the protocol, does not tell it of this file, or it is not to
 *               be believed: the file is to be read
 */
struct source_holes {
	struct stub_attr attr; /* as of after the answer: was it about this version? */
	uint64_t end;
	struct stub_range *hole; /* in order, and apart */
	uint32_t n;
};
int source_holes(struct source *s, enum source_priority p, const struct stub_origin *o,
		 uint64_t offset, struct source_holes *out);

struct source_limits {
	uint32_t read_bytes;
	uint32_t readdir_bytes;
	uint64_t max_file_size;
	uint32_t write_bytes; /* of target.h; 0: it is none */
};
/* As the old server said (FSINFO), clipped by the configuration; blocks until connected once. */
int source_limits(struct source *s, struct source_limits *out);

#endif
