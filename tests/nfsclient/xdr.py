# SPDX-License-Identifier: GPL-3.0-or-later
"""XDR (RFC 4506): the few primitives the NFS protocols are made of.

Packer and Unpacker are deliberately dumb: callers spell out each structure in
the order of the RFC.  The Unpacker never reads past its buffer and raises
XdrError on anything that is not what was asked for.
"""
import struct

_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_U64 = struct.Struct(">Q")
_I64 = struct.Struct(">q")
_PAD = (b"", b"\0\0\0", b"\0\0", b"\0")


class XdrError(Exception):
    """The peer's bytes are not the XDR we expect."""


class Packer:
    """Collects encoded pieces; every method returns self, so calls chain."""

    def __init__(self):
        self.parts = []

    def u32(self, value):
        self.parts.append(_U32.pack(value))
        return self

    def i32(self, value):
        self.parts.append(_I32.pack(value))
        return self

    def u64(self, value):
        self.parts.append(_U64.pack(value))
        return self

    def i64(self, value):
        self.parts.append(_I64.pack(value))
        return self

    def boolean(self, value):
        return self.u32(1 if value else 0)

    def fixed(self, data):
        """Opaque data whose length both sides know."""
        self.parts.append(data + _PAD[len(data) & 3])
        return self

    def opaque(self, data):
        """Opaque data or string, preceded by its length."""
        self.u32(len(data))
        return self.fixed(bytes(data))

    def array(self, items, pack_one):
        """A counted array; pack_one(packer, item) encodes each element."""
        self.u32(len(items))
        for item in items:
            pack_one(self, item)
        return self

    def optional(self, value, pack_one):
        """A pointer in XDR: a flag, then perhaps the thing."""
        self.boolean(value is not None)
        if value is not None:
            pack_one(self, value)
        return self

    def raw(self, data):
        """Bytes that are already XDR."""
        self.parts.append(data)
        return self

    def done(self):
        return b"".join(self.parts)

    def __len__(self):
        return sum(map(len, self.parts))


class Unpacker:
    def __init__(self, data, offset=0):
        self.data = data
        self.pos = offset

    def _take(self, size):
        start = self.pos
        if size < 0 or start + size > len(self.data):
            raise XdrError("short buffer: %d bytes wanted at %d of %d"
                           % (size, start, len(self.data)))
        self.pos = start + size
        return start

    def u32(self):
        return _U32.unpack_from(self.data, self._take(4))[0]

    def i32(self):
        return _I32.unpack_from(self.data, self._take(4))[0]

    def u64(self):
        return _U64.unpack_from(self.data, self._take(8))[0]

    def i64(self):
        return _I64.unpack_from(self.data, self._take(8))[0]

    def boolean(self):
        value = self.u32()
        if value > 1:
            raise XdrError("boolean is %d" % value)
        return bool(value)

    def fixed(self, size):
        start = self._take(size + len(_PAD[size & 3]))
        return bytes(self.data[start:start + size])

    def opaque(self, limit=1 << 30):
        size = self.u32()
        if size > limit:
            raise XdrError("opaque of %d bytes, limit %d" % (size, limit))
        return self.fixed(size)

    def array(self, unpack_one, limit=1 << 20):
        count = self.u32()
        if count > limit:
            raise XdrError("array of %d elements, limit %d" % (count, limit))
        return [unpack_one(self) for _ in range(count)]

    def optional(self, unpack_one):
        return unpack_one(self) if self.boolean() else None

    def rest(self):
        return bytes(self.data[self.pos:])

    def finish(self):
        """Complain about bytes left over."""
        if self.pos != len(self.data):
            raise XdrError("%d bytes left over" % (len(self.data) - self.pos))
