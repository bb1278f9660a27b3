"""The bill of materials names what a program is built from, and nothing of the tests."""

import json
import unittest

import sbom


class Bills(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.packages, cls.nodes = sbom.resolved()
        cls.locked = sbom.checksums()

    def bill(self, program: str) -> dict:
        return json.loads(sbom.bill(program, self.packages, self.nodes, self.locked))

    def test_names_each_crate_with_its_licence_and_checksum(self) -> None:
        bill = self.bill("plimsoll-node")
        crates = {component["name"]: component for component in bill["components"]}
        for name in ("async-nats", "rmp-serde", "sysinfo", "plimsoll-schemas"):
            self.assertTrue(name in crates, name)
        self.assertFalse("proptest" in crates, "only tests need it")
        nats = crates["async-nats"]
        self.assertEqual(nats["purl"], f"pkg:cargo/async-nats@{nats['version']}")
        self.assertEqual(nats["licenses"], [{"expression": "Apache-2.0"}])
        self.assertEqual(
            nats["hashes"],
            [{"alg": "SHA-256", "content": self.locked["async-nats", nats["version"]]}],
        )
        for component in bill["components"]:
            self.assertTrue(component.get("licenses"), component["name"])

    def test_is_the_same_for_the_same_sources(self) -> None:
        self.assertEqual(self.bill("plimsoll-cli"), self.bill("plimsoll-cli"))

    def test_says_what_each_crate_needs(self) -> None:
        bill = self.bill("plimsoll-node")
        needs = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
        node = bill["metadata"]["component"]["bom-ref"]
        self.assertTrue(any(one.startswith("pkg:cargo/plimsoll-bus@") for one in needs[node]))

    def test_rejects_a_crate_that_is_not_there(self) -> None:
        with self.assertRaisesRegex(ValueError, "no crate plimsoll-nothing"):
            self.bill("plimsoll-nothing")


if __name__ == "__main__":
    unittest.main()
