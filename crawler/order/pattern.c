/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pattern.c - patterns of directories.
 *
 * A path is met name by name, with the set of places in the pattern that may come next (one bit
 * each): so the time it takes does not depend on how ** could be spread.
 */
#include "order/pattern.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#define ANY	  "**"
#define ANY_MOST  2 /* of them */
#define STAR_MOST 3 /* * in a name: what fnmatch() tries grows with each */

/* The name at *@rest, which goes on behind it; false: there is none any more. */
static bool next_name(const char **rest, char name[NAME_MAX + 1])
{
	size_t n = strcspn(*rest, "/");

	if (n == 0)
		return false;
	if (n > NAME_MAX)
		n = NAME_MAX; /* no file system has it */
	memcpy(name, *rest, n);
	name[n] = '\0';
	*rest += strcspn(*rest, "/");
	*rest += strspn(*rest, "/");
	return true;
}

/* ---- is it one? ---- */

static const char *name_wrong(const char *name, unsigned int *any)
{
	unsigned int stars = 0;

	if (!strcmp(name, ANY))
		return ++*any > ANY_MOST ? "has more than two **" : NULL;
	if (strstr(name, ANY))
		return "has ** that is not a name of its own";
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return "has . or .. in it";
	for (const char *s = name; *s; s++)
		stars += *s == '*';
	if (stars > STAR_MOST)
		return "has more than three * in a name";
	if (name[strlen(name) - 1] == '\\')
		return "has a name that ends with \\";
	return NULL;
}

static const char *names_wrong(const char *text)
{
	unsigned int any = 0, n = 0;
	char name[NAME_MAX + 1];
	const char *wrong;

	while (next_name(&text, name)) {
		wrong = name_wrong(name, &any);
		if (wrong)
			return wrong;
		if (++n > PATTERN_DEPTH)
			return "has too many names in it";
	}
	if (n == 0)
		return "is empty";
	return n == any ? "means everything" : NULL;
}

/* Take @tail away if it is the end. */
static bool without(char *text, const char *tail)
{
	size_t n = strlen(text), t = strlen(tail);

	if (n <= t || strcmp(text + n - t, tail))
		return false;
	text[n - t] = '\0';
	return true;
}

const char *pattern_take(const char *text, char out[PATTERN_SIZE])
{
	size_t n = strlen(text);

	if (n >= PATTERN_SIZE)
		return "is too long";
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return "has a control character: use ? for it";
	}
	if (*text == '/')
		return "begins with /: say it from the volume's root";
	if (strstr(text, "//"))
		return "has // in it";
	memcpy(out, text, n + 1);
	without(out, "/");
	while (without(out, "/" ANY))
		;
	return names_wrong(out);
}

bool pattern_is_way(const char *pattern)
{
	return !strstr(pattern, ANY);
}

/* ---- does it mean this one? ---- */

struct names {
	char name[PATTERN_DEPTH][NAME_MAX + 1];
	unsigned int n;
};

static void split(const char *pattern, struct names *out)
{
	out->n = 0;
	while (out->n < PATTERN_DEPTH && next_name(&pattern, out->name[out->n]))
		out->n++;
}

/* ** may be nothing. */
static uint64_t with_none(const struct names *p, uint64_t places)
{
	for (unsigned int i = 0; i < p->n; i++) {
		if (places >> i & 1 && !strcmp(p->name[i], ANY))
			places |= (uint64_t)1 << (i + 1);
	}
	return places;
}

static uint64_t after(const struct names *p, uint64_t places, const char *name)
{
	uint64_t next = 0;

	for (unsigned int i = 0; i < p->n; i++) {
		if (!(places >> i & 1))
			continue;
		if (!strcmp(p->name[i], ANY))
			next |= (uint64_t)1 << i;
		else if (!fnmatch(p->name[i], name, 0))
			next |= (uint64_t)1 << (i + 1);
	}
	return with_none(p, next);
}

struct pattern_met pattern_meets(const char *pattern, const char *path)
{
	struct pattern_met met = { 0 };
	char name[NAME_MAX + 1];
	unsigned int depth = 0;
	struct names p;
	uint64_t end, places;

	split(pattern, &p);
	end = (uint64_t)1 << p.n;
	places = with_none(&p, 1);
	while (places & ~end && next_name(&path, name)) {
		places = after(&p, places, name);
		depth++;
		if (places & end)
			met.depth = depth;
	}
	met.below = places & ~end;
	return met;
}
