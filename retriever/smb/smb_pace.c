// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * smb_pace.c - who may log on, and when.
 *
 * Domains lock an account after a few failed logons, so a refusal counts for all connections:
 * one logon is under way at a time, and after one that was refused there is none for
 * a minute, then two, at last for a quarter of an hour - but at once with another password,
 * with newer tickets, or when the administrator says so (source_reload()).  The file with
 * the password is looked at again from time to time: only other content is a reason to try.
 *
 * The connection that has the turn (pace.dialing) owns smb_source.login and pace.file;
 * everything else of pace is guarded by smb_source.lock.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "smb/smb.h"

#define REFUSED_MIN_MS (60 * 1000)
#define REFUSED_MAX_MS (15 * 60 * 1000)
#define LOOK_MS	       1000 /* between two looks whether the file has changed */

static void look(const char *path, struct stat *out)
{
	if (!path || stat(path, out) < 0)
		memset(out, 0, sizeof(*out));
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_uid == b->st_uid;
}

int smb_pace_prepare(struct smb_source *s, const char *credentials, char *why, size_t size)
{
	s->pace.path = strdup(credentials);
	if (!s->pace.path) {
		snprintf(why, size, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	look(s->pace.path, &s->pace.file);
	return smb_login_read(credentials, &s->login, why, size);
}

/* With the turn, without the lock: read the file if it has changed.  Is it another login? */
static bool read_again(struct smb_source *s)
{
	struct smb_login login;
	char why[SMB_WHY_MAX];
	struct stat st;
	bool another;
	int r;

	look(s->pace.path, &st);
	if (same_file(&st, &s->pace.file))
		return false;
	s->pace.file = st;
	r = smb_login_read(s->pace.path, &login, why, sizeof(why));
	if (r < 0)
		smb_log(s, STUB_LOG_WARN, "source %s: %s; what was read before still counts",
			s->uri.host, why);
	another = r == 0 && memcmp(&login, &s->login, sizeof(login)) != 0;
	if (another) {
		s->login = login;
		smb_log(s, STUB_LOG_INFO, "source %s: %s was read again", s->uri.host,
			s->pace.path);
	}
	explicit_bzero(&login, sizeof(login));
	return another;
}

/* With the lock: may a logon be tried now? */
static bool is_time(struct smb_source *s)
{
	const struct smb_pace *p = &s->pace;

	return !p->refused || p->hurry || stub_now_ms() >= p->next_ms ||
	       (s->ticket && tickets_serial(s->ticket) != p->serial);
}

static void turn_over(struct smb_source *s)
{
	s->pace.dialing = false;
	pthread_cond_broadcast(&s->work);
}

/* With the lock: has the file changed to another login?  Takes the turn to read it, and keeps it
 * if so. */
static bool try_file(struct smb_source *s)
{
	struct stat st;
	bool another;

	look(s->pace.path, &st);
	if (!s->pace.path || same_file(&st, &s->pace.file))
		return false;
	s->pace.dialing = true;
	pthread_mutex_unlock(&s->pool.lock);
	another = read_again(s);
	pthread_mutex_lock(&s->pool.lock);
	if (!another)
		turn_over(s);
	return another;
}

bool smb_pace_begin(struct smb_source *s, bool patient)
{
	bool mine = false;

	pthread_mutex_lock(&s->pool.lock);
	while (!s->pool.stop && !mine) {
		uint64_t until = stub_now_ms() + LOOK_MS;

		if (s->pace.dialing) {
			smb_wait_work(s, until);
		} else if (is_time(s)) {
			mine = s->pace.dialing = true;
			s->pace.hurry = false;
		} else if (!patient) {
			break;
		} else if (try_file(s)) {
			mine = true;
		} else if (!s->pool.stop) {
			smb_wait_work(s, s->pace.next_ms < until ? s->pace.next_ms : until);
		}
	}
	pthread_mutex_unlock(&s->pool.lock);
	if (mine)
		read_again(s);
	return mine;
}

void smb_pace_end(struct smb_source *s, int result, const char *why, uint64_t serial)
{
	struct smb_pace *p = &s->pace;
	unsigned int wait_s = 0;

	pthread_mutex_lock(&s->pool.lock);
	if (result == -EKEYREJECTED) {
		p->backoff_ms = !p->backoff_ms			   ? REFUSED_MIN_MS :
				p->backoff_ms * 2 > REFUSED_MAX_MS ? REFUSED_MAX_MS :
								     p->backoff_ms * 2;
		p->refused = true;
		p->next_ms = stub_now_ms() + p->backoff_ms;
		p->serial = serial;
		snprintf(p->why, sizeof(p->why), "%s", why);
		snprintf(s->pool.trouble, sizeof(s->pool.trouble), "%s", why);
		wait_s = p->backoff_ms / 1000;
	} else if (result == 0 || stub_now_ms() >= p->next_ms) {
		if (p->refused) /* what is wrong now, if anything is, is said by who has met it */
			s->pool.trouble[0] = '\0';
		p->refused = false;
		if (result == 0)
			p->backoff_ms = 0;
	}
	turn_over(s);
	pthread_mutex_unlock(&s->pool.lock);
	if (wait_s)
		smb_log(s, STUB_LOG_WARN, "source %s: %s; mend %s, or the account; next try in %u s",
			s->uri.host, why, p->path ? p->path : "it", wait_s);
}

void smb_pace_hurry(struct smb_source *s)
{
	pthread_mutex_lock(&s->pool.lock);
	s->pace.hurry = true;
	memset(&s->pace.file, 0, sizeof(s->pace.file)); /* so that the file is read in any case */
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->pool.lock);
	tickets_hurry(s->ticket);
}

void smb_pace_state(struct smb_source *s, struct source_state *out)
{
	const struct smb_pace *p = &s->pace;
	uint64_t now = stub_now_ms(), next = p->next_ms;
	char trouble[SMB_WHY_MAX];

	out->refused = p->refused;
	if (!p->refused && strstr(out->trouble, "Kerberos")) {
		next = tickets_refused(s->ticket);
		out->refused = next != 0;
	}
	if (!out->refused)
		return;
	out->next_try_ms = next > now ? next - now : 0;
	snprintf(trouble, sizeof(trouble), "%.255s", p->refused ? p->why : out->trouble);
	snprintf(out->trouble, sizeof(out->trouble), "%s; mend %.150s, or the account; next try in %u s",
		 trouble, p->path ? p->path : "it",
		 (unsigned int)((out->next_try_ms + 999) / 1000));
}
