"""The socket of a process: finds the node, sends datagrams, returns the outcome.

Keeps no datagram: the caller keeps what was not sent. Raises nothing for errors of the network or the
file system.
"""

import enum
import errno
import os
import socket
from typing import Any, Optional, Tuple, Union

from . import limits

DEFAULT_PATH = "/run/plimsoll/node.sock"
DEFAULT_UDP = "udp://127.0.0.1:8125"
_UDP = "udp://"

_Target = Union[str, Tuple[Any, ...]]


class Outcome(enum.Enum):
    """Outcome of sending a datagram."""

    SENT = "sent"
    """The node's socket has accepted it."""
    FULL = "full"
    """The node listens but does not read; keep the datagram."""
    UNREACHABLE = "unreachable"
    """No node listens; keep the datagram."""
    TOO_LONG = "too_long"
    """The socket never accepts a datagram of this length."""


def address(wanted: Optional[str]) -> str:
    """Address of the node: `wanted`, or the usual path if it exists, or UDP."""
    if wanted:
        return wanted
    has_unix = hasattr(socket, "AF_UNIX") and os.path.exists(DEFAULT_PATH)
    return DEFAULT_PATH if has_unix else DEFAULT_UDP


def address_fault(text: str) -> str:
    """Why `text` can be no address of a node, with the fix; empty for one that can."""
    fix = f"write a path such as {DEFAULT_PATH}, or udp://host:port"
    if text.startswith(_UDP):
        try:
            udp_target(text)
        except ValueError:
            return f"{text!r} is not udp://host:port: {fix}"
    elif "://" in text:
        return f"{text!r} has an unknown scheme: {fix}"
    elif len(os.fsencode(text)) > limits.PATH_BYTES_MAX:
        return f"a path of more than {limits.PATH_BYTES_MAX} bytes is no address of a socket: {fix}"
    elif "\0" in text:
        return f"{text!r} contains a zero byte: {fix}"
    return ""


def udp_target(text: str) -> Tuple[str, int]:
    """Host and port of `udp://host:port`; ValueError when it is none."""
    host, _, port = text[len(_UDP) :].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is not udp://host:port")
    return host.strip("[]"), int(port)


class Link:
    """A socket that connects when there is a datagram to send."""

    def __init__(self, wanted: Optional[str]) -> None:
        self._wanted = wanted
        self._socket: Optional[socket.socket] = None
        self.address = address(wanted)
        self.fault = ""

    @property
    def is_udp(self) -> bool:
        """Whether datagrams can be lost on the way."""
        return self.address.startswith(_UDP)

    @property
    def is_connected(self) -> bool:
        """Whether the last datagram was accepted."""
        return self._socket is not None

    @property
    def datagram_bytes_max(self) -> int:
        """Bytes of one datagram."""
        if self.is_udp:
            return limits.UDP_DATAGRAM_BYTES_MAX
        return limits.UNIX_DATAGRAM_BYTES_MAX

    def send(self, datagram: bytes) -> Outcome:
        """Sends one datagram; waits up to SEND_WAIT_S for a node that is busy."""
        was_connected = self.is_connected
        outcome = self._try_send(datagram)
        # A node that was restarted listens on a new socket.
        if outcome is Outcome.UNREACHABLE and was_connected:
            outcome = self._try_send(datagram)
        return outcome

    def connect(self) -> bool:
        """Connects to the node, unless connected."""
        if self._socket is not None:
            return True
        self.address = address(self._wanted)
        try:
            self._socket = self._open()
        except (OSError, ValueError) as error:
            self.fault = f"{self.address}: {error}"
        return self._socket is not None

    def answers(self) -> bool:
        """Whether a node reads this address; over UDP, whether no refusal comes back.

        An empty line probes a UDP socket without being a sample.
        """
        connected = self.connect()
        return connected and (not self.is_udp or self.send(b"\n") is Outcome.SENT)

    def close(self) -> None:
        """Closes the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        target: _Target = self.address
        family = getattr(socket, "AF_UNIX", None)
        if self.is_udp:
            host, port = udp_target(self.address)
            # The first address that the name has; a loopback address needs no resolver.
            family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        if family is None:
            raise OSError("no Unix sockets on this system")
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            opened.connect(target)
            opened.setblocking(False)
        except BaseException:
            opened.close()
            raise
        return opened

    def _try_send(self, datagram: bytes) -> Outcome:
        if not self.connect() or self._socket is None:
            return Outcome.UNREACHABLE
        try:
            self._send_or_wait(self._socket, datagram)
            if self.is_udp:
                self._raise_refusal()
        except (socket.timeout, BlockingIOError):
            self.fault = f"{self.address}: the node does not read"
            return Outcome.FULL
        except OSError as error:
            self.fault = f"{self.address}: {error}"
            if error.errno == errno.EMSGSIZE:
                return Outcome.TOO_LONG
            if error.errno == errno.ENOBUFS:
                return Outcome.FULL
            self.close()
            return Outcome.UNREACHABLE
        self.fault = ""
        return Outcome.SENT

    @staticmethod
    def _send_or_wait(opened: socket.socket, datagram: bytes) -> None:
        try:
            opened.send(datagram)
        except BlockingIOError:
            # Only now, since a socket with a time limit polls before each send, and each system
            # call costs up to 5 ms to get the interpreter's lock back from a thread that computes.
            opened.settimeout(limits.SEND_WAIT_S)
            try:
                opened.send(datagram)
            finally:
                opened.setblocking(False)

    def _raise_refusal(self) -> None:
        """Over loopback the kernel reports at once that no process listens; then nothing was sent."""
        assert self._socket is not None
        refusal = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if refusal:
            raise OSError(refusal, os.strerror(refusal))
