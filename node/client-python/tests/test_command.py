"""`python -m plimsoll`, and the package as it is installed from a wheel."""

import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

from .listening import PACKAGE, environment, unix_socket


def command(*arguments, address="", python=sys.executable, **more):
    """Exit code and what was printed, with everything switched off but what is in `more`."""
    off = {key: "" for key in environment("") if key.startswith("PLIMSOLL")}
    done = subprocess.run(
        [python, "-m", "plimsoll", *arguments],
        env={**environment(address), **off, "PLIMSOLL_SOCKET": address, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


class Command(unittest.TestCase):
    """The command line."""

    def test_send_sends_one_value_despite_switches(self):
        with unix_socket() as listening:
            for arguments in [
                ["epoch_hook", "12.5", "--label", "phase=train", "--label", "class=llm"],
                ["cache", "3", "--type", "c"],
                ["depth", "0.5", "--type", "g", "--socket", listening.path],
            ]:
                address = "" if "--socket" in arguments else listening.path
                self.assertEqual(command("send", *arguments, address=address), (0, ""))
            listening.read()
            values = {"epoch_hook{class:llm,phase:train}": [(12_500_000, 1)]}
            self.assertEqual(dict(listening.latencies), values)
            self.assertEqual(dict(listening.counters), {"cache": 3})
            self.assertEqual(listening.gauges, {"depth": 0.5})

    def test_send_reports_a_missing_node(self):
        code, printed = command("send", "op", "1", address="/nonexistent/node.sock")
        self.assertEqual(code, 1)
        self.assertIn("not sent: /nonexistent/node.sock: [Errno 2]", printed)

    def test_wrong_usage_is_2(self):
        for arguments in [[], ["send"], ["send", "op", "x"], ["send", "op", "1", "--label", "x"]]:
            self.assertEqual(command(*arguments)[0], 2, arguments)
        for value in ["-1", "nan", "inf"]:
            self.assertEqual(command("send", "op", "--", value)[0], 2, value)

    def test_doctor_reports_node_address_and_switches(self):
        with unix_socket() as listening:
            code, printed = command(
                "doctor",
                address=listening.path,
                PLIMSOLL_ENABLE="1",
                PLIMSOLL_ENABLE_SHARDS="1",
                PLIMSOLL_FLUSH_MS="5",
            )
            self.assertEqual(code, 0)
            self.assertIn(f"{listening.path} answers", printed)
            self.assertRegex(printed, "master +on .*\ntimers +off .*\nshards +on ")
            self.assertIn("invalid      PLIMSOLL_FLUSH_MS: '5'", printed)
            self.assertEqual(listening.read().sizes, [])
        code, printed = command("doctor", address=listening.path)
        self.assertEqual(code, 1)
        self.assertIn("does not answer", printed)

    def test_doctor_reports_a_refused_udp_port(self):
        code, printed = command("doctor", address="udp://127.0.0.1:9")
        self.assertEqual((code, "Connection refused" in printed), (1, True), printed)

    def test_help_shows_examples(self):
        code, printed = command("--help")
        self.assertEqual((code, "send epoch_hook 12.5" in printed), (0, True))


def files_of_the_checkout() -> set[str]:
    found = {os.path.join(at, name) for at, _, names in os.walk(PACKAGE) for name in names}
    return {path for path in found if not path.endswith(".pyc")}


class Packages(unittest.TestCase):
    """Built in the checkout, which stays clean, and without a network."""

    def test_the_source_archive_holds_package_tests_and_examples(self):
        before = files_of_the_checkout()
        with tempfile.TemporaryDirectory() as folder:
            build = f"import flit_core.buildapi as it; it.build_sdist({folder!r})"
            subprocess.run([sys.executable, "-c", build], check=True, cwd=PACKAGE)
            [archive] = os.listdir(folder)
            self.assertEqual(archive, "plimsoll-0.1.0.tar.gz")
            with tarfile.open(os.path.join(folder, archive)) as opened:
                names = set(opened.getnames())
        for name in ("pyproject.toml", "README.md", "plimsoll/py.typed", "tests/test_command.py"):
            self.assertIn(f"plimsoll-0.1.0/{name}", names)
        self.assertEqual(files_of_the_checkout(), before)

    def test_the_wheel_installs_runs_and_brings_its_types(self):
        with tempfile.TemporaryDirectory() as folder:
            before = files_of_the_checkout()
            quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
            pip = [sys.executable, "-m", "pip"]
            build = [*pip, "wheel", *quiet, "--no-build-isolation", "--wheel-dir", folder, PACKAGE]
            subprocess.run(build, check=True)
            self.assertEqual(files_of_the_checkout(), before)
            [wheel] = [name for name in os.listdir(folder) if name.endswith(".whl")]
            self.assertEqual(wheel, "plimsoll-0.1.0-py3-none-any.whl")
            fresh = os.path.join(folder, "fresh")
            subprocess.run([sys.executable, "-m", "venv", fresh], check=True)
            python = os.path.join(fresh, "bin", "python")
            install = [python, "-m", "pip", "install", *quiet, os.path.join(folder, wheel)]
            subprocess.run(install, check=True)
            version = command("--version", python=python, PYTHONPATH="")
            self.assertEqual(version, (0, "plimsoll 0.1.0 (Python)\n"))
            where = [python, "-c", "import os, plimsoll; print(os.path.dirname(plimsoll.__file__))"]
            installed = subprocess.check_output(
                where, env=environment("", PYTHONPATH=""), text=True, cwd=folder
            )
            self.assertIn(fresh, installed)
            self.assertTrue(os.path.exists(os.path.join(installed.strip(), "py.typed")))


if __name__ == "__main__":
    unittest.main()
