// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfs_krb5.c - tickets of a source with Kerberos; who is let in, and when to try again.
 *
 * Tickets are got, and newer ones in time, by krb5/tickets.h, which asks a KDC that refuses the key
 * less and less often.  A server that refuses a good ticket is asked again likewise, for all
 * connections together: at once only with newer tickets, or when the administrator says so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "krb5/tickets_gss.h"
#include "nfs/nfs.h"

#define REFUSED_MIN_MS (60 * 1000)
#define REFUSED_MAX_MS (15 * 60 * 1000)

static bool is_set(const char *text)
{
	return text && *text;
}

const char *nfs_security_name(enum nfs_security sec)
{
	static const char *const names[] = { "sys", "krb5", "krb5i", "krb5p" };

	return names[sec];
}

/* ---- tickets ---- */

static int check(const struct source_nfs *o, const struct nfs_uri *uri, char *why, size_t size)
{
	uint8_t address[16];

	if (is_set(o->kerberos_keytab) == is_set(o->kerberos_cache)) {
		snprintf(why, size, "sec=%s needs one of nfs_kerberos_keytab and nfs_kerberos_cache "
				    "in the configuration: %s set",
			 nfs_security_name(uri->sec),
			 is_set(o->kerberos_keytab) ? "both are" : "none is");
		return -EACCES;
	}
	if (is_set(o->kerberos_principal) && !is_set(o->kerberos_keytab)) {
		snprintf(why, size, "nfs_kerberos_principal is for nfs_kerberos_keytab: set that, or "
				    "leave it out");
		return -EACCES;
	}
	if (inet_pton(AF_INET, uri->node, address) == 1 ||
	    inet_pton(AF_INET6, uri->node, address) == 1 || !strcasecmp(uri->node, "localhost")) {
		snprintf(why, size, "Kerberos wants the server's name in the URI, not %.100s",
			 uri->host);
		return -EACCES;
	}
	return 0;
}

int nfs_krb5_tickets(const struct source_config *c, const struct nfs_uri *uri,
		     const struct nfs_krb5_told *told, struct tickets **out, char *why, size_t size)
{
	const struct tickets_config config = {
		.keytab = c->nfs.kerberos_keytab,
		.principal = c->nfs.kerberos_principal,
		.cache = c->nfs.kerberos_cache,
		.service = "nfs",
		.host = uri->node,
		.hostbased = true,
		.keep = tickets_gss_keep,
		.changed = told->changed,
		.tell = told->tell,
		.arg = told->arg,
	};
	int r;

	*out = NULL;
	if (uri->sec == NFS_SEC_SYS)
		return 0;
	r = check(&c->nfs, uri, why, size);
	return r ? r : tickets_create(&config, out, why, size);
}

/* ---- of a source ---- */

static void wake_all(struct nfs_source *s)
{
	pthread_mutex_lock(&s->pool.lock);
	for (unsigned int i = 0; i < s->n; i++)
		nfs_conn_wake(&s->conn[i]);
	pthread_mutex_unlock(&s->pool.lock);
}

/* There are newer tickets; on the thread that gets them. */
static void on_tickets(void *arg)
{
	wake_all(arg);
}

static void on_told(void *arg, enum stub_log_level level, const char *line)
{
	const struct nfs_source *s = arg;

	nfs_log(s, level, "source %s: %s", s->uri.host, line);
}

int nfs_krb5_prepare(struct nfs_source *s, const struct source_config *c, char *why, size_t size)
{
	const struct nfs_krb5_told told = { on_tickets, on_told, s };
	const char *from = is_set(c->nfs.kerberos_keytab) ? c->nfs.kerberos_keytab :
							    c->nfs.kerberos_cache;

	snprintf(s->pace.mend, sizeof(s->pace.mend), "%s", from ? from : "");
	return nfs_krb5_tickets(c, &s->uri, &told, &s->tickets, why, size);
}

uint64_t nfs_pace_left(struct nfs_source *s)
{
	const struct nfs_pace *p = &s->pace;
	uint64_t now = stub_now_ms(), left = 0;

	pthread_mutex_lock(&s->pool.lock);
	if (p->refused && tickets_serial(s->tickets) == p->serial && p->next_ms > now)
		left = p->next_ms - now;
	pthread_mutex_unlock(&s->pool.lock);
	return left;
}

void nfs_pace_end(struct nfs_source *s, int result, uint64_t serial, const char *why)
{
	struct nfs_pace *p = &s->pace;
	uint64_t now = stub_now_ms();
	unsigned int wait_s = 0;

	pthread_mutex_lock(&s->pool.lock);
	if (result == 0) {
		p->refused = false;
		p->backoff_ms = 0;
	} else if (result == -EKEYREJECTED && (!p->refused || now >= p->next_ms)) {
		/* connections that were refused together are refused once */
		p->backoff_ms = !p->backoff_ms			   ? REFUSED_MIN_MS :
				p->backoff_ms * 2 > REFUSED_MAX_MS ? REFUSED_MAX_MS :
								     p->backoff_ms * 2;
		p->refused = true;
		p->serial = serial;
		p->next_ms = now + p->backoff_ms;
		snprintf(p->why, sizeof(p->why), "%s", why);
		snprintf(s->pool.trouble, sizeof(s->pool.trouble), "%s", why);
		wait_s = (unsigned int)(p->backoff_ms / 1000);
	}
	pthread_mutex_unlock(&s->pool.lock);
	if (wait_s)
		nfs_log(s, STUB_LOG_WARN, "source %s: %s; next try in %u s", s->uri.host, why, wait_s);
}

void nfs_pace_hurry(struct nfs_source *s)
{
	pthread_mutex_lock(&s->pool.lock);
	s->pace.next_ms = 0;
	pthread_mutex_unlock(&s->pool.lock);
	tickets_hurry(s->tickets);
	wake_all(s);
}

void nfs_pace_state(struct nfs_source *s, struct source_state *out)
{
	const struct nfs_pace *p = &s->pace;
	uint64_t now = stub_now_ms(), next = tickets_refused(s->tickets);
	char trouble[SOURCE_WHY_MAX];

	if (p->refused)
		next = p->next_ms;
	out->refused = out->trouble[0] && (p->refused || next);
	if (!out->refused)
		return;
	out->next_try_ms = next > now ? next - now : 0;
	snprintf(trouble, sizeof(trouble), "%.255s", p->refused ? p->why : out->trouble);
	snprintf(out->trouble, sizeof(out->trouble), "%s; mend %.150s, or what the server lets in; "
		 "next try in %u s",
		 trouble, p->mend, (unsigned int)((out->next_try_ms + 999) / 1000));
}
