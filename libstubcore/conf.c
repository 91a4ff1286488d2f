/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* conf.c - volume.conf: what a volume is, in lines of "key=value". */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "stubtools.h"
#include "volume.h"

static const struct {
	const char *key;
	size_t offset, size;
} text_keys[] = {
	{ "uuid", offsetof(struct stub_volume_info, uuid), sizeof(((struct stub_volume_info *)0)->uuid) },
	{ "source", offsetof(struct stub_volume_info, source),
	  sizeof(((struct stub_volume_info *)0)->source) },
	{ "join", offsetof(struct stub_volume_info, join),
	  sizeof(((struct stub_volume_info *)0)->join) },
	{ "depot", offsetof(struct stub_volume_info, depot),
	  sizeof(((struct stub_volume_info *)0)->depot) },
	{ "home", offsetof(struct stub_volume_info, home), sizeof(((struct stub_volume_info *)0)->home) },
	{ "lease", offsetof(struct stub_volume_info, lease), sizeof(((struct stub_volume_info *)0)->lease) },
	{ "socket", offsetof(struct stub_volume_info, socket),
	  sizeof(((struct stub_volume_info *)0)->socket) },
	{ "control", offsetof(struct stub_volume_info, control),
	  sizeof(((struct stub_volume_info *)0)->control) },
};

static const struct {
	const char *key;
	size_t offset;
} number_keys[] = {
	{ "join_root", offsetof(struct stub_volume_info, join_root) },
	{ "root_fsid", offsetof(struct stub_volume_info, root_fsid) },
	{ "root_fileid", offsetof(struct stub_volume_info, root_fileid) },
	{ "depot_id", offsetof(struct stub_volume_info, depot_id) },
	{ "created", offsetof(struct stub_volume_info, created) },
};

static int __attribute__((format(printf, 3, 4)))
bad(struct stub_conf_problem *why, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
	return error;
}

static int conf_number(const char *value, uint64_t max, uint64_t *out,
		       struct stub_conf_problem *why)
{
	char *end;

	errno = 0;
	*out = strtoull(value, &end, 10);
	if (errno || end == value || *end || *value == '-' || *out > max)
		return bad(why, -EBADMSG, "%s is not a number from 0 to %llu", why->key,
			   (unsigned long long)max);
	return 0;
}

/* A user, and a password, before the host of a URI: no release makes such a volume, and whoever
 * shows the URI would show the password. */
static bool has_user(const char *uri)
{
	const char *host = strstr(uri, "://"), *at = host ? strchr(host, '@') : NULL;

	return at && !memchr(host + 3, '/', (size_t)(at - host - 3));
}

static int conf_line(struct stub_volume_info *info, const char *key, const char *value,
		     struct stub_conf_problem *why)
{
	uint64_t x;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(text_keys); i++) {
		if (strcmp(key, text_keys[i].key))
			continue;
		if (strlen(value) >= text_keys[i].size)
			return bad(why, -EBADMSG, "%s is longer than %zu bytes", key,
				   text_keys[i].size - 1);
		strcpy((char *)info + text_keys[i].offset, value);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(number_keys); i++)
		if (!strcmp(key, number_keys[i].key)) {
			info->root_known = info->root_known || !strcmp(key, "root_fileid");
			return conf_number(value, UINT64_MAX,
					   (uint64_t *)((char *)info + number_keys[i].offset), why);
		}
	if (!strcmp(key, "format")) {
		r = conf_number(value, UINT32_MAX, &x, why);
		return r < 0			? r :
		       x <= STUB_VOLUME_FORMAT ? 0 :
						  bad(why, -EPROTONOSUPPORT,
						      "made by a newer release of postcopy");
	}
	if (!strcmp(key, "source_id")) {
		r = conf_number(value, UINT16_MAX, &x, why);
		info->source_id = (uint16_t)x;
		return r;
	}
	return bad(why, -EBADMSG, "unknown key \"%s\": written by a newer postcopy?", why->key);
}

/* All of them init has always written. */
static int conf_has_all(const struct stub_volume_info *info, struct stub_conf_problem *why)
{
	const char *missing = !info->uuid[0]		    ? "uuid" :
			      !info->source[0]		    ? "source" :
			      !info->socket[0]		    ? "socket" :
			      info->created == UINT64_MAX ? "created" : /* the last line */
							    NULL;

	if (!missing)
		return 0;
	snprintf(why->key, sizeof(why->key), "%s", missing);
	return bad(why, -EBADMSG, "no line \"%s=\" up to here: the file is damaged", missing);
}

static int conf_parse(char *text, struct stub_volume_info *info, struct stub_conf_problem *why)
{
	memset(info, 0, sizeof(*info));
	info->created = UINT64_MAX;
	while (*text) {
		char *line = strsep(&text, "\n"), *eq = strchr(line, '=');
		int r;

		why->line++;
		if (!*line)
			continue;
		if (!eq)
			return bad(why, -EBADMSG, "no '=' in the line");
		*eq = '\0';
		stub_printable(line, strnlen(line, 32), why->key, sizeof(why->key));
		r = conf_line(info, line, eq + 1, why);
		if (r < 0)
			return r;
		why->key[0] = '\0';
	}
	if (has_user(info->source) || has_user(info->join))
		return bad(why, -EBADMSG, "source and join can have no user or password before the "
			   "host: take it out (for SMB: smb_credentials)");
	return conf_has_all(info, why);
}

static int conf_read(int dir_fd, struct stub_volume_info *info, struct stub_conf_problem *why)
{
	char text[8192];
	int r = stub_io_read_file(dir_fd, STUB_CONF, text, sizeof(text) - 1);

	memset(why, 0, sizeof(*why));
	if (r < 0)
		return bad(why, r, "%s", strerror(-r));
	if (strlen(text) != (size_t)r)
		return bad(why, -EBADMSG, "it has a zero byte: it is damaged");
	if (r == 0 || text[r - 1] != '\n')
		return bad(why, -EBADMSG, "its last line has no end: it was cut off");
	return conf_parse(text, info, why);
}

int stub_conf_load(int dir_fd, const struct stub_log *log, struct stub_volume_info *info)
{
	struct stub_conf_problem why;
	int r = conf_read(dir_fd, info, &why);

	if (r < 0 && r != -ENOENT)
		stub_log(log, STUB_LOG_ERROR, STUB_DIR "/" STUB_CONF " line %u: %s", why.line,
			 why.text);
	return r;
}

int stub_conf_check(const char *dir, struct stub_volume_info *info, struct stub_conf_problem *why)
{
	int root CLEANUP_CLOSE = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int home CLEANUP_CLOSE =
		root < 0 ? -1 :
			   openat(root, STUB_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	memset(why, 0, sizeof(*why));
	return home < 0 ? bad(why, -errno, "%s", strerror(errno)) : conf_read(home, info, why);
}

int stub_conf_write(int root_fd, int dirfd, const struct stub_volume_info *info)
{
	char *text CLEANUP_FREE = NULL, join[sizeof(info->join) + 64] = "";
	char depot[sizeof(info->depot) + 64] = "", root[96] = "", lease[sizeof(info->lease) + 16] = "";
	int r;

	if (strchr(info->join, '\n') || strchr(info->depot, '\n') || strchr(info->source, '\n') ||
	    strchr(info->socket, '\n') || strchr(info->control, '\n'))
		return -EINVAL;
	if (info->join[0])
		snprintf(join, sizeof(join), "join=%s\njoin_root=%llu\n", info->join,
			 (unsigned long long)info->join_root);
	if (info->depot[0])
		snprintf(depot, sizeof(depot), "depot=%s\ndepot_id=%llu\n", info->depot,
			 (unsigned long long)info->depot_id);
	if (info->root_known)
		snprintf(root, sizeof(root), "root_fsid=%llu\nroot_fileid=%llu\n",
			 (unsigned long long)info->root_fsid,
			 (unsigned long long)info->root_fileid);
	if (info->lease[0])
		snprintf(lease, sizeof(lease), "lease=%s\n", info->lease);
	if (asprintf(&text,
		     "format=%d\nuuid=%s\nsource=%s\n%s%s%ssource_id=%u\nhome=%s\n%ssocket=%s\ncontrol=%s\n"
		     "created=%llu\n",
		     STUB_VOLUME_FORMAT, info->uuid, info->source, join, depot, root, info->source_id,
		     info->home, lease, info->socket, info->control,
		     (unsigned long long)info->created) < 0)
		return -ENOMEM;
	r = stub_io_write_file(dirfd, STUB_CONF ".new", text);
	if (r == 0 && syncfs(root_fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, STUB_CONF ".new", dirfd, STUB_CONF) < 0)
		r = -errno;
	if (r == 0 && fsync(dirfd) < 0)
		r = -errno;
	return r;
}
