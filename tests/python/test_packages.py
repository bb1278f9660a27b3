"""Units and packages: checked by systemd's own tools, built, and installed in a bare Debian root."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
PROGRAMS = os.environ.get("PLIMSOLL_PROGRAMS")
NAMES = ("plimsoll", "plimsoll-aggregator", "plimsoll-node")
# The exposure that `systemd-analyze security` may find at most, times ten.
EXPOSURE_MAX = {"plimsoll-node": 16, "plimsoll-aggregator": 16}


def missing(*tools):
    """The tools that this machine lacks."""
    path = os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"
    return [tool for tool in tools if shutil.which(tool, path=path) is None]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


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

    def test_an_rpm_is_read_by_rpm(self):
        if "rpm" not in self.formats:
            self.skipTest("rpmbuild is not installed")
        [package] = [path for path in self.of(".rpm") if path.name.startswith("plimsoll-node")]
        self.assertIn("/etc/plimsoll/node.toml\n", run("rpm", "-qp", "--configfiles", package))
        for part in ("systemd-sysusers plimsoll-node.conf", "disable --now plimsoll-node.service"):
            self.assertIn(part, run("rpm", "-qp", "--scripts", package))
        root = Path(self.folder.name, "rpm-root")
        install = ["rpm", "--install", "--root", root, "--nodeps", "--noscripts", package]
        run(*install)
        version = run(root / "usr/bin/plimsoll-node", "--version")
        self.assertIn("plimsoll-node 0.1.0", version)

    @unittest.skipUnless(os.geteuid() == 0, "a bare root needs the rights of root")
    @unittest.skipIf(missing("mmdebstrap", "setpriv", "ip", "nats-server"), "a tool is missing")
    def test_on_a_bare_machine_the_units_commands_take_samples_from_the_wheel(self):
        """No Rust, no compiler, no systemd: what the package needs is what Debian always has."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "root")
            run("mmdebstrap", "--quiet", "--variant=minbase", "--include=python3", debian(), root)
            wheel = build_wheel(Path(folder))
            alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
            script = [sys.executable, ROOT / "tests/python/installed.py", root, wheel]
            took = json.loads(run(*alone, *script, *self.of(".deb")))
        self.assertEqual(list(took)[:3], ["install", "start", "samples merged"])


def debian():
    """The release of this machine, from whose archive the root is made."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    return release["VERSION_CODENAME"]


def build_wheel(folder):
    build = f"import flit_core.buildapi as it; print(it.build_wheel({str(folder)!r}))"
    name = run(sys.executable, "-c", build, cwd=ROOT / "node/client-python").strip()
    return folder / name


if __name__ == "__main__":
    unittest.main()
