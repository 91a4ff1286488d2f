// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_connect.c - to the server, the share and the directory that is to be migrated.
 *
 * Nothing of the machine's own Samba configuration is read: HOME is a directory of this
 * worker alone, with an smb.conf in it.  We never go on as a guest: there is no anonymous
 * fall-back, and a server that makes us a guest is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "smb/smb_home.h"
#include "smb_worker/smb_worker.h"

/* libsmbclient's own limit, so long that it never counts: the retriever watches (smb_pulse.c). */
#define CALL_MS (3600 * 1000)

static char *text(const struct smb_text *t)
{
	return strndup(t->p ? t->p : "", t->len);
}

static int take(struct worker *w, const struct smb_start *s)
{
	w->flags = s->flags;
	w->port = s->port;
	w->uid = s->uid;
	w->gid = s->gid;
	w->file_mode = s->file_mode & 07777;
	w->dir_mode = s->dir_mode & 07777;
	w->host = text(&s->host);
	w->share = text(&s->share);
	w->root = text(&s->root);
	w->user = text(&s->user);
	w->domain = text(&s->domain);
	w->password = text(&s->password);
	return w->host && w->share && w->root && w->user && w->domain && w->password && w->home ?
		       0 :
		       -ENOMEM;
}

/* $HOME/.smb/smb.conf, which keeps libsmbclient from reading the machine's. */
static int make_home(struct worker *w, const struct smb_start *s)
{
	char *path = NULL, *cache = NULL;
	FILE *f = NULL;
	int r = -ENOMEM;

	if (asprintf(&cache, "FILE:%s/" SMB_HOME_TICKETS, w->home) > 0 &&
	    asprintf(&path, "%s/.smb", w->home) > 0) {
		r = mkdir(path, 0700) < 0 ? -errno : 0;
		free(path);
		path = NULL;
	}
	if (r == 0 && asprintf(&path, "%s/.smb/smb.conf", w->home) > 0)
		f = fopen(path, "wxe");
	if (f) {
		fprintf(f,
			"[global]\n"
			"netbios name = POSTCOPY\n"
			"client min protocol = SMB2_10\n"
			"client max protocol = SMB3_11\n"
			"client signing = %s\n"
			"name resolve order = host\n"
			"disable netbios = yes\n"
			"unix charset = UTF-8\n"
			"dos charset = ASCII\n"
			"lock directory = %s\nstate directory = %s\n"
			"cache directory = %s\nprivate dir = %s\n"
			"log level = 0\n",
			s->flags & SMB_WIRE_SIGN ? "required" : "if_required", w->home, w->home,
			w->home, w->home);
		r = fclose(f) ? -EIO : 0;
		setenv("HOME", w->home, 1);
		if (s->flags & SMB_WIRE_KERBEROS)
			setenv("KRB5CCNAME", cache, 1);
	} else if (r == 0) {
		r = -EIO;
	}
	if (r < 0)
		snprintf(w->why, sizeof(w->why), "cannot make %.150s: %s", w->home, strerror(-r));
	free(path);
	free(cache);
	return r;
}

static void give(char *to, int size, const char *from)
{
	snprintf(to, (size_t)size, "%s", from);
}

static void credentials(SMBCCTX *c, const char *server, const char *share, char *domain,
			int domain_size, char *user, int user_size, char *password,
			int password_size)
{
	const struct worker *w = smbc_getOptionUserData(c);

	(void)server;
	(void)share;
	give(domain, domain_size, w->domain);
	give(user, user_size, w->user);
	give(password, password_size, w->password);
}

/*
 * When a connection is lost libsmbclient would connect again by itself, perhaps as a guest and
 * without encryption.  That is refused: one worker is one connection.
 */
static int add_server(SMBCCTX *c, SMBCSRV *srv, const char *server, const char *share,
		      const char *domain, const char *user)
{
	struct worker *w = smbc_getOptionUserData(c);

	if (!w->connected)
		return w->add_server(c, srv, server, share, domain, user);
	errno = ECONNRESET;
	return 1;
}

static int make_context(struct worker *w)
{
	SMBCCTX *c = smbc_new_context();

	if (!c)
		return -ENOMEM;
	smbc_setOptionUserData(c, w);
	smbc_setFunctionAuthDataWithContext(c, credentials);
	w->add_server = smbc_getFunctionAddCachedServer(c);
	smbc_setFunctionAddCachedServer(c, add_server);
	smbc_setTimeout(c, CALL_MS);
	smbc_setPort(c, w->port);
	smbc_setOptionNoAutoAnonymousLogin(c, true);
	smbc_setOptionUseKerberos(c, w->flags & SMB_WIRE_KERBEROS);
	smbc_setOptionFallbackAfterKerberos(c, false);
	if (w->flags & SMB_WIRE_ENCRYPT) /* this counts for connections to other servers of a DFS */
		smbc_setOptionSmbEncryptionLevel(c, SMBC_ENCRYPTLEVEL_REQUIRE);
	smbc_setUser(c, w->user);
	smbc_setWorkgroup(c, w->domain);
	if (!smbc_init_context(c)) {
		smbc_free_context(c, 1);
		return -ENOMEM;
	}
	w->context = c;
	return 0;
}

static int resolve(struct worker *w)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	int r = getaddrinfo(w->host, NULL, &hints, &list);

	if (r != 0) {
		snprintf(w->why, sizeof(w->why), "unknown host %.150s (%s)", w->host,
			 gai_strerror(r));
		return -EHOSTUNREACH;
	}
	freeaddrinfo(list);
	return 0;
}

static int log_on(struct worker *w)
{
	const struct exact_who who = {
		.host = w->host,
		.user = w->user,
		.domain = w->domain,
		.password = w->password,
		.port = w->port,
		.kerberos = w->flags & SMB_WIRE_KERBEROS,
	};

	return exact_logon(w->context, &who, CALL_MS, w->why, sizeof(w->why));
}

/* 0, or libsmbclient's errno. */
static int try_share(struct worker *w)
{
	char *url = worker_url(w, "");
	struct stat st;
	int r = !url ? ENOMEM : smbc_getFunctionStat(w->context)(w->context, url, &st) < 0 ? errno : 0;

	free(url);
	return r;
}

/* Why is there no connection?  0 is not among the answers. */
static int refused(struct worker *w, int e)
{
	static const struct {
		int from, to;
		const char *why;
	} reasons[] = {
		{ ECONNREFUSED, -ECONNREFUSED, "connection refused" },
		{ ECONNRESET, -ECONNREFUSED, "the server ends the connection" },
		{ ECONNABORTED, -ECONNREFUSED, "the server ends the connection" },
		{ EPIPE, -ECONNREFUSED, "the server ends the connection" },
		{ EHOSTUNREACH, -EHOSTUNREACH, "no way to the host" },
		{ ENETUNREACH, -EHOSTUNREACH, "no way to the host" },
		{ ETIMEDOUT, -ETIMEDOUT, "no answer" },
		{ ENOENT, -ENOENT, "no such share" },
		{ ENODEV, -ENOENT, "no such share" },
	};

	if (e == EACCES || e == EPERM) { /* our logon worked: it is the share that is denied */
		snprintf(w->why, sizeof(w->why), "no right to use share %.100s", w->share);
		return -EACCES;
	}
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].from == e) {
			snprintf(w->why, sizeof(w->why), "%s", reasons[i].why);
			return reasons[i].to;
		}
	snprintf(w->why, sizeof(w->why), "cannot connect: %s", strerror(e));
	return -EPROTO;
}

int worker_connect(struct worker *w, const struct smb_start *s, struct stub_attr *root)
{
	struct exact_info i;
	int r = take(w, s);

	if (r == 0)
		r = resolve(w);
	if (r == 0)
		r = make_home(w, s);
	if (r == 0)
		r = make_context(w);
	if (r == 0)
		r = log_on(w);
	if (r == 0)
		r = try_share(w);
	if (r)
		return r < 0 ? r : refused(w, r);
	if (exact_is_guest(w->context)) {
		snprintf(w->why, sizeof(w->why), "the server takes us for a guest");
		return -EACCES;
	}
	if (w->flags & SMB_WIRE_ENCRYPT && !exact_encrypt(w->context)) {
		snprintf(w->why, sizeof(w->why), "the server cannot encrypt");
		return -EPROTO;
	}
	w->connected = true;
	r = exact_stat(w, w->root, &i);
	if (r == WORKER_LOST && *w->root) {
		snprintf(w->why, sizeof(w->why), "no directory %.100s on share %.60s", w->root,
			 w->share);
		return -ENOENT;
	}
	if (r == 0 && !i.dir) {
		snprintf(w->why, sizeof(w->why), "%.150s is not a directory", w->root);
		return -ENOTDIR;
	}
	if (r == 0) {
		worker_attr(w, w->root, "", &i, root);
		w->root_fileid = root->fileid;
	}
	return r;
}
