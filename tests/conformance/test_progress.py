# SPDX-License-Identifier: GPL-3.0-or-later
"""How far it is, and when it ends: the screen of `postcopy status`, its JSON, one line for each
volume, text for Prometheus; and the history in .postcopy/progress, whatever becomes of the file."""
import json
import os
import re
import subprocess

import pytest

from lib.programs import POSTCOPY, TESTS
from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

DIRS, FILES = 30, 10
HISTORY = 8192 + 512 * 64
STATES = {"migrating", "paused", "source-lost", "checking", "blocked", "complete", "retriever-down"}


@pytest.fixture
def fake():
    tree = Tree()
    for i in range(DIRS):
        d = tree.mkdir(tree.root, "d%d" % i)
        for k in range(FILES):
            tree.file(d, "f%d" % k, Pattern(5000, seed=i * FILES + k + 1))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    # the old server keeps answers back: it is not to be taken for lost; files come after their
    # directories
    m = new_migration(fake.url(), fresh_dir, conf="call_timeout = 600000\nsmall_file = 0\n").init()
    m.by_command = True
    m.start_retriever()
    wait_until(lambda: m.status()["source_connected"], 60, "a connection")
    return m


def half_way(m, fake):
    """Everything is listed, some files are here, and the crawler waits for the next ones."""
    gate = hooks.Gate()
    fake.hook("READ", hooks.only(lambda call: call.index > DIRS * FILES // 3, gate))
    m.start_crawler(stay=True)

    def there():
        s = m.status()
        return gate.waiting and not s["totals"]["directories_left"] and s["done"] > DIRS + 1
    wait_until(there, 60, "a third of it")
    return gate


def screen(m, *options, terminal=80):
    """`postcopy status` on a terminal of so many columns."""
    command = "stty cols %d rows 50; exec /usr/bin/python3 %s status %s %s" % (
        terminal, POSTCOPY, " ".join(options), m.volume)
    done = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True,
                          timeout=300,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, TERM="dumb"))
    return [line.rstrip() for line in done.stdout.splitlines()]


def row(lines, name):
    return next(line[len(name):].strip() for line in lines if line.startswith(name + " "))


def test_the_screen(m, fake):
    m.postcopy("pause", m.volume)
    lines = screen(m)
    assert max(map(len, lines)) <= 80, lines
    assert "share not yet known" in row(lines, "progress")
    assert row(lines, "end").startswith("not yet known")
    assert row(lines, "held up").startswith("paused: 'postcopy resume'")
    assert any("no crawler" in line for line in lines)
    m.postcopy("resume", m.volume)
    gate = half_way(m, fake)
    lines = screen(m)
    assert max(map(len, lines)) <= 80 and len(lines) <= 24, lines
    assert re.fullmatch(r"\[#+-+\] \d+\.\d %", row(lines, "progress")), lines
    assert "in all" in row(lines, "objects") and "done" in row(lines, "data")
    assert not any("held up" in line for line in lines)
    gate.open()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    assert row(screen(m), "progress") == "[%s] 100 %%" % ("#" * 30)


def test_nothing_is_claimed_that_is_not_known(m, fake):
    """After the root alone is listed nobody knows what is in 30 directories."""
    gate = hooks.Gate()
    fake.hook("READDIRPLUS", hooks.only(lambda call: call.index > 1, gate))
    m.start_crawler(stay=True)
    wait_until(lambda: gate.waiting > 0, 60, "directories")
    s = m.status()
    assert s["totals"]["directories_left"] >= DIRS
    e = s["estimate"]
    assert (e["objects"], e["bytes"], e["share"], e["remaining_s"]) == (None,) * 4, e
    assert e["why"]
    gate.open()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    e = m.status()["estimate"]
    assert e["exact"] and e["share"] == [1, 1, 1]
    assert e["bytes"] == [DIRS * FILES * 5000] * 3


def test_never_100_of_what_is_not_all(m, fake):
    gate = hooks.Gate()
    fake.hook("READ", hooks.only(lambda call: call.index >= DIRS * FILES, gate))
    m.start_crawler(stay=True)
    wait_until(lambda: m.status()["totals"]["left"] == 1, 60, "the last file")
    e = m.status()["estimate"]
    assert e["share"][2] < 1 and "100" not in row(screen(m), "progress")
    gate.open()


def history(m):
    return json.loads(ask(m, "history"))


def ask(m, cmd):
    import socket
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(m.control))
        s.sendall(json.dumps({"cmd": cmd}).encode() + b"\n")
        with s.makefile() as lines:
            return lines.readline()


def test_history_survives(m, fake):
    m.crawl()
    wait_until(lambda: len(history(m)["samples"]) >= 1
               and history(m)["samples"][-1][4] >= DIRS * FILES, 60, "a sample")
    before = history(m)
    root, below = before["tree"]
    assert (root[0], root[1], root[3]) == (1, DIRS, 0)
    assert (below[0], below[1], below[3], below[5]) == (DIRS, 0, DIRS * FILES, DIRS * FILES * 5000)
    file = m.volume / ".postcopy" / "progress"
    assert file.stat().st_size == HISTORY and file.stat().st_blocks * 512 >= HISTORY
    m.kill_retriever()
    m.start_retriever()
    after = history(m)
    assert after["samples"][:len(before["samples"])] == before["samples"]
    assert after["tree"] == before["tree"]


def test_one_large_file_is_work_all_the_time(m, fake):
    """It is asked for slice by slice, so that the crawler is at work is seen all the time."""
    fake.tree.file(fake.tree.root, "large", Pattern(256 << 20, seed=1))
    m.postcopy("throttle", m.volume, "1M")
    m.start_crawler(stay=True)
    wait_until(lambda: m.status()["totals"]["left"] == 1 and history(m)["samples"], 60, "it alone")
    begun = history(m)["samples"][-1][1]
    wait_until(lambda: history(m)["samples"][-1][1] >= begun + 20, 60, "two samples of it")
    s = m.status()["totals"]
    assert s["left"] == 1 and 0 < s["partly_bytes"] < s["left_bytes"], s
    m.kill_retriever()          # what is here of it is forgotten, and comes no second time
    m.start_retriever()
    samples = len(history(m)["samples"])
    wait_until(lambda: len(history(m)["samples"]) > samples, 60, "one more")
    sums = [s[5] for s in history(m)["samples"]]
    assert sums == sorted(sums), sums


def test_waiting_for_answers_is_work(m, fake):
    """No ask begins or ends while the old server's answers are on their way. A pause is none."""
    gate = half_way(m, fake)
    wait_until(lambda: history(m).get("now"), 60, "a look at it")
    begun = history(m)["now"]
    wait_until(lambda: history(m)["now"][1] >= begun[1] + 20, 120, "two ticks of work")
    assert history(m)["samples"][-1][1] < history(m)["now"][1]      # nothing has changed meanwhile
    m.postcopy("pause", m.volume)
    paused = history(m)["now"]
    wait_until(lambda: history(m)["now"][0] >= paused[0] + 20, 120, "two ticks of a pause")
    assert history(m)["now"][1] == paused[1]
    gate.open()


@pytest.mark.parametrize("what", ["empty", "garbage", "symlink", "directory"])
def test_history_that_is_not_ours(m, what, fresh_dir):
    """It is begun anew, or there is none; the migration does not care."""
    m.allow = ["no history of the migration"]
    m.kill_retriever()
    file = m.volume / ".postcopy" / "progress"
    file.unlink()
    if what == "directory":
        file.mkdir()
    elif what == "symlink":
        file.symlink_to("/etc/hostname")
    else:
        file.write_bytes(b"" if what == "empty" else os.urandom(HISTORY))
    m.start_retriever()
    assert len(history(m)["samples"]) <= 1              # the first one of its own
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    assert what != "symlink" or len(open("/etc/hostname", "rb").read()) < HISTORY


# -- all volumes ---------------------------------------------------------------------------------

LISTED = """
import importlib.machinery, importlib.util, pathlib, sys
loader = importlib.machinery.SourceFileLoader("postcopy", sys.argv[1])
command = importlib.util.module_from_spec(importlib.util.spec_from_loader("postcopy", loader))
loader.exec_module(command)
command.VOLUMES = pathlib.Path(sys.argv[2])
del sys.argv[1:3]
sys.exit(command.main())
"""


def with_list(tmp_path, volumes, *argv):
    """The command with another list of volumes than the machine's."""
    listed = tmp_path / "volumes"
    listed.write_text("".join("%s\n" % v for v in volumes))
    return subprocess.run(["/usr/bin/python3", "-c", LISTED, str(POSTCOPY), str(listed), *argv],
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


METRIC = re.compile(r'[a-z_]+\{([a-z]+="([^"\\\n]|\\[\\"n])*",?)*\} -?[0-9.e+]+(inf|nan)?')


def test_all_volumes(m, fake, tmp_path, new_migration):
    other = tmp_path / 'o"t\\her'
    other.mkdir()
    second = new_migration(fake.url(), other).init()
    half_way(m, fake)
    done = with_list(tmp_path, [m.volume, second.volume], "status")
    assert done.returncode == 0, done
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["VOLUME", "STATE", "DONE", "LEFT", "PARKED", "RATE", "END"]
    assert "migrating" in lines[0] and "retriever-down" in lines[1], lines
    told = json.loads(with_list(tmp_path, [m.volume, second.volume], "status", "--json").stdout)
    assert [v["state"] for v in told["volumes"]] == ["migrating", "retriever-down"]
    # one that is damaged does not hide the other
    (other / ".postcopy" / "volume.conf").write_text("no\n")
    done = with_list(tmp_path, [m.volume, second.volume], "status", "--json")
    assert done.returncode == 1
    assert [v["state"] for v in json.loads(done.stdout)["volumes"]] == ["migrating", "error"]
    done = with_list(tmp_path, [m.volume, second.volume], "status", "--prometheus", "-")
    check_metrics(done.stdout)
    assert 'postcopy_up{volume="%s"} 0' % str(other).replace("\\", "\\\\").replace('"', '\\"') \
        in done.stdout, done.stdout
    assert 'postcopy_up{volume="%s"} 1' % m.volume in done.stdout
    done = with_list(tmp_path, [], "status", "--all")
    assert done.returncode == 0 and "no volume is listed" in done.stdout


def check_metrics(text):
    """As the exposition format wants it: HELP, TYPE, then all samples of the name."""
    seen, name = set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in seen and name.startswith("postcopy_")
            seen.add(name)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == name
            kind = line.split()[3]
            assert (kind == "counter") == name.endswith("_total"), line
        else:
            assert METRIC.fullmatch(line), line
            more = r"(_bucket|_sum|_count)?" if kind == "histogram" else ""
            assert re.match(name + more + r"\{", line), line
    assert seen


EXAMPLES = TESTS.parent / "packaging/examples"
NAMES = re.compile(r"\bpostcopy_[a-z_]+")


def queries():
    """Of the example dashboard, and of the example alerts."""
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"]) > 5
    yield from (t["expr"] for p in board["panels"] for t in p["targets"])
    yield board["templating"]["list"][1]["query"]["query"]
    rules = (EXAMPLES / "prometheus-rules.yml").read_text()
    assert rules.count("alert:") == rules.count("expr:") > 3
    yield rules


def test_examples_know_the_metrics(m):
    m.server.start()
    with m.client() as c:
        c.patient(60).read_file("d1/f1")
    told = NAMES.findall(m.postcopy("status", "--prometheus", "-", m.volume).stdout)
    asked = {name for query in queries() for name in NAMES.findall(query)}
    guessed = {"postcopy_predicted_" + what for what in ("objects", "bytes", "work_seconds")}
    assert len(asked) > 20 and asked - guessed <= set(told), asked - set(told)
    assert guessed <= set(NAMES.findall((TESTS.parent / "docs/progress.md").read_text()))


def test_prometheus_file(m, fake, tmp_path):
    half_way(m, fake)
    file = tmp_path / "postcopy.prom"

    def written_at_rest():
        """What was read before the gate may still be counted."""
        before = m.status()
        m.postcopy("status", "--prometheus", file, m.volume)
        s = m.status()
        return s if s["totals"] == before["totals"] else None

    s = wait_until(written_at_rest, 60, "rest")
    text = file.read_text()
    check_metrics(text)
    assert file.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".postcopy")] == []
    assert 'postcopy_objects{volume="%s",state="left"} %d' % (m.volume, s["totals"]["left"]) in text
    assert sum(line.startswith("postcopy_state{") for line in text.splitlines()) == len(STATES)
    done = m.postcopy("status", "--prometheus", tmp_path / "no" / "where", m.volume, check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr


def test_first_access_is_timed(m):
    m.server.start()
    with m.client() as c:
        c.patient(60).read_file("d1/f1")
    h = m.status()["first_access"]
    assert sum(h["data"]["count"]) >= 1 and sum(h["names"]["count"]) >= 1
    assert len(h["data"]["count"]) == len(h["data"]["at_most_ms"]) + 1
    text = m.postcopy("status", "--prometheus", "-", m.volume).stdout
    check_metrics(text)
    buckets = [int(line.split()[-1]) for line in text.splitlines()
               if line.startswith("postcopy_first_access_seconds_bucket") and 'kind="data"' in line]
    assert buckets == sorted(buckets) and buckets[-1] == sum(h["data"]["count"])


def test_calls_to_the_old_server_are_timed(m):
    m.server.start()
    with m.client() as c:
        c.patient(60).names()
        c.read_file("d1/f1")
    s = m.status()
    times = s["source_times"]
    assert set(times) == {"lookup", "listing", "attributes", "read", "other"}
    for kind, counter in ("lookup", "lookups"), ("listing", "readdirs"), ("read", "reads"):
        assert sum(times[kind]["count"]) == s["source_" + counter], (kind, s)
        assert sum(times[kind]["count"]) > 0, (kind, s)
    assert all(len(h["count"]) == len(h["at_most_ms"]) + 1 for h in times.values())
    text = m.postcopy("status", "--prometheus", "-", m.volume).stdout
    check_metrics(text)
    assert 'postcopy_source_call_seconds_bucket{volume="%s",kind="read",le="0.0001"}' % m.volume \
        in text
