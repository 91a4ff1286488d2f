/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smbmeta - store what an SMB server knows of a file, as the retriever does.
 *
 *   smbmeta [OPTION]... PATH
 *     -m FILE   table of identities (postcopy-idmap(5)); default: none
 *     -d FILE   security descriptor, self-relative
 *     -a N      attributes
 *     -c N, -w N, -t N, -x N   creation, write, access, change time (NTTIME)
 *     -s NAME=FILE   a stream (any number)
 *     -e NAME=FILE   an extended attribute
 *     -S, -T    STRICT_DELETE, TRAVERSE: see smb_acl.h
 *     -n        only print
 *
 * Prints owner, group and mode, one line for each attribute, and one for what is lost.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "windows/smb_meta.h"

static void *slurp(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *buf;

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", path);
	buf = malloc((size_t)st.st_size + 1);
	if (!buf || read(fd, buf, (size_t)st.st_size) != st.st_size)
		err(1, "%s", path);
	close(fd);
	*len = (size_t)st.st_size;
	return buf;
}

static void add_stream(struct smb_meta_in *in, char *arg)
{
	struct smb_stream *more =
		reallocarray((void *)in->streams, in->n_streams + 1, sizeof(*more));
	char *file = strrchr(arg, '=');
	size_t len;

	if (!more || !file)
		errx(1, "%s: expected NAME=FILE", arg);
	*file++ = '\0';
	in->streams = more;
	more[in->n_streams].name = arg;
	more[in->n_streams].data = slurp(file, &len);
	more[in->n_streams++].size = len;
}

static void add_ea(struct smb_meta_in *in, char *arg)
{
	struct smb_ea *more = reallocarray((void *)in->eas, in->n_eas + 1, sizeof(*more));
	char *file = strrchr(arg, '=');

	if (!more || !file)
		errx(1, "%s: expected NAME=FILE", arg);
	*file++ = '\0';
	in->eas = more;
	more[in->n_eas].name = arg;
	more[in->n_eas].value = slurp(file, &more[in->n_eas].len);
	in->n_eas++;
}

static void store(const char *path, const struct smb_meta *m)
{
	const struct timespec times[2] = { m->atime, m->mtime };

	if (chown(path, m->uid, m->gid) < 0 || chmod(path, m->mode & 07777) < 0)
		err(1, "%s", path);
	for (size_t i = 0; i < m->n; i++) {
		if (setxattr(path, m->x[i].name, m->x[i].value, m->x[i].len, 0) < 0)
			err(1, "%s: %s (%zu bytes)", path, m->x[i].name, m->x[i].len);
	}
	if (utimensat(AT_FDCWD, path, times, 0) < 0)
		err(1, "%s", path);
}

static void limits(const char *path, struct smb_limits *out)
{
	char *copy = strdup(path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : smb_limits_probe(fd, out);

	if (r < 0)
		errx(1, "%s: %s", path, strerror(-r));
	close(fd);
	free(copy);
}

static void show(const struct smb_meta *m)
{
	char line[1024];

	printf("owner %u\ngroup %u\nmode %o\n", m->uid, m->gid, m->mode);
	if (m->owner_unknown || m->group_unknown || m->owner_rights || m->acl_cut)
		printf("note%s%s%s%s\n", m->owner_unknown ? " owner-unknown" : "",
		       m->group_unknown ? " group-unknown" : "",
		       m->owner_rights ? " owner-rights" : "", m->acl_cut ? " acl-cut" : "");
	for (size_t i = 0; i < m->n; i++)
		printf("attribute %s %zu\n", m->x[i].name, m->x[i].len);
	for (size_t i = 0; i < m->n_lost; i++)
		printf("lost %s\n", smb_lost_text(&m->lost[i], line, sizeof(line)));
}

int main(int argc, char **argv)
{
	struct smb_meta_config c = { 0 };
	struct smb_idmap *map = NULL;
	struct smb_meta_in in = { 0 };
	char why[SMB_IDMAP_WHY];
	const char *idmap = NULL;
	bool only_print = false;
	struct smb_meta m;
	struct stat st;
	int opt;

	while ((opt = getopt(argc, argv, "m:d:a:c:w:t:x:s:e:STn")) != -1) {
		switch (opt) {
		case 'm':
			idmap = optarg;
			break;
		case 'd':
			in.sd = slurp(optarg, &in.sd_len);
			break;
		case 'a':
			in.attributes = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'c':
			in.create_time = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			in.write_time = strtoull(optarg, NULL, 0);
			break;
		case 't':
			in.access_time = strtoull(optarg, NULL, 0);
			break;
		case 'x':
			in.change_time = strtoull(optarg, NULL, 0);
			break;
		case 's':
			add_stream(&in, optarg);
			break;
		case 'e':
			add_ea(&in, optarg);
			break;
		case 'S':
			c.strict_delete = true;
			break;
		case 'T':
			c.traverse = true;
			break;
		case 'n':
			only_print = true;
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc || lstat(argv[optind], &st) < 0)
		errx(2, "expected one path that is there");
	if ((idmap ? smb_idmap_read(idmap, &map, why) : smb_idmap_parse("", 0, "", &map, why)) < 0)
		errx(1, "%s", why);
	c.idmap = map;
	in.type = st.st_mode & S_IFMT;
	limits(argv[optind], &c.limits);
	printf("limits %zu %zu\n", c.limits.value, c.limits.all);
	if (smb_meta_make(&c, &in, &m, why) < 0)
		errx(1, "%s: %s", argv[optind], why);
	show(&m);
	if (!only_print)
		store(argv[optind], &m);
	smb_meta_finish(&m);
	smb_idmap_destroy(map);
	return 0;
}
