"""Turns what series hold into numbered datagrams and hands them to the link.

At most one datagram is out of its series and not yet taken by the node; everything else stays
in the series, where it folds. Run by one thread at a time; decides nothing about when.
"""

import secrets
from typing import List, Optional

from . import limits
from .link import Link, Outcome
from .registry import Registry
from .series import Line, Series


class Sender:
    """One numbering of datagrams: of one process, under one token."""

    def __init__(self, registry: Registry, link: Link) -> None:
        self.client = secrets.token_hex(8)
        self.link = link
        self.datagrams = 0
        self.samples = 0
        self.values = 0
        """Values in datagrams that the node's socket accepted: samples, amounts, gauges, events."""
        self._registry = registry
        # Of the datagram in hand: closed and numbered, but not yet taken by the node.
        self._in_hand: Optional[bytes] = None
        self._in_hand_samples = self._in_hand_values = 0
        self._number = 0
        self._samples_numbered = 0
        # Of the datagram being filled.
        self._lines: List[str] = []
        self._lines_bytes = 0
        self._lines_samples = self._lines_values = 0
        self.owes_tail = False
        """False once the node has been informed that no datagram follows."""
        self._begin_with = 0

    def held(self) -> int:
        """Values out of their series that the node's socket has not accepted."""
        return self._in_hand_values + self._lines_values

    def flush(self) -> Outcome:
        """Sends what the series hold at this moment, until the node takes no more of it."""
        outcome = self._send_in_hand()
        if outcome is not Outcome.SENT:
            return outcome
        number = self._number
        every = self._registry.all()
        for at in range(len(every)):
            index = (self._begin_with + at) % len(every)
            if not every[index].has_values():
                continue
            outcome = self._drain(every[index])
            if outcome is not Outcome.SENT:
                # Where a slow node left off, so that no series waits for ever.
                self._begin_with = index
                return outcome
        self._drain_events()
        if self._lines:
            return self._close()
        if self._number == number and self.owes_tail:
            return self.tail()
        return outcome

    def tail(self) -> Outcome:
        """Sends a datagram that holds a number alone, so that a loss before it is noticed."""
        if self._number == 0:
            return Outcome.SENT
        outcome = self._close()
        self.owes_tail = outcome is not Outcome.SENT
        return outcome

    def _drain(self, series: Series) -> Outcome:
        left = series.waiting()
        while True:
            with self._registry.still():
                if not series.is_ready() and left > 0:
                    left -= series.refill()
                if not series.is_ready():
                    return Outcome.SENT
                is_in = self._add(series.line(self._room())) or (
                    # Labels alone may fill a small datagram: such a line gets one to itself.
                    not self._lines and self._add(series.line(limits.LINE_BYTES_MIN))
                )
            outcome = Outcome.SENT if is_in else self._close()
            if outcome is not Outcome.SENT:
                return outcome

    def _drain_events(self) -> None:
        while self._registry.events:
            event = self._registry.events.pop(0)
            if len(event.encode()) > self._room() and self._close() is not Outcome.SENT:
                self._registry.drop("events")
                return
            self._add(Line(event, 0, 1))

    def _room(self) -> int:
        return self.link.datagram_bytes_max - limits.SEQUENCE_BYTES_MAX - self._lines_bytes

    def _add(self, line: Optional[Line]) -> bool:
        if line is None:
            return False
        self._lines.append(line.text)
        self._lines_bytes += len(line.text.encode()) + 1
        self._lines_samples += line.samples
        self._lines_values += line.values
        return True

    def _close(self) -> Outcome:
        """Numbers the datagram, and hands it over."""
        self._number += 1
        sequence = (
            f"_seq|{self.client}|{self._number}|{self._samples_numbered}|{self._lines_samples}"
        )
        self._in_hand = "\n".join([sequence, *self._lines]).encode()
        self._in_hand_samples, self._in_hand_values = self._lines_samples, self._lines_values
        self._samples_numbered += self._lines_samples
        self.owes_tail = True
        self._lines, self._lines_bytes = [], 0
        self._lines_samples = self._lines_values = 0
        return self._send_in_hand()

    def _send_in_hand(self) -> Outcome:
        if self._in_hand is None:
            return Outcome.SENT
        outcome = self.link.send(self._in_hand)
        if outcome is Outcome.TOO_LONG:
            self._registry.drop("size", max(1, self._in_hand_values))
        elif outcome is not Outcome.SENT:
            return outcome
        else:
            self.datagrams += 1
            self.samples += self._in_hand_samples
            self.values += self._in_hand_values
        self._in_hand = None
        self._in_hand_samples = self._in_hand_values = 0
        return Outcome.SENT
