"""The command `python -m plimsoll`: sends one value, or shows why values do not arrive.

For people and scripts at a shell. Ignores the switches, since a command is its own
switch; a job uses the package instead.
"""

import argparse
import sys
import warnings
from typing import List

from . import __version__, limits
from .client import CLIENT
from .diagnostics import PlimsollWarning
from .link import DEFAULT_PATH, DEFAULT_UDP, Link, address_fault
from .self_test import METRICS_URL, self_test
from .settings import PROFILERS, from_environment

EPILOG = f"""\
examples:
  python -m plimsoll send epoch_hook 12.5
  python -m plimsoll send kernel_fetch 3 --label outcome=hit
  python -m plimsoll send tokens 512 --type c
  python -m plimsoll send epoch_hook 12.5 --socket udp://127.0.0.1:8125
  python -m plimsoll doctor
  python -m plimsoll self-test --metrics {METRICS_URL}

The node is searched at --socket, then PLIMSOLL_SOCKET, then {DEFAULT_PATH}
where that exists, then {DEFAULT_UDP}.

exit codes:
  0  done
  1  the node's socket did not accept it
  2  wrong usage
  3  self-test: a switch or a variable is invalid
  4  self-test: the node's metrics cannot be read
  5  self-test: the node did not count all that its socket accepted
"""


def main(arguments: List[str]) -> int:
    """Runs the command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m plimsoll",
        description="Feeds a Plimsoll node from a shell.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"plimsoll {__version__} (Python)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    send = commands.add_parser("send", help="send one value to the node")
    send.add_argument("name", help="operation, counter or gauge")
    send.add_argument("value", type=float, help="milliseconds, an amount, or a gauge's value")
    send.add_argument("--type", choices=["ms", "c", "g"], default="ms", help="default: ms")
    send.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", type=_label)
    send.add_argument("--socket", help="path, or udp://host:port")
    doctor = commands.add_parser("doctor", help="report the node's address and the switches")
    doctor.add_argument("--socket", help="path, or udp://host:port")
    test = commands.add_parser("self-test", help="send values and find them in the node's metrics")
    test.add_argument("--json", action="store_true", help="print JSON instead of a table")
    test.add_argument("--metrics", default=METRICS_URL, metavar="URL", help="default: %(default)s")
    test.add_argument("--socket", help="path, or udp://host:port")
    given = parser.parse_args(arguments)
    # The commands report all of it themselves.
    warnings.simplefilter("ignore", PlimsollWarning)
    if given.socket and address_fault(given.socket):
        parser.error(address_fault(given.socket))
    if given.socket:
        CLIENT.apply(CLIENT.settings.changed(socket=given.socket))
    if given.command == "self-test":
        if not given.metrics.startswith(("http://", "https://")):
            parser.error(f"{given.metrics!r} is no URL: write --metrics {METRICS_URL}")
        return self_test(from_environment(), given.metrics, given.json)
    return _doctor() if given.command == "doctor" else _send(given)


def _label(text: str) -> "tuple[str, str]":
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _send(given: argparse.Namespace) -> int:
    CLIENT.apply(CLIENT.settings.changed(enable=True))
    registry, labels = CLIENT.registry, dict(given.label)
    if given.type == "ms" and 0 <= given.value <= limits.VALUE_NS_MAX / 1e6:
        registry.latency(given.name, labels).add(round(given.value * 1e6))
    elif given.type != "ms" and abs(given.value) <= sys.float_info.max:
        kind = registry.counter if given.type == "c" else registry.gauge
        kind(given.name, labels).add(given.value)
    else:
        print(f"python -m plimsoll: {given.value} is no {given.type} value", file=sys.stderr)
        return 2
    if CLIENT.flush(limits.EXIT_WAIT_S):
        return 0
    print(f"python -m plimsoll: not sent: {CLIENT.stats().fault}", file=sys.stderr)
    return 1


def _doctor() -> int:
    settings = from_environment()
    link = Link(CLIENT.settings.socket)
    answers = link.answers()
    state = "answers" if answers else f"does not answer: {link.fault}"
    if link.is_udp and answers:
        state = "does not refuse (over UDP, only a refusal is noticed)"
    print(f"node         {link.address} {state}")
    print(f"master       {_on(settings.enabled)} (PLIMSOLL_ENABLE)")
    for name in PROFILERS:
        is_on = settings.enabled and bool(getattr(settings, name))
        print(f"{name:<12} {_on(is_on)} (PLIMSOLL_ENABLE_{name.upper()})")
    print(f"flush        every {settings.flush_ms} ms (PLIMSOLL_FLUSH_MS)")
    labels = ", ".join(f"{key}={value}" for key, value in settings.default_labels)
    print(f"labels       {labels or 'none'} (PLIMSOLL_LABELS, PLIMSOLL_RANKS)")
    for fault in settings.invalid_switches + settings.invalid_variables:
        print(f"invalid      {fault}")
    print("Code may overrule the switches with plimsoll.configure().")
    return 0 if answers else 1


def _on(is_on: bool) -> str:
    return "on " if is_on else "off"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
