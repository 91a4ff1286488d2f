# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes and flushes of the disk that fail, and what a client knows after an error.

Before some COMMITs, before the fold, and while the crawler fills, one or some writes fail,
but none to the file system's own log: most file systems end with that.  A COMMIT that
failed is tried again, as by those who ignore errors.  Late any write or flush may fail.
In another run the crawler is alone: no failed sync of a client tells of what was lost.
"""
COMMITS = 4                              # so many of them fail
# that one of these failed leaves the model with one tree to go on with
NAMELESS = ("write", "commit", "punch", "reserve", "open", "close", "chmod", "look", "read",
            "list")


class Plan:
    """ops: with the COMMITs tried again; faults: {operation: what logdisk is told before
    it}; hard: the operation from which on the log is not spared."""

    def __init__(self, ops, rng):
        chosen = set(rng.sample(list(_commits(ops)), COMMITS))
        self.ops, self.faults = [], {}
        for i, op in enumerate(ops):
            if i in chosen:
                self.faults[len(self.ops)] = "fail w 1"
            self.ops += [op] * (3 if i in chosen else 1)
        kinds = [op[0] for op in self.ops]
        self.faults[kinds.index("fold")] = "fail w 2"
        crawl, end = kinds.index("crawl") + 1, len(kinds)
        self.hard = rng.randrange(end - end // 8, end)
        for i in rng.sample(range(crawl, end - end // 8), 2):
            self.faults.setdefault(i, "fail w %d" % rng.choice((1, 3)))
        self.faults[self.hard] = "fail %s %d" % (rng.choice("wf"), rng.choice((1, 3)))


class CrawlPlan:
    """The same where nobody but the crawler works, and finds all listed: what is written
    then is filled.  The finisher's first sync fails; the rest goes well.  ext4 ends with its
    metadata, too: there only what files hold fails."""
    DIRS = (b"", b"a", b"b", b"c", b"c/sub", b"small", b"lag", b"held", b"whole", b"x", b"y", b"d1",
            b"d1/d2", b"d1/d2/d3")

    def __init__(self, fstype):
        self.ops = [*(("list", path) for path in self.DIRS), ("drain", b""), ("crawl", b""),
                    ("crawled", b"")]
        kind = "d" if fstype == "ext4" else "w"
        self.faults, self.hard = {len(self.ops) - 2: "fail %s -1" % kind}, None


def _commits(ops):
    """COMMITs of what was just written unstably."""
    last = {}
    for i, op in enumerate(ops):
        if op[0] == "commit" and last.get(op[1]) == ("write", False):
            yield i
        if op[0] not in ("look", "read", "list"):
            last[op[1]] = op[0], op[-1]


def was_done(image, op):
    """Was an operation on names or a size done that was answered with an error?"""
    kind, path, new = op[0], op[1], op[-1]
    parent = path.rpartition(b"/")[0]
    gone = path not in image.objects and parent in image.objects and not image.unlisted(parent)
    if kind in ("remove", "rmdir"):
        return gone
    if kind == "rename":
        return gone and new in image.objects
    if kind == "truncate":
        return path in image.objects and image.objects[path]["size"] == new
    return (new if kind == "link" else path) in image.objects


class Undone:
    """What cannot be done any more, since an operation that it builds upon was not."""

    def __init__(self):
        self._paths = set()

    @staticmethod
    def _of(op):
        return {op[1], op[2]} if op[0] in ("rename", "link") else {op[1]}

    def add(self, op):
        self._paths |= self._of(op)

    def hits(self, op):
        hit = any(path == p or path.startswith(p + b"/") for path in self._of(op)
                  for p in self._paths)
        if hit:
            self.add(op)
        return hit
