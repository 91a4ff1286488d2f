# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy report` of a volume whose source is an SMB share: it is asked with the credentials that
the retriever has."""
import pytest

from lib import smbd, smbtree
from lib.migration import SmbMigration
from lib.smbsource import settings, with_module
from lib.strict_html import Page
from lib.wait import wait_until

pytestmark = with_module


@pytest.fixture
def m(moddir, rpcshim, new_samba, new_volume, tmp_path, tree):
    old = new_samba("old", tree, more=smbtree.RAW_NAMES)
    with old.client() as c:
        c.write_file("file", b"x" * 5000)
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    m = SmbMigration(tmp_path / "m", old.url(), new_volume("ext4", "1G").path / "volume",
                     shim=rpcshim, more=smbtree.RAW_NAMES, conf=settings(smb_credentials=login))
    m.volume.mkdir()
    m.init().start_retriever()
    yield m
    m.stop()


def test_what_is_lost_of_a_share(m, tmp_path):
    wait_until(lambda: m.status()["source_connected"], 60, "a connection")
    m.postcopy("report", m.volume, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    page = Page(text).is_self_contained()
    assert "hard links" in page.text and "SMB does not carry it" in page.text
    assert "What this source makes it lose" not in page.text        # it could be asked
    assert m.url in page.text and smbd.PASSWORD not in text
