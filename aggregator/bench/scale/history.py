"""The past: queries, bytes and comparisons, beside Prometheus with native histograms of the same
samples. Both answer over HTTP, each with what it keeps by default or advises."""

import http.client
import json
import os
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from scale.verdict import Result, Target
from speed import kernel
from speed.peers import need
from speed.process import Failed, Process, free_port, output, progress
from speed.programs import answers
from speed.table import table

MIB = 1024 * 1024
RANGE = Target("one operation of the fleet over 30 days under 200 ms", most=0.2)
COMPARE = Target("`plimsoll compare` of two runs of 1e8 samples under 2 s", most=2.0)
QUANTILE = 0.99
# Turns after the first one, of which the median is shown.
TURNS = {False: 7, True: 3}
COMPARE_TURNS = 3
# 10 000 s of 10 000 samples a second.
RUN_SECONDS = 10_000
# The verdicts of `plimsoll compare` that are about latencies: same or better, and worse.
JUDGED = (0, 7)
PACKAGES = ("plimsoll-aggregator", "plimsoll-cli")
# A subquery reads a sample an hour, which is enough for a counter that was never reset.
QUERIES = {
    "all samples": "histogram_quantile({}, increase(latency_seconds[{}d]))",
    "one an hour": "histogram_quantile({}, increase(latency_seconds[{}d:1h]))",
}
CONFIG = "global: {scrape_interval: 1m}\n"
JSON, MESSAGEPACK = "application/json", "application/vnd.msgpack"


def section(programs, _pinned, quick):
    """The benchmark's figures, then those of both servers, one after the other."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-history-"))
        folder = Path(folder)
        progress("history_speed: 30 days, growth, comparison")
        command = [programs.bench("history_speed"), "--keep", str(folder)]
        facts = described()
        found = json.loads(output(command, timeout=1800)) | {"machine": facts}
        found["plimsoll"] = plimsoll(programs, folder, found, quick)
        found["prometheus"] = [
            prometheus(folder, found, schema, quick) for schema in found["schemas"]
        ]
    return found


def described():
    """The machine, and what differs from the build profile."""
    profile = [f"{key}={value}" for key, value in os.environ.items() if "CARGO_PROFILE" in key]
    return kernel.describe() | {"profile": sorted(profile)}


def plimsoll(programs, folder, found, quick):
    """An aggregator with that history: queries over HTTP, and `plimsoll compare`."""
    program = programs.binary("plimsoll-aggregator", PACKAGES)
    history = folder / "history.redb"
    with ExitStack() as stack:
        port = free_port(socket.SOCK_STREAM)
        broker = [need("nats-server", "nats-server"), "-a", "127.0.0.1", "-p", str(port)]
        broker += ["-js", "-sd", str(folder / "broker")]
        Process(stack, folder / "broker.log", broker)
        uncache([history])
        address = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        command = [program, "--nats", f"nats://127.0.0.1:{port}", "--http", address]
        command += ["--state", str(folder / "state.redb"), "--history", str(history)]
        aggregator = Process(stack, folder / "aggregator.log", command)
        aggregator.wait_until(lambda: answers(f"http://{address}/readyz"), 60)
        quantiles = ",".join(str(one["quantile"]) for one in found["exact"])
        query = f"/api/v1/query?operation={found['operation']}&quantiles={quantiles}"
        query += f"&from={found['from_seconds']}&to={found['to_seconds']}"
        took, all_answers = asked(address, [query] * (1 + TURNS[quick]))
        (point,) = all_answers[-1]["points"]
        if point["count"] != found["samples"]:
            raise Failed(f"the aggregator counts {point['count']} of {found['samples']} samples")
        return took | {
            "quantiles": [one["value"] for one in point["quantiles"]],
            "peak_kib": peak_kib(aggregator.pid),
            "compare": compared(programs, address, found),
        }


def compared(programs, address, found):
    """Two runs of the history as the operator compares them."""
    program = programs.binary("plimsoll", PACKAGES)
    end = found["to_seconds"]
    ends = [end - back * RUN_SECONDS for back in (2, 1, 0)]
    sides = [f"range:{first}/{last}" for first, last in zip(ends, ends[1:])]
    command = [program, "compare", *sides, "--operation", found["operation"]]
    query = f"/api/v1/query?operation={found['operation']}&from={ends[0]}&to={ends[1]}"
    query += "&step=10s&distribution=true"
    sides = {media: fetched(address, query, media) for media in (MESSAGEPACK, JSON)}
    took = []
    for _ in range(COMPARE_TURNS):
        begin = time.perf_counter()
        done = subprocess.run(
            [*command, "--url", f"http://{address}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )
        took.append(time.perf_counter() - begin)
        if done.returncode not in JUDGED:
            words = (done.stderr or done.stdout).strip().splitlines()
            return {"failed": words[-1] if words else f"exit code {done.returncode}"}
    return {"seconds": statistics.median(took), "answers": sides}


def prometheus(folder, found, schema, quick):
    """Prometheus with native histograms of one schema: written, compacted, queried."""
    program = need("prometheus", "prometheus")
    version = output([program, "--version"]).split()[2]
    progress(f"Prometheus {version}, schema {schema}")
    own = folder / f"prometheus-{schema}"
    own.mkdir()
    with ExitStack() as stack:
        address, _ = started(stack, program, own, own / "data")
        begin = time.perf_counter()
        samples = send(address, folder / f"schema-{schema}.remote-write")
        wrote = time.perf_counter() - begin
        # It waits for compactions that are under way, and writes what is in memory as a block.
        answer = json.loads(get(connection(address), "POST", "/api/v1/admin/tsdb/snapshot"))
        data = own / "snapshot"
        (own / "data/snapshots" / answer["data"]["name"]).rename(data)
    stored = sum(path.stat().st_blocks * 512 for path in files_in(data))
    queries = {}
    for name, query in QUERIES.items():
        # A server that starts may compact what it has, so that other files are there afterwards.
        uncache(files_in(data))
        with ExitStack() as stack:
            address, server = started(stack, program, own, data)
            # One query has one quantile; all of them take the same time.
            quantiles = [QUANTILE, *(one["quantile"] for one in found["exact"])]
            took, all_answers = asked(address, [instant(query, one, found) for one in quantiles])
            values = [number(answer) for answer in all_answers[1:]]
            queries[name] = took | {"quantiles": values, "peak_kib": peak_kib(server.pid)}
    return {
        "version": version, "schema": schema, "bodies": samples, "write_seconds": wrote,
        "bytes": stored, "queries": queries,
    }


def instant(query, quantile, found):
    query = quote(query.format(quantile, found["days"]))
    return f"/api/v1/query?time={found['to_seconds']}&query={query}"


def number(answer):
    """The value of the only series of an answer."""
    (series,) = answer["data"]["result"]
    return float(series["value"][1])


def started(stack, program, own, data):
    """A server on its own port and data, and its address."""
    config = own / "prometheus.yml"
    config.write_text(CONFIG)
    address = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={data}"]
    command += [f"--web.listen-address={address}", "--web.enable-remote-write-receiver"]
    command += ["--web.enable-admin-api", "--enable-feature=native-histograms"]
    command += ["--storage.tsdb.retention.time=1y", "--query.timeout=10m", "--log.level=warn"]
    server = Process(stack, own / "prometheus.log", command)
    server.wait_until(lambda: answers(f"http://{address}/-/ready"), 120)
    return address, server


def send(address, path):
    """Posts all bodies of remote write; returns how many there are."""
    head = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    link, number = connection(address), 0
    with open(path, "rb") as file:
        while length := file.read(4):
            body = file.read(*struct.unpack("<I", length))
            link.request("POST", "/api/v1/write", body, head)
            reply = link.getresponse()
            words = reply.read().decode(errors="replace").strip()
            if reply.status not in (200, 204):
                raise Failed(f"Prometheus refuses body {number}: {reply.status} {words}")
            number += 1
    return number


def connection(address):
    return http.client.HTTPConnection(address, timeout=600)


def get(link, method, path, media=JSON):
    """The bytes of an answer that must be good."""
    link.request(method, path, headers={"Accept": media})
    reply = link.getresponse()
    body = reply.read()
    if reply.status == 200 and reply.headers["Content-Type"] != media:
        raise Failed(f"{path}: {reply.headers['Content-Type']} instead of {media}")
    if reply.status != 200:
        raise Failed(f"{path}: {reply.status} {body.decode(errors='replace').strip()}")
    return body


def asked(address, paths):
    """Seconds until the first answer is there, the median of those that follow, and all answers."""
    link, took, bodies = connection(address), [], []
    for path in paths:
        begin = time.perf_counter()
        bodies.append(get(link, "GET", path))
        took.append(time.perf_counter() - begin)
    then = statistics.median(took[1:] or took)
    figures = {"first_seconds": took[0], "seconds": then, "bytes": len(bodies[-1])}
    return figures, [json.loads(body) for body in bodies]


def fetched(address, path, media):
    """Seconds and bytes of the last of several answers in one media type."""
    link, took = connection(address), []
    for _ in range(COMPARE_TURNS):
        begin = time.perf_counter()
        body = get(link, "GET", path, media)
        took.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(took), "bytes": len(body)}


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def uncache(files):
    """Removes files from the system's cache."""
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_kib(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def targets(found):
    """The times that the issue of the past is judged by."""
    first, then = (found["plimsoll"][key] for key in ("first_seconds", "seconds"))
    took = found["plimsoll"]["compare"].get("seconds")
    words = "not measured" if took is None else f"{took:.2f} s"
    return [
        Result(f"{RANGE.name}, file not cached", ms(first), RANGE.is_met(first)),
        Result(f"{RANGE.name}, cached", ms(then), RANGE.is_met(then)),
        Result(COMPARE.name, words, COMPARE.is_met(took)),
    ]


def tables(found):
    """Machine, Prometheus, queries, growth, comparison, and the targets."""
    return [
        *machine(found["machine"]), "",
        *beside(found), "",
        *queries(found), "",
        *growth(found["growth"]), "",
        metrics(found["metric_growth"]), "",
        *comparison(found), "",
        *(result.line() for result in targets(found)),
    ]


def machine(facts):
    built = ", ".join(facts["profile"]) or "as in Cargo.toml"
    load = f"load {facts['load']:.2f} at the start"
    lines = [
        f"{facts['cores']} x {facts['cpu']}, {facts['kernel']}, {load};",
        f"build profile: {built}.",
    ]
    if facts["load"] > facts["cores"] / 2:
        lines.append("The machine was busy with other work: trust the ratios, not the figures.")
    return lines


def beside(found):
    ours = found["plimsoll"]
    exact = [one["ns"] / 1e9 for one in found["exact"]]
    rows = [row("Plimsoll", ours, found["file"]["disk_bytes"], ours, exact)]
    for one in found["prometheus"]:
        name = f"Prometheus {one['version'].split('+')[0]}, schema {one['schema']}"
        for query, took in one["queries"].items():
            rows.append(row(f"{name}, {query}", took, one["bytes"], ours, exact))
    head = [f"{found['samples']:.3g} samples over {found['days']} days", "first answer ms"]
    head += ["then ms", "beside Plimsoll", "MiB on disk"]
    errors = " / ".join(f"p{one['quantile'] * 100:g}" for one in found["exact"])
    return table([*head, f"error in % of {errors}", "MiB resident at most"], rows)


def row(name, took, stored, ours, exact):
    errors = (value / real - 1 for value, real in zip(took["quantiles"], exact))
    errors = " / ".join(f"{error * 100:+.2f}" for error in errors)
    times = f"{took['seconds'] / ours['seconds']:.2f} x"
    figures = [ms(took["first_seconds"], ""), ms(took["seconds"], ""), times]
    return [name, *figures, mib(stored), errors, f"{took['peak_kib'] / 1024:.0f}"]


def queries(found):
    rows = [
        [
            one["what"], f"{one['cold_ms']:.1f}", mib(one["read_bytes"]),
            f"{one['reopened_ms']:.1f}", f"{one['warm_ms']:.1f}",
        ]
        for one in found["queries"] + [
            {**one, "what": f"a job's counter, {one['what']}"} for one in found["metric_queries"]
        ]
    ]
    head = ["in the process, without HTTP", "ms, file not cached", "MiB read"]
    return table([*head, "ms, file cached and opened anew", "ms, file open"], rows)


def metrics(found):
    """What a day of job metrics takes."""
    return (
        f"A day of {found['metrics']} counters and gauges takes {mib(found['bytes'])} MiB in slots and "
        f"{mib(found['disk_bytes'])} MiB of the file on disk."
    )


def growth(cases):
    """Bytes of a day by tier, and for how many days the default bounds keep them."""
    rows = []
    for one in cases:
        tiers = one["tiers"]
        nodes = f"{one['nodes']} node{'s' if one['nodes'] > 1 else ''}"
        groups = f"{one['groups'] or 'no'} groups"
        total = sum(tier["bytes"] for tier in tiers)
        kept = [min(tier["age_days"], tier["bytes_max"] / tier["bytes"]) for tier in tiers]
        full = sum(days * tier["bytes"] for days, tier in zip(kept, tiers))
        rows.append(
            [
                f"{nodes}, {groups}", str(one["series"]),
                " / ".join(mib(tier["bytes"]) for tier in tiers), mib(total / one["series"]),
                mib(one["disk_bytes"]), mib(one["written_bytes"]),
                " / ".join(f"{days:.3g}" for days in kept), mib(full),
            ]
        )
    slots = " / ".join(tier["slot"] for tier in cases[0]["tiers"])
    head = ["a day of one operation", "series", f"MiB in slots of {slots}", "MiB a series"]
    head += ["MiB of the file on disk", "MiB written to slots"]
    return table([*head, f"days kept in slots of {slots}", "MiB of slots then"], rows)


def comparison(found):
    alone, ours = found["compare"], found["plimsoll"]["compare"]
    runs = f"Two runs of {alone['samples']:.3g} samples in {alone['slots']} slots of 10 s"
    if "failed" in ours:
        return [f"{runs}: not measured ({ours['failed']})."]
    dense, json_side = (ours["answers"][media] for media in (MESSAGEPACK, JSON))
    return [
        f"{runs}: `plimsoll compare` takes {ours['seconds']:.2f} s, of which the comparison "
        f"itself takes {alone['seconds']:.2f} s. The aggregator answers for one of them with "
        f"{mib(dense['bytes'])} MiB of MessagePack in {dense['seconds']:.2f} s; with "
        f"{mib(json_side['bytes'])} MiB of JSON in {json_side['seconds']:.2f} s."
    ]


def ms(seconds, unit=" ms"):
    return f"{seconds * 1e3:.0f}{unit}" if seconds >= 0.1 else f"{seconds * 1e3:.1f}{unit}"


def mib(count):
    return f"{count / MIB:.0f}" if count >= 100 * MIB else f"{count / MIB:.2f}"
