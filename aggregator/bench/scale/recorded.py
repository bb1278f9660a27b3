"""A hundred real nodes that keep their own past, each asked for ten minutes by the second."""

import http.client
import json
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from scale.verdict import Result, Target
from speed.peers import need
from speed.process import Failed, Process, free_port, progress
from speed.programs import answers
from speed.table import table

ANSWER = Target("100 nodes over ten minutes, by the second, under 1 s", most=1.0)
COUNTS = "all samples sent are in the answer, every node is complete"
NODES, SECONDS, TURNS = 100, 600, 5
OPERATIONS = ("epoch_hook", "kernel_fetch", "checkpoint")
# Samples of each operation that a node gets in a second.
RATE = 5
KIB = 1024
# A second of the past is answered for once its interval is sealed and written.
SETTLE_SECONDS = 3
PACKAGES = ("plimsoll-aggregator", "plimsoll-node")


def section(programs, _pinned, quick):
    """Nodes, a broker and an aggregator; the load; then the same question several times."""
    nodes, seconds = (10, 30) if quick else (NODES, SECONDS)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-recorded-"))
        folder = Path(folder)
        url, address = aggregator(stack, programs, folder)
        recorded = [node(stack, programs, folder, url, number) for number in range(nodes)]
        progress(f"{nodes} nodes are recorded for {seconds} s")
        begin = int(time.time()) + 2
        sent = load([port for port, _ in recorded], begin, seconds)
        time.sleep(SETTLE_SECONDS)
        return asked(address, begin, begin + seconds, nodes) | {
            "nodes": nodes, "seconds": seconds, "sent": sent, "operations": len(OPERATIONS),
            "history_kib": size_kib(folder / "history") / nodes,
        }


def aggregator(stack, programs, folder):
    """A broker and an aggregator: the broker's URL and the aggregator's address."""
    port = free_port(socket.SOCK_STREAM)
    broker = [need("nats-server", "nats-server"), "-a", "127.0.0.1", "-p", str(port)]
    Process(stack, folder / "nats.log", [*broker, "-js", "-sd", str(folder / "jetstream")])
    url, address = f"nats://127.0.0.1:{port}", f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    program = programs.binary("plimsoll-aggregator", PACKAGES)
    command = [program, "--nats", url, "--http", address]
    command += ["--state", str(folder / "state.redb")]
    process = Process(stack, folder / "aggregator.log", command)
    process.wait_until(lambda: answers(f"http://{address}/readyz"))
    return url, address


def node(stack, programs, folder, url, number):
    """A node with a history, ready; its port for samples and its process."""
    program = programs.binary("plimsoll-node", PACKAGES)
    port, http = free_port(), free_port(socket.SOCK_STREAM)
    command = [program, "--name", f"n{number}", "--nats", url, "--udp", f"127.0.0.1:{port}"]
    command += ["--http", f"127.0.0.1:{http}", "--history", str(folder / "history")]
    process = Process(stack, folder / f"node-{number}.log", command)
    process.wait_until(lambda: answers(f"http://127.0.0.1:{http}/readyz"))
    return port, process


def load(ports, begin, seconds):
    """Sends each second's samples in its middle, so that they belong to intervals of the range;
    returns how many of the first operation were sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for second in range(1, seconds):
            pause = begin + second - 0.5 - time.time()
            if pause < -1:
                raise Failed("the load cannot be sent in time")
            time.sleep(max(pause, 0))
            for at, port in enumerate(ports):
                ms = 5 + (second * 7 + at) % 13
                lines = (f"{name}:{ms + n}|ms" for name in OPERATIONS for n in range(RATE))
                sender.sendto("\n".join(lines).encode(), ("127.0.0.1", port))
    return (seconds - 1) * len(ports) * RATE


def asked(address, begin, end, nodes):
    """Seconds of the first answer and of those that follow, and what is in them."""
    path = f"/api/v1/query?operation={OPERATIONS[0]}&node=*&from={begin}&to={end}&step=1s"
    link, took = http.client.HTTPConnection(address, timeout=60), []
    for _ in range(1 + TURNS):
        start = time.perf_counter()
        link.request("GET", path)
        reply = link.getresponse()
        body = reply.read()
        took.append(time.perf_counter() - start)
        if reply.status != 200:
            raise Failed(f"{path}: {reply.status} {body.decode(errors='replace').strip()}")
    answer = json.loads(body)
    return {
        "first_seconds": took[0],
        "then_seconds": statistics.median(took[1:]),
        "slowest_seconds": max(took),
        "bytes": len(body),
        "points": len(answer["points"]),
        "counted": sum(point["count"] for point in answer["points"]),
        "missing": [one for one in answer["nodes"] if one.get("missing")][:3],
        "answered": len(answer["nodes"]),
    }


def size_kib(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.segment")) / KIB


def targets(found):
    """The time, and that the answer is whole."""
    exact = found["counted"] == found["sent"] and not found["missing"]
    words = f"{found['counted']} of {found['sent']} samples, {found['answered']} nodes"
    first, slowest = found["first_seconds"], found["slowest_seconds"]
    return [
        Result(ANSWER.name, f"{first:.2f} s, at most {slowest:.2f} s", ANSWER.is_met(slowest)),
        Result(COUNTS, words, exact and found["answered"] == found["nodes"]),
    ]


def tables(found):
    """The answer's time and size."""
    head = ["nodes", "seconds", "operations", "first answer s", "then s", "slowest s"]
    head += ["points", "KiB of the answer", "KiB of a node's history"]
    row = [found["nodes"], found["seconds"], found["operations"]]
    row += [f"{found[key]:.2f}" for key in ("first_seconds", "then_seconds", "slowest_seconds")]
    row += [found["points"], f"{found['bytes'] / KIB:.0f}", f"{found['history_kib']:.0f}"]
    lines = table(head, [[str(one) for one in row]])
    return [*lines, "", *(result.line() for result in targets(found))]
