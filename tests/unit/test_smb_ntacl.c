// SPDX-License-Identifier: GPL-3.0-or-later
/* test_smb_ntacl.c - retriever/windows/smb_ntacl.c: the bytes are those of Samba's libraries */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "windows/smb_ndr.h"
#include "windows/smb_ntacl.h"

#define ENTRIES 12
#define ROUNDS	2000
/* where the descriptor begins in the attribute */
#define BEFORE	160

static uint32_t some(uint32_t n)
{
	return (uint32_t)random() % n;
}

static struct smb_sid a_sid(void)
{
	struct smb_sid domain = { 5, 5, { 21, 1, 2, 3, some(70000) } };

	switch (some(6)) {
	case 0:
		return smb_sid_user(some(2) ? some(70000) : UINT32_MAX - 1);
	case 1:
		return smb_sid_group(some(70000));
	case 2:
		return smb_sid_everyone;
	case 3:
		return smb_sid_creator;
	case 4:
		return smb_sid_creators_group;
	default:
		return domain;
	}
}

static struct smb_posix_entry e[2][ENTRIES + 4];

static struct smb_posix_acl a_posix_acl(struct smb_posix_entry *at)
{
	struct smb_posix_acl acl = { at, 0 };
	unsigned int users = some(3), groups = some(3);

	at[acl.n++] = (struct smb_posix_entry){ SMB_USER_OBJ, (uint16_t)some(8), UINT32_MAX };
	for (unsigned int i = 0; i < users; i++)
		at[acl.n++] = (struct smb_posix_entry){ SMB_USER, (uint16_t)some(8), 1000 + i };
	at[acl.n++] = (struct smb_posix_entry){ SMB_GROUP_OBJ, (uint16_t)some(8), UINT32_MAX };
	for (unsigned int i = 0; i < groups; i++)
		at[acl.n++] = (struct smb_posix_entry){ SMB_GROUP, (uint16_t)some(8), 1000 + i };
	if (users + groups)
		at[acl.n++] = (struct smb_posix_entry){ SMB_MASK, (uint16_t)some(8), UINT32_MAX };
	at[acl.n++] = (struct smb_posix_entry){ SMB_OTHER, (uint16_t)some(8), UINT32_MAX };
	return acl;
}

/* The descriptor by itself: its offsets count from its own beginning then. */
static void alone(uint8_t *sd)
{
	for (size_t at = 4; at <= 16; at += 4) {
		unsigned int offset = (unsigned int)sd[at] | (unsigned int)sd[at + 1] << 8;

		if (!offset)
			continue; /* no SACL */
		offset -= BEFORE;
		sd[at] = (uint8_t)offset;
		sd[at + 1] = (uint8_t)(offset >> 8);
	}
}

static void same_as_sambas(const struct smb_sd *sd, const struct smb_posix *p, mode_t type)
{
	struct smb_ndr_sd *parsed;
	const struct smb_sd *view;
	void *ours, *theirs, *copy;
	char why[SMB_NDR_WHY];
	size_t n, m;

	assert_int_equal(smb_ntacl_make(sd, p, type, &ours, &n), 0);
	copy = malloc(n - BEFORE);
	assert_non_null(copy);
	memcpy(copy, (char *)ours + BEFORE, n - BEFORE);
	alone(copy);
	assert_int_equal(smb_ndr_sd_parse(copy, n - BEFORE, &parsed, why), 0);
	view = smb_ndr_sd_view(parsed);
	assert_true(view->dacl_present && !view->dacl_null && view->n == sd->n);
	assert_int_equal(smb_sid_cmp(&view->owner, &sd->owner), 0);
	assert_int_equal(smb_sid_cmp(&view->group, &sd->group), 0);
	for (size_t i = 0; i < sd->n; i++) {
		assert_true(view->aces[i].type == sd->aces[i].type &&
			    view->aces[i].flags == sd->aces[i].flags &&
			    view->aces[i].mask == sd->aces[i].mask);
		assert_int_equal(smb_sid_cmp(&view->aces[i].sid, &sd->aces[i].sid), 0);
	}
	assert_int_equal(smb_ndr_ntacl(parsed, p, type, 0, &theirs, &m), 0);
	assert_int_equal(n, m);
	assert_memory_equal(ours, theirs, n);
	smb_ndr_sd_destroy(parsed);
	free(ours);
	free(theirs);
	free(copy);
}

static void bytes_are_sambas(void **state)
{
	srandom(7);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		mode_t type = some(2) ? S_IFDIR : S_IFREG;
		struct smb_ace ace[ENTRIES];
		struct smb_sd sd = { .has_owner = true, .has_group = true, .dacl_present = true,
				     .owner = a_sid(), .group = a_sid(), .aces = ace,
				     .n = some(ENTRIES + 1) };
		struct smb_posix p = { .uid = some(70000), .gid = UINT32_MAX - 1 - some(9),
				       .mode = some(010000) };

		for (size_t i = 0; i < sd.n; i++)
			ace[i] = (struct smb_ace){ (uint8_t)some(2), (uint8_t)some(32),
						   some(0x200000), a_sid() };
		p.access = a_posix_acl(e[0]);
		if (S_ISDIR(type) && some(2))
			p.def = a_posix_acl(e[1]);
		same_as_sambas(&sd, &p, type);
	}
}

static void too_many(void **state)
{
	struct smb_ace *ace = calloc(SMB_ACES_MAX, sizeof(*ace));
	struct smb_sd sd = { .has_owner = true, .has_group = true, .dacl_present = true,
			     .owner = smb_sid_everyone, .group = smb_sid_everyone, .aces = ace,
			     .n = SMB_ACES_MAX };
	struct smb_posix p = { .mode = 0700, .access = a_posix_acl(e[0]) };
	void *value;
	size_t len;

	assert_non_null(ace);
	for (size_t i = 0; i < sd.n; i++)
		ace[i].sid = smb_sid_user((uint32_t)i);
	assert_int_equal(smb_ntacl_make(&sd, &p, S_IFREG, &value, &len), -E2BIG);
	sd.n = 2000; /* what Samba takes */
	same_as_sambas(&sd, &p, S_IFREG);
	free(ace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_sambas),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
