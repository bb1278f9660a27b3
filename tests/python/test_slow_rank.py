"""From a slow rank to the function that makes it slow, under the installed packages: a bare machine with
its own systemd, a broker with users, and ranks of another user that wait for each other.

Takes some fifteen minutes and judges times, so it is run by hand, as root on an idle machine:

    deploy/test --only build
    PLIMSOLL_PROGRAMS=target/debug tests/.venv/bin/python -m pytest -s tests/python/test_slow_rank.py

A rule and a node have one capture in twenty minutes, so the function is looked for in the first class of time
alone. `PLIMSOLL_SLOW_IN=input` plants that one alone, and so on.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

import capability
import test_packages as packages
from machine import Machine, run, until

JOB = packages.ROOT / "node/client-python/examples/slow_rank.py"
RANKS, SLOW_RANK, SLOW_MS = 4, 2, 20
JOB_SECONDS = 1_800
# The noise of few ranks is learned slowly.
LEARNING_SECONDS = 900
# What is promised, from the moment at which the rank is slow.
NAMED_SECONDS, FUNCTION_SECONDS = 30, 45
SLOW_FILE = "srv/slow"
LOOKED_AT = ("plimsoll blame", "systemctl status plimsoll-profiler")
# By class of time: the words of the sentence, and the planted function.
PLANTED = {
    "compute": ("it computes longer", "augment"),
    "input": ("it waits longer for input", "read_shard"),
    "checkpoint": ("it writes checkpoints longer", "write_checkpoint"),
}
SLOW_IN = os.environ.get("PLIMSOLL_SLOW_IN", ",".join(PLANTED)).split(",")
BROKER = """\
listen: "127.0.0.1:4222"
jetstream { store_dir: "/broker" }
include "users.conf"
"""
NODE = """\
name = "box-c"
[confirm]
key_file = "/etc/plimsoll/node.confirm"
[captures]
enabled = true
"""
AGGREGATOR = """\
[confirm]
key_file = "/etc/plimsoll/aggregator.confirm"
[profiles]
on_breach = true
"""
# As an operator would place them: each program reads its own copy, and no job reads any.
SET_UP = """\
dpkg --install /*.deb
plimsoll nats-config --keys /keys box-c > /users.conf
nats-server --config /broker.conf > /dev/null 2>&1 &
openssl rand -hex 32 > /keys/confirm
for of in node aggregator; do
    install -o plimsoll-$of -g root -m 0400 /keys/confirm /etc/plimsoll/$of.confirm
done
install -o plimsoll-node -g root -m 0400 /keys/node-box-c.nk /etc/plimsoll/node.nk
install -o plimsoll-aggregator -g root -m 0400 /keys/aggregator.nk /etc/plimsoll/aggregator.nk
useradd --groups plimsoll trainer
python3 -m venv /opt/plimsoll
/opt/plimsoll/bin/pip install --quiet --no-index /*.whl
"""


@unittest.skipUnless(packages.PROGRAMS, "PLIMSOLL_PROGRAMS is not set to a folder of built programs")
@unittest.skipIf(
    packages.missing("mmdebstrap", "nsenter", "ip", "nats-server", "dpkg-deb"), "a tool is missing"
)
class Slice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        capability.require(capability.MACHINE)

    def test_a_slow_rank_is_named_with_its_function(self):
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine(Path(folder, "root"))
            try:
                self.machine = machine
                self.install(machine, Path(folder))
                for rank in range(RANKS):
                    self.start_rank(machine, rank)
                learned = lambda: "none is slow" in machine.run("plimsoll", "blame")
                self.within(LEARNING_SECONDS, time.monotonic(), learned)
                for place, slow_in in enumerate(SLOW_IN):
                    words, function = PLANTED[slow_in]
                    looked_for = function if place == 0 else None
                    self.a_planted_function_is_found(machine, slow_in, words, looked_for)
                machine.run("sh", "-c", "systemctl stop 'rank-*'")
                self.account_is_exact(machine)
            finally:
                machine.end()

    def install(self, machine, folder):
        command = [sys.executable, packages.ROOT / "deploy/package", "--programs", packages.PROGRAMS]
        debs = run(*command, "--fast", "--only", "deb", "--out", folder / "deb").split()
        for path in (*debs, packages.build_wheel(folder), JOB):
            shutil.copy(path, machine.root)
        nats = shutil.which("nats-server", path=packages.PATH)
        shutil.copy(nats, machine.root / "usr/local/bin")
        (machine.root / "broker.conf").write_text(BROKER)
        machine.run("systemctl", "stop", "nats-server")
        machine.run("sh", "-ec", f"cd /\n{SET_UP}")

        for program, more in (("node", NODE), ("aggregator", AGGREGATOR)):
            settings = machine.root / f"etc/plimsoll/{program}.toml"
            seed = f'[bus]\nnkey_seed_file = "/etc/plimsoll/{program}.nk"\n'
            # A table is named once: `[bus]` is there.
            settings.write_text(joined(settings.read_text().replace("[bus]\n", seed), more))
        print("restrictions that this machine cannot grant:", machine.relax(*packages.SERVICES))
        machine.relax("plimsoll-profiler", watchdog="")
        machine.run("systemctl", "enable", "--now", "plimsoll-profiler.socket")
        machine.run("systemctl", "start", *packages.SERVICES)

    def a_planted_function_is_found(self, machine, slow_in, words, function):
        self.assertEqual(self.alerts(machine), [], "no healthy rank is named")
        (machine.root / SLOW_FILE).write_text(slow_in)
        slow_at = time.monotonic()

        [_alert] = self.within(NAMED_SECONDS, slow_at, lambda: self.alerts(machine))
        print(f"{slow_in}: named {time.monotonic() - slow_at:.1f} s after the rank became slow")
        sentence = machine.run("plimsoll", "blame")
        self.assertIn(f"rank {SLOW_RANK} on box-c holds up {RANKS - 1} ranks", sentence)
        self.assertIn(words, sentence)

        if function:
            top = self.within(FUNCTION_SECONDS, slow_at, lambda: self.top_functions(machine))
            print(f"{slow_in}: function {time.monotonic() - slow_at:.1f} s after it: {top}")
            self.assertIn(function, top[0])
            sentence = machine.run("plimsoll", "blame")
            self.assertIn(f"{words}, in {function} (", sentence)
        print(sentence)

        (machine.root / SLOW_FILE).unlink()
        self.within(LEARNING_SECONDS, time.monotonic(), lambda: not self.alerts(machine))

    def start_rank(self, machine, rank):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "MASTER_PORT": 29500}
        given = [f"--setenv={name}={value}" for name, value in variables.items()]
        job = ["/opt/plimsoll/bin/python", "/slow_rank.py", f"--slow-rank={SLOW_RANK}"]
        job += [f"--slow-ms={SLOW_MS}", f"--slow-file=/{SLOW_FILE}", f"--seconds={JOB_SECONDS}"]
        user = ["--uid=trainer", "--property=SupplementaryGroups=plimsoll"]
        machine.run("systemd-run", f"--unit=rank-{rank}", "--collect", "--quiet", *user, *given, *job)

    def within(self, seconds, since, found):
        """The first value that is true, within these seconds of `since`."""
        while time.monotonic() < since + seconds:
            if value := found():
                return value
            time.sleep(0.5)
        shown = (self.on_failure(command) for command in LOOKED_AT)
        self.fail(f"not within {seconds} s\n" + "\n".join(shown))

    def on_failure(self, command):
        """What an operator would look at."""
        done = self.machine.run("sh", "-c", f"{command} 2>&1 || true")
        return f"{command}:\n{done}"

    def alerts(self, machine):
        """Alerts about stragglers that fire."""
        page = json.loads(machine.get("http://127.0.0.1:9900/api/v1/alerts"))
        firing = [one for one in page["alerts"] if one["state"] == "firing"]
        return [one for one in firing if one["rule"] == "straggler"]

    def top_functions(self, machine):
        """Functions by which the culprit differs from its peer, as the alert has them."""
        for alert in self.alerts(machine):
            profile = (alert.get("context") or {}).get("profile") or {}
            return [one["function"] for one in profile.get("functions", [])]
        return []

    def account_is_exact(self, machine):
        """Captures cost no sample: what was recorded is merged once the node has left."""
        machine.run("systemctl", "stop", "plimsoll-node")

        def whole():
            fleet = json.loads(machine.run("plimsoll", "ledger", "--json"))["fleet"]
            return fleet if fleet["merged"] == fleet["recorded"] > 0 else None

        fleet = until("everything is merged", whole)
        self.assertEqual((fleet["held"], fleet["lost"], fleet["unaccounted"]), (0, {}, 0), fleet)


def joined(settings, more):
    """Settings with more of them; keys before the first table stay before it."""
    head, tables = more.split("[", 1) if not more.startswith("[") else ("", more[1:])
    return f"{head}{settings}\n[{tables}"


if __name__ == "__main__":
    unittest.main()
