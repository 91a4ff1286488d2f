/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "resolve.h"

struct decision {
	const struct control_config *c;
	const char *how, *path;
	const struct stub_object *o;
	const struct stub_journal_entry *e;
};

bool resolve_take_handle(struct json_object *in, struct stub_handle *h)
{
	struct json_object *type, *hex;
	const char *s;
	unsigned int byte;

	memset(h, 0, sizeof(*h));
	if (!json_object_object_get_ex(in, "type", &type) ||
	    !json_object_is_type(type, json_type_int) ||
	    !json_object_object_get_ex(in, "handle", &hex) ||
	    !json_object_is_type(hex, json_type_string))
		return false;
	h->type = json_object_get_int(type);
	s = json_object_get_string(hex);
	while (isxdigit((unsigned char)s[0]) && isxdigit((unsigned char)s[1]) &&
	       h->len < STUB_HANDLE_MAX && sscanf(s, "%2x", &byte) == 1) {
		h->bytes[h->len++] = (uint8_t)byte;
		s += 2;
	}
	return h->len && !*s;
}

size_t resolve_take_handles(struct json_object *in, struct stub_handle **out)
{
	size_t n = json_object_is_type(in, json_type_array) ? json_object_array_length(in) : 0;
	struct stub_handle *h = n ? calloc(n, sizeof(*h)) : NULL;

	for (size_t i = 0; h && i < n; i++)
		if (!resolve_take_handle(json_object_array_get_idx(in, i), &h[i])) {
			free(h);
			h = NULL;
		}
	*out = h;
	return h ? n : 0;
}

/* ---- the list ---- */

/* The object's path below the volume's root, from the kernel; or else the one we were given. */
static const char *path_of(const struct decision *d, char *buf, size_t size)
{
	char link[32], root[PATH_MAX];
	ssize_t n, len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", stub_volume_fd(d->c->volume));
	len = readlink(link, root, sizeof(root) - 1);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", d->o->fd);
	n = readlink(link, buf, size - 1);
	if (len <= 0 || n <= len || memcmp(buf, root, (size_t)len) || buf[len] != '/')
		return d->path;
	buf[n] = '\0';
	return !strncmp(buf + len + 1, STUB_DIR "/", strlen(STUB_DIR) + 1) ? d->path :
									     buf + len + 1;
}

static struct json_object *ranges(const struct stub_map *m)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < m->n; i++) {
		struct json_object *one = json_object_new_array();

		json_object_array_add(one, json_object_new_uint64(m->r[i].start));
		json_object_array_add(one, json_object_new_uint64(m->r[i].end));
		json_object_array_add(list, one);
	}
	return list;
}

static struct json_object *line_of(const struct decision *d, const struct stub_map *missing)
{
	struct json_object *o = json_object_new_object();
	char stamp[32], path[PATH_MAX];
	time_t now = time(NULL);
	struct stat st = { 0 };
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%FT%TZ", &tm);
	fstat(d->o->fd, &st);
	json_object_object_add(o, "time", json_object_new_string(stamp));
	json_object_object_add(o, "how", json_object_new_string(d->how));
	json_object_object_add(o, "kind",
			       json_object_new_string(S_ISDIR(st.st_mode) ? "directory" : "file"));
	json_object_object_add(o, "inode", json_object_new_uint64(st.st_ino));
	json_object_object_add(o, "path",
			       json_object_new_string(path_of(d, path, sizeof(path))));
	json_object_object_add(o, "reason", json_object_new_string(d->e->reason));
	json_object_object_add(o, "missing", ranges(missing));
	return o;
}

/* The list is new: its name is on the disk too. */
static int sync_name(const struct decision *d)
{
	int fd = openat(stub_volume_fd(d->c->volume), STUB_DIR,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

/* Does the list end in a line that was cut off, since we were killed?  Then ours is no part of
 * it: 1, 0, or -errno. */
static int cut_off(int fd, off_t end)
{
	char last;

	if (end == 0)
		return 0;
	if (pread(fd, &last, 1, end - 1) != 1)
		return -EIO;
	return last != '\n';
}

static int append(const struct decision *d, int fd, off_t end, const char *text)
{
	int r = end >= RESOLVED_MAX ? -EFBIG : cut_off(fd, end);

	if (r < 0)
		return r;
	if (dprintf(fd, "%s%s\n", r ? "\n" : "", text) < 0 || fsync(fd) < 0)
		return -errno;
	return end == 0 ? sync_name(d) : 0;
}

/* A stub_resolve_fn. */
static int write_down(void *arg, const struct stub_map *missing)
{
	const struct decision *d = arg;
	struct json_object *o = line_of(d, missing);
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	int r, fd = openat(stub_volume_fd(d->c->volume), RESOLVED_LIST,
			   O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	r = end < 0 ? -errno : append(d, fd, end, text);
	if (r < 0 && end >= 0 && ftruncate(fd, end) < 0)
		r = -EIO; /* a part of the line may have been written */
	if (fd >= 0)
		close(fd);
	json_object_put(o);
	return r;
}

/* ---- the ways ---- */

static int complain(char *why, size_t size, int error)
{
	static const struct {
		int error;
		const char *text;
	} known[] = {
		{ -ENOENT, "nothing of it is missing" },
		{ -EBUSY, "a client has changed it here since it was listed, and that would be lost: "
			  "keep what is here (--lost), or remove it here and copy it by hand" },
		{ -ESTALE, "the old server has it no more, or something of another kind in its "
			   "place: --lost, or remove it here" },
		{ -EMLINK, "it has several names, and the old server has another file under this "
			   "one: --lost, or remove them here" },
		{ -EISDIR, "it is a directory, of which names are missing: 'retry', or --lost" },
		{ -EFBIG, "the list " RESOLVED_LIST " is full: is it what you meant?" },
		{ -ENODATA, "some of it never came and nobody has written it here: --theirs, or "
			    "--lost, which makes zeros of it" },
	};

	snprintf(why, size, "%s", strerror(-error));
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].error == error)
			snprintf(why, size, "%s", known[i].text);
	return error;
}

static int take_theirs(struct decision *d, char *why, size_t size)
{
	struct stub_attr attr;
	int r = source_getattr(d->c->source, SOURCE_DEMAND, &d->o->origin, &attr);

	if (r < 0 && r != -ESTALE && r != -ENOENT) {
		snprintf(why, size, "the old server does not tell its attributes: %s",
			 strerror(-r));
		return r;
	}
	jobs_retry(d->c->jobs); /* forgets what was just parked: its attributes may be asked for */
	r = r < 0 ? -ESTALE : stub_resolve_theirs(d->c->volume, d->o, &attr, write_down, d);
	if (r < 0)
		return complain(why, size, r);
	fremovexattr(d->o->fd, "user.DOSATTRIB"); /* it was told of the version before */
	jobs_forget_passed(d->c->jobs);
	r = stub_journal_unpark(d->c->journal, &d->o->h);
	jobs_retry(d->c->jobs);
	return r < 0 && r != -ENOENT ? complain(why, size, r) : 0;
}

/* Declare a directory, whose attributes are here, listed with the names that it has. */
static int give_up_names(struct decision *d)
{
	struct stub_refused none = { .len = 0 }, names;
	const char *name;
	size_t at = 0, len;
	int r = 0;

	if (d->o->needs & STUB_NEEDS_ENTRIES)
		r = stub_list_finish(d->c->volume, d->c->journal, d->o, &none, false);
	if (r == 0)
		r = stub_refused_load(d->c->volume, &d->o->h, &names);
	while (r == 0 && stub_refused_next(&names, &at, &name, &len))
		r = stub_refused_make(d->c->volume, d->c->journal, d->o, name, len, NULL);
	return r == -ENOENT ? 0 : r;
}

static int take_ours(struct decision *d, char *why, size_t size)
{
	int r = stub_resolve_here(d->c->volume, d->o, !strcmp(d->how, "lost"), write_down, d);

	if (r == 0 && d->o->type == S_IFDIR)
		r = give_up_names(d);
	if (r < 0)
		return complain(why, size, r);
	stub_finisher_add_last(d->c->finisher, &d->o->h);
	/*
	 * Its end may wait for the last client that has asked for it: parked it is no more.  After
	 * it was handed in: killed in between, it is parked, and watch.c finds that it misses nothing.
	 */
	r = stub_journal_unpark(d->c->journal, &d->o->h);
	return r < 0 && r != -ENOENT ? complain(why, size, r) : 0;
}

int resolve(const struct control_config *c, const char *how, const struct stub_handle *h,
	    const char *path, char *why, size_t size)
{
	struct stub_journal_entry e;
	struct stub_object o;
	struct decision d = { .c = c, .how = how, .path = path, .o = &o, .e = &e };
	int r = stub_journal_get(c->journal, h, &e);

	if (strcmp(how, "theirs") && strcmp(how, "ours") && strcmp(how, "lost")) {
		snprintf(why, size, "how: must be theirs, ours or lost");
		return -EINVAL;
	}
	if (r < 0 || e.park == STUB_PARK_NONE) {
		snprintf(why, size, "it is not parked");
		return -EINVAL;
	}
	r = stub_object_open(c->volume, h, &o);
	if (r == -ENOENT || r == -ESTALE) { /* normal, or gone */
		stub_finisher_add_stale(c->finisher, h);
		return 0;
	}
	if (r < 0)
		return complain(why, size, r);
	r = *how == 't' ? take_theirs(&d, why, size) : take_ours(&d, why, size);
	stub_object_close(&o);
	return r;
}
