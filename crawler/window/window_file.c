/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * window_file.c - .postcopy/window: "windows=1", a window a line, "end".
 *
 * A file of its own: volume.conf takes no key that an earlier release does not know, and settings
 * is the retriever's, of a fixed form.  An earlier release does not look at it, and crawls.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kept/kept.h"
#include "window/window.h"

#define NAME "window"
#define HEAD "windows=1\n"
#define TAIL "end\n"
#define SIZE (sizeof(HEAD) + sizeof(TAIL) + WINDOWS_MAX * (WINDOW_TEXT + 1))

static int parse(char *text, struct windows *out)
{
	char why[256], *line = text, *end;

	if (strncmp(line, HEAD, strlen(HEAD)))
		return -EBADMSG;
	for (line += strlen(HEAD); (end = strchr(line, '\n')); line = end + 1) {
		if (!strcmp(line, TAIL))
			return out->n ? 0 : -EBADMSG;
		*end = '\0';
		if (out->n == WINDOWS_MAX ||
		    window_parse(line, &out->w[out->n++], why, sizeof(why)) < 0)
			return -EBADMSG;
	}
	return -EBADMSG;
}

int windows_load(int root_fd, struct windows *out)
{
	char text[SIZE + 1];
	int n = kept_load(root_fd, NAME, text, SIZE);

	memset(out, 0, sizeof(*out));
	return n > 0 ? parse(text, out) : n;
}

int windows_store(int root_fd, const struct windows *w)
{
	char text[SIZE] = HEAD, one[WINDOW_TEXT];
	size_t n = strlen(text);

	for (unsigned int i = 0; i < w->n; i++) {
		window_text(&w->w[i], one);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", one);
	}
	snprintf(text + n, sizeof(text) - n, TAIL);
	return kept_store(root_fd, NAME, w->n ? text : "");
}
