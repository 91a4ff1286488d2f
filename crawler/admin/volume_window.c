/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_window.c - when the crawler may crawl. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "admin/volume_tool.h"
#include "window/window.h"

static int take(struct verdict *v, char **argv, struct windows *out)
{
	char why[256];

	out->n = 0;
	if (!strcmp(argv[0], "none") && !argv[1])
		return 0;
	for (int i = 0; argv[i]; i++) {
		if (out->n == WINDOWS_MAX)
			return verdict_fail(v, FAIL_USAGE, "more than %d windows", WINDOWS_MAX);
		if (window_parse(argv[i], &out->w[out->n++], why, sizeof(why)) < 0)
			return verdict_fail(v, FAIL_USAGE, "%s; or 'none', alone", why);
	}
	return 0;
}

void volume_tool_windows(struct json *j, const struct windows *w)
{
	time_t now = time(NULL), at = windows_change(w, now);
	char text[64];
	struct tm tm;

	json_array(j, "windows");
	for (unsigned int i = 0; i < w->n; i++) {
		window_text(&w->w[i], text);
		json_str(j, NULL, text);
	}
	json_array_end(j);
	json_bool(j, "window_open", windows_open(w, now));
	if (at && localtime_r(&at, &tm)) {
		strftime(text, sizeof(text), "%a %F %H:%M %Z", &tm);
		json_i64(j, "window_change", at);
		json_str(j, "window_change_at", text);
	}
}

static int print(const char *path, const struct windows *w)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	volume_tool_windows(&j, w);
	return json_end(&j) < 0 ? 1 : 0;
}

int volume_window(struct verdict *v, int argc, char **argv)
{
	struct stub_volume *volume;
	struct windows windows;
	char path[PATH_MAX];
	int r;

	if (argc < 2)
		return verdict_fail(v, FAIL_USAGE, "%s: want a DIR", argv[0]);
	if (argc > 2 && take(v, argv + 2, &windows) < 0)
		return -1;
	if (volume_tool_open(v, argv[1], path, &volume) < 0)
		return -1;
	if (argc > 2)
		r = windows_store(stub_volume_fd(volume), &windows);
	else
		r = windows_load(stub_volume_fd(volume), &windows);
	if (r == -EBADMSG)
		r = verdict_fail(v, FAIL_VOLUME_DAMAGED,
				 "%s/" STUB_DIR "/window is damaged, and nothing is crawled: say 'postcopy "
				 "window' again", path);
	else if (r < 0)
		r = verdict_fail(v, argc > 2 ? FAIL_TARGET : FAIL_VOLUME_DAMAGED,
				 "cannot %s %s/" STUB_DIR "/window: %s", argc > 2 ? "write" : "read", path,
				 strerror(-r));
	else
		r = print(path, &windows);
	stub_volume_close(volume);
	return r;
}
