/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * check_table.c - what becomes of each property of a file.
 *
 * The table says what the protocol carries and what postcopy does with it. The functions
 * below it correct that by what the two sides say of themselves.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "check/check.h"

#define NFS_TIME_MAX UINT32_MAX /* seconds; NFSv3 has 32 bits, unsigned */

struct cell {
	enum check_seen seen;
	enum check_fate fate;
	const char *why;
};

static void adjust_names(const struct check_sides *s, struct check_property *p);
static void adjust_sizes(const struct check_sides *s, struct check_property *p);
static void adjust_owner(const struct check_sides *s, struct check_property *p);
static void adjust_times(const struct check_sides *s, struct check_property *p);
static void adjust_links(const struct check_sides *s, struct check_property *p);
static void adjust_symlinks(const struct check_sides *s, struct check_property *p);
static void adjust_devices(const struct check_sides *s, struct check_property *p);
static void adjust_acl(const struct check_sides *s, struct check_property *p);
static void adjust_windows(const struct check_sides *s, struct check_property *p);
static void adjust_mode(const struct check_sides *s, struct check_property *p);
static void adjust_room(const struct check_sides *s, struct check_property *p);
static void adjust_xattrs(const struct check_sides *s, struct check_property *p);
static void adjust_streams(const struct check_sides *s, struct check_property *p);
static void adjust_nfs4_acl(const struct check_sides *s, struct check_property *p);
static void adjust_holes(const struct check_sides *s, struct check_property *p);
static void adjust_born(const struct check_sides *s, struct check_property *p);
static void adjust_user_xattrs(const struct check_sides *s, struct check_property *p);

#define NOT_NFS                                               \
	{                                                     \
		SEEN_NO, FATE_LOST, "NFSv3 does not carry it" \
	}
#define NOT_SMB                                             \
	{                                                   \
		SEEN_NO, FATE_LOST, "SMB does not carry it" \
	}

static const struct row {
	const char *code, *title;
	struct cell nfs, smb;
	void (*adjust)(const struct check_sides *s, struct check_property *p);
} rows[] = {
	{ "names",
	  "names",
	  { SEEN_YES, FATE_KEPT, "byte for byte" },
	  { SEEN_YES, FATE_KEPT, "as UTF-8" },
	  adjust_names },
	{ "types",
	  "types of objects",
	  { SEEN_YES, FATE_KEPT, "" },
	  { SEEN_YES, FATE_APPROXIMATED,
	    "files and directories; reparse points are not told apart" },
	  NULL },
	{ "data", "file data", { SEEN_YES, FATE_KEPT, "" }, { SEEN_YES, FATE_KEPT, "" }, NULL },
	{ "sizes",
	  "file sizes",
	  { SEEN_YES, FATE_KEPT, "" },
	  { SEEN_YES, FATE_KEPT, "" },
	  adjust_sizes },
	{ "holes",
	  "holes in sparse files",
	  { SEEN_NO, FATE_APPROXIMATED, "blocks of zeros become holes, and are read over the wire" },
	  { SEEN_YES, FATE_APPROXIMATED,
	    "blocks of zeros become holes; large ones of files with the attribute SPARSE are not read" },
	  adjust_holes },
	{ "mode",
	  "mode bits",
	  { SEEN_YES, FATE_KEPT, "setuid, setgid and sticky too" },
	  { SEEN_NO, FATE_APPROXIMATED, "made from the security descriptor" },
	  adjust_mode },
	{ "owner",
	  "owner",
	  { SEEN_YES, FATE_KEPT, "by number" },
	  { SEEN_YES, FATE_APPROXIMATED, "a SID, made a number by /etc/postcopy/idmap" },
	  adjust_owner },
	{ "group",
	  "group",
	  { SEEN_YES, FATE_KEPT, "by number" },
	  { SEEN_YES, FATE_APPROXIMATED, "a SID, made a number by /etc/postcopy/idmap" },
	  adjust_windows },
	{ "mtime",
	  "modification time",
	  { SEEN_YES, FATE_KEPT, "" },
	  { SEEN_YES, FATE_KEPT, "" },
	  adjust_times },
	{ "atime",
	  "access time",
	  { SEEN_YES, FATE_KEPT, "" },
	  { SEEN_YES, FATE_KEPT, "" },
	  adjust_times },
	{ "ctime",
	  "change time",
	  { SEEN_YES, FATE_APPROXIMATED, "shown until an object is complete; then that moment" },
	  { SEEN_YES, FATE_APPROXIMATED, "shown until an object is complete; then that moment" },
	  NULL },
	{ "btime",
	  "creation time",
	  NOT_NFS,
	  { SEEN_YES, FATE_KEPT, "as Samba stores it" },
	  adjust_born },
	{ "hard-links",
	  "hard links",
	  { SEEN_YES, FATE_KEPT,
	    "by file handle: names that a server gives different ones become files of their "
	    "own, and are counted" },
	  { SEEN_UNKNOWN, FATE_LOST, "each name becomes a file of its own" },
	  adjust_links },
	{ "symlinks",
	  "symbolic links",
	  { SEEN_YES, FATE_KEPT, "" },
	  { SEEN_NO, FATE_LOST, "the old server follows them, or hides them" },
	  adjust_symlinks },
	{ "special-files",
	  "devices, FIFOs, sockets",
	  { SEEN_YES, FATE_KEPT, "" },
	  NOT_SMB,
	  adjust_devices },
	{ "inode-numbers",
	  "inode numbers, file handles",
	  { SEEN_YES, FATE_APPROXIMATED, "new ones; names of one file still share one" },
	  { SEEN_YES, FATE_APPROXIMATED, "new ones" },
	  NULL },
	{ "posix-acl",
	  "POSIX ACLs",
	  NOT_NFS,
	  { SEEN_NO, FATE_APPROXIMATED, "made from the security descriptor" },
	  adjust_acl },
	{ "nfs4-acl", "NFSv4 ACLs", NOT_NFS, NOT_SMB, adjust_nfs4_acl },
	{ "security-descriptor",
	  "security descriptors (Windows ACLs)",
	  NOT_NFS,
	  { SEEN_YES, FATE_KEPT, "whole, as Samba stores it" },
	  adjust_room },
	{ "user-xattrs",
	  "user extended attributes",
	  NOT_NFS,
	  { SEEN_YES, FATE_KEPT, "those of SMB" },
	  adjust_user_xattrs },
	{ "streams",
	  "alternate data streams",
	  NOT_NFS,
	  { SEEN_YES, FATE_APPROXIMATED,
	    "up to 64 KiB each, as Samba's streams_xattr has them; larger ones are lost "
	    "(--streams depot:DIR keeps them)" },
	  adjust_streams },
	{ "dos-attributes",
	  "DOS attributes",
	  NOT_NFS,
	  { SEEN_YES, FATE_KEPT, "as Samba stores them" },
	  adjust_xattrs },
	{ "capabilities", "file capabilities, security labels", NOT_NFS, NOT_SMB, NULL },
	{ "inode-flags", "file flags (immutable, append-only)", NOT_NFS, NOT_SMB, NULL },
	{ "locks",
	  "locks, open files",
	  { SEEN_NO, FATE_LOST, "clients mount the new server anew" },
	  { SEEN_NO, FATE_LOST, "clients connect to the new server anew" },
	  NULL },
	{ "quotas",
	  "quotas",
	  { SEEN_NO, FATE_LOST, "set them on the new server" },
	  { SEEN_NO, FATE_LOST, "set them on the new server" },
	  NULL },
	{ "snapshots",
	  "snapshots",
	  { SEEN_NO, FATE_LOST, "they stay on the old server" },
	  { SEEN_NO, FATE_LOST, "they stay on the old server" },
	  NULL },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* What a mounted file system tells more than NFSv3. */
static const struct {
	const char *code;
	struct cell cell;
} of_files[] = {
	{ "holes", { SEEN_YES, FATE_APPROXIMATED, "large ones are not read; blocks of zeros become holes, too" } },
	{ "hard-links", { SEEN_YES, FATE_KEPT, "by inode" } },
	{ "posix-acl", { SEEN_YES, FATE_KEPT, "of files and directories" } },
	{ "security-descriptor", { SEEN_YES, FATE_KEPT, "as Samba's acl_xattr has stored them" } },
	{ "user-xattrs", { SEEN_YES, FATE_KEPT, "user.*; of trusted.* none" } },
	{ "streams", { SEEN_YES, FATE_KEPT, "as Samba's streams_xattr has stored them" } },
	{ "dos-attributes", { SEEN_YES, FATE_KEPT, "as Samba has stored them" } },
	{ "btime", { SEEN_YES, FATE_LOST, "but for what Samba has stored with the DOS attributes" } },
	{ "capabilities", { SEEN_YES, FATE_LOST, "set them on the new server; capabilities are told and counted" } },
	{ "nfs4-acl", { SEEN_NO, FATE_LOST, "told and counted where there are some" } },
	{ "inode-flags", { SEEN_YES, FATE_LOST, "they would keep clients from what they may do now" } },
};

const char *check_seen_name(enum check_seen seen)
{
	static const char *const names[] = { "seen", "not offered", "unknown" };

	return names[seen];
}

/* A worse fate replaces a better one; reasons of the same fate are told together. */
static void __attribute__((format(printf, 3, 4)))
worse(struct check_property *p, enum check_fate fate, const char *fmt, ...)
{
	size_t n = strlen(p->why);
	va_list ap;

	if (fate < p->fate)
		return;
	if (fate > p->fate)
		n = 0;
	p->fate = fate;
	if (n && n + 3 < sizeof(p->why))
		n += (size_t)snprintf(p->why + n, sizeof(p->why) - n, "; ");
	va_start(ap, fmt);
	vsnprintf(p->why + n, sizeof(p->why) - n, fmt, ap);
	va_end(ap);
}

static void adjust_names(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;

	if (s->limits && s->limits->folds)
		worse(p, FATE_LOST,
		      "the new file system takes names that differ in case only for one");
	if (s->limits && s->limits->name_max && t->have_names && t->name_max > s->limits->name_max)
		worse(p, FATE_APPROXIMATED,
		      "%u bytes may be long over there, %u fit here (--names finds them)",
		      t->name_max, s->limits->name_max);
	if (t->have_names && t->case_insensitive && s->exports & EXPORT_NFS)
		worse(p, FATE_APPROXIMATED,
		      "the old server takes A and a for the same, NFS on the new one does not");
	if (s->exports & EXPORT_SMB && strcmp(s->protocol, "smb"))
		worse(p, FATE_APPROXIMATED, "SMB cannot show every one of them (--names)");
}

static void adjust_sizes(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;

	if (s->limits && s->limits->file_max && t->have_info &&
	    t->max_file_size > s->limits->file_max)
		worse(p, FATE_APPROXIMATED,
		      "%" PRIu64 " bytes are the most here, less than over there (--names "
		      "finds them)",
		      s->limits->file_max);
}

static void adjust_owner(const struct check_sides *s, struct check_property *p)
{
	if (s->traits->have_names && !s->traits->chown_restricted && !strcmp(s->protocol, "nfs"))
		worse(p, FATE_KEPT, "users could give files away over there, here only root can");
	adjust_windows(s, p);
}

static void date(char out[16], int64_t seconds)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm))
		snprintf(out, 16, "?");
}

static void adjust_times(const struct check_sides *s, struct check_property *p)
{
	const struct timespec *delta = &s->traits->time_delta;
	const struct target_limits *l = s->limits;
	char last[16];
	int64_t claim;

	if (l && l->times_known && l->time_max < NFS_TIME_MAX) {
		date(last, l->time_max);
		worse(p, FATE_APPROXIMATED, "later than %s does not fit here (--names finds it)",
		      last);
	}
	/* only a claim, about times that are set: Linux servers say a second, but send ns */
	claim = delta->tv_sec ? 0 : delta->tv_nsec;
	if (l && l->times_known && l->time_unit > 1 && s->traits->have_info && claim < l->time_unit)
		worse(p, FATE_APPROXIMATED, "rounded to %u ns here", l->time_unit);
	else if (p->fate == FATE_KEPT && s->traits->have_info && delta->tv_sec)
		worse(p, FATE_KEPT,
		      "to the ns, as they come; that the old server claims %" PRId64
		      " s is no limit of what it sends",
		      (int64_t)delta->tv_sec);
	else if (p->fate == FATE_KEPT && s->traits->have_info && delta->tv_nsec)
		worse(p, FATE_KEPT, "to 0.%09ld s, as precise as over there", delta->tv_nsec);
	if (!strcmp(s->protocol, "nfs") && !s->join && !s->traits->nfs4)
		worse(p, FATE_KEPT,
		      "before 1970 is taken for after 2038, NFSv3 does not tell them apart (--names "
		      "finds them)");
}

/* Over NFS, FSINFO says whether the file system has them (@there). */
static bool by_fsinfo(const struct check_sides *s, struct check_property *p, bool there)
{
	if (!strcmp(s->protocol, "smb"))
		return false;
	if (!s->traits->have_info)
		p->seen = SEEN_UNKNOWN;
	else if (!there)
		p->seen = SEEN_NO;
	if (p->seen == SEEN_NO)
		worse(p, FATE_KEPT, "the old server has none");
	return p->seen != SEEN_NO;
}

static void adjust_links(const struct check_sides *s, struct check_property *p)
{
	if (by_fsinfo(s, p, s->traits->hard_links) && s->limits && s->limits->link_max &&
	    s->traits->have_names && s->traits->link_max > s->limits->link_max)
		worse(p, FATE_APPROXIMATED,
		      "%u names of a file are the most here, %u over there (--names finds them)",
		      s->limits->link_max, s->traits->link_max);
}

static void adjust_symlinks(const struct check_sides *s, struct check_property *p)
{
	if (by_fsinfo(s, p, s->traits->symlinks) && s->limits && s->limits->symlink_max &&
	    s->limits->symlink_max < STUB_TARGET_MAX)
		worse(p, FATE_APPROXIMATED,
		      "targets of more than %u bytes do not fit here (--names finds them)",
		      s->limits->symlink_max);
}

static void adjust_devices(const struct check_sides *s, struct check_property *p)
{
	const struct target_limits *l = s->limits;

	if (p->seen == SEEN_YES && l && l->major_max && l->minor_max &&
	    (l->major_max < TARGET_MAJOR_MAX || l->minor_max < TARGET_MINOR_MAX))
		worse(p, FATE_KEPT,
		      "device numbers up to %u, %u; others do not fit here (--names finds them)",
		      l->major_max, l->minor_max);
}

static void adjust_acl(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;

	if (!strcmp(s->protocol, "file")) {
		if (!t->have_acl || !t->acl)
			p->seen = t->have_acl ? SEEN_NO : SEEN_UNKNOWN;
		if (s->limits && !s->limits->acl)
			worse(p, FATE_LOST, "the new file system has none");
		return;
	}
	if (strcmp(s->protocol, "nfs")) {
		if (!t->windows)
			worse(p, FATE_LOST, "the SMB source of this release does not make them");
		else if (s->limits && !s->limits->acl)
			worse(p, FATE_LOST, "the new file system has none");
		return;
	}
	if (t->nfs4)
		return; /* they are shown as NFSv4's */
	p->seen = !t->have_acl ? SEEN_UNKNOWN : t->acl ? SEEN_YES : SEEN_NO;
	if (p->seen != SEEN_YES || s->join)
		return; /* joined: made from the security descriptor */
	if (s->limits && !s->limits->acl) {
		snprintf(p->why, sizeof(p->why), "the new file system has none");
		return;
	}
	p->fate = FATE_KEPT;
	snprintf(p->why, sizeof(p->why),
		 "of files and directories, by the ACL protocol beside NFSv3; users and groups by number");
}

static void adjust_nfs4_acl(const struct check_sides *s, struct check_property *p)
{
	if (!s->traits->nfs4 || strcmp(s->protocol, "nfs"))
		return;
	p->seen = s->traits->acl ? SEEN_YES : SEEN_NO;
	if (p->seen == SEEN_NO) {
		worse(p, FATE_LOST, "the old server offers none");
	} else if (s->limits && !s->limits->acl) {
		snprintf(p->why, sizeof(p->why), "the new file system has no ACLs");
	} else {
		p->fate = FATE_APPROXIMATED;
		snprintf(p->why, sizeof(p->why),
			 "as POSIX ACLs where these say the same, else as the nearest that give "
			 "nobody more (--names finds them)");
	}
}

/* For properties that come from the security descriptor (SMB only). */
static void adjust_windows(const struct check_sides *s, struct check_property *p)
{
	if (strcmp(s->protocol, "smb") || s->traits->windows)
		return;
	if (p->fate == FATE_APPROXIMATED && strcmp(p->code, "streams"))
		snprintf(p->why, sizeof(p->why), "the configured one, the same for all");
	else
		worse(p, FATE_LOST, "the SMB source of this release does not bring it");
}

/* In the mode of a file with an ACL, the group's bits are the ACL's mask. */
static void adjust_mode(const struct check_sides *s, struct check_property *p)
{
	const struct source_traits *t = s->traits;

	adjust_windows(s, p);
	if (strcmp(s->protocol, "nfs"))
		return;
	if (t->have_acl && t->acl && s->limits && !s->limits->acl)
		worse(p, FATE_APPROXIMATED,
		      "where an object has an ACL, the group and others get no more than it gave "
		      "them, and less if it keeps somebody out (--names finds them)");
	else if (t->have_acl && t->acl)
		worse(p, FATE_KEPT,
		      "beside an ACL that cannot come, as of a FIFO, no more than it gave "
		      "(--names finds them)");
	else if (!t->have_acl)
		worse(p, FATE_APPROXIMATED,
		      "it is not known whether the old server has ACLs: beside one, the group's "
		      "bits would be those of its mask");
}

/* For properties that are stored in extended attributes. */
static void adjust_room(const struct check_sides *s, struct check_property *p)
{
	adjust_windows(s, p);
	if (p->seen == SEEN_YES && p->fate != FATE_LOST && s->limits && s->limits->xattrs_max)
		worse(p, FATE_APPROXIMATED,
		      "all of this of one file shares %u bytes here, what is more is lost",
		      s->limits->xattrs_max);
}

static void adjust_xattrs(const struct check_sides *s, struct check_property *p)
{
	adjust_room(s, p);
	if (p->fate != FATE_LOST && s->limits && !s->limits->user_xattrs)
		worse(p, FATE_LOST, "the new file system has no user extended attributes");
}

static bool is_nfs4(const struct check_sides *s)
{
	return s->traits->nfs4 && !strcmp(s->protocol, "nfs");
}

static void adjust_holes(const struct check_sides *s, struct check_property *p)
{
	if (!is_nfs4(s) || s->traits->minor < 2)
		return;
	p->seen = SEEN_YES;
	snprintf(p->why, sizeof(p->why),
		 "blocks of zeros become holes; large ones are not read where the server tells of them");
}

/* Only SMB clients are shown it, and it makes each object cost a call more: who wants it says so. */
static void adjust_born(const struct check_sides *s, struct check_property *p)
{
	if (is_nfs4(s) && s->traits->born) {
		p->seen = SEEN_YES;
		if (s->born)
			p->fate = FATE_KEPT;
		snprintf(p->why, sizeof(p->why), "%s",
			 s->born ? "of files and directories, as Samba stores it" :
				   "for SMB clients: 'creation_times = 1' in postcopy.conf keeps it");
	} else if (is_nfs4(s)) {
		snprintf(p->why, sizeof(p->why), "the old server does not tell it");
	}
	adjust_xattrs(s, p);
}

static void adjust_user_xattrs(const struct check_sides *s, struct check_property *p)
{
	if (is_nfs4(s) && s->traits->minor < 2) {
		snprintf(p->why, sizeof(p->why), "NFSv4.%u does not carry them, 4.2 does",
			 s->traits->minor);
	} else if (is_nfs4(s) && !s->traits->xattrs) {
		snprintf(p->why, sizeof(p->why), "the old server offers none");
	} else if (is_nfs4(s)) {
		p->seen = SEEN_YES;
		p->fate = FATE_KEPT;
		snprintf(p->why, sizeof(p->why), "user.*, of files and directories");
	}
	adjust_xattrs(s, p);
}

/* In a depot they are files, and need one attribute of one byte. */
static void adjust_streams(const struct check_sides *s, struct check_property *p)
{
	if (!s->depot || strcmp(s->protocol, "smb") || !s->traits->windows) {
		adjust_xattrs(s, p);
		return;
	}
	p->fate = FATE_KEPT;
	snprintf(p->why, sizeof(p->why),
		 "of any size, as Samba's streams_depot has them; found by inode and the name of the "
		 "file system's device, so neither must change");
	if (s->limits && !s->limits->user_xattrs)
		worse(p, FATE_LOST, "the new file system has no user extended attributes");
}

unsigned int check_properties(void)
{
	return ROWS;
}

static const struct cell *cell_of(const char *protocol, const struct row *r)
{
	for (size_t i = 0; !strcmp(protocol, "file") && i < sizeof(of_files) / sizeof(of_files[0]); i++)
		if (!strcmp(of_files[i].code, r->code))
			return &of_files[i].cell;
	return strcmp(protocol, "smb") ? &r->nfs : &r->smb;
}

static void one_side(const struct check_sides *sides, unsigned int i, struct check_property *out)
{
	const struct row *r = &rows[i];
	const struct cell *c = cell_of(sides->protocol, r);

	memset(out, 0, sizeof(*out));
	out->code = r->code;
	out->title = r->title;
	out->seen = c->seen;
	out->fate = c->fate;
	/* the table is of NFSv3 */
	snprintf(out->why, sizeof(out->why), "%s",
		 sides->traits->nfs4 && c->fate == FATE_LOST && c->seen == SEEN_NO &&
				 !strncmp(c->why, "NFSv3 ", 6) ?
			 "NFSv4 does not carry it" :
			 c->why);
	if (r->adjust)
		r->adjust(sides, out);
	out->from = out->seen == SEEN_NO ? "" : sides->protocol;
}

/* Of a joined source NFS tells what it can, and the share the rest; the mode comes from the
 * share's security descriptor. */
void check_property(const struct check_sides *sides, unsigned int i, struct check_property *out)
{
	struct check_sides share = *sides;
	struct check_property smb;
	char why[CHECK_WHY_MAX];

	one_side(sides, i, out);
	if (!sides->join)
		return;
	share.protocol = "smb";
	share.traits = sides->join;
	one_side(&share, i, &smb);
	if (!strcmp(out->code, "mode") && share.traits->windows) {
		out->fate = FATE_APPROXIMATED;
		out->from = "smb";
		snprintf(out->why, sizeof(out->why),
			 "made from the security descriptor; setuid, setgid and sticky are NFS's");
	} else if (out->fate == FATE_LOST && smb.fate != FATE_LOST) {
		*out = smb;
		out->from = "smb";
	} else if (out->fate == FATE_LOST && strcmp(out->why, smb.why)) {
		snprintf(why, sizeof(why), "%.120s; %.120s", out->why, smb.why);
		memcpy(out->why, why, sizeof(why));
	}
}

bool check_property_known(const char *code, size_t len)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (strlen(rows[i].code) == len && !memcmp(rows[i].code, code, len))
			return true;
	}
	return false;
}
