"""False pages of the aggregator and of other rules, and the delay of true ones."""

import json
from typing import NamedTuple

from scale import plot
from scale.verdict import Result, Target
from speed.process import output, progress
from speed.table import table


class Load(NamedTuple):
    """Samples that are judged, for this many runs of this many simulated hours."""

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


def correlated(correlation):
    return ("--correlation", str(correlation)) if correlation else ()


# Runs, hours of each, and seconds that a shift lasts, by samples a minute.
RATES = {
    1: (20, 48, 14_400),
    3: (20, 48, 14_400),
    6: (20, 48, 14_400),
    60: (30, 24, 3_600),
    600: (20, 24, 3_600),
    3_000: (20, 24, 3_600),
    60_000: (4, 24, 1_200),
}
CORRELATIONS = (0, 0.5, 0.8, 0.95)
SEASON, BURSTS, SHARED = ("--season",), ("--bursts", "0.01"), ("--shared", "0.8")
# More runs of independent samples, in which even Prometheus seldom pages.
PLAIN_RUNS = {3: 200, 6: 40, 3_000: 40}


def sizes_of(per_minute, correlation):
    seeds, *others = RATES[per_minute]
    return (seeds if correlation else PLAIN_RUNS.get(per_minute, seeds), *others)


LOADS = (
    *(
        Load(per_minute, *sizes_of(per_minute, correlation), correlated(correlation))
        for correlation in CORRELATIONS
        for per_minute in RATES
    ),
    Load(3, 20, 48, 3_600, SEASON),
    Load(60, 20, 48, 3_600, SEASON),
    Load(3_000, 10, 48, 3_600, SEASON),
    Load(60, 20, 24, 3_600, BURSTS),
    Load(3_000, 20, 24, 3_600, BURSTS),
    Load(60_000, 4, 24, 1_200, BURSTS),
    # 64 ranks of one step a second.
    Load(3_840, 20, 24, 3_600, SHARED),
)
# At every rate above three a minute, and of independent samples at every one.
DAILY = Target("false pages a day", most=0.1)
FEWER = Target("times fewer false pages than Prometheus at its best", least=50)
# The shift and the median delay in seconds that has a target, by samples a minute.
DELAYS = {3_000: (1.5, Target("s", most=15)), 3: (3.0, Target("s, ten samples", most=200))}
# Beside independent samples of the same effective number.
SLOWER = Target("times as late as independent samples", most=1.5)
OURS, PROMETHEUS, FLOOD = "Plimsoll", "Prometheus", "default buckets"


def section(programs, _pinned, quick):
    """The benchmark's own figures, one entry for each load."""
    found = []
    for load in LOADS:
        progress(f"false_pages {' '.join(load.arguments(quick))}")
        [figures] = measured(programs, load.arguments(quick))
        if figures["overdispersion"] > LEAST_FACTOR:
            figures["effective"] = effective(programs, load, figures, quick)
        found.append(figures)
    return found


# Below it effective samples are samples.
LEAST_FACTOR = 1.2


def measured(programs, arguments):
    command = [programs.bench("false_pages"), "--json", *arguments]
    return json.loads(output(command, timeout=3_600))


def effective(programs, load, figures, quick):
    """Delays of independent samples at the effective rate."""
    wanted = load.per_minute / figures["overdispersion"]
    possible = [n for n in range(1, 61) if 60 % n == 0] + [60 * n for n in range(1, 1_001)]
    per_minute = min(possible, key=lambda one: abs(one / wanted - 1))
    alone = load._replace(per_minute=per_minute, hours=1, flags=())
    [found] = measured(programs, alone.arguments(quick))
    return {"per_minute": per_minute, "delays": contender(found, OURS)["delays"]}


def rate(figures):
    """The load in words."""
    per_minute = figures["per_minute"]
    if per_minute < 60:
        words = f"{per_minute} a minute"
    else:
        words = f"{per_minute // 60} a second"
    if figures["correlation"]:
        words += f", correlation {figures['correlation']:g}"
    words += ", daily season" if figures["has_season"] else ""
    words += ", bursts" if figures["bursts"] else ""
    return words + (", shared steps" if figures["shared"] else "")


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
            row.append(factor(figures) if one["name"].startswith(OURS) else "")
            rows.append(row + [seconds(delay) for delay in one["delays"]])
    shifts = [f"{delay['times']:g} x" for delay in found[0]["contenders"][0]["delays"]]
    head = ["samples", "rule", "false pages", "a day", "time it fires falsely", "factor"]
    head += [f"{shift}: page after s, median / p95" for shift in shifts]
    return [*table(head, rows), "", *(result.line() for result in targets(found))]


def factor(figures):
    """How many times as much counts are taken to vary, and in how many runs that is not learned."""
    text = f"{figures['overdispersion']:.2g}"
    return text + (f" ({figures['learning']} learning)" if figures["learning"] else "")


OTHER_SHAPES = ("has_season", "bursts", "shared")


def is_plain(figures):
    return not any(figures[key] for key in ("correlation", *OTHER_SHAPES))


def targets(found):
    """The results of each load."""
    results = []
    for figures in found:
        ours = contender(figures, OURS)
        daily = ours["pages"] / days(figures)
        if not is_plain(figures):
            if figures["per_minute"] > 3:
                measured = f"{ours['pages']} in {days(figures):g} days, {short(daily)} a day"
                results.append(Result(rate(figures), measured, DAILY.is_met(daily)))
                results += beside_independent(figures, ours)
            continue
        measured = f"{ours['pages']} in {days(figures):g} days, {short(daily)} a day"
        results.append(Result(rate(figures), measured, DAILY.is_met(daily)))
        results.append(beside_prometheus(figures, ours))
        if figures["per_minute"] in DELAYS:
            times, target = DELAYS[figures["per_minute"]]
            delay = next(delay["median"] for delay in ours["delays"] if delay["times"] == times)
            measured = f"{times:g} x found after {delay} s (at most {target.most} {target.name})"
            results.append(Result(rate(figures), measured, target.is_met(delay)))
    return results


def beside_independent(figures, ours):
    """How much later shifts are found than with as many independent samples as count."""
    results = []
    independent = figures.get("effective", {}).get("delays", [])
    for one, alone in zip(ours["delays"], (one["median"] for one in independent), strict=False):
        if one["times"] < 1.5 or not alone:
            continue
        if one["median"] is None:
            measured, is_met = f"{one['times']:g} x not found, independent after {alone} s", False
        else:
            later = one["median"] / alone
            measured = f"{one['times']:g} x after {one['median']} s, {later:.2f} {SLOWER.name}"
            is_met = SLOWER.is_met(later)
        results.append(Result(rate(figures), measured, is_met))
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
    """False pages of both and how soon shifts are found, by rate and correlation."""
    drawn = [one for one in found if not any(one[key] for key in OTHER_SHAPES)]
    bars, delays = [], {}
    for figures in drawn:
        if figures["correlation"] in (0, 0.8):
            for name in (OURS, PROMETHEUS):
                a_day = contender(figures, name)["pages"] / days(figures)
                bars.append((f"{rate(figures)}, {name}", a_day, short(a_day)))
        for delay in contender(figures, OURS)["delays"]:
            if delay["median"] is not None and delay["times"] == 3.0:
                line = delays.setdefault(f"3 x, correlation {figures['correlation']:g}", [])
                line.append((figures["per_minute"], delay["median"]))
    return plot.document(
        [
            plot.Bars("False pages a day, true p99 5 % under the limit", bars, "a day"),
            plot.Panel("Median time to a page of Plimsoll", "s", delays, "samples a minute"),
        ]
    )
