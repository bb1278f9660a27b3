"""The built page on answers that a test writes: states that a real mesh takes minutes to reach."""

import contextlib
import http.server
import json
import pathlib
import threading
import time

DIST = pathlib.Path(__file__).resolve().parents[3] / "aggregator/page/dist"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
PULSE_SECONDS = 0.2


class FakeApi:
    """Serves the page, and `answers` by path. A change is `posted`, and answered with what is
    `made`. The stream repeats `pulse`, until `down`."""

    def __init__(self):
        self.answers, self.pulse, self.down = {}, {}, False
        self.posted, self.made = [], {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_of):
        self.down = True
        self._server.shutdown()
        self._server.server_close()

    def _handler(fake):  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                file = DIST / (path[1:] or "index.html")
                if file.is_file():
                    self.answer(TYPES[file.suffix], file.read_bytes())
                elif fake.down or path not in fake.answers and path != "/api/v1/stream":
                    self.send_error(503 if fake.down else 404)
                elif path == "/api/v1/stream":
                    self.stream()
                else:
                    self.answer("application/json", json.dumps(fake.answers[path]).encode())

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                fake.posted.append((self.path, json.loads(body)))
                self.answer("application/json", json.dumps(fake.made).encode(), 201)

            def answer(self, kind, body, status=200):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not fake.down:
                        pulse = json.dumps(fake.pulse | {"at_seconds": time.time()})
                        self.wfile.write(f"event: pulse\ndata: {pulse}\n\n".encode())
                        self.wfile.flush()
                        time.sleep(PULSE_SECONDS)

            def log_message(self, *_of):
                """Requests are not written to the terminal."""

        return Handler
