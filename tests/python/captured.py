"""A job to capture, which computes in `planted` and sends its rounds to a node: `python3 -c JOB OPERATION
THREADS`. It prints its number, and once it is ended (SIGTERM) how many rounds it sent and each other signal
that it got. THREADS more wait meanwhile."""

import gzip
from pathlib import Path

JOB = """
import os, signal, socket, sys, threading, time

ended, got, sent = [], [], 0
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, lambda number, _: got.append(number))
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
node = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
node.connect("/run/plimsoll/node.sock")
print(os.getpid(), flush=True)

def planted():
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        sum(range(1000))

while not ended:
    planted()
    node.send(f"{sys.argv[1]}:20|ms".encode())
    sent += 1
print(sent, got, flush=True)
"""


def native_of(profile):
    """What a profile states about its native stacks."""
    _, found, rest = gzip.decompress(Path(profile).read_bytes()).partition(b"plimsoll.native=")
    assert found, "it has none"
    # A length and a tag follow the text.
    return "".join(char for char in rest[:60].decode(errors="replace") if char.isprintable())
