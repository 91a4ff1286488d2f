/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nfs4.h - what the rooms of NFSv4.0 (RFC 7530), 4.1 (RFC 8881) and 4.2 (RFC 7862) share.
 *
 *   nfs4_wire.c  bytes of compounds and of their replies
 *   nfs4_who.c   users and groups
 *   nfs4_attr.c  codes and attributes into ours
 *   nfs4_acl.c   the ACL that comes with the attributes
 *   nfs4_posix.c what it lets users do, as POSIX ACLs
 *   nfs4_ntacl.c the same, as Samba's acl_xattr keeps it
 *   nfs4_call.c  how a call is said, and what its reply says
 *   nfs4_answer.c what the reply to a compound says, of one call or several
 *   nfs4_dial.c  the way to the export's root, and what is asked of it
 *   nfs41_*.c    sessions: see nfs41.h
 *   nfs42_*.c    holes, extended attributes, creation times: see nfs42.h
 *
 * libnfs carries the bytes (nfs_zdr.c), and does not know what they say: its own NFSv4 ends with
 * 4.0, and believes what it decodes (docs/decisions/0075).
 */
#ifndef NFS4_H
#define NFS4_H

#include "nfs/nfs.h"

/* ---- numbers of RFC 7530, and behind 39 of RFC 8881 ---- */

enum nfs4_op {
	NFS4_ACCESS = 3,
	NFS4_GETATTR = 9,
	NFS4_GETFH = 10,
	NFS4_LOOKUP = 15,
	NFS4_PUTFH = 22,
	NFS4_PUTROOTFH = 24,
	NFS4_READ = 25,
	NFS4_READDIR = 26,
	NFS4_READLINK = 27,
	NFS4_EXCHANGE_ID = 42,
	NFS4_CREATE_SESSION = 43,
	NFS4_DESTROY_SESSION = 44,
	NFS4_SEQUENCE = 53,
	NFS4_DESTROY_CLIENTID = 57,
	NFS4_RECLAIM_COMPLETE = 58,
	NFS4_SEEK = 69, /* of RFC 7862 */
	NFS4_GETXATTR = 72, /* of RFC 8276 */
	NFS4_LISTXATTRS = 74,
	NFS4_ILLEGAL = 10044, /* in place of one that the server does not know */
};

enum nfs4_status {
	NFS4_PERM = 1,
	NFS4_NOENT = 2,
	NFS4_EIO = 5,
	NFS4_NXIO = 6,
	NFS4_EACCESS = 13,
	NFS4_NOTDIR = 20,
	NFS4_INVAL = 22,
	NFS4_NAMETOOLONG = 63,
	NFS4_STALE = 70,
	NFS4_BADHANDLE = 10001,
	NFS4_BAD_COOKIE = 10003,
	NFS4_NOTSUPP = 10004,
	NFS4_TOOSMALL = 10005,
	NFS4_DELAY = 10008,
	NFS4_LOCKED = 10012,
	NFS4_GRACE = 10013,
	NFS4_FHEXPIRED = 10014,
	NFS4_SHARE_DENIED = 10015,
	NFS4_WRONGSEC = 10016,
	NFS4_RESOURCE = 10018,
	NFS4_MOVED = 10019,
	NFS4_MINOR_VERS_MISMATCH = 10021,
	NFS4_BAD_STATEID = 10025,
	NFS4_NOT_SAME = 10027,
	NFS4_SYMLINK = 10029,
	NFS4_ATTRNOTSUPP = 10032,
	NFS4_OP_ILLEGAL = 10044,
	NFS4_WRONG_TYPE = 10083,
	NFS4_UNION_NOTSUPP = 10090,
	NFS4_NOXATTR = 10095,
	NFS4_XATTR2BIG = 10096,
	NFS4_REQ_TOO_BIG = 10065,
	NFS4_REP_TOO_BIG = 10066,
	NFS4_TOO_MANY_OPS = 10070,
	/* of the session or the client: the call itself was not looked at */
	NFS4_EXPIRED = 10011,
	NFS4_STALE_CLIENTID = 10022,
	NFS4_BADSESSION = 10052,
	NFS4_BADSLOT = 10053,
	NFS4_COMPLETE_ALREADY = 10054,
	NFS4_CONN_NOT_BOUND = 10055,
	NFS4_SEQ_MISORDERED = 10063,
	NFS4_SEQUENCE_POS = 10064,
	NFS4_RETRY_UNCACHED = 10068,
	NFS4_SEQ_FALSE_RETRY = 10076,
	NFS4_BAD_HIGH_SLOT = 10077,
	NFS4_DEADSESSION = 10078,
};

/* Numbers of attributes. */
enum nfs4_attribute {
	FATTR4_SUPPORTED = 0,
	FATTR4_TYPE = 1,
	FATTR4_FH_EXPIRE_TYPE = 2,
	FATTR4_SIZE = 4,
	FATTR4_LINK_SUPPORT = 5,
	FATTR4_SYMLINK_SUPPORT = 6,
	FATTR4_FSID = 8,
	FATTR4_LEASE_TIME = 10,
	FATTR4_RDATTR_ERROR = 11,
	FATTR4_ACL = 12,
	FATTR4_ACLSUPPORT = 13,
	FATTR4_CASE_INSENSITIVE = 16,
	FATTR4_CASE_PRESERVING = 17,
	FATTR4_CHOWN_RESTRICTED = 18,
	FATTR4_FILEHANDLE = 19,
	FATTR4_FILEID = 20,
	FATTR4_FILES_FREE = 22,
	FATTR4_FILES_TOTAL = 23,
	FATTR4_MAXFILESIZE = 27,
	FATTR4_MAXLINK = 28,
	FATTR4_MAXNAME = 29,
	FATTR4_MAXREAD = 30,
	FATTR4_MODE = 33,
	FATTR4_NUMLINKS = 35,
	FATTR4_OWNER = 36,
	FATTR4_OWNER_GROUP = 37,
	FATTR4_RAWDEV = 41,
	FATTR4_SPACE_FREE = 43,
	FATTR4_SPACE_TOTAL = 44,
	FATTR4_SPACE_USED = 45,
	FATTR4_TIME_ACCESS = 47,
	FATTR4_TIME_CREATE = 50,
	FATTR4_TIME_DELTA = 51,
	FATTR4_TIME_METADATA = 52,
	FATTR4_TIME_MODIFY = 53,
	FATTR4_XATTR_SUPPORT = 82, /* of RFC 8276 */
};

#define NFS4_BIT(n)   (UINT64_C(1) << (n)) /* of the first two words of a bitmap */
#define NFS4_THIRD(n) (1u << ((n) - 64))

/* ---- nfs4_wire.c ---- */

/* A compound, or the reply to one, in libnfs's hands. */
struct nfs4_bytes {
	const uint8_t *data;
	uint32_t len;
};

#define NFS4_OUT_MAX 3072 /* libnfs 4.0.0 has 4096 bytes for a call with its header */

struct nfs4_out {
	uint8_t bytes[NFS4_OUT_MAX];
	uint32_t len, ops;
	bool full; /* there was more than has room */
};

void nfs4_begin(struct nfs4_out *o); /* of NFSv4.0 */
void nfs4_minor(struct nfs4_out *o, uint32_t minor); /* of another, once it has begun */
void nfs4_put_op(struct nfs4_out *o, enum nfs4_op op);
void nfs4_put32(struct nfs4_out *o, uint32_t n);
void nfs4_put64(struct nfs4_out *o, uint64_t n);
void nfs4_put_fixed(struct nfs4_out *o, const void *p, size_t len); /* without its length */
void nfs4_put_opaque(struct nfs4_out *o, const void *p, size_t len);
void nfs4_put_bitmap(struct nfs4_out *o, uint64_t attributes);
/* With a third word, if it is not 0. */
void nfs4_put_bitmap3(struct nfs4_out *o, uint64_t attributes, uint32_t third);
/* 0, or what libnfs cannot take: -1. */
int nfs4_queue(struct nfs4_out *o, struct nfs_carrier *rpc, rpc_cb cb, void *arg);

struct nfs4_in {
	const uint8_t *p;
	size_t left;
	bool bad; /* it ended too early, or was impossible; all that comes then is 0 */
};

uint32_t nfs4_get32(struct nfs4_in *in);
uint64_t nfs4_get64(struct nfs4_in *in);
/* Bytes whose number is known; bad, and zeros, if there are fewer. */
void nfs4_get_fixed(struct nfs4_in *in, void *out, size_t len);
/* At most @max bytes; they stay where they are. */
const uint8_t *nfs4_get_opaque(struct nfs4_in *in, uint32_t max, uint32_t *len);
/* An attribute beyond 63: bad, or passed over (@any). */
uint64_t nfs4_get_bitmap(struct nfs4_in *in, bool any);
/* The same with three words: beyond 95. */
uint64_t nfs4_get_bitmap3(struct nfs4_in *in, bool any, uint32_t *third);

struct nfs4_reply {
	struct nfs4_in in;
	uint32_t status; /* of the whole */
	uint32_t left; /* results */
};

void nfs4_open(const struct nfs4_bytes *b, struct nfs4_reply *r);
/* On to the result of @op: 0, its nfsstat4, or -EBADMSG. */
int nfs4_next(struct nfs4_reply *r, enum nfs4_op op);

/* ---- nfs4_who.c ---- */

/* A number in decimal, as servers without a table of names send it (RFC 7530 section 5.9). */
bool nfs4_number(const uint8_t *p, uint32_t len, uint32_t *out);
/* Is it time to tell once more of somebody who is not in the table of ids? */
enum nfs4_nameless { NFS4_NAMELESS_OWNER, NFS4_NAMELESS_DENIED, NFS4_NAMELESS_ALLOWED };
bool nfs4_nameless(struct nfs_source *s, enum nfs4_nameless what);

/* ---- nfs4_attr.c ---- */

int nfs4_errno(int status); /* as nfs_errno(); what is negative stays */
enum nfs_said nfs4_said(int status);

/* What a fattr4 says. */
struct nfs4_attrs {
	uint64_t have; /* NFS4_BIT() of each that came */
	uint32_t third; /* NFS4_THIRD() of those beyond */
	uint32_t xattr_support;
	uint64_t supported;
	uint32_t type, fh_expire, rdattr_error, aclsupport, maxlink, maxname, mode, numlinks;
	uint32_t lease_time; /* seconds */
	uint32_t link_support, symlink_support, case_insensitive, case_preserving,
		chown_restricted;
	uint64_t size, fsid, fileid, files_free, files_total, maxfilesize, maxread;
	uint64_t space_free, space_total, space_used;
	uint32_t uid, gid, rdev_major, rdev_minor;
	struct timespec atime, mtime, ctime, time_delta, born;
	const uint8_t *fh; /* in the reply */
	uint32_t fh_len;
	/* the ACL: its entries, which can be decoded, in the reply; 0: there are none */
	struct nfs4_bytes acl;
	uint32_t aces;
	/* the owner and the group, if they are no numbers, in the reply; NULL: none */
	struct nfs4_bytes owner, group;
};

extern const uint64_t nfs4_of_objects; /* what is asked of each */
#define NFS4_OF_DIRS (NFS4_BIT(FATTR4_FSID) | NFS4_BIT(FATTR4_FILEID))
/* What tells one version of an object's content from others (source_read()).  No owners, whose
 * names cost the server a look-up, and no ACL, for which there is no room behind a full READ. */
#define NFS4_OF_VERSION \
	(NFS4_OF_DIRS | NFS4_BIT(FATTR4_TYPE) | NFS4_BIT(FATTR4_SIZE) | \
	 NFS4_BIT(FATTR4_TIME_METADATA) | NFS4_BIT(FATTR4_TIME_MODIFY))

/* A fattr4 of which no others than @asked were asked for.  0 or -EBADMSG. */
int nfs4_get_attrs(struct nfs4_in *in, uint64_t asked, struct nfs4_attrs *out);
/* The same, of @asked and of @third beyond 63. */
int nfs4_get_attrs3(struct nfs4_in *in, uint64_t asked, uint32_t third, struct nfs4_attrs *out);
/* Names for which the table @ids (NULL: an empty one) has numbers become these; true: all that
 * there were. */
bool nfs4_name_ids(const struct smb_idmap *ids, struct nfs4_attrs *a);
/* 0, or -EBADMSG: something is missing (*why says what), or impossible.  The mode is as the server
 * says it. */
int nfs4_attr(const struct nfs4_attrs *from, struct stub_attr *out, const char **why);
/* The same of NFS4_OF_VERSION; all else is 0. */
int nfs4_attr_version(const struct nfs4_attrs *from, struct stub_attr *out);

/* ---- nfs4_acl.c ---- */

/* Of the ACL that comes next: out->acl and aces.  0 or -EBADMSG. */
int nfs4_get_acl(struct nfs4_in *in, struct nfs4_attrs *out);
/* @s: as for nfs4_answer().  @a are the attributes of @from: narrow the mode, so that it gives no
 * more than the ACL; say whether there is more to be had (a->more), or the ACL is lost (a->acl),
 * and whether what comes of it is only near (a->acl_near). */
void nfs4_acl_met(struct nfs_source *s, const struct nfs4_attrs *from, struct stub_attr *a);
/* The same of out->attr, with the ACLs.  0, -ENOMEM, or -EBADMSG: it denies something to somebody
 * who is not in the table of ids. */
int nfs4_acl_meta(struct nfs_source *s, const struct nfs4_attrs *from, struct source_meta *out);

/* ---- nfs4_call.c ---- */

int nfs4_null(struct nfs_carrier *rpc, rpc_cb cb, void *arg);
int nfs4_send(struct nfs_call *c, struct nfs_carrier *rpc, rpc_cb cb);
/* NULL: NFSv4.0 has none. */
static inline struct nfs41_session *nfs4_session(const struct nfs_call *c)
{
	return c->conn ? c->conn->session : NULL;
}

/* On from the compound's beginning, or from the call before: what is said of @c. */
int nfs4_take(struct nfs_source *s, const struct nfs_call *c, struct nfs4_reply *r,
	      struct nfs_answer *a);
int nfs4_page(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct nfs_page *out, const char **why);
int nfs4_meta(struct nfs_source *s, const struct nfs_call *c, const struct nfs_answer *a,
	      struct source_meta *out);
void nfs4_put_handle(struct nfs4_out *o, const struct stub_origin *fh);
void nfs4_put_getattr(struct nfs4_out *o, uint64_t attributes);
/* The handle that GETFH gave: 0 or -EBADMSG. */
int nfs4_get_handle(struct nfs4_reply *r, struct stub_origin *out);

/* ---- nfs4_answer.c ---- */

/* @s: has the table of names, and hears of owners that are not in it; NULL: there is neither. */
void nfs4_answer(struct nfs_source *s, const struct nfs_call *c, const void *reply,
		 struct nfs_answer *out);
/* As of struct nfs_version. */
bool nfs4_joins(const struct nfs_conn *conn, const struct nfs_call *first,
		const struct nfs_call *next);
void nfs4_answers(struct nfs_source *s, struct nfs_call *first, const void *reply,
		  struct nfs_answer *a, void (*take)(struct nfs_call *c, const struct nfs_answer *a));

#endif
