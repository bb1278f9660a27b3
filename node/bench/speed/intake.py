"""The cost of one DogStatsD sample in the receiving process, and the highest rate without drops.

All servers run all the time and get the same load in turn, round after round. The cost is the CPU
time of the receiving process over the samples that reached it.
"""

import math
import time
from statistics import median

from speed import kernel, peers
from speed.process import progress
from speed.targets import Target

POINTS = [(100_000, 20), (400_000, 20), (100_000, 1), (400_000, 1)]
# By samples in a datagram.
TARGETS = {
    20: Target("cost of a sample, 20 a datagram", "<=", 0.2, "us"),
    1: Target("cost of a sample, 1 a datagram", "<=", 0.46, "us"),
}
# The figure above is Netdata's on two cores; another machine has another, so both are judged.
NETDATA_TARGET = Target("cost of a sample over Netdata's", "<", 1.0, "x")
REST_MS = 5
# A load that sent less than this share of what was due did not keep up.
KEPT_UP = 0.97


def measure(programs, server, rate, packed, seconds, seed):
    """One run: CPU microseconds a sample, and what became of the datagrams."""
    port = server.port
    values = server.values()
    dropped = kernel.udp_dropped(port) if port else 0
    cpu = server.process.cpu_seconds()
    sent = programs.load(server.to, rate, packed, seconds, seed=seed)
    settle(port)
    cpu = server.process.cpu_seconds() - cpu
    dropped = (kernel.udp_dropped(port) if port else 0) - dropped
    taken = sent["sent"] - dropped * packed
    result = {
        "server": server.name,
        "rate": rate,
        "packed": packed,
        "us_per_sample": cpu * 1e6 / max(taken, 1),
        "dropped": dropped / max(sent["datagrams"], 1),
        "achieved": sent["sent"] / sent["seconds"],
        "kept_up": sent["sent"] >= KEPT_UP * sent["attempted"],
        "cores": cpu / sent["seconds"],
    }
    if values is not None:
        result["unaccounted"] = taken - (server.values() - values)
    return result


def settle(port):
    """Until what was sent has been read; a server may pause before it reads."""
    end = time.monotonic() + 2
    while port and kernel.udp_waiting(port) and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(0.05)


def highest(programs, server, packed, seconds):
    """The highest rate found at which the kernel drops nothing: doubled while it holds, then
    sought in between. None when it drops even at the lowest."""
    good = bad = best = None
    rate = 100_000 * (10 if packed > 1 else 1)
    for probe in range(9):
        result = measure(programs, server, rate, packed, seconds, seed=100 + probe)
        if result["dropped"]:
            # Twice in a row is the server's doing, once may be the machine's.
            result = measure(programs, server, rate, packed, seconds, seed=200 + probe)
        if result["dropped"] == 0 and result["kept_up"]:
            good, best = rate, result
        else:
            bad = rate
            if result["dropped"] == 0:
                # The load is at its end, not the server: what it managed is what is known.
                return {**result, "limit": "load"}
        if bad is None:
            rate *= 2
        elif good is None:
            rate //= 2
        elif bad / good < 1.25:
            break
        else:
            rate = round((good * bad) ** 0.5)
    return best and {**best, "limit": "server"}


def section(programs, stack, folder, cache, quick):
    """All servers at all points, and each one's highest rate."""
    url, broker_version = programs.broker(stack, folder)
    udp, unix = programs.node(stack, folder, url, "speed", "--set", "hardware.enabled=false")
    servers, skipped = peers.start(stack, folder, cache)
    loop = programs.floor(stack, folder, "recv loop")
    rest = ["--batch", "64", "--rest-ms", str(REST_MS)]
    resting = programs.floor(stack, folder, "resting loop", *rest)
    servers = [udp, unix, *servers, loop, resting]
    seconds, rounds = (3, 1) if quick else (8, 3)
    runs = []
    for turn in range(rounds):
        for rate, packed in POINTS:
            progress(f"intake: round {turn + 1} of {rounds}, {rate} samples/s, {packed} a datagram")
            for server in servers:
                run = measure(programs, server, rate, packed, seconds, seed=turn + 1)
                runs.append({**run, "round": turn})
    most = []
    for packed in TARGETS:
        for server in (s for s in servers if s.port):
            progress(f"intake: highest rate of {server.name}, {packed} a datagram")
            found = highest(programs, server, packed, 1 if quick else 2)
            found = found or {"server": server.name, "packed": packed, "limit": "none"}
            if server is udp:
                # A server that drops at any rate has no cost: the target is missed.
                found["verdict"] = TARGETS[packed].judge(found.get("us_per_sample", math.inf))
            most.append(found)
    return {
        "servers": [{"name": s.name, "version": s.version, "kind": kind(s)} for s in servers],
        "broker": broker_version,
        "skipped": skipped,
        "seconds": seconds,
        "rounds": rounds,
        "points": [point(runs, servers, rate, packed) for rate, packed in POINTS],
        "highest": most,
        "targets": beside_netdata(runs),
        "unaccounted": sum(run.get("unaccounted", 0) for run in runs),
        "runs": runs,
    }


def kind(server):
    return "ours" if server.ours else "floor" if server.floor else "peer"


def point(runs, servers, rate, packed):
    """Medians over the rounds, and the node beside the cheapest peer of the same round."""
    here = [run for run in runs if (run["rate"], run["packed"]) == (rate, packed)]
    figures = {}
    for server in servers:
        mine = [run for run in here if run["server"] == server.name]
        figures[server.name] = {
            "us_per_sample": median(run["us_per_sample"] for run in mine),
            "dropped": median(run["dropped"] for run in mine),
            "kept_up": all(run["kept_up"] for run in mine),
        }
    ratios = {}
    for kinds in ("peer", "floor"):
        others = [s.name for s in servers if kind(s) == kinds]
        found = [beside(here, turn, servers[0].name, others) for turn in {r["round"] for r in here}]
        ratios[kinds] = median(found) if others else None
    cost = figures[servers[0].name]["us_per_sample"]
    return {
        "rate": rate,
        "packed": packed,
        "figures": figures,
        "beside_best_peer": ratios["peer"],
        "beside_best_floor": ratios["floor"],
        "verdict": TARGETS[packed].judge(cost),
    }


def beside_netdata(runs):
    """The verdict on 100 000 datagrams a second, one sample in each, when there is a Netdata."""
    here = [run for run in runs if (run["rate"], run["packed"]) == (100_000, 1)]
    turns = {run["round"] for run in here if run["server"] == "Netdata"}
    if not turns:
        return []
    found = [beside(here, turn, "plimsoll-node", ["Netdata"]) for turn in turns]
    return [NETDATA_TARGET.judge(median(found))]


def beside(runs, turn, name, others):
    """The cost at `name` over the lowest cost at any of `others`, in one round."""
    costs = {run["server"]: run["us_per_sample"] for run in runs if run["round"] == turn}
    return costs[name] / min((costs[other] for other in others), default=float("nan"))
