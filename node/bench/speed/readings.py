"""Prints as JSON how long nodes take for a sample, from the messages that they publish.

Run by a Python that has msgpack: the port of the broker, and for how many seconds to listen. For
each node: the readings in its largest sample, and the seconds of each sample of each thread.
"""

import json
import socket
import sys
import time

import msgpack


def messages(port, seconds):
    """Every message with hardware that is published on this broker."""
    end = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port), 5) as bus:
        bus.sendall(b'CONNECT {"verbose":false}\r\nSUB plimsoll.v1.*.*.*.hardware 1\r\n')
        lines = bus.makefile("rb")
        while time.monotonic() < end:
            line = lines.readline()
            if line.startswith(b"PING"):
                bus.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                size = int(line.split()[-1])
                yield msgpack.unpackb(lines.read(size + 2)[:size])


def main():
    nodes = {}
    for message in messages(int(sys.argv[1]), float(sys.argv[2])):
        node = nodes.setdefault(message["node"], {"readings": 0, "samples": {}})
        readings = message["body"]["readings"]
        node["readings"] = max(node["readings"], len(readings))
        for reading in readings:
            if reading["sensor"] == "sampling_worst_seconds":
                thread = reading["labels"]["thread"]
                node["samples"].setdefault(thread, []).append(reading["value"])
    print(json.dumps(nodes))


if __name__ == "__main__":
    main()
