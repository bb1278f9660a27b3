"""Feeds a node through the `statsd` package: what is to be sent comes as JSON on standard input.

{"port": number, "operation": name, "values_ns": [..]}; half of the values go out one by one, half
in pipelines, with a counter and a gauge beside them.
"""

import json
import sys

import statsd


def main() -> None:
    """Sends everything and ends once it is on its way."""
    task = json.load(sys.stdin)
    client = statsd.StatsClient("127.0.0.1", task["port"])
    values_ms = [value_ns / 1e6 for value_ns in task["values_ns"]]
    middle = len(values_ms) // 2
    for value_ms in values_ms[:middle]:
        client.timing(task["operation"], value_ms)
    with client.pipeline() as pipe:
        for value_ms in values_ms[middle:]:
            pipe.timing(task["operation"], value_ms)
    client.incr("statsd_count", 5)
    client.decr("statsd_count", 2)
    client.gauge("statsd_gauge", 4.5)
    client.close()


if __name__ == "__main__":
    main()
