/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_wire.h - the protocol between the retriever and its postcopy-smb-worker.
 *
 *   retriever                                   worker (one connection to the server)
 *   fork, exec; a socketpair is its fd 3
 *   START host, share, credentials ---------->  connects, looks at the share's root
 *            <--------------------------------   ALIVE  as often as bytes come from the server
 *            <--------------------------------   READY  the root's attributes
 *   LOOKUP "a/b" "Name" ----------------------> 
 *            <--------------------------------   OBJECT attributes, "Name"
 *   LIST "a/b" ------------------------------->
 *            <--------------------------------   ENTRIES 300, ENTRIES 211, ... END
 *   READ "a/b/Name" 0, 4 MiB ----------------->
 *            <--------------------------------   ALIVE, DATA attributes, bytes
 *   META "a/b/Name" -------------------------->
 *            <--------------------------------   META attributes, extended attributes
 *   PUT "a/b/Name" extended attributes -------->
 *            <--------------------------------   PUT what still differs
 *   HOLES "a/b/Name" 0 ----------------------->
 *            <--------------------------------   HOLES attributes, where it has no data
 *   ...      <--------------------------------   FAIL final, -ENOENT: what the server said
 *   ...      <--------------------------------   FAIL lost: the connection is of no use;
 *                                                the worker ends
 *   close    --------------------------------->  the worker ends, whatever it is doing
 *
 * A stream socket.  One request at a time, but for META: up to SMB_WIRE_MANY of these may be
 * under way at once, and are answered in any order (docs/decisions/0091).  A worker that is silent
 * for too long, sends what does not parse, or what is no answer to a request, is killed and
 * started again, and its requests go to the new one.  The password crosses this socket and no
 * other place.
 *
 * Layout, little-endian, no padding:
 *
 *   header, 16 bytes
 *     0  u32  magic, 'P' 'C' 'S' 'W'
 *     4  u16  version, 7
 *     6  u16  type
 *     8  u32  bytes that follow, at most SMB_WIRE_MAX
 *    12  u32  tag: of a request, chosen by the retriever; of an answer, its request's; of ALIVE 0
 *
 *   text: u16 length, bytes (never a NUL)
 *   attr: u32 mode  u32 uid  u32 gid  u32 nlink  u64 size  u64 fsid  u64 fileid,
 *         then three times (access, write, change) i64 seconds, u32 nanoseconds
 *
 *   START    u32 flags  u16 port  u32 uid  u32 gid  u32 file mode  u32 dir mode
 *            u32 bytes of one extended attribute  u32 bytes of all of a file's (0: no limit)
 *            text host, share, root, user, domain, password, idmap
 *   ATTR, LIST  text path
 *   META     text path, u8 1: its numbers are known: u32 uid, u32 gid, u32 mode without type
 *            u32 bytes of data that are wanted with it, at most SMB_WIRE_SMALL: it had so many
 *            u8 1: one question after the other, and no others beside it; then no data come
 *   LOOKUP   text path, text name
 *   READ     text path  u64 offset  u32 length
 *   STREAM   text path, text name  u64 offset  u32 length
 *   HOLES    text path  u64 offset
 *   PUT      text path  u64 file id that it must have  u8 1: only look
 *            u32 uid, u32 gid, u32 mode with type: of the object here
 *            u32 count, then count times: text name, u32 length, bytes: its extended attributes
 *
 *   ALIVE, END  nothing
 *   READY, ATTRS attr
 *   OBJECT   attr, text name (as the server has it)
 *   ENTRIES  u32 count, then count times: attr, text name, u8 length, bytes: the value of
 *            user.DOSATTRIB, if with that all is told that a listing shows; length 0: it is not
 *   DATA     attr, then the bytes: fewer than asked for only at the file's end (STREAM:
 *            its end; of attr only the size counts, which is the stream's)
 *   META     attr, u32 count, then count times: text name, u32 length, bytes
 *            u32 count, then count times: text on something that cannot be kept
 *            u32 count, then count times: text name, u64 size of a stream to be fetched
 *            u32 length, bytes: all of its data, of the version of attr; 0: not with this answer
 *   HOLES    attr, as of after the question, u64 end of what the answer is about, u32 count,
 *            then count times: u64 start, u64 end of a hole: in order, apart, behind the offset
 *   PUT      u32 what differs (enum target_differs), u8 1: the descriptor holds
 *   FAIL     u8 1: final, 0: lost   u8 number in a table of errors   text why
 *
 * Paths are relative to the share, UTF-8, '/' between names, "" for its root.
 * Both sides take every byte for hostile.
 */
#ifndef SMB_WIRE_H
#define SMB_WIRE_H

#include "stubcore.h"

#define SMB_WIRE_MAGIC	 0x57534350u
#define SMB_WIRE_VERSION 7
#define SMB_WIRE_HEADER	 16
#define SMB_WIRE_MAX	 (17u << 20) /* the largest DATA, or META with its streams */
#define SMB_WIRE_READ	 (16u << 20) /* bytes of one READ */
#define SMB_WIRE_XATTRS	 1024 /* in one META; likewise lines on what is not kept */
#define SMB_WIRE_COUNT	 4096 /* entries in one ENTRIES; streams in one META; ranges in one HOLES */
#define SMB_WIRE_TEXT	 4096 /* bytes of one text */
#define SMB_WIRE_MANY	 64 /* METAs under way at once */
#define SMB_WIRE_SMALL	 (64u << 10) /* bytes of data with one of them */
#define SMB_WIRE_FD	 3

enum smb_wire_type {
	SMB_WIRE_START = 1,
	SMB_WIRE_GETATTR,
	SMB_WIRE_LOOKUP,
	SMB_WIRE_LIST,
	SMB_WIRE_READ_,
	SMB_WIRE_GETMETA,
	SMB_WIRE_STREAM,
	SMB_WIRE_GETHOLES,
	SMB_WIRE_PUTMETA,
	/* answers */
	SMB_WIRE_ALIVE = 64,
	SMB_WIRE_READY,
	SMB_WIRE_ATTRS,
	SMB_WIRE_OBJECT,
	SMB_WIRE_ENTRIES,
	SMB_WIRE_END,
	SMB_WIRE_DATA,
	SMB_WIRE_META,
	SMB_WIRE_FAIL,
	SMB_WIRE_HOLES,
	SMB_WIRE_PUT,
};

enum { /* START */
	SMB_WIRE_SIGN = 1,     /* signing required */
	SMB_WIRE_ENCRYPT = 2,  /* encryption required */
	SMB_WIRE_KERBEROS = 4, /* with the tickets in the worker's home, nothing else */
	SMB_WIRE_STRICT = 8,   /* strict_delete of smb_meta.h */
	SMB_WIRE_TRAVERSE = 16, /* traverse */
	SMB_WIRE_DEPOT = 32, /* depot */
};

struct smb_text { /* bytes of the message it came in, not terminated */
	const char *p;
	size_t len;
};

struct smb_start {
	uint32_t flags;
	uint16_t port; /* 0: the usual one */
	uint32_t uid, gid, file_mode, dir_mode; /* where the server's are not known */
	uint32_t xattr_value, xattr_all; /* what the new file system takes; 0: no limit */
	struct smb_text host, share, root, user, domain, password, idmap;
};

struct smb_request {
	enum smb_wire_type type;
	struct smb_start start;
	struct smb_text path, name;
	bool has_numbers; /* META: see struct smb_meta_in */
	uint32_t uid, gid, bits; /* bits: the mode without type */
	uint32_t want; /* META: bytes of data that are wanted with it */
	bool alone; /* META: one question after the other */
	uint64_t offset;
	uint32_t length;
	/* PUT; has_numbers has no meaning, bits is the mode with type */
	uint64_t fileid;
	bool look;
	const struct stub_xattr *x; /* to be sent */
	size_t n_x;
	uint32_t count; /* that came; to be walked with smb_wire_put_xattr() */
	const uint8_t *rest;
	size_t rest_len;
};

struct smb_answer {
	enum smb_wire_type type;
	struct stub_attr attr;
	struct smb_text name, why;
	uint64_t end; /* HOLES */
	uint32_t count; /* ENTRIES, META, HOLES: to be walked with the functions below */
	const uint8_t *rest;
	size_t rest_len; /* DATA: the bytes */
	uint32_t lost_count; /* META */
	const uint8_t *lost;
	size_t lost_len;
	uint32_t stream_count; /* META */
	const uint8_t *streams;
	size_t streams_len;
	const uint8_t *data; /* META: all of it */
	size_t data_len; /* 0: it did not come */
	uint32_t differs; /* PUT */
	bool holds;
	bool final;
	int error; /* FAIL: -errno of source.h */
};

/* ---- a message in the making ---- */

struct smb_out {
	uint8_t *p; /* header and what follows; smb_out_free() */
	size_t len, size;
	uint32_t tag; /* of the messages that begin from now on */
	bool failed; /* no memory, or too long */
};

void smb_out_begin(struct smb_out *o, enum smb_wire_type type); /* forgets what was in it */
void smb_out_u8(struct smb_out *o, uint8_t x);
void smb_out_u32(struct smb_out *o, uint32_t x);
void smb_out_u64(struct smb_out *o, uint64_t x);
void smb_out_text(struct smb_out *o, const char *p, size_t len);
void smb_out_attr(struct smb_out *o, const struct stub_attr *a);
void smb_out_bytes(struct smb_out *o, const void *p, size_t len);
/* Room for @len bytes at the end, NULL: failed.  smb_out_cut() takes unused ones back. */
void *smb_out_room(struct smb_out *o, size_t len);
void smb_out_cut(struct smb_out *o, size_t len);
/* Set what is there already; @at is counted from the header's end. */
void smb_out_set_u32(struct smb_out *o, size_t at, uint32_t x);
void smb_out_set_attr(struct smb_out *o, size_t at, const struct stub_attr *a);
/* Fill the header in: 0, -ENOMEM, -EMSGSIZE. */
int smb_out_end(struct smb_out *o);
void smb_out_free(struct smb_out *o);

void smb_out_request(struct smb_out *o, const struct smb_request *r); /* begin to end */
void smb_out_fail(struct smb_out *o, bool final, int error, const char *why);

/* ---- a message that came in ---- */

/* Read @header: 0, or -EBADMSG, -EPROTO (another version). */
int smb_wire_header(const uint8_t header[SMB_WIRE_HEADER], enum smb_wire_type *type, uint32_t *len,
		    uint32_t *tag);
/* Read what follows the header: 0 or -EBADMSG.  The result points into @p. */
int smb_wire_request(enum smb_wire_type type, const uint8_t *p, size_t len,
		     struct smb_request *out);
int smb_wire_answer(enum smb_wire_type type, const uint8_t *p, size_t len,
		    struct smb_answer *out);
/* The next entry of ENTRIES, attribute of META: 1, 0 at the end.  They have been checked. */
struct smb_told { /* bytes of the message */
	const uint8_t *p;
	size_t len;
};
int smb_wire_entry(struct smb_answer *a, struct stub_attr *attr, struct smb_text *name,
		   struct smb_told *told);
int smb_wire_xattr(struct smb_answer *a, struct smb_text *name, const uint8_t **value, size_t *len);
int smb_wire_put_xattr(struct smb_request *r, struct smb_text *name, const uint8_t **value, size_t *len);
int smb_wire_lost(struct smb_answer *a, struct smb_text *line); /* likewise */
int smb_wire_stream(struct smb_answer *a, struct smb_text *name, uint64_t *size); /* likewise */
int smb_wire_hole(struct smb_answer *a, struct stub_range *out); /* likewise */

/* Is @name one that may be stored for the server's sake?  Never one of ours. */
bool smb_wire_xattr_name(const struct smb_text *name);
/* Is @name that of a file in a depot, ":NAME:$DATA"?  Never a way out of it. */
bool smb_wire_stream_name(const struct smb_text *name);

/* Whole messages, on a blocking or non-blocking socket: 0, -ECONNRESET (it is closed),
 * -ETIMEDOUT (nothing came for @wait_ms), -ECANCELED (@wake became readable; -1: none). */
int smb_wire_send(int fd, const struct smb_out *o, unsigned int wait_ms, int wake);
int smb_wire_receive(int fd, void *p, size_t len, unsigned int wait_ms, int wake);

#endif
