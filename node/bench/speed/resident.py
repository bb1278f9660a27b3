"""Memory and CPU of an idle and of a lightly loaded node, beside other agents.

All of them run at the same time and get the same load, so that other work of the machine affects
all alike. One node gets its series by OTLP instead: one body a second with a point of each series,
by HTTP and by gRPC in turn.
"""

import threading
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from speed import kernel, otlp, peers
from speed.process import Failed, Process, output, progress
from speed.targets import Target

RATE = 1_000
SERIES = 100
PACKED = (1, 20)
PROTOCOLS = dict(zip(PACKED, ("http", "grpc")))
# By memory kind and by CPU. Private file pages and shared libraries are in the PSS: the code of
# the agent that is resident, which the kernel can drop at any time, is in no target of its own.
MEMORY_TARGETS = {
    "anonymous": Target("anonymous memory, idle", "<=", 1.5, "MiB"),
    "pss": Target("PSS, idle", "<=", 4.0, "MiB"),
}
CPU_TARGET = Target("CPU", "<=", 0.5, "% of a core")
BINARY_TARGET = Target("release binary, stripped", "<=", 5.0, "MiB")
EXPORTER_TARGET = Target("CPU over node_exporter's", "<", 1.0, "x")
# The load of the node that keeps a history: three operations, thirty samples a second.
HISTORY_RATE, HISTORY_SERIES = 30, 3
HISTORY_CPU_TARGET = Target("CPU of the history's thread", "<=", 0.1, "% of a core")
HISTORY_MEMORY_TARGET = Target("anonymous memory of a history, idle", "<=", 2.0, "MiB")


def section(programs, stack, folder, cache, quick):
    """Idle for half a minute, then a hundred series at a thousand samples a second."""
    url, _ = programs.broker(stack, folder)
    programs.aggregator(stack, folder, url)
    bare, _ = programs.node(stack, folder, url, "bare")
    spool = peers.own(folder, "spool")
    kept, _ = programs.node(stack, folder, url, "kept", "--spool", str(spool))
    bare.name, kept.name = "plimsoll-node", "plimsoll-node, spool"
    past = peers.own(folder, "past")
    recorded, _ = programs.node(stack, folder, url, "recorded", "--history", str(past))
    recorded.name = "plimsoll-node, history"
    points, to = programs.otlp_node(stack, folder, url, "points")
    points.name = "plimsoll-node, OTLP"
    python, _ = peers.python(cache, otlp.PACKAGES)
    others, skipped = peers.start(stack, folder, cache)
    servers = [bare, kept, recorded, points, *others]

    def load(server, packed):
        if server is recorded:
            pace = (HISTORY_RATE, packed, seconds, HISTORY_SERIES)
            return programs.load_command(server.to, *pace)
        if server is not points:
            return programs.load_command(server.to, RATE, packed, seconds, SERIES)
        protocol = PROTOCOLS[packed]
        pace = ["--points", str(SERIES), "--rate", "1", "--seconds", str(seconds)]
        return [python, otlp.LOAD, "--protocol", protocol, "--to", to[protocol], *pace]

    processes = {server.name: server.process for server in servers}
    versions = {server.name: server.version for server in servers}
    try:
        exporter, page, version = peers.node_exporter(stack, folder)
        processes["node_exporter at 1 Hz"] = exporter
        versions["node_exporter at 1 Hz"] = version
        scrape_at_1_hz(stack, page)
    except Failed as why:
        skipped["node_exporter"] = str(why)
    rest, seconds, rounds = (10, 5, 1) if quick else (30, 10, 3)
    progress(f"resident: all idle for {rest} s")
    idle_cpu = shares(processes, lambda: time.sleep(rest))
    idle = memory(processes)
    cpu = {packed: [] for packed in PACKED}
    begun, before = time.monotonic(), written(past, recorded.process)
    for turn in range(rounds):
        for packed in PACKED:
            progress(f"resident: round {turn + 1}/{rounds}, {RATE} samples/s, {packed} a datagram")
            cpu[packed].append(loaded(servers, processes, load, packed, folder))
    span = time.monotonic() - begun
    growth = [now - then for now, then in zip(written(past, recorded.process), before)]
    active = memory(processes)
    rows = {
        name: {
            "version": versions[name],
            "idle": idle[name],
            "active": active[name],
            "idle_cpu": idle_cpu[name],
            "cpu": {packed: median(turn[name] for turn in cpu[packed]) for packed in PACKED},
        }
        for name in processes
    }
    return {
        "rows": rows,
        "skipped": skipped,
        "idle_seconds": rest,
        "seconds": seconds,
        "rounds": rounds,
        "history": {"bytes_a_day": growth[0] / span * 86_400, "cpu": growth[1] / span},
        "targets": [*targets(rows), *of_history(rows, growth[1] / span), binary(programs, folder)],
    }


def written(past, process):
    """Bytes of a history on disk, and CPU seconds of the thread that writes it."""
    files = (path.stat().st_size for path in past.rglob("*.segment"))
    return sum(files), kernel.thread_seconds(process.pid)["history"]


def of_history(rows, cpu):
    """The verdicts on what a history costs a node."""
    idle = [rows[name]["idle"]["anonymous"] for name in ("plimsoll-node, history", "plimsoll-node")]
    memory_mib = (idle[0] - idle[1]) / 1024
    return [HISTORY_CPU_TARGET.judge(cpu * 100), HISTORY_MEMORY_TARGET.judge(memory_mib)]


def binary(programs, folder):
    """The verdict on the size of the node's program without symbols."""
    stripped = folder / "stripped"
    output(["strip", "-o", str(stripped), str(programs.target / "shipped/plimsoll-node")])
    return BINARY_TARGET.judge(stripped.stat().st_size / 2**20)


def loaded(servers, processes, load, packed, folder):
    """Shares of a core while every server gets its load."""

    def send_to_all():
        with ExitStack() as senders:
            begun = [
                Process(senders, folder / f"load-{number}.log", load(server, packed))
                for number, server in enumerate(servers)
            ]
            for sender in begun:
                if sender.child.wait(120) != 0:
                    raise Failed(f"a load failed: {sender.last_line()}")

    return shares(processes, send_to_all)


def shares(processes, work):
    """The share of a core that each process uses while `work` is done."""
    begun, before = time.monotonic(), {n: p.cpu_seconds() for n, p in processes.items()}
    work()
    span = time.monotonic() - begun
    return {name: (p.cpu_seconds() - before[name]) / span for name, p in processes.items()}


def memory(processes):
    return {name: kernel.memory_kib(process.pid) for name, process in processes.items()}


def scrape_at_1_hz(stack, url):
    """Reads the page once a second until the stack ends."""
    over = threading.Event()

    def scrape():
        while not over.wait(1):
            try:
                with urllib.request.urlopen(url, timeout=5) as page:
                    page.read()
            except OSError as error:
                progress(f"scrape failed: {error}")

    scraper = threading.Thread(target=scrape, daemon=True)
    scraper.start()
    stack.callback(scraper.join)
    stack.callback(over.set)


def targets(rows):
    """The verdicts on memory at rest and on CPU under load."""
    node, exporter = rows["plimsoll-node"], rows.get("node_exporter at 1 Hz")
    found = []
    for row, suffix in (("plimsoll-node", ""), ("plimsoll-node, OTLP", ", with OTLP")):
        for kind, target in MEMORY_TARGETS.items():
            named = replace(target, name=target.name + suffix)
            found.append(named.judge(rows[row]["idle"][kind] / 1024))
    for packed in PACKED:
        suffix, share = f" at {RATE} samples/s, {packed} a datagram", node["cpu"][packed]
        found.append(replace(CPU_TARGET, name=CPU_TARGET.name + suffix).judge(share * 100))
        if exporter:
            ratio = share / exporter["cpu"][packed]
            found.append(replace(EXPORTER_TARGET, name=EXPORTER_TARGET.name + suffix).judge(ratio))
    return found
