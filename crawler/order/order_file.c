/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * order_file.c - .postcopy/order: "order=1", the words in one line, "end".  With patterns it
 * is "order=2", and they follow the words, a line each.
 *
 * A release that does not know it, or the second form, crawls in the order of the journal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kept/kept.h"
#include "order/order.h"

#define NAME "order"
#define HEAD "order=1\n"
#define MORE "order=2\n"
#define ANY  "order="
#define TAIL "\nend\n"
#define SIZE (sizeof(HEAD) + sizeof(TAIL) + ORDER_ALL)

static int parse_words(char *rest, struct order *out)
{
	char why[256], *word;

	while ((word = strsep(&rest, " "))) {
		if (strchr(word, '=') && strncmp(word, "ahead=", 6))
			return -EBADMSG; /* patterns may have blanks: not here */
		if (order_take(out, word, why, sizeof(why)) < 0)
			return -EBADMSG;
	}
	return 0;
}

static int parse_patterns(char *rest, struct order *out)
{
	char why[256], *line;

	while ((line = strsep(&rest, "\n"))) {
		unsigned int before = out->patterns;

		if (order_take(out, line, why, sizeof(why)) < 0 || out->patterns == before)
			return -EBADMSG;
	}
	return 0;
}

static int parse(char *text, size_t n, struct order *out)
{
	char *rest = text + strlen(HEAD), *words;
	size_t tail = strlen(TAIL);
	bool more;

	if (n < strlen(HEAD) + tail || strcmp(text + n - tail, TAIL))
		return -EBADMSG;
	more = !strncmp(text, MORE, strlen(MORE));
	if (!more && strncmp(text, HEAD, strlen(HEAD)))
		return strncmp(text, ANY, strlen(ANY)) ? -EBADMSG : -EPROTONOSUPPORT;
	text[n - tail] = '\0';
	if (!more)
		return parse_words(rest, out);
	words = strsep(&rest, "\n");
	if (!rest || (*words && parse_words(words, out) < 0))
		return -EBADMSG;
	return parse_patterns(rest, out);
}

int order_load(int root_fd, struct order *out)
{
	char text[SIZE + 1];
	int n = kept_load(root_fd, NAME, text, SIZE);

	order_init(out);
	if (n > 0)
		n = parse(text, (size_t)n, out);
	if (n < 0)
		order_init(out);
	return n;
}

int order_store(int root_fd, const struct order *o)
{
	char text[SIZE], words[ORDER_TEXT], line[ORDER_LINE];
	size_t n;

	order_text(o, words);
	n = (size_t)snprintf(text, sizeof(text), "%s%s", o->patterns ? MORE : HEAD, words);
	for (unsigned int i = 0; i < o->patterns; i++) {
		order_line(o, i, line);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\n%s", line);
	}
	snprintf(text + n, sizeof(text) - n, TAIL);
	return kept_store(root_fd, NAME, *words || o->patterns ? text : "");
}
