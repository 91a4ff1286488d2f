// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * file_xattr.c - ACLs and extended attributes: which are kept.
 *
 *   user.*, system.posix_acl_*, security.NTACL   kept: users' own, POSIX ACLs, and the ACLs that
 *                                  Samba's acl_xattr has stored, which stay valid beside the same
 *                                  owner, mode and POSIX ACL
 *   security.capability, other system.*   not kept, and told object by object: programs stop
 *                                  working without the one, the others are ACLs of other kinds
 *   other security.*, trusted.*    not kept: the new machine's own labels count.  init --check says so
 *   trusted.postcopy               the object is a stub of a volume: its data is not here
 *
 * Only files and directories have them in a volume.  Where an ACL cannot come along, the mode gives
 * nobody more than the ACL did (docs/decisions/0032).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "file/file.h"
#include "source/posix_acl.h"

#define ACL_MAX (POSIX_ACL_HEAD + POSIX_ACL_ENTRY * 1024)

enum fate { FATE_PASSED, FATE_KEPT, FATE_TOLD, FATE_STUB };

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static enum fate fate_of(const char *name)
{
	if (!strcmp(name, STUB_XATTR))
		return FATE_STUB;
	if (begins(name, "user.") || !strcmp(name, POSIX_ACL_ACCESS) ||
	    !strcmp(name, POSIX_ACL_DEFAULT) || !strcmp(name, "security.NTACL"))
		return FATE_KEPT;
	if (!strcmp(name, "security.capability") || begins(name, "system."))
		return FATE_TOLD;
	return FATE_PASSED;
}

/* ---- the mode beside an ACL ---- */

static void narrow(const uint8_t *acl, size_t len, struct stub_attr *a)
{
	a->acl = true;
	posix_acl_narrow(acl, len, a);
}

/* ---- does it have any? ---- */

static const char *link_of(int fd, char out[32])
{
	snprintf(out, 32, "/proc/self/fd/%d", fd);
	return out;
}

static int look_names(const char *names, size_t len, struct stub_attr *a)
{
	for (size_t at = 0; at < len; at += strlen(names + at) + 1) {
		enum fate f = fate_of(names + at);

		if (f == FATE_STUB)
			return -EBADMSG;
		a->more = a->more || f != FATE_PASSED;
	}
	return 0;
}

int file_xattr_look(int fd, struct stub_attr *a)
{
	char names[1024], path[32], acl[ACL_MAX];
	ssize_t n;

	if (S_ISLNK(a->mode))
		return 0;
	link_of(fd, path);
	if (!S_ISREG(a->mode) && !S_ISDIR(a->mode)) {
		n = getxattr(path, POSIX_ACL_ACCESS, acl, sizeof(acl));
		if (n >= 0)
			narrow((uint8_t *)acl, (size_t)n, a);
		else if (errno == ERANGE)
			narrow(NULL, 0, a);
		return 0;
	}
	n = listxattr(path, names, sizeof(names) - 1);
	if (n < 0 && errno != ERANGE && errno != E2BIG)
		return errno == EOPNOTSUPP ? 0 : file_errno(errno);
	if (n < 0) { /* so many: file_xattr_meta() tells, but not whether it is a stub */
		a->more = true;
		return getxattr(path, STUB_XATTR, NULL, 0) < 0 ? 0 : -EBADMSG;
	}
	names[n] = '\0';
	return look_names(names, (size_t)n, a);
}

/* ---- all that is kept ---- */

struct taking {
	int fd;
	const struct source_smb *limits;
	struct source_meta *out;
	struct stub_xattr *list;
	char *names, *value;
	size_t all; /* bytes of values and names so far */
	FILE *lost;
	size_t lost_len;
};

/* It does not fit: no more rights without it than with it. */
static void too_large(struct taking *t, const char *name, size_t len)
{
	char shown[128];

	stub_printable(name, strlen(name), shown, sizeof(shown));
	fprintf(t->lost, "attribute %s of %zu bytes: more than the new file system takes\n", shown,
		len);
	if (!strcmp(name, POSIX_ACL_ACCESS))
		narrow((uint8_t *)t->value, len, &t->out->attr);
}

static int take(struct taking *t, const char *name)
{
	ssize_t n = fgetxattr(t->fd, name, t->value, FILE_XATTR_VALUE);
	struct stub_xattr *x;
	void *copy;

	if (n < 0)
		return errno == ENODATA ? 0 : file_errno(errno); /* removed meanwhile */
	if ((t->limits->xattr_value && (size_t)n > t->limits->xattr_value) ||
	    (t->limits->xattr_all && t->all + (size_t)n + strlen(name) > t->limits->xattr_all)) {
		too_large(t, name, (size_t)n);
		return 0;
	}
	copy = malloc((size_t)n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, t->value, (size_t)n);
	t->all += (size_t)n + strlen(name);
	x = &t->list[t->out->n++];
	*x = (struct stub_xattr){ name, copy, (size_t)n };
	return 0;
}

static int take_names(struct taking *t, size_t len)
{
	char shown[128];
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += strlen(t->names + at) + 1) {
		const char *name = t->names + at;

		switch (fate_of(name)) {
		case FATE_STUB:
			return -EBADMSG;
		case FATE_KEPT:
			r = take(t, name);
			break;
		case FATE_TOLD:
			stub_printable(name, strlen(name), shown, sizeof(shown));
			fprintf(t->lost, "attribute %s\n", shown);
			break;
		case FATE_PASSED:
			break;
		}
	}
	return r;
}

/* One piece of memory, as source_meta_free() wants it: the list, then names and values. */
static int pack(struct taking *t)
{
	struct source_meta *m = t->out;
	size_t size = m->n * sizeof(*t->list) + 1;
	struct stub_xattr *to;
	char *p;

	for (size_t i = 0; i < m->n; i++)
		size += strlen(t->list[i].name) + 1 + t->list[i].len;
	m->memory = to = malloc(size);
	if (!to)
		return -ENOMEM;
	p = (char *)(to + m->n);
	for (size_t i = 0; i < m->n; i++) {
		to[i].name = p;
		p = stpcpy(p, t->list[i].name) + 1;
		to[i].len = t->list[i].len;
		to[i].value = memcpy(p, t->list[i].value, to[i].len);
		p += to[i].len;
	}
	m->xattrs = to;
	return 0;
}

static void release(struct taking *t, int r)
{
	for (size_t i = 0; i < t->out->n; i++)
		free((void *)t->list[i].value);
	free(t->list);
	free(t->names);
	free(t->value);
	if (t->lost)
		fclose(t->lost);
	t->out->lost = t->lost_len ? t->out->lost_memory : NULL;
	if (r < 0)
		t->out->n = 0;
	else
		t->out->n = t->out->xattrs ? t->out->n : 0;
}

int file_xattr_meta(int fd, const struct source_smb *limits, struct source_meta *out)
{
	struct taking t = { .fd = fd, .limits = limits, .out = out };
	ssize_t len;
	int r = -ENOMEM;

	t.names = malloc(FILE_XATTR_LIST + 1);
	t.value = malloc(FILE_XATTR_VALUE);
	t.list = calloc(FILE_XATTR_LIST / 2, sizeof(*t.list));
	t.lost = open_memstream((char **)&out->lost_memory, &t.lost_len);
	if (t.names && t.value && t.list && t.lost) {
		len = flistxattr(fd, t.names, FILE_XATTR_LIST);
		r = len >= 0 ? 0 : errno == EOPNOTSUPP ? 0 : file_errno(errno);
		if (len > 0) {
			t.names[len] = '\0';
			r = take_names(&t, (size_t)len);
		}
		if (r == 0)
			r = pack(&t);
	}
	release(&t, r);
	return r;
}
