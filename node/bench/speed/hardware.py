"""The cost of sampling this machine's hardware once a second: the sensor threads of the node
beside a scrape of node_exporter with the collectors that read the same things.

All run at the same time, each at 1 Hz, without samples of jobs. The GPUs are two of the stand-in for
NVML that the tests use, which answers at once: what is measured is the node's own part.
"""

import json
import os
import re
import time
import urllib.request
from statistics import median

from speed import kernel, peers
from speed.process import Failed, Process, output, progress
from speed.programs import ROOT
from speed.targets import Target

COLLECTORS = [
    *("cpu", "cpufreq", "diskstats", "filefd", "filesystem", "hwmon", "loadavg", "meminfo"),
    *("netdev", "netstat", "pressure", "stat", "thermal_zone", "timex", "vmstat"),
]
TARGETS = {
    "cpu_sample": Target("CPU of a sample over CPU of a scrape", "<", 1.0, "x"),
    "cpu_node": Target("CPU of the whole node over CPU of a scrape", "<", 1.0, "x"),
    "worst_scrape": Target("worst sample over worst scrape", "<", 1.0, "x"),
    "worst_collector": Target("worst sample over worst collector", "<", 1.0, "x"),
}
THREADS = ("hw-host", "hw-devices")
READINGS = str(ROOT / "node/bench/speed/readings.py")
STUB = ROOT / "tests/nvml_stub/nvml_stub.rs"
TWO_GPUS = """\
gpus=2
utilization=37
memory_total=85899345920
memory_used=10737418240
temperature=55
power_mw=312500
clock_graphics=1980
clock_sm=1965
clock_memory=2619
clock_video=1545
"""


def section(programs, stack, folder, cache, quick):
    """Some time at rest; CPU is counted over all of it, latencies sample by sample."""
    python, _ = peers.python(cache, {"msgpack": "msgpack"})
    url, _ = programs.broker(stack, folder)
    bare, _ = programs.node(stack, folder, url, "bare", "--set", "hardware.gpu=false")
    library = f"hardware.nvml_library={stub(folder)}"
    with_gpus, _ = programs.node(stack, folder, url, "gpus", "--set", library)
    flags = ["--collector.disable-defaults", *(f"--collector.{name}" for name in COLLECTORS)]
    exporter, page, version = peers.node_exporter(stack, folder, flags)
    seconds = 15 if quick else 60
    # What the first samples make ready is not part of one.
    time.sleep(2)
    progress(f"hardware: all at 1 Hz for {seconds} s")
    listener = [python, READINGS, url.rpartition(":")[2], str(seconds)]
    listening = Process(stack, folder / "readings.json", listener)
    before = spent(bare, with_gpus, exporter)
    scrapes, figures = scrape_at_1_hz(page, seconds)
    after = spent(bare, with_gpus, exporter)
    cpu = {name: (after[name] - before[name]) / seconds * 1e6 for name in after}
    listening.child.wait(10)
    nodes = json.loads(listening.log.read_text())
    if set(nodes) != {"bare", "gpus"}:
        raise Failed(f"only these nodes sent readings: {sorted(nodes)}")
    rows = rows_of(cpu, nodes, scrapes)
    return {
        "rows": list(rows.values()),
        "version": version,
        "seconds": seconds,
        "collectors": COLLECTORS,
        "readings": nodes["bare"]["readings"],
        "figures": figures,
        "targets": targets(rows, cpu),
    }


def rows_of(cpu, nodes, scrapes):
    """CPU microseconds and durations, of the parts and of the whole."""
    host, devices = (nodes["bare"]["samples"][thread] for thread in ("host", "devices"))
    sample = cpu["hw-host"] + cpu["hw-devices"]
    both = [max(pair) for pair in zip(host, devices)]
    return {
        "host": row("node: the kernel's memory, a thread", cpu["hw-host"], host),
        "devices": row("node: devices, a thread", cpu["hw-devices"], devices),
        "sample": row("node: a sample, both threads", sample, both),
        "scrape": row("node_exporter: a scrape", cpu["exporter"], [one[0] for one in scrapes]),
        "collector": row("of it, its slowest collector", None, [one[1] for one in scrapes]),
        "rest": row("node: all else, such as to publish", cpu["bare"] - sample, []),
        "gpu": row("node: two GPUs polled at 10 Hz", cpu["hw-gpu"], nodes["gpus"]["samples"]["gpu"]),
    }


def row(name, cpu_us, seconds):
    """CPU microseconds a sample, and how long the samples took."""
    cells = {"name": name, "cpu_us": cpu_us, "median_ms": None, "worst_ms": None}
    if seconds:
        cells |= {"median_ms": median(seconds) * 1e3, "worst_ms": max(seconds) * 1e3}
    return cells


def targets(rows, cpu):
    """A sample beside a scrape."""
    sample, scrape, collector = rows["sample"], rows["scrape"], rows["collector"]
    ratios = {
        "cpu_sample": sample["cpu_us"] / scrape["cpu_us"],
        "cpu_node": cpu["bare"] / scrape["cpu_us"],
        "worst_scrape": sample["worst_ms"] / scrape["worst_ms"],
        "worst_collector": sample["worst_ms"] / collector["worst_ms"],
    }
    return [TARGETS[name].judge(ratio) for name, ratio in ratios.items()]


def spent(bare, with_gpus, exporter):
    """CPU seconds so far, of processes and of threads."""
    threads = kernel.thread_seconds(bare.process.pid)
    return {
        "bare": bare.process.cpu_seconds(),
        "exporter": exporter.cpu_seconds(),
        **{name: threads[name] for name in THREADS},
        "hw-gpu": kernel.thread_seconds(with_gpus.process.pid)["hw-gpu"],
    }


def scrape_at_1_hz(url, seconds):
    """The seconds of each scrape and of its slowest collector, and the figures on a page."""
    scrapes, figures, due = [], 0, time.monotonic()
    for _ in range(seconds):
        begun = time.monotonic()
        with urllib.request.urlopen(url, timeout=5) as answer:
            page = answer.read().decode()
        took = time.monotonic() - begun
        each = re.findall(r"^node_scrape_collector_duration_seconds\{.*\} (\S+)$", page, re.M)
        scrapes.append((took, max(float(one) for one in each)))
        figures = sum(line.startswith("node_") for line in page.splitlines())
        due += 1
        time.sleep(max(0, due - time.monotonic()))
    return scrapes, figures


def stub(folder):
    """The stand-in for NVML, which reads two GPUs from its control file."""
    control, library = folder / "gpus", folder / "libnvidia-ml.so.1"
    control.write_text(TWO_GPUS)
    command = [os.environ.get("RUSTC", "rustc"), "--edition", "2024", "--crate-type", "cdylib"]
    command += ["-O", "-C", "link-arg=-Wl,-z,nodelete", "-o", str(library), str(STUB)]
    output(command, env={**os.environ, "PLIMSOLL_STUB_CONTROL": str(control)}, timeout=120)
    return library
