"""`profile_middleware`: profiles a WSGI or ASGI request that has the header `X-Profile: true`.

The response has `X-Profile-Id`, or `X-Profile: busy` while another request is profiled. `allow`
decides which clients may; by default those on this machine, unless a proxy forwards for others.
The header of all other clients is ignored.
"""

import inspect
import ipaddress
import json
import urllib.parse
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Tuple

from .diagnostics import DIAGNOSTICS
from .request_profiles import RequestProfile, request_profile

Allow = Callable[[Mapping[str, Any]], object]
"""Whether the client of an environ or scope may profile its request, and read results."""

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
_TRUE = ("1", "true")


def profile_middleware(
    app: Any, *, allow: Optional[Allow] = None, last_path: Optional[str] = None
) -> Any:
    """The application around `app`, which is ASGI if it is called with `await`, else WSGI.

    `allow` gets the environ or the scope. At `last_path`, such as `/api/v1/profiles/last`, the same
    clients read the last result as JSON, or with `?id=` the one with this id.
    """
    is_asgi = any(map(inspect.iscoroutinefunction, (app, type(app).__call__)))
    return (_Asgi if is_asgi else _Wsgi)(app, allow, last_path)


class _Middleware:
    def __init__(self, app: Any, allow: Optional[Allow], last_path: Optional[str]) -> None:
        self.app = app
        self._allow = allow
        self._last_path = last_path

    def _may(self, request: Mapping[str, Any], peer: object, headers: Iterable[str]) -> bool:
        if self._allow is None:
            return _is_loopback(peer) and not any(of in _FORWARDED for of in headers)
        try:
            return bool(self._allow(request))
        except Exception as error:  # A request is not to fail for its profile.
            DIAGNOSTICS.warn_safely("allow", f"allow= of profile_middleware raised {error!r}")
            return False


class _Wsgi(_Middleware):
    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        is_last = self._last_path is not None and environ.get("PATH_INFO") == self._last_path
        if not is_last and environ.get("HTTP_X_PROFILE", "").lower() not in _TRUE:
            return self.app(environ, start_response)
        names = (key[5:].replace("_", "-").lower() for key in environ if key.startswith("HTTP_"))
        if not self._may(environ, environ.get("REMOTE_ADDR"), names):
            return self.app(environ, start_response)
        if is_last:
            is_found, body = _last(environ.get("QUERY_STRING", ""))
            status = "200 OK" if is_found else "404 Not Found"
            start_response(status, list(_headers(body)))
            return [body]

        profile = RequestProfile(f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}")
        profile.__enter__()

        def respond(status: str, headers: List[Tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, _mark(profile)], *error)

        try:
            return _Body(self.app(environ, respond), profile)
        except BaseException:
            profile.end()
            raise


class _Body:
    """The parts of a WSGI response, whose end is that of the request."""

    def __init__(self, body: Any, profile: RequestProfile) -> None:
        self._body = body
        self._parts = iter(body)
        self._profile = profile

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            part: bytes = next(self._parts)
        except BaseException:
            self._profile.end()
            raise
        return part

    def close(self) -> None:
        """The server calls it in any case."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._profile.end()


class _Asgi(_Middleware):
    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_last = self._last_path is not None and scope["path"] == self._last_path
        wants = (text for key, text in scope["headers"] if key == b"x-profile")
        if not is_last and next(wants, b"").decode("latin-1").lower() not in _TRUE:
            await self.app(scope, receive, send)
            return
        names = (key.decode("latin-1").lower() for key, _ in scope["headers"])
        if not self._may(scope, (scope.get("client") or [None])[0], names):
            await self.app(scope, receive, send)
            return
        if is_last:
            is_found, body = _last(scope.get("query_string", b"").decode("latin-1"))
            start = {"type": "http.response.start", "status": 200 if is_found else 404}
            await send({**start, "headers": list(map(_as_bytes, _headers(body)))})
            await send({"type": "http.response.body", "body": body})
            return

        async def respond(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), _as_bytes(_mark(profile))]
                message = {**message, "headers": headers}
            await send(message)

        with RequestProfile(f"{scope['method']} {scope['path']}") as profile:
            await self.app(scope, receive, respond)


def _mark(profile: RequestProfile) -> Tuple[str, str]:
    return ("X-Profile-Id", profile.id) if profile.id else ("X-Profile", "busy")


def _headers(body: bytes) -> Iterable[Tuple[str, str]]:
    return ("Content-Type", "application/json"), ("Content-Length", str(len(body)))


def _as_bytes(header: Tuple[str, str]) -> Tuple[bytes, bytes]:
    return header[0].lower().encode(), header[1].encode()


def _last(query: str) -> Tuple[bool, bytes]:
    id = dict(urllib.parse.parse_qsl(query)).get("id")
    result = request_profile(id)
    missing = {"error": "no request was profiled: send one with the header X-Profile: true"}
    return result is not None, json.dumps(result or missing).encode()


def _is_loopback(peer: object) -> bool:
    try:
        address = ipaddress.ip_address(str(peer))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
