// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_link.c - waking and breaking a connection; names and sizes of its calls. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "nfs/nfs.h"

void nfs_conn_wake(struct nfs_conn *c)
{
	eventfd_write(c->wake, 1);
}

void nfs_conn_break(struct nfs_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->broken[0])
		return; /* the first reason is the cause */
	va_start(ap, fmt);
	vsnprintf(c->broken, sizeof(c->broken), fmt, ap);
	va_end(ap);
}

const char *nfs_op_name(enum nfs_op op)
{
	static const char *const names[] = {
		"GETATTR", "LOOKUP",	 "READLINK", "ACCESS",	"READ",	  "READDIRPLUS",
		"READDIR", "GETACL",	 "SEEK",     "LISTXATTRS", "GETXATTR", "SETATTR",
		"WRITE",   "COMMIT",	 "CREATE",   "MKDIR",	"SYMLINK", "MKNOD",
		"REMOVE",  "RMDIR",	 "RENAME",   "LINK",	"SETACL",
	};

	return names[op];
}

/* What of its object and answer may be told. */
static void tell(const struct nfs_call *c, const struct nfs_conn *on, int err,
		 const struct nfs_answer *a)
{
	char fh[STUB_ORIGIN_MAX * 2 + 1] = "", what[STUB_NAME_MAX * 4 + 8] = "", got[32] = "";
	char where[32] = "";

	for (unsigned int i = 0; i < c->fh.len; i++)
		snprintf(fh + 2 * i, 3, "%02x", c->fh.bytes[i]);
	if (c->op == NFS_OP_LOOKUP || (c->change && c->name)) {
		what[0] = ' ';
		what[1] = '"';
		stub_printable(c->name, strlen(c->name), what + 2, sizeof(what) - 3);
		strcat(what, "\"");
	} else if (c->op == NFS_OP_READ || c->op == NFS_OP_WRITE) {
		snprintf(what, sizeof(what), " %llu+%u", (unsigned long long)c->offset, c->count);
	}
	if ((c->op == NFS_OP_READ || c->op == NFS_OP_WRITE) && !err)
		snprintf(got, sizeof(got), ", %u bytes", a->len);
	if (on)
		snprintf(where, sizeof(where), ", connection %u", on->index);
	trace_line(c->trace, "source %s %s%s: %s%s, %.1f ms%s", nfs_op_name(c->op), fh, what,
		   stub_result_text(err), got, (double)(stub_now_us() - c->begun_us) / 1000, where);
}

void nfs_call_over(struct nfs_call *c, const struct nfs_conn *on, int err,
		   const struct nfs_answer *a)
{
	if (c->begun_us && trace_on())
		tell(c, on, err, a);
	c->done(c, err, a);
}

uint32_t nfs_call_load(const struct nfs_call *c)
{
	switch (c->op) {
	case NFS_OP_READ:
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR:
	case NFS_OP_LISTXATTRS:
	case NFS_OP_GETXATTR:
	case NFS_OP_WRITE:
		return 256 + c->count;
	case NFS_OP_GETACL:
		return 1024;
	default:
		return 256;
	}
}
