"""Feeds a node through Datadog's own client: what is to be sent comes as JSON on standard input.

{"socket": path or "", "port": number, "operation": name, "values_ns": [..]}; values go out as
timers, distributions and histograms in turn, with a counter, a gauge, an event and a service
check beside them.
"""

import json
import sys

from datadog.dogstatsd.base import DogStatsd


def main() -> None:
    """Sends everything and ends once it is on its way."""
    task = json.load(sys.stdin)
    place = {"socket_path": task["socket"]} if task["socket"] else {"port": task["port"]}
    client = DogStatsd(disable_background_sender=True, socket_timeout=10, **place)
    sends = [client.timing, client.distribution, client.histogram]
    for number, value_ns in enumerate(task["values_ns"]):
        sends[number % 3](task["operation"], value_ns / 1e6, tags=["outcome:hit"])
    client.increment("datadog_count", 3, tags=["zone:x"])
    client.decrement("datadog_count", 1, tags=["zone:x"])
    client.gauge("datadog_gauge", -2.5)
    client.event("deployed", "version 7\nof the trainer", alert_type="warning", tags=["zone:x"])
    client.service_check("disk", DogStatsd.CRITICAL, message="full")
    client.flush()
    client.close_socket()


if __name__ == "__main__":
    main()
