/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at @s, 0 if it is none (overlong and surrogates too). */
static unsigned int utf8_length(const unsigned char *s)
{
	unsigned int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (n == 0 || s[0] > 0xf4)
		return 0;
	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static void string(struct json *j, const char *value)
{
	const unsigned char *s = (const unsigned char *)value;

	putc('"', j->f);
	while (*s) {
		unsigned int n = utf8_length(s);

		if (n == 0)
			fprintf(j->f, "\\udc%02x", *s);
		else if (*s == '"' || *s == '\\')
			fprintf(j->f, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(j->f, "\\u%04x", *s);
		else if (*s == 0xc2 && s[1] < 0xa0) /* C1: control characters to a terminal */
			fprintf(j->f, "\\u%04x", s[1]);
		else
			fwrite(s, 1, n, j->f);
		s += n ? n : 1;
	}
	putc('"', j->f);
}

static void member(struct json *j, const char *key)
{
	if (j->comma)
		putc(',', j->f);
	j->comma = true;
	if (key) {
		string(j, key);
		putc(':', j->f);
	}
}

static void open_with(struct json *j, const char *key, char bracket)
{
	member(j, key);
	putc(bracket, j->f);
	j->comma = false;
}

static void close_with(struct json *j, char bracket)
{
	putc(bracket, j->f);
	j->comma = true;
}

void json_begin(struct json *j, FILE *f)
{
	j->f = f;
	j->comma = false;
	putc('{', f);
}

int json_end(struct json *j)
{
	fputs("}\n", j->f);
	return fflush(j->f) == 0 && !ferror(j->f) ? 0 : -EIO;
}

void json_str(struct json *j, const char *key, const char *value)
{
	member(j, key);
	string(j, value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	member(j, key);
	fprintf(j->f, "%" PRIu64, value);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
	member(j, key);
	fprintf(j->f, "%" PRId64, value);
}

void json_real(struct json *j, const char *key, double value)
{
	member(j, key);
	fprintf(j->f, "%.1f", value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	member(j, key);
	fputs(value ? "true" : "false", j->f);
}

void json_array(struct json *j, const char *key)
{
	open_with(j, key, '[');
}

void json_array_end(struct json *j)
{
	close_with(j, ']');
}

void json_object(struct json *j, const char *key)
{
	open_with(j, key, '{');
}

void json_object_end(struct json *j)
{
	close_with(j, '}');
}
