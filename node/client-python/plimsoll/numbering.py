"""The sequence line that begins a datagram: under which name and number it is sent.

A node finds losses by it. A numbering ends with the datagram marked as `last`: no datagram of the
same name follows. DESIGN N56.
"""

import secrets


class Numbering:
    """The numbers from 1 on, under one random name."""

    __slots__ = ("client", "number", "samples")

    def __init__(self) -> None:
        self.client = secrets.token_hex(8)
        self.number = 0
        """Of the last datagram; 0 before the first."""
        self.samples = 0
        """Latency samples in all datagrams so far."""

    def next_line(self, samples: int, is_last: bool = False) -> str:
        """The sequence line of the next datagram, with this many samples in it."""
        self.number += 1
        mark = "|last" if is_last else ""
        line = f"_seq|{self.client}|{self.number}|{self.samples}|{samples}{mark}"
        self.samples += samples
        return line
