/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "control.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "aside.h"
#include "commands.h"
#include "desk.h"
#include "express.h"
#include "paused.h"
#include "rounds.h"
#include "share.h"
#include "verify.h"
#include "walk.h"

#define PARKED_TOLD  100
#define BEHIND_S     5 /* what is owed for less, is followed */
#define SYNC_S	     60
#define SYNC_LOOK_MS 50
#define AGAIN_AT_ONCE 512

struct control {
	struct mirror *m;
	struct replicator *r;
	struct commands *commands;
	pthread_mutex_t lock; /* of pause and resume */
};

/* All that status and drained look at. */
struct seen {
	struct desk_counts desk;
	struct source_state target;
	uint64_t owed, aside, lag_s;
	bool unknown, frozen, flies, aside_known;
};

static int look(struct mirror *m, struct seen *s)
{
	uint64_t now, behind;
	int r;

	/* what is in flight first: it is owed when it lands, and nothing begins while it is frozen */
	s->frozen = stub_ledger_frozen(m->volume);
	s->flies = stub_ledger_flies(m->ledger, NULL);
	/* then what is aside: whoever adds to it later is still owed */
	s->aside = aside_count(m->aside, &s->aside_known);
	desk_counts(m->desk, &s->desk);
	r = stub_ledger_count(m->ledger, &s->owed);
	s->unknown = stub_ledger_unknown(m->ledger) != 0;
	share_state(m, &s->target);
	behind = atomic_load(&m->behind_ms);
	now = stub_now_ms();
	s->lag_s = s->desk.oldest_ms;
	if (behind && now - behind > s->lag_s)
		s->lag_s = now - behind;
	s->lag_s /= 1000;
	return r;
}

static const char *state_name(struct mirror *m, const struct seen *s)
{
	if (s->frozen)
		return "frozen";
	if (!s->target.connected || m->root_wrong)
		return "gone";
	if (s->desk.of[DESK_FULL])
		return "full";
	if (s->unknown || walker_walks(m->walker))
		return "walking";
	return s->owed && s->lag_s >= BEHIND_S ? "catching-up" : "following";
}

/* Bytes that nobody has checked, as JSON can have them. */
static void add_bytes(struct json_object *o, const char *key, const char *bytes)
{
	char text[4 * 4400 + 1];

	stub_printable(bytes, strlen(bytes), text, sizeof(text));
	add_s(o, key, text);
}

static void add_parked(struct mirror *m, struct json_object *o)
{
	struct desk_parked *p = calloc(PARKED_TOLD, sizeof(*p));
	struct json_object *list = json_object_new_array();
	uint64_t total = 0;
	size_t n = p ? desk_list(m->desk, p, PARKED_TOLD, &total) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *one = json_object_new_object();

		add_bytes(one, "path", p[i].path);
		add_s(one, "what", p[i].what);
		add_u(one, "error", (uint64_t)-p[i].error);
		add_s(one, "text", strerror(-p[i].error));
		json_object_array_add(list, one);
	}
	desk_free_parked(p, n);
	free(p);
	json_object_object_add(o, "parked", list);
	add_u(o, "parked_count", total);
}

#define ROOT_WRONG \
	"its root is another directory than before: is its disk mounted, and is it exported as it was?"

static void add_target(struct mirror *m, const struct source_state *s, struct json_object *o)
{
	struct json_object *in = json_object_new_object();

	add_b(in, "connected", s->connected);
	add_f(in, "lost_seconds",
	      s->lost_since_ms ? (double)(stub_now_ms() - s->lost_since_ms) / 1000 : 0);
	add_s(in, "trouble", m->root_wrong ? ROOT_WRONG : s->trouble);
	json_object_object_add(o, "target", in);
}

/* What NFSv3 cannot say: SMB clients have set it here. */
static void add_not_mirrored(struct mirror *m, struct json_object *o)
{
	static const char *const what[] = { "extended attributes", "streams", "security descriptors of Windows",
					    "DOS attributes", "creation times" };
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]) && !m->share; i++)
		json_object_array_add(list, json_object_new_string(what[i]));
	json_object_object_add(o, "not_mirrored", list);
}

/* Objects that SMB cannot name do not get it. */
static void add_share(struct mirror *m, struct json_object *o)
{
	struct share_counts n = { .left_out = 0 };

	if (m->share)
		share_counts(m->share, &n);
	add_s(o, "smb", m->conf.smb);
	add_u(o, "smb_left_out_total", n.left_out);
	add_bytes(o, "smb_left_out", n.path);
}

static struct json_object *cmd_status(struct control *c, struct json_object *in)
{
	struct mirror *m = c->m;
	struct stub_mirror_conf conf;
	struct json_object *o;
	uint64_t waiting;
	struct seen s;
	int r = look(m, &s);

	if (r == 0) /* mode may be another one than when it was opened */
		r = stub_mirror_conf_read(m->volume, &conf);
	if (r < 0)
		return answer_error("the ledger, or the configuration of the mirror, cannot be read");
	o = answer_ok();
	add_s(o, "state", state_name(m, &s));
	add_b(o, "paused", atomic_load(&m->paused));
	add_s(o, "kind", stub_mirror_kind_word(m->conf.kind));
	add_s(o, "mode", stub_mirror_mode_word(conf.mode));
	add_s(o, "gone", stub_mirror_gone_word(conf.gone));
	add_b(o, "awaited", conf.mode != STUB_MIRROR_ASYNC && express_follows(m->express));
	add_u(o, "lag_bound_seconds", conf.lag_s);
	add_u(o, "delay_us", express_delay(m->express));
	add_s(o, "uri", m->conf.uri);
	add_u(o, "owed", s.owed);
	add_b(o, "unknown", s.unknown);
	add_u(o, "aside", s.aside);
	add_parked(m, o);
	waiting = atomic_load(&m->waiting); /* of those that the desk has no room for */
	add_u(o, "waiting_for_fill", waiting > s.desk.of[DESK_WAITS] ? waiting : s.desk.of[DESK_WAITS]);
	add_u(o, "objects_total", atomic_load(&m->objects));
	add_u(o, "bytes_total", atomic_load(&m->bytes));
	add_u(o, "foreign_total", atomic_load(&m->foreign));
	add_u(o, "lag_seconds", s.owed ? s.lag_s : 0);
	add_not_mirrored(m, o);
	add_share(m, o);
	add_target(m, &s.target, o);
	return o;
}

static bool drained(struct mirror *m, const struct seen *s)
{
	return !s->flies && !s->owed && !s->unknown && !walker_walks(m->walker) && s->aside_known && !s->aside &&
	       !s->desk.of[DESK_PARKED];
}

static struct json_object *cmd_drained(struct control *c, struct json_object *in)
{
	struct json_object *o;
	struct seen s;
	int r = look(c->m, &s);

	if (r < 0)
		return answer_error("the ledger cannot be read");
	o = answer_ok();
	add_b(o, "drained", drained(c->m, &s));
	return o;
}

static struct json_object *cmd_retry(struct control *c, struct json_object *in)
{
	desk_again(c->m->desk);
	replicator_wake(c->r);
	return answer_ok();
}

static struct json_object *set_paused(struct control *c, bool paused)
{
	struct json_object *o;
	int r;

	pthread_mutex_lock(&c->lock);
	atomic_store(&c->m->paused, paused);
	r = paused_store(c->m->volume, paused);
	pthread_mutex_unlock(&c->lock);
	replicator_wake(c->r);
	o = r == 0 ? answer_ok() : answer_error("done, but a restart will undo it: it cannot be stored");
	return o;
}

static struct json_object *cmd_pause(struct control *c, struct json_object *in)
{
	return set_paused(c, true);
}

static struct json_object *cmd_resume(struct control *c, struct json_object *in)
{
	return set_paused(c, false);
}

static struct json_object *set_frozen(struct control *c, enum stub_frozen how)
{
	int r;

	if (stub_ledger_frozen(c->m->volume) == STUB_FROZEN_FOR_GOOD)
		return answer_error("the volume was rolled back");
	r = stub_ledger_freeze(c->m->volume, how);
	return r < 0 ? answer_error(strerror(-r)) : answer_ok();
}

static struct json_object *cmd_freeze(struct control *c, struct json_object *in)
{
	return set_frozen(c, STUB_FROZEN);
}

static struct json_object *cmd_thaw(struct control *c, struct json_object *in)
{
	return set_frozen(c, STUB_THAWED);
}

static struct json_object *cmd_leave(struct control *c, struct json_object *in)
{
	struct source_state s;
	int r;

	share_state(c->m, &s);
	r = s.connected ? aside_leave(c->m->aside) : -ENOMEDIUM;
	return r == 0		? answer_ok() :
	       r == -ENOTEMPTY	? answer_error("something is still held aside over there") :
	       r == -ENOMEDIUM	? answer_error("the mirror is away") :
				  answer_error(strerror(-r));
}

static struct json_object *cmd_walk(struct control *c, struct json_object *in)
{
	walker_all(c->m->walker);
	return answer_ok();
}

static struct json_object *cmd_verify(struct control *c, struct json_object *in)
{
	struct json_object *x;
	bool repairs = json_object_object_get_ex(in, "repair", &x) && json_object_get_boolean(x);
	int r;

	if (stub_ledger_unknown(c->m->ledger) || walker_walks(c->m->walker))
		return answer_error("everything is being compared, and made equal, just now");
	r = verifier_start(c->m->verifier, repairs);
	return r == 0 ? answer_ok() : answer_error(r == -EBUSY ? "one runs already" : strerror(-r));
}

static void add_differences(struct json_object *o, const struct verify_difference *d, unsigned int n)
{
	struct json_object *list = json_object_new_array();

	for (unsigned int i = 0; i < n; i++) {
		struct json_object *one = json_object_new_object();

		add_bytes(one, "path", d[i].path);
		add_s(one, "what", d[i].what);
		json_object_array_add(list, one);
	}
	json_object_object_add(o, "differences", list);
}

static struct json_object *cmd_verified(struct control *c, struct json_object *in)
{
	static const char *const words[] = { "never", "running", "done", "stopped", "failed" };
	struct verify_difference *d = malloc(VERIFY_TOLD * sizeof(*d));
	struct json_object *o = answer_ok();
	struct verify_report r;
	unsigned int n = verifier_report(c->m->verifier, &r, d);

	add_s(o, "verify", words[r.state]);
	if (r.state == VERIFY_FAILED)
		add_s(o, "reason", strerror(-r.error));
	add_f(o, "seconds", (double)r.ms / 1000);
	add_u(o, "objects", r.objects);
	add_u(o, "bytes", r.bytes);
	add_u(o, "waiting", r.waiting);
	add_u(o, "owed", r.owed);
	add_u(o, "different", r.different);
	add_b(o, "repairs", r.repairs);
	add_differences(o, d, d ? n : 0);
	free(d);
	return o;
}

static struct json_object *cmd_verify_stop(struct control *c, struct json_object *in)
{
	verifier_stop(c->m->verifier);
	return answer_ok();
}

static struct json_object *not_a_way_back(void)
{
	return answer_error("the mirror is no way back");
}

static struct json_object *cmd_again(struct control *c, struct json_object *in)
{
	struct stub_owed *o = malloc(AGAIN_AT_ONCE * sizeof(*o));
	struct stub_handle last;
	struct json_object *answer;
	uint64_t all = 0;
	int n = o ? 1 : -ENOMEM, r = 0;

	if (c->m->conf.kind != STUB_MIRROR_WAY_BACK) {
		free(o);
		return not_a_way_back();
	}
	while (n > 0 && r == 0) {
		n = stub_ledger_struck(c->m->ledger, all ? &last : NULL, o, AGAIN_AT_ONCE);
		if (n > 0) {
			last = o[n - 1].h;
			all += (uint64_t)n;
			r = mirror_owe(c->m, NULL, o, (size_t)n);
		}
	}
	free(o);
	if (n < 0 || r < 0)
		return answer_error("the ledger cannot be read or written");
	replicator_wake(c->r);
	answer = answer_ok();
	add_u(answer, "objects", all);
	return answer;
}

static struct json_object *cmd_over(struct control *c, struct json_object *in)
{
	struct json_object *o;
	struct seen s;

	if (c->m->conf.kind != STUB_MIRROR_WAY_BACK)
		return not_a_way_back();
	if (look(c->m, &s) < 0)
		return answer_error("the ledger cannot be read");
	if (!s.frozen)
		return answer_error("the volume is not frozen");
	if (!drained(c->m, &s))
		return answer_error("not all has been carried over");
	o = set_frozen(c, STUB_FROZEN_FOR_GOOD);
	if (stub_ledger_frozen(c->m->volume) == STUB_FROZEN_FOR_GOOD)
		kill(getpid(), SIGTERM);
	return o;
}

/* Has the round come to its end in time?  While the ledger does not know what is owed, all of it is. */
static bool wait_round(struct control *c, struct round *round, uint64_t until)
{
	static const struct timespec look_again = { 0, SYNC_LOOK_MS * 1000000L };

	while (!atomic_load(&c->m->stopping) && stub_now_ms() < until) {
		if (!stub_ledger_unknown(c->m->ledger) && !walker_walks(c->m->walker) &&
		    round_over(c->m, round))
			return true;
		nanosleep(&look_again, NULL);
	}
	return false;
}

static struct json_object *cmd_sync(struct control *c, struct json_object *in)
{
	struct json_object *x, *o;
	struct round *round;
	int64_t seconds = SYNC_S;
	bool synced;
	int r;

	if (json_object_object_get_ex(in, "timeout_s", &x)) {
		seconds = json_object_get_int64(x);
		if (!json_object_is_type(x, json_type_int) || seconds < 0 || seconds > 86400)
			return answer_error("timeout_s: a number of seconds, at most 86400");
	}
	r = round_begin(c->m, false, &round);
	if (r < 0)
		return answer_error("the ledger cannot be read");
	replicator_wake(c->r);
	synced = wait_round(c, round, stub_now_ms() + (uint64_t)seconds * 1000);
	round_end(c->m, round);
	o = answer_ok();
	add_b(o, "synced", synced);
	return o;
}

static struct json_object *cmd_stop(struct control *c, struct json_object *in)
{
	kill(getpid(), SIGTERM);
	return answer_ok();
}

static const struct {
	const char *name;
	struct json_object *(*fn)(struct control *c, struct json_object *in);
} commands[] = {
	{ "status", cmd_status }, { "drained", cmd_drained }, { "sync", cmd_sync },
	{ "retry", cmd_retry },	  { "pause", cmd_pause },     { "resume", cmd_resume },
	{ "freeze", cmd_freeze }, { "thaw", cmd_thaw },	      { "walk", cmd_walk },
	{ "leave", cmd_leave },	  { "stop", cmd_stop },     { "again", cmd_again },
	{ "over", cmd_over },	  { "verify", cmd_verify },   { "verified", cmd_verified },
	{ "verify-stop", cmd_verify_stop },
};

static struct json_object *run_command(void *arg, const char *name, struct json_object *in)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].fn(arg, in);
	return NULL;
}

int control_create(struct mirror *m, struct replicator *r, struct control **out)
{
	struct control *c = calloc(1, sizeof(*c));
	char path[STUB_PATH_MAX + 1];
	int e;

	if (!c)
		return -ENOMEM;
	c->m = m;
	c->r = r;
	pthread_mutex_init(&c->lock, NULL);
	/* the ledger is ours, so nobody else can be listening there */
	e = stub_mirror_control(stub_volume_info(m->volume), path);
	if (e == 0)
		e = commands_create(path, run_command, c, &c->commands);
	if (e < 0) {
		free(c);
		return e;
	}
	*out = c;
	return 0;
}

void control_destroy(struct control *c)
{
	if (!c)
		return;
	commands_destroy(c->commands);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
