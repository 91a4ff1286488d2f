// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_password.c - user and password, out of a file that nobody else may read. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "krb5/private_file.h"
#include "smb/smb.h"

static char *trim(char *s)
{
	char *end;

	while (*s && isspace((unsigned char)*s))
		s++;
	end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return s;
}

/* "key = value"; the value of a password may begin and end with anything but blanks. */
static int take_line(char *line, struct smb_login *out)
{
	const struct {
		const char *key;
		char *to;
	} keys[] = { { "username", out->user }, { "password", out->password },
		     { "domain", out->domain } };
	char *key = trim(line), *value;

	if (!*key || *key == '#' || *key == ';')
		return 0;
	value = strchr(key, '=');
	if (!value)
		return -EINVAL;
	*value = '\0';
	key = trim(key);
	value = trim(value + 1);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i].key) && strlen(value) < sizeof(out->user)) {
			strcpy(keys[i].to, value);
			return 0;
		}
	return -EINVAL;
}

int smb_login_read(const char *path, struct smb_login *out, char *why, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r, number = 0;
	char line[1024];
	FILE *f;

	memset(out, 0, sizeof(*out));
	why[0] = '\0';
	r = fd < 0 ? -errno : private_file_fd(fd, path, why, size);
	f = r == 0 ? fdopen(fd, "r") : NULL;
	if (!f) {
		if (r == 0)
			r = -ENOMEM;
		if (!why[0])
			snprintf(why, size, "cannot read %.150s: %s", path, strerror(-r));
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && fgets(line, sizeof(line), f)) {
		number++;
		r = take_line(line, out);
	}
	if (r < 0) /* the message does not quote the line: it may be the password */
		snprintf(why, size, "%.150s line %d: want username, password or domain = ...", path,
			 number);
	else if (!out->user[0])
		snprintf(why, size, "%.150s has no line username = ...", path);
	if (r == 0 && !out->user[0])
		r = -EINVAL;
	explicit_bzero(line, sizeof(line));
	fclose(f);
	return r;
}
