/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * smb_compat.h - what differs between the Sambas whose libsmb the worker is built with: 4.17
 * (Debian 12) and 4.22 (Debian 13).  POSTCOPY_SAMBA_VFS is the number of the VFS interface, by
 * which vfs_stub/compat.h tells them apart, too.
 *
 * All other files are written for the newer one.
 */
#ifndef SMB_COMPAT_H
#define SMB_COMPAT_H

#if POSTCOPY_SAMBA_VFS == 47

static inline NTSTATUS compat_connect(const char *host, uint16_t port, const char *name,
				      struct cli_state **out)
{
	return cli_connect_nb(host, NULL, port, 0x20, name, SMB_SIGNING_IF_REQUIRED, 0, out);
}

static inline NTSTATUS compat_negotiate(struct cli_state *cli, enum protocol_types min,
					enum protocol_types max)
{
	return smbXcli_negprot(cli->conn, cli->timeout, min, max);
}

static inline NTSTATUS compat_stat(struct cli_state *cli, const char *path, struct timespec *b,
				   struct timespec *a, struct timespec *m, struct timespec *c,
				   off_t *size, uint32_t *attributes, SMB_INO_T *ino)
{
	return cli_qpathinfo2(cli, path, b, a, m, c, size, attributes, ino);
}

#elif POSTCOPY_SAMBA_VFS == 50

static inline NTSTATUS compat_connect(const char *host, uint16_t port, const char *name,
				      struct cli_state **out)
{
	return cli_connect_nb(NULL, host, NULL, port, 0x20, name, SMB_SIGNING_IF_REQUIRED, 0,
			      out);
}

/* No contexts of our own: the POSIX extensions are not asked for. */
static inline NTSTATUS compat_negotiate(struct cli_state *cli, enum protocol_types min,
					enum protocol_types max)
{
	return smbXcli_negprot(cli->conn, cli->timeout, min, max, NULL, NULL, NULL);
}

static inline NTSTATUS compat_stat(struct cli_state *cli, const char *path, struct timespec *b,
				   struct timespec *a, struct timespec *m, struct timespec *c,
				   off_t *size, uint32_t *attributes, SMB_INO_T *ino)
{
	return cli_qpathinfo2(cli, path, b, a, m, c, size, attributes, ino, NULL);
}

#else
#error "this Samba is unknown: the worker is for 4.17 and 4.22"
#endif

#endif
