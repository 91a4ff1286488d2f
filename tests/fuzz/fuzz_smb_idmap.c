/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fuzz_smb_idmap.c - the table of identities, and SIDs as text.
 *
 * What is taken gives each SID at most one user and group, of numbers that chown() takes;
 * what is not names the line.
 */
#include <errno.h>

#include "fuzz.h"
#include "windows/smb_idmap.h"

/* Ask for every word that is a SID, and its neighbours. */
static void ask(const struct smb_idmap *m, const char *text, size_t len)
{
	char buf[SMB_SID_TEXT];
	struct smb_sid sid, again;
	struct smb_id id;

	if (smb_sid_parse(text, len, &sid) < 0)
		return;
	CHECK(sid.n <= SMB_SID_SUBS && sid.authority >> 48 == 0);
	smb_sid_text(&sid, buf);
	CHECK(smb_sid_parse(buf, strlen(buf), &again) == 0 && !smb_sid_cmp(&sid, &again));
	for (int step = -1; step <= 1; step++) {
		again = sid;
		if (sid.n)
			again.sub[sid.n - 1] += (uint32_t)step;
		smb_idmap_find(m, &again, &id);
		CHECK(!id.has_uid || id.uid != UINT32_MAX);
		CHECK(!id.has_gid || id.gid != UINT32_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), why[SMB_IDMAP_WHY] = "";
	struct smb_idmap *m = NULL;
	int r = smb_idmap_parse(text, size, "map", &m, why);

	if (r == 0) {
		CHECK(smb_idmap_default_uid(m) != UINT32_MAX);
		CHECK(smb_idmap_default_gid(m) != UINT32_MAX);
		for (char *word = strtok(text, " \t\r\n#"); word; word = strtok(NULL, " \t\r\n#"))
			ask(m, word, strlen(word));
		smb_idmap_destroy(m);
	} else {
		CHECK(r == -EINVAL && !m && !strncmp(why, "map line ", 9));
		CHECK(strnlen(why, sizeof(why)) < sizeof(why));
	}
	free(text);
	return 0;
}
