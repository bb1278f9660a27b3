"""Stacks as a pprof file: gzip-compressed Protocol Buffers, as `go tool pprof` and the node read it.

Field numbers are those of profile.proto (github.com/google/pprof, proto/profile.proto).
"""

import gzip
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from .sampler import Frame, Stack


def encode(
    stacks: Mapping[Stack, int],
    period_ns: int,
    started_ns: int,
    duration_ns: int,
    comments: Sequence[str] = (),
) -> bytes:
    """A profile of two values, `samples/count` and `wall/nanoseconds`, with the label `thread`."""
    types = [("samples", "count"), ("wall", "nanoseconds")]
    samples = [(stack, (found, found * period_ns)) for stack, found in stacks.items()]
    return _encode(types, samples, period_ns, started_ns, duration_ns, comments)


def encode_growth(
    growths: Iterable[Tuple[Stack, int, int]],
    started_ns: int,
    duration_ns: int,
    comments: Sequence[str] = (),
) -> bytes:
    """A profile of memory: stacks with the objects and bytes that they allocated and that are still
    there, as `inuse_objects/count` and `inuse_space/bytes`."""
    types = [("inuse_objects", "count"), ("inuse_space", "bytes")]
    samples = [(stack, (blocks, size)) for stack, blocks, size in growths]
    return _encode(types, samples, 1, started_ns, duration_ns, comments)


def _encode(
    types: Sequence[Tuple[str, str]],
    samples: Sequence[Tuple[Stack, Tuple[int, ...]]],
    period: int,
    started_ns: int,
    duration_ns: int,
    comments: Sequence[str],
) -> bytes:
    """The last type is the default and that of the period."""
    tables = _Tables()
    kinds = [_number(1, tables.text(kind)) + _number(2, tables.text(unit)) for kind, unit in types]
    entries = []
    for stack, numbers in samples:
        locations = b"".join(_varint(tables.location(frame)) for frame in reversed(stack.frames))
        entry = _message(1, locations) + _message(2, b"".join(map(_varint, numbers)))
        if stack.thread:
            label = _number(1, tables.text("thread")) + _number(2, tables.text(stack.thread))
            entry += _message(3, label)
        entries.append(_message(2, entry))

    remarks = b"".join(_varint(tables.text(comment)) for comment in comments)
    # States that names and lines are known: without it a viewer looks for a program.
    mapping = _message(3, _number(1, 1) + _number(7, 1) + _number(8, 1) + _number(9, 1))
    texts = b"".join(_message(6, text.encode(errors="replace")) for text in tables.texts)
    body = b"".join(_message(1, kind) for kind in kinds) + b"".join(entries)
    body += mapping + b"".join(tables.entries) + texts
    body += _number(9, started_ns) + _number(10, duration_ns)
    body += _message(11, kinds[-1]) + _number(12, period) + _message(13, remarks)
    return gzip.compress(body + _number(14, tables.text(types[-1][0])))


class _Tables:
    """Texts, functions and locations, by their numbers."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self.entries: List[bytes] = []
        self._text_numbers: Dict[str, int] = {}
        self._functions: Dict[Tuple[str, str], int] = {}
        self._locations: Dict[Frame, int] = {}
        # The empty text has number 0 in every file.
        self.text("")

    def text(self, text: str) -> int:
        if text not in self._text_numbers:
            self._text_numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._text_numbers[text]

    def location(self, frame: Frame) -> int:
        if frame not in self._locations:
            number = self._locations[frame] = len(self._locations) + 1
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            entry = _number(1, number) + _number(2, 1) + _message(4, line)
            self.entries.append(_message(4, entry))
        return self._locations[frame]

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.file)
        if key not in self._functions:
            number = self._functions[key] = len(self._functions) + 1
            names = _number(2, self.text(frame.function)) + _number(4, self.text(frame.file))
            self.entries.append(_message(5, _number(1, number) + names))
        return self._functions[key]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(found) + bytes([number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body
