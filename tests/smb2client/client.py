# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a share: what an application does, one method for each request."""
import struct

from . import wire
from .session import Session
from .wire import SmbError

CHUNK = 65536           # of one request: fits a single credit
LOOK = wire.READ_ATTRIBUTES | wire.SYNCHRONIZE


class File:
    """An open file, directory or stream."""

    def __init__(self, client, path, body):
        self.client, self.path = client, path
        self.oplock = body[2]
        (self.action, self.created, self.accessed, self.written, self.changed, self.allocated,
         self.size, self.attributes) = struct.unpack_from("<IqqqqqqI", body, 4)
        self.id = body[64:80]
        self.contexts = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self.close()
        except (OSError, wire.Gone):
            if exc[0] is None:
                raise

    def close(self):
        if self.id is None:
            return
        body = struct.pack("<HHI16s", 24, 0, 0, self.id)
        self.id = None
        self.client.call(wire.CLOSE, body, what="close " + self.path)

    # -- data -----------------------------------------------------------------

    def send_read(self, offset, length):
        """Ask for up to 64 KiB; the answer is for finish_read()."""
        body = struct.pack("<HBBIQ16sIIIHHB", 49, 0x50, 0, length, offset, self.id, 0, 0, 0, 0, 0,
                           0)
        return self.client.send(wire.READ, body)

    def finish_read(self, message, timeout=None):
        answer = self.client.wait(message, ("OK", "END_OF_FILE"), "read " + self.path, timeout)
        if wire.STATUS[answer.status] == "END_OF_FILE":
            return b""
        offset, length = struct.unpack_from("<BxI", answer.body, 2)
        return answer.data[offset:offset + length]

    def read(self, offset=0, length=None, timeout=None):
        """Up to `length` bytes, or to the end; shorter only at the end."""
        data = b""
        while length is None or len(data) < length:
            want = CHUNK if length is None else min(CHUNK, length - len(data))
            part = self.finish_read(self.send_read(offset + len(data), want), timeout)
            data += part
            if not part:
                break
        return data

    def send_write(self, offset, data):
        body = struct.pack("<HHIQ16sIIHHI", 49, 64 + 48, len(data), offset, self.id, 0, 0, 0, 0, 0)
        return self.client.send(wire.WRITE, body + data)

    def write(self, offset, data, timeout=None):
        for at in range(0, len(data), CHUNK):
            part = data[at:at + CHUNK]
            answer = self.client.wait(self.send_write(offset + at, part), what="write " + self.path,
                                      timeout=timeout)
            done, = struct.unpack_from("<I", answer.body, 4)
            assert done == len(part), "short write of %s: %d of %d" % (self.path, done, len(part))
        return len(data)

    def flush(self):
        self.client.call(wire.FLUSH, struct.pack("<HHI16s", 24, 0, 0, self.id),
                         what="flush " + self.path)

    def send_lock(self, offset, length, shared=False, unlock=False, wait=False):
        flags = 4 if unlock else (1 if shared else 2) | (0 if wait else 0x10)
        body = struct.pack("<HHI16sQQII", 48, 1, 0, self.id, offset, length, flags, 0)
        return self.client.send(wire.LOCK, body)

    def lock(self, offset, length, **options):
        self.client.wait(self.send_lock(offset, length, **options), what="lock " + self.path)

    def unlock(self, offset, length):
        self.lock(offset, length, unlock=True)

    def ioctl(self, code, data=b"", room=65536):
        body = struct.pack("<HHI16sIIIIIIII", 57, 0, code, self.id, 64 + 56, len(data), 0, 0, 0,
                           room, 1, 0) + (data or b"\0")
        answer = self.client.call(wire.IOCTL, body, ("OK", "BUFFER_OVERFLOW"),
                                  "ioctl %#x of %s" % (code, self.path))
        offset, length = struct.unpack_from("<II", answer.body, 32)
        return answer.data[offset:offset + length]

    def copy_chunks(self, source, chunks):
        """Server-side copy: [(source offset, target offset, length)]; bytes written."""
        key = source.ioctl(wire.FSCTL_RESUME_KEY, room=32)[:24]
        data = key + struct.pack("<II", len(chunks), 0) + b"".join(
            struct.pack("<QQII", *chunk, 0) for chunk in chunks)
        return struct.unpack("<III", self.ioctl(wire.FSCTL_COPYCHUNK_WRITE, data, 12))[2]

    def allocated_ranges(self, offset, length):
        raw = self.ioctl(wire.FSCTL_ALLOCATED_RANGES, struct.pack("<QQ", offset, length))
        return [struct.unpack_from("<QQ", raw, at) for at in range(0, len(raw), 16)]

    def zero(self, start, end):
        self.ioctl(wire.FSCTL_ZERO_DATA, struct.pack("<QQ", start, end), 0)

    # -- what is known of it ------------------------------------------------------

    def query(self, kind, level, room=65536, more=0, data=b""):
        body = struct.pack("<HBBIHHIII16s", 41, kind, level, room, 64 + 40 if data else 0, 0,
                           len(data), more, 0, self.id) + data
        answer = self.client.call(wire.QUERY_INFO, body, ("OK", "BUFFER_OVERFLOW"),
                                  "query %d/%d of %s" % (kind, level, self.path))
        offset, length = struct.unpack_from("<HI", answer.body, 2)
        return answer.data[offset:offset + length]

    def set(self, kind, level, data, more=0):
        body = struct.pack("<HBBIHHI16s", 33, kind, level, len(data), 64 + 32, 0, more,
                           self.id) + data
        self.client.call(wire.SET_INFO, body, what="set %d/%d of %s" % (kind, level, self.path))

    def info(self):
        return wire.parse_all_info(self.query(wire.INFO_FILE, wire.ALL_INFO))

    def streams(self):
        return wire.parse_streams(self.query(wire.INFO_FILE, wire.STREAM))

    def eas(self):
        try:
            return wire.parse_eas(self.query(wire.INFO_FILE, wire.FULL_EA))
        except SmbError as err:
            if err.status in ("NO_EAS_ON_FILE", "NO_MORE_EAS"):
                return {}
            raise

    def set_ea(self, name, value):
        self.set(wire.INFO_FILE, wire.FULL_EA, wire.pack_ea(name, value))

    def security(self, parts=wire.OWNER | wire.GROUP | wire.DACL):
        """The descriptor as it comes, self-relative."""
        return self.query(wire.INFO_SECURITY, 0, more=parts)

    def set_security(self, raw, parts=wire.DACL):
        self.set(wire.INFO_SECURITY, 0, raw, parts)

    def set_basic(self, attributes=0, created=0, accessed=0, written=0, changed=0):
        """0 leaves a value as it is."""
        self.set(wire.INFO_FILE, wire.BASIC, struct.pack("<qqqqII", created, accessed, written,
                                                         changed, attributes, 0))

    def truncate(self, size):
        self.set(wire.INFO_FILE, wire.EOF, struct.pack("<q", size))

    def rename(self, to, replace=False, level=wire.RENAME):
        name = wire.utf16(to.replace("/", "\\"))
        self.set(wire.INFO_FILE, level,
                 struct.pack("<B7xQI", replace, 0, len(name)) + name)

    def link(self, to):
        self.rename(to, level=wire.LINK)

    def remove(self):
        """Gone when it is closed."""
        self.set(wire.INFO_FILE, wire.DISPOSITION, b"\1")

    def send_notify(self, filter_=0xFFF, tree=False, room=65536):
        body = struct.pack("<HHI16sII", 32, int(tree), room, self.id, filter_, 0)
        return self.client.send(wire.CHANGE_NOTIFY, body)

    def finish_notify(self, message, timeout=None):
        """[(action, name)] of a notification that came."""
        answer = self.client.wait(message, ("OK",), "notify " + self.path, timeout)
        offset, length = struct.unpack_from("<HI", answer.body, 2)
        found = []
        for entry in wire.chain(answer.data[offset:offset + length]):
            action, size = struct.unpack_from("<II", entry, 4)
            found.append((action, wire.text16(entry[12:12 + size])))
        return found

    def list(self, pattern="*", level=wire.DIR_ID_BOTH):
        """All entries, "." and ".." too."""
        name, flags, entries = wire.utf16(pattern), 1, []
        while True:
            body = struct.pack("<HBBI16sHHI", 33, level, flags, 0, self.id, 64 + 32, len(name),
                               CHUNK) + name
            answer = self.client.call(wire.QUERY_DIRECTORY, body,
                                      ("OK", "NO_MORE_FILES", "NO_SUCH_FILE"),
                                      "list " + self.path)
            if wire.STATUS[answer.status] != "OK":
                return entries
            offset, length = struct.unpack_from("<HI", answer.body, 2)
            entries += map(wire.parse_entry, wire.chain(answer.data[offset:offset + length]))
            flags = 0


class Client(Session):
    """A session with short ways for whole files."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send_open(self, path="", access=wire.READ_DATA | LOOK, disposition=wire.OPEN, options=0,
                  attributes=0, share=wire.SHARE_ALL, oplock=0, contexts=()):
        """Ask to open; the answer is for finish_open().  contexts: (name, data) pairs."""
        name = wire.utf16(path.replace("/", "\\"))
        names_end = 64 + 56 + max(len(name), 1)
        pad = -names_end % 8
        extra = b""
        for number, (tag, data) in enumerate(contexts):
            entry = struct.pack("<HHHHI", 16, 4, 0, 24 if data else 0, len(data)) + tag + \
                b"\0" * 4 + data
            last = number == len(contexts) - 1
            entry += b"\0" * (0 if last else -(len(entry) + 4) % 8)
            extra += struct.pack("<I", 0 if last else len(entry) + 4) + entry
        body = struct.pack("<HBBIQQIIIIIHHII", 57, 0, oplock, 2, 0, 0, access, attributes, share,
                           disposition, options, 64 + 56, len(name),
                           names_end + pad if extra else 0, len(extra))
        return self.send(wire.CREATE, body + (name or b"\0") + (b"\0" * pad + extra))

    def finish_open(self, message, path="", timeout=None):
        answer = self.wait(message, ("OK",), "open '%s'" % path, timeout)
        opened = File(self, path, answer.body)
        offset, length = struct.unpack_from("<II", answer.body, 80)
        for entry in wire.chain(answer.data[offset:offset + length]) if length else ():
            tag_at, tag_length, _, data_at, data_length = struct.unpack_from("<HHHHI", entry, 4)
            opened.contexts[entry[tag_at:tag_at + tag_length]] = \
                entry[data_at:data_at + data_length]
        return opened

    def open(self, path="", access=wire.READ_DATA | LOOK, disposition=wire.OPEN, timeout=None,
             **options):
        message = self.send_open(path, access, disposition, **options)
        return self.finish_open(message, path, timeout)

    def echo(self):
        self.call(wire.ECHO, struct.pack("<HH", 4, 0), what="echo")

    # -- short ways -------------------------------------------------------------

    def read_file(self, path, timeout=None):
        with self.open(path, timeout=timeout) as f:
            return f.read(timeout=timeout)

    def write_file(self, path, data, **options):
        """Make it, or write it anew."""
        with self.open(path, wire.WRITE_DATA | LOOK, wire.OVERWRITE_IF, **options) as f:
            f.write(0, data)

    def mkdir(self, path):
        self.open(path, LOOK, wire.CREATE_NEW, options=wire.OPT_DIRECTORY).close()

    def remove(self, path):
        with self.open(path, wire.DELETE | LOOK, options=wire.OPT_REPARSE) as f:
            f.remove()

    def rename(self, path, to, replace=False):
        with self.open(path, wire.DELETE | LOOK) as f:
            f.rename(to, replace)

    def listdir(self, path="", pattern="*"):
        with self.open(path, wire.READ_DATA | LOOK, options=wire.OPT_DIRECTORY) as d:
            return [e for e in d.list(pattern) if e.name not in (".", "..")]

    def names(self, path="", pattern="*"):
        return sorted(e.name for e in self.listdir(path, pattern))

    def stat(self, path="", timeout=None):
        with self.open(path, LOOK, timeout=timeout) as f:
            return f.info()

    def streams(self, path):
        with self.open(path, LOOK) as f:
            return f.streams()

    def security(self, path="", parts=wire.OWNER | wire.GROUP | wire.DACL):
        access = wire.READ_CONTROL | (wire.SYSTEM_SECURITY if parts & wire.SACL else 0)
        with self.open(path, access) as f:
            return f.security(parts)

    def set_security(self, path, raw, parts=wire.DACL):
        access = wire.READ_CONTROL | (wire.WRITE_DAC if parts & wire.DACL else 0) | \
            (wire.WRITE_OWNER if parts & (wire.OWNER | wire.GROUP) else 0) | \
            (wire.SYSTEM_SECURITY if parts & wire.SACL else 0)
        with self.open(path, access) as f:
            f.set_security(raw, parts)

    def fs_attributes(self):
        with self.open("", LOOK) as d:
            return struct.unpack_from("<I", d.query(wire.INFO_FS, wire.FS_ATTRIBUTE))[0]

    def also(self, share):
        """The same session's client of another share."""
        return Also(self, share)


class Also(Client):
    """A further tree of a session; what is not the tree's is the session's."""

    def __init__(self, session, share):
        first, self.session = session.tree, session
        session._connect("\\\\%s\\%s" % (session.socket.getpeername()[0], share))
        self.tree, session.tree = session.tree, first

    def __getattr__(self, name):
        return getattr(self.session, name)

    def send(self, command, body, charge=1):
        first, self.session.tree = self.session.tree, self.tree
        try:
            return self.session.send(command, body, charge)
        finally:
            self.session.tree = first

    def close(self):
        """Goes with the session."""
