/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* conf.c - volume.conf: what a volume is, in lines of "key=value". */
#include <fcntl.h>
#include <stdio.h>

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
	{ "socket", offsetof(struct stub_volume_info, socket),
	  sizeof(((struct stub_volume_info *)0)->socket) },
	{ "control", offsetof(struct stub_volume_info, control),
	  sizeof(((struct stub_volume_info *)0)->control) },
};

static int conf_number(const char *value, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(value, &end, 10);
	return errno || end == value || *end || *value == '-' || *out > max ? -EBADMSG : 0;
}

static int conf_line(struct stub_volume_info *info, const char *key, const char *value)
{
	uint64_t x;

	for (size_t i = 0; i < ARRAY_LEN(text_keys); i++) {
		if (strcmp(key, text_keys[i].key))
			continue;
		if (strlen(value) >= text_keys[i].size)
			return -EBADMSG;
		strcpy((char *)info + text_keys[i].offset, value);
		return 0;
	}
	if (!strcmp(key, "format"))
		return conf_number(value, UINT32_MAX, &x) < 0 ? -EBADMSG :
		       x > STUB_VOLUME_FORMAT		       ? -EPROTONOSUPPORT :
								 0;
	if (!strcmp(key, "source_id")) {
		if (conf_number(value, UINT16_MAX, &x) < 0)
			return -EBADMSG;
		info->source_id = (uint16_t)x;
		return 0;
	}
	if (!strcmp(key, "join_root"))
		return conf_number(value, UINT64_MAX, &info->join_root);
	if (!strcmp(key, "root_fsid"))
		return conf_number(value, UINT64_MAX, &info->root_fsid);
	if (!strcmp(key, "root_fileid")) {
		info->root_known = true;
		return conf_number(value, UINT64_MAX, &info->root_fileid);
	}
	if (!strcmp(key, "depot_id"))
		return conf_number(value, UINT64_MAX, &info->depot_id);
	if (!strcmp(key, "created"))
		return conf_number(value, UINT64_MAX, &info->created);
	return -EBADMSG;
}

static int conf_parse(char *text, struct stub_volume_info *info, unsigned int *line_no)
{
	char *save = NULL;

	memset(info, 0, sizeof(*info));
	info->created = UINT64_MAX; /* the last line: it must come */
	*line_no = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *eq = strchr(line, '=');
		int r;

		(*line_no)++;
		if (!eq)
			return -EBADMSG;
		*eq = '\0';
		r = conf_line(info, line, eq + 1);
		if (r < 0)
			return r;
	}
	return info->uuid[0] && info->source[0] && info->socket[0] &&
			       info->created != UINT64_MAX ?
		       0 :
		       -EBADMSG;
}

int stub_conf_load(int dir_fd, const struct stub_log *log, struct stub_volume_info *info)
{
	char text[8192];
	unsigned int line = 0;
	int r = stub_io_read_file(dir_fd, STUB_CONF, text, sizeof(text) - 1);

	if (r == -ENOENT)
		return -ENOENT;
	/* cut off, or with a NUL in it */
	if (r >= 0 && (strlen(text) != (size_t)r || r == 0 || text[r - 1] != '\n'))
		r = -EBADMSG;
	if (r >= 0)
		r = conf_parse(text, info, &line);
	if (r < 0)
		stub_log(log, STUB_LOG_ERROR, STUB_DIR "/" STUB_CONF " line %u: %s", line,
			 r == -EPROTONOSUPPORT ? "made by a newer release of postcopy" :
						 strerror(-r));
	return r;
}

int stub_conf_write(int root_fd, int dirfd, const struct stub_volume_info *info)
{
	char *text CLEANUP_FREE = NULL, join[sizeof(info->join) + 64] = "";
	char depot[sizeof(info->depot) + 64] = "", root[96] = "";
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
	if (asprintf(&text,
		     "format=%d\nuuid=%s\nsource=%s\n%s%s%ssource_id=%u\nhome=%s\nsocket=%s\ncontrol=%s\n"
		     "created=%llu\n",
		     STUB_VOLUME_FORMAT, info->uuid, info->source, join, depot, root, info->source_id,
		     info->home, info->socket, info->control,
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
