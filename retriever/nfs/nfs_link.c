// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs_link.c - what others do to a connection, and what its calls are. */
#include <stdarg.h>
#include <stdio.h>
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
	static const char *const names[] = { "GETATTR", "LOOKUP",      "READLINK", "ACCESS",
					     "READ",	"READDIRPLUS", "READDIR",  "GETACL" };

	return names[op];
}

uint32_t nfs_call_load(const struct nfs_call *c)
{
	switch (c->op) {
	case NFS_OP_READ:
	case NFS_OP_READDIRPLUS:
	case NFS_OP_READDIR:
		return 256 + c->count;
	case NFS_OP_GETACL:
		return 1024;
	default:
		return 256;
	}
}
