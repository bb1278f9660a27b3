"""Runs the examples that measure one part of the aggregator alone."""

import json

from speed.process import Failed, output, say

# Those of the aggregator's examples that print JSON, and what each must reach.
EXAMPLES = {
    "merge_speed": "decode and merge of a snapshot beside `hdrhistogram`, and beside a bare scan",
    "exposition_speed": "100 000 series of exposition beside the client libraries",
    "restart_speed": "a restart with the state of 1 000 nodes",
}


def section(programs, _pinned, _quick):
    """What each example says of itself; one that fails says why."""
    found = {}
    for name in EXAMPLES:
        say(name)
        try:
            found[name] = json.loads(output([programs.example(name), "--json"], timeout=900))
        except (Failed, ValueError) as why:
            say(f"{name}: {why}")
            found[name] = {"failed": str(why)}
    return found


def leaves(found, path=()):
    """Every number with the way to it; what stands beside it in words is part of the way."""
    if isinstance(found, bool) or found is None:
        yield path, str(found).lower()
    elif isinstance(found, (int, float)):
        yield path, found
    elif isinstance(found, str):
        yield path, found
    elif isinstance(found, list):
        for place, one in enumerate(found):
            yield from leaves(one, (*path, str(place)))
    else:
        title = next((str(found[key]) for key in ("shape", "name", "what") if key in found), None)
        # The title replaces the place in a list.
        base = path if title is None else (*path[:-1], title)
        for key, value in found.items():
            if title is None or str(value) != title:
                yield from leaves(value, (*base, key))
