"""Reads an OpenMetrics page on standard input with Prometheus' own library, which refuses what the
format does not allow, and prints its families as JSON: type, unit, number of samples, nodes.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_fd_to_metric_families


def main() -> None:
    """Exits with an error at the first line that is not OpenMetrics."""
    families = {}
    for family in text_fd_to_metric_families(sys.stdin):
        nodes = {sample.labels["node"] for sample in family.samples if sample.labels.get("node")}
        families[family.name] = {
            "type": family.type,
            "unit": family.unit,
            "samples": len(family.samples),
            "nodes": sorted(nodes),
        }
    json.dump(families, sys.stdout)


if __name__ == "__main__":
    main()
