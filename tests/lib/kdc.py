# SPDX-License-Identifier: GPL-3.0-or-later
"""A Kerberos realm of a test's own: MIT's krb5kdc, and the keys of who is in it.

    kdc = Kdc(workdir / "kdc", life=3600).start()
    kdc.keytab("root")                    # a file with root's key
    kdc.cache("root")                     # a file with root's ticket, as kinit makes it
    kdc.environ                           # for who is to know of the realm
    kdc.stop()

127.0.0.1 and a port of its own only; database, configuration and logs in workdir.
"""
import atexit
import os
import pathlib
import re
import signal
import socket
import subprocess

from lib.ports import free_port
from lib.wait import wait_until

REALM = "POSTCOPY.TEST"

# 127.0.0.1 by a name that needs no /etc/hosts: getaddrinfo() takes it for an address,
# Kerberos does not.
HOST = "127.1"


class Kdc:
    def __init__(self, workdir, life=36000):
        """life: seconds a ticket may last."""
        self.workdir, self.life = pathlib.Path(workdir), life
        self.port = self.process = None

    # -- files --------------------------------------------------------------

    @property
    def environ(self):
        return {"KRB5_CONFIG": str(self.workdir / "krb5.conf")}

    def _env(self):
        return dict(os.environ, **self.environ,
                    KRB5_KDC_PROFILE=str(self.workdir / "kdc.conf"))

    def _write(self):
        self.workdir.mkdir(parents=True, exist_ok=True)
        home = {"home": self.workdir, "port": self.port, "realm": REALM, "host": HOST,
                "life": self.life}
        (self.workdir / "krb5.conf").write_text("""\
[libdefaults]
default_realm = %(realm)s
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
%(realm)s = {
    kdc = 127.0.0.1:%(port)d
}
[domain_realm]
%(host)s = %(realm)s
""" % home)
        # What this KDC says of a user's groups is not for a server outside of a domain.
        (self.workdir / "kdc.conf").write_text("""\
[kdcdefaults]
kdc_listen = 127.0.0.1:%(port)d
kdc_tcp_listen = 127.0.0.1:%(port)d
[realms]
%(realm)s = {
    database_name = %(home)s/principal
    key_stash_file = %(home)s/stash
    acl_file = %(home)s/kadm5.acl
    max_life = %(life)ds
    disable_pac = true
}
[logging]
kdc = FILE:%(home)s/kdc.log
""" % home)

    def _tool(self, *argv, text=None, **env):
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=300,
                              env=dict(self._env(), **env))
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def admin(self, command):
        """A line for kadmin.local, on the database itself."""
        return self._tool("kadmin.local", "-r", REALM, "-q", command)

    def principal(self, name):
        """A new one, with a key that nobody knows."""
        self.admin("addprinc -randkey +requires_preauth -maxlife %ds %s" % (self.life, name))

    def keytab(self, *names, file="keytab"):
        """The keys of these, which stay as they are."""
        path = self.workdir / file
        path.unlink(missing_ok=True)
        for name in names:
            self.admin("ktadd -k %s -norandkey %s" % (path, name))
        path.chmod(0o600)
        return path

    def new_key(self, name):
        """What keytabs have of it is of no use any more."""
        self.admin("change_password -randkey %s" % name)
        for path in self.workdir.glob("*.of-cache"):
            path.unlink()

    def failed(self):
        """How often it has refused a key."""
        return (self.workdir / "kdc.log").read_text(errors="replace").count("PREAUTH_FAILED")

    def cache(self, name, file="cache"):
        """A ticket, as an administrator gets one."""
        path, new = self.workdir / file, self.workdir / (file + ".new")
        key = self.workdir / (name.replace("/", "-") + ".of-cache")
        if not key.exists():
            self.keytab(name, file=key.name)
        self._tool("kinit", "-k", "-t", str(key), "-l", "%ds" % self.life,
                   "-c", "FILE:%s" % new, name)
        new.rename(path)
        return path

    # -- life ---------------------------------------------------------------

    def start(self):
        for attempt in range(3):
            self.port = self.port or free_port()
            self._write()
            if not (self.workdir / "principal").exists():
                self._tool("kdb5_util", "create", "-r", REALM, "-s", "-P", "master", "-W")
            with open(self.workdir / "kdc.out", "ab") as out:
                self.process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM],
                                                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                env=self._env(), start_new_session=True)
            atexit.register(self.stop)
            if wait_until(self._ready, 30, "the KDC") == "ready":
                return self
            assert attempt < 2, (self.workdir / "kdc.out").read_text()
            self.port = None    # somebody else was faster

    def _ready(self):
        if self.process.poll() is not None:
            return "ended"
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0 and "ready"

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(30)
        atexit.unregister(self.stop)

    def sigstop(self):
        self.process.send_signal(signal.SIGSTOP)

    def issued(self, name):
        """When tickets to get tickets with were given to this one: seconds."""
        line = re.compile(r"AS_REQ .* ISSUE: authtime (\d+),.* %s@%s for krbtgt/" % (name, REALM))
        return [int(t) for t in line.findall((self.workdir / "kdc.log").read_text())]
