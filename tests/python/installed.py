"""Installs the packages in a bare Debian root, runs the commands of their units there with the rights
that the units leave them, feeds the node from the Python wheel, and sees the samples.

Runs as root in namespaces of its own: `unshare --net --mount --pid --fork --mount-proc`, so that ports
are free, mounts end with it, and no process stays behind.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
SERVICES = ("plimsoll-aggregator", "plimsoll-node")
SENT = 100
WAIT = 30.0

FEED = f"""\
import sys
sys.path.insert(0, sys.argv[1])
import plimsoll
plimsoll.configure(enable=True, socket="/run/plimsoll/node.sock")
for n in range({SENT}):
    plimsoll.record("epoch_hook", seconds=0.001 + n / 100_000)
sys.exit(0 if plimsoll.flush(5.0) else 1)
"""


class Unit:
    """What a unit of systemd says about its process."""

    def __init__(self, name):
        self.values = {}
        for line in (UNITS / f"{name}.service").read_text().splitlines():
            key, separator, value = line.partition("=")
            if separator and not line.startswith("#"):
                self.values.setdefault(key, []).append(value)

    def one(self, key, default=""):
        return self.values.get(key, [default])[-1]


def in_root(root, *command, **options):
    """Runs a command in the root."""
    return subprocess.run(["chroot", root, *command], check=True, **options)


def start(root, name):
    """Starts the command of a unit as systemd would, without a capability and on a root that is
    read-only but for the directories that the unit names."""
    unit = Unit(name)
    user, group = unit.one("User"), unit.one("Group")
    writable = []
    for key, parent, mode in (("RuntimeDirectory", "run", "0755"), ("StateDirectory", "var/lib", "0700")):
        if directory := unit.one(key):
            mode = unit.one(f"{key}Mode", mode)
            path = f"/{parent}/{directory}"
            in_root(root, "install", "-d", "-m", mode, "-o", user, "-g", group, path)
            writable.append(path)
    binds = "".join(f"mount --bind {root}{path} {root}{path}; " for path in writable)
    mounts = (
        f"mount --bind {root} {root}; {binds}mount -t proc proc {root}/proc; "
        f"mount -o remount,bind,ro {root}; "
    )
    umask = unit.one("UMask", "0022")
    rights = ["setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups"]
    rights += ["--bounding-set=-all", "--inh-caps=-all"]
    if unit.one("NoNewPrivileges") == "yes":
        rights.append("--no-new-privs")
    words = unit.one("ExecStart").split()
    for check in unit.values.get("ExecStartPre", []):
        subprocess.run(shell(mounts, umask, root, [*rights, *check.split()]), check=True, stdout=sys.stderr)
    log = open(Path(root).parent / f"{name}.log", "wb")
    return subprocess.Popen(shell(mounts, umask, root, [*rights, *words]), stdout=log, stderr=log)


def shell(mounts, umask, root, words):
    text = f"{mounts}umask {umask}; exec chroot {root} {' '.join(words)}"
    return ["unshare", "--mount", "sh", "-ec", text]


def get(path):
    with urllib.request.urlopen(f"http://127.0.0.1:9900{path}", timeout=5) as answer:
        return json.load(answer)


def until(what, found):
    ends = time.monotonic() + WAIT
    while time.monotonic() < ends:
        try:
            if value := found():
                return value
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"not within {WAIT} s: {what}")


def installed(root, packages, wheel):
    """The seconds that each step took."""
    took = {}
    begun = time.monotonic()

    def note(step):
        nonlocal begun
        took[step] = round(time.monotonic() - begun, 2)
        begun = time.monotonic()

    folder = Path(root, "packages")
    folder.mkdir()
    for package in packages:
        shutil.copy(package, folder)
    in_root(root, "sh", "-c", "dpkg -i /packages/*.deb", stdout=sys.stderr)
    note("install")
    for name in ("plimsoll", *SERVICES):
        in_root(root, name, "--version", stdout=sys.stderr)
    broker = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-js", "-sd", f"{root}/broker"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    services = {name: start(root, name) for name in SERVICES}
    socket = Path(root, "run/plimsoll/node.sock")
    until("the socket of the node", socket.exists)
    note("start")
    shutil.copy(wheel, folder)
    # A user who may send is in the group of the socket.
    in_root(root, "useradd", "--groups", "plimsoll", "trainer")
    feed = ["setpriv", "--reuid=trainer", "--regid=trainer", "--init-groups", "python3", "-c", FEED]
    in_root(root, *feed, f"/packages/{Path(wheel).name}")
    stranger = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "python3", "-c"]
    refused = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect" \
        "('/run/plimsoll/node.sock')"
    denied = subprocess.run(["chroot", root, *stranger, refused], capture_output=True, text=True)
    if "PermissionError" not in denied.stderr:
        raise SystemExit(f"a stranger may send: {denied}")

    def merged():
        [node] = get("/api/v1/nodes")["nodes"]
        return node["ledger"]["merged"] == SENT

    until(f"{SENT} samples merged", lambda: len(get("/api/v1/nodes")["nodes"]) == 1 and merged())
    note("samples merged")
    for name in reversed(SERVICES):
        services[name].terminate()
        if services[name].wait(WAIT) != 0:
            raise SystemExit(f"{name} ended with {services[name].returncode}")
    note("stop")
    # A stop without a broker is no failure: what waits is in the spool.
    broker.terminate()
    broker.wait()
    lonely = start(root, "plimsoll-node")
    until("the socket of the node", socket.exists)
    in_root(root, *feed, f"/packages/{Path(wheel).name}")
    lonely.terminate()
    if lonely.wait(WAIT) != 0:
        raise SystemExit(f"the node without a broker ended with {lonely.returncode}")
    in_root(root, "dpkg", "--purge", "plimsoll", *SERVICES, stdout=sys.stderr)
    left = [path for path in ("usr/bin/plimsoll-node", "etc/plimsoll", "var/lib/plimsoll-node")
            if Path(root, path).exists()]
    if left:
        raise SystemExit(f"a purge leaves {left}")
    note("stop without a broker, remove")
    return took


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
    root, wheel, *packages = sys.argv[1:]
    try:
        print(json.dumps(installed(root, packages, wheel)))
    except SystemExit as failed:
        for log in Path(root).parent.glob("*.log"):
            sys.stderr.write(f"== {log.name}\n{log.read_text()}")
        raise failed
