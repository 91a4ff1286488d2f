# SPDX-License-Identifier: GPL-3.0-or-later
"""As test_smb_module_debian13.py, of smbd alone: what looking costs and shows, the attribute
OFFLINE and the news of its end, rights, locks, and writes that outlive their smbd."""
from lib import debian
from lib.smbsource import with_module
from lib.world import SmbWorld
from test_smb_durable import test_a_write_outlives_its_process  # noqa: F401
from test_smb_look import (test_a_copy_at_the_server_has_data,  # noqa: F401
                           test_a_watcher_of_names_sees_no_fill, test_completion_is_notified,
                           test_locks_of_a_stub, test_many_reads_wait_at_once,
                           test_offline_ends_with_the_last_byte,
                           test_one_read_waits_and_the_session_goes_on,
                           test_overwriting_opens_fetch_nothing, test_ranges_of_a_stub_are_all_data,
                           test_rights_are_the_old_ones, test_streams_of_a_stub,
                           test_the_share_says_that_data_may_be_elsewhere)

pytestmark = with_module

WORLD = SmbWorld
RELEASE = debian.other(debian.NEWER)
