"""Runs the examples that measure one part of the aggregator alone."""

import json

from speed.process import Failed, output, say

# Examples that measure one part, with what they are asked and what they are about.
EXAMPLES = {
    "merge_speed": (["--json"], "decode and merge of a snapshot, beside `hdrhistogram` and a scan"),
    "exposition_speed": (["--json"], "exposition of 100 000 series beside the client libraries"),
    "restart_speed": (["1000", "usual"], "a restart with the state of 1 000 nodes"),
}


def section(programs, _pinned, _quick):
    """What each example says of itself, as JSON or in words; one that fails says why."""
    found = {}
    for name, (flags, _) in EXAMPLES.items():
        say(name)
        try:
            said = output([programs.example(name), *flags], timeout=900)
            found[name] = json.loads(said) if "--json" in flags else {"words": said.splitlines()}
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
