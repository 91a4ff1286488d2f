/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * wire.h - the protocol between those who ask and the retriever.
 *
 *   asker (plugin, crawler)                     retriever
 *   connect  --------------------------------->  accept; SO_PEERCRED: uid 0 or close
 *   ASK id=7 LOOKUP dir "name" --------------->
 *   ASK id=8 DATA file [0, 10 MiB) ----------->  (a link may have many in flight)
 *            <--------------------------------   ANSWER id=8 DONE
 *            <--------------------------------   ANSWER id=7 NOENT
 *   (any other message, or one that does not parse)
 *            <--------------------------------   ERROR id errno text; close
 *   close    --------------------------------->  answers still due are dropped; the
 *                                                work goes on
 *            <--------------------------------   close, after some seconds without asks:
 *                                                connect again with the next one
 *
 * A SOCK_SEQPACKET socket in the UNIX domain: one message is one packet.  Objects
 * are named by kernel file handle.  No descriptors cross the socket but one: the
 * DONE of a PASS brings a sealed memfd that holds the bytes asked for, all of them
 * (docs/decisions/0007).  There is no greeting: every message carries the version, and a side
 * that meets another version than its own answers ERROR EPROTO and closes.  Header and ERROR
 * look the same in all versions, so each side learns which one the other speaks, and both say
 * who is older and has to be restarted (release.c); the asker waits as if nobody were there.
 *
 * Ids are chosen by the asker, and an ask that is sent again may keep its own; they tell
 * answers apart, and are the names of asks in the logs of both sides, nothing more.
 * Answers come in any order.  An asker that stopped waiting gets its answer nevertheless,
 * and discards it by its id.
 *
 * Layout, little-endian, no padding:
 *
 *   header, 16 bytes
 *     0  u32  magic, 'P' 'C' 'A' 'K'
 *     4  u16  version, 1
 *     6  u16  type: 1 ASK, 2 ANSWER, 3 ERROR
 *     8  u32  id
 *    12  u32  length of the whole message; equals the packet's
 *
 *   ASK, 24 bytes and what follows
 *    16  u64  offset           0 but for DATA, PASS
 *    24  u64  length           0 but for DATA, PASS; PASS: at most STUB_PASS_MAX
 *    32  i32  type of the handle
 *    36  u8   kind: 1 LOOKUP, 2 LIST, 3 ATTR, 4 DATA, 5 FILL, 6 PASS, 7 ROOM, 8 LEAVE
 *    37  u8   length of the handle, 1..128
 *    38  u8   length of the name; 0 but for LOOKUP, 1..255
 *    39  u8   length of who, 0..80
 *    40  handle, name, who (printable ASCII)
 *
 *   ANSWER
 *    16  u32  result: 0 DONE, 1 AGAIN, 2 NOENT, 3 REMOTEIO, 4 NOSPC, 5 STALE, 6 INVAL,
 *              7 DQUOT, 8 ROFS, 9 IO
 *
 *   ERROR
 *    16  u32  errno: EPROTO (version), EBADMSG (does not parse), EPERM
 *    20  text, 0..119 bytes, printable ASCII
 *
 * Both sides take every byte for hostile.  An ASK that parses but makes no sense
 * (name with '/') is answered INVAL; one that does not parse ends the connection.
 */
#ifndef STUBCORE_WIRE_H
#define STUBCORE_WIRE_H

#include "internal.h"

#define STUB_WIRE_MAGIC	  0x4b414350u
#define STUB_WIRE_VERSION 1
#define STUB_WIRE_HEADER  16
#define STUB_WIRE_ASK	  40 /* bytes of an ASK before the handle */
#define STUB_WIRE_TEXT	  119
#define STUB_WIRE_MAX	  512 /* bytes of any message */

_Static_assert(STUB_WIRE_ASK + STUB_HANDLE_MAX + STUB_NAME_MAX + STUB_WHO_MAX <= STUB_WIRE_MAX,
	       "an ASK fits");

#define STUB_WIRE_IN_FLIGHT 4096 /* asks of one connection; more wait in its socket buffer */

enum stub_wire_type { STUB_WIRE_IS_ASK = 1, STUB_WIRE_IS_ANSWER = 2, STUB_WIRE_IS_ERROR = 3 };

struct stub_wire_message {
	enum stub_wire_type type;
	uint32_t id;
	unsigned int version; /* also after -EPROTO */
	struct stub_ask ask; /* ASK; name points into the packet */
	int result; /* ANSWER: as stub_ask() returns it */
	int error; /* ERROR: positive errno */
	char text[STUB_WIRE_TEXT + 1]; /* ERROR */
};

/* Does @a make sense?  0 or -EINVAL. */
int stub_wire_check_ask(const struct stub_ask *a);

/* Each returns the length of the message in @buf (STUB_WIRE_MAX bytes).  @a must
 * have passed stub_wire_check_ask(). */
size_t stub_wire_put_ask(uint8_t *buf, uint32_t id, const struct stub_ask *a);
/* A @result that is not one of stub_ask()'s goes as REMOTEIO. */
size_t stub_wire_put_answer(uint8_t *buf, uint32_t id, int result);
size_t stub_wire_put_error(uint8_t *buf, uint32_t id, int error, const char *text);

/* 0; -EPROTO: another version (id and version are valid); -EBADMSG: anything else wrong. */
int stub_wire_parse(const uint8_t *buf, size_t len, struct stub_wire_message *out);

/* ---- io of one packet (wire.c) ---- */

/* Without blocking.  0; -EAGAIN; -ECONNRESET: the other side has gone. */
int stub_wire_send(int fd, const uint8_t *buf, size_t len);
/* The same, and @pass goes with it; it stays the caller's.  -1: none. */
int stub_wire_send_fd(int fd, const uint8_t *buf, size_t len, int pass);
/* Without blocking.  Length, more than STUB_WIRE_MAX if cut; -EAGAIN; -ECONNRESET. */
ssize_t stub_wire_receive(int fd, uint8_t buf[STUB_WIRE_MAX]);
/* The same; the descriptor that came with it is the caller's, *passed is -1 without one. */
ssize_t stub_wire_receive_fd(int fd, uint8_t buf[STUB_WIRE_MAX], int *passed);

/* ---- ask.c ---- */

/* Connections of stub_ask(); one pool per open volume. */
struct stub_ask_pool;
int stub_ask_pool_create(struct stub_volume *v, struct stub_ask_pool **out);
void stub_ask_pool_destroy(struct stub_ask_pool *p);

struct stub_ask_pool *stub_volume_pool(struct stub_volume *v); /* volume.c */

/* ---- release.c ---- */

/* What is said when the other side speaks version @theirs: by who asks, of the retriever at
 * @socket; and by the retriever, of the process @pid. */
void stub_release_of_retriever(const char *socket, unsigned int theirs, char *out, size_t size);
void stub_release_of_asker(pid_t pid, unsigned int theirs, char *out, size_t size);

/* ---- serve_socket.c ---- */

struct stub_serve_socket {
	int fd; /* listening, non-blocking */
	char path[STUB_PATH_MAX + 1];
	dev_t dev; /* of the name, to remove no other's */
	ino_t ino;
};

/* -EADDRINUSE: somebody listens there, or it is no socket; -ENOENT: no directory */
int stub_serve_socket_open(const char *path, const struct stub_log *log,
			   struct stub_serve_socket *out);
void stub_serve_socket_close(struct stub_serve_socket *s);

/* ---- serve.c ---- */

/* How long a client may leave its answers unread before it is dropped (tests). */
void stub_server_set_stall(struct stub_server *s, unsigned int ms);
/* How long one may ask nothing before it is closed, and how many there may be (tests). */
void stub_server_set_idle(struct stub_server *s, unsigned int ms, unsigned int max_clients);

#endif
