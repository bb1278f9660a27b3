"""False pages of the aggregator and of other rules, and the delay of true ones."""

import json
from typing import NamedTuple

from scale import plot
from scale.verdict import Result, Target
from speed.process import output, progress
from speed.table import table


class Load(NamedTuple):
    """Samples that are judged, for so many runs of so many simulated hours."""

    per_minute: int
    seeds: int
    hours: int
    shift_seconds: int
    flags: tuple = ()

    def arguments(self, quick):
        seeds = max(self.seeds // 10, 2) if quick else self.seeds
        named = {
            "--per-minute": self.per_minute,
            "--seeds": seeds,
            "--hours": self.hours,
            "--shift-seconds": self.shift_seconds,
        }
        return [str(part) for pair in named.items() for part in pair] + list(self.flags)


CORRELATED, SEASON = ("--correlation", "0.8"), ("--season",)
LOADS = (
    Load(1, 100, 48, 14_400),
    Load(3, 100, 48, 14_400),
    Load(60, 60, 24, 3_600),
    Load(600, 60, 24, 3_600),
    Load(3_000, 60, 24, 3_600),
    Load(60_000, 10, 24, 3_600),
    Load(3, 40, 24, 3_600, CORRELATED),
    Load(60, 40, 24, 3_600, CORRELATED),
    Load(3_000, 20, 24, 3_600, CORRELATED),
    Load(3, 20, 48, 3_600, SEASON),
    Load(60, 20, 48, 3_600, SEASON),
    Load(3_000, 10, 48, 3_600, SEASON),
)
# Of independent samples, at every rate.
DAILY = Target("false pages a day", most=0.1)
FEWER = Target("times fewer false pages than Prometheus at its best", least=50)
# The shift and the median delay in seconds that has a target, by samples a minute.
DELAYS = {3_000: (1.5, Target("s", most=15)), 3: (3.0, Target("s, ten samples", most=200))}
OURS, PROMETHEUS, FLOOD = "Plimsoll", "Prometheus", "default buckets"


def section(programs, _pinned, quick):
    """The benchmark's own figures, one entry for each load."""
    found = []
    for load in LOADS:
        progress(f"false_pages {' '.join(load.arguments(quick))}")
        command = [programs.bench("false_pages"), "--json", *load.arguments(quick)]
        found += json.loads(output(command, timeout=3_600))
    return found


def rate(figures):
    """The load in words."""
    per_minute = figures["per_minute"]
    if per_minute < 60:
        words = f"{per_minute} a minute"
    else:
        words = f"{per_minute // 60} a second"
    if figures["correlation"]:
        words += f", correlation {figures['correlation']:g}"
    return words + (", daily season" if figures["has_season"] else "")


def seconds(delay):
    """Median and 95th percentile, and the number of runs without one."""
    if delay["median"] is None:
        text = "-"
    else:
        text = f"{delay['median']} / " + ("-" if delay["p95"] is None else str(delay["p95"]))
    notes = [f"{delay[key]} {words}" for key, words in NOTES.items() if delay[key]]
    return text + (f" ({', '.join(notes)})" if notes else "")


NOTES = {"never": "never", "already": "fired before"}


def short(number):
    """Two digits, without an exponent."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def days(figures):
    return figures["seeds"] * figures["hours"] / 24


def tables(found):
    """One table for all loads, a row for each rule, and the targets."""
    rows = []
    for figures in found:
        for one in figures["contenders"]:
            row = [rate(figures), one["name"], str(one["pages"])]
            row += [short(one["pages"] / days(figures)), f"{short(one['firing'] * 100)} %"]
            rows.append(row + [seconds(delay) for delay in one["delays"]])
    shifts = [f"{delay['times']:g} x" for delay in found[0]["contenders"][0]["delays"]]
    head = ["samples", "rule", "false pages", "a day", "time it fires falsely"]
    head += [f"{shift}: page after s, median / p95" for shift in shifts]
    return [*table(head, rows), "", *(result.line() for result in targets(found))]


def targets(found):
    """The results at each rate of independent samples."""
    results = []
    for figures in found:
        if figures["correlation"] or figures["has_season"]:
            continue
        ours = contender(figures, OURS)
        daily = ours["pages"] / days(figures)
        measured = f"{ours['pages']} in {days(figures):g} days, {short(daily)} a day"
        results.append(Result(rate(figures), measured, DAILY.is_met(daily)))
        results.append(beside_prometheus(figures, ours))
        if figures["per_minute"] in DELAYS:
            times, target = DELAYS[figures["per_minute"]]
            delay = next(delay["median"] for delay in ours["delays"] if delay["times"] == times)
            measured = f"{times:g} x found after {delay} s (at most {target.most} {target.name})"
            results.append(Result(rate(figures), measured, target.is_met(delay)))
    return results


def contender(figures, name):
    return next(one for one in figures["contenders"] if one["name"].startswith(name))


def beside_prometheus(figures, ours):
    """How many times fewer false pages; with the limit a bucket's edge, which is its best."""
    best = contender(figures, PROMETHEUS)
    if not best["pages"]:
        finds = sum(delay["median"] is not None for delay in best["delays"])
        measured = f"Prometheus has no false page either, and finds {finds} of 3 shifts"
        return Result(rate(figures), measured, ours["pages"] == 0)
    fewer = best["pages"] / max(ours["pages"], 1)
    more = "at least " if not ours["pages"] else ""
    measured = f"{more}{fewer:.1f} {FEWER.name}"
    return Result(rate(figures), measured, FEWER.is_met(fewer))


def picture(found):
    """False pages of both at each rate of independent samples, and how soon shifts are found."""
    plain = [one for one in found if not one["correlation"] and not one["has_season"]]
    bars = []
    for figures in plain:
        for name in (OURS, PROMETHEUS):
            a_day = contender(figures, name)["pages"] / days(figures)
            bars.append((f"{rate(figures)}, {name}", a_day, short(a_day)))
    delays = {}
    for figures in plain:
        for delay in contender(figures, OURS)["delays"]:
            if delay["median"] is not None and delay["times"] > 1.1:
                line = delays.setdefault(f"{delay['times']:g} x", [])
                line.append((figures["per_minute"], delay["median"]))
    return plot.document(
        [
            plot.Bars("False pages a day, true p99 5 % under the limit", bars, "a day"),
            plot.Panel("Median time to a page of Plimsoll", "s", delays, "samples a minute"),
        ]
    )
