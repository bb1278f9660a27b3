"""Checks a running aggregator against its own OpenAPI document with schemathesis.

    python openapi.py URL          the token is $PLIMSOLL_TOKEN; without it, changes are rejected

Requests that fit the document and requests that do not are sent to every operation. Statuses,
content types, headers and bodies must be those that the document states, nothing may be answered
with 5xx, what does not fit must be rejected, and changes need the token. Fields that the document
does not name are errors. Prints what schemathesis found; exit code 0 if nothing was, and if every
operation has answered with success where it may.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

# Operations whose rules a schema cannot state: a range has its ends in order, a silence ends in the
# future and within 30 days, nodes keep some windows alone, a stretch of the past goes with its kind
# of profile. What fits the document may be rejected.
STRICTER = [
    "/api/v1/query",
    "/api/v1/bottlenecks",
    "/api/v1/hardware/history",
    "/api/v1/heatmap",
    "/api/v1/statistics",
    "/api/v1/profiles",
    "/api/v1/runs",
    "/api/v1/runs/compare",
    "/api/v1/runs/{name}/stop",
    "/api/v1/silences",
    "/api/v1/alerts/acknowledge",
]
# Without a captured profile none of these can succeed.
NEEDS_PROFILE = (
    "POST /api/v1/profiles",
    "DELETE /api/v1/profiles",
    "GET /api/v1/profiles/",
)
# A stream of events has no end.
ENDLESS = "/api/v1/stream"
EXAMPLES_MAX = 12
WAIT_SECONDS = 265
STATUSES = "PLIMSOLL_OPENAPI_STATUSES"


def main():
    """Exits with 1 if something was found."""
    url = sys.argv[1].rstrip("/")
    token = os.environ.get("PLIMSOLL_TOKEN")
    with urllib.request.urlopen(f"{url}/api/v1/openapi.json") as response:
        document = json.load(response)
    with urllib.request.urlopen(f"{url}/api/v1/nodes?limit=1") as response:
        node = json.load(response)["nodes"][0]["node"]
    document["components"]["parameters"]["node"]["example"] = node
    document["paths"]["/api/v1/nodes/{node}"]["get"]["parameters"][0]["example"] = node
    del document["paths"][ENDLESS]
    close(document)
    with tempfile.TemporaryDirectory() as folder:
        found, answered = run(pathlib.Path(folder), url, token, document)
    missing = sorted(succeeding(document, token) - answered)
    if missing:
        print("no request succeeded:", ", ".join(missing))
    sys.exit(1 if found or missing else 0)


def close(part):
    """No object may have a field that its schema does not name. A part without a type is open."""
    if isinstance(part, dict):
        if part.get("type") == "object" and "properties" in part:
            part.setdefault("additionalProperties", False)
        part = list(part.values())
    if isinstance(part, list):
        for below in part:
            close(below)


def operations(document):
    """Each operation with the name that schemathesis gives it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def succeeding(document, token):
    """Operations that can succeed: without the token, those that need none."""
    named = operations(document)
    all_named = {name for name, operation in named if token or "security" not in operation}
    return {name for name in all_named if not name.startswith(NEEDS_PROFILE)}


def run(folder, url, token, document):
    """Whether schemathesis found something, and which operations have succeeded."""
    schema, config, statuses = folder / "openapi.json", folder / "st.toml", folder / "statuses"
    schema.write_text(json.dumps(document), encoding="utf-8")
    lines = [f"hooks = {json.dumps(__file__)}"]
    for path in STRICTER:
        lines += ["[[operations]]", f"include-path = {json.dumps(path)}"]
        lines += ["checks.positive_data_acceptance.enabled = false"]
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    statuses.touch()
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "--no-color"]
    command += ["run", str(schema), "--url", url, "--continue-on-failure"]
    command += ["--phases", "examples,coverage,fuzzing,stateful", "--workers", "1"]
    command += ["--max-examples", str(EXAMPLES_MAX), "--generation-deterministic"]
    command += ["--suppress-health-check", "all"]
    if token:
        command += ["--header", f"Authorization: Bearer {token}"]
    environment = {**os.environ, STATUSES: str(statuses)}
    done = subprocess.run(command, cwd=folder, env=environment, timeout=WAIT_SECONDS, check=False)
    rows = [line.rsplit(" ", 1) for line in statuses.read_text(encoding="utf-8").splitlines()]
    print(f"{len(rows)} requests")
    return done.returncode != 0, {name for name, status in rows if status.startswith("2")}


def note_status(context, case, response):
    """Called by schemathesis after each request."""
    with open(os.environ[STATUSES], "a", encoding="utf-8") as file:
        file.write(f"{case.operation.label} {response.status_code}\n")


if __name__ == "__main__":
    main()
elif STATUSES in os.environ:
    import schemathesis

    schemathesis.hook("after_call")(note_status)
