"""Builds and starts our own programs: node with its broker, load, the loop that only receives."""

import json
import os
import re
import socket
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from speed import kernel
from speed.process import Failed, Process, free_port, output, say

ROOT = Path(__file__).resolve().parents[3]
# Of the examples those that are run here: each is linked as a program of its own, which takes long.
EXAMPLES = ("dogstatsd_load", "receive_only", "otlp_cost", "points_cost", "record_cost")
# Datagrams a second that one and two threads of the load surely send.
SENT_BY_THREADS = (150_000, 300_000)


@dataclass
class Server:
    """Something that takes DogStatsD."""

    name: str
    process: Process
    to: str
    port: Optional[int] = None
    ours: bool = False
    floor: bool = False
    metrics: Optional[str] = None
    version: str = ""

    def values(self):
        """Values that it says it has taken, where it tells; costs it some CPU."""
        if self.metrics is None:
            return None
        return self.figure("plimsoll_agent_values_total")

    def figure(self, name):
        """A figure of the node's own page that has no labels."""
        with urllib.request.urlopen(self.metrics, timeout=5) as page:
            found = re.search(rf"^{name} (\d+)", page.read().decode(), re.M)
        return int(found[1]) if found else None


class Programs:
    """The built binaries."""

    def __init__(self):
        """Builds what is older than its source."""
        say("building what is to be measured (release)")
        metadata = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
        self.workspace = json.loads(output(metadata, cwd=ROOT))
        self.target = Path(self.workspace["target_directory"])
        command = ["cargo", "build", "--release", "--locked", "--bins"]
        for package in ("plimsoll-node", "plimsoll-client", "plimsoll-aggregator"):
            if any(package == known["name"] for known in self.workspace["packages"]):
                command += ["-p", package]
        for name in filter(self.has_example, EXAMPLES):
            command += ["--example", name]
        if subprocess.run(command, cwd=ROOT, stdout=2).returncode != 0:
            raise Failed("cargo build failed")

    def example(self, name):
        return str(self.target / "release/examples" / name)

    def has_example(self, name):
        packages = self.workspace["packages"]
        return any(target["name"] == name for known in packages for target in known["targets"])

    def load_command(self, to, rate, packed, seconds, series=10, seed=1):
        """The load as a command, with as many threads as it takes to send so many datagrams."""
        wanted = 1 + sum(rate / packed > most for most in SENT_BY_THREADS)
        options = {
            "to": to,
            "rate": rate,
            "packed": packed,
            "seconds": seconds,
            "series": series,
            "seed": seed,
            "threads": min(wanted, max(1, (os.cpu_count() or 1) - 1)),
        }
        flags = (part for name, value in options.items() for part in (f"--{name}", str(value)))
        return [self.example("dogstatsd_load"), *flags]

    def load(self, *what, **options):
        """Sends, and returns what the load says of it."""
        return json.loads(output(self.load_command(*what, **options), timeout=120))

    def broker(self, stack, folder):
        """A broker of our own; its URL and version."""
        port = free_port(socket.SOCK_STREAM)
        config = folder / "nats.conf"
        config.write_text(
            f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/jetstream" }}\n'
        )
        broker = Process(stack, folder / "nats.log", ["nats-server", "-c", str(config)])
        broker.wait_until(lambda: "Server is ready" in broker.log.read_text())
        return f"nats://127.0.0.1:{port}", output(["nats-server", "--version"]).strip()

    def node(self, stack, folder, url, name, *flags):
        """A node behind that broker, ready, listening on UDP and on a Unix datagram socket."""
        port, http, path = free_port(), free_port(socket.SOCK_STREAM), folder / f"{name}.sock"
        command = [str(self.target / "release/plimsoll-node"), "--name", name, "--nats", url]
        command += ["--udp", f"127.0.0.1:{port}", "--unix", str(path)]
        command += ["--http", f"127.0.0.1:{http}", *flags]
        process = Process(stack, folder / f"{name}.log", command)
        metrics = f"http://127.0.0.1:{http}/metrics"
        process.wait_until(lambda: answers(f"http://127.0.0.1:{http}/readyz"))
        udp = Server("plimsoll-node", process, f"127.0.0.1:{port}", port, True, metrics=metrics)
        unix = Server("plimsoll-node, Unix", process, str(path), None, True, metrics=metrics)
        udp.version = output([command[0], "--version"]).split()[-1]
        return udp, unix

    def aggregator(self, stack, folder, url):
        """Merges what nodes behind that broker send, and confirms it to them."""
        http = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        command = [str(self.target / "release/plimsoll-aggregator"), "--nats", url, "--http", http]
        process = Process(stack, folder / "aggregator.log", command)
        process.wait_until(lambda: answers(f"http://{http}/readyz"))

    def otlp_node(self, stack, folder, url, name, *flags):
        """A node that takes OTLP too, and its addresses by protocol."""
        http, grpc = (f"127.0.0.1:{free_port(socket.SOCK_STREAM)}" for _ in range(2))
        flags = ("--set", f"otlp.http={http}", "--set", f"otlp.grpc={grpc}", *flags)
        node, _ = self.node(stack, folder, url, name, *flags)
        return node, {"http": http, "json": http, "grpc": grpc}

    def floor(self, stack, folder, name, *flags):
        """A loop that only receives."""
        log = folder / f"{name}.log".replace(" ", "-")
        process = Process(stack, log, [self.example("receive_only"), *flags])
        process.wait_until(lambda: log.read_text().endswith("\n"))
        port = int(log.read_text())
        return Server(name, process, f"127.0.0.1:{port}", port, floor=True)


def answers(url):
    """Whether there is a 200 at this address."""
    try:
        with urllib.request.urlopen(url, timeout=2) as page:
            return page.status == 200
    except OSError:
        return False


def bound(server):
    """Waits until a server that says nothing has its port."""
    server.process.wait_until(lambda: kernel.is_bound(server.port))
    return server
