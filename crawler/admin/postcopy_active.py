# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that several nodes can reach (decision 0104): who has it, and how a node takes it over."""
from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any, Callable

Answer = dict[str, Any]

NODES = "/etc/postcopy/nodes.conf"
NOT_THERE = 4           # status of postcopy-active: no such disk in there
LOOK_S = 0.5
SERVERS = ("nfs-ganesha", "smbd")
UNITS = "/etc/systemd/system"


class Refused(Exception):
    """One line for the administrator."""


def show(helper: Callable[[str], str], path: str) -> Answer:
    """What postcopy-active says of the disk at @path; {}: there is none that moves.  Refused: it cannot tell."""
    if not os.path.exists(NODES):
        return {}
    done = subprocess.run([helper("postcopy-active"), "show", path], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="surrogateescape", check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if done.returncode == NOT_THERE:
        return {}
    raise Refused(done.stderr.strip().removeprefix("postcopy-active: "))


def elsewhere(s: Answer) -> str:
    if "owner" not in s:
        return "no node has its disk; 'postcopy volume take-over' makes this one the active node"
    return "%s has its disk%s; 'postcopy volume take-over', once that one is off" % (
        s["owner"], {"alive": ", and is alive", "dead": ", and is dead"}.get(s["owner_state"], ""))


def drop_ins(disk: str, volume: str) -> dict[str, str]:
    """Files for systemd, by their paths: with the disk come the volume and the servers, and they end
    before it goes.  @disk and @volume: their instances."""
    active = "postcopy-active@%s.service" % disk
    ours = ["postcopy-retriever@%s.service" % volume, "postcopy-crawler@%s.service" % volume]
    servers = [s + ".service" for s in SERVERS]
    files = {"%s/%s.d/volume.conf" % (UNITS, active):
             "[Unit]\nWants=%s\n" % " ".join(ours + servers)}
    for unit in ours + servers:
        files["%s/%s.d/active.conf" % (UNITS, unit)] = \
            "[Unit]\nBindsTo=%s\nAfter=%s\n" % (active, active)
    return files


def systemctl(*args: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["systemctl", *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="surrogateescape", check=False)
    except OSError as e:
        raise Refused("systemctl: %s" % e.strerror) from None


def state_of(unit: str) -> dict[str, str]:
    done = systemctl("show", "--property=ActiveState,StatusText,ExecMainStatus", unit)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def take_over(s: Answer, instance: str, say: Callable[[str], None]) -> None:
    """Start the unit of the disk of which show() has said @s, and wait until it has it."""
    unit = "postcopy-active@%s.service" % instance
    if s["here"]:
        say("%s is the active node already" % s["this"])
        return
    if "owner" in s and s["owner"] != s["this"]:
        say("%s has the lease. If that machine is not off, end it now: power it off, or take the disk "
            "away from it. Its lease is waited for, up to %d s; while it shows that it lives, "
            "nothing is taken over." % (s["owner"], 8 * s["io_timeout"] + 60))
    done = systemctl("start", "--no-block", unit)
    if done.returncode:
        raise Refused("systemctl start %s: %s" % (unit, done.stderr.strip()))
    said = ""
    while True:
        now = state_of(unit)
        text = now.get("StatusText", "")
        if text and text != said:
            say(text)
        said = text or said
        if now.get("ActiveState") == "active":
            return
        if now.get("ActiveState") not in ("activating", "reloading", "deactivating"):
            raise Refused("%s: %s (journalctl -u '%s')" % (
                unit, said or "exit status %s" % now.get("ExecMainStatus", "?"), unit))
        time.sleep(LOOK_S)
