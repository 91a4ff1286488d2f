// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_login.c - who we are: user and password, out of a file that nobody else may read,
 * or Kerberos. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "smb/smb.h"

static int check_file(int fd, const char *path, char *why, size_t size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, size, "%.150s is not a file", path);
		return -EINVAL;
	}
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 077) {
		snprintf(why, size, "%.150s can be read by others: chown root, chmod 600", path);
		return -EACCES;
	}
	return 0;
}

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

int smb_private_file(const char *path, char *why, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r;

	why[0] = '\0';
	r = fd < 0 ? -errno : check_file(fd, path, why, size);
	if (r < 0 && !why[0])
		snprintf(why, size, "cannot read %.150s: %s", path, strerror(-r));
	if (fd >= 0)
		close(fd);
	return r;
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
	r = fd < 0 ? -errno : check_file(fd, path, why, size);
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
	if (r < 0) /* not the line itself: it may be the password */
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

/* ---- which way ---- */

static bool is_set(const char *text)
{
	return text && *text;
}

/* One way to log in, and one only. */
static int check_ways(const struct source_smb *o, char *why, size_t size)
{
	unsigned int n = is_set(o->credentials) + is_set(o->kerberos_cache) +
			 is_set(o->kerberos_keytab);

	if (is_set(o->kerberos_principal) && !is_set(o->kerberos_keytab)) {
		snprintf(why, size, "smb_kerberos_principal is for smb_kerberos_keytab: set that, or "
				    "leave it out");
		return -EACCES;
	}
	if (n == 1)
		return 0;
	snprintf(why, size, "%s smb_credentials, smb_kerberos_keytab and smb_kerberos_cache in the "
			    "configuration: set one of them",
		 n ? "more than one of" : "none of");
	return -EACCES;
}

/* On the thread that gets tickets. */
static void on_tickets(void *arg)
{
	struct smb_source *s = arg;

	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
}

static void on_told(void *arg, enum stub_log_level level, const char *line)
{
	const struct smb_source *s = arg;

	smb_log(s, level, "source %s: %s", s->uri.host, line);
}

static int start_tickets(struct smb_source *s, const struct source_smb *o, char *why, size_t size)
{
	const struct smb_ticket_config config = {
		.keytab = o->kerberos_keytab,
		.principal = o->kerberos_principal,
		.cache = o->kerberos_cache,
		.host = s->uri.host,
		.changed = on_tickets,
		.tell = on_told,
		.arg = s,
	};
	struct in_addr address;

	if (inet_pton(AF_INET, s->uri.host, &address) == 1 || !strcasecmp(s->uri.host, "localhost")) {
		snprintf(why, size, "Kerberos wants the server's name in the URI, not %.100s",
			 s->uri.host);
		return -EACCES;
	}
	return smb_ticket_create(&config, &s->ticket, why, size);
}

int smb_login_prepare(struct smb_source *s, const struct source_smb *o, char *why, size_t size)
{
	int r = check_ways(o, why, size);

	if (r < 0)
		return r;
	if (is_set(o->credentials))
		return smb_pace_prepare(s, o->credentials, why, size);
	return start_tickets(s, o, why, size);
}
