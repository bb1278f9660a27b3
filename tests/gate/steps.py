"""The steps of `deploy/test` as data: what each runs, at which level, beside what, and on which files it depends.

A step belongs to a lane. Steps of one lane run one after another, lanes run side by side: `compute` keeps
both cores busy, `wait` has steps that start processes and wait for them, `files` what needs no build.
"""

from __future__ import annotations

import enum
import pathlib
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / "tests/.venv"
PYTHON = str(VENV / "bin/python")
OUT = ROOT / "target/gate"
PAGE = ROOT / "aggregator/page"
CLIENT = "node/client-python"


class Level(enum.IntEnum):
    """How much a run shows. A level includes those before it."""

    QUICK = 0
    GATE = 1
    ALL = 2


@dataclass(frozen=True)
class Step:
    """One row of the report."""

    name: str
    level: Level
    lane: str
    # Each command is a list of words. `{programs}` is the folder of the programs of step `build`.
    commands: tuple[tuple[str, ...], ...]
    shows: str
    after: tuple[str, ...] = ()
    # Tools without which it is skipped by name.
    tools: tuple[str, ...] = ()
    folder: pathlib.Path = ROOT
    env: dict[str, str] = field(default_factory=dict)
    deadline_seconds: int = 1800
    # Of steps of `--all`, paths that git lists. Packaging, page, broker version: a change is rare, and
    # the gate runs the step.
    outside: tuple[str, ...] = ()
    # Programs: nearly every change touches them. Reported; the gate fails once it is too old.
    inputs: tuple[str, ...] = ()
    # JUnit files that it writes, below OUT.
    junit: str = ""


RUST = ("Cargo.toml", "Cargo.lock", "schemas", "node", "aggregator", "drills", "tests/src",
        ":(exclude)aggregator/page")
CLUSTER = ("deploy/container", "deploy/k8s", "deploy/compose.yaml", "tests/python/cluster",
           "tests/python/capability.py", "node/node.toml", "aggregator/aggregator.toml")
NEXTEST = ("python3", "tests/gate/nextest.py")


# The lints of clippy come with the build: `cargo clippy` would check each crate once more, those of others too.
# clippy-driver is the compiler with lints added. Debug builds show no difference in what it makes.
BUILD = {"CARGO_INCREMENTAL": "0", "RUSTC_WORKSPACE_WRAPPER": "clippy-driver", "CLIPPY_ARGS": "-Dwarnings"}

# Only if the list has changed since the last time.
NPM_FORMATS = ("cd tests/python/formats; cmp -s package-lock.json node_modules/.installed || "
               "{ npm ci --ignore-scripts --no-audit --no-fund --prefer-offline; "
               "cp package-lock.json node_modules/.installed; }")

# Of each property; they differ from run to run. `property tests at length` tries more.
FEW_CASES = {"PROPTEST_CASES": "16"}
MANY_CASES = {"PROPTEST_CASES": "512"}


def pytest(junit: str, *paths: str) -> tuple[str, ...]:
    """A run of Python tests that writes JUnit."""
    return (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
            f"--junit-xml={OUT / junit}", *paths)


STEPS = (
    Step(
        "format", Level.QUICK, "files", (("cargo", "fmt", "--all", "--check"),),
        "Rust sources have one format",
    ),
    Step(
        "quick Rust tests", Level.QUICK, "compute", ((*NEXTEST, "quick"),),
        "lints, unit and property tests, golden wire bytes, house rules", junit="quick.xml",
        env=FEW_CASES | BUILD,
    ),
    Step(
        "build", Level.GATE, "compute",
        (("cargo", "build", "--workspace", "--all-targets", "--locked", "--timings"),
         (*NEXTEST, "list")),
        "everything compiles without a lint; one build serves all tests, the mesh and the simulation",
        env=BUILD,
    ),
    Step(
        "Rust tests", Level.GATE, "compute", ((*NEXTEST, "offline"),),
        "unit and property tests, golden wire bytes, house rules", after=("build",),
        junit="offline.xml", env=FEW_CASES,
    ),
    Step(
        "simulation", Level.GATE, "compute", (("python3", "tests/gate/simulation.py", "{programs}"),),
        "the real cores in virtual time: seeds that differ with each commit", after=("build",),
    ),
    Step(
        "live tests", Level.GATE, "wait", ((*NEXTEST, "live"),),
        "one test for each contract that only real parts can show", after=("build",),
        junit="live.xml",
    ),
    Step(
        "Prometheus files", Level.QUICK, "files",
        (
            ("promtool", "check", "config", "deploy/prometheus/prometheus.yml"),
            ("sh", "-ec", "promtool check rules deploy/prometheus/rules/*.yml"),
            ("amtool", "check-config", "deploy/alertmanager/alertmanager.yml"),
        ),
        "configuration, rules and routes are valid", tools=("promtool", "amtool"),
    ),
    Step(
        "shell scripts", Level.QUICK, "files",
        (("sh", "-ec", "shellcheck -x deploy/up deploy/test deploy/packages.sh deploy/release "
          "deploy/sbom .ci/run deploy/container/rootfs deploy/k8s/generate deploy/k8s/secrets "
          "deploy/advisories/check deploy/advisories/update drills/planted-bugs/run "
          "tests/gate/page_build"),),
        "shellcheck finds nothing", tools=("shellcheck",),
    ),
    Step(
        "planted bugs apply", Level.QUICK, "files",
        (("drills/planted-bugs/run", "--check"), ("python3", "tests/gate/defects.py", "--check")),
        "the patches of drills/planted-bugs fit the sources", tools=("patch", "git"),
    ),
    Step(
        "licences and advisories", Level.GATE, "files", (("deploy/advisories/check",),),
        "licences, sources and known weaknesses of all crates",
    ),
    Step(
        "Python files", Level.GATE, "files",
        (
            pytest("gate.xml", "tests/gate"),
            pytest("files.xml", "tests/python", "--ignore=tests/python/page",
                   "--ignore=tests/python/cluster", "--ignore=tests/python/formats",
                   "--ignore=tests/python/test_packages.py",
                   "--ignore=tests/python/test_slow_rank.py"),
            pytest("units.xml", "tests/python/test_packages.py::Units"),
            (PYTHON, "-m", "mypy", "--config-file", f"{CLIENT}/pyproject.toml",
             f"{CLIENT}/plimsoll"),
        ),
        "wire bytes read by Python, dashboards, bills of materials, units, the gate itself",
        junit="gate.xml files.xml units.xml",
    ),
    Step(
        "Python client", Level.GATE, "wait", (pytest("client.xml", f"{CLIENT}/tests"),),
        "the Python client, also against a real node", after=("build",), junit="client.xml",
        env={"PYTHONPATH": CLIENT, "PLIMSOLL_NODE": "{programs}/plimsoll-node"},
    ),
    Step(
        "page build", Level.GATE, "files", (("sh", "tests/gate/page_build"),),
        "the committed page is what its sources make", tools=("node", "npm"),
    ),
    Step(
        "page", Level.GATE, "wait",
        (pytest("page.xml", "tests/python/page/test_page.py", "-k", "Glance"),),
        "the page in Chromium shows what the API has", after=("build",), tools=("chromium",),
        env={"PLIMSOLL_PROGRAMS": "{programs}"}, junit="page.xml",
    ),
    Step(
        "profile formats", Level.GATE, "wait",
        (("sh", "-ec", NPM_FORMATS), pytest("formats.xml", "tests/python/formats")),
        "speedscope, pprof-format, Protocol Buffers and Chromium read what `plimsoll profile` writes",
        after=("build",), tools=("chromium", "node", "npm"), env={"PLIMSOLL_PROGRAMS": "{programs}"},
        junit="formats.xml",
    ),
    # What follows is `--all` alone.
    Step(
        "long live tests", Level.ALL, "wait", ((*NEXTEST, "long"),),
        "long faults, clusters, shards, drills at full length", after=("build",),
        inputs=(*RUST, "tests/live", "tests/alone", "tests/LEVELS.md"), junit="long.xml",
        deadline_seconds=3600,
    ),
    Step(
        "newest nats-server", Level.ALL, "wait", ((*NEXTEST, "newest"),),
        "bus, TLS, clusters and shards on the newest nats-server", after=("build",),
        outside=("tests/python/requirements.txt",),
        inputs=(*RUST, "tests/live/cluster.rs", "tests/live/shards.rs", "tests/live/trust.rs"),
        junit="newest.xml",
    ),
    Step(
        "dashboards", Level.ALL, "wait", ((*NEXTEST, "dashboards"),),
        "every query of every dashboard has a result in a real Prometheus", after=("build",),
        outside=("deploy/grafana", "deploy/prometheus", "tests/python/grafana.py"),
        inputs=(*RUST, "tests/live/prometheus"), junit="dashboards.xml",
    ),
    Step(
        "packages", Level.ALL, "wait",
        (pytest("packages.xml", "tests/python/test_packages.py"),),
        "packages install on a bare machine with systemd, survive kills, and leave",
        after=("build",), env={"PLIMSOLL_PROGRAMS": "{programs}"}, junit="packages.xml",
        outside=("deploy/package", "deploy/packages.sh", "deploy/systemd", "deploy/sbom",
                 "node/node.toml", "aggregator/aggregator.toml", "tests/python/machine.py",
                 "tests/python/capability.py",
                 "tests/python/test_packages.py", f"{CLIENT}/pyproject.toml"),
        inputs=RUST,
    ),
    Step(
        "Prometheus rules", Level.ALL, "files",
        (("sh", "-ec", "promtool test rules deploy/prometheus/tests/*.yml"),),
        "the rules of deploy/prometheus fire as stated", tools=("promtool",),
        outside=("deploy/prometheus",),
    ),
    Step(
        "Kubernetes resources", Level.ALL, "files",
        (pytest("resources.xml", "tests/python/cluster/test_manifests.py"),),
        "resources are valid, and fit each other and the settings", junit="resources.xml",
        outside=(*CLUSTER, "deploy/prometheus"),
    ),
    Step(
        "images and pods", Level.ALL, "wait",
        (pytest("cluster.xml", "tests/python/cluster", "--ignore=tests/python/cluster/test_manifests.py"),),
        "images of deploy/container, and pods as deploy/k8s has them", after=("build",),
        env={"PLIMSOLL_PROGRAMS": "{programs}"}, junit="cluster.xml", outside=CLUSTER, inputs=RUST,
    ),
    Step(
        "every view of the page", Level.ALL, "wait",
        (pytest("views.xml", "tests/python/page"),),
        "each view in Chromium, by mouse, keyboard and axe-core", after=("build", "page build"),
        tools=("chromium", "node", "npm"), env={"PLIMSOLL_PROGRAMS": "{programs}"},
        outside=("aggregator/page", "tests/python/page"), inputs=RUST, junit="views.xml",
    ),
    Step(
        "previous version", Level.ALL, "wait", (("tests/upgrade/run",),),
        "upgrade, mixed versions and the way back", after=("build",), tools=("git",),
        inputs=(*RUST, "tests/upgrade", "tests/data/previous"), deadline_seconds=3600,
    ),
    Step(
        "optimised run", Level.ALL, "compute",
        (("sh", "-ec", "deploy/up --seconds 20 --json > target/gate/up.json; "
          f"{PYTHON} tests/python/report.py --nodes 3 < target/gate/up.json"),),
        "`deploy/up` builds and runs a mesh whose accounts agree", after=("build",),
        inputs=(*RUST, "deploy/up"),
    ),
    Step(
        "simulation at length", Level.ALL, "compute",
        (("sh", "-ec", "cargo build --locked --profile up -p plimsoll-drills --bin drill-sim"),
         ("target/up/drill-sim", "--seeds", "2000"),),
        "two thousand seeds, and each branch is reached", after=("build",), inputs=RUST,
    ),
    Step(
        "property tests at length", Level.ALL, "compute", ((*NEXTEST, "properties"),),
        "each property with many times as many cases", after=("build",), inputs=RUST, env=MANY_CASES,
        junit="properties.xml", deadline_seconds=5400,
    ),
    Step(
        "planted bugs", Level.ALL, "compute", (("drills/planted-bugs/run",),),
        "the simulation finds every planted bug", after=("build",), tools=("patch", "git"),
        inputs=RUST, env={"TARGET": "target/planted"}, deadline_seconds=7200,
    ),
    Step(
        "fuzz targets", Level.ALL, "compute",
        (("cargo", "build", "-p", "plimsoll-fuzz", "--features", "fuzzer", "--bins", "--locked"),
         ("cargo", "clippy", "-p", "plimsoll-fuzz", "--features", "fuzzer", "--all-targets",
          "--locked", "--", "-D", "warnings")),
        "the fuzz targets build", after=("build",), tools=("c++",), inputs=RUST,
    ),
    Step(
        "documentation", Level.ALL, "compute",
        (("cargo", "test", "--workspace", "--locked", "--doc", "--quiet"),),
        "examples in the documentation of the crates", after=("build",), inputs=RUST,
    ),
)
