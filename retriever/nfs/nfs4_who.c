// SPDX-License-Identifier: GPL-3.0-or-later
/* nfs4_who.c - users and groups as NFSv4 sends them */
#include "nfs/nfs4.h"

bool nfs4_number(const uint8_t *p, uint32_t len, uint32_t *out)
{
	uint64_t n = 0;

	if (!p || len < 1 || len > 10 || (len > 1 && p[0] == '0'))
		return false;
	for (uint32_t i = 0; i < len; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		n = n * 10 + p[i] - '0';
	}
	*out = (uint32_t)n;
	return n < UINT32_MAX;
}

bool nfs4_nameless(struct nfs_source *s, enum nfs4_nameless what)
{
	uint64_t now = stub_now_ms(), *last = &s->nameless_ms[what];
	bool tell;

	pthread_mutex_lock(&s->pool.lock);
	tell = !*last || now - *last >= NFS_ASTRAY_MS;
	if (tell)
		*last = now;
	pthread_mutex_unlock(&s->pool.lock);
	return tell;
}
