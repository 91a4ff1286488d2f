# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts of packages, run as dpkg or rpm run them, with commands that write down how they were
called instead of doing it."""
import os
import subprocess

RECORDED = ("systemctl", "service", "kill", "pkill", "killall", "smbcontrol", "dbus-send")
COMMAND = """#!/bin/sh
echo "%s $*" >> "$RECORD"
case "$*" in *list-units*) printf "%%b" "$UNITS"; exit "$STATUS" ;; esac
"""


def commands(place):
    """Directory of programs that write down how they were called."""
    place.mkdir(exist_ok=True)
    for name in RECORDED:
        program = place / name
        program.write_text(COMMAND % name)
        program.chmod(0o755)
    return place


def run(body, arguments, place, units="", status=0, **environment):
    """On a machine where systemd runs, with these units at work; the calls, and the result."""
    # what the machine of this test lacks or has, the script must not ask about
    body = body.replace("/run/systemd/system", str(place))
    body = body.replace("/usr/lib/systemd/systemd-update-helper", "systemctl")
    body = body.replace("-x systemctl", "-n systemctl")
    body = body.replace("/etc/postcopy", str(place))
    record = place / "record"
    record.write_text("")
    done = subprocess.run(["/bin/sh", "-c", body, "script", *map(str, arguments)], text=True,
                          capture_output=True,
                          env={"PATH": "%s:%s" % (place, os.environ["PATH"]),
                               "RECORD": str(record), "UNITS": units, "STATUS": str(status),
                               **environment})
    return record.read_text().splitlines(), done


def units_of(call):
    return [word.strip("'") for word in call.split() if "@" in word or ".service" in word
            or ".socket" in word]
