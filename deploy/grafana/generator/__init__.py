"""Grafana dashboards from the metric families that a mesh exports.

`panels` has the kinds of panels and the frame of a dashboard, `fleet`, `node` and `mesh` have one
dashboard each, and `coverage` names what no panel shows. DESIGN A140 of the aggregator.
"""

import json

from . import fleet, mesh, node

DASHBOARDS = {"fleet": fleet.dashboard, "node": node.dashboard, "mesh": mesh.dashboard}


def rendered() -> dict[str, str]:
    """The text of each dashboard's file, by the name of the file."""
    return {
        f"{name}.json": json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
        for name, make in DASHBOARDS.items()
    }
