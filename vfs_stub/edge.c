/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * edge.c - what crosses the edge between libstubcore and smbd: errors, lines of the log,
 * and whose rights count.
 *
 * No errno reaches smbd but through the table below.
 */
#include "stub_glue.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

/* ---- errors ---- */

/* What is not listed is an I/O error. */
static const struct {
	int error;
	int smbd;
} errors[] = {
	{ EAGAIN, EAGAIN }, { ENOMEM, ENOMEM }, { EMFILE, EMFILE },	  { ENFILE, ENFILE },
	{ EREMOTEIO, EIO }, { EBADMSG, EIO },	{ EIO, EIO },		  { ENOSPC, ENOSPC },
	{ EDQUOT, EDQUOT }, { ESTALE, ENOENT }, { ENOENT, ENOENT },	  { EINVAL, EINVAL },
	{ EROFS, EROFS },   { EACCES, EACCES }, { ENOTEMPTY, ENOTEMPTY }, { ENOTDIR, ENOTDIR },
	{ ELOOP, ELOOP },   { ENAMETOOLONG, ENAMETOOLONG }, { ECANCELED, ECANCELED },
};

int glue_errno(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == -r)
			return errors[i].smbd;
	DBG_WARNING("unexpected error %s, answered as an I/O error\n", strerror(-r));
	return EIO;
}

int glue_fail(int r)
{
	errno = glue_errno(r);
	return -1;
}

/* ---- log ---- */

int stubvfs_debug_class = DBGC_VFS;

/*
 * libstubcore's own thread may log, but only smbd's main thread may use its log: lines of
 * other threads are kept until the main thread logs.  Those that do not fit are counted.
 */
#define LATER_MAX  16
#define LATER_TEXT 256

static struct {
	pthread_mutex_t lock;
	unsigned int n, lost;
	struct {
		enum stub_log_level level;
		char text[LATER_TEXT];
	} line[LATER_MAX];
} later = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void log_line(enum stub_log_level level, const char *msg)
{
	switch (level) {
	case STUB_LOG_ERROR:
		DBG_ERR("%s\n", msg);
		break;
	case STUB_LOG_WARN:
		DBG_WARNING("%s\n", msg);
		break;
	case STUB_LOG_INFO:
		DBG_NOTICE("%s\n", msg);
		break;
	case STUB_LOG_DEBUG:
		DBG_DEBUG("%s\n", msg);
		break;
	}
}

static void log_later(void)
{
	pthread_mutex_lock(&later.lock);
	for (unsigned int i = 0; i < later.n; i++)
		log_line(later.line[i].level, later.line[i].text);
	if (later.lost)
		DBG_WARNING("%u lines of libstubcore are lost\n", later.lost);
	later.n = later.lost = 0;
	pthread_mutex_unlock(&later.lock);
}

void glue_log(void *arg, enum stub_log_level level, const char *msg)
{
	if (syscall(SYS_gettid) == getpid()) {
		log_line(level, msg);
		return;
	}
	pthread_mutex_lock(&later.lock);
	if (later.n < LATER_MAX) {
		later.line[later.n].level = level;
		snprintf(later.line[later.n++].text, LATER_TEXT, "%s", msg);
	} else {
		later.lost++;
	}
	pthread_mutex_unlock(&later.lock);
}

/* ---- root ---- */

bool glue_root_enter(void)
{
	log_later();
	if (geteuid() == 0)
		return false;
	become_root();
	return true;
}

void glue_root_leave(bool entered)
{
	int saved = errno;

	if (entered)
		unbecome_root();
	errno = saved;
}
