/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * volume_mirror.c - a volume gets a backup, another NFS server to which everything is carried that is in it
 * and changes in it (docs/decisions/0092), or has none any more.
 *
 * What postcopy-mirror will do over there is tried first: an empty directory that belongs to nobody else,
 * in which root may make things and give them away.
 */
#include <errno.h>
#include <getopt.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/volume_tool.h"
#include "config.h"
#include "preflight/preflight_mirror.h"
#include "source/target.h"
#include "source/uri.h"
#include "stubledger.h"
#include "stubmirror.h"

#define TIMEOUT_MS 20000

struct adding {
	struct stub_volume *volume;
	struct source *target, *share; /* share: NULL: none */
	struct config config;
	struct stub_mirror_conf conf;
	char path[PATH_MAX], aside[STUB_ASIDE_NAME];
	struct stub_origin root;
	struct mirror_trial trial;
};

/* ---- over there ---- */

static int refused(struct verdict *v, const struct adding *a, const char *what, int error)
{
	return mirror_trial_fail(v, &a->trial, what, error);
}

static int on_entries(void *arg, const struct stub_entry *e, size_t n)
{
	char *name = arg;

	if (n)
		snprintf(name, STUB_NAME_MAX + 1, "%.*s", (int)e->name_len, e->name);
	return n ? 1 : 0;
}

static int check_empty(struct verdict *v, struct adding *a)
{
	char name[STUB_NAME_MAX + 1], text[4 * STUB_NAME_MAX + 1];
	struct stub_attr attr;
	int r = source_root(a->target, &a->root, &attr);

	if (r == 0 && !S_ISDIR(attr.mode))
		r = -ENOTDIR;
	if (r == 0)
		r = source_list(a->target, SOURCE_DEMAND, &a->root, NULL, on_entries, name);
	if (r < 0)
		return refused(v, a, "its root cannot be read", r);
	if (r == 0)
		return 0;
	stub_printable(name, strlen(name), text, sizeof(text));
	return verdict_fail(v, FAIL_MIRROR,
			    "mirror %s is not empty, '%s' is in it: what the volume has not would be removed "
			    "there; export an empty directory",
			    a->conf.uri, text);
}

static void limit(const struct adding *a, const char *uri, struct source_config *sc)
{
	config_source(&a->config, sc);
	sc->uri = uri;
	sc->log = verdict_log;
	sc->no_acl = true;
	sc->connections = 1;
	sc->call_timeout_ms = sc->give_up_ms = sc->jukebox_ms = TIMEOUT_MS;
}

/* The same tree over SMB: can it be reached? */
static int look_at_share(struct verdict *v, struct adding *a)
{
	struct source_config sc;
	char why[256] = "";
	int r;

	if (!a->conf.smb[0])
		return 0;
	limit(a, a->conf.smb, &sc);
	if (source_uri_kind(sc.uri) != SOURCE_SMB)
		return verdict_fail(v, FAIL_URI, "share %s: want smb://host/share[/directory]", sc.uri);
	r = source_create(&sc, &a->share);
	if (r == 0)
		r = source_probe(&sc, TIMEOUT_MS, why, sizeof(why));
	if (r < 0)
		return verdict_fail(v, FAIL_MIRROR, "share %s: %s", sc.uri, why[0] ? why : strerror(-r));
	a->trial.share = a->share;
	return 0;
}

static int look_there(struct verdict *v, struct adding *a)
{
	struct source_config sc;
	char why[256] = "";
	int r;

	limit(a, a->conf.uri, &sc);
	r = source_uri_kind(sc.uri) != SOURCE_NFS ? -EINVAL : source_create(&sc, &a->target);
	if (r == 0 && !target_able(a->target))
		r = -EINVAL;
	if (r == -EINVAL)
		return verdict_fail(v, FAIL_URI, "mirror %s: want nfs://host/export, by NFSv3", a->conf.uri);
	if (r == 0)
		r = source_probe(&sc, TIMEOUT_MS, why, sizeof(why));
	if (r < 0)
		return verdict_fail(v, FAIL_MIRROR, "mirror %s: %s", a->conf.uri, why[0] ? why : strerror(-r));
	a->trial.target = a->target;
	return check_empty(v, a) < 0 || look_at_share(v, a) < 0 || mirror_trial(v, &a->trial) < 0 ? -1 : 0;
}

/* ---- here ---- */

int volume_tool_mirrored(struct verdict *v, const char *path, const struct stub_volume *volume, bool over)
{
	struct stub_mirror_conf c;
	bool back;

	if (!stub_ledger_is(volume) || (over && stub_ledger_frozen(volume) == STUB_FROZEN_FOR_GOOD))
		return 0;
	back = stub_mirror_conf_read(volume, &c) == 0 && c.kind == STUB_MIRROR_WAY_BACK;
	return verdict_fail(v, FAIL_MIRRORED, "%s has a %s: 'postcopy %s' ends that first, or 'postcopy %s' if %s",
			    path, back ? "way back" : "mirror", back ? "commit" : "mirror remove",
			    back ? "rollback" : "mirror promote",
			    back ? "the clients are to return" : "it takes over");
}

int volume_tool_mirror_socket(struct verdict *v, const struct stub_volume_info *info)
{
	char path[STUB_PATH_MAX + 1];

	if (stub_mirror_control(info, path) == 0)
		return 0;
	return verdict_fail(v, FAIL_SOCKET_PATH,
			    "%s.mirror would be the socket of postcopy-mirror, which may have %d bytes: make the "
			    "volume with a shorter --control",
			    info->control, STUB_PATH_MAX);
}

static int print_mirror(const char *path, const struct stub_volume *volume,
			const struct stub_mirror_conf *c)
{
	char socket[STUB_PATH_MAX + 1];
	struct json j;

	if (stub_mirror_control(stub_volume_info(volume), socket) < 0)
		socket[0] = '\0'; /* nobody can listen there */
	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	json_bool(&j, "mirrored", c != NULL);
	json_str(&j, "control", socket);
	if (c) {
		json_str(&j, "kind", stub_mirror_kind_word(c->kind));
		json_str(&j, "mode", stub_mirror_mode_word(c->mode));
		json_str(&j, "gone", stub_mirror_gone_word(c->gone));
		json_u64(&j, "lag_bound_seconds", c->lag_s);
		json_str(&j, "uri", c->uri);
		json_str(&j, "smb", c->smb);
		json_bool(&j, "alone", c->alone);
		json_bool(&j, "rolled_back", stub_ledger_frozen(volume) == STUB_FROZEN_FOR_GOOD);
	}
	return json_end(&j) < 0 ? 1 : 0;
}

static int create(struct verdict *v, struct adding *a)
{
	int r;

	if (stub_ledger_is(a->volume))
		return verdict_fail(v, FAIL_MIRRORED,
				    "%s has a mirror already: 'postcopy mirror status' shows it", a->path);
	if (volume_tool_mirror_socket(v, stub_volume_info(a->volume)) < 0 || look_there(v, a) < 0)
		return -1;
	r = stub_mirror_create(a->volume, &a->conf, true);
	if (r == -EBUSY)
		return volume_tool_in_use(v, a->path);
	return r < 0 ? verdict_fail(v, FAIL_TARGET, "cannot write %s/" STUB_DIR ": %s", a->path,
				    strerror(-r)) :
		       0;
}

static int take_options(struct verdict *v, struct adding *a, int argc, char **argv)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
						 { "smb", required_argument, NULL, 's' },
						 { 0 } };
	const char *config = NULL, *smb = "";
	int c;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == '?')
			return verdict_fail(v, FAIL_USAGE, "mirror-add: unknown option (see --help)");
		*(c == 'c' ? &config : &smb) = optarg;
	}
	if (argc - optind != 2 || !argv[optind][0] || strlen(argv[optind]) >= sizeof(a->conf.uri) ||
	    strlen(smb) >= sizeof(a->conf.smb))
		return verdict_fail(v, FAIL_USAGE, "mirror-add: want URI and DIR");
	strcpy(a->conf.uri, argv[optind]);
	strcpy(a->conf.smb, smb);
	return config_read(config, &a->config) < 0 ?
		       verdict_fail(v, FAIL_USAGE, "mirror-add: the configuration cannot be used") :
		       0;
}

static void end(struct source *s)
{
	if (!s)
		return;
	source_stop(s);
	source_destroy(s);
}

int volume_mirror_add(struct verdict *v, int argc, char **argv)
{
	static struct adding a = {
		.conf = { .kind = STUB_MIRROR_BACKUP, .mode = STUB_MIRROR_ASYNC, .gone = STUB_MIRROR_CONTINUE }
	};
	int r;

	if (take_options(v, &a, argc, argv) < 0 || volume_tool_open(v, argv[optind + 1], a.path, &a.volume) < 0)
		return -1;
	stub_aside_name(stub_volume_info(a.volume)->uuid, a.aside);
	a.trial = (struct mirror_trial){ .who = "mirror", .uri = a.conf.uri, .root = &a.root, .name = a.aside,
					 .share_uri = a.conf.smb, .volume_fd = stub_volume_fd(a.volume) };
	r = create(v, &a);
	if (r == 0)
		r = print_mirror(a.path, a.volume, &a.conf);
	end(a.share);
	end(a.target);
	stub_volume_close(a.volume);
	return r;
}

int volume_tool_mirror_conf(struct verdict *v, const struct opened *o, struct stub_mirror_conf *c)
{
	int r = stub_mirror_conf_read(o->volume, c);

	if (r == 0 || r == -ENOENT)
		return r < 0;
	return verdict_fail(v, FAIL_VOLUME_DAMAGED, "%s/" STUB_DIR "/mirror/conf: %s", o->path, strerror(-r));
}

int volume_mirror(struct verdict *v, int argc, char **argv)
{
	struct stub_mirror_conf c;
	struct opened o;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = volume_tool_mirror_conf(v, &o, &c);
	if (r >= 0)
		r = print_mirror(o.path, o.volume, r == 0 ? &c : NULL);
	opened_close(&o);
	return r;
}

/* One of a kind's words: its number; 0. */
static unsigned int word_in(const char *const words[], const char *word)
{
	for (unsigned int i = 1; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return 0;
}

static int take_lag(struct verdict *v, const char *text, struct stub_mirror_conf *c)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n > STUB_MIRROR_LAG_MAX)
		return verdict_fail(v, FAIL_USAGE, "mirror-mode: --lag %s: want seconds, at most %u; 0: no bound", text,
				    STUB_MIRROR_LAG_MAX);
	c->lag_s = (uint32_t)n;
	return 0;
}

struct mode_options {
	const char *mode, *gone, *lag;
};

static int take_mode(struct verdict *v, const struct mode_options *o, struct stub_mirror_conf *c)
{
	const char *const modes[] = { "", stub_mirror_mode_word(1), stub_mirror_mode_word(2), stub_mirror_mode_word(3), NULL };
	const char *const rules[] = { "", stub_mirror_gone_word(1), stub_mirror_gone_word(2), NULL };
	unsigned int mode = o->mode ? word_in(modes, o->mode) : c->mode;
	unsigned int gone = o->gone ? word_in(rules, o->gone) : c->gone;

	if (!mode)
		return verdict_fail(v, FAIL_USAGE, "mirror-mode: --mode %s: want sync, partly-async or async", o->mode);
	if (!gone)
		return verdict_fail(v, FAIL_USAGE, "mirror-mode: --gone %s: want continue or refuse", o->gone);
	c->mode = mode;
	c->gone = gone;
	return o->lag ? take_lag(v, o->lag, c) : 0;
}

static int set_mode(struct verdict *v, const struct opened *o, const struct mode_options *m)
{
	struct stub_mirror_conf c;
	int r = volume_tool_mirror_conf(v, o, &c);

	if (r == 1)
		return verdict_fail(v, FAIL_MIRRORED, "%s has no mirror", o->path);
	if (r < 0 || take_mode(v, m, &c) < 0)
		return -1;
	r = stub_mirror_conf_write(o->volume, &c);
	if (r < 0)
		return verdict_fail(v, FAIL_TARGET, "cannot write %s/" STUB_DIR "/mirror/conf: %s", o->path, strerror(-r));
	return print_mirror(o->path, o->volume, &c);
}

int volume_mirror_mode(struct verdict *v, int argc, char **argv)
{
	static const struct option options[] = { { "mode", required_argument, NULL, 'm' },
						 { "gone", required_argument, NULL, 'g' },
						 { "lag", required_argument, NULL, 'l' },
						 { 0 } };
	struct mode_options m = { NULL, NULL, NULL };
	struct opened o = { .volume = NULL };
	int c, r;

	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == '?')
			return verdict_fail(v, FAIL_USAGE, "mirror-mode: unknown option (see --help)");
		*(c == 'm' ? &m.mode : c == 'g' ? &m.gone : &m.lag) = optarg;
	}
	if (argc - optind != 1 || !argv[optind][0])
		return verdict_fail(v, FAIL_USAGE, "mirror-mode: want exactly one DIR");
	if (volume_tool_open(v, argv[optind], o.path, &o.volume) < 0)
		return -1;
	r = set_mode(v, &o, &m);
	opened_close(&o);
	return r;
}

static int thaw(struct verdict *v, const struct opened *o)
{
	int r;

	if (stub_ledger_frozen(o->volume) != STUB_FROZEN_FOR_GOOD)
		return verdict_fail(v, FAIL_MIRRORED, "%s was not rolled back", o->path);
	r = stub_ledger_freeze(o->volume, STUB_THAWED);
	return r == 0 ? 0 : verdict_fail(v, FAIL_TARGET, "cannot write %s/" STUB_DIR ": %s", o->path, strerror(-r));
}

/* The replicator is not there: after a rollback it does not start. */
int volume_mirror_thaw(struct verdict *v, int argc, char **argv)
{
	struct stub_mirror_conf c;
	struct opened o;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = volume_tool_mirror_conf(v, &o, &c) < 0 || thaw(v, &o) < 0 ? -1 : print_mirror(o.path, o.volume, &c);
	opened_close(&o);
	return r;
}

int volume_mirror_remove(struct verdict *v, int argc, char **argv)
{
	struct opened o;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = stub_mirror_remove(o.volume);
	if (r == -ENOENT)
		r = verdict_fail(v, FAIL_MIRRORED, "%s has no mirror", o.path);
	else if (r == -EBUSY)
		r = verdict_fail(v, FAIL_BUSY, "postcopy-mirror is carrying the changes of %s: stop it first",
				 o.path);
	else if (r < 0)
		r = verdict_fail(v, FAIL_TARGET, "cannot write %s/" STUB_DIR ": %s", o.path, strerror(-r));
	else
		r = print_mirror(o.path, o.volume, NULL);
	opened_close(&o);
	return r;
}
