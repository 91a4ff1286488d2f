/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_smb_acl.c - a security descriptor's POSIX mode and ACL.
 *
 * Whatever the descriptor says, the kernel takes the ACL: entries in order, each user and
 * group once, a mask where there must be one, and a mode that agrees with it.  That it
 * gives nobody more is judged in tests/unit/test_smb_acl.c.
 */
#include "fuzz.h"
#include "windows/smb_acl.h"

#define ACES 600

static struct smb_idmap *map;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char table[] = "uid 1-90 S-1-5-21-1\ngid 30-120 S-1-5-21-30\n"
				    "everyone S-1-5-32-545\n";
	char why[SMB_IDMAP_WHY];

	CHECK(smb_idmap_parse(table, sizeof(table) - 1, "map", &map, why) == 0);
	return 0;
}

/* Users, groups, both, unknown ones, and the well-known. */
static struct smb_sid take_sid(struct fuzz_in *in)
{
	uint32_t x = (uint32_t)fuzz_take(in, 1);

	if (x < 140)
		return (struct smb_sid){ 5, 2, { 21, x } };
	if (x < 170)
		return (struct smb_sid){ 5, 1, { x - 140 } };
	if (x < 180)
		return (struct smb_sid){ 3, 1, { x - 170 } };
	if (x < 190)
		return (struct smb_sid){ 5, 2, { 32, 540 + x - 180 } };
	return (struct smb_sid){ x & 1, 1, { 0 } };
}

static void check_acl(const struct smb_posix_acl *acl, size_t most)
{
	size_t i = 1, last = acl->n - 1;
	unsigned int mask = 0;
	uint32_t id = 0;

	CHECK(acl->n == 3 || (acl->n >= 5 && acl->n <= most));
	CHECK(acl->e[0].tag == SMB_USER_OBJ && acl->e[last].tag == SMB_OTHER);
	for (; acl->e[i].tag == SMB_USER; i++, id = acl->e[i - 1].id + 1) {
		CHECK(acl->e[i].id >= id && acl->e[i].id != UINT32_MAX);
		mask |= acl->e[i].perm;
	}
	CHECK(acl->e[i].tag == SMB_GROUP_OBJ);
	mask |= acl->e[i++].perm;
	for (id = 0; acl->e[i].tag == SMB_GROUP; i++, id = acl->e[i - 1].id + 1) {
		CHECK(acl->e[i].id >= id && acl->e[i].id != UINT32_MAX);
		mask |= acl->e[i].perm;
	}
	if (acl->n > 3) {
		CHECK(acl->e[i].tag == SMB_MASK && acl->e[i].perm == mask);
		i++;
	}
	CHECK(i == last);
	for (i = 0; i < acl->n; i++)
		CHECK(acl->e[i].perm <= 7);
}

static void check_mode(const struct smb_posix *p, bool dir)
{
	const struct smb_posix_entry *e = p->access.e;
	size_t last = p->access.n - 1; /* before it the mask, or the group */

	CHECK((p->mode >> 6 & 7) == e[0].perm && (p->mode & 7) == e[last].perm);
	CHECK((p->mode >> 3 & 7) == e[last - 1].perm);
	CHECK(!(p->mode & ~(dir ? 01777u : 0777u)));
	CHECK(p->uid != UINT32_MAX && p->gid != UINT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct smb_ace aces[ACES];
	struct fuzz_in in = { data, size };
	unsigned int flags = fuzz_take(&in, 1) & 7, bits = (unsigned int)fuzz_take(&in, 1);
	size_t max = fuzz_take(&in, 1), len, most = max > 5 ? max : 5;
	struct smb_sd sd = { .has_owner = bits & 1,
			     .has_group = bits & 2,
			     .dacl_present = bits & 4,
			     .dacl_null = bits & 8,
			     .aces = aces };
	struct smb_posix p;
	void *value;

	sd.owner = take_sid(&in);
	sd.group = take_sid(&in);
	for (; in.left && sd.n < ACES && !sd.dacl_null; sd.n++) {
		aces[sd.n].type = (uint8_t)fuzz_take(&in, 1);
		aces[sd.n].flags = (uint8_t)fuzz_take(&in, 1);
		aces[sd.n].mask = (uint32_t)fuzz_take(&in, 4);
		aces[sd.n].sid = take_sid(&in);
	}
	CHECK(smb_acl_map(map, &sd, flags, max, &p) == 0);
	check_acl(&p.access, most);
	check_mode(&p, flags & SMB_ACL_DIR);
	CHECK((flags & SMB_ACL_DIR) || !p.def.n);
	if (p.def.n)
		check_acl(&p.def, most);
	CHECK(smb_acl_encode(&p.access, &value, &len) == 0 && len == 4 + 8 * p.access.n);
	free(value);
	smb_posix_finish(&p);
	return 0;
}
