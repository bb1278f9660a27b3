"""An application that exports itself through `prometheus_client` and obeys commands.

The port is its argument. Each line of standard input is JSON: {"path": label, "seconds": [..],
"hits": number, "depth": number}; a line comes back on standard output once that is counted.
"""

import json
import sys

from prometheus_client import Counter, Gauge, Histogram, Summary, start_http_server

LATENCY = Histogram("fetch_seconds", "Fetches", ["path"], buckets=(0.005, 0.018, 0.05, 0.1))
HITS = Counter("fetch_hits", "Hits")
DEPTH = Gauge("fetch_depth", "Depth")
SIZES = Summary("fetch_sizes", "Sizes")


def main() -> None:
    """Serves its page until standard input ends."""
    start_http_server(int(sys.argv[1]), addr="127.0.0.1")
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        for seconds in task["seconds"]:
            LATENCY.labels(task["path"]).observe(seconds)
            SIZES.observe(2)
        HITS.inc(task["hits"])
        DEPTH.set(task["depth"])
        print("counted", flush=True)


if __name__ == "__main__":
    main()
