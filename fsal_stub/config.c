/* SPDX-License-Identifier: LGPL-3.0-or-later */
/*
 * config.c - an export comes into being: its FSAL block, its volume, its place in
 * the stack.  fsal-stub.8 describes the keys.
 */
#include "config.h"
#include "fsal.h"
#include "config_parsing.h"
#include "export_mgr.h"
#include "nfs_exports.h"
#include "FSAL/fsal_commonlib.h"

#include <errno.h>
#include <string.h>

#include "stub_glue.h"

#define DELAY_MAX   60000 /* ms; a client takes longer silence for a dead server */
#define GIVE_UP_MAX 31536000 /* s, a year */
#define WAITING_MAX 100000 /* requests */

struct block {
	struct subfsal_args sub;
	struct stubfs_options options;
	char *volume; /* UUID of the volume to be shown; NULL: whatever is there */
};

static struct config_item sub_items[] = {
	CONF_ITEM_STR("Name", 1, 10, NULL, subfsal_args, name),
	CONFIG_EOL,
};

static struct config_item block_items[] = {
	CONF_ITEM_NOOP("Name"),
	CONF_ITEM_UI32("Delay_V3", 0, DELAY_MAX, 1500, block, options.delay_v3),
	CONF_ITEM_UI32("Delay_V4", 0, DELAY_MAX, 400, block, options.delay_v4),
	CONF_ITEM_UI32("Delay_Mount", 0, DELAY_MAX, 25000, block, options.delay_mount),
	CONF_ITEM_UI32("Give_Up", 0, GIVE_UP_MAX, 0, block, options.give_up),
	CONF_ITEM_UI32("Max_Waiting", 1, WAITING_MAX, 64, block, options.max_waiting),
	CONF_ITEM_STR("Volume", 1, 64, NULL, block, volume),
	CONF_ITEM_BOOL("Never_Delay", false, block, options.never_delay),
	CONF_RELAX_BLOCK("FSAL", sub_items, noop_conf_init, subfsal_commit, block, sub),
	CONFIG_EOL,
};

static struct config_block block_desc = {
	.dbus_interface_name = "org.ganesha.nfsd.config.fsal.stub-export%d",
	.blk_desc.name = "FSAL",
	.blk_desc.type = CONFIG_BLOCK,
	.blk_desc.u.blk.init = noop_conf_init,
	.blk_desc.u.blk.params = block_items,
	.blk_desc.u.blk.commit = noop_conf_commit,
};

#define refuse(err, format, ...)                                                             \
	({                                                                                   \
		LogCrit(COMPONENT_CONFIG, "Export %d (%s): FSAL STUB: " format,              \
			op_ctx->ctx_export->export_id, CTX_FULLPATH(op_ctx), ##__VA_ARGS__); \
		(err)->invalid = true;                                                       \
		fsalstat(ERR_FSAL_INVAL, EINVAL);                                            \
	})

/* Reads the block.  The caller owns the texts in it and, if *fsal is set, a reference to
 * the module below; after an error too. */
static fsal_status_t block_read(void *node, struct config_error_type *err, struct block *b,
				struct fsal_module **fsal)
{
	memset(b, 0, sizeof(*b));
	if (load_config_from_node(node, &block_desc, b, true, err))
		return refuse(err, "the FSAL block has errors, see above");
	if (!b->sub.name)
		return refuse(err,
			      "says nothing of the FSAL below: FSAL { Name = VFS; } is missing");
	*fsal = lookup_fsal(b->sub.name);
	if (!*fsal)
		return refuse(err, "cannot find FSAL %s", b->sub.name);
	fsal_put(*fsal); /* loading the inner block took a reference that stays */
	if (strcasecmp(b->sub.name, "VFS"))
		return refuse(err, "stands over VFS only, not over %s", b->sub.name);
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static fsal_status_t check_permissions(struct config_error_type *err)
{
	const struct export_perms *p = &op_ctx->ctx_export->export_perms;

	if (p->options & p->set & EXPORT_OPTION_DELEGATIONS)
		return refuse(err, "Delegations must be None: a delegation would not see Samba");
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

/* *out is NULL where nothing is to be migrated. */
static fsal_status_t volume_open(struct config_error_type *err, struct stub_volume **out)
{
	int r = stub_volume_open(CTX_FULLPATH(op_ctx), STUB_OPEN_SEARCH | STUB_OPEN_FOLD | STUB_OPEN_NEWS,
				 glue_log, NULL, out);

	if (r == 0) {
		LogEvent(COMPONENT_FSAL, "Export %d (%s): FSAL STUB: fills from %s%s",
			 op_ctx->ctx_export->export_id, CTX_FULLPATH(op_ctx),
			 stub_volume_info(*out)->source,
			 stub_volume_complete(*out) ? ", complete" : "");
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	}
	*out = NULL;
	if (r == -ENOENT) {
		LogEvent(COMPONENT_FSAL,
			 "Export %d (%s): FSAL STUB: no volume here, everything passes through",
			 op_ctx->ctx_export->export_id, CTX_FULLPATH(op_ctx));
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	}
	return refuse(err, "cannot open the volume: %s",
		      r == -EBADMSG	    ? STUB_DIR " is damaged" :
		      r == -EXDEV	    ? "it is a copy of a volume, see above" :
		      r == -ENOLCK	    ? "this node does not hold its lease, see above" :
		      r == -EPROTONOSUPPORT ? "it was made by a newer release of postcopy, install that one, or a later one" :
					      strerror(-r));
}

/* Is @volume the one that the administrator has named?  An empty mount point is not. */
static fsal_status_t volume_check(struct config_error_type *err, const struct block *b,
				  const struct stub_volume *volume)
{
	int r = b->volume ? stub_volume_expect(volume, CTX_FULLPATH(op_ctx), b->volume) : 0;

	if (r == 0)
		return fsalstat(ERR_FSAL_NO_ERROR, 0);
	if (r == -ENODEV && volume)
		return refuse(err, "Volume = %s, but here is the volume %s", b->volume,
			      stub_volume_info(volume)->uuid);
	return refuse(err, "Volume = %s: %s", b->volume,
		      r == -ENODEV ? "it is not here: is its file system mounted?" :
		      r == -EINVAL ? "that is no UUID; 'postcopy init' has printed it" :
				     strerror(-r));
}

/* Put our export above the one below, which exists and is in op_ctx. */
static void stack(struct fsal_module *fsal, const struct fsal_up_vector *up,
		  struct stubfs_options *options, struct stub_volume *volume)
{
	struct stubfs_export *x = gsh_calloc(1, sizeof(*x));

	fsal_export_stack(op_ctx->fsal_export, &x->export);
	fsal_export_init(&x->export);
	stubfs_export_ops_init(&x->export.exp_ops);
	x->export.up_ops = up;
	x->export.fsal = fsal;
	x->options = *options;
	x->gate.volume = volume;
	x->gate.ops = &glue_gate_ops;
	x->fs = x->export.sub_export->root_fs;
	fsal_attach_export(fsal, &x->export.exports);
	scope_settle(&x->export, fsal);
	stubfs_news_start(x);
}

fsal_status_t stubfs_create_export(struct fsal_module *fsal, void *node,
				   struct config_error_type *err, const struct fsal_up_vector *up)
{
	struct stub_volume *volume = NULL;
	struct fsal_module *sub = NULL;
	struct block b;
	fsal_status_t status = block_read(node, err, &b, &sub);

	if (!FSAL_IS_ERROR(status))
		status = check_permissions(err);
	if (!FSAL_IS_ERROR(status))
		status = volume_open(err, &volume);
	if (!FSAL_IS_ERROR(status))
		status = volume_check(err, &b, volume);
	if (!FSAL_IS_ERROR(status)) {
		status = sub->m_ops.create_export(sub, b.sub.fsal_node, err, up);
		if (FSAL_IS_ERROR(status))
			refuse(err, "FSAL %s below refuses the export", b.sub.name);
	}
	if (FSAL_IS_ERROR(status)) {
		stub_volume_close(volume);
		if (sub)
			fsal_put(sub);
	} else {
		stack(fsal, up, &b.options, volume);
	}
	gsh_free(b.sub.name);
	gsh_free(b.volume);
	return status;
}

/* SIGHUP: new limits count at once; the stack and the volume stay. */
fsal_status_t stubfs_update_export(struct fsal_module *fsal, void *node,
				   struct config_error_type *err, struct fsal_export *original,
				   struct fsal_module *super)
{
	struct fsal_module *sub = NULL;
	struct block b = { .sub.name = NULL };
	fsal_status_t status = update_export(fsal, node, err, original, super);

	if (!FSAL_IS_ERROR(status))
		status = block_read(node, err, &b, &sub);
	if (!FSAL_IS_ERROR(status))
		status = check_permissions(err);
	if (!FSAL_IS_ERROR(status))
		status = volume_check(err, &b, stubfs_export_of(original)->gate.volume);
	if (!FSAL_IS_ERROR(status))
		status = sub->m_ops.update_export(sub, b.sub.fsal_node, err, original->sub_export,
						  fsal);
	if (!FSAL_IS_ERROR(status))
		stubfs_export_of(original)->options = b.options;
	if (sub)
		fsal_put(sub);
	gsh_free(b.sub.name);
	gsh_free(b.volume);
	return status;
}
