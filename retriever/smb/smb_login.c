// SPDX-License-Identifier: GPL-3.0-or-later
/* smb_login.c - how we log in: with a password, or with Kerberos. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "smb/smb.h"

static bool is_set(const char *text)
{
	return text && *text;
}

/* Exactly one way to log in must be configured. */
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

/* There are newer tickets; on the thread that gets them. */
static void on_tickets(void *arg)
{
	struct smb_source *s = arg;

	pthread_mutex_lock(&s->pool.lock);
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
}

static void on_told(void *arg, enum stub_log_level level, const char *line)
{
	const struct smb_source *s = arg;

	smb_log(s, level, "source %s: %s", s->uri.host, line);
}

static int start_tickets(struct smb_source *s, const struct source_smb *o, char *why, size_t size)
{
	const struct tickets_config config = {
		.keytab = o->kerberos_keytab,
		.principal = o->kerberos_principal,
		.cache = o->kerberos_cache,
		.service = "cifs",
		.host = s->uri.node,
		.keep = smb_krb5_keep,
		.changed = on_tickets,
		.tell = on_told,
		.arg = s,
	};
	uint8_t address[16];

	if (inet_pton(AF_INET, s->uri.node, address) == 1 ||
	    inet_pton(AF_INET6, s->uri.node, address) == 1 ||
	    !strcasecmp(s->uri.node, "localhost")) {
		snprintf(why, size, "Kerberos wants the server's name in the URI, not %.100s",
			 s->uri.host);
		return -EACCES;
	}
	return tickets_create(&config, &s->ticket, why, size);
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
