// SPDX-License-Identifier: GPL-3.0-or-later
/* target.c - the functions of target.h: each calls that of the source's backend, if it has it. */
#include <errno.h>

#include "source/source_ops.h"
#include "source/target.h"

bool target_able(const struct source *s)
{
	return s->ops->target && s->ops->target->able(s);
}

int target_setattr(struct source *s, const struct stub_origin *o, unsigned int what,
		   const struct stub_attr *a)
{
	return target_able(s) ? s->ops->target->setattr(s, o, what, a) : -EOPNOTSUPP;
}

int target_write(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf,
		 uint32_t length, uint64_t *verf)
{
	return target_able(s) ? s->ops->target->write(s, o, offset, buf, length, verf) : -EOPNOTSUPP;
}

int target_keep(struct source *s, const struct stub_origin *o, uint64_t offset, const void *buf, uint32_t length)
{
	return target_able(s) ? s->ops->target->keep(s, o, offset, buf, length) : -EOPNOTSUPP;
}

int target_commit(struct source *s, const struct stub_origin *o, uint64_t *verf)
{
	return target_able(s) ? s->ops->target->commit(s, o, verf) : -EOPNOTSUPP;
}

uint32_t target_write_max(struct source *s)
{
	struct source_limits l;

	return target_able(s) && !source_limits(s, &l) ? l.write_bytes : 0;
}

int target_make(struct source *s, const struct stub_origin *dir, const char *name,
		const struct stub_attr *a, const char *target, struct stub_origin *out,
		struct stub_attr *attr)
{
	return target_able(s) ? s->ops->target->make(s, dir, name, a, target, out, attr) : -EOPNOTSUPP;
}

int target_link(struct source *s, const struct stub_origin *o, const struct stub_origin *dir,
		const char *name)
{
	return target_able(s) ? s->ops->target->link(s, o, dir, name) : -EOPNOTSUPP;
}

int target_rename(struct source *s, const struct stub_origin *dir, const char *name,
		  const struct stub_origin *to, const char *to_name)
{
	return target_able(s) ? s->ops->target->rename(s, dir, name, to, to_name) : -EOPNOTSUPP;
}

int target_remove(struct source *s, const struct stub_origin *dir, const char *name)
{
	return target_able(s) ? s->ops->target->remove(s, dir, name) : -EOPNOTSUPP;
}

int target_rmdir(struct source *s, const struct stub_origin *dir, const char *name)
{
	return target_able(s) ? s->ops->target->rmdir(s, dir, name) : -EOPNOTSUPP;
}

int target_setacl(struct source *s, const struct stub_origin *o, const struct stub_attr *a,
		  const struct stub_xattr *access, const struct stub_xattr *dflt)
{
	return target_able(s) ? s->ops->target->setacl(s, o, a, access, dflt) : -EOPNOTSUPP;
}

int target_put(struct source *s, const struct stub_origin *o, const struct target_windows *w, bool look,
	       struct target_put *out)
{
	*out = (struct target_put){ 0 };
	return s->ops->put ? s->ops->put(s, o, w, look, out) : -EOPNOTSUPP;
}
