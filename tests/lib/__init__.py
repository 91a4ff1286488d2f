# SPDX-License-Identifier: GPL-3.0-or-later
"""What the suites share: servers, volumes, whole migrations.

Servers and volumes start here and nowhere else: each is a context manager, keeps to 127.0.0.1
and to a directory of its own, and ends with the process at the latest.
"""
