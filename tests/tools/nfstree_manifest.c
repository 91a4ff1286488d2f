// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nfstree: manifests.
 *
 * A line per object, sorted by the bytes of its path; TAB between fields; "-"
 * where a field does not apply.  In paths and link targets every byte outside
 * 0x20..0x7e and the backslash are written as \xNN.  The root's path is ".".
 *
 *   path type mode uid gid size mtime atime nlink group rdev target sha256 error
 *
 * size and nlink of directories are left out: they are the file system's own.
 * group is, for files with several links, the lowest path among them.
 */
#include <stdlib.h>
#include <string.h>

#include "nfstree.h"

static const char *const fields[] = { "path", "type",	"mode",	  "uid",   "gid",
				      "size", "mtime",	"atime",  "nlink", "group",
				      "rdev", "target", "sha256", "error" };
enum {
	F_PATH,
	F_TYPE,
	F_MODE,
	F_UID,
	F_GID,
	F_SIZE,
	F_MTIME,
	F_ATIME,
	F_NLINK,
	F_GROUP,
	F_RDEV,
	F_TARGET,
	F_SHA256,
	F_ERROR,
	N_FIELDS
};

static const char *const types[] = { "none", "file",	"dir",	  "block",
				     "char", "symlink", "socket", "fifo" };

/* ---- writing ---- */

static int by_path(const void *a, const void *b)
{
	const struct nt_node *x = *(struct nt_node *const *)a, *y = *(struct nt_node *const *)b;
	size_t n = x->path_len < y->path_len ? x->path_len : y->path_len;
	int rc = memcmp(x->path, y->path, n);

	return rc ? rc : (x->path_len > y->path_len) - (x->path_len < y->path_len);
}

static int by_identity(const void *a, const void *b)
{
	const struct nt_node *x = *(struct nt_node *const *)a, *y = *(struct nt_node *const *)b;

	if (x->attrs.fsid != y->attrs.fsid)
		return x->attrs.fsid < y->attrs.fsid ? -1 : 1;
	if (x->attrs.fileid != y->attrs.fileid)
		return x->attrs.fileid < y->attrs.fileid ? -1 : 1;
	return by_path(a, b);
}

static bool has_group(const struct nt_node *node)
{
	return node->have_attrs && node->attrs.type != NF3DIR && node->attrs.nlink > 1;
}

/*
 * Link each member of a group to its lowest path, through ->next: nodes are in
 * no queue any more when a manifest is written.
 */
static int find_groups(struct nt_node **nodes, size_t count)
{
	struct nt_node **linked = malloc((count + 1) * sizeof(*linked)), *first = NULL;
	size_t n = 0;

	if (!linked)
		return -1;
	for (size_t i = 0; i < count; i++) {
		nodes[i]->next = NULL;
		if (has_group(nodes[i]))
			linked[n++] = nodes[i];
	}
	qsort(linked, n, sizeof(*linked), by_identity);
	for (size_t i = 0; i < n; i++) {
		if (!first || first->attrs.fsid != linked[i]->attrs.fsid ||
		    first->attrs.fileid != linked[i]->attrs.fileid)
			first = linked[i];
		linked[i]->next = first;
	}
	free(linked);
	return 0;
}

static void put_escaped(FILE *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = s[i];

		if (c < 0x20 || c > 0x7e || c == '\\')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static void put_path(FILE *out, const struct nt_node *node)
{
	if (node->path_len)
		put_escaped(out, node->path, node->path_len);
	else
		putc('.', out);
}

static void put_time(FILE *out, const nfstime3 *t)
{
	/* Unsigned, as RFC 1813 has it: before 1970 shows as after 2038. */
	fprintf(out, "\t%u.%09u", t->seconds, t->nseconds);
}

static void put_content(FILE *out, const struct nt_node *node)
{
	putc('\t', out);
	if (node->target)
		put_escaped(out, node->target, strlen(node->target));
	else
		putc('-', out);
	putc('\t', out);
	if (node->have_hash)
		for (size_t i = 0; i < sizeof(node->hash); i++)
			fprintf(out, "%02x", node->hash[i]);
	else
		putc('-', out);
}

static void put_node(FILE *out, const struct nt_node *node, const struct nt_options *opt)
{
	const fattr3 *a = &node->attrs;
	bool sized = a->type == NF3REG || a->type == NF3LNK;

	put_path(out, node);
	if (!node->have_attrs) {
		fprintf(out, "\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%s\n", node->error);
		return;
	}
	fprintf(out, "\t%s\t%04o\t%u\t%u", a->type < 8 ? types[a->type] : "?", a->mode & 07777,
		a->uid, a->gid);
	if (sized)
		fprintf(out, "\t%llu", (unsigned long long)a->size);
	else
		fputs("\t-", out);
	put_time(out, &a->mtime);
	if (opt->atime)
		put_time(out, &a->atime);
	else
		fputs("\t-", out);
	if (a->type == NF3DIR)
		fputs("\t-", out);
	else
		fprintf(out, "\t%u", a->nlink);
	putc('\t', out);
	if (node->next)
		put_path(out, node->next);
	else
		putc('-', out);
	if (a->type == NF3BLK || a->type == NF3CHR)
		fprintf(out, "\t%u:%u", a->rdev.specdata1, a->rdev.specdata2);
	else
		fputs("\t-", out);
	put_content(out, node);
	fprintf(out, "\t%s\n", node->error[0] ? node->error : "-");
}

int nt_manifest_write(FILE *out, struct nt_node **nodes, size_t count, const struct nt_options *opt)
{
	if (find_groups(nodes, count) != 0)
		return -1;
	qsort(nodes, count, sizeof(*nodes), by_path);
	fputs("#nfstree 1", out);
	for (int i = 0; i < N_FIELDS; i++)
		fprintf(out, "%c%s", i ? ' ' : '\t', fields[i]);
	putc('\n', out);
	for (size_t i = 0; i < count; i++) {
		if (i && by_path(&nodes[i - 1], &nodes[i]) == 0)
			nt_node_fail(nodes[i], "listed-twice");
		put_node(out, nodes[i], opt);
	}
	return fflush(out) != 0 || ferror(out) ? -1 : 0;
}

/* ---- comparing ---- */

struct reader {
	FILE *in;
	const char *name;
	char *line;
	size_t size;
	char *field[N_FIELDS];
	char *path; /* raw bytes of field[F_PATH] */
	size_t path_len;
	bool end;
};

static size_t unescape(char *to, const char *from)
{
	size_t n = 0;
	unsigned int c;

	while (*from) {
		if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &c) == 1) {
			to[n++] = c;
			from += 4;
		} else {
			to[n++] = *from++;
		}
	}
	return n;
}

/* Read the next line; -1: the file is no manifest or not in order. */
static int next_line(struct reader *r)
{
	ssize_t len = getline(&r->line, &r->size, r->in);
	char *p = r->line, *previous = r->path;
	size_t previous_len = r->path_len, n;
	int i, rc = 0;

	r->path = NULL;
	if (len <= 0) {
		r->end = true;
		free(previous);
		return 0;
	}
	p[strcspn(p, "\n")] = '\0';
	for (i = 0; i < N_FIELDS && p; i++)
		r->field[i] = strsep(&p, "\t");
	r->path = malloc(strlen(r->field[F_PATH]) + 1);
	if (!r->path || i < N_FIELDS || p) {
		rc = -1;
	} else {
		r->path_len = strcmp(r->field[F_PATH], ".") ? unescape(r->path, r->field[F_PATH]) :
							      0;
		n = r->path_len < previous_len ? r->path_len : previous_len;
		if (previous && memcmp(previous, r->path, n) > 0)
			rc = -1;
	}
	free(previous);
	return rc;
}

static int open_manifest(struct reader *r, const char *name)
{
	ssize_t len;

	*r = (struct reader){ .name = name, .in = fopen(name, "r") };
	if (!r->in) {
		perror(name);
		return -1;
	}
	len = getline(&r->line, &r->size, r->in);
	if (len < 10 || strncmp(r->line, "#nfstree 1\t", 11) != 0) {
		fprintf(stderr, "nfstree: %s is no manifest\n", name);
		return -1;
	}
	return next_line(r);
}

static void close_manifest(struct reader *r)
{
	if (r->in)
		fclose(r->in);
	free(r->line);
	free(r->path);
}

static int compare_paths(const struct reader *a, const struct reader *b)
{
	size_t n = a->path_len < b->path_len ? a->path_len : b->path_len;
	int rc;

	if (a->end || b->end)
		return a->end - b->end;
	rc = n ? memcmp(a->path, b->path, n) : 0;
	return rc ? rc : (a->path_len > b->path_len) - (a->path_len < b->path_len);
}

/* Print how two lines differ; false if they do not. */
static bool differ(const struct reader *a, const struct reader *b, const bool *ignored, bool show)
{
	bool found = false;

	for (int i = F_TYPE; i < N_FIELDS; i++) {
		/* An incomplete line differs even from its equal. */
		bool same = !strcmp(a->field[i], b->field[i]) &&
			    (i != F_ERROR || !strcmp(a->field[i], "-"));

		if (ignored[i] || same)
			continue;
		if (show)
			printf("%s%s %s: %s | %s", found ? "" : "! ",
			       found ? ";" : a->field[F_PATH], fields[i], a->field[i], b->field[i]);
		found = true;
	}
	if (found && show)
		putchar('\n');
	return found;
}

static int parse_ignored(const char *list, bool atime, bool *ignored)
{
	char *copy = strdup(list ? list : ""), *p = copy, *word;
	int rc = 0;

	memset(ignored, 0, N_FIELDS * sizeof(*ignored));
	ignored[F_ATIME] = !atime;
	while ((word = strsep(&p, ","))) {
		int i = F_TYPE;

		while (i < N_FIELDS && strcmp(word, fields[i]) != 0)
			i++;
		if (i < N_FIELDS) {
			ignored[i] = true;
		} else if (*word) {
			fprintf(stderr, "nfstree: no field is called %s\n", word);
			rc = -1;
		}
	}
	free(copy);
	return rc;
}

static int diff_readers(struct reader *a, struct reader *b, const bool *ignored, unsigned long show,
			unsigned long *differences, unsigned long *equal)
{
	int rc = 0;

	while (rc == 0 && !(a->end && b->end)) {
		int order = compare_paths(a, b);

		if (order == 0) {
			if (differ(a, b, ignored, *differences < show))
				++*differences;
			else
				++*equal;
			rc = next_line(a) | next_line(b);
			continue;
		}
		if (*differences < show)
			printf("%c %s (%s)\n", order < 0 ? '<' : '>',
			       (order < 0 ? a : b)->field[F_PATH],
			       (order < 0 ? a : b)->field[F_TYPE]);
		++*differences;
		rc = next_line(order < 0 ? a : b);
	}
	return rc;
}

int nt_manifest_diff(const char *name_a, const char *name_b, const char *ignore, bool atime,
		     unsigned long show)
{
	unsigned long differences = 0, equal = 0;
	bool ignored[N_FIELDS];
	struct reader a = { 0 }, b = { 0 };
	int rc = NT_USAGE;

	if (parse_ignored(ignore, atime, ignored) != 0)
		return NT_USAGE;
	if (open_manifest(&a, name_a) == 0 && open_manifest(&b, name_b) == 0 &&
	    diff_readers(&a, &b, ignored, show, &differences, &equal) == 0) {
		if (differences > show)
			printf("... and %lu more\n", differences - show);
		printf("%lu objects equal, %lu different\n", equal, differences);
		rc = differences ? NT_DIFFERENT : NT_OK;
	} else {
		fprintf(stderr, "nfstree: cannot compare %s and %s\n", name_a, name_b);
	}
	close_manifest(&a);
	close_manifest(&b);
	return rc;
}
