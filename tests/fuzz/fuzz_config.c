/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_config.c - the retriever's configuration file and the source's URI.
 *
 * Whatever the file says, settings that are taken are within the limits of
 * config.h, and what is made of them fits its type.
 */
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"
#include "nfs/nfs.h"
#include "smb/smb.h"

static bool within(unsigned int x, unsigned int low, unsigned int high)
{
	return x >= low && x <= high;
}

struct told {
	unsigned int bad, last_line;
};

static void on_problem(void *arg, const struct config_problem *p)
{
	struct told *t = arg;

	CHECK(p->text[0] && !strchr(p->text, '\n'));
	CHECK(p->line == 0 || p->line >= t->last_line);
	for (const char *s = p->key; *s; s++)
		CHECK(*s >= ' ' && *s < 127);
	t->last_line = p->line;
	t->bad += !p->harmless;
}

static int read_bytes(const void *data, size_t size, struct told *t, struct config *c)
{
	char path[32];
	int fd = memfd_create("config", MFD_CLOEXEC), r;

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = config_read_telling(path, on_problem, t, c);
	close(fd);
	return r;
}

static void try_file(const uint8_t *data, size_t size)
{
	static const char good[] = "connections = 7";
	struct told t = { 0 }, none = { 0 };
	struct config c, next;
	int r = read_bytes(data, size, &t, &c);

	CHECK((r < 0) == (t.bad > 0));
	/* whatever was left open in it, the next file begins outside of it */
	CHECK(read_bytes(good, sizeof(good) - 1, &none, &next) == 0 && next.connections == 7);
	if (r < 0) {
		CHECK(r == -EINVAL || r == -ENOENT);
		return;
	}
	CHECK(within(c.connections, 1, 16) && within(c.inflight, 1, 256));
	CHECK(within(c.read_size, 4 << 10, 1 << 20) && within(c.readdir_size, 8 << 10, 256 << 10));
	CHECK(within(c.block_size, 64 << 10, 256 << 20) && within(c.buffer, 4 << 20, 1 << 30));
	CHECK(within(c.demand_workers, 1, 256) && within(c.fill_workers, 1, 256));
	CHECK(within(c.small_file, 0, 1 << 20) && within(c.digests, 0, 1));
	CHECK(within(c.call_timeout, 1000, 600000) && within(c.max_tries, 1, 1000) &&
	      within(c.finish_delay, 0, 86400));
	CHECK(c.give_up_after <= UINT_MAX / 1000); /* source_config wants milliseconds */
	CHECK(c.log_level <= STUB_LOG_DEBUG);
}

/* Names have no colons, addresses have, and brackets where they are shown. */
static void check_host(const char *host, const char *node)
{
	size_t n = strnlen(node, SOURCE_HOST_MAX);
	bool address = strchr(node, ':');

	CHECK(n > 0 && n < SOURCE_HOST_MAX && strlen(host) == n + (address ? 2 : 0));
	CHECK(!memcmp(host + address, node, n));
	CHECK(!address || (host[0] == '[' && host[n + 1] == ']'));
	CHECK(!strpbrk(node, "[]/%@ \n"));
}

static void try_smb_uri(const uint8_t *data, size_t size)
{
	char *uri = fuzz_text(data, size), why[NFS_WHY_MAX] = "";
	struct smb_uri u;

	if (smb_uri_parse(uri, &u, why, sizeof(why)) == 0) {
		check_host(u.host, u.node);
		CHECK(u.share[0] && strnlen(u.share, sizeof(u.share)) < sizeof(u.share));
		CHECK(strnlen(u.root, sizeof(u.root)) < sizeof(u.root));
	} else {
		CHECK(why[0]);
	}
	free(uri);
}

static void try_uri(const uint8_t *data, size_t size)
{
	char *uri = fuzz_text(data, size), why[NFS_WHY_MAX];
	struct nfs_uri u;

	why[0] = '\0';
	if (nfs_uri_parse(uri, &u, why, sizeof(why)) == 0) {
		check_host(u.host, u.node);
		CHECK(u.path[0] == '/' && strnlen(u.path, sizeof(u.path)) < sizeof(u.path));
	} else {
		CHECK(why[0] && strnlen(why, sizeof(why)) < sizeof(why));
	}
	free(uri);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 6 && !memcmp(data, "nfs://", 6))
		try_uri(data, size);
	else if (size >= 6 && !memcmp(data, "smb://", 6))
		try_smb_uri(data, size);
	else
		try_file(data, size);
	return 0;
}
