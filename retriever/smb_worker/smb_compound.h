/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smb_compound.h - all questions about an object in one message: see smb_compound.c.  After Samba's headers. */
#ifndef SMB_COMPOUND_H
#define SMB_COMPOUND_H

#include "smb_worker/smb_exact_internal.h"

struct compound {
	/* what is asked; the texts stay the caller's until it is sent */
	struct cli_state *cli;
	const char *there; /* with backslashes */
	uint32_t access, options; /* of the CREATE */
	uint32_t parts; /* of the descriptor */
	uint32_t want; /* bytes to be read, up to SMB_WIRE_SMALL; 0: none */
	uint32_t most; /* bytes of an answer */
	TALLOC_CTX *memory; /* for what is answered: */
	NTSTATUS opened; /* the CREATE's; of its answer these are all that count */
	uint64_t accessed, written, size;
	struct about_answer *answers; /* QUESTIONS of them: all but Q_EAS are set */
	NTSTATUS read;
	DATA_BLOB bytes;
};

/* So many credits, and answers. */
unsigned int compound_credits(const struct compound *c);
/* NULL: no memory, or it cannot be sent; @c belongs to the request until compound_recv(). */
struct tevent_req *compound_send(TALLOC_CTX *mem, struct tevent_context *ev, struct compound *c);
void compound_recv(struct tevent_req *req);

#endif
