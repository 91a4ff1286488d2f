// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * postcopy-smb-worker - one connection to an SMB server, for the retriever, which
 * starts it and speaks the protocol of smb_wire.h with it on descriptor 3.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "smb/smb_home.h"
#include "smb_worker/smb_worker.h"

/* Does the share still show its root, so that only the object asked for is gone? */
static bool root_there(struct worker *w)
{
	char why[sizeof(w->why)];
	struct stub_attr root;
	bool there;

	memcpy(why, w->why, sizeof(why));
	there = worker_getattr(w, w->root, &root) == 0 && root.fileid == w->root_fileid;
	if (there)
		memcpy(w->why, why, sizeof(why));
	return there;
}

static char *text(const struct smb_text *t)
{
	return strndup(t->p ? t->p : "", t->len);
}

static int send_attr(struct worker *w, enum smb_wire_type type, const struct stub_attr *a)
{
	smb_out_begin(&w->out, type);
	smb_out_attr(&w->out, a);
	return worker_send(w);
}

static int run(struct worker *w, const struct smb_request *r)
{
	char *path = text(&r->path), *name = text(&r->name);
	struct stub_attr attr;
	int e = -ENOMEM;

	if (path && name) {
		switch (r->type) {
		case SMB_WIRE_START:
			e = w->context ? WORKER_LOST : worker_meta_start(w, &r->start);
			if (e == 0)
				e = worker_connect(w, &r->start, &attr);
			if (e == 0)
				e = send_attr(w, SMB_WIRE_READY, &attr);
			break;
		case SMB_WIRE_GETATTR:
			e = worker_getattr(w, path, &attr);
			if (e == 0)
				e = send_attr(w, SMB_WIRE_ATTRS, &attr);
			break;
		case SMB_WIRE_GETMETA:
			e = worker_meta(w, path, r);
			break;
		case SMB_WIRE_LOOKUP:
			e = worker_lookup(w, path, name);
			break;
		case SMB_WIRE_LIST:
			e = worker_list(w, path);
			break;
		case SMB_WIRE_STREAM:
			e = worker_stream(w, path, name, r->offset, r->length);
			break;
		case SMB_WIRE_READ_:
			e = worker_read(w, path, r->offset, r->length);
			break;
		case SMB_WIRE_GETHOLES:
			e = worker_holes(w, path, r->offset);
			break;
		case SMB_WIRE_PUTMETA:
			e = worker_put(w, path, r);
			break;
		default:
			e = WORKER_LOST;
		}
	}
	free(path);
	free(name);
	return e;
}

/* Until there is a request; meanwhile no file is kept open for long. */
static void wait_request(struct worker *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	while (w->connected && worker_files_rest(w) && poll(&p, 1, WORKER_HANDLE_MS) == 0)
		;
}

/* What came of a request: its answer is sent already if @e is 0.  False: the worker ends. */
static bool over(struct worker *w, enum smb_wire_type type, int e)
{
	if (e == 0)
		return true;
	smb_out_fail(&w->out, e < 0, e < 0 ? e : -EIO, w->why);
	return worker_send(w) == 0 && e < 0 && type != SMB_WIRE_START;
}

/* Answer what is over of many: until there is a request, or all.  False: the worker ends. */
static bool answer_many(struct worker *w, bool until_request)
{
	struct many_one *o;
	bool good = true;

	while (good && (o = many_next(w->many, until_request))) {
		w->out.tag = o->tag;
		good = over(w, SMB_WIRE_GETMETA, worker_meta_of(w, o));
		many_free(o);
	}
	pulse_busy(many_busy(w->many));
	return good;
}

/* One of many, or alone.  False: the worker ends. */
static bool do_request(struct worker *w, uint32_t tag, const struct smb_request *r)
{
	int e;

	pulse_busy(true);
	if (r->type == SMB_WIRE_GETMETA && !r->alone && many_can(w->many) && !worker_files_due(w) &&
	    worker_meta_add(w, tag, r))
		return true;
	if (!answer_many(w, false))
		return false;
	worker_files_rest(w);
	pulse_busy(true);
	w->out.tag = tag;
	e = run(w, r);
	pulse_busy(false);
	return over(w, r->type, e);
}

/* One request.  False: the worker ends. */
static bool serve(struct worker *w)
{
	uint8_t header[SMB_WIRE_HEADER], *p;
	enum smb_wire_type type;
	struct smb_request r;
	uint32_t len, tag;
	bool good;
	int e;

	if (!answer_many(w, true))
		return false;
	if (!many_busy(w->many))
		wait_request(w);
	if (smb_wire_receive(w->fd, header, sizeof(header), UINT32_MAX, -1) < 0)
		return false;
	e = smb_wire_header(header, &type, &len, &tag);
	if (e < 0) {
		if (e == -EPROTO) { /* the header of our answer tells the retriever that, too */
			smb_out_fail(&w->out, false, e, "");
			worker_send(w);
		}
		return false;
	}
	p = malloc(len + 1);
	if (!p || smb_wire_receive(w->fd, p, len, UINT32_MAX, -1) < 0 ||
	    smb_wire_request(type, p, len, &r) < 0 || (!w->context && type != SMB_WIRE_START)) {
		free(p);
		return false;
	}
	good = do_request(w, tag, &r);
	explicit_bzero(p, len); /* START has the password */
	free(p);
	return good;
}

int main(int argc, char **argv)
{
	static struct worker w = { .fd = SMB_WIRE_FD, .root_there = root_there };

	if (argc != 2 || isatty(SMB_WIRE_FD)) {
		fputs("postcopy-smb-worker: is started by postcopy-retriever\n", stderr);
		return 2;
	}
	w.home = argv[1];
	if (smb_home_hold(w.home) < 0) /* held until the process ends */
		return 1;
	prctl(PR_SET_DUMPABLE, 0); /* no password in a core */
	setlocale(LC_ALL, "C.UTF-8"); /* names are UTF-8, whatever the administrator's terminal */
	/* what Samba prints must go to the log, whatever our standard output is */
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !(w.many = many_create(&w, w.fd)) ||
	    pulse_start(&w) < 0)
		return 1;
	while (serve(&w))
		;
	worker_leave(&w);
}
