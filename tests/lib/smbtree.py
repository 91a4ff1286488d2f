# SPDX-License-Identifier: GPL-3.0-or-later
"""An old file server's share with everything that SMB knows, and a comparer of two shares.

    Builder(client).build()         one of each kind, made over SMB by an administrator;
                                    the share wants RAW_NAMES
    for d in compare(old, new): print(d)

The comparer reads both shares as a client does, and tells every difference: names,
types, sizes, bytes, write and creation times, DOS attributes, extended attributes,
streams with their bytes, and descriptors (owner, group, DACL, SACL) byte for byte.
"""
import hashlib
import itertools
import struct
from dataclasses import dataclass

from samba.dcerpc import security
from samba.ndr import ndr_pack
from lib.smbd import SID, USERS
from smb2client import SmbError, wire

WHOLE = wire.OWNER | wire.GROUP | wire.DACL | wire.SACL
READ_ALL = (wire.READ_DATA | wire.READ_EA | wire.READ_ATTRIBUTES | wire.READ_CONTROL |
            wire.SYSTEM_SECURITY | wire.SYNCHRONIZE)
EPOCH = 116444736000000000     # 1970 in 100 ns since 1601
SECOND = 10**7
NOBODY = "S-1-5-21-4242424242-1111111111-2222222222"    # a domain that nobody knows


def pattern(seed, size):
    """Bytes that tell where they belong."""
    words = struct.pack("<II", seed & 0xFFFFFFFF, size & 0xFFFFFFFF)
    block = hashlib.shake_128(words).digest(min(size, 1 << 16))
    return (block * (size // max(len(block), 1) + 1))[:size]


def sid(user):
    return "%s-%d" % (SID, USERS[user][2])


def descriptor(sddl):
    """A descriptor in bytes; {alice} stands for a user's SID, {nobody} for one of no use."""
    names = {user: sid(user) for user in USERS}
    text = sddl.format(nobody=NOBODY, **names)
    return ndr_pack(security.descriptor.from_sddl(text, security.dom_sid(SID)))


def parts_of(raw):
    """Which parts a descriptor has."""
    control, owner, group, sacl, dacl = struct.unpack_from("<HIIII", raw, 2)
    return ((wire.OWNER if owner else 0) | (wire.GROUP if group else 0) |
            (wire.SACL if control & 0x10 else 0) | (wire.DACL if control & 0x4 else 0))


# Otherwise smbd shows names that Windows does not take in a made-up short form.
RAW_NAMES = "mangled names = no"


# -- the tree ------------------------------------------------------------------------

SIZES = (0, 1, 511, 4096, 65535, 65536, 65537, 1 << 20, (3 << 20) + 5)

DESCRIPTORS = {
    "protected": "D:P(A;;FA;;;{alice})(A;;FR;;;{bob})",
    "deny": "D:(D;;FX;;;{bob})(D;;WD;;;WD)(A;;FA;;;{alice})(A;;FR;;;WD)",
    "audit": "D:(A;;FA;;;{alice})S:(AU;SA;FA;;;WD)(AU;FA;FW;;;{bob})",
    "audit-protected": "D:(A;;FA;;;{alice})S:P(AU;SAFA;0x1f01ff;;;{nobody}-7)",
    "unknown": "D:(A;;FA;;;{nobody}-1001)(D;;FW;;;{nobody}-1002)(A;;FA;;;{alice})",
    "unknown-only": "D:P(A;;FR;;;{nobody}-1003)",
    "bobs": "O:{bob}G:S-1-22-2-70010D:(A;;FA;;;{bob})(A;;FR;;;S-1-22-2-70010)",
    "well-known": "D:(A;;FA;;;SY)(A;;FA;;;BA)(A;;FR;;;AU)(A;;FR;;;BU)(A;;FX;;;IU)(A;;FR;;;NU)",
    "creator": "D:(A;;FA;;;CO)(A;;FR;;;CG)(A;;FX;;;S-1-3-4)",
    "empty": "D:P",
    "single-rights": "D:(A;;CC;;;{alice})(A;;DC;;;{bob})(A;;0x20000;;;WD)(D;;0x10000;;;{carol})",
}
INHERITED = "D:PARAI(A;OICI;FA;;;{alice})(D;CI;FX;;;{bob})(A;OIIO;FR;;;WD)(A;OICINP;FR;;;{carol})" \
            "(A;OICIIO;FA;;;CO)S:ARAI(AU;OICISA;FA;;;WD)"

ATTRIBUTES = {"r": wire.ATTR_READONLY, "h": wire.ATTR_HIDDEN, "s": wire.ATTR_SYSTEM,
              "a": wire.ATTR_ARCHIVE}

TIMES = {       # name: (created, written)
    "1970": (EPOCH, EPOCH + SECOND),
    "100ns": (EPOCH + 1234567890 * SECOND + 1234567, EPOCH + 1234567891 * SECOND + 7654321),
    "1960": (EPOCH - 310000000 * SECOND, EPOCH - 300000000 * SECOND + 5),
    "2100": (EPOCH + 4102444800 * SECOND, EPOCH + 4102444801 * SECOND),
    "written-before-made": (EPOCH + 1600000000 * SECOND, EPOCH + 1000000000 * SECOND),
}

NAMES = (
    "trailing.", "trailing ", "trailing. .", " leading", "...", ".hidden", "two  spaces", "CON",
    "nul.txt", "COM1", "lpt9.log", "AUX.", "a~1", "LONGNA~1.TXT", "semi;colon", "comma,equals=",
    "plus+brackets[]", "percent%41", "hash#", "quote'", "dollar$", "braces{}", "amp&", "at@",
    "UPPER.TXT", "e\u0301 decomposed", "\u00e9 composed", "\u00fcml\u00e4\u00fct.d\u00f6c",
    "\u65e5\u672c\u8a9e", "\u05d0\u05d1 rtl", "\U0001f600 emoji", "\u200bzero width",
    "\u212a kelvin", "\u00df", "x" * 255, "\u00e9" * 127, "\u65e5" * 85,
)

STREAMS = {     # file: its streams
    "one": {"Zone.Identifier": 26},
    "several": {"a": 1, "b": 4096, "c": 30000},
    "empty": {"nothing": 0},
    "large": {"large": 60000},
    "odd-names": {"sp ace": 5, "\u65e5\u672c": 6, "dot.": 7, "UPPER": 8, "$weird$": 9},
}


class Builder:
    """Makes the tree through an administrator's client; all in directories of `top`."""

    def __init__(self, client, top="", entries=1000, deep=30):
        self.client, self.top = client, top
        self.entries, self.deep = entries, deep
        self.made = 0

    def path(self, name):
        return "/".join(filter(None, (self.top, name)))

    def mkdir(self, name):
        self.client.mkdir(self.path(name))
        self.made += 1

    def file(self, name, size=None):
        size = len(name) * 7 if size is None else size
        self.client.write_file(self.path(name), pattern(self.made, size))
        self.made += 1

    def change(self, name, access, change):
        with self.client.open(self.path(name), access | wire.READ_ATTRIBUTES) as f:
            change(f)

    def secure(self, name, sddl):
        raw = descriptor(sddl)
        self.client.set_security(self.path(name), raw, parts_of(raw))

    def build(self):
        """Everything; returns how many objects were made."""
        if self.top:
            self.mkdir("")
        self.change("", wire.WRITE_ATTRIBUTES, lambda f: f.set_basic(created=EPOCH + 5))
        for part in (self.sizes, self.names, self.streams, self.eas, self.descriptors,
                     self.inheritance, self.large_descriptor, self.many, self.depth,
                     self.attributes, self.times):     # the last: what changes none again
            part()
        return self.made

    def sizes(self):
        self.mkdir("sizes")
        for size in SIZES:
            self.file("sizes/%d" % size, size)

    def names(self):
        self.mkdir("names")
        for name in NAMES:
            self.file("names/" + name)
        self.mkdir("names/dir.")
        self.file("names/dir./in it")

    def streams(self):
        self.mkdir("streams")
        for name, streams in STREAMS.items():
            self.file("streams/" + name)
            for stream, size in streams.items():
                self.client.write_file(self.path("streams/%s:%s" % (name, stream)),
                                       pattern(size, size))
        self.mkdir("streams/dir")
        self.client.write_file(self.path("streams/dir:of a directory"), pattern(3, 333))

    def eas(self):
        self.mkdir("eas")
        for name, value in (("text", b"value"), ("binary", bytes(range(256))),
                            ("large", pattern(1, 4000))):
            self.file("eas/" + name)
            self.change("eas/" + name, wire.WRITE_EA | wire.READ_EA,
                        lambda f, n=name, v=value: f.set_ea(n.encode(), v))

    def descriptors(self):
        self.mkdir("descriptors")
        for name, sddl in DESCRIPTORS.items():
            self.file("descriptors/" + name)
            self.secure("descriptors/" + name, sddl)
            self.mkdir("descriptors/dir-" + name)
            self.secure("descriptors/dir-" + name, sddl)

    def inheritance(self):
        """Made after the directory had its descriptor: what the server passed on."""
        self.mkdir("inherit")
        self.secure("inherit", INHERITED)
        self.file("inherit/file")
        self.mkdir("inherit/dir")
        self.file("inherit/dir/file")
        self.mkdir("inherit/dir/dir")
        self.file("inherit/own")
        self.secure("inherit/own", "D:P(A;;FA;;;{alice})")
        self.file("inherit/both")
        self.secure("inherit/both", "D:ARAI(A;;FR;;;{carol})(A;ID;FA;;;{alice})")

    def large_descriptor(self):
        """About 60 KiB: as large as one extended attribute can hold."""
        self.file("descriptors/large")
        aces = "".join("(A;;FR;;;{nobody}-%d)" % n for n in range(10000, 11600))
        self.secure("descriptors/large", "D:P(A;;FA;;;{alice})" + aces)

    def many(self):
        self.mkdir("many")
        for i in range(self.entries):
            self.file("many/entry %05d" % i, i % 50)

    def depth(self):
        name = "deep"
        for level in range(self.deep):
            self.mkdir(name)
            name += "/level %d" % level
        self.file(name, 100)

    def attributes(self):
        self.mkdir("attributes")
        for count in range(len(ATTRIBUTES) + 1):
            for letters in itertools.combinations(ATTRIBUTES, count):
                mask = sum(ATTRIBUTES[x] for x in letters) or wire.ATTR_NORMAL
                for name, make in (("file-", self.file), ("dir-", self.mkdir)):
                    name = "attributes/" + name + "".join(letters)
                    make(name)
                    self.change(name, wire.WRITE_ATTRIBUTES,
                                lambda f, m=mask: f.set_basic(attributes=m))

    def times(self):
        self.mkdir("times")
        for name, (created, written) in TIMES.items():
            for name, make in (("file-" + name, self.file), ("dir-" + name, self.mkdir)):
                make("times/" + name)
                self.change("times/" + name, wire.WRITE_ATTRIBUTES,
                            lambda f, c=created, w=written: f.set_basic(created=c, written=w))


# -- the comparer --------------------------------------------------------------------

@dataclass
class Difference:
    """field: missing, extra, type, size, data, written, created, attributes, streams,
    stream NAME, eas, owner, group, dacl, sacl, control, descriptor (the same parts in
    another order), or error (one side, or both, cannot be read)."""
    path: str
    field: str
    old: object
    new: object

    def __str__(self):
        return "%s: %s: %s, was %s" % (self.path or ".", self.field, short(self.new),
                                       short(self.old))


def short(value):
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else "%s... (%d)" % (text[:70], len(text))


@dataclass
class View:
    """What a client sees of one object."""
    type: str = "file"
    size: int = 0
    data: str = ""
    written: int = 0
    created: int = 0
    attributes: int = 0
    streams: tuple = ()
    contents: dict = None
    eas: dict = None
    descriptor: bytes = b""


def hash_of(f, size):
    """Reads ahead, so that a round trip is not paid for each 64 KiB."""
    digest, ahead = hashlib.sha256(), []
    at = 0
    while at < size or ahead:
        while at < size and len(ahead) < 8:
            ahead.append(f.send_read(at, min(size - at, 65536)))
            at += 65536
        digest.update(f.finish_read(ahead.pop(0)))
    return digest.hexdigest()


def look(client, path, data=True, parts=WHOLE):
    """Everything about one object."""
    with client.open(path, READ_ALL) as f:
        info, streams = f.info(), f.streams()
        view = View("dir" if info.directory else "file", 0 if info.directory else info.size, "",
                    info.written, info.created, info.attributes, tuple(sorted(streams)), {},
                    f.eas() if info.ea_size else {}, f.security(parts))
        if data and not info.directory:
            view.data = hash_of(f, info.size)
    for name in streams:
        if data and name != "::$DATA":
            with client.open(path + name) as s:
                view.contents[name] = (streams[name], hash_of(s, streams[name]))
    return view


def try_look(client, path, data, parts):
    try:
        return look(client, path, data, parts)
    except SmbError as err:
        return err


def split_descriptor(raw):
    """{part: bytes}: what differs in two descriptors, told apart."""
    control, *offsets = struct.unpack_from("<HIIII", raw, 2)
    found = {"control": control & ~0x8000}
    for name, at in zip(("owner", "group", "sacl", "dacl"), offsets):
        if not at:
            found[name] = None
        elif name in ("owner", "group"):
            found[name] = raw[at:at + 8 + 4 * raw[at + 1]]
        else:
            found[name] = raw[at:at + struct.unpack_from("<H", raw, at + 2)[0]]
    return found


def differences(path, old, new, mask):
    """Those of two views of one object."""
    for field in ("type", "size", "data", "written", "created", "streams", "eas"):
        if getattr(old, field) != getattr(new, field):
            yield Difference(path, field, getattr(old, field), getattr(new, field))
    # NORMAL says that there is no other: OFFLINE takes its place.
    if (old.attributes & ~mask or wire.ATTR_NORMAL) != (new.attributes & ~mask or
                                                       wire.ATTR_NORMAL):
        yield Difference(path, "attributes", "%#x" % old.attributes, "%#x" % new.attributes)
    for name in sorted(old.contents.keys() & new.contents.keys()):
        if old.contents[name] != new.contents[name]:
            yield Difference(path, "stream " + name, old.contents[name], new.contents[name])
    if old.descriptor != new.descriptor:
        was, is_ = split_descriptor(old.descriptor), split_descriptor(new.descriptor)
        named = [p for p in was if was[p] != is_[p]]
        for part in named:
            yield Difference(path, part, was[part], is_[part])
        if not named:       # the same parts in another order
            yield Difference(path, "descriptor", old.descriptor, new.descriptor)


def compare(old, new, path="", migrating=False, data=True, counts=None, parts=WHOLE, ignored=0):
    """Yields the Differences of what two clients see below `path`.

    migrating: OFFLINE and what goes with it may be set on the new side.
    data=False: no byte of a file or stream is read.
    counts: a dict whose "objects" and "bytes" are added to.
    parts: of descriptors.  ignored: DOS attributes that may differ.
    """
    mask = ignored | (wire.ATTR_OFFLINE | wire.ATTR_RECALL if migrating else 0)
    counts = {} if counts is None else counts
    todo = [path]
    while todo:
        where = todo.pop()
        was, is_ = (try_look(side, where, data, parts) for side in (old, new))
        if isinstance(was, SmbError) or isinstance(is_, SmbError):
            yield Difference(where, "error", was, is_)
            continue
        counts["objects"] = counts.get("objects", 0) + 1
        counts["bytes"] = counts.get("bytes", 0) + was.size
        yield from differences(where, was, is_, mask)
        if was.type != "dir" or is_.type != "dir":
            continue
        names = [{e.name for e in side.listdir(where)} for side in (old, new)]
        prefix = where + "/" if where else ""
        for name in sorted(names[0] - names[1]):
            yield Difference(prefix + name, "missing", "there", None)
        for name in sorted(names[1] - names[0]):
            yield Difference(prefix + name, "extra", None, "there")
        todo += [prefix + name for name in sorted(names[0] & names[1], reverse=True)]
