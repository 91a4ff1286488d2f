/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_name.c - can the target, and its clients, express this entry? */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "check/check.h"
#include "source/dual_origin.h"
#include "smb/smb_mangled.h"

const struct check_kind_info check_kinds[CHECK_KINDS] = {
	[CHECK_TWIN] = { "case-twin",
			 "names of one directory that differ in case only: one of them is seen",
			 FATE_LOST },
	[CHECK_ENCODING] = { "not-utf8", "not UTF-8: SMB clients do not see the name", FATE_LOST },
	[CHECK_CHARACTER] = { "smb-character",
			      "a control character or one of < > : \" | ? * \\ in it: SMB clients "
			      "see another name",
			      FATE_LOST },
	[CHECK_ENDING] = { "smb-ending",
			   "a dot or a space at the end, which Windows drops: another name, or none",
			   FATE_LOST },
	[CHECK_DEVICE] = { "smb-device", "a device's name to Windows (CON, NUL, COM1 ...)",
			   FATE_LOST },
	[CHECK_MANGLED] = { "mangled",
			    "may be a name that Samba made up for one that Windows does not take: "
			    SMB_MANGLED_ADVICE,
			    FATE_LOST },
	[CHECK_NOT_JOINED] = { "not-joined",
			       "the share cannot be asked for it: without descriptor, streams, "
			       "attributes, creation time",
			       FATE_LOST },
	[CHECK_LONG_PATH] = { "long-path",
			      "the path has more than 1023 bytes: too long for SMB clients",
			      FATE_LOST },
	[CHECK_LONG_NAME] = { "long-name",
			      "a name of more bytes than can be taken: its directory is parked",
			      FATE_LOST },
	[CHECK_REFUSED] = { "refused", "the new file system will not have it", FATE_LOST },
	[CHECK_IMPOSSIBLE] = { "impossible",
			       "an entry that no file system can have: its directory is parked",
			       FATE_LOST },
	[CHECK_TIME] = { "time-range", "a time that the new file system cannot hold: it is moved",
			 FATE_APPROXIMATED },
	[CHECK_UNREADABLE] = { "unreadable",
			       "the old server does not let us read it (told with --read)", FATE_LOST },
	[CHECK_UNLISTED] = { "unlisted", "a directory that the old server does not list",
			     FATE_LOST },
	[CHECK_CYCLE] = { "cycle", "a directory inside itself, or too deep: not looked into",
			  FATE_LOST },
	[CHECK_UNSURE] = { "time-unsure",
			   "a time after 2038, or before 1970: NFSv3 does not say which, it is taken "
			   "for the former",
			   FATE_APPROXIMATED },
	[CHECK_ACL] = { "acl",
			"an ACL that NFS does not bring: lost, and the mode narrowed so that nobody "
			"gets more than before",
			FATE_APPROXIMATED },
	[CHECK_ACL_NEAR] = { "acl-near",
			     "an NFSv4 ACL that comes as the nearest POSIX ACL: nobody gets more "
			     "than before, and somebody less",
			     FATE_APPROXIMATED },
	[CHECK_SUBVOLUME] = { "subvolume",
			      "another file system (a btrfs subvolume, a snapshot?) under the fsid "
			      "of the export, in which file ids repeat: migrated like any "
			      "directory, a snapshot too; its hard links are told by file handle",
			      FATE_KEPT },
	[CHECK_BORDER] = { "border",
			   "another file system of the old server begins here (another fsid): migrated "
			   "like any directory, its files are told apart by fsid",
			   FATE_KEPT },
};

const char *check_fate_name(enum check_fate fate)
{
	static const char *const names[] = { "kept", "approximated", "lost" };

	return names[fate];
}

unsigned int check_utf8(const char *s, size_t left, uint32_t *out)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *u = (const unsigned char *)s;
	unsigned int n = u[0] < 0x80 ? 1 :
			 u[0] < 0xc0 ? 0 :
			 u[0] < 0xe0 ? 2 :
			 u[0] < 0xf0 ? 3 :
			 u[0] < 0xf8 ? 4 :
				       0;
	uint32_t c;

	if (n == 0 || n > left)
		return 0;
	c = n == 1 ? u[0] : u[0] & (0x7fu >> n);
	for (unsigned int i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (u[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*out = c;
	return n;
}

static bool is_utf8(const char *name, size_t len)
{
	uint32_t c;

	while (len) {
		unsigned int n = check_utf8(name, len, &c);

		if (n == 0)
			return false;
		name += n;
		len -= n;
	}
	return true;
}

static bool smb_character(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)name[i] < ' ' || strchr("<>:\"|?*\\", name[i]))
			return true;
	}
	return false;
}

/* Is the name, or its part before the first dot, a device's?  Spaces behind that do not count. */
static bool smb_device(const char *name, size_t len)
{
	static const char *const devices[] = { "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$" };
	static const char *const digits[] = { "1", "2", "3", "4",      "5",	 "6",
					      "7", "8", "9", "\u00b9", "\u00b2", "\u00b3" };
	const char *dot = memchr(name, '.', len);
	size_t n = dot ? (size_t)(dot - name) : len;

	while (n && name[n - 1] == ' ')
		n--;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (n == strlen(devices[i]) && !strncasecmp(name, devices[i], n))
			return true;
	}
	if (n < 4 || (strncasecmp(name, "COM", 3) && strncasecmp(name, "LPT", 3)))
		return false;
	for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
		if (n - 3 == strlen(digits[i]) && !memcmp(name + 3, digits[i], n - 3))
			return true;
	}
	return false;
}

static uint32_t smb_kinds(const char *name, size_t len, size_t path_len)
{
	uint32_t kinds = 0;

	if (!is_utf8(name, len))
		kinds |= 1u << CHECK_ENCODING;
	if (smb_character(name, len))
		kinds |= 1u << CHECK_CHARACTER;
	if (len && (name[len - 1] == '.' || name[len - 1] == ' '))
		kinds |= 1u << CHECK_ENDING;
	if (smb_device(name, len))
		kinds |= 1u << CHECK_DEVICE;
	if (path_len > CHECK_PATH_MAX)
		kinds |= 1u << CHECK_LONG_PATH;
	return kinds;
}

static bool __attribute__((format(printf, 2, 3)))
because(char why[CHECK_WHY_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, CHECK_WHY_MAX, fmt, ap);
	va_end(ap);
	return true;
}

/* Would the retriever take the entry for hostile, and park the directory?  @known: all its
 * attributes are. */
static bool impossible(const struct stub_entry *e, bool known, char why[CHECK_WHY_MAX])
{
	const struct stub_attr *a = &e->attr;

	if (e->name_len <= STUB_NAME_MAX && stub_name_check(e->name, e->name_len) < 0)
		return because(why, "no file can have this name");
	if (!known)
		return false;
	if (a->uid == UINT32_MAX || a->gid == UINT32_MAX)
		return because(why, "its owner or group is 4294967295, which nobody can be");
	if (S_ISREG(a->mode) && a->size > INT64_MAX)
		return because(why, "a size of %" PRIu64 " bytes", a->size);
	if (S_ISLNK(a->mode) && (!e->target || e->target_len == 0))
		return because(why, "a symlink without a target");
	return false;
}

static bool is_device(const struct stub_attr *a)
{
	return S_ISBLK(a->mode) || S_ISCHR(a->mode);
}

static uint32_t major_most(const struct target_limits *t)
{
	return t && t->major_max ? t->major_max : TARGET_MAJOR_MAX;
}

static uint32_t minor_most(const struct target_limits *t)
{
	return t && t->minor_max ? t->minor_max : TARGET_MINOR_MAX;
}

static bool device_fits(const struct target_limits *t, const struct stub_attr *a)
{
	return a->rdev_major <= major_most(t) && a->rdev_minor <= minor_most(t);
}

/* @t may be NULL. */
static bool refused(const struct target_limits *t, const struct stub_entry *e,
		    char why[CHECK_WHY_MAX])
{
	const struct stub_attr *a = &e->attr;

	if (e->origin_len > STUB_ORIGIN_MAX)
		return because(why, "a path of %zu bytes at the old server, %u are the most",
			       e->origin_len, STUB_ORIGIN_MAX);
	if (is_device(a) && !device_fits(t, a))
		return because(why, "a device number of %u, %u: %u, %u are the most", a->rdev_major,
			       a->rdev_minor, major_most(t), minor_most(t));
	if (!t)
		return false;
	if (S_ISLNK(a->mode) && t->symlink_max && e->target_len > t->symlink_max)
		return because(why, "a symlink's target of %zu bytes, %u are the most",
			       e->target_len, t->symlink_max);
	if (S_ISREG(a->mode) && t->file_max && a->size > t->file_max)
		return because(why, "a file of %" PRIu64 " bytes, %" PRIu64 " are the most",
			       a->size, t->file_max);
	if (!S_ISDIR(a->mode) && t->link_max && a->nlink > t->link_max)
		return because(why, "one of %u names of a file, %u are the most", a->nlink,
			       t->link_max);
	return false;
}

/* Can the joined share not be asked for this entry? */
static bool not_joined(const struct stub_entry *e, char why[CHECK_WHY_MAX])
{
	struct dual_origin own;
	struct stub_origin o;

	if (!e->dummy || e->origin_len > STUB_ORIGIN_MAX)
		return false; /* neither file nor directory; or refused */
	o.len = (typeof(o.len))e->origin_len;
	memcpy(o.bytes, e->origin, e->origin_len);
	if (dual_origin_decode(&o, &own) < 0)
		return false;
	if (!own.has_path)
		return because(why, "its path is too long");
	if (!dual_path_speakable(own.path, own.path_len))
		return because(why, "SMB has no such names");
	if (e->name[e->name_len - 1] == '.' || e->name[e->name_len - 1] == ' ' ||
	    smb_device(e->name, e->name_len))
		return because(why, "unless the share has 'mangled names = no', if it is Samba's");
	return false;
}

static bool time_fits(const struct target_limits *t, const struct timespec *when)
{
	return when->tv_sec >= t->time_min && when->tv_sec <= t->time_max;
}

uint32_t check_name(const struct check_sides *sides, const struct stub_entry *e, size_t path_len,
		    char why[CHECK_WHY_MAX])
{
	const struct target_limits *t = sides->limits;
	bool known = !e->dummy || strcmp(sides->protocol, "smb"); /* joined: NFS's */
	uint32_t kinds = 0;

	why[0] = '\0';
	if (sides->exports & EXPORT_SMB)
		kinds |= smb_kinds(e->name, e->name_len, path_len);
	if (!strcmp(sides->protocol, "smb") && smb_name_mangled(e->name, e->name_len))
		kinds |= 1u << CHECK_MANGLED;
	if (e->name_len > (t && t->name_max ? t->name_max : STUB_NAME_MAX))
		kinds |= 1u << CHECK_LONG_NAME;
	if (impossible(e, known, why))
		return kinds | 1u << CHECK_IMPOSSIBLE;
	if (refused(t, e, why))
		kinds |= 1u << CHECK_REFUSED;
	else if (sides->join && not_joined(e, why))
		kinds |= 1u << CHECK_NOT_JOINED;
	if (e->attr.time_unsure && !sides->join)
		kinds |= 1u << CHECK_UNSURE;
	if (e->attr.acl && !sides->join)
		kinds |= 1u << CHECK_ACL;
	if (e->attr.acl_near && !sides->join)
		kinds |= 1u << CHECK_ACL_NEAR;
	if (t && t->times_known && known &&
	    (!time_fits(t, &e->attr.mtime) || !time_fits(t, &e->attr.atime)))
		kinds |= 1u << CHECK_TIME;
	return kinds;
}
