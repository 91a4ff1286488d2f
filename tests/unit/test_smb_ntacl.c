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

/* What is read is what was stored; in force only while owner, group, mode and ACLs are as they were. */
static void is_read_again(const void *value, size_t n, const void *sd, size_t sd_len, const struct smb_posix *p,
			  mode_t type)
{
	struct smb_posix other[4] = { *p, *p, *p, *p };
	void *got;
	size_t len;
	bool in_force;

	assert_int_equal(smb_ndr_ntacl_parse(value, n, p, type, &got, &len, &in_force), 0);
	assert_true(in_force);
	assert_true(smb_ndr_sd_same(got, len, sd, sd_len, true));
	free(got);
	other[0].mode ^= 0200;
	other[1].uid++;
	other[2].gid++;
	other[3].access.e[0].perm ^= 2;
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(smb_ndr_ntacl_parse(value, n, &other[i], type, &got, &len, &in_force), 0);
		assert_false(in_force);
		free(got);
	}
	p->access.e[0].perm ^= 2; /* which is shared */
	assert_int_equal(smb_ndr_ntacl_parse(value, n / 2, p, type, &got, &len, &in_force), -EBADMSG);
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
	is_read_again(ours, n, copy, n - BEFORE, p, type);
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

static void *sent(const struct smb_sd *sd, bool sacl, size_t *len)
{
	struct smb_posix p = { .mode = 0700, .access = a_posix_acl(e[0]) };
	void *value, *plain, *out;
	size_t n, m;
	bool in_force;

	assert_int_equal(smb_ntacl_make(sd, &p, S_IFREG, &value, &n), 0);
	assert_int_equal(smb_ndr_ntacl_parse(value, n, &p, S_IFREG, &plain, &m, &in_force), 0);
	assert_int_equal(smb_ndr_sd_to_send(plain, m, sacl, &out, len), 0);
	assert_true(smb_ndr_sd_same(plain, m, out, *len, sacl));
	free(value);
	free(plain);
	return out;
}

static void others_are_told_apart(void **state)
{
	struct smb_ace ace[2] = { { 0, 0, 7, smb_sid_everyone }, { 1, 3, 8, smb_sid_user(5) } };
	const struct smb_sd sd = { .has_owner = true, .has_group = true, .dacl_present = true,
				   .owner = smb_sid_user(1), .group = smb_sid_group(2), .aces = ace, .n = 2 };
	size_t n, m;
	void *a = sent(&sd, true, &n), *b;

	for (unsigned int i = 0; i < 6; i++) {
		struct smb_ace changed[2] = { ace[0], ace[1] };
		struct smb_sd other = sd;

		other.aces = changed;
		switch (i) {
		case 0:
			other.owner = smb_sid_user(2);
			break;
		case 1:
			other.group = smb_sid_group(3);
			break;
		case 2:
			other.n = 1;
			break;
		case 3:
			changed[1].mask++;
			break;
		case 4:
			changed[1].flags ^= 1;
			break;
		default:
			changed[1].sid = smb_sid_user(6);
		}
		b = sent(&other, true, &m);
		assert_false(smb_ndr_sd_same(a, n, b, m, true));
		free(b);
	}
	assert_false(smb_ndr_sd_same(a, n, a, n / 2, true));
	free(a);
}

static void attributes_are_read_again(void **state)
{
	static const uint64_t times[] = { 0, 1, 132000000000000000 };
	uint32_t attributes;
	uint64_t born;
	void *value;
	size_t len;

	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(smb_ndr_dosattrib(0x23, times[i], &value, &len), 0);
		assert_int_equal(smb_ndr_dosattrib_parse(value, len, &attributes, &born), 0);
		assert_true(attributes == 0x23 && born == times[i]);
		assert_int_equal(smb_ndr_dosattrib_parse(value, len - 9, &attributes, &born), -EBADMSG);
		free(value);
	}
	assert_int_equal(smb_ndr_dosattrib_parse("0x20", 5, &attributes, &born), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_sambas),
		cmocka_unit_test(too_many),
		cmocka_unit_test(others_are_told_apart),
		cmocka_unit_test(attributes_are_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
