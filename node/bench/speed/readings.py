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
        bus.sendall(b"SUB plimsoll.v1.*.*.*.interval 2\r\n")
        lines = bus.makefile("rb")
        while time.monotonic() < end:
            line = lines.readline()
            if line.startswith(b"PING"):
                bus.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                size = int(line.split()[-1])
                yield msgpack.unpackb(lines.read(size + 2)[:size])


def samples(found):
    """The node and all readings of each message that has some, changed ones in their set."""
    sets = {}
    for message in found:
        body = message["body"]
        hardware = body.get("hardware") if message["kind"] == "interval" else body
        if hardware is None:
            continue
        of_set = message["node"], message["incarnation"], hardware.get("set", 0)
        if hardware["readings"] or not of_set[2]:
            sets[of_set] = hardware["readings"]
        elif of_set in sets:
            for place, value in hardware.get("changed", []):
                sets[of_set][place]["value"] = value
        else:
            continue
        yield message["node"], sets[of_set]


def main():
    nodes = {}
    for name, readings in samples(messages(int(sys.argv[1]), float(sys.argv[2]))):
        node = nodes.setdefault(name, {"readings": 0, "samples": {}})
        node["readings"] = max(node["readings"], len(readings))
        for reading in readings:
            if reading["sensor"] == "sampling_worst_seconds":
                thread = reading["labels"]["thread"]
                node["samples"].setdefault(thread, []).append(reading["value"])
    print(json.dumps(nodes))


if __name__ == "__main__":
    main()
