/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "again.h"
#include "answer.h"
#include "commands.h"
#include "config_json.h"
#include "control.h"
#include "jobs/latency.h"
#include "resolve.h"
#include "source/called.h"
#include "source/trace.h"
#include "source/uri.h"
#include "watch.h"

struct control {
	struct control_config c;
	struct watch *watch;
	struct commands *commands;
	pthread_mutex_t settings_lock;
};

/* ---- commands ---- */

static const char *state_name(struct control *c, const struct jobs_stats *s,
			      const struct source_state *src, enum final_state last,
			      const struct stub_journal_counts *n)
{
	if (stub_volume_complete(c->c.volume))
		return "complete";
	if (last == FINAL_FOUND)
		return "blocked";
	if (last != FINAL_DUE)
		return "checking";
	if (s->paused)
		return "paused";
	if (!src->connected || s->source_lost)
		return "source-lost";
	return watch_only_parked(c->watch, n) ? "only-parked" : "migrating";
}

/* Recalls by client, most files first. */
static void add_clients(struct control *c, struct json_object *o)
{
	struct json_object *list = json_object_new_array();
	struct recall_client *k = calloc(RECALL_CLIENTS, sizeof(*k));
	unsigned int n = k ? jobs_recalls(c->c.jobs, k) : 0;
	uint64_t now = stub_now_us();

	for (unsigned int i = 0; i < n; i++) {
		struct json_object *one = json_object_new_object();
		uint64_t ago = now > k[i].last_us ? now - k[i].last_us : 0;

		json_object_object_add(one, "who", json_object_new_string(k[i].who));
		add_u(one, "files", k[i].files);
		add_u(one, "bytes", k[i].bytes);
		add_u(one, "slowed", k[i].slowed);
		add_f(one, "last_s", (double)ago / 1000000);
		json_object_array_add(list, one);
	}
	free(k);
	json_object_object_add(o, "clients", list);
}

/* What keeps the volume from being complete although the counter is 0. */
static enum final_state add_found(struct control *c, struct json_object *o)
{
	struct final_found *found = calloc(1, sizeof(*found));
	struct json_object *list = json_object_new_array();
	enum final_state state = FINAL_DUE;

	if (found) {
		watch_found(c->watch, found);
		state = found->state;
		add_u(o, "copies", found->copies);
		add_u(o, "damaged", found->damaged);
		add_u(o, "unknown_stubs", found->stubs);
		for (unsigned int i = 0; i < found->n; i++)
			json_object_array_add(list, json_object_new_string(found->path[i]));
	}
	json_object_object_add(o, "found", list);
	free(found);
	return state;
}

/* What has been counted since the volume was made; nothing where nothing was. */
static void add_totals(struct control *c, struct json_object *o)
{
	struct stub_journal_totals t;
	struct json_object *in;
	uint64_t partly;

	if (stub_journal_totals(c->c.journal, &t) < 0)
		return;
	partly = jobs_partly(c->c.jobs);
	in = json_object_new_object();
	add_u(in, "found", t.found);
	add_u(in, "found_bytes", t.found_bytes);
	add_u(in, "done", t.done);
	add_u(in, "done_bytes", t.done_bytes);
	add_u(in, "left", t.left);
	add_u(in, "left_bytes", t.left_bytes);
	add_u(in, "partly_bytes", partly < t.left_bytes ? partly : t.left_bytes);
	add_u(in, "parked", t.parked);
	add_u(in, "parked_bytes", t.parked_bytes);
	add_u(in, "directories_left", t.dirs);
	add_u(in, "directories_parked", t.parked_dirs);
	add_b(in, "whole", t.whole);
	json_object_object_add(o, "totals", in);
}

static void add_histogram(struct json_object *all, const char *name, const struct histogram *h,
			  const struct histogram_steps *steps)
{
	struct json_object *one = json_object_new_object(), *le = json_object_new_array(),
			   *n = json_object_new_array();

	for (unsigned int i = 0; i < steps->n; i++)
		json_object_array_add(le, steps->us[i] % 1000 ?
						  json_object_new_double(steps->us[i] / 1000.0) :
						  json_object_new_uint64(steps->us[i] / 1000));
	for (unsigned int i = 0; i <= steps->n; i++)
		json_object_array_add(n, json_object_new_uint64(atomic_load(&h->count[i])));
	json_object_object_add(one, "at_most_ms", le);
	json_object_object_add(one, "count", n);
	add_u(one, "sum_ms", atomic_load(&h->sum_us) / 1000);
	json_object_object_add(all, name, one);
}

/* How long clients' asks took, and calls to the old server. */
static void add_times(struct json_object *o)
{
	struct json_object *asks = json_object_new_object(), *calls = json_object_new_object();

	for (int k = 0; k < LATENCY_KINDS; k++)
		add_histogram(asks, latency_name((enum latency_kind)k), &latency_times[k],
			      &latency_steps);
	for (int k = 0; k < CALLED_KINDS; k++)
		add_histogram(calls, called_name((enum called)k), &called_times[k], &called_steps);
	json_object_object_add(o, "first_access", asks);
	json_object_object_add(o, "source_times", calls);
}

static void add_throttle(struct json_object *o, struct control *c, const struct jobs_stats *s,
			 const struct source_state *src)
{
	unsigned int most = src->wanted * c->c.config->inflight;
	struct limiter_state l;

	limiter_state(c->c.limiter, &l);
	add_u(o, "throttle_bytes_per_s", s->throttle);
	add_u(o, "throttle_requests_per_s", l.rules.requests);
	add_u(o, "throttle_latency_ms", l.rules.latency_ms);
	add_f(o, "source_latency_ms", (double)l.latency_us / 1000);
	add_b(o, "source_backs_off", l.backs_off);
	add_u(o, "source_connections", src->wanted);
	add_u(o, "background_calls_most", most < l.calls ? most : l.calls);
}

static struct json_object *cmd_status(struct control *c, struct json_object *in)
{
	struct stub_journal_counts n;
	struct stub_finish_stats f;
	struct source_state src;
	struct watch_rates rates;
	struct jobs_stats s;
	struct json_object *o;
	int r;

	jobs_stats(c->c.jobs, &s); /* first: what a job hands to the finisher then counts there */
	r = stub_journal_counts(c->c.journal, &n);
	if (r < 0)
		return answer_error("the journal cannot be read");
	stub_finisher_stats(c->c.finisher, &f);
	watch_look(c->watch); /* after both: counter 0 is never told as "migrating" */
	source_state(c->c.source, &src);
	watch_rates(c->watch, &rates);
	o = answer_ok();
	add_s(o, "state", state_name(c, &s, &src, add_found(c, o), &n));
	add_b(o, "only_parked", watch_only_parked(c->watch, &n));
	add_u(o, "pending", n.total - n.errors - n.conflicts);
	add_u(o, "done", f.done + s.whole);
	add_u(o, "parked", n.errors);
	add_u(o, "conflicts", n.conflicts);
	add_u(o, "links", n.links);
	add_u(o, "links_split", f.split);
	add_u(o, "inflight", f.inflight);
	add_u(o, "kept_back", f.kept);
	add_u(o, "finish_delay_s", c->c.config->finish_delay);
	add_u(o, "bytes_done", s.bytes);
	add_f(o, "rate_files", rates.files);
	add_f(o, "rate_bytes", rates.bytes);
	add_s(o, "source", stub_volume_info(c->c.volume)->source);
	add_b(o, "source_connected", src.connected);
	add_f(o, "source_lost_s",
	      src.lost_since_ms ? (double)(stub_now_ms() - src.lost_since_ms) / 1000 : 0);
	if (src.trouble[0])
		add_s(o, "source_trouble", src.trouble);
	else if (s.source_lost)
		add_s(o, "source_trouble", "the old server answers, but its root is gone, denied or "
					   "another one: is its disk mounted?");
	add_b(o, "source_refused", src.refused);
	if (src.refused)
		add_f(o, "source_next_try_s", (double)src.next_try_ms / 1000);
	add_u(o, "source_reconnects", src.reconnects);
	add_u(o, "source_calls", src.calls);
	add_u(o, "source_lookups", src.lookups);
	add_u(o, "source_readdirs", src.readdirs);
	add_u(o, "source_reads", src.reads);
	add_u(o, "entries", s.entries);
	add_u(o, "whole", s.whole);
	add_u(o, "joined", s.joined);
	add_u(o, "errors", s.errors);
	add_u(o, "touched", s.touched);
	add_u(o, "active", s.active);
	add_u(o, "queued", s.queued);
	add_throttle(o, c, &s, &src);
	add_f(o, "uptime_s", rates.uptime);
	add_b(o, "debug", trace_on());
	add_s(o, "volume_error", s.store_error ? strerror(s.store_error) : "");
	add_f(o, "volume_error_s", (double)s.store_error_ms / 1000);
	add_u(o, "bytes_passed", s.passed);
	add_u(o, "bytes_holes", s.holes);
	add_u(o, "metadata_lost", s.lost);
	add_u(o, "acls_lost", s.acls);
	add_u(o, "acls_near", s.near);
	add_u(o, "times_unsure", s.times);
	if (source_uri_kind(stub_volume_info(c->c.volume)->source) == SOURCE_SMB)
		add_u(o, "mangled", src.mangled);
	if (stub_volume_info(c->c.volume)->join[0]) {
		add_s(o, "join", stub_volume_info(c->c.volume)->join);
		add_u(o, "mismatches", src.mismatches);
		add_s(o, "mismatch", src.mismatch);
	}
	add_u(o, "held", s.held);
	add_u(o, "later", s.later);
	add_b(o, "crawler", stub_crawler_runs(c->c.volume));
	add_totals(c, o);
	add_b(o, "paused", s.paused);
	add_times(o);
	add_clients(c, o);
	return o;
}

/* @n objects were un-parked, @count of them (or all) are @h. */
static struct json_object *retried(struct control *c, int64_t n, const struct stub_handle *h,
				   size_t count)
{
	bool crawler = stub_crawler_runs(c->c.volume);
	struct json_object *o = answer_ok();
	struct jobs_stats s;

	jobs_retry(c->c.jobs);
	jobs_stats(c->c.jobs, &s);
	add_u(o, "retried", (uint64_t)n);
	add_u(o, "asked", crawler ? 0 : again_add(watch_again(c->watch), h, count));
	add_b(o, "crawler", crawler);
	add_b(o, "paused", s.paused);
	return o;
}

static struct json_object *cmd_retry(struct control *c, struct json_object *in)
{
	struct json_object *what, *o;
	struct stub_handle *h = NULL;
	const char *s = "errors";
	size_t parked;
	unsigned int mask;
	int64_t n;

	if (json_object_object_get_ex(in, "what", &what))
		s = json_object_get_string(what);
	mask = !s				 ? 0 :
	       !strcmp(s, "errors")	 ? 1u << STUB_PARK_ERROR :
	       !strcmp(s, "conflicts") ? 1u << STUB_PARK_CONFLICT :
	       !strcmp(s, "all")	 ? 1u << STUB_PARK_ERROR | 1u << STUB_PARK_CONFLICT :
					 0;
	if (!mask)
		return answer_error("what: must be errors, conflicts or all");
	watch_check_again(c->watch);
	parked = again_parked(watch_again(c->watch), mask, &h);
	n = stub_journal_retry(c->c.journal, mask);
	o = n < 0 ? answer_error(strerror((int)-n)) : retried(c, n, h, parked);
	free(h);
	return o;
}

static struct json_object *cmd_unpark(struct control *c, struct json_object *in)
{
	struct json_object *list, *o;
	struct stub_handle *h;
	size_t count = 0;
	int64_t n;

	if (json_object_object_get_ex(in, "objects", &list))
		count = resolve_take_handles(list, &h);
	if (!count)
		return answer_error("objects: a list, each with type and handle as 'postcopy parked "
				    "--json' prints them");
	watch_check_again(c->watch);
	n = stub_journal_unpark_these(c->c.journal, h, count);
	o = n < 0 ? answer_error(strerror((int)-n)) : retried(c, n, h, count);
	free(h);
	return o;
}

static struct json_object *cmd_resolve(struct control *c, struct json_object *in)
{
	const char *how = "", *path = "";
	struct json_object *x, *o;
	struct stub_handle h;
	char why[256];

	if (json_object_object_get_ex(in, "how", &x))
		how = json_object_get_string(x);
	if (json_object_object_get_ex(in, "path", &x))
		path = json_object_get_string(x);
	if (!resolve_take_handle(in, &h))
		return answer_error("type and handle: as 'postcopy parked --json' prints them");
	if (resolve(&c->c, how ? how : "", &h, path ? path : "", why, sizeof(why)) < 0)
		return answer_error(why);
	o = answer_ok();
	add_b(o, "crawler", stub_crawler_runs(c->c.volume));
	if (how && !strcmp(how, "theirs"))
		again_add(watch_again(c->watch), &h, 1);
	return o;
}

/* What of @s differs from the settings before, put in force at once.  With their lock. */
static int in_force(struct control *c, const struct settings *s)
{
	struct settings *now = &c->c.settings;
	struct limiter_rules rules = settings_rules(s, c->c.config);
	int r = 0;

	if (s->connections.set && s->connections.value != now->connections.value)
		r = source_connections(c->c.source, s->connections.value);
	if (r < 0)
		return r;
	if (s->paused != now->paused)
		jobs_pause(c->c.jobs, s->paused);
	if (s->throttled && (!now->throttled || s->throttle != now->throttle))
		jobs_throttle(c->c.jobs, s->throttle);
	limiter_set(c->c.limiter, &rules);
	*now = *s;
	return 0;
}

/* Put the new settings in force and store them for the next start; an error if they could not be. */
static struct json_object *apply(struct control *c, const struct settings *s)
{
	char why[128];
	int r = in_force(c, s);

	if (r < 0) {
		snprintf(why, sizeof(why), "connections: %s; nothing was changed", strerror(-r));
		return answer_error(why);
	}
	r = settings_store(c->c.volume, s);
	if (r == 0)
		return answer_ok();
	snprintf(why, sizeof(why), "done, but a restart of the retriever will undo it: %s",
		 strerror(-r));
	return answer_error(why);
}

static struct json_object *set_paused(struct control *c, bool paused)
{
	struct json_object *o;
	struct settings s;

	pthread_mutex_lock(&c->settings_lock);
	s = c->c.settings;
	s.paused = paused;
	o = apply(c, &s);
	pthread_mutex_unlock(&c->settings_lock);
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

/* A number of a command: 0: it is not there, 1: it is, -EINVAL. */
static int take_number(struct json_object *in, const char *key, int64_t least, int64_t most,
		       int64_t *out)
{
	struct json_object *x;

	if (!json_object_object_get_ex(in, key, &x))
		return 0;
	*out = json_object_get_int64(x);
	return json_object_is_type(x, json_type_int) && *out >= least && *out <= most ? 1 : -EINVAL;
}

static int take_setting(struct json_object *in, const char *key, uint32_t least, uint32_t most,
			struct setting *out)
{
	int64_t n;
	int r = take_number(in, key, least, most, &n);

	if (r == 1)
		*out = (struct setting){ true, (uint32_t)n };
	return r;
}

/* Into @s what @in says.  How much that is; -EINVAL: *wrong says why. */
static int take_throttle(struct json_object *in, struct settings *s, const char **wrong)
{
	int bytes, requests, latency, connections;
	int64_t n;

	bytes = take_number(in, "bytes_per_s", 0, INT64_MAX, &n);
	if (bytes == 1) {
		s->throttled = true;
		s->throttle = (uint64_t)n;
	}
	requests = take_setting(in, "requests_per_s", 0, LIMITER_REQUESTS_MAX, &s->requests);
	latency = take_setting(in, "latency_ms", 0, LIMITER_LATENCY_MAX, &s->latency_ms);
	connections = take_setting(in, "connections", 1, SOURCE_CONNECTIONS_MAX, &s->connections);
	*wrong = bytes < 0	 ? "bytes_per_s: a number of bytes per second, 0 for no limit" :
		 requests < 0	 ? "requests_per_s: a number to 1000000, 0 for no limit" :
		 latency < 0	 ? "latency_ms: milliseconds to 60000, 0 for not looking at it" :
		 connections < 0 ? "connections: a number from 1 to 16" :
				   NULL;
	return *wrong ? -EINVAL : bytes + requests + latency + connections;
}

static struct json_object *cmd_throttle(struct control *c, struct json_object *in)
{
	struct source_state src;
	struct json_object *o;
	struct jobs_stats now;
	struct settings s;
	const char *wrong;
	int given;

	pthread_mutex_lock(&c->settings_lock);
	s = c->c.settings;
	given = take_throttle(in, &s, &wrong);
	o = given < 0 ? answer_error(wrong) : given ? apply(c, &s) : answer_ok();
	pthread_mutex_unlock(&c->settings_lock);
	jobs_stats(c->c.jobs, &now);
	source_state(c->c.source, &src);
	add_throttle(o, c, &now, &src);
	return o;
}

static struct json_object *cmd_debug(struct control *c, struct json_object *in)
{
	struct json_object *on, *o;

	if (!json_object_object_get_ex(in, "on", &on) ||
	    !json_object_is_type(on, json_type_boolean))
		return answer_error("on: true or false");
	c->c.debug(c->c.debug_arg, json_object_get_boolean(on));
	o = answer_ok();
	add_b(o, "debug", trace_on());
	return o;
}

static struct json_object *cmd_config(struct control *c, struct json_object *in)
{
	struct json_object *o = answer_ok();

	pthread_mutex_lock(&c->settings_lock);
	config_json(o, c->c.config,
		    &(struct config_over){ &c->c.settings, trace_on(), c->c.debug_option });
	pthread_mutex_unlock(&c->settings_lock);
	add_b(o, "changed", config_changed(c->c.config));
	return o;
}

static struct json_object *cmd_history(struct control *c, struct json_object *in)
{
	struct json_object *o = answer_ok();

	watch_history(c->watch, o);
	return o;
}

static struct json_object *cmd_drain(struct control *c, struct json_object *in)
{
	stub_finisher_drain(c->c.finisher);
	return answer_ok();
}

static struct json_object *cmd_stop(struct control *c, struct json_object *in)
{
	c->c.stop(c->c.stop_arg, false);
	return answer_ok();
}

static const struct {
	const char *name;
	struct json_object *(*fn)(struct control *c, struct json_object *in);
} commands[] = {
	{ "status", cmd_status }, { "retry", cmd_retry },	{ "pause", cmd_pause },
	{ "resume", cmd_resume }, { "throttle", cmd_throttle }, { "drain", cmd_drain },
	{ "stop", cmd_stop },	  { "resolve", cmd_resolve }, { "debug", cmd_debug },
	{ "config", cmd_config }, { "unpark", cmd_unpark },
	{ "history", cmd_history },
};

static struct json_object *run_command(void *arg, const char *name, struct json_object *in)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].fn(arg, in);
	return NULL;
}

int control_create(const struct control_config *config, struct control **out)
{
	struct control *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->c = *config;
	pthread_mutex_init(&c->settings_lock, NULL);
	r = watch_create(config, &c->watch);
	/* the ask socket is ours by now, so nobody else can be serving here */
	if (r == 0)
		r = commands_create(stub_volume_info(config->volume)->control, run_command, c,
				    &c->commands);
	if (r < 0) {
		watch_destroy(c->watch);
		free(c);
		return r;
	}
	*out = c;
	return 0;
}

void control_destroy(struct control *c)
{
	if (!c)
		return;
	commands_destroy(c->commands);
	watch_destroy(c->watch);
	free(c);
}
