/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * recall.c - who may recall data.
 *
 * A virus scanner, an indexer or a backup that reads everything would pull the whole old
 * server over in no order.  "stub:recall deny" names users (as in "valid users": names,
 * @groups) and addresses (as in "hosts deny"): they can read what is here, and get
 * ACCESS_DENIED for what is not.  Nothing else is denied.  Decided when a client connects.
 *
 * All others have a budget, which the retriever keeps (retriever/jobs/recall.h): it is told
 * who they are.
 */
#include "stub_glue.h"

#include "auth.h"
#include "lib/tsocket/tsocket.h"
#include "lib/util/access.h"
#include "smbd/globals.h"
#include "auth/proto.h"

/* "10.0.0.", "192.168.1.0/24", "fe80::1", "ALL"; a user's name never begins so. */
static bool is_address(const char *entry)
{
	return isdigit((unsigned char)entry[0]) || strchr(entry, ':') || !strcmp(entry, "ALL");
}

static bool from_address(const struct connection_struct *conn, const char *entry)
{
	const char *one[] = { entry, NULL };
	bool denied;
	char *addr;

	if (!conn->sconn->remote_address)
		return false;
	addr = tsocket_address_inet_addr_string(conn->sconn->remote_address, talloc_tos());
	denied = addr && !allow_access_nolog(one, NULL, "", addr);
	TALLOC_FREE(addr);
	return denied;
}

bool stubvfs_recall_denied(const struct connection_struct *conn, const char *user)
{
	const char **list = lp_parm_string_list(SNUM(conn), "stub", "recall deny", NULL);
	TALLOC_CTX *frame = talloc_stackframe();
	bool denied = false;

	for (int i = 0; list && list[i] && !denied; i++) {
		const char *one[] = { list[i], NULL };

		denied = is_address(list[i]) ? from_address(conn, list[i]) :
					       user && user_in_list(frame, user, one);
	}
	TALLOC_FREE(frame);
	return denied;
}

void stubvfs_recall_who(const struct connection_struct *conn, const char *user,
			char who[STUB_WHO_MAX + 1])
{
	TALLOC_CTX *frame = talloc_stackframe();
	char *addr = NULL;

	if (conn->sconn->remote_address)
		addr = tsocket_address_inet_addr_string(conn->sconn->remote_address, frame);
	stub_who(who, user, conn->session_info ? conn->session_info->unix_token->uid : 0,
		 addr ? addr : "?");
	TALLOC_FREE(frame);
}
