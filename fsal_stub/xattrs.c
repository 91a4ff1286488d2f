/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * xattrs.c - extended attributes: RFC 8276's, and the older calls by id.
 *
 * Records are invisible and untouchable (docs/design.md, invariants 8 and 9), and a change moves
 * the ctime that is shown, so it is in the bracket, which owes a mirror the attributes.
 */
#include "config.h"
#include "fsal.h"

#include <string.h>

#include "stub_glue.h"

static bool hides(const xattrkey4 *name)
{
	return stubfs_hides_xattr(name->utf8string_val, name->utf8string_len);
}

/* ---- RFC 8276 ---- */

static fsal_status_t obj_getxattrs(struct fsal_obj_handle *obj, xattrkey4 *name, xattrvalue4 *value)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	if (hides(name))
		return fsalstat(ERR_FSAL_NOXATTR, 0);
	return below(sub->obj_ops->getxattrs(sub, name, value));
}

static fsal_status_t change_begin(struct fsal_obj_handle *obj, struct stub_bracket *change)
{
	struct stub_wait wait = { 0 };

	return glue_status(stub_bracket_attrs(FRONT(stubfs_obj(obj)), &wait, change));
}

static fsal_status_t obj_setxattrs(struct fsal_obj_handle *obj, setxattr_option4 option,
				   xattrkey4 *name, xattrvalue4 *value)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_bracket change;
	fsal_status_t status;

	if (hides(name))
		return fsalstat(ERR_FSAL_ACCESS, 0);
	status = change_begin(obj, &change);
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(sub->obj_ops->setxattrs(sub, option, name, value));
	return glue_end(&change, status);
}

static fsal_status_t obj_removexattrs(struct fsal_obj_handle *obj, xattrkey4 *name)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_bracket change;
	fsal_status_t status;

	if (hides(name))
		return fsalstat(ERR_FSAL_NOXATTR, 0);
	status = change_begin(obj, &change);
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(sub->obj_ops->removexattrs(sub, name));
	return glue_end(&change, status);
}

static fsal_status_t obj_listxattrs(struct fsal_obj_handle *obj, count4 max, nfs_cookie4 *cookie,
				    bool_t *eof, xattrlist4 *names)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	fsal_status_t status = below(sub->obj_ops->listxattrs(sub, max, cookie, eof, names));
	count4 kept = 0;

	if (FSAL_IS_ERROR(status))
		return status;
	for (count4 i = 0; i < names->xl4_count; i++)
		if (!hides(&names->xl4_entries[i]))
			names->xl4_entries[kept++] = names->xl4_entries[i];
	names->xl4_count = kept;
	return status;
}

/* ---- the older calls ---- */

static bool hides_text(const char *name)
{
	return stubfs_hides_xattr(name, strlen(name));
}

static fsal_status_t obj_list_ext_attrs(struct fsal_obj_handle *obj, unsigned int cookie,
					fsal_xattrent_t *entries, unsigned int size,
					unsigned int *count, int *end)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	fsal_status_t status =
		below(sub->obj_ops->list_ext_attrs(sub, cookie, entries, size, count, end));
	unsigned int kept = 0;

	if (FSAL_IS_ERROR(status))
		return status;
	for (unsigned int i = 0; i < *count; i++)
		if (!hides_text(entries[i].xattr_name))
			entries[kept++] = entries[i];
	*count = kept;
	return status;
}

static fsal_status_t obj_id_by_name(struct fsal_obj_handle *obj, const char *name, unsigned int *id)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	if (hides_text(name))
		return fsalstat(ERR_FSAL_NOENT, 0);
	return below(sub->obj_ops->getextattr_id_by_name(sub, name, id));
}

static fsal_status_t obj_value_by_name(struct fsal_obj_handle *obj, const char *name, void *buf,
				       size_t size, size_t *length)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);

	if (hides_text(name))
		return fsalstat(ERR_FSAL_NOENT, 0);
	return below(sub->obj_ops->getextattr_value_by_name(sub, name, buf, size, length));
}

static fsal_status_t obj_set_value(struct fsal_obj_handle *obj, const char *name, void *buf,
				   size_t size, int create)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_bracket change;
	fsal_status_t status;

	if (hides_text(name))
		return fsalstat(ERR_FSAL_ACCESS, 0);
	status = change_begin(obj, &change);
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(sub->obj_ops->setextattr_value(sub, name, buf, size, create));
	return glue_end(&change, status);
}

static fsal_status_t obj_remove_by_name(struct fsal_obj_handle *obj, const char *name)
{
	struct fsal_obj_handle *sub = stubfs_below(obj);
	struct stub_bracket change;
	fsal_status_t status;

	if (hides_text(name))
		return fsalstat(ERR_FSAL_NOENT, 0);
	status = change_begin(obj, &change);
	if (FSAL_IS_ERROR(status))
		return status;
	status = below(sub->obj_ops->remove_extattr_by_name(sub, name));
	return glue_end(&change, status);
}

/* An id does not say whose it is, and no protocol uses them: refused. */

static fsal_status_t obj_value_by_id(struct fsal_obj_handle *obj, unsigned int id, void *buf,
				     size_t size, size_t *length)
{
	return fsalstat(ERR_FSAL_NOTSUPP, 0);
}

static fsal_status_t obj_set_value_by_id(struct fsal_obj_handle *obj, unsigned int id, void *buf,
					 size_t size)
{
	return fsalstat(ERR_FSAL_NOTSUPP, 0);
}

static fsal_status_t obj_remove_by_id(struct fsal_obj_handle *obj, unsigned int id)
{
	return fsalstat(ERR_FSAL_NOTSUPP, 0);
}

void stubfs_xattr_ops(struct fsal_obj_ops *ops)
{
	ops->getxattrs = obj_getxattrs;
	ops->setxattrs = obj_setxattrs;
	ops->removexattrs = obj_removexattrs;
	ops->listxattrs = obj_listxattrs;
	ops->list_ext_attrs = obj_list_ext_attrs;
	ops->getextattr_id_by_name = obj_id_by_name;
	ops->getextattr_value_by_name = obj_value_by_name;
	ops->getextattr_value_by_id = obj_value_by_id;
	ops->setextattr_value = obj_set_value;
	ops->setextattr_value_by_id = obj_set_value_by_id;
	ops->remove_extattr_by_id = obj_remove_by_id;
	ops->remove_extattr_by_name = obj_remove_by_name;
}
