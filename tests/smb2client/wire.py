# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB2 on the wire: the header, and the structures this client sends and reads.

Times are numbers of 100 ns since 1601, as they come.  All is little-endian.
"""
import struct
from dataclasses import dataclass

MAGIC = b"\xfeSMB"
HEADER = struct.Struct("<4sHHIHHIIQIIQ16s")

(NEGOTIATE, SESSION_SETUP, LOGOFF, TREE_CONNECT, TREE_DISCONNECT, CREATE, CLOSE, FLUSH, READ,
 WRITE, LOCK, IOCTL, CANCEL, ECHO, QUERY_DIRECTORY, CHANGE_NOTIFY, QUERY_INFO, SET_INFO,
 OPLOCK_BREAK) = range(19)

FLAG_RESPONSE, FLAG_ASYNC = 1, 2

# What a caller meets; anything else is shown as a number.
STATUS = {
    0x00000000: "OK", 0x00000103: "PENDING", 0x00000105: "MORE_ENTRIES",
    0x0000010C: "NOTIFY_ENUM_DIR", 0x80000005: "BUFFER_OVERFLOW", 0x80000006: "NO_MORE_FILES",
    0xC0000001: "UNSUCCESSFUL", 0xC0000002: "NOT_IMPLEMENTED", 0xC0000003: "INVALID_INFO_CLASS",
    0xC0000004: "INFO_LENGTH_MISMATCH", 0xC0000008: "INVALID_HANDLE",
    0xC000000D: "INVALID_PARAMETER", 0xC000000F: "NO_SUCH_FILE",
    0xC0000010: "INVALID_DEVICE_REQUEST", 0xC0000011: "END_OF_FILE",
    0xC0000016: "MORE_PROCESSING_REQUIRED", 0xC0000022: "ACCESS_DENIED",
    0xC0000023: "BUFFER_TOO_SMALL", 0xC0000033: "OBJECT_NAME_INVALID",
    0xC0000034: "OBJECT_NAME_NOT_FOUND", 0xC0000035: "OBJECT_NAME_COLLISION",
    0xC000003A: "OBJECT_PATH_NOT_FOUND", 0xC0000043: "SHARING_VIOLATION",
    0xC000004F: "EAS_NOT_SUPPORTED", 0xC0000054: "FILE_LOCK_CONFLICT",
    0xC0000055: "LOCK_NOT_GRANTED", 0xC0000056: "DELETE_PENDING",
    0xC0000061: "PRIVILEGE_NOT_HELD", 0xC000006D: "LOGON_FAILURE",
    0xC000007F: "DISK_FULL", 0xC0000080: "RANGE_NOT_LOCKED", 0xC00000B5: "IO_TIMEOUT",
    0xC00000BA: "FILE_IS_A_DIRECTORY", 0xC00000BB: "NOT_SUPPORTED", 0xC00000BF: "NETWORK_BUSY",
    0xC00000CC: "BAD_NETWORK_NAME", 0xC0000101: "DIRECTORY_NOT_EMPTY",
    0xC0000103: "NOT_A_DIRECTORY", 0xC0000120: "CANCELLED", 0xC0000123: "FILE_DELETED",
    0xC0000128: "FILE_CLOSED", 0xC0000185: "IO_DEVICE_ERROR", 0xC0000194: "POSSIBLE_DEADLOCK",
    0xC0000203: "USER_SESSION_DELETED", 0xC0000225: "NOT_FOUND",
    0xC000020C: "CONNECTION_DISCONNECTED", 0xC000026E: "VOLUME_DISMOUNTED",
    0x80000008: "NO_MORE_EAS_80000008", 0xC0000052: "NO_EAS_ON_FILE",
    0x80000012: "NO_MORE_EAS", 0x80000014: "EA_LIST_INCONSISTENT",
}
NUMBER = {name: number for number, name in STATUS.items()}

# -- access, attributes, options -----------------------------------------------------

READ_DATA, WRITE_DATA, APPEND, READ_EA, WRITE_EA, EXECUTE = 1, 2, 4, 8, 0x10, 0x20
READ_ATTRIBUTES, WRITE_ATTRIBUTES = 0x80, 0x100
DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYNCHRONIZE = (
    0x10000, 0x20000, 0x40000, 0x80000, 0x100000)
SYSTEM_SECURITY, MAXIMUM_ALLOWED = 0x01000000, 0x02000000
GENERIC_ALL, GENERIC_WRITE, GENERIC_READ = 0x10000000, 0x40000000, 0x80000000
SHARE_ALL = 7
SUPERSEDE, OPEN, CREATE_NEW, OPEN_IF, OVERWRITE, OVERWRITE_IF = range(6)
OPT_DIRECTORY, OPT_NOT_DIRECTORY, OPT_DELETE_ON_CLOSE, OPT_REPARSE = 1, 0x40, 0x1000, 0x200000

ATTR_READONLY, ATTR_HIDDEN, ATTR_SYSTEM, ATTR_DIRECTORY, ATTR_ARCHIVE, ATTR_NORMAL = (
    1, 2, 4, 0x10, 0x20, 0x80)
ATTR_SPARSE, ATTR_OFFLINE, ATTR_RECALL = 0x200, 0x1000, 0x400000
FS_REMOTE_STORAGE = 0x100          # of FileFsAttributeInformation

OWNER, GROUP, DACL, SACL = 1, 2, 4, 8

# information classes
INFO_FILE, INFO_FS, INFO_SECURITY = 1, 2, 3
BASIC, STANDARD, INTERNAL, EA_SIZE, RENAME, LINK, DISPOSITION, FULL_EA, ALLOCATION, EOF = (
    4, 5, 6, 7, 10, 11, 13, 15, 19, 20)
ALL_INFO, STREAM, NETWORK_OPEN = 18, 22, 34
FS_ATTRIBUTE = 5
DIR_ID_BOTH = 37

# ioctls
FSCTL_SET_SPARSE, FSCTL_ZERO_DATA, FSCTL_ALLOCATED_RANGES = 0x900C4, 0x980C8, 0x940CF
FSCTL_RESUME_KEY, FSCTL_COPYCHUNK, FSCTL_COPYCHUNK_WRITE = 0x140078, 0x1440F2, 0x1480F2
FSCTL_DUP_EXTENTS, FSCTL_GET_REPARSE, FSCTL_OBJECT_ID = 0x98344, 0x900A8, 0x900C0


class SmbError(Exception):
    """A status that is no success; str(err.status) is its name if it has one."""

    def __init__(self, code, what=""):
        self.code = code
        self.status = STATUS.get(code, "%#010x" % code)
        super().__init__("%s: %s" % (what, self.status))


class Gone(Exception):
    """The connection ended."""


@dataclass
class Answer:
    status: int
    command: int
    credits: int
    flags: int
    message: int
    tree: int
    session: int
    data: bytes           # the whole message, header first: offsets count from there

    @property
    def body(self):
        return self.data[HEADER.size:]


def header(command, message, tree, session, charge=1, credits=64, pid=0xFEFF):
    return HEADER.pack(MAGIC, 64, charge, 0, command, credits, 0, 0, message, pid, tree, session,
                       b"\0" * 16)


def parse_answer(data):
    if len(data) < HEADER.size or data[:4] != MAGIC:
        raise Gone("not SMB2: %r" % data[:16])
    (_, _, _, status, command, credits, flags, _, message, _, tree, session,
     _) = HEADER.unpack_from(data)
    return Answer(status, command, credits, flags, message, tree, session, data)


def utf16(name):
    return name.encode("utf-16-le", "surrogatepass")


def text16(data):
    return data.decode("utf-16-le", "surrogatepass")


def chain(data):
    """The entries of a list whose records start with the distance to the next."""
    at = 0
    while data[at:]:
        step = int.from_bytes(data[at:at + 4], "little")
        yield data[at:at + step] if step else data[at:]
        if not step:
            return
        at += step


# -- what is read --------------------------------------------------------------------

@dataclass
class Entry:
    """One of a directory's entries."""
    name: str
    attributes: int
    size: int
    allocated: int
    created: int
    accessed: int
    written: int
    changed: int
    fileid: int
    ea_size: int
    short_name: str


def parse_entry(raw):
    (_, _, created, accessed, written, changed, size, allocated, attributes, length, ea,
     short_length) = struct.unpack_from("<IIqqqqqqIIIB", raw)
    short = text16(raw[70:70 + short_length])
    fileid, = struct.unpack_from("<Q", raw, 96)
    return Entry(text16(raw[104:104 + length]), attributes, size, allocated, created, accessed,
                 written, changed, fileid, ea, short)


@dataclass
class Info:
    """FileAllInformation without the name."""
    created: int
    accessed: int
    written: int
    changed: int
    attributes: int
    allocated: int
    size: int
    nlink: int
    delete_pending: bool
    directory: bool
    fileid: int
    ea_size: int


def parse_all_info(raw):
    created, accessed, written, changed, attributes, _ = struct.unpack_from("<qqqqII", raw)
    allocated, size, nlink, pending, directory = struct.unpack_from("<qqIBB", raw, 40)
    fileid, ea_size = struct.unpack_from("<QI", raw, 64)
    return Info(created, accessed, written, changed, attributes, allocated, size, nlink,
                bool(pending), bool(directory), fileid, ea_size)


def parse_streams(raw):
    """{name as it comes (":x:$DATA"): size}"""
    found = {}
    for entry in chain(raw):
        length, size, _ = struct.unpack_from("<Iqq", entry, 4)
        found[text16(entry[24:24 + length])] = size
    return found


def parse_eas(raw):
    """{name: value}, both bytes"""
    found = {}
    for entry in chain(raw):
        _, name_length, length = struct.unpack_from("<BBH", entry, 4)
        start = 8 + name_length + 1
        found[entry[8:8 + name_length]] = entry[start:start + length]
    return found


def pack_ea(name, value):
    return struct.pack("<IBBH", 0, 0, len(name), len(value)) + name + b"\0" + value
