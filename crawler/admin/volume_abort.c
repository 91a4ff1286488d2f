/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_abort.c - give a migration up: the list of what is missing, then stub_abort(). */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "depot/depot.h"
#include "source/uri.h"

struct aborting {
	struct stub_volume *volume;
	char path[PATH_MAX]; /* real path of the volume */
	char list[PATH_MAX]; /* absolute */
	bool dry, repeated;
	FILE *f;
	uint64_t lines, aside, directories, others, bytes;
};

/* ---- who has the volume open ---- */

static bool has_open(const char *pid, const struct stat *lock)
{
	char path[PATH_MAX];
	struct dirent *d;
	struct stat st;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (d = readdir(dir)))
		found = isdigit((unsigned char)d->d_name[0]) &&
			fstatat(dirfd(dir), d->d_name, &st, 0) == 0 && st.st_ino == lock->st_ino &&
			st.st_dev == lock->st_dev;
	if (dir)
		closedir(dir);
	return found;
}

/* "ganesha.nfsd (1234), smbd (1240)"; nothing if they cannot be seen from here. */
static void name_users(const char *volume, char *out, size_t size)
{
	char path[PATH_MAX + 32], comm[64];
	DIR *dir = opendir("/proc");
	struct dirent *d;
	struct stat lock;
	size_t n = 0;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/" STUB_DIR "/lock", volume);
	if (stat(path, &lock) == 0)
		while (dir && n + 1 < size && (d = readdir(dir))) {
			FILE *f;

			if (!isdigit((unsigned char)d->d_name[0]) || atoi(d->d_name) == getpid() ||
			    !has_open(d->d_name, &lock))
				continue;
			strcpy(comm, "?");
			snprintf(path, sizeof(path), "/proc/%s/comm", d->d_name);
			f = fopen(path, "re");
			if (f && fgets(comm, sizeof(comm), f))
				comm[strcspn(comm, "\n")] = '\0';
			if (f)
				fclose(f);
			n += (size_t)snprintf(out + n, size - n, "%s%s (%s)", n ? ", " : "", comm,
					      d->d_name);
		}
	if (dir)
		closedir(dir);
}

int volume_tool_in_use(struct verdict *v, const char *volume)
{
	char who[512];

	name_users(volume, who, sizeof(who));
	return verdict_fail(v, FAIL_IN_USE,
			    "%s is in use by %s: stop the file servers, the retriever and the crawler "
			    "first",
			    volume, who[0] ? who : "somebody");
}

/* ---- the list ---- */

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)  ? "file" :
	       S_ISDIR(mode)  ? "directory" :
	       S_ISLNK(mode)  ? "symlink" :
	       S_ISFIFO(mode) ? "fifo" :
	       S_ISSOCK(mode) ? "socket" :
	       S_ISCHR(mode)  ? "char" :
				"block";
}

static void print_lacks(struct json *j, const struct stub_lack *l)
{
	static const struct {
		unsigned int need;
		const char *word;
	} words[] = {
		{ STUB_NEEDS_ATTRS, "attributes" },   { STUB_NEEDS_DATA, "data" },
		{ STUB_NEEDS_ENTRIES, "entries" },    { STUB_NEEDS_NAMES, "names" },
		{ STUB_NEEDS_REFUSED, "refused names" },
	};

	json_array(j, "missing");
	if (l->unknown)
		json_str(j, NULL, l->foreign ? "unknown: copy of a stub" : "unknown: damaged record");
	else
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (l->needs & words[i].need)
				json_str(j, NULL, words[i].word);
	json_array_end(j);
}

static void print_ranges(struct json *j, const struct stub_map *m)
{
	json_array(j, "ranges");
	for (uint32_t i = 0; i < m->n; i++) {
		json_array(j, NULL);
		json_u64(j, NULL, m->r[i].start);
		json_u64(j, NULL, m->r[i].end);
		json_array_end(j);
	}
	json_array_end(j);
}

static void print_refused(struct json *j, const struct stub_refused *refused)
{
	char text[STUB_NAME_MAX + 1];
	const char *name;
	size_t at = 0, len;

	json_array(j, "refused");
	while (stub_refused_next(refused, &at, &name, &len)) {
		snprintf(text, sizeof(text), "%.*s", (int)len, name);
		json_str(j, NULL, text);
	}
	json_array_end(j);
}

/* An origin for people: a path below an SMB share, an NFS file handle in hexadecimal. */
static void print_origin(struct json *j, const struct aborting *a, const struct stub_origin *o)
{
	char text[2 * STUB_ORIGIN_MAX + 1] = "";
	bool smb = source_uri_kind(stub_volume_info(a->volume)->source) == SOURCE_SMB;

	if (smb)
		snprintf(text, sizeof(text), "%.*s", (int)o->len, (const char *)o->bytes);
	else
		for (unsigned int i = 0; i < o->len; i++)
			snprintf(text + 2 * i, 3, "%02x", o->bytes[i]);
	json_str(j, smb ? "source_path" : "source_handle", text);
}

static int list_one(void *arg, const struct stub_lack *l)
{
	struct aborting *a = arg;
	struct json j;

	json_begin(&j, a->f);
	json_str(&j, "path", l->path);
	json_str(&j, "type", type_of(l->st.st_mode));
	print_lacks(&j, l);
	json_u64(&j, "inode", l->st.st_ino);
	json_u64(&j, "mode", l->st.st_mode & 07777);
	json_u64(&j, "uid", l->st.st_uid);
	json_u64(&j, "gid", l->st.st_gid);
	if (S_ISREG(l->st.st_mode))
		json_u64(&j, "size", (uint64_t)l->st.st_size);
	if (!l->unknown) {
		json_bool(&j, "changed_by_clients", l->changed);
		if (S_ISREG(l->st.st_mode))
			print_ranges(&j, l->missing);
		if (l->needs & STUB_NEEDS_REFUSED)
			print_refused(&j, l->refused);
		print_origin(&j, a, l->origin);
		a->bytes += stub_map_bytes(l->missing);
	}
	a->lines++;
	if (S_ISDIR(l->st.st_mode))
		a->directories++;
	else if (l->needs & (STUB_NEEDS_ATTRS | STUB_NEEDS_DATA))
		a->aside++;
	else
		a->others++;
	return json_end(&j) < 0 ? -EIO : 0;
}

/* Copy .postcopy/resolved, which says also where zeros are in the place of lost data: the list
 * stays when .postcopy goes. */
static int add_resolved(const struct aborting *a)
{
	char path[PATH_MAX + 32], buf[4096];
	size_t n;
	FILE *f;
	int r;

	snprintf(path, sizeof(path), "%s/" STUB_DIR "/resolved", a->path);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? 0 : -errno;
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		if (fwrite(buf, 1, n, a->f) != n)
			break;
	r = ferror(f) || ferror(a->f) ? -EIO : 0;
	fclose(f);
	return r;
}

static int sync_above(const char *path)
{
	char copy[PATH_MAX];
	int fd, r;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* The list must be complete, and on the disk, before anything changes. */
static int write_list(struct verdict *v, struct aborting *a)
{
	char part[PATH_MAX + 8];
	int fd, r;

	snprintf(part, sizeof(part), "%s.part", a->list);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	a->f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!a->f)
		return verdict_fail(v, FAIL_TARGET, "cannot write the list %s: %s", part,
				    strerror(errno));
	r = stub_abort_list(a->volume, list_one, a);
	if (r == 0)
		r = add_resolved(a);
	if (r == 0 && (fflush(a->f) != 0 || fsync(fd) < 0))
		r = -errno;
	if (fclose(a->f) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(part, a->list) < 0)
		r = -errno;
	if (r == 0)
		r = sync_above(a->list);
	if (r < 0)
		unlink(part);
	return r == 0 ? 0 : verdict_fail(v, FAIL_SCAN,
					 "the list %s of what is missing cannot be made, nothing has "
					 "changed: %s",
					 a->list, strerror(-r));
}

/* ---- the command ---- */

static int arguments(struct verdict *v, struct aborting *a, int argc, char **argv)
{
	static const struct option options[] = { { "list", required_argument, NULL, 'l' },
						 { "dry-run", no_argument, NULL, 'n' },
						 { NULL, 0, NULL, 0 } };
	const char *list = NULL;
	char copy[PATH_MAX], *slash;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'l')
			list = optarg;
		else if (c == 'n')
			a->dry = true;
		else
			return verdict_fail(v, FAIL_USAGE, "abort: unknown option (see --help)");
	}
	if (optind + 1 != argc || !list || !*list || strlen(list) >= PATH_MAX - 8)
		return verdict_fail(v, FAIL_USAGE, "abort: want --list FILE and exactly one DIR");
	if (!realpath(argv[optind], a->path))
		return verdict_fail(v, FAIL_NOT_VOLUME, "%s: %s", argv[optind], strerror(errno));
	snprintf(copy, sizeof(copy), "%s%s", list[0] == '/' ? "" : "./", list);
	slash = strrchr(copy, '/');
	*slash = '\0';
	if (!slash[1] || !realpath(*copy ? copy : "/", a->list) ||
	    strlen(a->list) + strlen(slash + 1) + 8 >= PATH_MAX)
		return verdict_fail(v, FAIL_TARGET, "cannot write the list %s: %s", list,
				    slash[1] ? strerror(errno) : "it is a directory");
	if (strcmp(a->list, "/"))
		strcat(a->list, "/");
	strcat(a->list, slash + 1);
	c = (int)strlen(a->path);
	if (!strncmp(a->list, a->path, (size_t)c) && (a->list[c] == '/' || a->path[c - 1] == '/'))
		return verdict_fail(v, FAIL_USAGE, "abort: the list %s must be outside of the volume",
				    list);
	return 0;
}

static int open_it(struct verdict *v, struct aborting *a)
{
	int r = stub_volume_open(a->path, STUB_OPEN_ABORT, verdict_log, NULL, &a->volume);

	if (r == -EBUSY)
		return volume_tool_in_use(v, a->path);
	if (r == -ENOENT)
		return verdict_fail(v, FAIL_NOT_VOLUME,
				    "%s is not a volume: it was never made one, or its migration has "
				    "ended", a->path);
	if (r < 0)
		return verdict_fail(v, r == -EXDEV	    ? FAIL_ELSEWHERE :
				       r == -ENOLCK ? FAIL_NOT_ACTIVE :
						      FAIL_VOLUME_DAMAGED,
				    "cannot open the volume %s: %s", a->path, strerror(-r));
	if (volume_tool_mirrored(v, a->path, a->volume, true) < 0)
		return -1;
	return stub_volume_alone(a->volume) < 0 ? volume_tool_in_use(v, a->path) : 0;
}

/* If an abort has begun before, its list stays: only that was made before anything changed. */
static int settle_list(struct verdict *v, struct aborting *a)
{
	char begun[PATH_MAX];
	int r = stub_abort_begun(a->volume, begun, sizeof(begun));

	if (r < 0)
		return verdict_fail(v, FAIL_TARGET, "%s/" STUB_DIR "/aborted: %s", a->path,
				    strerror(-r));
	a->repeated = r == 1;
	if (!a->repeated)
		return write_list(v, a);
	if (access(begun, F_OK) < 0)
		return verdict_fail(v, FAIL_TARGET,
				    "the list %s of what is missing is not there any more (%s): put it "
				    "back, or make an empty file of that name to go on without it",
				    begun, strerror(errno));
	strcpy(a->list, begun);
	return 0;
}

static int print(const struct aborting *a)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", a->path);
	json_str(&j, "list", a->list);
	json_bool(&j, "aborted", !a->dry);
	json_bool(&j, "repeated", a->repeated);
	if (!a->repeated) {
		json_u64(&j, "lines", a->lines);
		json_u64(&j, "aside", a->aside);
		json_u64(&j, "directories", a->directories);
		json_u64(&j, "others", a->others);
		json_u64(&j, "missing_bytes", a->bytes);
	}
	return json_end(&j) < 0 ? 1 : 0;
}

static int abort_it(struct verdict *v, struct aborting *a)
{
	int r;

	if (settle_list(v, a) < 0)
		return -1;
	if (a->dry)
		return 0;
	if (stub_volume_info(a->volume)->depot[0])
		depot_leave(stub_volume_info(a->volume)); /* on failure an empty directory stays */
	r = stub_abort(a->volume, a->list);
	if (r < 0)
		return verdict_fail(v, FAIL_TARGET,
				    "the abort of %s broke off, repeat it: %s (the list is %s)", a->path,
				    r == -EAGAIN ? "something in it has been changed meanwhile" :
						   strerror(-r),
				    a->list);
	return 0;
}

int volume_abort(struct verdict *v, int argc, char **argv)
{
	static struct aborting a;
	int r = arguments(v, &a, argc, argv);

	if (r == 0 && !a.dry && stub_abort_rest(a.path) == 0) {
		a.repeated = true; /* an earlier abort was killed in its very last step */
		return print(&a);
	}
	if (r == 0)
		r = open_it(v, &a);
	if (r == 0)
		r = abort_it(v, &a);
	if (r == 0)
		r = print(&a);
	stub_volume_close(a.volume);
	return r;
}
