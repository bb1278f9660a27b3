"""Names of operations and labels as text that is valid in a DogStatsD line.

Rejects nothing: invalid characters are replaced, since a sample is worth more than the
spelling of its label. The node replaces by the same rules.
"""

import re
from typing import Iterable, List, Mapping, Tuple

from . import limits

IDLE = ".idle"
"""Behind an operation: what of its time its thread did not work; in the Rust client too."""

UNITS = ("ps", "bytes", "count")
"""What an operation ends with, behind a colon, whose values are not nanoseconds."""

Pair = Tuple[str, str]
"""A label and its value."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_./-]")
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9_.-]")
# Separators of the line, and control characters.
_NOT_IN_VALUES = re.compile(r"[,|\x00-\x1f\x7f-\x9f]")


def operation_name(name: str) -> str:
    """`name` as an operation: letters, digits and `_./-`, at most 128 bytes."""
    return _NOT_IN_NAMES.sub("_", name)[: limits.NAME_BYTES_MAX] or "_"


def with_unit(name: str) -> str:
    """`name` as an operation, which may end with a unit: `read:bytes`."""
    bare, _, unit = name.rpartition(":")
    return f"{operation_name(bare)}:{unit}" if unit in UNITS else operation_name(name)


def idle_name(name: str) -> str:
    """The operation whose latencies are what calls of `name` waited: cut before the suffix,
    so that no name is too long to keep the two apart."""
    return f"{name[: limits.NAME_BYTES_MAX - len(IDLE)]}{IDLE}"


def part_name(name: str, part: str) -> str:
    """A phase of the steps `name`, or a gauge of its timings: both cut so that they stay apart."""
    part = part[: limits.PART_CHARS_MAX]
    return f"{name[: limits.NAME_BYTES_MAX - 1 - len(part)]}.{part}"


def bare_key(key: str) -> str:
    """A keyword without one `_` at its end, so that `class_="llm"` gives the label `class`."""
    return key[:-1] if key.endswith("_") and len(key) > 1 else key


def label_pairs(labels: Mapping[str, object]) -> List[Pair]:
    """Labels as sorted pairs of text."""
    pairs = {}
    for key, value in labels.items():
        sanitized = _NOT_IN_KEYS.sub("_", bare_key(key))[: limits.LABEL_KEY_BYTES_MAX]
        text = _NOT_IN_VALUES.sub("_", as_text(value))
        pairs[sanitized] = cut(text, limits.LABEL_VALUE_BYTES_MAX)
    return sorted(pairs.items())[: limits.LABELS_MAX]


def with_defaults(pairs: Iterable[Pair], defaults: Iterable[Pair]) -> List[Pair]:
    """Pairs and those defaults whose label they lack, as far as a series has room for labels."""
    merged = dict(pairs)
    for key, value in defaults:
        if len(merged) < limits.LABELS_MAX:
            merged.setdefault(key, value)
    return sorted(merged.items())


def labels_text(pairs: Iterable[Pair]) -> str:
    """Pairs as PLIMSOLL_LABELS has them, `key=value,..`."""
    return ",".join(f"{key}={value}" for key, value in pairs)


def as_text(value: object) -> str:
    """A label's value as text; the name of its type if `str()` fails."""
    try:
        return str(value)
    except Exception:
        return type(value).__name__


def tag_text(pairs: Iterable[Pair]) -> str:
    """Pairs as the tag field of a line, `|#key:value,..`; empty without pairs."""
    tags = ",".join(f"{key}:{value}" for key, value in pairs)
    return f"|#{tags}" if tags else ""


def tag_pairs(tags: str) -> List[Pair]:
    """The pairs in a tag field made by `tag_text`: keys hold no colon, values no comma."""
    found = (tag.partition(":") for tag in tags[len("|#") :].split(",") if tag)
    return [(key, value) for key, _, value in found]


def cut(text: str, bytes_max: int) -> str:
    """`text` without what UTF-8 cannot hold and without what is above `bytes_max` bytes."""
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")
