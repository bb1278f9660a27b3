"""Units and packages: checked by systemd's own tools, built, and installed on a bare machine."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

import capability
import captured
from machine import Machine, run, until

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
PROGRAMS = os.environ.get("PLIMSOLL_PROGRAMS")
NAMES = ("plimsoll", "plimsoll-aggregator", "plimsoll-node", "plimsoll-profiler")
# The exposure that `systemd-analyze security` may find at most, times ten.
EXPOSURE_MAX = {"plimsoll-node": 16, "plimsoll-aggregator": 16, "plimsoll-profiler": 16}


PATH = os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"


def missing(*tools):
    """The tools that this machine lacks."""
    return [tool for tool in tools if shutil.which(tool, path=PATH) is None]


@unittest.skipIf(missing("systemd-analyze"), "systemd-analyze is not installed")
class Units(unittest.TestCase):
    def security(self, path, most):
        command = ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", path]
        return subprocess.run(command, capture_output=True, text=True)

    def test_each_unit_leaves_little_exposed(self):
        for name, most in EXPOSURE_MAX.items():
            done = self.security(UNITS / f"{name}.service", most)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_unit_that_leaves_more_exposed_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            text = (UNITS / "plimsoll-node.service").read_text()
            loose = Path(folder, "plimsoll-node.service")
            loose.write_text(text.replace("CapabilityBoundingSet=\n", ""))
            self.assertNotEqual(self.security(loose, 16).returncode, 0)

    def test_systemd_accepts_each_unit(self):
        """Against programs and pages that exist, as they do once a package is installed."""
        with tempfile.TemporaryDirectory() as folder:
            for name in EXPOSURE_MAX:
                text = (UNITS / f"{name}.service").read_text()
                text = text.replace(f"/usr/bin/{name}", "/bin/true")
                unit = Path(folder, f"{name}.service")
                unit.write_text("".join(line for line in text.splitlines(True) if "man:" not in line))
                if (UNITS / f"{name}.socket").exists():
                    text = (UNITS / f"{name}.socket").read_text()
                    socket = [line for line in text.splitlines(True) if "man:" not in line]
                    Path(folder, f"{name}.socket").write_text("".join(socket))
                done = subprocess.run(
                    ["systemd-analyze", "verify", unit], capture_output=True, text=True
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipUnless(PROGRAMS, "PLIMSOLL_PROGRAMS is not set to a folder of built programs")
@unittest.skipIf(missing("dpkg-deb", "objdump"), "dpkg-deb or objdump is not installed")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.formats = ["deb", "tar"] + ([] if missing("rpmbuild", "rpm") else ["rpm"])
        cls.made = cls.package("first")

    @classmethod
    def package(cls, name, formats=None, *more):
        out = Path(cls.folder.name, name)
        only = [word for one in formats or cls.formats for word in ("--only", one)]
        command = [sys.executable, ROOT / "deploy/package", "--programs", PROGRAMS]
        run(*command, "--out", out, "--fast", *only, *more)
        return sorted(out.iterdir())

    def of(self, ending):
        return [path for path in self.made if path.name.endswith(ending)]

    def test_each_format_has_each_package(self):
        for ending in self.formats:
            found = [path.name for path in self.of(f".{ending}" if ending != "tar" else ".tar.gz")]
            self.assertEqual(len(found), len(NAMES), found)

    def test_a_second_build_makes_the_same_bytes(self):
        again = self.package("second", ["deb", "tar"], "--package", "plimsoll-node")
        for path in again:
            [first] = [made for made in self.made if made.name == path.name]
            self.assertTrue(path.read_bytes() == first.read_bytes(), path.name)

    def test_archives_hold_program_unit_settings_pages_and_completions(self):
        [archive] = [path for path in self.of(".tar.gz") if path.name.startswith("plimsoll-node")]
        with tarfile.open(archive) as opened:
            members = {member.name.split("/", 1)[1]: member for member in opened.getmembers()}
        for name, mode in {
            "usr/bin/plimsoll-node": 0o755,
            "usr/lib/systemd/system/plimsoll-node.service": 0o644,
            "usr/lib/sysusers.d/plimsoll-node.conf": 0o644,
            "etc/plimsoll/node.toml": 0o644,
            "usr/share/man/man1/plimsoll-node.1.gz": 0o644,
            "usr/share/bash-completion/completions/plimsoll-node": 0o644,
            "usr/share/doc/plimsoll-node/copyright": 0o644,
        }.items():
            self.assertEqual(members[name].mode, mode, name)
            self.assertEqual((members[name].uid, members[name].uname), (0, "root"))

    def test_the_profiler_has_a_socket_that_starts_it_and_no_page_is_in_two_packages(self):
        names = {}
        for archive in self.of(".tar.gz"):
            with tarfile.open(archive) as opened:
                for name in opened.getnames():
                    names.setdefault(name.split("/", 1)[-1], []).append(archive.name.split("-0")[0])
        for name in (
            "usr/lib/systemd/system/plimsoll-profiler.socket",
            "usr/lib/systemd/system/plimsoll-profiler.service",
            "usr/lib/sysusers.d/plimsoll-profiler.conf",
            "etc/plimsoll/profiler.toml",
            "usr/share/man/man1/plimsoll-profiler-serve.1.gz",
        ):
            self.assertEqual(names.get(name), ["plimsoll-profiler"], name)
        pages = {name: of for name, of in names.items() if name.endswith(".1.gz")}
        self.assertEqual([name for name, of in pages.items() if len(of) > 1], [])
        self.assertEqual(pages["usr/share/man/man1/plimsoll-profile.1.gz"], ["plimsoll"])

    def test_an_rpm_is_read_by_rpm(self):
        if "rpm" not in self.formats:
            self.skipTest("rpmbuild is not installed")
        [package] = [path for path in self.of(".rpm") if path.name.startswith("plimsoll-node")]
        self.assertIn("/etc/plimsoll/node.toml\n", run("rpm", "-qp", "--configfiles", package))
        for part in ("systemd-sysusers plimsoll-node.conf", "disable --now plimsoll-node.service"):
            self.assertIn(part, run("rpm", "-qp", "--scripts", package))
        capability.require(capability.OTHER_USERS)
        root = Path(self.folder.name, "rpm-root")
        install = ["rpm", "--install", "--root", root, "--nodeps", "--noscripts", package]
        run(*install)
        version = run(root / "usr/bin/plimsoll-node", "--version")
        self.assertIn("plimsoll-node 0.1.0", version)


SERVICES = ("plimsoll-aggregator", "plimsoll-node")
SENT = 100
FEED = f"""\
import sys
sys.path.insert(0, sys.argv[1])
import plimsoll
plimsoll.configure(enable=True, socket="/run/plimsoll/node.sock")
for n in range({SENT}):
    plimsoll.record("epoch_hook", seconds=0.001 + n / 100_000)
sys.exit(0 if plimsoll.flush(5.0) else 1)
"""
CONNECT = """\
import socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect("/run/plimsoll/node.sock")
"""


@unittest.skipUnless(PROGRAMS, "PLIMSOLL_PROGRAMS is not set to a folder of built programs")
@unittest.skipIf(missing("mmdebstrap", "nsenter", "ip", "nats-server"), "a tool is missing")
class Installed(unittest.TestCase):
    """On a machine without Rust, a compiler, or anything else of ours."""

    @classmethod
    def setUpClass(cls):
        capability.require(capability.MACHINE)

    def test_packages_install_start_take_samples_from_the_wheel_survive_and_leave(self):
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine(Path(folder, "root"))
            try:
                self.on(machine, Path(folder))
            finally:
                machine.end()

    def on(self, machine, folder):
        wheel = self.copy_packages(machine, folder)
        print("restrictions that this machine cannot grant:", machine.relax(*SERVICES))
        machine.run("systemctl", "stop", "nats-server")
        self.start_broker(machine)
        self.follow_the_readme(machine)
        for name in NAMES:
            self.assertIn(f"{name} 0.1.0 (commit", machine.run(name, "--version"))
        # A user who may send is in the group of the socket.
        machine.run("useradd", "--groups", "plimsoll", "trainer")
        feed = ["setpriv", "--reuid=trainer", "--regid=trainer", "--init-groups", "python3", "-c"]
        machine.run(*feed, FEED, wheel)
        stranger = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "python3", "-c"]
        self.assertIn("PermissionError", machine.fails(*stranger, CONNECT))
        until("the samples are merged", lambda: self.merged(machine) == 1 + SENT)
        denied = self.readings(machine, lambda one: one["reason"] == "no_permission")
        self.assertNotIn("clock_synchronized", denied)
        machine.run("systemctl", "reload", "plimsoll-aggregator")
        self.operators_find_the_token(machine)
        self.a_hanging_node_is_restarted(machine)
        # A stop without a broker is no failure: what waits is in the spool, and is sent later.
        machine.run("systemctl", "stop", "broker")
        machine.run(*feed, FEED, wheel)
        machine.run("systemctl", "stop", "plimsoll-node")
        self.assertEqual(machine.show("plimsoll-node", "Result"), "success")
        self.start_broker(machine)
        machine.run("systemctl", "start", "plimsoll-node")
        until("the samples of the spool are merged", lambda: self.merged(machine) == 1 + 2 * SENT)
        self.the_unit_sees_the_machine_as_root_does(machine)
        self.follow_the_recipe_for_tls(machine)
        self.the_profiler_reads_whom_it_may(machine)
        # What an operator placed stays when packages go.
        machine.run("sh", "-c", "rm /etc/plimsoll/*.nk /etc/plimsoll/*.confirm /etc/plimsoll/ca.pem")
        machine.run("dpkg", "--purge", *NAMES)
        for path in ("usr/bin/plimsoll-node", "etc/plimsoll", "var/lib/plimsoll-node"):
            self.assertFalse((machine.root / path).exists(), path)
        if not missing("rpmbuild", "rpm"):
            self.rpms_install_and_leave(machine, folder)

    def follow_the_readme(self, machine):
        """Runs the lines of its section on installing, and prints how long each took."""
        section = (ROOT / "README.md").read_text().split("\n## Install\n")[1]
        architecture = run("dpkg", "--print-architecture").strip()
        # The block before it starts a broker, which here is a unit of its own.
        lines = section.split("```sh\n")[2].split("```")[0].replace("amd64", architecture)
        for line in lines.splitlines():
            began = time.monotonic()
            shown = machine.run("sh", "-ec", f"cd /\n{line}")
            print(f"{time.monotonic() - began:.1f} s: {line.split('#')[0].rstrip()}")
        self.assertRegex(shown, r"epoch_hook +fleet +p99 +18 ms")
        self.assertIn("nodes 1 up, 0 silent", shown)

    def operators_find_the_token(self, machine):
        """That the package made: root and members of the group change silences without naming it."""
        token = machine.run("stat", "--format=%U:%G %a", "/etc/plimsoll/aggregator.token")
        self.assertEqual(token, "root:plimsoll-aggregator 640\n")
        silence = ["plimsoll", "silence", "--rule", "epoch_hook", "--for", "1h", "--by", "ann"]
        self.assertIn("silence 1 at ", machine.run(*silence))
        machine.run("useradd", "--groups", "plimsoll-aggregator", "ann")
        as_user = ["setpriv", "--reuid={0}", "--regid={0}", "--init-groups"]
        machine.run(*(word.format("ann") for word in as_user), "plimsoll", "silence", "--end", "1")
        refused = machine.fails(*(word.format("trainer") for word in as_user), *silence)
        self.assertIn("of packages /etc/plimsoll/aggregator.token", refused)

    def follow_the_recipe_for_tls(self, machine):
        """Runs the lines of deploy/nats/README.md on making certificates and keys and placing them, with
        the broker's unit of Debian, and edits the settings as it shows."""
        machine.run("systemctl", "stop", "broker", *SERVICES)
        section = (ROOT / "deploy/nats/README.md").read_text().split("\n## Set up\n")[1]
        section = section.split("\n## ")[0]
        make, on_broker, place, start = (
            part.split("```")[0] for part in section.split("```sh\n")[1:]
        )
        folder = machine.root / "tls/deploy/nats"
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "deploy/nats/plimsoll.conf", folder)
        with open(machine.root / "etc/hosts", "a") as hosts:
            hosts.write("127.0.0.1 broker.example\n")
        for lines in (make, on_broker, place):
            machine.run("sh", "-ec", f"cd /tls\n{lines}")
        name, bus = section.split("```toml\n")[1].split("```")[0].split("[bus]\n")
        for program, head in (("node", name), ("aggregator", "")):
            settings = machine.root / f"etc/plimsoll/{program}.toml"
            text = settings.read_text().replace('url = "nats://127.0.0.1:4222"\n', bus)
            settings.write_text(head + text.replace("node.nk", f"{program}.nk"))
        # The seed as it is without the recipe: root's check passes, and the unit's user may not read it.
        machine.run("chown", "root", "/etc/plimsoll/node.nk")
        check = start.splitlines()[0].split(" --as-user")[0].split()
        self.assertIn("checked as root", machine.run(*check))
        failed = machine.fails("sh", "-ec", start.splitlines()[0])
        self.assertRegex(failed, "bus.nkey_seed_file: .*Permission denied")
        machine.run("sh", "-ec", f"cd /tls\n{place}\n{start}")
        merged = self.merged(machine)
        machine.run("/opt/plimsoll/bin/python", "-m", "plimsoll", "send", "epoch_hook", "12.5")
        until("a sample is merged over TLS", lambda: self.merged(machine) == merged + 1)
        self.assertIn("n1 ", machine.run("plimsoll", "nodes", "--presence", "up"))

    def the_profiler_reads_whom_it_may(self, machine):
        """Orders of an operator through the mesh to the installed unit, with its user, capabilities and
        system calls: another user's process that sends, and refused ones. None of them gets a signal."""
        self.enable_captures(machine)
        before = self.merged(machine)
        jobs = [self.start_job(machine, user, user) for user in ("trainer", "root")]
        numbers = [job.stdout.readline().strip() for job in jobs]

        # An operator has six orders an hour.
        profile = ["--native", "--output", "/native.pb.gz"]
        self.assertIn("by the profiler", self.order(machine, "--job", "trainer", *profile))
        native = captured.native_of(machine.root / "native.pb.gz")
        self.assertTrue(native.startswith("user and kernel"), native)

        for selected, user in (("--job=root", 0), (f"--pid={numbers[0]}", 1000)):
            refused = self.order(machine, selected)
            self.assertIn("is refused (process_not_permitted); the process is of user "
                          f"{user}: add it to allow_users", refused)
        settings = machine.root / "etc/plimsoll/profiler.toml"
        settings.write_text('allow_users = ["trainer"]\n')
        machine.run("systemctl", "stop", "plimsoll-profiler")
        shown = self.order(machine, f"--pid={numbers[0]}")
        self.assertIn("by the profiler", shown)
        self.assertRegex(shown, r"planted \(<string>:\d+\)")

        # Without either capability: the text names it, and the socket starts the next one.
        self.limit(machine, "CAP_SYS_PTRACE CAP_CHECKPOINT_RESTORE")
        self.assertIn("by the profiler", self.order(machine, "--job", "trainer", *profile))
        native = captured.native_of(machine.root / "native.pb.gz")
        self.assertFalse(native.startswith("user and kernel"), native)
        self.limit(machine, "")
        denied = self.order(machine, "--job", "trainer")
        self.assertRegex(denied, r"failed \(denied\).* belongs to user 1000.*grant CAP_SYS_PTRACE")

        for number in numbers:
            machine.run("sh", "-c", f"kill {number}")
        sent = [job.communicate()[0].split(maxsplit=1) for job in jobs]
        self.assertEqual([signals for _, signals in sent], ["[]\n", "[]\n"])
        all_sent = before + sum(int(rounds) for rounds, _ in sent)
        until("every round is merged", lambda: self.merged(machine) == all_sent)

    def enable_captures(self, machine):
        """As node/doc/captures.md states it."""
        machine.relax("plimsoll-profiler", watchdog="")
        machine.run("openssl", "rand", "-hex", "-out", "/tls/confirm.key", "32")
        for program in ("node", "aggregator"):
            key = f"/etc/plimsoll/{program}.confirm"
            machine.run("install", "-o", f"plimsoll-{program}", "-m", "0400", "/tls/confirm.key", key)
            more = f"[confirm]\nkey_file = '{key}'\n"
            more += "[captures]\nenabled = true\n" if program == "node" else ""
            with open(machine.root / f"etc/plimsoll/{program}.toml", "a") as settings:
                settings.write(more)
        machine.run("systemctl", "enable", "--now", "plimsoll-profiler.socket")
        machine.run("systemctl", "restart", "plimsoll-aggregator", "plimsoll-node")
        until("the node is up", lambda: "n1 " in machine.run("plimsoll", "nodes", "--presence", "up"))

    def start_job(self, machine, user, operation):
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return machine.start(*command, "python3", "-c", captured.JOB, operation, "0")

    def order(self, machine, *words):
        """All that the operator's command prints."""
        order = ["plimsoll", "profile", "cpu", "--node", "n1", "--seconds", "2", *words]
        return machine.run("sh", "-c", '"$@" 2>&1 || true', "sh", *order)

    def limit(self, machine, capabilities):
        """Takes the other capabilities from the profiler's unit."""
        lines = "".join(f"{kind}=\n{kind}={capabilities}\n"
                        for kind in ("CapabilityBoundingSet", "AmbientCapabilities"))
        folder = machine.root / "etc/systemd/system/plimsoll-profiler.service.d"
        (folder / "limited.conf").write_text(f"[Service]\n{lines}")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "stop", "plimsoll-profiler")

    def copy_packages(self, machine, folder):
        shutil.copy(shutil.which("nats-server", path=PATH), machine.root / "usr/local/bin")
        wheel = build_wheel(folder)
        for path in (*self.make_packages("deb", folder), wheel):
            shutil.copy(path, machine.root)
        return f"/{wheel.name}"

    def make_packages(self, ending, folder):
        command = [sys.executable, ROOT / "deploy/package", "--programs", PROGRAMS, "--fast"]
        return run(*command, "--only", ending, "--out", folder / ending).split()

    def rpms_install_and_leave(self, machine, folder):
        """With their scripts; the root is Debian's, so what they need is not looked for."""
        for name in SERVICES:
            machine.run("sh", "-c", f"! getent passwd {name} || userdel {name}")
        rpm = ["rpm", "--root", machine.root, "--nodeps"]
        run(*rpm, "--install", *self.make_packages("rpm", folder))
        for name in NAMES:
            self.assertIn(f"{name} 0.1.0 (commit", machine.run(name, "--version"))
        for name in SERVICES:
            self.assertTrue(machine.run("getent", "passwd", name), "scripts make users")
        run(*rpm, "--erase", *NAMES)
        for path in ("usr/bin/plimsoll-node", "etc/plimsoll/node.toml"):
            self.assertFalse((machine.root / path).exists(), path)

    def start_broker(self, machine):
        broker = ["nats-server", "--addr", "127.0.0.1", "--jetstream", "--store_dir", "/broker"]
        machine.run("systemd-run", "--unit=broker", "--collect", "--quiet", *broker)

    def a_hanging_node_is_restarted(self, machine):
        before = machine.show("plimsoll-node", "MainPID")
        machine.run("sh", "-c", f"kill -STOP {before}")
        until("the watchdog has ended it", lambda: machine.show("plimsoll-node", "NRestarts") == "1")
        until("it runs again", lambda: machine.show("plimsoll-node", "ActiveState") == "active")
        self.assertNotEqual(machine.show("plimsoll-node", "MainPID"), before)

    def the_unit_sees_the_machine_as_root_does(self, machine):
        """Every sensor in the sandbox of the unit, beside a node that runs without any."""
        machine.run("mkdir", "/mnt/data")
        for path in ("/mnt/data", "/home"):
            machine.run("mount", "-t", "tmpfs", "-o", "size=1m", f"/dev{path}", path)
        # A machine in a container does not pass on mounts to units that run.
        machine.run("systemctl", "restart", "plimsoll-node")
        outside = ["plimsoll-node", "--name", "outside", "--nats", "nats://127.0.0.1:4222", "--udp", ""]
        outside += ["--http", "", "--unix", "", "--set", "bus.allow_open=true"]
        machine.run("systemd-run", "--unit=outside", "--collect", "--quiet", *outside)

        def seen():
            nodes = json.loads(machine.get("http://127.0.0.1:9900/api/v1/hardware"))["nodes"]
            return {node["node"]: dict(map(self.sight, node["readings"])) for node in nodes}

        def disks(of):
            return [labels for sensor, labels in of if sensor == "disk_total_bytes"]

        both = until("both have read all file systems",
                     lambda: (found := seen()) and all(len(disks(of)) >= 3 for of in found.values())
                     and len(found) == 2 and found)
        alone = both.pop("outside")
        [unit] = both.values()
        # What is of the process itself differs: its cost, and its own control group.
        own = ("process_", "sampling_", "cgroup_")
        differing = {key: (alone.get(key), unit.get(key)) for key in alone.keys() | unit.keys()
                     if alone.get(key) != unit.get(key) and not key[0].startswith(own)}
        self.assertEqual(differing, {})
        machine.run("systemctl", "stop", "outside")

    @staticmethod
    def sight(reading):
        """What two nodes on one machine have to agree on."""
        key = reading["sensor"], tuple(sorted(reading["labels"].items()))
        exact = reading["sensor"] in ("disk_read_only", "disk_total_bytes", "memory_total_bytes")
        return key, (reading["state"], reading["reason"], reading["value"] if exact else None)

    def merged(self, machine):
        """Samples of jobs."""
        return json.loads(machine.get("http://127.0.0.1:9900/metrics/summary"))["samples"]["jobs"]

    def readings(self, machine, picked):
        [node] = json.loads(machine.get("http://127.0.0.1:9900/api/v1/hardware"))["nodes"]
        return [one["sensor"] for one in node["readings"] if picked(one)]


def build_wheel(folder):
    build = f"import flit_core.buildapi as it; print(it.build_wheel({str(folder)!r}))"
    name = run(sys.executable, "-c", build, cwd=ROOT / "node/client-python").strip()
    return folder / name


if __name__ == "__main__":
    unittest.main()
