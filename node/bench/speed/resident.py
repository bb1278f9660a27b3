"""What a node costs a machine that hardly uses it: memory and CPU, beside other agents.

All of them run at the same time and get the same load, so that they share whatever else the
machine does. One node gets its series by OTLP instead: a body a second with a point of each, by
HTTP and by gRPC in turn.
"""

import threading
import time
import urllib.request
from contextlib import ExitStack
from statistics import median

from speed import kernel, otlp, peers
from speed.process import Failed, Process, say

RATE = 1_000
SERIES = 100
PACKED = (1, 20)
PROTOCOLS = dict(zip(PACKED, ("http", "grpc")))
TARGET_MIB = {"idle": 8, "active": 12}
TARGET_CORE = 0.01


def section(programs, stack, folder, cache, quick):
    """Idle for half a minute, then a hundred series at a thousand samples a second."""
    url, _ = programs.broker(stack, folder)
    programs.aggregator(stack, folder, url)
    kernel.read_anew(programs.target / "release/plimsoll-node")
    bare, _ = programs.node(stack, folder, url, "bare")
    spool = peers.own(folder, "spool")
    kept, _ = programs.node(stack, folder, url, "kept", "--spool", str(spool))
    bare.name, kept.name = "plimsoll-node", "plimsoll-node, spool"
    points, to = programs.otlp_node(stack, folder, url, "points")
    points.name = "plimsoll-node, OTLP"
    python, _ = peers.python(cache, otlp.PACKAGES)
    others, skipped = peers.start(stack, folder, cache)
    servers = [bare, kept, points, *others]

    def load(server, packed):
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
    say(f"resident: all idle for {rest} s")
    idle_cpu = shares(processes, lambda: time.sleep(rest))
    idle = memory(processes)
    cpu = {packed: [] for packed in PACKED}
    for turn in range(rounds):
        for packed in PACKED:
            say(f"resident: round {turn + 1} of {rounds}, {RATE} samples/s, {packed} a datagram")
            cpu[packed].append(loaded(servers, processes, load, packed, folder))
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
        "targets": targets(rows),
    }


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
                    raise Failed(f"a load failed: {sender.last_words()}")

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
                say(f"scrape failed: {error}")

    scraper = threading.Thread(target=scrape, daemon=True)
    scraper.start()
    stack.callback(scraper.join)
    stack.callback(over.set)


def targets(rows):
    """What was promised, and whether it holds."""
    node, exporter = rows["plimsoll-node"], rows.get("node_exporter at 1 Hz")
    found = []
    for with_otlp in ("", ", OTLP"):
        for when, most in TARGET_MIB.items():
            name = "idle" if when == "idle" else f"with {SERIES} series"
            met = rows[f"plimsoll-node{with_otlp}"][when]["rss"] <= most * 1024
            found.append({"name": f"resident {name}{with_otlp} <= {most} MiB", "met": met})
    for packed in PACKED:
        name, share = f"CPU at {RATE} samples/s, {packed} a datagram", node["cpu"][packed]
        found.append({"name": f"{name} < 1 % of a core", "met": share < TARGET_CORE})
        if exporter:
            met = share < exporter["cpu"][packed]
            found.append({"name": f"{name} < node_exporter's beside it", "met": met})
    return found
