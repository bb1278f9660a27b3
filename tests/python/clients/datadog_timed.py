"""Times a function that takes 30 ms through Datadog's own client, as its documentation shows.

{"socket": path, "operation": name, "calls": number, "use_ms": true, false or null} comes as JSON on
standard input; null leaves the client's default, which is seconds.
"""

import json
import sys
import time

from datadog.dogstatsd.base import DogStatsd


def main() -> None:
    """Calls the function and ends once its timers are on their way."""
    task = json.load(sys.stdin)
    units = {} if task["use_ms"] is None else {"use_ms": task["use_ms"]}
    client = DogStatsd(
        socket_path=task["socket"], disable_background_sender=True, socket_timeout=10, **units
    )

    @client.timed(task["operation"])
    def step() -> None:
        time.sleep(0.03)

    for _ in range(task["calls"]):
        step()
    client.flush()
    client.close_socket()


if __name__ == "__main__":
    main()
