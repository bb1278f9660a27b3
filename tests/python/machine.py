"""A bare Debian machine: its own systemd in namespaces of its own. With it end all
its processes and mounts. Needs root and mmdebstrap."""

import subprocess
import time
from pathlib import Path

from capability import MACHINE_MOUNTS, MACHINE_NAMESPACES

WAIT = 60.0
BOOT = f"""{MACHINE_MOUNTS}
export container=test
exec chroot "$0" /lib/systemd/systemd --system --log-target=console --show-status=0
"""
# Restrictions that need rights which not every container has.
PROBED = ("PrivateUsers", "PrivateDevices")


def run(*command, **options):
    """What a command prints; an error when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(what, found):
    """The first value that is true; errors of the network count as none."""
    ends = time.monotonic() + WAIT
    while time.monotonic() < ends:
        try:
            if value := found():
                return value
        except (OSError, AssertionError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"not within {WAIT} s: {what}")


class Machine:
    """A machine that has booted."""

    def __init__(self, root):
        self.root = Path(root)
        include = "--include=systemd,python3-venv,nats-server,openssl"
        run("mmdebstrap", "--quiet", "--variant=minbase", include, debian(), root)
        self.log = open(self.root.parent / "boot.log", "w+b")
        command = ["unshare", *MACHINE_NAMESPACES, "sh", "-ec", BOOT, root]
        self.process = subprocess.Popen([str(w) for w in command], stdout=self.log, stderr=self.log)
        try:
            self.first = until("the first process", self._first)
            until("a running systemd", self._is_running)
        except AssertionError as error:
            self.log.seek(0)
            output = self.log.read().decode()[-500:]
            self.end()
            raise AssertionError(f"{error}: {output}") from error

    def _first(self):
        number = self.process.pid
        return Path(f"/proc/{number}/task/{number}/children").read_text().strip()

    def _is_running(self):
        state = subprocess.run(
            self._inside("systemctl", "is-system-running"), capture_output=True, text=True
        )
        return state.stdout.strip() in ("running", "degraded")

    def _inside(self, *command):
        enter = ["nsenter", "--target", self.first, "--all", "--wd=/"]
        return [*enter, f"--root=/proc/{self.first}/root", *map(str, command)]

    def run(self, *command):
        """What a command prints on this machine."""
        return run(*self._inside(*command))

    def start(self, *command):
        """A process on this machine, whose output is read."""
        return subprocess.Popen(self._inside(*command), stdout=subprocess.PIPE, text=True)

    def fails(self, *command):
        """The errors of a command that fails on this machine."""
        done = subprocess.run(self._inside(*command), capture_output=True, text=True)
        if done.returncode == 0:
            raise AssertionError(f"{command} does not fail")
        return done.stderr

    def show(self, unit, key):
        """A property of a unit."""
        return self.run("systemctl", "show", "--property", key, "--value", unit).strip()

    def get(self, url):
        """A page, asked for on this machine."""
        code = f"import urllib.request as it; print(it.urlopen({url!r}, timeout=5).read().decode())"
        return self.run("python3", "-c", code)

    def relax(self, *units, watchdog="WatchdogSec=3s\n"):
        """Lifts the restrictions that a container cannot grant, and returns them. A shorter watchdog,
        too, which a test may wait for."""
        lifted = [name for name in PROBED if not self._grants(name)]
        text = f"[Service]\n{watchdog}" + "".join(f"{name}=no\n" for name in lifted)
        for unit in units:
            folder = self.root / f"etc/systemd/system/{unit}.service.d"
            folder.mkdir(parents=True)
            (folder / "container.conf").write_text(text)
        self.run("systemctl", "daemon-reload")
        return lifted

    def _grants(self, name):
        probe = self._inside("systemd-run", "--wait", "--quiet", "--collect", "-p", f"{name}=yes")
        return subprocess.run([*probe, "/bin/true"], capture_output=True).returncode == 0

    def end(self):
        """Ends the machine."""
        self.process.kill()
        self.process.wait()
        self.log.close()


def debian():
    """The release of this machine, from whose archive the root is made."""
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"]
