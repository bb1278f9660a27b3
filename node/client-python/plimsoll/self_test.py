"""The command `python -m plimsoll self-test`: shows whether values of every kind reach the node.

Sends a numbered set of values to the real socket and reads the node's own metrics before and
after. The checks run in order; those that need a failed one are not run. Changes nothing but the
node's counts: its operation is `plimsoll_self_test`. Nothing here runs in a job.
"""

import dataclasses
import http.client
import json
import time
import urllib.request
from typing import Any, Dict, List, Optional

from . import limits
from .client import CLIENT
from .diagnostics import MASTER_FIX
from .events import send_event
from .link import Link
from .settings import PROFILERS, Settings

METRICS_URL = "http://127.0.0.1:9901/metrics"
OPERATION = "plimsoll_self_test"
EXIT_NOT_SENT, EXIT_SETTINGS, EXIT_METRICS, EXIT_NOT_ARRIVED = 1, 3, 4, 5

Page = Dict[str, float]
"""Name of a metric of the node, with labels if the page has them, to its value."""

# What is sent -> the metric of the node that counts it, and by how much it rises at least.
_LATENCIES = 20
_EXPECTED = {
    "latencies": ("plimsoll_agent_samples_total", _LATENCIES),
    # Latencies, a counter and a gauge.
    "values": ("plimsoll_agent_values_total", _LATENCIES + 2),
    "events": ('plimsoll_agent_events_total{source="event"}', 1),
}


@dataclasses.dataclass(frozen=True)
class Check:
    """One check: `passed` is None if it was not run, and `fix` is empty unless it failed."""

    name: str
    passed: Optional[bool]
    detail: str
    fix: str = ""
    exit_code: int = 0


def self_test(settings: Settings, url: str, as_json: bool) -> int:
    """Runs all checks, with the switches of `settings`, prints them and returns the exit code."""
    checks = [_switches(settings), _variables(settings), *_delivery(url)]
    exit_code = next((check.exit_code for check in checks if check.passed is False), 0)
    if as_json:
        print(json.dumps(_report(checks, exit_code), indent=2))
    else:
        print("\n".join(map(_text, checks)))
    return exit_code


def _report(checks: List[Check], exit_code: int) -> Dict[str, Any]:
    return {
        "schema": 1,
        "passed": exit_code == 0,
        "exit_code": exit_code,
        "checks": [dataclasses.asdict(check) for check in checks],
    }


def _text(check: Check) -> str:
    outcome = {True: "passed", False: "FAILED", None: "not run"}[check.passed]
    fix = f"\n{'':21}fix: {check.fix}" if check.fix else ""
    return f"{outcome:<9}{check.name:<12}{check.detail}{fix}"


# The checks.


def _switches(settings: Settings) -> Check:
    states = {"master": settings.enabled, **{name: settings.is_on(name) for name in PROFILERS}}
    detail = ", ".join(f"{name} {'on' if is_on else 'off'}" for name, is_on in states.items())
    if settings.invalid_switches:
        fault = "; ".join(settings.invalid_switches)
        return Check("switches", False, detail, fault, EXIT_SETTINGS)
    idle = [name for name in PROFILERS if getattr(settings, name) and not settings.enabled]
    if idle and "enable" not in settings.chosen:
        fix = f"{', '.join(idle)} need the master switch: {MASTER_FIX}"
        return Check("switches", False, detail, fix, EXIT_SETTINGS)
    if not settings.enabled:
        detail += f"; a job with this environment records nothing: {MASTER_FIX}"
    return Check("switches", True, detail)


def _variables(settings: Settings) -> Check:
    labels = " ".join(f"{key}={value}" for key, value in settings.default_labels) or "none"
    detail = f"flush every {settings.flush_ms} ms, default labels: {labels}"
    fix = "; ".join(settings.invalid_variables)
    return Check("variables", not fix, detail, fix, EXIT_SETTINGS if fix else 0)


def _delivery(url: str) -> List[Check]:
    """The socket, the values sent, the page of the node, and the values that arrived."""
    page = _read(url)
    checks = [_socket()]
    checks.append(_send() if checks[0].passed else Check("send", None, "needs the socket"))
    checks.append(_metrics(page, url))
    if checks[1].passed and isinstance(page, dict) and checks[2].passed:
        checks.append(_arrival(page, url))
    else:
        checks.append(Check("arrival", None, "needs the checks above"))
    return checks


def _socket() -> Check:
    link = Link(CLIENT.settings.socket)
    answers = link.answers()
    address = link.address
    link.close()
    if answers:
        note = " (over UDP, only a refusal is noticed)" if link.is_udp else ""
        return Check("socket", True, f"{address} accepts datagrams{note}")
    start = "plimsoll-node" if link.is_udp else f"plimsoll-node --unix {address}"
    fix = f"start `{start}`, or set PLIMSOLL_SOCKET or --socket to the node's address"
    return Check("socket", False, link.fault, fix, EXIT_NOT_SENT)


def _send() -> Check:
    """Latencies of 1, 2, .. 20 ms, a counter, a gauge and an event, in numbered datagrams."""
    CLIENT.apply(CLIENT.settings.changed(enable=True))
    registry = CLIENT.registry
    for number in range(1, _LATENCIES + 1):
        registry.latency(OPERATION, {}).add(number * 1_000_000)
    registry.counter(f"{OPERATION}.count", {}).add(_LATENCIES)
    registry.gauge(f"{OPERATION}.gauge", {}).add(_LATENCIES)
    send_event("plimsoll self-test", f"sent {_LATENCIES} latencies", "info", {})
    result = CLIENT.flush(limits.EXIT_WAIT_S)
    stats = CLIENT.stats()
    detail = (
        f"{stats.samples} of {_LATENCIES} latencies, a counter, a gauge and an event in "
        f"{stats.datagrams} datagrams of client {stats.client}"
    )
    fix = "" if result else result.reason
    return Check("send", bool(result), detail, fix, 0 if result else EXIT_NOT_SENT)


def _metrics(page: "Page | str", url: str) -> Check:
    if isinstance(page, dict) and _EXPECTED["latencies"][0] in page:
        return Check("metrics", True, f"{url} is the page of a node")
    detail = f"{url}: {page}" if isinstance(page, str) else f"{url} is not the page of a node"
    fix = "give the address that the node has in --http: `self-test --metrics URL`"
    return Check("metrics", False, detail, fix, EXIT_METRICS)


def _arrival(before: Page, url: str) -> Check:
    """At least as many as were sent, since other clients may send at the same time."""
    deadline = time.monotonic() + limits.ARRIVAL_WAIT_S
    while True:
        page = _read(url)
        after = page if isinstance(page, dict) else before
        rises = {
            what: round(after.get(metric, 0) - before.get(metric, 0))
            for what, (metric, _) in _EXPECTED.items()
        }
        is_all = all(rises[what] >= least for what, (_, least) in _EXPECTED.items())
        if is_all or time.monotonic() >= deadline:
            break
        time.sleep(limits.ARRIVAL_POLL_S)
    detail = "the node counted " + ", ".join(
        f"{rises[what]} {what} of {least}" for what, (_, least) in _EXPECTED.items()
    )
    if is_all:
        return Check("arrival", True, detail)
    fix = (
        f"this page may be of another node than {Link(CLIENT.settings.socket).address}: compare "
        "its --unix, --udp and --http; otherwise look for plimsoll_agent_rejected_lines_total"
    )
    return Check("arrival", False, detail, fix, EXIT_NOT_ARRIVED)


def _read(url: str) -> "Page | str":
    """The samples of a page in Prometheus text format, or why there are none, in words."""
    # No proxy: the page is one of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=limits.METRICS_WAIT_S) as response:
            text = response.read(limits.METRICS_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error)
    page: Page = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if not line.startswith("#") and _is_number(value):
            page[name] = float(value)
    return page


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
