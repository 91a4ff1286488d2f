/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_options.c - the command line of `postcopy-volume check`. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "source/uri.h"

#define LIMIT_DEFAULT	20
#define WORKERS_DEFAULT 8

static bool is_word(const char *word, size_t len, const char *text)
{
	return strlen(text) == len && !memcmp(word, text, len);
}

static int parse_protocols(struct verdict *v, const char *text, unsigned int *out)
{
	const char *word = text;

	*out = 0;
	for (;;) {
		size_t len = strcspn(word, ",");

		if (is_word(word, len, "nfs"))
			*out |= EXPORT_NFS;
		else if (is_word(word, len, "smb"))
			*out |= EXPORT_SMB;
		else
			return verdict_fail(v, FAIL_USAGE,
					    "check: --protocols '%s': want nfs, smb or nfs,smb",
					    text);
		if (!word[len])
			return 0;
		word += len + 1;
	}
}

#define DEPOT "depot:"

/* smb.conf has it in a line of its own, where % and ; mean something and blanks are joined; a
 * unit's BindPaths is split at : */
static bool sayable(const char *dir)
{
	if (strpbrk(dir, "%;:#\\\"") || strstr(dir, "  ") || dir[strlen(dir) - 1] == ' ')
		return false;
	for (; *dir; dir++)
		if (iscntrl((unsigned char)*dir))
			return false;
	return true;
}

int option_bad(struct verdict *v, const char *command, const char *option)
{
	char shown[SOURCE_SHOWN_MAX];

	source_uri_shown(option, shown, sizeof(shown)); /* --sorce=smb://... */
	return verdict_fail(v, FAIL_USAGE, "%s: '%s' is unknown or wants a value (see --help)",
			    command, shown);
}

int option_number(struct verdict *v, const char *command, const char *option, const char *text,
		  uint64_t least, uint64_t most, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || *out < least || *out > most)
		return verdict_fail(v, FAIL_USAGE, "%s: --%s '%s': want a number from %llu to %llu",
				    command, option, text, (unsigned long long)least,
				    (unsigned long long)most);
	return 0;
}

int join_check(struct verdict *v, const char *command, const char *source, const char *join)
{
	if (!join || (source_uri_kind(source) == SOURCE_NFS && source_uri_kind(join) == SOURCE_SMB))
		return 0;
	return verdict_fail(v, FAIL_USAGE, "%s: --join takes an smb:// source beside an nfs:// one",
			    command);
}

int way_back_check(struct verdict *v, const char *command, const char *source, const char *join,
		   bool way_back)
{
	if (!way_back || (source_uri_kind(source) == SOURCE_NFS && !source_uri_nfs4(source) && !join))
		return 0;
	return verdict_fail(v, FAIL_USAGE, "%s: --way-back takes an nfs:// source by NFSv3, without --join",
			    command);
}

int streams_parse(struct verdict *v, const char *command, const char *text, const char **depot)
{
	const char *dir = text + strlen(DEPOT);

	*depot = NULL;
	if (!strcmp(text, "xattr"))
		return 0;
	if (strncmp(text, DEPOT, strlen(DEPOT)))
		return verdict_fail(v, FAIL_USAGE, "%s: --streams '%s': want xattr or depot:DIR",
				    command, text);
	if (dir[0] != '/' || strlen(dir) > STUB_DEPOT_MAX || !sayable(dir) ||
	    dir[strlen(dir) - 1] == '/')
		return verdict_fail(v, FAIL_USAGE,
				    "%s: --streams: DIR is an absolute path of at most %d bytes, "
				    "without %% ; : # \\ \", control characters, two blanks in a row, and "
				    "no / or blank at its end",
				    command, STUB_DEPOT_MAX);
	*depot = dir;
	return 0;
}

static bool kind_known(const char *word, size_t len)
{
	for (unsigned int i = 0; i < CHECK_KINDS; i++) {
		if (is_word(word, len, check_kinds[i].code))
			return true;
	}
	return false;
}

static int parse_accept(struct verdict *v, const char *text)
{
	const char *word = text;

	for (;;) {
		size_t len = strcspn(word, ",");

		if (!check_property_known(word, len) && !kind_known(word, len))
			return verdict_fail(v, FAIL_USAGE,
					    "check: --accept: '%.*s' is neither a property nor a "
					    "kind of name (see postcopy-volume(8))",
					    (int)len, word);
		if (!word[len])
			return 0;
		word += len + 1;
	}
}

bool check_accepted(const struct check_options *o, const char *code)
{
	const char *word = o->accept;

	while (word) {
		size_t len = strcspn(word, ",");

		if (is_word(word, len, code))
			return true;
		word = word[len] ? word + len + 1 : NULL;
	}
	return false;
}

int check_options_parse(struct verdict *v, int argc, char **argv, struct check_options *o)
{
	static const struct option longs[] = {
		{ "source", required_argument, NULL, 's' },
		{ "join", required_argument, NULL, 'j' },
		{ "names", no_argument, NULL, 'n' },
		{ "read", no_argument, NULL, 'r' },
		{ "protocols", required_argument, NULL, 'p' },
		{ "accept", required_argument, NULL, 'a' },
		{ "limit", required_argument, NULL, 'l' },
		{ "workers", required_argument, NULL, 'w' },
		{ "config", required_argument, NULL, 'f' },
		{ "streams", required_argument, NULL, 't' },
		{ "way-back", no_argument, NULL, 'b' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t workers = WORKERS_DEFAULT;
	int c, r = 0;

	*o = (struct check_options){ .limit = LIMIT_DEFAULT };
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			o->source = optarg;
		else if (c == 'j')
			o->join = optarg;
		else if (c == 'n')
			o->names = true;
		else if (c == 'r')
			o->names = o->read = true;
		else if (c == 'p')
			r = parse_protocols(v, optarg, &o->exports);
		else if (c == 'a')
			r = parse_accept(v, o->accept = optarg);
		else if (c == 'l')
			r = option_number(v, "check", "limit", optarg, 0, INT64_MAX, &o->limit);
		else if (c == 'w')
			r = option_number(v, "check", "workers", optarg, 1, CHECK_WORKERS_MOST,
					  &workers);
		else if (c == 'f')
			o->config = optarg;
		else if (c == 'b')
			o->way_back = true;
		else if (c == 't')
			r = streams_parse(v, "check", optarg, &o->depot);
		else
			r = option_bad(v, "check", argv[optind - 1]);
	}
	o->workers = (unsigned int)workers;
	if (r < 0)
		return r;
	if (!o->source)
		return verdict_fail(v, FAIL_USAGE, "check: --source URI is missing");
	if (join_check(v, "check", o->source, o->join) < 0 ||
	    way_back_check(v, "check", o->source, o->join, o->way_back) < 0)
		return -1;
	if (argc - optind > 1)
		return verdict_fail(v, FAIL_USAGE, "check: want at most one DIR");
	o->dir = argv[optind];
	return 0;
}
