# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guides tell an administrator to type is typed, in their order, on a machine on
which postcopy is installed, beside an old server; and what they quote is said by the
product.  See lib/guides.py for what counts as a command, lib/newserver.py for the machine."""
import json
import os
import re
import subprocess

import pytest

from lib import guides
from lib.newserver import NEW_CORE, NEW_MORE, NEW_V4, SMB_CONF, NewServer
from lib.programs import POSTCOPY
from lib.wait import wait_until

RUNBOOK = "docs/runbook.md"
TROUBLE = "docs/troubleshooting.md"
NOT_SAFE = "docs/not-safe.md"
SIZING = "docs/sizing.md"
DOCS = ("README.md", "docs/administrators.md", RUNBOOK, TROUBLE, NOT_SAFE, SIZING)
ALL = {c.text: c for doc in DOCS for c in guides.commands(doc)}

# Why a command is not run.  What it names is looked at all the same: test_not_run.
NOT_RUN = {
    "exportfs -u '*:/export'": "it is for a kernel's NFS server, which no test machine needs",
    "exportfs -o ro,no_root_squash,sync new:/export": "likewise",
    "systemctl reload autofs": "of a client with an automounter",
    "arping -U -c 3 -I eth0 192.0.2.30": "its package is not among those of the tests",
    "rsync -nrlptgoHc --delete --itemize-changes /mnt/old/ /mnt/new/":
        "of a client with two NFS mounts; this kernel may have no NFS",
    "./demo --size small": "a whole migration of its own; ./check --unit looks at its options",
    "./demo --source nfs://HOST/EXPORT --volume DIR": "likewise",
    "./demo --smb": "likewise", "./demo --both": "likewise",
    "packaging/deps/install --samba && apt-get install debhelper": "packaging/test does it",
    "apt install ./build/packages/{libstubcore0,postcopy,nfs-ganesha-stub,samba-vfs-stub}_*.deb":
        "packaging/test does it",
    "ninja install": "what is tested was installed so",
    "postcopy init --check --source URI [DIR]": "its form",
    "./check --quick": "what runs this test", "./check --sanitize": "likewise",
    "POSTCOPY_WIDE=100000 ./check -k smb_wide": "likewise",
    "tests/pauses ./check --conformance": "likewise",
    "tests/crash/run --long": "hours", "tests/soak --hours 8 --beside-load": "hours",
    "mount -t nfs -o vers=4.1 localhost:/export /mnt/files": "this kernel may have no NFS client",
    "fuser -vm /srv": "its package is not among those of the tests",
    "kinit -k -t /etc/postcopy/keytab": "it takes a KDC; test_smb_kerberos has one",
    "tests/bench/sizing --rounds 3": "a measurement of ten minutes",
    "cp -a": "of a client, or as a warning", "cp -p": "likewise", "rsync -X": "a warning",
    "postcopy mirror remove --force": "no mirror here; test_mirror_command removes one so",
    "rm FILE": "of a client; test_no_space has what it does", "rm -r DIR": "likewise",
}

INIT = "postcopy init --source nfs://old/export "
CHECK = "postcopy init --check --names --source nfs://old/export /srv/data"
# What a command that stands without a device gets, so that it does all but write.
DRY = {"mkfs.xfs": " -N -f %s", "mkfs.ext4": " -n -F %s"}
# something is lost that was not accepted
STATUS = {CHECK: 3, CHECK.removesuffix(" /srv/data"): 3,
          "postcopy init --check --source nfs://old/export /srv/data": 3,
          "mkdir /srv/data && " + CHECK: 3}


class Tour:
    """Types what guides say; what was typed is in `ran`."""

    def __init__(self, machine):
        self.machine, self.ran, self.said = machine, set(), ""
        self.places = {"/dev/vg0/files": str(machine.workdir / "files"),
                       "/dev/vg0/more": str(machine.workdir / "more"),
                       "/dev/vg1/files": str(machine.workdir / "copy"),
                       "/mnt/old": str(machine.tree), "/mnt/new": "/srv/data"}
        self.after = {
            INIT + "/srv/trial": lambda: self.paste("/srv/trial"),
            INIT + "/srv/data": lambda: self.paste("/srv/data"),
            "systemctl restart nfs-ganesha": self.exported,
            "systemctl enable nfs-ganesha && systemctl restart nfs-ganesha": self.exported,
            "systemctl start postcopy-retriever@srv-trial": lambda: self.up("/srv/trial"),
            "systemctl enable --now postcopy-retriever@srv-data": lambda: self.up("/srv/data"),
        }

    def type(self, text):
        """One command of a guide."""
        assert text in ALL, "no guide says: " + text
        shell = text
        for place, real in self.places.items():
            shell = shell.replace(place, real)
        if not ALL[text].fenced:
            shell += self.dry(text)
        done = self.machine.run(shell)
        self.said = done.stdout + done.stderr
        assert done.returncode == STATUS.get(text, 0), "%s:%d: %s\nstatus %d\n%s" % (
            ALL[text].doc, ALL[text].line, text, done.returncode, self.said)
        self.ran.add(text)
        if text in self.after:
            self.after[text]()
        return self.said

    def section(self, doc, heading, before={}):
        """All that a section's blocks say; before: what somebody does before a command, or
        instead of one that is not run."""
        todo = [c.text for c in guides.commands(doc) if c.section.startswith(heading) and c.fenced]
        assert todo, (doc, heading)
        before = dict(before)
        for text in todo:
            if text in before:
                before.pop(text)()
            if text not in NOT_RUN:
                self.type(text)
        assert not before, "the guide does not say: %s" % list(before)

    def dry(self, text):
        more = DRY.get(text.split()[0])
        return more % (self.machine.workdir / "more") if more else ""

    # -- what is done by hand ---------------------------------------------------------

    def paste(self, volume):
        """The blocks of init into the servers' configuration, with what this machine needs."""
        blocks = json.loads(self.machine.ok("postcopy blocks --json " + volume))
        conf = blocks["global_block"].replace("NFS_CORE_PARAM {\n", "NFS_CORE_PARAM {\n" + NEW_CORE)
        conf = conf.replace("NFSV4 {\n", "NFSV4 {\n" + NEW_V4) + NEW_MORE + blocks["export_block"]
        self.machine.ok("cat > /etc/ganesha/ganesha.conf", stdin=conf)
        self.machine.ok("cat > /etc/samba/smb.conf", stdin=SMB_CONF + blocks["share_block"])

    def exported(self):
        try:
            wait_until(lambda: self.machine.run("nfs-ls nfs://new/export").returncode == 0, 60,
                       "export")
        except TimeoutError:
            pytest.fail(self.machine.run("nfs-ls nfs://new/export 2>&1; tail -n 30 "
                                         "/var/log/ganesha/ganesha.log; journalctl -u "
                                         "nfs-ganesha").stdout)

    def status(self, volume="/srv/data"):
        return json.loads(self.machine.ok("postcopy status --json " + volume))

    def up(self, volume):
        wait_until(lambda: self.status(volume)["state"] != "retriever-down", 60, "retriever")

    def until(self, state):
        return wait_until(lambda: (s := self.status())["state"] == state and s, 120, state)


def make_tree(top):
    (top / "projects").mkdir()
    (top / "projects" / "plan").write_text("what was planned\n" * 1000)
    (top / "projects" / "budget").write_text("what it costs\n" * 1000)
    (top / "projects" / "mine").write_text("what was here before I wrote\n" * 100)
    for i in range(20):
        (top / "projects" / ("note %d" % i)).write_bytes(os.urandom(3000))
    (top / "homes" / "alice").mkdir(parents=True)
    (top / "homes" / "alice" / "mail").write_bytes(os.urandom(200000))
    os.chown(top / "homes" / "alice" / "mail", 70001, 70001)
    os.chmod(top / "homes" / "alice" / "mail", 0o600)


@pytest.fixture(scope="module")
def tour(moddir, rpcshim):
    with NewServer(moddir / "machine", rpcshim) as machine:
        make_tree(machine.tree)
        for name in "files", "more", "copy":
            with open(machine.workdir / name, "wb") as f:
                f.truncate(320 << 20)
        # nobody waits a minute for the end of a test
        machine.ok("mkdir /etc/postcopy && echo finish_delay = 1 > /etc/postcopy/postcopy.conf")
        machine.start_old()
        yield Tour(machine)


@pytest.fixture(scope="module")
def prepared(tour):
    tour.section(RUNBOOK, "1.")
    return tour


@pytest.fixture(scope="module")
def migrated(prepared):
    """The runbook, to its end."""
    tour, m = prepared, prepared.machine
    tour.section(RUNBOOK, "2.")
    tour.type("showmount -a old")
    tour.section(RUNBOOK, "3.", {"exportfs -u '*:/export'": m.freeze})
    assert "may write at the root" not in tour.said
    m.ok("ip address add 192.0.2.30/24 dev eth0")          # of the old server, as yet
    tour.section(RUNBOOK, "4.")
    for server, block in ("ganesha", "Name = STUB;"), ("samba", "stub:volume = "):
        assert block in tour.type("postcopy export %s /srv/data" % server)
    assert "192.0.2.30" in m.ok("ip address show dev eth0")
    m.ok("sed -i 's/ filer$//; s/ new$/ new filer/' /etc/hosts")
    assert tour.type("getent hosts filer").startswith("192.0.2.20")
    tour.section(RUNBOOK, "5.")
    tour.until("complete")
    samples = []
    tour.section(RUNBOOK, "6.", {
        "nfs-cat nfs://new/export/projects/plan | sha256sum": lambda: samples.append(tour.said)})
    assert m.ok("nfs-cat nfs://new/export/projects/plan | sha256sum") == samples[0]
    m.ok("postcopy window none; postcopy throttle 0; postcopy resume")   # now, not at night
    assert "all of it was compared" in tour.type("postcopy verify --all")
    assert "have no digest" not in tour.type("postcopy verify --digests")
    tour.section(RUNBOOK, "7.")
    return tour


def test_runbook(migrated):
    m = migrated.machine
    assert m.run("test -e /srv/data/.postcopy").returncode == 1
    m.ok("diff -r %s /srv/data" % m.tree)
    assert "plan" in m.ok("nfs-ls nfs://new/export/projects")


@pytest.fixture(scope="module")
def given_up(migrated):
    """The way back."""
    m = migrated.machine
    m.ok("systemctl stop nfs-ganesha; rm -r /srv/data; mkdir /srv/data")
    for text in (INIT + "/srv/data", "systemctl enable --now postcopy-retriever@srv-data",
                 "systemctl restart nfs-ganesha"):
        migrated.type(text)
    migrated.section(RUNBOOK, "What to do when", {
        "find /mnt/new -newermt '2026-11-21 20:00' -type f -print0 > /tmp/changed":
            lambda: m.ok("touch /srv/data/written")})
    assert m.ok("cat /tmp/changed") == "/srv/data/written\0"
    m.thaw()
    return migrated


def test_the_way_back(given_up):
    m = given_up.machine
    assert m.run("test -e /srv/data/.postcopy").returncode == 1
    assert m.ok("cat /var/lib/postcopy/srv-data-*.missing")


def said(message, text):
    """Is a guide's message in what was really said?"""
    return len(message) > 20 and re.search(
        ".*".join(map(re.escape, message.split("..."))), text)


READ = "nfs-cat nfs://%s/export/projects/"


def changed_over_there(tour, name):
    """A client reads what has changed on the old server meanwhile: a conflict."""
    with open(tour.machine.tree / "projects" / name, "a") as f:
        f.write("one line more\n")
    tour.machine.run("timeout 60 " + READ % "new" + name)
    wait_until(lambda: tour.status()["conflicts"], 60, "conflict")
    assert "changed on the old server: size" in tour.type("postcopy parked")


@pytest.fixture(scope="module")
def troubled(prepared):
    """What is typed when something is wrong, where it is wrong."""
    t, m = prepared, prepared.machine
    m.ok("rm -r /srv/data")
    t.type("mkdir /srv/data && " + CHECK)
    t.type(CHECK.removesuffix(" /srv/data"))
    t.type(INIT + "/srv/data")
    assert "retriever-down" in t.type("postcopy status")
    t.type("systemctl enable --now postcopy-retriever@srv-data")
    assert t.type("systemctl is-enabled postcopy-retriever@srv-data") == "enabled\n"
    t.type("systemctl enable nfs-ganesha && systemctl restart nfs-ganesha")
    assert t.type("systemctl is-enabled nfs-ganesha") == "enabled\n"
    m.ok("systemctl start smbd")
    wait_until(lambda: m.run("smbclient -N -L new").returncode == 0, 60, "smbd")
    assert "data" in t.type("smbclient -N -L new")
    assert "none runs: only what clients touch comes over" in t.type("postcopy status")
    m.ok("nfs-ls nfs://new/export/projects")
    t.section(TROUBLE, "First look")
    assert "0x" in t.type("getfattr -n trusted.postcopy -e hex /srv/data/projects/plan")

    t.type("postcopy debug on")
    changed_over_there(t, "plan")
    assert "ask " in t.type("journalctl -u postcopy-retriever@srv-data")
    t.type("postcopy debug off")
    assert "1 objects" in t.type("postcopy retry changed-there")
    wait_until(lambda: t.status()["conflicts"], 120, "still changed: parked again")
    assert "changed-there" in t.type("postcopy errors")
    t.type("postcopy accept --theirs projects/plan")
    assert m.ok(READ % "new" + "plan") == t.type(READ % "old" + "plan")
    changed_over_there(t, "budget")
    t.type("postcopy skip projects/budget")
    assert "projects/budget" in t.type("postcopy errors --decided")
    assert set(m.ok(READ % "new" + "budget")) == {"\0"}
    with open("/proc/%d/root/srv/data/projects/mine" % m.first, "r+") as f:
        f.write("what is mine, written around the servers\n" * 1000)
    m.run("timeout 60 " + READ % "new" + "mine")
    wait_until(lambda: t.status()["conflicts"], 60, "conflict")
    assert "changed on the new server itself, not through" in t.type("postcopy parked")
    t.type("postcopy accept --ours projects/mine")
    assert "around the servers" in m.ok(READ % "new" + "mine")
    for what in "--errors", "--all":
        assert "tried again" in t.type("postcopy retry " + what)

    t.type("postcopy pause")
    t.type("systemctl restart postcopy-retriever@srv-data")
    t.up("/srv/data")
    assert "paused, as before: 'postcopy resume' goes on" in t.type(
        "journalctl -u postcopy-retriever@srv-data")
    t.type("postcopy resume")
    t.type("postcopy throttle 20M")
    assert "20.0 MiB/s in the background" in t.type("postcopy status")
    t.type("postcopy throttle 0")
    assert "longer than 20 ms" in t.type("postcopy throttle --latency 20")
    t.type("postcopy throttle --latency 0")
    assert "is not limited" in t.type("postcopy throttle --requests 0")
    t.type("postcopy window 'Mon..Fri 20:00-06:00'")
    assert "Mon..Fri 20:00-06:00" in t.type("postcopy status")
    t.type("postcopy window none")
    m.stop_old()
    m.run("timeout 3 nfs-ls nfs://new/export/homes/alice")
    why = wait_until(lambda: t.status().get("source_trouble"), 120, "source-lost")
    assert "source-lost" in t.type("postcopy status")
    assert any(said(message, why) for _, message in guides.messages(TROUBLE)), why
    m.start_old()
    wait_until(lambda: t.status()["source_connected"], 120, "source")
    t.type("systemctl reload postcopy-retriever@srv-data")
    t.type("df -h /srv")
    t.type("xfs_growfs /srv")
    m.ok("mkdir -p /mnt/files && mount -t tmpfs files /mnt/files")
    t.type("umount -l /mnt/files")
    return t


def test_troubleshooting(troubled):
    assert troubled.status()["source_connected"]


@pytest.fixture(scope="module")
def moved(troubled):
    """The volume's file system goes away, comes back, and goes to another disk."""
    t, m = troubled, troubled.machine

    def not_mounted():
        m.ok("systemctl start postcopy-retriever@srv-data; systemctl start nfs-ganesha")
        wait_until(lambda: "it is not here: is its file system mounted?" in
                   m.ok("grep STUB /var/log/ganesha/ganesha.log"), 60, "refusal")
        wait_until(lambda: m.run("systemctl is-active postcopy-retriever@srv-data").returncode, 60,
                   "the retriever's end")
        assert m.run("nfs-ls nfs://new/export").returncode != 0
        m.ok("systemctl stop nfs-ganesha")

    def another_uuid():
        m.ok("systemctl stop nfs-ganesha postcopy-retriever@srv-data postcopy-crawler@srv-data")
        m.ok("umount /srv && xfs_admin -U generate %s && mount %s /srv" % (
            t.places["/dev/vg1/files"], t.places["/dev/vg1/files"]))
        m.ok("systemctl start postcopy-retriever@srv-data")
        wait_until(lambda: "run 'postcopy moved'" in m.ok(
            "journalctl -u postcopy-retriever@srv-data"), 60, "refusal")

    m.ok("systemctl stop smbd")
    t.section(NOT_SAFE, "Snapshots", {"mount /dev/vg0/files /srv": not_mounted})
    t.up("/srv/data")
    t.section(NOT_SAFE, "To another disk", {"postcopy moved /srv/data": another_uuid})
    t.type("systemctl start postcopy-retriever@srv-data")
    t.up("/srv/data")
    t.type("systemctl restart nfs-ganesha")
    t.type("systemctl enable --now postcopy-crawler@srv-data")
    t.until("complete")
    assert "complete" in t.type("postcopy status --watch")
    t.type("systemctl start postcopy-crawler@srv-data")
    return t


def test_moved(moved):
    m = moved.machine
    differ = m.run("diff -rq %s /srv/data -x .postcopy" % m.tree).stdout
    assert sorted(re.findall(r"(\w+) differ$", differ, re.MULTILINE)) == ["budget", "mine"], differ


@pytest.fixture(scope="module")
def sized(moved):
    moved.section(SIZING, "The file system")
    for c in guides.commands(SIZING):
        if c.text.startswith("mkfs.") and not c.fenced:
            moved.type(c.text)
    return moved


def test_sizing(sized):
    assert sized.ran


def words_in(short, long):
    rest = iter(long.split())
    return all(w in rest for w in short.split())


def test_every_command_is_run(given_up, sized):
    ran = sized.ran
    missing = [c for c in ALL.values() if c.text not in ran and c.text not in NOT_RUN and not
               (not c.fenced and any(words_in(c.text, r) for r in (*ran, *NOT_RUN)))]
    assert not missing, "\n".join("%s:%d: %s" % (c.doc, c.line, c.text) for c in missing)


def help_of(*program):
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (program, done.stderr)
    return done.stdout


def test_not_run():
    """Exceptions are of this day, and what they name is there."""
    stale = [text for text in NOT_RUN if text not in ALL]
    assert not stale, stale
    for text in NOT_RUN:
        for unit in re.findall(r"postcopy-\w+@", text):
            assert list((guides.TOP / "packaging" / "systemd").glob(unit + ".service*")), text
        known = None
        words = text.split()
        for i, word in enumerate(words):
            if word == "postcopy":
                known = help_of(POSTCOPY, *words[i + 1:i + (3 if words[i + 1] == "mirror" else 2)])
            elif word.startswith(("./", "tests/", "packaging/")) and "*" not in word:
                known = help_of(guides.TOP / word)
            elif known is not None and word.startswith("--"):
                assert word in known, text


@pytest.mark.parametrize("doc", [d for d in DOCS if guides.messages(d)])
def test_messages(doc):
    unsaid = ["%s:%d: %s" % (doc, line, message) for line, message in guides.messages(doc)
              if not guides.is_said(message)]
    assert not unsaid, "\n".join(unsaid)
