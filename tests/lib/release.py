# SPDX-License-Identifier: GPL-3.0-or-later
"""Another release of this tree beside the one that is tested (tests/tools/other-release).

    newer = other_release(moddir / "newer", STUB_WIRE_VERSION=+1)
    m.build = newer                                 # its retriever and crawler
    m.server.plugin_dir = newer / "fsal_stub"       # its plugin, with the next start
"""
import re
import subprocess

from lib.programs import BUILD, TESTS, TOOLS

PLACES = {"STUB_WIRE_VERSION": "libstubcore/wire.h", "STUB_VOLUME_FORMAT": "libstubcore/volume.h",
          "SMB_WIRE_VERSION": "retriever/smb/smb_wire.h"}


def version(name):
    """What this tree has."""
    text = (TESTS.parent / PLACES[name]).read_text()
    return int(re.search(r"^#define\s+%s\s+(\d+)" % name, text, re.MULTILINE)[1])


def other_release(where, texts=(), **versions):
    """Build it; versions: how far each is from ours; texts: NAME=VALUE of others."""
    subprocess.run([str(TOOLS / "other-release"), str(BUILD), str(where), *texts,
                    *("%s=%d" % (name, version(name) + by) for name, by in versions.items())],
                   check=True, timeout=600)
    return where / "build"
