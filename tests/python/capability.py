"""What this machine allows a test. A probe tries it by itself, before the test that needs it, and skips the test
with the reason. The test's own attempt is no probe: if it fails, the test fails."""

import subprocess
import tempfile
import unittest
from typing import NamedTuple


class Probe(NamedTuple):
    """What a test needs, and a script that fails without it. Its `$0` is an empty folder."""

    needed: str
    script: str


# Gives a file away, enters another root, and starts a process of another user.
OTHER_USERS = Probe("files and processes of other users", """
chown 65532:65532 "$0"
chroot / true
setpriv --reuid=65532 --regid=65532 --clear-groups true
""")

# Mounts as a pod has them, in a namespace of their own, and a network.
NAMESPACES = Probe("mounts and network of its own", """
unshare --mount --net sh -ec '
    mount --bind "$0" "$0"
    mount -o remount,bind,ro "$0"
    mount -t tmpfs tmpfs "$0"
    ip link set lo up
' "$0"
""")

MACHINE_NAMESPACES = "--mount --pid --fork --uts --ipc --cgroup --net --kill-child".split()
# What a machine has besides its files. Device nodes are those of this machine, and so is the kernel,
# whose settings systemd would change.
MACHINE_MOUNTS = """
mkdir -p "$0/proc" "$0/sys" "$0/run" "$0/tmp" "$0/dev"
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --bind "$0/proc/sys" "$0/proc/sys"
mount -o remount,bind,ro "$0/proc/sys"
mount -t sysfs sysfs "$0/sys"
mount -o remount,bind,ro "$0/sys"
mount -t cgroup2 none "$0/sys/fs/cgroup"
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs tmpfs "$0/tmp"
mount -t tmpfs tmpfs "$0/dev"
for device in null zero full random urandom tty; do
    touch "$0/dev/$device"
    mount --bind "/dev/$device" "$0/dev/$device"
done
ln -s /proc/self/fd "$0/dev/fd"
ip link set lo up
"""
# Mounts what a systemd of its own needs, and makes a group of processes.
MACHINE = Probe("systemd of its own", f"""
unshare {" ".join(MACHINE_NAMESPACES)} sh -ec '
    {MACHINE_MOUNTS}
    mkdir "$0/sys/fs/cgroup/probe"
    rmdir "$0/sys/fs/cgroup/probe"
' "$0"
""")


def require(probe):
    """Skips the test if a probe fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["sh", "-ec", probe.script, folder]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        lines = tried.stderr.replace(folder, "a folder").strip().splitlines()
        raise unittest.SkipTest(f"no {probe.needed}: {lines[0] if lines else tried.returncode}")
