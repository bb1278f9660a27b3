"""Pages of an aggregator: where it is, the token it takes, and requests that are bounded.

For what a job reads back, such as alerts; values go to the node and never here. Follows no redirect
and uses no proxy, since the token would go along. Imports what HTTP needs at the first request:
most jobs make none.
"""

import contextlib
import ipaddress
import os
import stat
import time
import urllib.parse
from typing import TYPE_CHECKING, Dict, Iterator, NamedTuple, Optional

from . import limits

if TYPE_CHECKING:
    import http.client
    import ssl

# Where the packages put the token of the aggregator on this machine.
TOKEN_OF_THIS_MACHINE = "/etc/plimsoll/aggregator.token"
_EXAMPLE = "such as http://127.0.0.1:9900"
_NO_WORDS = f"an aggregator would give a reason: is url= the address of one, {_EXAMPLE}?"


class AggregatorError(RuntimeError):
    """An aggregator does not answer, refuses a request, or sends what is none of its pages."""


class Aggregator(NamedTuple):
    """One aggregator; made by `find`."""

    url: str
    host: str
    port: Optional[int]
    prefix: str
    headers: Dict[str, str]
    tls: "Optional[ssl.SSLContext]"

    @contextlib.contextmanager
    def open(self, path: str, timeout_s: float) -> "Iterator[http.client.HTTPResponse]":
        """The response to a request of `path`; no wait for bytes of it is longer than `timeout_s`.

        Raises AggregatorError for any other status than 200, and for what fails in the block.
        """
        import http.client

        made: http.client.HTTPConnection
        if self.tls is None:
            made = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        else:
            made = http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout_s, context=self.tls
            )

        with contextlib.closing(made):
            try:
                made.request("GET", self.prefix + path, headers=self.headers)
                response = made.getresponse()
                if response.status != 200:
                    words = response.read(limits.REFUSAL_BYTES_MAX).decode("utf-8", "replace")
                    words = words.strip() or f"{response.reason}; {_NO_WORDS}"
                    raise AggregatorError(f"{self.url}{path}: {response.status}: {words}")
                yield response
            except (OSError, http.client.HTTPException) as error:
                raise AggregatorError(f"{self.url}: {error or type(error).__name__}") from error

    def text(self, path: str, timeout_s: float, bytes_max: int) -> str:
        """A page of at most `bytes_max` bytes that has arrived within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        parts, size = [], 0
        with self.open(path, timeout_s) as response:
            for part in iter(lambda: response.read1(limits.READ_AT_ONCE_BYTES), b""):
                parts.append(part)
                size += len(part)
                if size > bytes_max:
                    raise AggregatorError(f"{self.url}{path}: more than {bytes_max} bytes")
                if time.monotonic() > deadline:
                    raise AggregatorError(f"{self.url}{path}: not read within {timeout_s:g} s")
        return b"".join(parts).decode("utf-8", "replace")


def find(url: Optional[str], token_file: "str | os.PathLike[str] | None") -> Aggregator:
    """The aggregator at `url`, or at PLIMSOLL_URL.

    Its token is that in `token_file`, or PLIMSOLL_TOKEN, or for one on this machine that of its
    packages, if it may be read; without any, requests have none. Raises ValueError when there is no
    URL or what is given cannot be used, and OSError when `token_file` cannot be read.
    """
    given = url or os.environ.get("PLIMSOLL_URL", "")
    if not given:
        raise ValueError(f"no aggregator: give url=, or set PLIMSOLL_URL, {_EXAMPLE}")
    try:
        parts = urllib.parse.urlsplit(given.rstrip("/"))
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{given!r} is no URL of an aggregator ({error}): {_EXAMPLE}") from error
    has_more = "@" in parts.netloc or parts.query or parts.fragment
    is_text = given.isascii() and given.isprintable() and " " not in given
    if parts.scheme not in ("http", "https") or not host or has_more or not is_text:
        raise ValueError(f"{given!r} is no URL of an aggregator: write one {_EXAMPLE}")

    token = _token(host, token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    tls = _tls() if parts.scheme == "https" else None
    return Aggregator(given.rstrip("/"), host, port, parts.path, headers, tls)


def check_timeout(timeout_s: float) -> None:
    """Raises ValueError for what leaves no time for an answer."""
    is_text = isinstance(timeout_s, (str, bytes))
    if is_text or not 0 < timeout_s < float("inf"):
        raise ValueError(f"timeout_s={timeout_s!r} leaves no time: give seconds above 0, such as 5")


def _tls() -> "ssl.SSLContext":
    import ssl

    ca_file = os.environ.get("PLIMSOLL_CA_FILE") or None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(f"PLIMSOLL_CA_FILE {ca_file!r} cannot be used: {error}") from error


def _token(host: str, path: "str | os.PathLike[str] | None") -> str:
    if path is not None:
        return _checked(_secret(path), os.fspath(path))
    if "PLIMSOLL_TOKEN" in os.environ:
        return _checked(os.environ["PLIMSOLL_TOKEN"].strip(), "PLIMSOLL_TOKEN")
    # Only to this machine: otherwise its token would go to any address that is given.
    if not _is_this_machine(host):
        return ""
    try:
        return _checked(_secret(TOKEN_OF_THIS_MACHINE), TOKEN_OF_THIS_MACHINE)
    except OSError:
        # It need not be there, nor be for this user: most pages need none.
        return ""


def _secret(path: "str | os.PathLike[str]") -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & stat.S_IRWXO:
            fix = f"chmod 0600 {os.fspath(path)}"
            raise ValueError(f"{os.fspath(path)}: everyone can access it (mode {mode:04o}): {fix}")
        return file.read(limits.SECRET_BYTES_MAX + 1).strip()


def _checked(token: str, source: str) -> str:
    if len(token) > limits.SECRET_BYTES_MAX or not (token.isascii() and token.isprintable()):
        raise ValueError(f"{source} has no token: it is one line of text")
    return token


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
