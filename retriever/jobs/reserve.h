/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reserve.h - room on the volume that is kept for removals (reserve.c).
 */
#ifndef RESERVE_H
#define RESERVE_H

#include <pthread.h>
#include <stdbool.h>

struct reserve {
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t wake;
	pthread_t thread;
	bool started, stop;
	bool lacking; /* the room could not be had yet, or was released */
	int dir_fd; /* .postcopy, -1: there is none */
};

int reserve_start(struct reserve *r, int volume_fd);
void reserve_stop(struct reserve *r); /* a struct of zeros too; the room stays kept */
bool reserve_release(struct reserve *r); /* true: there was some */

#endif
