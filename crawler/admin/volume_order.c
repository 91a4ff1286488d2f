/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_order.c - what the crawler asks for first. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "admin/volume_tool.h"
#include "order/order.h"

static int take(struct verdict *v, char **argv, struct order *out)
{
	char why[256];

	order_init(out);
	if (!strcmp(argv[0], "default") && !argv[1])
		return 0;
	for (int i = 0; argv[i]; i++) {
		if (order_take(out, argv[i], why, sizeof(why)) < 0)
			return verdict_fail(v, FAIL_USAGE, "%s", why);
	}
	return 0;
}

static void print_patterns(struct json *j, const struct order *o, enum order_when when)
{
	json_array(j, when == ORDER_FIRST ? "order_first" : "order_last");
	for (unsigned int i = 0; i < o->patterns; i++) {
		if (o->pattern[i].when == when)
			json_str(j, NULL, o->pattern[i].text);
	}
	json_array_end(j);
}

void volume_tool_order(struct json *j, const struct order *o)
{
	char text[ORDER_TEXT];

	order_text(o, text);
	json_str(j, "order", text);
	json_u64(j, "order_ahead", o->ahead);
	print_patterns(j, o, ORDER_FIRST);
	print_patterns(j, o, ORDER_LAST);
}

static int print(const char *path, const struct order *o)
{
	struct json j;

	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	volume_tool_order(&j, o);
	return json_end(&j) < 0 ? 1 : 0;
}

int volume_order(struct verdict *v, int argc, char **argv)
{
	struct stub_volume *volume;
	struct order order;
	char path[PATH_MAX];
	int r;

	if (argc < 2)
		return verdict_fail(v, FAIL_USAGE, "%s: want a DIR", argv[0]);
	if (argc > 2 && take(v, argv + 2, &order) < 0)
		return -1;
	if (volume_tool_open(v, argv[1], path, &volume) < 0)
		return -1;
	if (argc > 2)
		r = order_store(stub_volume_fd(volume), &order);
	else
		r = order_load(stub_volume_fd(volume), &order);
	if (r == -EBADMSG)
		r = verdict_fail(v, FAIL_VOLUME_DAMAGED,
				 "%s/" STUB_DIR "/order is damaged, and all is crawled in the usual order: "
				 "say 'postcopy order' again", path);
	else if (r == -EPROTONOSUPPORT)
		r = verdict_fail(v, FAIL_VOLUME_DAMAGED,
				 "%s/" STUB_DIR "/order is of a newer release, and all is crawled in the "
				 "usual order: say 'postcopy order' again", path);
	else if (r < 0)
		r = verdict_fail(v, argc > 2 ? FAIL_TARGET : FAIL_VOLUME_DAMAGED,
				 "cannot %s %s/" STUB_DIR "/order: %s", argc > 2 ? "write" : "read", path,
				 strerror(-r));
	else
		r = print(path, &order);
	stub_volume_close(volume);
	return r;
}
