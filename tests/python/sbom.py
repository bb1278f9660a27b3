"""Bills of materials (CycloneDX) of the programs, from what Cargo resolves and has locked."""

import argparse
import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["plimsoll-node", "plimsoll-aggregator", "plimsoll-cli", "plimsoll-workload"]
# Of everything that depends on nothing but the sources.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/plimsoll")


def resolved(root: Path = ROOT) -> tuple[dict, dict]:
    """Packages and nodes of the dependency graph for this system, each by package id."""
    host = next(
        line.split()[1]
        for line in output(["rustc", "-vV"], root).splitlines()
        if line.startswith("host:")
    )
    metadata = json.loads(
        output(
            ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={host}"],
            root,
        )
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    return packages, nodes


def output(command: list[str], root: Path) -> str:
    """What a command prints; raises CalledProcessError if it fails."""
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(node: dict) -> list[str]:
    """Package ids that a node is linked from or built with; not those of its tests."""
    return [
        dependency["pkg"]
        for dependency in node["deps"]
        if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
    ]


def checksums(root: Path = ROOT) -> dict[tuple[str, str], str]:
    """SHA-256 of each published crate, by name and version."""
    locked = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    return {
        (package["name"], package["version"]): package["checksum"]
        for package in locked
        if "checksum" in package
    }


def component(package: dict, checksum: str | None, kind: ComponentType) -> Component:
    """A crate as CycloneDX describes one."""
    name, version = package["name"], package["version"]
    url = PackageURL("cargo", None, name, version)
    # Before 2018 crates wrote a slash for "or".
    licence = (package["license"] or "").replace("/", " OR ")
    return Component(
        name=name,
        version=version,
        type=kind,
        bom_ref=url.to_string(),
        purl=url,
        description=(package["description"] or "").strip() or None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
        licenses=[LicenseExpression(licence)] if licence else [],
    )


def bill(program: str, packages: dict, nodes: dict, locked: dict[tuple[str, str], str]) -> str:
    """The bill of materials of one crate of the workspace, as JSON; ValueError if it has none."""
    try:
        top = next(key for key, package in packages.items() if package["name"] == program)
    except StopIteration:
        raise ValueError(f"the workspace has no crate {program}") from None
    found: dict[str, Component] = {}
    waiting = [top]
    while waiting:
        key = waiting.pop()
        if key not in found:
            package = packages[key]
            kind = ComponentType.APPLICATION if key == top else ComponentType.LIBRARY
            checksum = locked.get((package["name"], package["version"]))
            found[key] = component(package, checksum, kind)
            waiting += needed(nodes[key])
    bom = Bom(components=[found[key] for key in found if key != top])
    bom.metadata.component = found[top]
    for key, one in found.items():
        bom.register_dependency(one, [found[other] for other in needed(nodes[key])])
    # A number of the contents, and no time: the same sources make the same file.
    lines = sorted(str(one.bom_ref) for one in found.values())
    bom.serial_number = uuid.uuid5(NAMESPACE, "\n".join(lines))
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp")
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error:
        raise ValueError(f"{program}: not CycloneDX: {error}")
    return text


def main() -> int:
    """Writes the files; returns the exit code."""
    parser = argparse.ArgumentParser(prog="deploy/sbom", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "target/sbom")
    parser.add_argument("programs", nargs="*", default=PROGRAMS, metavar="CRATE")
    arguments = parser.parse_args()
    packages, nodes = resolved()
    locked = checksums()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for program in arguments.programs:
        try:
            text = bill(program, packages, nodes, locked)
        except ValueError as error:
            print(f"sbom: {error}", file=sys.stderr)
            return 1
        path = arguments.out / f"{program}.cdx.json"
        path.write_text(text)
        count = len(json.loads(text)["components"])
        print(f"{path}: {count} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
