"""False pages of the aggregator and of other rules, and the delay of true ones."""

import json

from scale import plot
from scale.verdict import Result, Target
from speed.process import output, progress
from speed.table import table

# Parameters tried beside the shipped ones, as (confidence, fire_after); they have no target.
TRIED = ((0.99, 3), (0.95, 20), (0.95, 30))
# Targets of the shipped parameters, each beside the best of the other rules.
FEWER = Target("times fewer false pages", least=20)
LATER = Target("seconds later", most=60)
# The shift whose delay has the target.
SHIFT = 1.5
OURS, FLOOD = "Plimsoll", "default buckets"


def section(programs, _pinned, quick):
    """The benchmark's own figures, one entry for each load."""
    progress("false_pages")
    command = [programs.bench("false_pages"), "--json", "--seeds", "20" if quick else "200"]
    for confidence, fire_after in TRIED:
        command += ["--try", f"{confidence}:{fire_after}"]
    return json.loads(output(command, timeout=3_600))


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


def load(figures):
    """One load: the table, and whether each of ours meets the targets."""
    rows = []
    for one in figures["contenders"]:
        row = [one["name"], str(one["pages"]), short(one["pages"] / days(figures))]
        row += [f"{short(one['firing'] * 100)} %", *(seconds(delay) for delay in one["delays"])]
        rows.append(row)
    shifts = [f"{delay['times']:g} x" for delay in figures["contenders"][0]["delays"]]
    head = ["rule", "false pages", "a day", "time it fires falsely"]
    head += [f"{shift}: page after s, median / p95" for shift in shifts]
    title = f"{figures['per_second']} samples a second, {figures['seeds']} runs of "
    title += f"{figures['hours']} hours:"
    verdicts = [result.line() for result in beside_others(figures)]
    return [title, "", *table(head, rows), "", *verdicts]


def targets(found):
    """The results of the shipped parameters, at each load."""
    return [
        Result(f"{figures['per_second']} samples a second: {name}", measured, met)
        for figures in found
        for name, measured, met in beside_others(figures)
        if name == OURS
    ]


def beside_others(figures):
    """Of the shipped and of the tried parameters: how many times fewer false pages than the best of
    the other rules, and how many seconds later a true one comes at most."""
    others = [one for one in figures["contenders"] if not one["name"].startswith(OURS)]
    paging = [one for one in others if FLOOD not in one["name"]]
    results = []
    for one in figures["contenders"]:
        if not one["name"].startswith(OURS):
            continue
        fewer = min(other["pages"] for other in paging) / max(one["pages"], 1)
        later = max(median(one) - median(other) for other in paging)
        measured = (
            f"{fewer:.1f} times fewer false pages than the best of the others, "
            f"on {SHIFT:g} x at most {later} s later"
        )
        results.append(Result(one["name"], measured, FEWER.is_met(fewer) and LATER.is_met(later)))
    return results


def median(one):
    return next(delay["median"] for delay in one["delays"] if delay["times"] == SHIFT)


def tables(found):
    lines = []
    for figures in found:
        lines += ["", *load(figures)]
    return lines[1:]


def picture(found):
    """False pages and delays at the first load, of the rules whose alerts ever end."""
    figures = found[0]
    shown = [
        one
        for one in figures["contenders"]
        if FLOOD not in one["name"] and (one["name"] == OURS or not one["name"].startswith(OURS))
    ]
    name = {one["name"]: one["name"].replace("`", "") for one in shown}
    daily = [(name[one["name"]], one["pages"] / days(figures)) for one in shown]
    bars = [(rule, a_day, short(a_day)) for rule, a_day in daily]
    delays = {
        name[one["name"]].split(",")[0]: [
            ((delay["times"] - 1) * 100, delay["median"])
            for delay in one["delays"]
            if delay["median"] is not None
        ]
        for one in shown
    }
    about = f"at {figures['per_second']} samples a second"
    return plot.document(
        [
            plot.Bars(f"False pages a day {about}, true p99 5 % under the limit", bars, "a day"),
            plot.Panel(f"Median time to a page {about}", "s", delays, "% longer samples"),
        ]
    )
