/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dos_attrib.h - when an object was made, as Samba stores it. */
#ifndef DOS_ATTRIB_H
#define DOS_ATTRIB_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DOS_ATTRIB	 "user.DOSATTRIB"
#define DOS_ATTRIB_BYTES 24

/* The value of that attribute for an object that was made at @born, and of whose DOS attributes
 * nothing else is known.  False: the time cannot be expressed (before 1601, or after 30828). */
bool dos_attrib_born(bool dir, const struct timespec *born, uint8_t out[DOS_ATTRIB_BYTES]);

#endif
