"""Grafana dashboards from the metric families that a mesh exports.

`panels` has the kinds of panels and the frame of a dashboard, `fleet`, `node` and `mesh` have one
dashboard each, and `coverage` names what no panel shows. DESIGN A140 of the aggregator.
"""

import json

from . import fleet, mesh, node
from .panels import Json

DASHBOARDS = {"fleet": fleet.dashboard, "node": node.dashboard, "mesh": mesh.dashboard}


def rendered() -> dict[str, str]:
    """The text of each dashboard's file, by the name of the file."""
    return {f"{name}.json": _text(make()) for name, make in DASHBOARDS.items()}


def _text(dashboard: Json) -> str:
    """One panel a line, so that a line of a difference is a panel."""

    def entry(key: str, value: object) -> str:
        if isinstance(value, list) and value:
            lines = ",\n".join(f"  {json.dumps(item)}" for item in value)
            return f' "{key}": [\n{lines}\n ]'
        return f' "{key}": {json.dumps(value)}'

    entries = ",\n".join(entry(key, value) for key, value in dashboard.items())
    return f"{{\n{entries}\n}}\n"
