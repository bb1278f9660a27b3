"""An aggregator's list of alerts and stream of events, over real HTTP: what tests hold watches to.

Its stream has an event every 20 ms. What the list and the stream send instead is a test's choice.
"""

import http.server
import json
import threading
import time

EVENT_EVERY_S = 0.02


def row(number=0, **more):
    """An alert as the API has it."""
    return {
        "rule": "epoch_hook",
        "scope": {"node": f"n{number}"},
        "operation": "epoch_hook",
        "state": "firing",
        "since_seconds": 1_000.0,
        "firing_since_seconds": 1_000.0,
        "severity": "critical",
        "summary": f"p99 of n{number} is 30 ms",
        "evidence": {"value_seconds": 0.03, "limit_seconds": 0.01},
        **more,
    }


class Aggregating:
    """A server that is entered and left; may be left and entered again, at the same port."""

    def __init__(self):
        self.rows = []
        self.ready = True
        # Bytes that the list and the stream send in place of their own, and how they answer.
        self.list_bytes = self.stream_bytes = None
        self.list_status = self.stream_status = 200
        # Paths in the order of their requests, and the tokens that came along.
        self.paths, self.tokens = [], set()
        self._port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self):
        self.is_over = threading.Event()
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.aggregating = self
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self._server.shutdown()
        self._thread.join()
        # Waits for the threads of its connections.
        self._server.server_close()

    def wait(self, wait_s):
        """True once the server is left."""
        return self.is_over.wait(wait_s)

    def page(self):
        if self.list_bytes is not None:
            return self.list_bytes
        page = {"mesh": "m", "at_seconds": time.time(), "ready": self.ready, "alerts": self.rows}
        return json.dumps(page, separators=(",", ":")).encode()

    def events(self):
        """Events until the server is left."""
        if self.stream_bytes is not None:
            yield self.stream_bytes
            return
        while not self.wait(EVENT_EVERY_S):
            changed = sum(alert["since_seconds"] for alert in self.rows)
            firing = sum(alert["state"] == "firing" for alert in self.rows)
            pulse = {"ready": self.ready, "firing": firing, "changed_at_seconds": changed}
            yield f"event: pulse\ndata: {json.dumps(pulse)}\n\n".encode()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    allow_reuse_address = True

    def handle_error(self, *_):
        """A client that leaves is no error."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        aggregating = self.server.aggregating
        aggregating.paths.append(self.path)
        aggregating.tokens.add(self.headers["Authorization"])
        is_stream = self.path == "/api/v1/stream"
        status = aggregating.stream_status if is_stream else aggregating.list_status
        self.close_connection = True
        self.send_response(status)
        if status != 200:
            words = aggregating.list_bytes
            self.answer(b"no: give the token\n" if words is None else words)
        elif is_stream:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in aggregating.events():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.answer(aggregating.page())

    def answer(self, body):
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Prints nothing."""
