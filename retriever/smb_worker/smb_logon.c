// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_logon.c - are we let in?  See exact_logon() of smb_exact.h.
 *
 * libsmbclient says EACCES of a wrong password and of a share that we may not use, and to try
 * twice to tell them apart would lock accounts.  So one logon is tried here, where we get the
 * server's own status, and libsmbclient only connects after that.
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"

#undef free /* Samba's headers forbid it */

#include "smb_worker/smb_compat.h"
#include "smb_worker/smb_exact.h"

static const struct {
	NTSTATUS status;
	const char *why;
} reasons[] = {
	{ NT_STATUS_LOGON_FAILURE, "wrong password, or no such user" },
	{ NT_STATUS_WRONG_PASSWORD, "wrong password" },
	{ NT_STATUS_NO_SUCH_USER, "no such user" },
	{ NT_STATUS_ACCOUNT_LOCKED_OUT, "the account is locked" },
	{ NT_STATUS_ACCOUNT_DISABLED, "the account is disabled" },
	{ NT_STATUS_ACCOUNT_EXPIRED, "the account has expired" },
	{ NT_STATUS_ACCOUNT_RESTRICTION, "the account is restricted" },
	{ NT_STATUS_PASSWORD_EXPIRED, "the password has expired" },
	{ NT_STATUS_PASSWORD_MUST_CHANGE, "the password must be changed first" },
	{ NT_STATUS_INVALID_LOGON_HOURS, "not at this hour" },
	{ NT_STATUS_INVALID_WORKSTATION, "not from this machine" },
	{ NT_STATUS_LOGON_TYPE_NOT_GRANTED, "no right to log on over the network" },
	{ NT_STATUS_NTLM_BLOCKED, "it takes no password (NTLM)" },
};

/* Does the status say nothing of our account, but that the server, or what it needs, is not
 * there just now? */
static bool is_passing(NTSTATUS s)
{
	static const NTSTATUS list[] = {
		NT_STATUS_NO_LOGON_SERVERS,	     NT_STATUS_DOMAIN_CONTROLLER_NOT_FOUND,
		NT_STATUS_INSUFF_SERVER_RESOURCES,   NT_STATUS_INSUFFICIENT_RESOURCES,
		NT_STATUS_TOO_MANY_SESSIONS,	     NT_STATUS_REQUEST_NOT_ACCEPTED,
		NT_STATUS_NO_MEMORY,		     NT_STATUS_IO_TIMEOUT,
		NT_STATUS_CONNECTION_DISCONNECTED,   NT_STATUS_CONNECTION_RESET,
		NT_STATUS_CONNECTION_ABORTED,	     NT_STATUS_CONNECTION_INVALID,
		NT_STATUS_LOCAL_DISCONNECT,	     NT_STATUS_REMOTE_DISCONNECT,
		NT_STATUS_END_OF_FILE,		     NT_STATUS_PIPE_BROKEN,
		NT_STATUS_INVALID_NETWORK_RESPONSE,  NT_STATUS_USER_SESSION_DELETED,
		NT_STATUS_NETWORK_SESSION_EXPIRED,   NT_STATUS_SERVER_UNAVAILABLE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (NT_STATUS_EQUAL(s, list[i]))
			return true;
	return false;
}

/* Signing is not required here: a guest's session has none, and we want to know if it is one.
 * Nothing goes over this connection but the logon itself. */
static NTSTATUS dial(const struct exact_who *who, int timeout_ms, enum protocol_types min,
		     enum protocol_types max, struct cli_state **out)
{
	NTSTATUS status = compat_connect(who->host, who->port, "POSTCOPY", out);

	if (!NT_STATUS_IS_OK(status)) {
		*out = NULL;
		return status;
	}
	cli_set_timeout(*out, (unsigned int)timeout_ms);
	status = compat_negotiate(*out, min, max);
	if (!NT_STATUS_IS_OK(status)) {
		cli_shutdown(*out);
		*out = NULL;
	}
	return status;
}

/* The server hangs up on our protocol versions: does it only know older ones?  No logon is made. */
static bool is_older(const struct exact_who *who, int timeout_ms, char *why, size_t size)
{
	struct cli_state *cli;
	NTSTATUS status = dial(who, timeout_ms, PROTOCOL_CORE, PROTOCOL_SMB2_02, &cli);

	if (!NT_STATUS_IS_OK(status))
		return false;
	snprintf(why, size, "the server speaks no more than %s",
		 smbXcli_conn_protocol(cli->conn) < PROTOCOL_SMB2_02 ? "SMB1" : "SMB 2.0.2");
	cli_shutdown(cli);
	return true;
}

static const char *said(NTSTATUS status, const struct exact_who *who)
{
	if (who->kerberos)
		return "the server does not take the ticket for cifs/";
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (NT_STATUS_EQUAL(status, reasons[i].status))
			return reasons[i].why;
	return "it takes no password (NTLM), or not so";
}

static int refused(const struct exact_who *who, NTSTATUS status, char *why, size_t size)
{
	snprintf(why, size, "logon failure: the old server refuses user %.60s: %s%.*s (%.50s)",
		 who->user, said(status, who), who->kerberos ? 60 : 0, who->host,
		 nt_errstr(status));
	return -EKEYREJECTED;
}

static bool is_guest(const struct cli_state *cli)
{
	return cli->smb2.session &&
	       smb2cli_session_get_flags(cli->smb2.session) & SMB2_SESSION_FLAG_IS_GUEST;
}

static int log_on(SMBCCTX *c, const struct exact_who *who, struct cli_state *cli, char *why,
		  size_t size)
{
	struct cli_credentials *creds = cli_session_creds_init(
		cli, who->user, who->domain, NULL, who->password, who->kerberos, false,
		smbc_getOptionUseCCache(c), false);
	NTSTATUS status;

	if (!creds)
		return ENOMEM;
	status = cli_session_setup_creds(cli, creds);
	if (is_guest(cli)) {
		snprintf(why, size,
			 "logon failure: the old server does not know user %.60s, or refuses the "
			 "password, and makes guests of such users", who->user);
		return -EKEYREJECTED;
	}
	if (NT_STATUS_IS_OK(status))
		return 0;
	if (!is_passing(status))
		return refused(who, status, why, size);
	snprintf(why, size, "cannot log on now: %.80s", nt_errstr(status));
	return -EPROTO;
}

int exact_logon(SMBCCTX *c, const struct exact_who *who, int timeout_ms, char *why, size_t size)
{
	TALLOC_CTX *frame = talloc_stackframe();
	struct cli_state *cli;
	NTSTATUS status = dial(who, timeout_ms, PROTOCOL_SMB2_10, PROTOCOL_SMB3_11, &cli);
	int r;

	if (NT_STATUS_IS_OK(status)) {
		r = log_on(c, who, cli, why, size);
		cli_shutdown(cli);
	} else {
		r = map_errno_from_nt_status(status);
		if (!NT_STATUS_EQUAL(status, NT_STATUS_IO_TIMEOUT) && r != ECONNREFUSED &&
		    r != EHOSTUNREACH && r != ENETUNREACH && is_older(who, timeout_ms, why, size))
			r = -EPROTO;
	}
	TALLOC_FREE(frame);
	return r;
}
