/* SPDX-License-Identifier: GPL-3.0-or-later */
/* volume_history.c - history: how it went so far, from .postcopy/progress. */
#include <errno.h>
#include <string.h>

#include "admin/volume_tool.h"
#include "progress.h"

/* As the retriever's command "history" has them (control.h). */
static void print_sample(struct json *j, const struct progress_sample *s)
{
	json_array(j, NULL);
	json_i64(j, NULL, s->at);
	json_u64(j, NULL, s->active_ms / 1000);
	json_u64(j, NULL, s->found);
	json_u64(j, NULL, s->found_bytes);
	json_u64(j, NULL, s->done);
	json_u64(j, NULL, s->done_bytes);
	json_u64(j, NULL, s->dirs);
	json_u64(j, NULL, s->parked);
	json_array_end(j);
}

static void print_depth(struct json *j, const struct tree_depth *t)
{
	const double x[] = { t->dirs, t->dirs2, t->files, t->files2, t->bytes, t->bytes2 };

	json_array(j, NULL);
	json_u64(j, NULL, t->listed);
	for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		json_real(j, NULL, x[i]);
	json_array_end(j);
}

static int print(const char *path, const struct progress_data *d)
{
	unsigned int depths = TREE_DEPTHS;
	struct json j;

	while (depths && !d->tree[depths - 1].listed)
		depths--;
	json_begin(&j, stdout);
	json_bool(&j, "ok", true);
	json_str(&j, "volume", path);
	json_array(&j, "samples");
	for (unsigned int i = 0; i < d->n; i++)
		print_sample(&j, &d->sample[i]);
	json_array_end(&j);
	json_array(&j, "tree");
	for (unsigned int i = 0; i < depths; i++)
		print_depth(&j, &d->tree[i]);
	json_array_end(&j);
	return json_end(&j) < 0 ? 1 : 0;
}

int volume_history(struct verdict *v, int argc, char **argv)
{
	static struct progress_data d; /* 40 KiB */
	struct opened o;
	int r;

	if (opened_volume(v, argc, argv, &o) < 0)
		return -1;
	r = progress_load(stub_volume_fd(o.volume), &d);
	if (r < 0 && r != -ENOENT)
		r = verdict_fail(v, FAIL_VOLUME_DAMAGED, "%s/" STUB_DIR "/progress: %s", o.path,
				 strerror(-r));
	else
		r = print(o.path, &d);
	opened_close(&o);
	return r;
}
