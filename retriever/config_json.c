/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config_json.h"
#include "file/file.h"
#include "nfs/nfs.h"
#include "smb/smb.h"
#include "source/uri.h"
#include "stubtools.h"

/* ---- settings ---- */

struct listing {
	struct json_object *list;
	const struct config *c;
	const struct config_over *over;
};

static void add_s(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

/* What commands and options say of log_level, and from which of them. */
static const char *debug_over(const struct listing *l, struct config_value *v)
{
	bool configured = l->c->log_level == STUB_LOG_DEBUG;
	bool at_start = l->over->debug_option || configured;

	if (l->over->debug == configured)
		return NULL;
	strcpy(v->text, l->over->debug ? "debug" : "info");
	return l->over->debug == at_start ? "option" : "command";
}

/* What a command has set of @key; NULL: nothing. */
static const struct setting *set_by_command(const struct settings *s, const char *key)
{
	const struct setting *one = !s					? NULL :
				    !strcmp(key, "throttle_requests") ? &s->requests :
				    !strcmp(key, "throttle_latency")  ? &s->latency_ms :
				    !strcmp(key, "connections")	      ? &s->connections :
									NULL;

	return one && one->set ? one : NULL;
}

static void add_one(void *arg, const struct config_value *value)
{
	struct listing *l = arg;
	const struct settings *s = l->over->settings;
	struct json_object *o = json_object_new_object();
	const struct setting *one = set_by_command(s, value->key);
	struct config_value v = *value;
	const char *from = NULL;

	if (!strcmp(v.key, "log_level")) {
		from = debug_over(l, &v);
	} else if (!strcmp(v.key, "throttle") && s && s->throttled) {
		from = "command";
		v.number = (long)(s->throttle / 1024);
		snprintf(v.text, sizeof(v.text), "%ld", v.number);
		json_object_object_add(o, "bytes_per_s", json_object_new_uint64(s->throttle));
	} else if (one) {
		from = "command";
		v.number = (long)one->value;
		snprintf(v.text, sizeof(v.text), "%ld", v.number);
	}
	add_s(o, "key", v.key);
	json_object_object_add(o, "value", v.is_number ? json_object_new_int64(v.number) :
							 json_object_new_string(v.text));
	add_s(o, "text", v.text);
	add_s(o, "default", v.def_text);
	add_s(o, "from", from ? from : v.line ? "file" : "default");
	if (!from && v.line)
		json_object_object_add(o, "line", json_object_new_int64(v.line));
	json_object_array_add(l->list, o);
}

void config_json(struct json_object *o, const struct config *c, const struct config_over *over)
{
	struct listing l = { json_object_new_array(), c, over };

	add_s(o, "file", c->file.path);
	json_object_object_add(o, "exists", json_object_new_boolean(c->file.there));
	config_each(c, add_one, &l);
	json_object_object_add(o, "settings", l.list);
	json_object_object_add(o, "paused",
			       json_object_new_boolean(over->settings && over->settings->paused));
}

/* ---- what is wrong ---- */

struct problems {
	struct json_object *list;
	bool bad;
};

static void add_problem(void *arg, const struct config_problem *p)
{
	struct problems *all = arg;
	struct json_object *o = json_object_new_object();

	add_s(o, "file", p->file);
	json_object_object_add(o, "line", json_object_new_int64(p->line));
	add_s(o, "key", p->key);
	json_object_object_add(o, "harmless", json_object_new_boolean(p->harmless));
	add_s(o, "message", p->text);
	json_object_array_add(all->list, o);
	all->bad = all->bad || !p->harmless;
}

static void check_uri(struct problems *all, const char *file, const char *key, const char *uri)
{
	char why[NFS_WHY_MAX] = "", text[NFS_WHY_MAX + 64];
	union {
		struct nfs_uri nfs;
		struct smb_uri smb;
		struct file_uri file;
	} u;
	int r;

	switch (source_uri_kind(uri)) {
	case SOURCE_NFS:
		r = nfs_uri_parse(uri, &u.nfs, why, sizeof(why));
		break;
	case SOURCE_SMB:
		r = smb_uri_parse(uri, &u.smb, why, sizeof(why));
		break;
	case SOURCE_FILE:
		r = file_uri_parse(uri, &u.file, why, sizeof(why));
		break;
	default:
		snprintf(why, sizeof(why), "begins neither with nfs:// nor with smb:// nor with file://");
		r = -EINVAL;
	}
	snprintf(text, sizeof(text), "%s: the URI %s", key, why);
	if (r < 0)
		add_problem(all, &(struct config_problem){ file, 0, key, false, text });
}

static void check_volume(struct problems *all, const char *dir, struct settings *settings)
{
	struct stub_volume_info *info = malloc(sizeof(*info));
	struct stub_conf_problem why;
	char file[4200];
	int r = info ? stub_conf_check(dir, info, &why) : -ENOMEM, fd;

	snprintf(file, sizeof(file), "%s/" STUB_DIR "/volume.conf", dir);
	if (r < 0)
		add_problem(all, &(struct config_problem){ file, why.line, why.key, false,
							   why.text });
	if (r == 0)
		check_uri(all, file, "source", info->source);
	if (r == 0 && info->join[0])
		check_uri(all, file, "join", info->join);
	free(info);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(file, sizeof(file), "%s/" STUB_DIR "/settings", dir);
	if (fd >= 0 && settings_load(fd, settings) < 0)
		add_problem(all, &(struct config_problem){
					 file, 0, "", true,
					 "what 'postcopy pause' and 'throttle' said is not known: "
					 "this file, or limits beside it, cannot be read or is damaged" });
	if (fd >= 0)
		close(fd);
}

int config_check(const char *file, const char *dir)
{
	struct json_object *o = json_object_new_object();
	struct problems all = { json_object_new_array(), false };
	struct settings settings = { 0 };
	struct config c;
	int r = config_read_telling(file, add_problem, &all, &c);

	if (dir)
		check_volume(&all, dir, &settings);
	json_object_object_add(o, "ok", json_object_new_boolean(r == 0 && !all.bad));
	json_object_object_add(o, "problems", all.list);
	config_json(o, &c,
		    &(struct config_over){ &settings, c.log_level == STUB_LOG_DEBUG, false });
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	return r == 0 && !all.bad ? 0 : 1;
}
