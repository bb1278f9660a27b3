"""Builds and starts our own programs: node with its broker, load, the loop that only receives."""

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from speed import kernel
from speed.process import Failed, Process, free_port, output, progress

ROOT = Path(__file__).resolve().parents[3]
BENCHES = ("dogstatsd_load", "receive_only", "otlp_cost", "points_cost", "record_cost")
# Datagrams a second that one and two threads of the load surely send.
SENT_BY_THREADS = (150_000, 300_000)


@dataclass
class Server:
    """A server of DogStatsD."""

    name: str
    process: Process
    to: str
    port: Optional[int] = None
    ours: bool = False
    floor: bool = False
    metrics: Optional[str] = None
    version: str = ""

    def values(self):
        """Values that it reports as accepted, if it reports any; costs it some CPU."""
        if self.metrics is None:
            return None
        return self.figure("plimsoll_agent_values_total")

    def figure(self, name):
        """A metric of the node without labels."""
        with urllib.request.urlopen(self.metrics, timeout=5) as page:
            found = re.search(rf"^{name} (\d+)", page.read().decode(), re.M)
        return int(found[1]) if found else None


class Programs:
    """The built binaries."""

    def __init__(self):
        """Builds what is older than its source."""
        progress("building what is to be measured (as it is shipped)")
        metadata = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
        self.workspace = json.loads(output(metadata, cwd=ROOT))
        self.target = Path(self.workspace["target_directory"])
        command = ["cargo", "build", "--profile", "shipped", "--locked", "--bins"]
        command += ["--message-format", "json-render-diagnostics"]
        for package in ("plimsoll-node", "plimsoll-client", "plimsoll-aggregator"):
            command += ["-p", package]
        for name in BENCHES:
            command += ["--bench", name]
        build = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if build.returncode != 0:
            raise Failed("cargo build failed")
        self.benches = dict(executables(build.stdout, "bench"))

    def bench(self, name):
        """The path of a benchmark, which has a hash in its name."""
        return self.benches[name]

    def load_command(self, to, rate, packed, seconds, series=10, seed=1):
        """The load as a command, with as many threads as it takes to send this many datagrams."""
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
        return [self.bench("dogstatsd_load"), *flags]

    def load(self, *what, **options):
        """Sends, and returns the report of the load."""
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
        """A node behind that broker, ready, listening on UDP and on a Unix datagram socket. It has
        a copy of the program to itself: nodes of one file would share its pages, and a machine has
        one node."""
        program = shutil.copy(self.target / "shipped/plimsoll-node", folder / f"{name}.program")
        port, http, path = free_port(), free_port(socket.SOCK_STREAM), folder / f"{name}.sock"
        command = [str(program), "--name", name, "--nats", url]
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
        """An aggregator behind that broker, which confirms the messages of nodes."""
        http = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        command = [str(self.target / "shipped/plimsoll-aggregator"), "--nats", url, "--http", http,
                   "--set", "confirm.without_state=true"]
        process = Process(stack, folder / "aggregator.log", command)
        process.wait_until(lambda: answers(f"http://{http}/readyz"))

    def otlp_node(self, stack, folder, url, name, *flags):
        """A node with OTLP, and its addresses by protocol."""
        http, grpc = (f"127.0.0.1:{free_port(socket.SOCK_STREAM)}" for _ in range(2))
        flags = ("--set", f"otlp.http={http}", "--set", f"otlp.grpc={grpc}", *flags)
        node, _ = self.node(stack, folder, url, name, *flags)
        return node, {"http": http, "json": http, "grpc": grpc}

    def floor(self, stack, folder, name, *flags):
        """A loop that only receives."""
        log = folder / f"{name}.log".replace(" ", "-")
        process = Process(stack, log, [self.bench("receive_only"), *flags])
        process.wait_until(lambda: log.read_text().endswith("\n"))
        port = int(log.read_text())
        return Server(name, process, f"127.0.0.1:{port}", port, floor=True)


def executables(messages, kind):
    """Name and path of each executable of a kind in the messages of a cargo build."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("executable") and kind in message["target"]["kind"]:
            yield message["target"]["name"], message["executable"]


def answers(url):
    """Whether this address answers with 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as page:
            return page.status == 200
    except OSError:
        return False


def bound(server):
    """Waits until a server that logs nothing has bound its port."""
    server.process.wait_until(lambda: kernel.is_bound(server.port))
    return server
