"""What it costs that an answer waits for its note: OTLP requests answered by a node with a spool
and by one without.

Both are up all the time and get the same small bodies in turn, over one connection and over many,
each with one request at a time. The load is a loop of our own, whose part of a request is the same
for both.
"""

import selectors
import socket
import time
from statistics import median

from speed.process import Failed, progress
from speed.targets import Target

CONNECTIONS = (1, 16)
# By connections: how much longer the 99th percentile of answers takes, at most.
TARGETS = {
    1: Target("wait of an answer for its note, 99 %, 1 connection", "<=", 5.0, "ms"),
    16: Target("wait of an answer for its note, 99 %, 16 connections", "<=", 5.0, "ms"),
}
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
BODY = (
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"answered","unit":"s","histogram":'
    '{"aggregationTemporality":1,"dataPoints":[{"startTimeUnixNano":"%d","timeUnixNano":"%d",'
    '"count":"10","sum":0.01,"explicitBounds":[0.001,0.002],"bucketCounts":["10","0","0"],'
    '"attributes":[{"key":"producer","value":{"intValue":"%d"}}]}]}}]}]}]}'
)


def section(programs, stack, folder, _cache, quick):
    """Rounds over all numbers of connections, both nodes in turn."""
    url, _ = programs.broker(stack, folder)
    programs.aggregator(stack, folder, url)
    flags = ("--set", "hardware.enabled=false")
    spool = ("--spool", str(folder / "spool"))
    nodes = {
        "without a spool": programs.otlp_node(stack, folder, url, "unspooled", *flags),
        "with a spool": programs.otlp_node(stack, folder, url, "spooled", *flags, *spool),
    }
    seconds, rounds = (2, 1) if quick else (5, 3)
    runs, numbers = [], dict.fromkeys(nodes, 0)
    for turn in range(rounds):
        for connections in CONNECTIONS:
            for name, (node, to) in nodes.items():
                progress(f"answers: round {turn + 1} of {rounds}, {connections} connections, {name}")
                cpu = node.process.cpu_seconds()
                waits = load(to["http"], connections, seconds, numbers[name])
                cpu = node.process.cpu_seconds() - cpu
                numbers[name] += len(waits)
                run = {"node": name, "connections": connections, "round": turn}
                runs.append(run | figures(waits, cpu, seconds))
    sent = sum(numbers.values())
    taken = sum(node.figure("plimsoll_agent_points_total") for node, _ in nodes.values())
    return {
        "seconds": seconds,
        "rounds": rounds,
        "rows": [row(runs, nodes, connections) for connections in CONNECTIONS],
        "unaccounted": sent - taken,
        "runs": runs,
    }


def figures(waits, cpu, seconds):
    waits.sort()
    at = lambda share: waits[min(len(waits) - 1, int(share * len(waits)))] * 1e3
    return {
        "per_second": len(waits) / seconds,
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "max_ms": waits[-1] * 1e3,
        "cpu_us": cpu * 1e6 / len(waits),
    }


def row(runs, nodes, connections):
    """Medians over the rounds for each node, and the verdict."""
    found = {}
    for name in nodes:
        here = [run for run in runs if (run["node"], run["connections"]) == (name, connections)]
        keys = ("per_second", "p50_ms", "p99_ms", "max_ms", "cpu_us")
        found[name] = {key: median(run[key] for run in here) for key in keys}
    without, with_spool = found.values()
    more = with_spool["p99_ms"] - without["p99_ms"]
    return {
        "connections": connections,
        "figures": found,
        "rate": with_spool["per_second"] / without["per_second"],
        "target": TARGETS[connections].judge(more),
    }


def load(to, connections, seconds, number):
    """Keeps one request under way on each connection; the seconds that each answer took."""
    host, port = to.split(":")
    waits, sent = [], {}
    with selectors.DefaultSelector() as ready:
        for producer in range(connections):
            client = socket.create_connection((host, int(port)))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(client, selectors.EVENT_READ, producer)
            number = send(client, producer, number, sent)
        end = time.perf_counter() + seconds
        while sent:
            for key, _ in ready.select(timeout=10):
                answer = key.fileobj.recv(65536)
                if not answer.startswith(b"HTTP/1.1 200") or not answer.endswith(b"{}"):
                    raise Failed(f"a body was answered with {answer[:200]!r}")
                now = time.perf_counter()
                waits.append(now - sent.pop(key.data))
                if now < end:
                    number = send(key.fileobj, key.data, number, sent)
        for key in list(ready.get_map().values()):
            key.fileobj.close()
    return waits


def send(client, producer, number, sent):
    """Sends the body with this number, which follows every earlier one; returns the next number."""
    start = START + number * SECOND
    body = (BODY % (start, start + SECOND, producer)).encode()
    head = b"POST /v1/metrics HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    sent[producer] = time.perf_counter()
    client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    return number + 1
