"""Turns what series hold into numbered datagrams and hands them to the link.

At most one datagram is out of its series and not yet taken by the node; everything else stays
in the series, where it folds. Run by one thread at a time; decides nothing about when.
"""

from typing import List, NamedTuple, Optional

from . import limits
from .link import Link, Outcome
from .numbering import Numbering
from .registry import Registry
from .series import Line, Series


class _Datagram(NamedTuple):
    """A datagram that is closed and numbered."""

    sequence: str
    lines: List[str]
    samples: int
    values: int
    owes_tail: bool
    """Whether a loss of it is noticed only by a later datagram."""

    def encode(self) -> bytes:
        return "\n".join([self.sequence, *self.lines]).encode()


class Sender:
    """The datagrams of one process: one numbering of them, and another one after its end."""

    def __init__(self, registry: Registry, link: Link) -> None:
        self.link = link
        self.datagrams = 0
        self.samples = 0
        self.values = 0
        """Values in datagrams that the node's socket accepted: samples, amounts, gauges, events."""
        self.owes_tail = False
        """False once the node has been informed that no datagram follows."""
        self._registry = registry
        self._numbering = Numbering()
        # Closed, but not yet taken by the node.
        self._in_hand: Optional[_Datagram] = None
        # Of the datagram being filled.
        self._lines: List[str] = []
        self._lines_bytes = 0
        self._lines_samples = self._lines_values = 0
        self._begin_with = 0

    @property
    def client(self) -> str:
        """The random name of the present numbering."""
        return self._numbering.client

    def held(self) -> int:
        """Values out of their series that the node's socket has not accepted."""
        return self._lines_values + (self._in_hand.values if self._in_hand else 0)

    def flush(self) -> Outcome:
        """Sends what the series hold at this moment, until the node takes no more of it."""
        number = self._numbering.number
        outcome = self._send_full()
        if outcome is not Outcome.SENT:
            return outcome
        if self._lines:
            return self._close()
        return self.tail() if self._numbering.number == number else outcome

    def tail(self) -> Outcome:
        """If one is owed, sends a number alone, so that a loss is noticed; nothing is in hand."""
        return self._close() if self.owes_tail else Outcome.SENT

    def end(self) -> Outcome:
        """Ends the numbering by its final datagram, unless it sent nothing; nothing is in hand."""
        # Older nodes reject the final datagram: the tail before it shows them a loss as well.
        outcome = self.tail()
        if outcome is Outcome.SENT and self._numbering.number > 0:
            outcome = self._close(is_last=True)
        return outcome

    def flush_after_end(self) -> Outcome:
        """As `flush` and `end`, with the last lines in the final datagram.

        For a process that may be gone before another datagram.
        """
        outcome = self._send_full()
        if outcome is Outcome.SENT and (self._lines or self._numbering.number > 0):
            outcome = self._close(is_last=True)
        return outcome

    def move(self, link: Link) -> None:
        """Continues at another node, under a numbering of its own.

        The former node gets the final datagram if it takes all that was numbered for it, without
        another attempt. What it did not take is numbered anew.
        """
        if self.link.is_connected and self._send_in_hand() is Outcome.SENT:
            self.end()
        self.link.close()
        self.link = link
        self._numbering = Numbering()
        self.owes_tail = False
        waiting, self._in_hand = self._in_hand, None
        if waiting is not None and waiting.lines:
            sequence = self._numbering.next_line(waiting.samples)
            self._in_hand = waiting._replace(sequence=sequence, owes_tail=True)

    def _send_full(self) -> Outcome:
        """Sends the datagram in hand, and each one that gets full; the rest stays in `_lines`."""
        outcome = self._send_in_hand()
        if outcome is not Outcome.SENT:
            return outcome
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
        return self._drain_events()

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

    def _drain_events(self) -> Outcome:
        while self._registry.events:
            event = self._registry.events.pop(0)
            if len(event.encode()) > self._room():
                outcome = self._close()
                if outcome is not Outcome.SENT:
                    self._registry.drop("events")
                    return outcome
            self._add(Line(event, 0, 1))
        return Outcome.SENT

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

    def _close(self, is_last: bool = False) -> Outcome:
        """Numbers the datagram, and hands it over; after the last one a new numbering begins."""
        lines, samples = self._lines, self._lines_samples
        sequence = self._numbering.next_line(samples, is_last)
        owes_tail = bool(lines) and not is_last
        self._in_hand = _Datagram(sequence, lines, samples, self._lines_values, owes_tail)
        self._lines, self._lines_bytes = [], 0
        self._lines_samples = self._lines_values = 0
        if is_last:
            self._numbering = Numbering()
        return self._send_in_hand()

    def _send_in_hand(self) -> Outcome:
        datagram = self._in_hand
        if datagram is None:
            return Outcome.SENT
        outcome = self.link.send(datagram.encode())
        if outcome is Outcome.TOO_LONG:
            self._registry.drop("size", max(1, datagram.values))
        elif outcome is not Outcome.SENT:
            return outcome
        else:
            self.datagrams += 1
            self.samples += datagram.samples
            self.values += datagram.values
        self.owes_tail = datagram.owes_tail
        self._in_hand = None
        return Outcome.SENT
