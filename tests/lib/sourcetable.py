# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/sources has found, as the table of docs/sources.md."""

BEGIN, END = "<!-- made by tests/sources --table: -->", "<!-- end of the table -->"
COLUMNS = {"names": "names", "data": "data", "mtime": "times", "modes": "modes", "owners": "owners",
           "links": "hard links", "symlinks": "symlinks", "devices": "devices", "acls": "ACLs",
           "xattrs": "attributes", "streams": "streams", "dos_attributes": "DOS attributes",
           "holes": "holes", "creation_time": "creation time"}
# property of `init --check`: what is compared of it
PROMISES = {"names": ("names",), "types": ("types",), "data": ("data",), "sizes": ("sizes",),
            "mode": ("modes",), "owner": ("owners",), "mtime": ("mtime",), "atime": ("atime",),
            "hard-links": ("links",), "symlinks": ("symlinks",), "special-files": ("devices",),
            "posix-acl": ("acls",), "security-descriptor": ("acls",), "user-xattrs": ("xattrs",),
            "streams": ("streams",), "dos-attributes": ("dos_attributes",),
            "btime": ("creation_time",), "holes": ("holes",)}


# of which --names finds what does not fit, and there is nothing of that in the tree
BUT_FOR_SOME = ("names", "sizes", "hard-links", "symlinks", "special-files")


def promised(properties):
    """Names of what these properties of `init --check` promise to keep."""
    return sorted({name for p in properties if p["source"] == "seen"
                   and (p["volume"] == "kept"
                        or (p["volume"] == "approximated" and p["property"] in BUT_FOR_SOME))
                   for name in PROMISES.get(p["property"], ())})


def cell(count, untrue=False):
    """untrue: what is not kept came as the server says it."""
    if not count or not count["of"]:
        return "-"
    if count["kept"] == count["of"]:
        return "all"
    return ("%d of %d" % (count["kept"], count["of"]) if count["kept"] else "no") + "*" * untrue


def both_times(kept):
    """Modification and access times as one."""
    times = [kept[name] for name in ("mtime", "atime") if name in kept]
    return {key: sum(t[key] for t in times) for key in ("of", "kept")} if times else None


def cells(line):
    if line.get("refused"):
        return ["refused", *["-"] * (len(COLUMNS) + 1)]
    counts = dict(line["kept"], mtime=both_times(line["kept"]))
    untrue = {"mtime" if name == "atime" else name for name in line.get("untrue", ())}
    return [str(line["objects"]), str(line["differences"]),
            *(cell(counts.get(name), name in untrue) for name in COLUMNS)]


def table(lines):
    """Markdown."""
    head = ["server", "protocol", "objects", "differences", *COLUMNS.values()]
    rows = [head, ["---"] * len(head)]
    for line in lines:
        where = " on " + line["file_system"] if line["server"].startswith("Linux ") else ""
        rows.append(["%s %s%s" % (line["server"], line["version"], where), line["protocol"],
                     *cells(line)])
    return "\n".join("| %s |" % " | ".join(row) for row in rows)


def write_table(path, lines):
    """Into the page between its marks.  Returns the table."""
    text, made = path.read_text(), table(lines)
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit("%s has no place for the table: %s ... %s" % (path, BEGIN, END))
    path.write_text("%s%s\n\n%s\n\n%s%s" % (before, BEGIN, made, END, after))
    return made
