/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reasons.c - the table of reasons, and which one an entry of the journal has.
 *
 * The text of an entry begins with words of ours (retriever/jobs/), which say what was being
 * done; names from outside come later in it, and are not looked at.
 */
#include <errno.h>
#include <string.h>

#include "admin/reasons.h"

enum {
	DENIED,
	READ_ERROR,
	CUT_SHORT,
	GONE_THERE,
	BAD_ANSWER,
	LIST_FAILED,
	NAME_REFUSED,
	NAME_UNREADABLE,
	DOES_NOT_FIT,
	STORE_FAILED,
	DAMAGED_RECORD,
	OTHER_ERROR,
	CHANGED_THERE,
	CHANGED_HERE,
	OTHER_CONFLICT,
};

const struct reason reasons[REASONS] = {
	[DENIED] = { "denied", STUB_PARK_ERROR, "the old server does not let us read it",
		     "over there, give the user that we come as the right to read it, then "
		     "'postcopy retry denied'" },
	[READ_ERROR] = { "read-error", STUB_PARK_ERROR,
			 "reading it fails on the old server (I/O error)",
			 "look at the old server's disks and log, restore it over there, then "
			 "'postcopy retry read-error'; or 'postcopy skip PATH'" },
	[CUT_SHORT] = { "cut-short", STUB_PARK_ERROR,
			"the old server sends fewer bytes than it says the file has",
			"see over there whether it can be read to its end, then "
			"'postcopy retry cut-short'; or 'postcopy skip PATH'" },
	[GONE_THERE] = { "gone-there", STUB_PARK_ERROR, "the old server has it no more",
			 "remove it here through a client if it was removed over there; if it "
			 "is back, 'postcopy retry gone-there'; or 'postcopy skip PATH'" },
	[BAD_ANSWER] = { "bad-answer", STUB_PARK_ERROR,
			 "what the old server says of it makes no sense, or is more than we take",
			 "see the retriever's log, and mend it over there, then "
			 "'postcopy retry bad-answer'; or 'postcopy skip PATH'" },
	[LIST_FAILED] = { "list-failed", STUB_PARK_ERROR,
			  "the directory cannot be listed to its end",
			  "see over there whether it can be listed, then "
			  "'postcopy retry list-failed'; or 'postcopy skip PATH'" },
	[NAME_REFUSED] = { "name-refused", STUB_PARK_ERROR,
			   "the new file system does not take a name of this directory",
			   "rename over there what the retriever's log names, then "
			   "'postcopy retry name-refused'; or 'postcopy skip PATH' goes without" },
	[NAME_UNREADABLE] = { "name-unreadable", STUB_PARK_ERROR,
			      "the old server lists a name of this directory, and tells nothing of "
			      "what it is",
			      "mend or remove over there what the retriever's log names, then "
			      "'postcopy retry name-unreadable'; or 'postcopy skip PATH' goes "
			      "without" },
	[DOES_NOT_FIT] = { "does-not-fit", STUB_PARK_ERROR,
			   "its attributes, streams or ACL do not fit on the new file system",
			   "make them smaller over there, then 'postcopy retry does-not-fit'; or "
			   "'postcopy skip PATH'" },
	[STORE_FAILED] = { "store-failed", STUB_PARK_ERROR, "the new volume could not store it",
			   "look at the new server's disk and kernel log, then "
			   "'postcopy retry store-failed'" },
	[DAMAGED_RECORD] = { "damaged-record", STUB_PARK_ERROR,
			     "its record on the new volume is damaged",
			     "look at the new server's disk; remove it here through a client and "
			     "copy it by hand" },
	[OTHER_ERROR] = { "other-error", STUB_PARK_ERROR, "it fails, as is told beside it",
			  "look at the retriever's log, then 'postcopy retry other-error'; or "
			  "'postcopy skip PATH'" },
	[CHANGED_THERE] = { "changed-there", STUB_PARK_CONFLICT,
			    "it was changed or replaced on the old server after it was listed",
			    "stop who writes over there; 'postcopy accept --theirs PATH' takes the "
			    "old server's present version, 'postcopy accept --ours PATH' what is "
			    "here" },
	[CHANGED_HERE] = { "changed-here", STUB_PARK_CONFLICT,
			   "it was written on the new server itself, past Ganesha and Samba",
			   "stop the local program; 'postcopy accept --ours PATH' if all of it was "
			   "written, else 'postcopy accept --theirs PATH'" },
	[OTHER_CONFLICT] = { "other-conflict", STUB_PARK_CONFLICT,
			     "it is not what was listed, as is told beside it",
			     "'postcopy accept --theirs PATH', or 'postcopy accept --ours PATH'" },
};

/* The first that fits counts. */
static const struct rule {
	enum stub_park park;
	const char *text; /* the entry's begins with it; NULL: any */
	int error; /* 0: any */
	size_t reason;
} rules[] = {
	{ STUB_PARK_CONFLICT, "changed on the new server itself", 0, CHANGED_HERE },
	{ STUB_PARK_CONFLICT, "changed on the old server", 0, CHANGED_THERE },
	{ STUB_PARK_CONFLICT, "replaced on the old server", 0, CHANGED_THERE },
	{ STUB_PARK_CONFLICT, "the object has been replaced", 0, CHANGED_THERE },
	{ STUB_PARK_CONFLICT, NULL, 0, OTHER_CONFLICT },
	{ STUB_PARK_ERROR, "refused here: ", 0, NAME_REFUSED },
	{ STUB_PARK_ERROR, "not to be had: ", 0, NAME_UNREADABLE },
	{ STUB_PARK_ERROR, "stub record", 0, DAMAGED_RECORD },
	{ STUB_PARK_ERROR, "refused names", 0, DAMAGED_RECORD },
	{ STUB_PARK_ERROR, "new volume, ", 0, STORE_FAILED },
	{ STUB_PARK_ERROR, "write to the new volume", 0, STORE_FAILED },
	{ STUB_PARK_ERROR, "read: shorter", 0, CUT_SHORT },
	{ STUB_PARK_ERROR, "attribute ", 0, DOES_NOT_FIT },
	{ STUB_PARK_ERROR, "listing a directory: broken off", 0, LIST_FAILED },
	{ STUB_PARK_ERROR, NULL, EACCES, DENIED },
	{ STUB_PARK_ERROR, NULL, EPERM, DENIED },
	{ STUB_PARK_ERROR, NULL, ESTALE, GONE_THERE },
	{ STUB_PARK_ERROR, NULL, ENOENT, GONE_THERE },
	{ STUB_PARK_ERROR, NULL, EBADMSG, BAD_ANSWER },
	{ STUB_PARK_ERROR, NULL, EPROTO, BAD_ANSWER },
	{ STUB_PARK_ERROR, "listing", 0, LIST_FAILED },
	{ STUB_PARK_ERROR, NULL, E2BIG, DOES_NOT_FIT },
	{ STUB_PARK_ERROR, NULL, EOVERFLOW, DOES_NOT_FIT },
	{ STUB_PARK_ERROR, NULL, EIO, READ_ERROR },
	{ STUB_PARK_ERROR, NULL, EREMOTEIO, READ_ERROR },
};

size_t reason_of(const struct stub_journal_entry *e)
{
	int64_t error = e->error < 0 ? -(int64_t)e->error : e->error;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *r = &rules[i];

		if (r->park == e->park && (!r->error || r->error == error) &&
		    (!r->text || !strncmp(r->text, e->reason, strlen(r->text))))
			return r->reason;
	}
	return OTHER_ERROR;
}
