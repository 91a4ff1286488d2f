/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * mount.c - requests of the MOUNT protocol, which has no "try again".
 *
 * MNT of a directory below an export looks its names up, and whatever goes wrong ends the
 * client's mount for good (MNT3ERR_ACCES).  Therefore such a request waits longer for the
 * old server than one that the client repeats.  It holds the directory in MDCACHE while it
 * waits, and a thread: hence a limit of its own, and no more than a quarter of the places.
 */
#include "config.h"
#include "fsal.h"
#include "nfs_core.h"
#include "nfs_proto_data.h"

#include "mount.h"

/* The version of MOUNT is 3, as that of NFSv3.  Only the program differs, which is in the request
 * of which op_ctx is a part.  (Of NLM op_ctx may lie on a stack, but NLM never looks up names.) */
static bool is_mount(void)
{
	const nfs_request_t *req = compat_request();

	return req && op_ctx->nfs_vers == MOUNT_V3 && req->svc.rq_msg.cb_vers == MOUNT_V3 &&
	       req->svc.rq_msg.cb_prog == nfs_param.core_param.program[P_MNT];
}

bool mount_begin(struct stubfs_export *x)
{
	if (!is_mount())
		return false;
	if (atomic_fetch_add(&x->mounting, 1) < (x->options.max_waiting + 3) / 4)
		return true;
	atomic_fetch_sub(&x->mounting, 1);
	return false;
}

void mount_end(struct stubfs_export *x)
{
	atomic_fetch_sub(&x->mounting, 1);
}

/* Counted from the request's arrival: over all names of the path, and waiting for locks. */
uint32_t mount_wait_ms(const struct stubfs_export *x)
{
	struct timespec t;
	int64_t gone;

	now(&t);
	gone = (int64_t)(t.tv_sec - op_ctx->start_time.tv_sec) * 1000 +
	       (t.tv_nsec - op_ctx->start_time.tv_nsec) / 1000000;
	if (gone < 0) /* the clock was set */
		gone = 0;
	return gone < x->options.delay_mount ? x->options.delay_mount - (uint32_t)gone : 0;
}
