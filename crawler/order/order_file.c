/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * order_file.c - .postcopy/order: "order=1", the words in one line, "end".
 *
 * An earlier release does not look at it, and crawls in the order of the journal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kept/kept.h"
#include "order/order.h"

#define NAME "order"
#define HEAD "order=1\n"
#define TAIL "\nend\n"
#define SIZE (sizeof(HEAD) + sizeof(TAIL) + ORDER_TEXT)

static int parse(char *text, size_t n, struct order *out)
{
	char why[256], *rest = text + strlen(HEAD), *word;
	size_t tail = strlen(TAIL);

	if (n < strlen(HEAD) + tail || strncmp(text, HEAD, strlen(HEAD)) ||
	    strcmp(text + n - tail, TAIL))
		return -EBADMSG;
	text[n - tail] = '\0';
	while ((word = strsep(&rest, " "))) {
		if (order_take(out, word, why, sizeof(why)) < 0)
			return -EBADMSG;
	}
	return 0;
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
	char text[SIZE], words[ORDER_TEXT];

	order_text(o, words);
	snprintf(text, sizeof(text), HEAD "%s" TAIL, words);
	return kept_store(root_fd, NAME, *words ? text : "");
}
