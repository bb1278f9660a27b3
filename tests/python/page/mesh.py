"""A mesh of one broker, one aggregator and a few nodes, with latencies that the test chooses."""

import contextlib
import json
import pathlib
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request

TOKEN = "the-token-of-the-test"
AGGREGATOR = """
mesh = "page"
[bus]
url = "nats://127.0.0.1:{broker}"
[http]
address = "127.0.0.1:{http}"
token = "{token}"
[state]
path = "{folder}/state.redb"
[history]
path = "{folder}/history.redb"
[[budget]]
name = "epoch_hook"
objective = 0.99
[[budget]]
name = "checkpoint"
operation = "checkpoint"
quantile = 0.99
limit = "250ms"
window = "1m"
[[rule]]
name = "has_memory"
metric = "sensor:memory_total_bytes"
greater = 1
for = 1
clear_for = 1
severity = "info"
summary = "<script>alert(1)</script> It has memory."
{rules}
"""
NODE = """
mesh = "page"
name = "{name}"
[identity]
labels = [{labels}]
[bus]
url = "nats://127.0.0.1:{broker}"
# Without any, orders of captures are refused; this broker asks for none.
token = "page"
[listen]
udp = ""
unix = "{folder}/{name}.sock"
[http]
address = "127.0.0.1:{http}"
[spool]
path = "{folder}/{name}.spool"
[history]
path = "{folder}/{name}.history"
"""


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def until(what, seconds, ready):
    """The first true answer of `ready`; an error names what did not come in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            if found := ready():
                return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Mesh:
    """Processes that end with it."""

    def __init__(self, programs, folder, rules="", http=None):
        self.programs, self.folder = pathlib.Path(programs), pathlib.Path(folder)
        self.broker, self.http = free_port(), http or free_port()
        self.url = f"http://127.0.0.1:{self.http}"
        self.children, self.sockets = {}, {}
        self.random = random.Random(1)
        settings = AGGREGATOR.format(
            broker=self.broker, http=self.http, token=TOKEN, folder=folder, rules=rules
        )
        (self.folder / "aggregator.toml").write_text(settings)

    def __enter__(self):
        try:
            store = self.folder / "streams"
            nats = ["nats-server", "-a", "127.0.0.1", "-p", str(self.broker), "-js", "-sd", store]
            self.start("nats-server", nats)
            self.start_aggregator()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_of):
        for name in reversed(list(self.children)):
            self.end(name)

    def start(self, name, command):
        """Starts a program; its output goes to a file of its name."""
        with open(self.folder / f"{name}.log", "a") as log:
            self.children[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, name):
        """Ends a program in good order."""
        child = self.children.pop(name)
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def kill(self, name):
        """Ends a program as a crash does."""
        child = self.children.pop(name)
        child.kill()
        child.wait()

    def start_aggregator(self):
        """Starts the aggregator and waits until it is ready."""
        program = self.programs / "plimsoll-aggregator"
        self.start("aggregator", [program, "--config", self.folder / "aggregator.toml"])
        until("the aggregator is ready", 30, lambda: self.get("/readyz"))

    def start_node(self, name, labels=(), more=""):
        """Starts a node that receives DogStatsD over a socket, with more settings."""
        labels = ", ".join(json.dumps(label) for label in labels)
        settings = NODE.format(
            name=name, labels=labels, broker=self.broker, folder=self.folder, http=free_port()
        )
        file = self.folder / f"{name}.toml"
        file.write_text(settings + more)
        self.start(name, [self.programs / "plimsoll-node", "--config", file])
        path = str(self.folder / f"{name}.sock")
        self.sockets[name] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        until(f"{name} listens", 10, lambda: self.sockets[name].connect(path) is None)

    def send(self, node, *lines):
        """Sends lines of DogStatsD to a node."""
        self.sockets[node].send("\n".join(lines).encode())

    def latencies(self, node, operation, milliseconds, count=20, tags=""):
        """Samples around some milliseconds, lognormal, as jobs have them."""
        values = (milliseconds * self.random.lognormvariate(0, 0.25) for _ in range(count))
        self.send(node, *(f"{operation}:{value:.3f}|ms{tags}" for value in values))

    def request(self, path, method="GET", body=None, headers=None):
        """Status, headers and body of a response, an error or not."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def get(self, path):
        """The JSON or text of a successful response."""
        status, headers, body = self.request(path)
        if status != 200:
            raise ValueError(f"{path}: {status} {body!r}")
        is_json = headers.get("content-type", "").startswith("application/json")
        return json.loads(body) if is_json else body.decode()
