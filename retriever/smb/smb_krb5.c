// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_krb5.c - Kerberos tickets for workers.
 *
 * Workers are linked with the Kerberos of Samba's build, which need not be the one we are
 * linked with: a credential cache's file is what all can read.  It also has the KDC's time.
 */
#include <errno.h>
#include <fcntl.h>
#include <krb5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "smb/smb_home.h"
#include "smb/smb_krb5.h"

#define BYTES_MAX (1u << 20) /* of a credential cache */

struct cache {
	size_t len;
	uint8_t bytes[];
};

/* ---- what is kept ---- */

static int read_all(const char *path, struct cache **out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct cache *c = NULL;
	struct stat st;
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0 && (st.st_size <= 0 || st.st_size > BYTES_MAX))
		r = -EFBIG;
	if (r == 0) {
		c = malloc(sizeof(*c) + (size_t)st.st_size);
		r = c ? 0 : -ENOMEM;
	}
	if (r == 0) {
		c->len = (size_t)st.st_size;
		r = read(fd, c->bytes, c->len) != (ssize_t)c->len ? -EIO : 0;
	}
	if (fd >= 0)
		close(fd);
	if (r == 0)
		*out = c;
	else
		free(c);
	return r;
}

static krb5_error_code copy(krb5_context k, krb5_ccache from, const char *name)
{
	krb5_ccache to;
	krb5_error_code e = krb5_cc_resolve(k, name, &to);

	if (e)
		return e;
	e = tickets_copy(k, from, to);
	krb5_cc_close(k, to);
	return e;
}

/* The cache as the bytes of a file, which is written, read and removed with its @home. */
static int to_bytes(krb5_context k, krb5_ccache from, const char *home, struct cache **out,
		    char *why, size_t size)
{
	char path[512 + sizeof(SMB_HOME_TICKETS) + 8];
	const char *text;
	krb5_error_code e;
	int r;

	snprintf(path, sizeof(path), "FILE:%s/" SMB_HOME_TICKETS, home);
	e = copy(k, from, path);
	if (e) {
		text = krb5_get_error_message(k, e);
		snprintf(why, size, "Kerberos, %.150s: %.80s", path, text);
		krb5_free_error_message(k, text);
		return -EPROTO;
	}
	r = read_all(path + strlen("FILE:"), out);
	if (r < 0)
		snprintf(why, size, "cannot read %.150s: %s", path, strerror(-r));
	return r;
}

static int make(const struct tickets_from *from, krb5_context k, krb5_ccache cache, void **kept,
		char *why, size_t size)
{
	char home[512];
	int fd = smb_home_make(home, sizeof(home)), r;

	(void)from;
	if (fd < 0) {
		snprintf(why, size, "cannot make %.150s: %s", home, strerror(-fd));
		return fd;
	}
	r = to_bytes(k, cache, home, (struct cache **)kept, why, size);
	smb_home_remove(home);
	close(fd);
	return r;
}

static void drop(void *kept)
{
	struct cache *c = kept;

	explicit_bzero(c->bytes, c->len);
	free(c);
}

const struct tickets_keep smb_krb5_keep = { make, drop };

/* ---- for a worker ---- */

struct writing {
	const char *path;
	struct smb_krb5_written *out;
};

static int write_all(const char *path, const struct cache *what)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), r;

	if (fd < 0)
		return -errno;
	r = stub_io_pwrite(fd, what->bytes, what->len, 0);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

static int use(void *arg, const struct tickets_now *now, char *why, size_t size)
{
	struct writing *w = arg;
	const char *realm = strrchr(now->principal, '@');
	int r = write_all(w->path, now->kept);

	w->out->serial = now->serial;
	/* The server goes by the name in the tickets.  But libsmbclient takes a login without a
	 * user for an anonymous one, and a '/' or '\\' in the user for the end of a domain's name. */
	snprintf(w->out->user, sizeof(w->out->user), "%.*s%.120s",
		 (int)strcspn(now->principal, "/\\@"), now->principal, realm ? realm : "");
	if (r < 0)
		snprintf(why, size, "cannot write %.150s: %s", w->path, strerror(-r));
	return r;
}

int smb_krb5_write(struct tickets *t, const char *path, unsigned int wait_ms,
		   struct smb_krb5_written *out, char *why, size_t size)
{
	struct writing w = { path, out };

	return tickets_use(t, wait_ms, use, &w, why, size);
}
