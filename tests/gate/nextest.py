"""Runs one selection of the Rust tests: `nextest.py quick|list|offline|live|long|properties|newest|dashboards`.

`list` writes down which test binaries step `build` made. The selections after it start these
binaries themselves, so that they need no lock of cargo while clippy holds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import levels
from steps import OUT, ROOT, VENV

BUILT = OUT / "binaries.json"
METADATA = OUT / "metadata.json"
NEWEST_BROKER = VENV / "bin/nats-server"
DASHBOARDS = "package(plimsoll-tests) and test(/^prometheus::grafana::/)"
# The binaries that start no broker; what computes in them uses every core.
QUICK = ["--workspace", "--locked", "--lib", "--test", "offline", "--test", "tidy"]


def target_folder() -> Path:
    """The folder of cargo's builds."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"deploy/test: cargo metadata failed:\n{done.stderr}")
    return Path(json.loads(done.stdout)["target_directory"])


def run(*words: str, **options) -> int:
    """The exit code of a command."""
    return subprocess.run(words, check=False, cwd=ROOT, **options).returncode


def write_list() -> int:
    """Writes the metadata of the workspace and of the test binaries."""
    with METADATA.open("wb") as out:
        code = run("cargo", "metadata", "--format-version=1", "--all-features", "--locked", stdout=out)
    if code:
        return code
    command = ["cargo", "nextest", "list", "--workspace", "--tests", "--locked"]
    with BUILT.open("wb") as out:
        code = run(*command, "--list-type", "binaries-only", "--message-format", "json", stdout=out)
    return code or check_rows()


def check_rows() -> int:
    """Each live test has a row in the table of levels, and each row a test."""
    rows = levels.live_tests()
    command = ["cargo", "nextest", "list", "--binaries-metadata", str(BUILT), "--cargo-metadata"]
    command += [str(METADATA), "--message-format", "json", "-E", levels.of_binaries(rows)]
    listed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout
    found = {
        (suite["binary-name"], name)
        for suite in json.loads(listed)["rust-suites"].values()
        for name, test in suite["testcases"].items()
        if test["filter-match"]["status"] == "matches"
    }

    wanted = {(row.binary, row.name) for row in rows}
    for binary, name in sorted(found - wanted):
        print(f"{levels.TABLE.name}: {name} of {binary} has no row: state its contract and level")
    for binary, name in sorted(wanted - found):
        print(f"{levels.TABLE.name}: no test of {binary} is called {name}: remove its row")
    return 1 if found != wanted else 0


def run_built(profile: str, junit: str, expression: str, env: dict[str, str] | None = None) -> int:
    """Runs the tests of the built binaries that match, and keeps the JUnit file."""
    command = ["cargo", "nextest", "run", "--profile", profile, "--no-fail-fast"]
    command += ["--binaries-metadata", str(BUILT), "--cargo-metadata", str(METADATA)]
    code = run(*command, "-E", expression, env=os.environ | (env or {}))
    keep_junit(profile, junit)
    return code


def keep_junit(profile: str, name: str) -> None:
    """Moves the JUnit file of a profile out of the way of the next run."""
    written = ROOT / "target/nextest" / profile / "junit.xml"
    if written.exists():
        shutil.move(written, OUT / name)


def main(selection: str) -> int:
    """Runs a selection."""
    tests = levels.live_tests()
    is_live = levels.of_binaries(tests)

    if selection == "list":
        return write_list()
    if selection == "quick":
        code = run("cargo", "nextest", "run", "--profile", "quick", *QUICK)
        keep_junit("quick", "quick.xml")
        return code
    if selection == "offline":
        return run_built("offline", "offline.xml", f"not ({is_live})")
    if selection == "properties":
        return run_built("all", "properties.xml", "kind(lib)")
    if selection == "live":
        return run_built("gate", "live.xml", levels.of_level(tests, "gate"))
    if selection == "long":
        later = levels.of_level(tests, "all")
        return run_built("all", "long.xml", f"({later}) and not ({DASHBOARDS})")
    if selection == "newest":
        run(str(NEWEST_BROKER), "--version")
        newest = "package(plimsoll-bus) and kind(test) or " \
            "package(plimsoll-tests) and test(/^(trust|cluster|shards)::/)"
        env = {"PLIMSOLL_NATS_SERVER": str(NEWEST_BROKER)}
        return run_built("all", "newest.xml", newest, env)
    if selection == "dashboards":
        return run_built("all", "dashboards.xml", DASHBOARDS)
    print(f"nextest.py: unknown selection {selection}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    sys.exit(main(*sys.argv[1:]))
