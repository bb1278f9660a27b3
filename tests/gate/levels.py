"""The level of each live test, read from tests/LEVELS.md, as filters of cargo-nextest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steps import ROOT

TABLE = ROOT / "tests/LEVELS.md"
HEADING = re.compile(r"^## Binary (\S+) of (\S+)$")
ROW = re.compile(r"^\| `([\w:]+)` \|(.*)\|$")


class BadTable(Exception):
    """The table cannot be read; the text names the line."""


@dataclass(frozen=True)
class LiveTest:
    """A row of the table."""

    package: str
    binary: str
    name: str
    contract: str
    level: str


def live_tests(text: str | None = None) -> list[LiveTest]:
    """All Rust rows. Raises BadTable at a row without a known level, or one that is there twice."""
    found: list[LiveTest] = []
    seen: set[tuple[str, str]] = set()
    binary = package = None
    for number, line in enumerate((text or TABLE.read_text()).splitlines(), 1):
        if line.startswith("## "):
            heading = HEADING.match(line)
            binary, package = heading.groups() if heading else (None, None)
        row = ROW.match(line)
        if binary is None or package is None or row is None:
            continue

        name, cells = row[1], [cell.strip() for cell in row[2].split("|")]
        contract, level = cells[0], cells[1]
        if level not in ("gate", "all"):
            raise BadTable(f"{TABLE.name}:{number}: the level of {name} is {level!r}: gate or all")
        if (binary, name) in seen:
            raise BadTable(f"{TABLE.name}:{number}: {name} is there twice")
        seen.add((binary, name))
        found.append(LiveTest(package, binary, name, contract, level))
    return found


def of_binaries(tests: list[LiveTest]) -> str:
    """Matches every test of the binaries of the table, listed or not."""
    pairs = sorted({(test.package, test.binary) for test in tests})
    return " or ".join(f"(package({package}) and binary(={binary}))" for package, binary in pairs)


def of_level(tests: list[LiveTest], level: str) -> str:
    """Matches the tests of one level. Tests without a row belong to the gate."""
    later = [
        f"(package({test.package}) and binary(={test.binary}) and test(={test.name}))"
        for test in tests if test.level == "all"
    ]
    listed = " or ".join(later) or "none()"
    if level == "all":
        return f"({of_binaries(tests)}) and ({listed})"
    return f"({of_binaries(tests)}) and not ({listed})"
