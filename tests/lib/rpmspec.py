# SPDX-License-Identifier: GPL-3.0-or-later
"""packaging/rpm/postcopy.spec as rpm reads it with the macros of a layout."""
import fnmatch
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = ROOT / "packaging/rpm/postcopy.spec"
MACROS = ROOT / "packaging/rpm/macros"
LAYOUTS = sorted(path.name for path in MACROS.iterdir() if path.name != "common")
INSTALLED = ROOT / "packaging/installed.txt"

SCRIPTLETS = ("pretrans", "pre", "post", "preun", "postun", "posttrans")
SECTIONS = ("prep", "build", "install", "check", "clean", "files", "changelog", "description",
            "package", "trigger\\w+", "filetrigger\\w+", "transfiletrigger\\w+",
            "verifyscript") + SCRIPTLETS


class NotParsed(Exception):
    pass


def macro_options(layout):
    return ["--load", str(MACROS / "common"), "--load", str(MACROS / layout)]


@functools.lru_cache(None)
def evaluate(layout, text):
    """What text, with macros in it, is there."""
    return subprocess.run(["rpm", *macro_options(layout), "--eval", text], check=True, text=True,
                          capture_output=True).stdout.rstrip("\n")


@functools.lru_cache(None)
def expand(layout, spec=SPEC, options=()):
    """The spec with all macros expanded."""
    done = subprocess.run(["rpmspec", "-P", *macro_options(layout), *options, str(spec)],
                          text=True, capture_output=True)
    if done.returncode != 0 or done.stderr:
        raise NotParsed("%s: %s" % (layout, done.stderr))
    return done.stdout


def sections(text, main="postcopy"):
    """[(section, package, body)] of an expanded spec."""
    heading = re.compile(r"^%%(%s)(?:\s+(.*))?$" % "|".join(SECTIONS))
    found, body = [("preamble", main, [])], None
    for line in text.splitlines():
        match = heading.match(line)
        if match:
            words = (match.group(2) or "").split()
            package = main
            if "-n" in words:
                package = words[words.index("-n") + 1]
            elif words and not words[0].startswith("-"):
                package = "%s-%s" % (main, words[0])
            found.append((match.group(1), package, []))
        else:
            body = found[-1][2]
            body.append(line)
    return [(kind, package, "\n".join(lines)) for kind, package, lines in found]


class Entry:
    """A line of %files."""

    def __init__(self, line):
        self.words = re.findall(r"%\w+(?:\([^)]*\))?", line)
        self.paths = re.sub(r"%\w+(?:\([^)]*\))?", "", line).split()

    def has(self, directive):
        return any(word.split("(")[0] == directive for word in self.words)

    @property
    def of_source(self):
        """Taken from the source: %license COPYING."""
        return not all(path.startswith("/") for path in self.paths)

    def takes(self, path):
        if self.has("%ghost") or self.of_source or self.has("%exclude"):
            return False
        for pattern in self.paths:
            pattern = pattern.rstrip("/")
            if fnmatch.fnmatchcase(path, pattern):
                return True
            if not self.has("%dir") and path.startswith(pattern + "/"):
                return True
        return False


def files(text):
    """{package: [Entry]} of an expanded spec."""
    listed = {}
    for kind, package, body in sections(text):
        if kind == "files":
            lines = [line for line in body.splitlines() if line and not line.startswith("#")]
            listed.setdefault(package, []).extend(map(Entry, lines))
    return listed


def scriptlets(text):
    """{(kind, package): script} of an expanded spec."""
    return {(kind, package): body for kind, package, body in sections(text)
            if kind in SCRIPTLETS or "trigger" in kind}


# ---- what differs between the layouts ----------------------------------------

# Debian's directory, as packaging/installed.txt has it, and the macro for it.
LAYOUT_TABLE = [
    ("/usr/lib/*/ganesha/", "%{_libdir}/ganesha/"),
    ("/usr/lib/*/samba/vfs/", "%{_libdir}/samba/vfs/"),
    ("/usr/lib/*/", "%{_libdir}/"),
    ("/usr/lib/ocf/", "%{_prefix}/lib/ocf/"),
    ("/usr/lib/systemd/system/", "%{_unitdir}/"),
    ("/usr/lib/tmpfiles.d/", "%{_tmpfilesdir}/"),
    ("/usr/libexec/", "%{_libexecdir}/"),
    ("/usr/sbin/", "%{_sbindir}/"),
    ("/usr/include/", "%{_includedir}/"),
    ("/usr/share/man/", "%{_mandir}/"),
    ("/usr/share/doc/", "%{_defaultdocdir}/"),
    ("/usr/share/bash-completion/", "%{_datadir}/bash-completion/"),
    ("/usr/share/postcopy/", "%{_datadir}/postcopy/"),
]


def shared():
    """{path: mode} of what -Dstubcore=shared installs beside: nobody else has a list of it."""
    text = (ROOT / "libstubcore/meson.build").read_text()
    headers = re.search(r"^stubcore_headers = files\((.*?)\)", text, re.M | re.S).group(1)
    found = {"/usr/include/postcopy/" + name: "644" for name in re.findall(r"'(.*?)'", headers)}
    library = "/usr/lib/*/libstubcore"
    return {**found, library + ".a": "644", library + ".so": "777", library + ".so.0": "777",
            library + ".so." + version(): "755",
            "/usr/lib/*/pkgconfig/libstubcore.pc": "644"}


def version():
    return re.search(r"^Version:\s*(\S+)", SPEC.read_text(), re.M).group(1)


def installed(servers=True):
    """{path: mode} of packaging/installed.txt and the shared library, as on Debian."""
    found = shared()
    for line in INSTALLED.read_text().splitlines():
        if line and not line.startswith("#" if servers else ("#", "(")):
            mode, path = line.strip("()").split(maxsplit=1)
            found["/" + path] = mode
    return found


def translate(layout, path):
    """Where a path of Debian's is in a layout; manual pages are compressed."""
    for prefix, macro in LAYOUT_TABLE:
        if path.startswith(prefix):
            path = evaluate(layout, macro) + path[len(prefix):]
            return path + ".gz" if "/man/" in path else path
    raise KeyError("%s: no line of the layout table is for it" % path)
