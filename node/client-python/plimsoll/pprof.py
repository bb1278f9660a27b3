"""Stacks as a pprof file: gzip-compressed Protocol Buffers, as `go tool pprof` and the node read it.

Field numbers are those of profile.proto (github.com/google/pprof, proto/profile.proto).
"""

import gzip
from typing import Dict, List, Mapping, Sequence, Tuple

from .sampler import Frame, Stack


def encode(
    stacks: Mapping[Stack, int],
    period_ns: int,
    started_ns: int,
    duration_ns: int,
    comments: Sequence[str] = (),
) -> bytes:
    """A profile of two values, `samples/count` and `wall/nanoseconds`, with the label `thread`."""
    tables = _Tables()
    count = _message(1, _number(1, tables.text("samples")) + _number(2, tables.text("count")))
    wall_type = _number(1, tables.text("wall")) + _number(2, tables.text("nanoseconds"))
    samples = b""
    for stack, found in stacks.items():
        locations = b"".join(_varint(tables.location(frame)) for frame in reversed(stack.frames))
        values = _varint(found) + _varint(found * period_ns)
        label = _number(1, tables.text("thread")) + _number(2, tables.text(stack.thread))
        samples += _message(2, _message(1, locations) + _message(2, values) + _message(3, label))

    remarks = b"".join(_varint(tables.text(comment)) for comment in comments)
    # States that names and lines are known: without it a viewer looks for a program.
    mapping = _message(3, _number(1, 1) + _number(7, 1) + _number(8, 1) + _number(9, 1))
    texts = b"".join(_message(6, text.encode(errors="replace")) for text in tables.texts)
    body = count + _message(1, wall_type) + samples + mapping + tables.entries + texts
    body += _number(9, started_ns) + _number(10, duration_ns)
    body += _message(11, wall_type) + _number(12, period_ns) + _message(13, remarks)
    return gzip.compress(body)


class _Tables:
    """Texts, functions and locations, by their numbers."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self.entries = b""
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
            self.entries += _message(4, _number(1, number) + _number(2, 1) + _message(4, line))
        return self._locations[frame]

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.file)
        if key not in self._functions:
            number = self._functions[key] = len(self._functions) + 1
            names = _number(2, self.text(frame.function)) + _number(4, self.text(frame.file))
            self.entries += _message(5, _number(1, number) + names)
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
