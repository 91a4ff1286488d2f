/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * config.c - see config.h.
 *
 * The file is cut into lines here, and libconfuse takes each by itself: it goes on after what it
 * does not know, and counts lines wrongly where comments are.  From call to call it keeps whether
 * it is inside of quotes or of a comment; a line that leaves it there is refused (come_outside).
 */
#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

#define FILE_MAX_BYTES (64 << 10)
#define KEY_SHOWN      48 /* bytes of a name that is not ours */

enum kind {
	NUMBER,
	MODE,	/* in octal */
	TEXT,
	DEMAND, /* of the SMB connection: used if the server can, or required */
	LEVEL,
};

static const struct key {
	const char *name;
	enum kind kind;
	size_t offset;
	long def, min, max;
} keys[] = {
#define K(kind, name, def, min, max) { #name, kind, offsetof(struct config, name), def, min, max }
	K(NUMBER, connections, 4, 1, 16),
	K(NUMBER, inflight, 128, 1, 256),
	K(NUMBER, background_calls, 0, 0, 4096),
	K(NUMBER, read_size, 1 << 20, 4096, 1 << 20),
	K(NUMBER, readdir_size, 128 << 10, 8 << 10, 256 << 10),
	K(NUMBER, call_timeout, 15000, 1000, 600000),
	K(NUMBER, give_up_after, 0, 0, UINT_MAX / 1000), /* so that milliseconds fit, too */
	K(TEXT, nfs_kerberos_keytab, 0, 0, 0),
	K(TEXT, nfs_kerberos_principal, 0, 0, 0),
	K(TEXT, nfs_kerberos_cache, 0, 0, 0),
	K(TEXT, smb_credentials, 0, 0, 0),
	K(TEXT, smb_kerberos_keytab, 0, 0, 0),
	K(TEXT, smb_kerberos_principal, 0, 0, 0),
	K(TEXT, smb_kerberos_cache, 0, 0, 0),
	K(DEMAND, smb_signing, true, 0, 0),
	K(DEMAND, smb_encryption, false, 0, 0),
	K(NUMBER, smb_read_size, 4 << 20, 64 << 10, 16 << 20),
	K(NUMBER, smb_uid, 0, 0, UINT_MAX - 1),
	K(NUMBER, smb_gid, 0, 0, UINT_MAX - 1),
	K(MODE, smb_file_mode, 0600, 0, 07777),
	K(MODE, smb_dir_mode, 0700, 0, 07777),
	K(TEXT, smb_idmap, 0, 0, 0),
	K(NUMBER, smb_strict_delete, 0, 0, 1),
	K(NUMBER, smb_traverse, 0, 0, 1),
	K(TEXT, smb_worker, 0, 0, 0),
	K(NUMBER, block_size, 10 << 20, 64 << 10, 256 << 20),
	K(NUMBER, buffer, 48 << 20, 4 << 20, 1 << 30),
	K(NUMBER, demand_workers, 32, 1, 256),
	K(NUMBER, fill_workers, 256, 1, 256),
	K(NUMBER, nfs4_ntacl, 0, 0, 1),
	K(NUMBER, small_file, 64 << 10, 0, 1 << 20),
	K(NUMBER, digests, 1, 0, 1),
	K(NUMBER, creation_times, 0, 0, 1),
	K(NUMBER, throttle, 0, 0, 1 << 30),
	K(NUMBER, throttle_requests, 0, 0, 1000000),
	K(NUMBER, throttle_latency, 0, 0, 60000),
	K(NUMBER, recall_files_per_minute, 0, 0, 1000000),
	K(NUMBER, recall_burst, 100, 1, 1000000),
	K(NUMBER, max_tries, 5, 1, 1000),
	K(NUMBER, finish_delay, 60, 0, 86400),
	K(LEVEL, log_level, STUB_LOG_INFO, 0, 0),
#undef K
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

_Static_assert(N_KEYS <= CONFIG_KEYS_MAX, "a line is kept for each key");

static const char *const levels[] = { "error", "warn", "info", "debug" };
#define N_LEVELS ((long)(sizeof(levels) / sizeof(levels[0])))

struct reading {
	struct config *out;
	const char *file;
	unsigned int line;
	config_tell_fn tell;
	void *arg;
	bool bad;
};

/* What libconfuse says of a line; it passes no argument of ours on. */
static _Thread_local char heard[256];

static void __attribute__((format(printf, 4, 5)))
tell(struct reading *r, bool harmless, const char *key, const char *fmt, ...)
{
	char text[CONFIG_TEXT_MAX + 256];
	struct config_problem p = { r->file, r->line, key, harmless, text };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->bad = r->bad || !harmless;
	r->tell(r->arg, &p);
}

/* ---- values ---- */

static void store(struct config *c, const struct key *k, long x)
{
	void *to = (char *)c + k->offset;

	switch (k->kind) {
	case NUMBER:
	case MODE:
		*(unsigned int *)to = (unsigned int)x;
		break;
	case TEXT:
		*(char *)to = '\0';
		break;
	case DEMAND:
		*(bool *)to = x;
		break;
	case LEVEL:
		*(enum stub_log_level *)to = (enum stub_log_level)x;
		break;
	}
}

static void format(const struct key *k, const void *at, long number, char *out, size_t size)
{
	switch (k->kind) {
	case NUMBER:
		snprintf(out, size, "%ld", number);
		break;
	case MODE:
		snprintf(out, size, "%#lo", number);
		break;
	case TEXT:
		snprintf(out, size, "%s", at ? (const char *)at : "");
		break;
	case DEMAND:
		snprintf(out, size, "%s", number ? "required" : "desired");
		break;
	case LEVEL:
		snprintf(out, size, "%s", levels[number]);
		break;
	}
}

static long number_of(const struct key *k, const void *at)
{
	return k->kind == TEXT	 ? 0 :
	       k->kind == DEMAND ? *(const bool *)at :
	       k->kind == LEVEL	 ? (long)*(const enum stub_log_level *)at :
				   (long)*(const unsigned int *)at;
}

void config_each(const struct config *c, void (*fn)(void *arg, const struct config_value *v),
		 void *arg)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		const struct key *k = &keys[i];
		const void *at = (const char *)c + k->offset;
		struct config_value v = {
			.key = k->name,
			.is_number = k->kind == NUMBER || k->kind == MODE,
			.number = number_of(k, at),
			.def = k->def,
			.min = k->min,
			.max = k->max,
			.line = c->line[i],
		};

		format(k, at, v.number, v.text, sizeof(v.text));
		format(k, NULL, k->def, v.def_text, sizeof(v.def_text));
		fn(arg, &v);
	}
}

void config_defaults(struct config *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < N_KEYS; i++)
		store(out, &keys[i], keys[i].def);
}

/* ---- one key ---- */

static void wants(struct reading *r, const struct key *k, const char *value)
{
	char min[32], max[32];

	switch (k->kind) {
	case NUMBER:
	case MODE:
		format(k, NULL, k->min, min, sizeof(min));
		format(k, NULL, k->max, max, sizeof(max));
		tell(r, false, k->name, "%s%s%s: must be a number between %s and %s", k->name,
		     *value ? " = " : "", value, min, max);
		break;
	case TEXT:
		tell(r, false, k->name, "%s is longer than %d bytes", k->name, CONFIG_TEXT_MAX);
		break;
	case DEMAND:
		tell(r, false, k->name, "%s = %s: must be required or desired", k->name, value);
		break;
	case LEVEL:
		tell(r, false, k->name, "%s = %s: must be error, warn, info or debug", k->name,
		     value);
		break;
	}
}

static void take_number(struct reading *r, const struct key *k, long x)
{
	char value[32];

	if (x >= k->min && x <= k->max) {
		store(r->out, k, x);
	} else {
		format(k, NULL, x, value, sizeof(value));
		wants(r, k, value);
	}
}

static void take_text(struct reading *r, const struct key *k, const char *s)
{
	char shown[64];
	long x = 0;

	stub_printable(s, strlen(s), shown, sizeof(shown));
	if (k->kind == TEXT && strlen(s) <= CONFIG_TEXT_MAX)
		strcpy((char *)r->out + k->offset, s);
	else if (k->kind == DEMAND && (!strcmp(s, "required") || !strcmp(s, "desired")))
		store(r->out, k, *s == 'r');
	else if (k->kind == LEVEL) {
		while (x < N_LEVELS && strcmp(s, levels[x]))
			x++;
		if (x < N_LEVELS)
			store(r->out, k, x);
		else
			wants(r, k, shown);
	} else {
		wants(r, k, shown);
	}
}

/* What libconfuse has found in the line. */
static void take(struct reading *r, cfg_t *cfg)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		const struct key *k = &keys[i];

		if (!cfg_size(cfg, k->name))
			continue;
		if (r->out->line[i])
			tell(r, true, k->name, "%s was set in line %u already: this one counts",
			     k->name, r->out->line[i]);
		r->out->line[i] = r->line;
		if (k->kind == NUMBER || k->kind == MODE)
			take_number(r, k, cfg_getint(cfg, k->name));
		else
			take_text(r, k, cfg_getstr(cfg, k->name));
	}
}

/* ---- lines that are wrong ---- */

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	return a < b ? (a < c ? a : c) : b < c ? b : c;
}

/* Letters to change, add or leave out to make @b of @a. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[KEY_SHOWN + 1], n = (unsigned int)strnlen(b, KEY_SHOWN);

	for (unsigned int j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned int i = 1; *a && i <= KEY_SHOWN; i++, a++) {
		unsigned int corner = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= n; j++) {
			unsigned int above = row[j];

			row[j] = min3(corner + (*a != b[j - 1]), above + 1, row[j - 1] + 1);
			corner = above;
		}
	}
	return row[n];
}

static void unknown_key(struct reading *r, const char *name)
{
	unsigned int best = UINT_MAX, d;
	const char *nearest = NULL;

	for (size_t i = 0; i < N_KEYS; i++)
		if ((d = distance(name, keys[i].name)) < best) {
			best = d;
			nearest = keys[i].name;
		}
	if (best <= 1 + strlen(name) / 3)
		tell(r, false, name, "unknown key \"%s\"; did you mean %s?", name, nearest);
	else
		tell(r, false, name, "unknown key \"%s\"; postcopy-retriever(8) has all keys",
		     name);
}

/* The line's first word, as it can be shown. */
static const struct key *first_word(const char *line, char *name, size_t size)
{
	size_t n;

	line += strspn(line, " \t");
	n = strcspn(line, " \t=+\r\n");
	stub_printable(line, n < KEY_SHOWN ? n : KEY_SHOWN, name, size);
	for (size_t i = 0; i < N_KEYS; i++)
		if (strlen(keys[i].name) == n && !memcmp(keys[i].name, line, n))
			return &keys[i];
	return NULL;
}

/* libconfuse does not take the line: say it in our words. */
static void refuse(struct reading *r, const char *line, const char *why)
{
	char name[KEY_SHOWN * 4 + 1], said[sizeof(heard) * 4];
	const struct key *k = first_word(line, name, sizeof(name));

	stub_printable(why, strlen(why), said, sizeof(said));
	if (!k)
		unknown_key(r, name);
	else if (strstr(why, "integer value"))
		wants(r, k, "");
	else if (strstr(why, "premature end"))
		tell(r, false, k->name, "%s: there is no value after it", k->name);
	else if (strstr(why, "no such option"))
		tell(r, false, k->name,
		     "%s: more follows its value; quote values with blanks in them", k->name);
	else
		tell(r, false, k->name, "%s: %s", k->name, said);
}

static void hear(cfg_t *cfg, const char *fmt, va_list ap)
{
	if (!heard[0])
		vsnprintf(heard, sizeof(heard), fmt, ap);
}

static bool parse(cfg_opt_t *opts, const char *text, cfg_t **out)
{
	heard[0] = '\0';
	*out = cfg_init(opts, CFGF_NONE);
	if (!*out)
		return false;
	cfg_set_error_function(*out, hear);
	return cfg_parse_buf(*out, text) == CFG_SUCCESS;
}

/* Does libconfuse begin outside of quotes and comments? */
static bool is_outside(void)
{
	cfg_opt_t opts[] = { CFG_INT("x", 0, CFGF_NODEFAULT), CFG_END() };
	cfg_t *cfg;
	bool outside = parse(opts, "x = 1\n", &cfg) && cfg_size(cfg, "x") == 1;

	if (cfg)
		cfg_free(cfg);
	return outside;
}

/* After a line: false if it ended inside of quotes or a comment, which are closed. */
static bool come_outside(void)
{
	static const char *const ends[] = { "\"\n", "'\n", "*/\n" };
	cfg_opt_t none[] = { CFG_END() };
	bool was = is_outside();

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && !is_outside(); i++) {
		cfg_t *cfg;

		parse(none, ends[i], &cfg);
		if (cfg)
			cfg_free(cfg);
	}
	return was;
}

/* @line: with its newline. */
static int take_line(struct reading *r, const char *line)
{
	cfg_opt_t opts[N_KEYS + 1];
	char name[KEY_SHOWN * 4 + 1], said[sizeof(heard)];
	const struct key *k;
	cfg_t *cfg;
	bool good;

	for (size_t i = 0; i < N_KEYS; i++) {
		if (keys[i].kind == NUMBER || keys[i].kind == MODE)
			opts[i] = (cfg_opt_t)CFG_INT(keys[i].name, 0, CFGF_NODEFAULT);
		else
			opts[i] = (cfg_opt_t)CFG_STR(keys[i].name, NULL, CFGF_NODEFAULT);
	}
	opts[N_KEYS] = (cfg_opt_t)CFG_END();
	good = parse(opts, line, &cfg);
	if (!cfg)
		return -ENOMEM;
	strcpy(said, heard);
	if (!come_outside()) {
		k = first_word(line, name, sizeof(name));
		tell(r, false, k ? k->name : "",
		     "a quote is not closed in this line (or a \"/*\": comments begin with #)");
	} else if (good) {
		take(r, cfg);
	} else {
		refuse(r, line, said);
	}
	cfg_free(cfg);
	return 0;
}

/* ---- the file ---- */

/* What editors of Windows do is taken: a mark before the first line, CR before each end. */
static int take_lines(struct reading *r, char *text)
{
	int e = 0;

	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	for (char *next; *text && e == 0; text = next) {
		char *end = text + strcspn(text, "\n"), line[FILE_MAX_BYTES + 2];
		size_t n = (size_t)(end - text);

		r->line++;
		next = end + (*end == '\n');
		if (n && text[n - 1] == '\r')
			n--;
		snprintf(line, sizeof(line), "%.*s\n", (int)n, text);
		e = take_line(r, line);
	}
	return e;
}

/* Its bytes to @text, which has room for FILE_MAX_BYTES + 1; which file that was. */
static int read_file(struct reading *r, char *text)
{
	int fd = open(r->file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n = 0;
	size_t have = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		n = -1;
	} else {
		r->out->file.there = true;
		r->out->file.ino = st.st_ino;
		r->out->file.size = st.st_size;
		r->out->file.mtime = st.st_mtim;
		while (have <= FILE_MAX_BYTES &&
		       (n = read(fd, text + have, FILE_MAX_BYTES + 1 - have)) > 0)
			have += (size_t)n;
	}
	if (n < 0)
		tell(r, false, "", "cannot read it: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return -ENOENT;
	if (have > FILE_MAX_BYTES) {
		tell(r, false, "", "it is larger than %d bytes", FILE_MAX_BYTES);
		return -EINVAL;
	}
	text[have] = '\0';
	if (strlen(text) == have)
		return 0;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		r->line++;
	r->line++;
	tell(r, false, "", "there is a zero byte in it: it must be plain text (UTF-8)");
	return -EINVAL;
}

/* What sources of one kind refuse, and others do not mind. */
static void check_ways(struct reading *r)
{
	const struct config *c = r->out;
	int n = !!c->smb_credentials[0] + !!c->smb_kerberos_keytab[0] + !!c->smb_kerberos_cache[0];

	r->line = 0;
	if (n > 1)
		tell(r, true, "", "more than one of smb_credentials, smb_kerberos_keytab and "
				  "smb_kerberos_cache is set: an smb:// source wants one");
	if (c->smb_kerberos_principal[0] && !c->smb_kerberos_keytab[0])
		tell(r, true, "smb_kerberos_principal",
		     "smb_kerberos_principal is for smb_kerberos_keytab, which is not set");
	if (c->nfs_kerberos_keytab[0] && c->nfs_kerberos_cache[0])
		tell(r, true, "", "both of nfs_kerberos_keytab and nfs_kerberos_cache are set: an "
				  "nfs:// source with sec=krb5 wants one");
	if (c->nfs_kerberos_principal[0] && !c->nfs_kerberos_keytab[0])
		tell(r, true, "nfs_kerberos_principal",
		     "nfs_kerberos_principal is for nfs_kerberos_keytab, which is not set");
}

int config_read_telling(const char *path, config_tell_fn fn, void *arg, struct config *out)
{
	struct reading r = { out, path ? path : CONFIG_DEFAULT_PATH, 0, fn, arg, false };
	char *text = malloc(FILE_MAX_BYTES + 2);
	int e = text ? 0 : -ENOMEM;

	config_defaults(out);
	/* a symlink may lead elsewhere later, so it is not followed for good */
	if (*r.file == '/' || !realpath(r.file, out->file.path))
		snprintf(out->file.path, sizeof(out->file.path), "%s", r.file);
	if (e == 0 && (path || access(r.file, F_OK) == 0)) {
		e = read_file(&r, text);
		if (e == 0)
			e = take_lines(&r, text);
	}
	free(text);
	if (e == 0)
		check_ways(&r);
	return e < 0 ? e : r.bad ? -EINVAL : 0;
}

static void print(void *arg, const struct config_problem *p)
{
	fprintf(stderr, "%s: %s", program_invocation_short_name, p->file);
	if (p->line)
		fprintf(stderr, " line %u", p->line);
	fprintf(stderr, ": %s\n", p->text);
}

int config_read(const char *path, struct config *out)
{
	return config_read_telling(path, print, NULL, out);
}

bool config_changed(const struct config *c)
{
	const struct config_file *f = &c->file;
	struct stat st;

	if (stat(f->path, &st) < 0)
		return f->there;
	return !f->there || (uint64_t)st.st_ino != f->ino || st.st_size != f->size ||
	       st.st_mtim.tv_sec != f->mtime.tv_sec || st.st_mtim.tv_nsec != f->mtime.tv_nsec;
}

void config_source(const struct config *c, struct source_config *out)
{
	*out = (struct source_config){
		.connections = c->connections,
		.readdir_bytes = c->readdir_size,
		.read_bytes = c->read_size,
		.call_timeout_ms = c->call_timeout,
		.jukebox_ms = 500, /* then others have their turn, see job_held.c */
		.give_up_ms = c->give_up_after * 1000,
		.inflight = c->inflight,
		.ntacl = c->nfs4_ntacl,
		.born = c->creation_times,
		.smb = {
			.worker = c->smb_worker[0] ? c->smb_worker : NULL,
			.credentials = c->smb_credentials,
			.kerberos_cache = c->smb_kerberos_cache,
			.kerberos_keytab = c->smb_kerberos_keytab,
			.kerberos_principal = c->smb_kerberos_principal,
			.sign = c->smb_signing,
			.encrypt = c->smb_encryption,
			/* the memory for clients' reads must hold one at least */
			.read_bytes = c->smb_read_size < c->buffer / 3 ? c->smb_read_size :
									 c->buffer / 3,
			.uid = c->smb_uid,
			.gid = c->smb_gid,
			.file_mode = c->smb_file_mode,
			.dir_mode = c->smb_dir_mode,
			.idmap = c->smb_idmap,
			.strict_delete = c->smb_strict_delete,
			.traverse = c->smb_traverse,
		},
		.nfs = {
			.kerberos_keytab = c->nfs_kerberos_keytab,
			.kerberos_principal = c->nfs_kerberos_principal,
			.kerberos_cache = c->nfs_kerberos_cache,
		},
	};
}
