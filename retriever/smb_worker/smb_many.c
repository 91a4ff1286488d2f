// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_many.c - several objects at a time: see smb_many.h.
 *
 * Of each object all is asked in one message (smb_compound.c).  If a server does not do that, or there are few
 * credits, one step after the other:
 *
 *   CREATE                          without auditing entries, if we have no right to these
 *   descriptor, streams, READ       at once
 *   FileAllInformation              after the READ: it shows what was written before that, or
 *                                   meanwhile.  Without a READ with the others
 *   extended attributes             if it has some
 *   CLOSE                           nobody waits for it
 *
 * Whose access time we have changed by reading is told by the answer to CREATE as it was before.
 *
 * A request costs a credit, and one that is sent without fails.  So who has none waits in a line,
 * until an answer brings some.  No request is ever given up: libsmb gives up a connection on which an
 * answer comes that no request waits for.
 */
#include "includes.h"
#include "libsmb/libsmb.h"
#include "libsmb_internal.h"
#include "../libcli/smb/smbXcli_base.h"
#include "libsmb/cli_smb2_fnum.h"

#undef free /* Samba's headers forbid it */
#undef calloc

#include "smb_worker/smb_compat.h"
#include "smb_worker/smb_compound.h"
#include "smb_worker/smb_exact_internal.h"
#include "smb_worker/smb_failed.h"
#include "smb_worker/smb_many.h"

#define ANSWER	    65536u /* bytes of an answer: one credit.  What is longer is asked for alone */
#define SURE_BROKEN 3 /* compounds in a row of which a part failed, and none was ever good */
#define SURE_DENIED 3 /* so often in a row auditing entries were denied, and all else was not */

typedef void (*step_fn)(struct many_one *o);

struct many_inside {
	struct many *m;
	struct asking k;
	struct smb_create_returns created;
	bool sacl; /* asked for */
	bool alone; /* something was not plain */
	bool steps; /* instead of a compound */
	bool closed; /* by its compound */
	struct compound all;
	uint64_t accessed; /* before our first READ; 0: not known */
	unsigned int pending; /* requests of this object without an answer */
	uint8_t *bytes;
	ssize_t got;
	/* in the line */
	struct many_one *next;
	unsigned int credits;
	step_fn step;
};

struct many {
	struct worker *w;
	struct cli_state *cli;
	struct tevent_context *ev;
	struct tevent_fd *requests;
	bool readable;
	unsigned int under; /* objects, and CLOSEs */
	unsigned int pending; /* requests without an answer */
	struct many_one *ready, **ready_end, *alone, **alone_end, *line, **line_end;
	/* of compounds */
	bool compounds_work, compounds_fail;
	unsigned int broken;
	/* of auditing entries */
	bool sacl_works, sacl_denied;
	unsigned int denied;
};

static void on_request(struct tevent_context *ev, struct tevent_fd *fde, uint16_t flags, void *arg)
{
	struct many *m = arg;

	m->readable = true;
}

struct many *many_create(struct worker *w, int requests)
{
	struct many *m = talloc_zero(NULL, struct many);

	if (!m)
		return NULL;
	m->w = w;
	m->ready_end = &m->ready;
	m->alone_end = &m->alone;
	m->line_end = &m->line;
	m->ev = tevent_context_init(m);
	m->requests = m->ev ? tevent_add_fd(m->ev, m, requests, 0, on_request, m) : NULL;
	if (!m->requests)
		TALLOC_FREE(m);
	return m;
}

bool many_can(struct many *m)
{
	SMBCCTX *c = worker_context(m->w);

	m->cli = c->internal->servers ? c->internal->servers->cli : NULL;
	return m->cli && smbXcli_conn_is_connected(m->cli->conn) &&
	       smbXcli_conn_protocol(m->cli->conn) >= PROTOCOL_SMB2_02 &&
	       !smbXcli_tcon_is_dfs_share(m->cli->smb2.tcon);
}

bool many_busy(const struct many *m)
{
	return m->under || m->ready || m->alone;
}

void many_free(struct many_one *o)
{
	exact_about_free(&o->about);
	TALLOC_FREE(o->inside);
	free(o->path);
	free(o);
}

/* ---- requests ---- */

static void over(struct many_one *o)
{
	struct many *m = o->inside->m;

	m->under--;
	o->next = NULL;
	if (o->inside->alone) {
		o->result = -EAGAIN;
		*m->alone_end = o;
		m->alone_end = &o->next;
	} else {
		*m->ready_end = o;
		m->ready_end = &o->next;
	}
}

static void open_it(struct many_one *o);

static unsigned int credits(const struct many *m)
{
	return smb2cli_conn_get_cur_credits(m->cli->conn);
}

/* Those in the line, as far as there are credits. */
static void go_on(struct many *m)
{
	struct many_one *o;

	while ((o = m->line)) {
		struct many_inside *i = o->inside;

		if (i->credits > credits(m)) {
			if (m->pending)
				return; /* an answer will bring some */
			/* nothing will: what is in the line goes in steps, or alone */
			i->alone = i->step != open_it || !credits(m);
		}
		m->line = i->next;
		if (!m->line)
			m->line_end = &m->line;
		if (i->alone)
			over(o);
		else
			i->step(o);
	}
}

/* Do @step, which sends requests of @credits, when it is its turn. */
static void in_turn(struct many_one *o, unsigned int needed, step_fn step)
{
	struct many_inside *i = o->inside;

	i->credits = needed;
	i->step = step;
	i->next = NULL;
	*i->m->line_end = o;
	i->m->line_end = &i->next;
}

/* False: it could not be sent. */
static bool sent(struct many_one *o, struct tevent_req *req, tevent_req_fn on_answer)
{
	if (!req) {
		o->inside->alone = true;
		return false;
	}
	o->inside->pending++;
	o->inside->m->pending++;
	tevent_req_set_callback(req, on_answer, o);
	return true;
}

static struct many_one *answered(struct tevent_req *req)
{
	struct many_one *o = tevent_req_callback_data_void(req);

	o->inside->pending--;
	o->inside->m->pending--;
	return o;
}

/* ---- CLOSE ---- */

static void on_closed(struct tevent_req *req)
{
	struct many *m = tevent_req_callback_data(req, struct many);

	cli_close_recv(req);
	TALLOC_FREE(req);
	m->pending--;
	m->under--;
}

/* Without a wait for credits: one is always left over, from what has just been answered. */
static void close_it(struct many_one *o)
{
	struct many_inside *i = o->inside;
	struct many *m = i->m;
	struct tevent_req *req = compat_close_send(m, m->ev, m->cli, i->k.file);

	if (!req)
		return; /* no memory: it stays open as long as the connection */
	m->pending++;
	m->under++;
	tevent_req_set_callback(req, on_closed, m);
}

static void ended(struct many_one *o)
{
	if (!o->inside->closed)
		close_it(o);
	over(o);
}

/* ---- what came ---- */

/* The READ's bytes are all that are wanted, and of the version that is told: no longer, no shorter, not written
 * since it was opened. */
static bool is_version(const struct many_one *o)
{
	const struct many_inside *i = o->inside;
	const struct exact_about *about = i->k.out;

	return i->bytes && i->got == (ssize_t)o->want && (uint64_t)i->got == about->info.size &&
	       !about->info.dir && i->created.end_of_file == about->info.size &&
	       i->created.last_write_time == about->in.write_time;
}

static void take_apart(struct many_one *o)
{
	struct many_inside *i = o->inside;
	bool by_path = false;
	int r = i->alone ? -EAGAIN : about_descriptor(&i->k);

	if (r == 0)
		r = about_streams(&i->k, &by_path);
	if (r == 0 && NT_STATUS_IS_OK(i->k.answers[Q_EAS].status))
		r = about_eas(&i->k);
	if (r == 0 && o->want) {
		if (is_version(o))
			o->data = (const char *)i->bytes;
		if (i->accessed) {
			o->about.in.access_time = i->accessed;
			o->about.info.atime = exact_time_of(i->accessed);
		}
	}
	i->alone = r == -EAGAIN;
	o->result = r;
	ended(o);
}

static void on_eas(struct tevent_req *req)
{
	struct many_one *o = answered(req);
	struct about_answer *a = &o->inside->k.answers[Q_EAS];

	a->status = cli_smb2_query_info_fnum_recv(req, o->about.memory, &a->b);
	TALLOC_FREE(req);
	if (!NT_STATUS_IS_OK(a->status))
		o->inside->alone = true;
	take_apart(o);
}

static void ask_eas(struct many_one *o)
{
	struct many_inside *i = o->inside;

	if (!sent(o,
		  cli_smb2_query_info_fnum_send(i, i->m->ev, i->m->cli, i->k.file, INFO_FILE, CLASS_EA,
						ANSWER, NULL, 0, 0),
		  on_eas))
		ended(o);
}

/* FileAllInformation is here, and all that was asked before. */
static void know_all(struct many_one *o)
{
	struct many_inside *i = o->inside;
	bool eas = false;

	if (!i->alone && about_all(&i->k, &eas) != 0)
		i->alone = true;
	i->k.answers[Q_EAS].status = NT_STATUS_NO_EAS_ON_FILE;
	if (eas && !i->alone)
		in_turn(o, 1, ask_eas);
	else
		take_apart(o);
}

static void on_all(struct tevent_req *req)
{
	struct many_one *o = answered(req);
	struct about_answer *a = &o->inside->k.answers[Q_ALL];

	a->status = cli_smb2_query_info_fnum_recv(req, o->about.memory, &a->b);
	TALLOC_FREE(req);
	know_all(o);
}

static struct tevent_req *send_all(struct many_inside *i)
{
	return cli_smb2_query_info_fnum_send(i, i->m->ev, i->m->cli, i->k.file, INFO_FILE, CLASS_ALL,
					     ANSWER, NULL, 0, 0);
}

static void ask_all(struct many_one *o)
{
	if (!sent(o, send_all(o->inside), on_all))
		ended(o);
}

/* ---- descriptor, streams, READ ---- */

static void all_here(struct many_one *o)
{
	struct many_inside *i = o->inside;

	if (i->pending)
		return;
	if (i->alone)
		ended(o);
	else if (o->want)
		in_turn(o, 1, ask_all);
	else
		know_all(o);
}

static void on_info(struct tevent_req *req, unsigned int which)
{
	struct many_one *o = answered(req);
	struct about_answer *a = &o->inside->k.answers[which];

	a->status = cli_smb2_query_info_fnum_recv(req, o->about.memory, &a->b);
	TALLOC_FREE(req);
	all_here(o);
}

static void on_security(struct tevent_req *req)
{
	on_info(req, Q_SECURITY);
}

static void on_streams(struct tevent_req *req)
{
	on_info(req, Q_STREAMS);
}

static void on_all_at_once(struct tevent_req *req)
{
	on_info(req, Q_ALL);
}

static void on_read(struct tevent_req *req)
{
	struct many_one *o = answered(req);
	struct many_inside *i = o->inside;
	uint8_t *bytes;
	ssize_t got;

	/* that it cannot be read is said when it is read alone */
	if (NT_STATUS_IS_OK(cli_smb2_read_recv(req, &got, &bytes)) && got > 0) {
		i->bytes = talloc_memdup(o->about.memory, bytes, (size_t)got);
		i->got = got;
	}
	TALLOC_FREE(req);
	all_here(o);
}

static uint32_t parts(const struct many_inside *i)
{
	return SECINFO_OWNER | SECINFO_GROUP | SECINFO_DACL | (i->sacl ? SECINFO_SACL : 0);
}

static void ask_at_once(struct many_one *o)
{
	struct many_inside *i = o->inside;
	struct many *m = i->m;
	bool ok = sent(o,
		       cli_smb2_query_info_fnum_send(i, m->ev, m->cli, i->k.file, INFO_SECURITY, 0,
						     ANSWER, NULL, parts(i), 0),
		       on_security);

	ok = ok && sent(o,
			cli_smb2_query_info_fnum_send(i, m->ev, m->cli, i->k.file, INFO_FILE,
						      CLASS_STREAMS, ANSWER, NULL, 0, 0),
			on_streams);
	if (ok && o->want)
		sent(o, cli_smb2_read_send(i, m->ev, m->cli, i->k.file, 0, o->want), on_read);
	else if (ok)
		sent(o, send_all(i), on_all_at_once);
	all_here(o);
}

/* ---- CREATE ---- */

static void open_in_turn(struct many_one *o);

static bool is_denied(NTSTATUS status)
{
	return NT_STATUS_EQUAL(status, NT_STATUS_PRIVILEGE_NOT_HELD) ||
	       NT_STATUS_EQUAL(status, NT_STATUS_ACCESS_DENIED);
}

/* Learn whether this session may see auditing entries, which is a privilege of the account's. */
static void learn(struct many_inside *i)
{
	struct many *m = i->m;

	if (i->sacl) {
		m->sacl_works = true;
		m->sacl_denied = false;
	} else if (!m->sacl_denied && !m->sacl_works && ++m->denied >= SURE_DENIED) {
		m->sacl_denied = true;
	}
}

/* It could not be opened. */
static void not_opened(struct many_one *o, NTSTATUS status)
{
	struct many_inside *i = o->inside;

	if (i->sacl && is_denied(status)) {
		i->sacl = false;
		o->about.no_sacl = true;
		open_in_turn(o);
	} else {
		i->alone = true;
		over(o);
	}
}

static void on_opened(struct tevent_req *req)
{
	struct many_one *o = answered(req);
	NTSTATUS status = cli_ntcreate_recv(req, &o->inside->k.file, &o->inside->created);

	TALLOC_FREE(req);
	if (NT_STATUS_IS_OK(status)) {
		if (!o->inside->steps) /* else its compound has taught it */
			learn(o->inside);
		if (!o->inside->accessed)
			o->inside->accessed = o->inside->created.last_access_time;
		in_turn(o, 3, ask_at_once);
	} else {
		not_opened(o, status);
	}
}

/* ---- all in one ---- */

/* All of it?  What failed may be no answer, but a server that does not do compounds; in steps, "not supported" is
 * one. */
static bool is_answered(const struct many_one *o)
{
	const struct many_inside *i = o->inside;

	for (unsigned int q = 0; q < Q_AT_ONCE; q++)
		if (!NT_STATUS_IS_OK(i->k.answers[q].status))
			return false;
	return !o->want || NT_STATUS_IS_OK(i->all.read);
}

static void learn_compounds(struct many *m, bool good)
{
	m->compounds_work |= good;
	m->broken = good ? 0 : m->broken + 1;
	if (!m->compounds_work && m->broken >= SURE_BROKEN)
		m->compounds_fail = true;
}

static void on_compound(struct tevent_req *req)
{
	struct many_one *o = answered(req);
	struct many_inside *i = o->inside;
	struct compound *all = &i->all;
	bool eas = false;

	compound_recv(req);
	TALLOC_FREE(req);
	if (!NT_STATUS_IS_OK(all->opened)) {
		not_opened(o, all->opened);
		return;
	}
	learn(i);
	i->accessed = all->accessed;
	i->steps = !is_answered(o);
	learn_compounds(i->m, !i->steps);
	if (!i->steps)
		i->alone = about_all(&i->k, &eas) != 0;
	if (i->steps || eas) { /* attributes are another question, of what is closed now */
		i->steps = true;
		open_in_turn(o);
		return;
	}
	if (o->want) {
		i->bytes = all->bytes.data;
		i->got = (ssize_t)all->bytes.length;
		i->created.last_write_time = all->written;
		i->created.end_of_file = all->size;
	}
	i->k.answers[Q_EAS].status = NT_STATUS_NO_EAS_ON_FILE;
	i->closed = true;
	take_apart(o);
}

static bool in_steps(const struct many_one *o)
{
	return o->inside->steps || o->inside->m->compounds_fail;
}

static bool compounds(const struct many_one *o)
{
	return !in_steps(o) && credits(o->inside->m) >= compound_credits(&o->inside->all);
}

static struct tevent_req *send_compound(struct many_one *o, uint32_t access)
{
	struct many_inside *i = o->inside;

	i->all.cli = i->m->cli;
	i->all.there = i->k.there;
	i->all.access = access;
	i->all.options = FILE_OPEN_FOR_BACKUP_INTENT;
	i->all.parts = parts(i);
	i->all.most = ANSWER;
	i->all.memory = o->about.memory;
	i->all.answers = i->k.answers;
	return compound_send(i, i->m->ev, &i->all);
}

/* With backup intent: an account with the right to make backups may read what it is denied. */
static void open_it(struct many_one *o)
{
	struct many_inside *i = o->inside;
	const uint32_t access = ABOUT_LOOK | (o->want ? SEC_FILE_READ_DATA : 0) |
				(i->sacl ? SEC_FLAG_SYSTEM_SECURITY : 0);
	bool ok;

	if (compounds(o))
		ok = sent(o, send_compound(o, access), on_compound);
	else
		ok = sent(o,
			  cli_ntcreate_send(i, i->m->ev, i->m->cli, i->k.there, 0, access, 0, SHARE_ALL,
					    FILE_OPEN, FILE_OPEN_FOR_BACKUP_INTENT, 0, 0),
			  on_opened);
	if (!ok)
		over(o);
}

static void open_in_turn(struct many_one *o)
{
	struct many_inside *i = o->inside;

	i->all.want = o->want;
	in_turn(o, in_steps(o) ? 1 : compound_credits(&i->all), open_it);
}

void many_add(struct many *m, struct many_one *o)
{
	struct many_inside *i = talloc_zero(NULL, struct many_inside);
	struct cli_state *cli;
	TALLOC_CTX *frame;

	memset(&o->about, 0, sizeof(o->about));
	o->about.memory = talloc_new(NULL);
	o->data = NULL;
	o->result = 0;
	o->inside = i;
	if (!i || !o->about.memory) { /* told at once */
		o->result = -ENOMEM;
		o->next = NULL;
		*m->ready_end = o;
		m->ready_end = &o->next;
		return;
	}
	m->under++;
	i->m = m;
	i->sacl = !m->sacl_denied;
	o->about.no_sacl = !i->sacl;
	i->k = (struct asking){ .w = m->w, .path = o->path, .stream_max = o->stream_max,
				.out = &o->about, .plain = true };
	frame = talloc_stackframe();
	if (NT_STATUS_IS_OK(exact_resolve(m->w, o->about.memory, o->path, "", &cli, &i->k.there))) {
		i->k.cli = cli;
		open_in_turn(o);
	} else {
		i->alone = true;
		over(o);
	}
	TALLOC_FREE(frame);
}

static struct many_one *take(struct many_one **head, struct many_one ***end)
{
	struct many_one *o = *head;

	if (o) {
		*head = o->next;
		if (!*head)
			*end = head;
	}
	return o;
}

struct many_one *many_next(struct many *m, bool until_request)
{
	/* who is asked alone is not to wait for others for ever */
	tevent_fd_set_flags(m->requests, until_request && !m->alone ? TEVENT_FD_READ : 0);
	m->readable = false;
	for (;;) {
		TALLOC_CTX *frame = talloc_stackframe();
		int r = 0;

		go_on(m);
		if (m->alone)
			tevent_fd_set_flags(m->requests, 0);
		if (!m->ready && m->under && !(m->readable && !m->alone))
			r = tevent_loop_once(m->ev);
		TALLOC_FREE(frame);
		if (m->ready)
			return take(&m->ready, &m->ready_end);
		if (!m->under)
			return take(&m->alone, &m->alone_end);
		if (r != 0 || (m->readable && !m->alone))
			return NULL;
	}
}
