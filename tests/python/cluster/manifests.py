"""What the schemas of Kubernetes do not state about deploy/k8s: that its resources fit each other and
the settings of our programs."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy/k8s"
# Kustomizations that someone applies.
RENDERED = ("base", "site", "jobs")
PROGRAMS = {"plimsoll-node": "node", "plimsoll-aggregator": "aggregator"}
# Keys of settings that hold paths: what is read, and where something is written.
READ_KEYS = re.compile(r"(_file|\.files)$")
WRITTEN_KEYS = re.compile(r"^(listen\.unix|listen\.stream|spool\.path|state\.path|history\.path)$")
# Pods of the broker's chart, which our rules of the network name.
BROKER = {"app.kubernetes.io/name": "nats", "app.kubernetes.io/component": "nats"}


def kubectl():
    """The pinned one of the tests, which renders as it does everywhere."""
    return pathlib.Path(sys.executable).with_name("kubectl")


def render(folder):
    """The resources of a kustomization."""
    command = [kubectl(), "kustomize", FOLDER / folder]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(text))


def render_with(base, component):
    """The resources of a kustomization with one of the components, as a site includes it."""
    with tempfile.TemporaryDirectory() as site:
        path = lambda name: os.path.relpath(FOLDER / name, pathlib.Path(site).resolve())  # noqa: E731
        text = f"resources: [{path(base)}]\ncomponents: [{path(component)}]\n"
        pathlib.Path(site, "kustomization.yaml").write_text(text)
        return render(site)


def find(docs, kind, name):
    """One resource."""
    found = [doc for doc in docs if (doc["kind"], doc["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} resources {kind} {name}"
    return found[0]


def known_keys(program):
    """Every key of a program's settings, as `section.key`, commented out or not."""
    text = (ROOT / program / f"{program}.toml").read_text()
    keys, section = set(), ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1] + "."
        elif match := re.match(r"#?(\w+) = ", line):
            keys.add(section + match[1])
    return keys


def flat(settings, prefix=""):
    """Settings as `section.key` and value."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def key_of_variable(program, name):
    """PLIMSOLL_NODE_BUS__URL is bus.url of a node; None for a variable of someone else."""
    prefix = f"PLIMSOLL_{program.upper()}_"
    if not name.startswith(prefix):
        return None
    return name.removeprefix(prefix).lower().replace("__", ".")


def pods_of(docs):
    """Namespace, labels, place and specification of each pod that the resources make."""
    for doc in docs:
        template = (
            doc.get("spec", {}).get("template") if isinstance(doc.get("spec"), dict) else None
        )
        if template and "containers" in template["spec"]:
            labels = template.get("metadata", {}).get("labels", {})
            namespace = doc["metadata"].get("namespace")
            yield (
                namespace,
                labels,
                f"{doc['kind']} {doc['metadata']['name']}",
                doc,
                template["spec"],
            )


def selects(selector, labels):
    """Whether a label selector with matchLabels alone selects these labels."""
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def containers_of(spec):
    """Every container, the initial ones first."""
    return [*spec.get("initContainers", []), *spec["containers"]]


# Pod Security levels from the strictest on, and what decides between them in pods such as ours.
LEVELS = ("restricted", "baseline", "privileged")
ENFORCED = "pod-security.kubernetes.io/enforce"
CLUSTER_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


def level_of(spec):
    """The strictest Pod Security level that admits a pod."""
    volumes = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
    of_host = any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    contexts = [container.get("securityContext", {}) for container in containers_of(spec)]
    if "hostPath" in volumes or of_host or any(one.get("privileged") for one in contexts):
        return "privileged"
    pod = spec.get("securityContext", {})

    def is_confined(context):
        context = {**pod, **context}
        return (
            context.get("allowPrivilegeEscalation") is False
            and context.get("capabilities") == {"drop": ["ALL"]}
            and context.get("runAsNonRoot") is True
            and context.get("runAsUser") != 0
            and context.get("seccompProfile", {}).get("type") == "RuntimeDefault"
        )

    confined = volumes <= CLUSTER_VOLUMES and all(map(is_confined, contexts))
    return "restricted" if confined else "baseline"


def ports_of(spec):
    """Ports by name."""
    ports = (port for container in containers_of(spec) for port in container.get("ports", []))
    return {port["name"]: port["containerPort"] for port in ports}


class Checks:
    """Collects what is wrong with a set of resources; `secrets` has the keys of those made outside."""

    def __init__(self, docs, secrets):
        self.docs, self.secrets = docs, secrets
        self.problems = []
        self.configs = {
            (doc["metadata"].get("namespace"), doc["metadata"]["name"]): doc.get("data", {})
            for doc in docs
            if doc["kind"] == "ConfigMap"
        }
        self.pods = list(pods_of(docs))

    def run(self):
        """Everything."""
        for namespace, labels, place, doc, spec in self.pods:
            self.pod(place, spec)
            self.selector(place, doc, labels)
            for container in containers_of(spec):
                self.container(f"{place}, {container['name']}", namespace, doc, spec, container)
        for doc in self.docs:
            place = f"{doc['kind']} {doc['metadata']['name']}"
            if doc["kind"] == "Namespace":
                labels = doc["metadata"].get("labels", {})
                self.of_namespace(place, doc["metadata"]["name"], labels)
                continue
            check = getattr(self, "of_" + doc["kind"].lower(), None)
            if check:
                check(place, doc["metadata"].get("namespace"), doc["spec"])
        return self.problems

    def expect(self, holds, problem):
        """Notes a problem unless something holds."""
        if not holds:
            self.problems.append(problem)

    def pod(self, place, spec):
        """What the whole pod states."""
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            self.expect(not spec.get(key), f"{place}: {key}")
        context = spec.get("securityContext", {})
        self.expect(context.get("runAsNonRoot") is True, f"{place}: may run as root")
        self.expect(context.get("runAsUser", 0) > 0, f"{place}: no user")
        profile = context.get("seccompProfile", {}).get("type")
        self.expect(profile == "RuntimeDefault", f"{place}: seccomp profile {profile}")
        self.expect(spec.get("automountServiceAccountToken") is False, f"{place}: token is mounted")
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        mounted = {
            mount["name"]
            for container in containers_of(spec)
            for mount in container.get("volumeMounts", [])
        }
        mounted -= {claim["metadata"]["name"] for claim in self.claims(place)}
        self.expect(volumes == mounted, f"{place}: volumes {sorted(volumes ^ mounted)}")

    def claims(self, place):
        """Templates of volume claims of a workload."""
        doc = next(doc for _, _, of, doc, _ in self.pods if of == place)
        return doc["spec"].get("volumeClaimTemplates", [])

    def selector(self, place, doc, labels):
        """A workload selects its own pods."""
        if doc["kind"] != "Job":
            chosen = doc["spec"]["selector"]
            self.expect(chosen["matchLabels"] and selects(chosen, labels), f"{place}: selector")

    def container(self, place, namespace, doc, spec, container):
        """What one container states."""
        image = container["image"]
        tag = re.search(r":(v?\d[\w.-]*)$", image)
        self.expect(tag, f"{place}: image {image} has no version")
        context = container.get("securityContext", {})
        self.expect(not context.get("privileged"), f"{place}: privileged")
        self.expect(
            context.get("allowPrivilegeEscalation") is False, f"{place}: may gain privileges"
        )
        self.expect(context.get("readOnlyRootFilesystem") is True, f"{place}: root can be written")
        capabilities = context.get("capabilities", {})
        self.expect(capabilities.get("drop") == ["ALL"], f"{place}: capabilities are kept")
        # One alone runs as root: it gives the node's user two folders of the machine.
        folders = container.get("command", [""])[0] == "/usr/bin/chown"
        added = ["CHOWN"] if folders else []
        self.expect(capabilities.get("add", []) == added, f"{place}: capabilities are added")
        self.expect(folders or context.get("runAsUser", 1) > 0, f"{place}: runs as root")
        limits = container.get("resources", {})
        for key in ("requests.cpu", "requests.memory", "limits.memory"):
            self.expect(dict(flat(limits)).get(key), f"{place}: no {key}")
        for port in container.get("ports", []):
            self.expect("hostPort" not in port, f"{place}: hostPort")
        program = PROGRAMS.get(image.rsplit("/", 1)[-1].split(":")[0])
        if program and not folders:
            self.program(place, namespace, spec, container, program)
            self.probes(place, container, spec)

    def variables(self, place, container):
        """Variables of a container, with a stand-in for what the cluster fills in."""
        known = {}
        for variable in container.get("env", []):
            value = variable.get("value", "from-the-cluster")
            for reference in re.findall(r"\$\((\w+)\)", value):
                self.expect(reference in known, f"{place}: ${reference} is not set before")
                value = value.replace(f"$({reference})", known.get(reference, ""))
            known[variable["name"]] = value
        return known

    def program(self, place, namespace, spec, container, program):
        """A container of ours: its settings exist, and so do the files that they name."""
        keys = known_keys(program)
        settings = {}
        args = container.get("args", [])
        if len(args) == 2 and args[0] == "--config":
            text = self.file(place, namespace, spec, container, args[1])
            settings = dict(flat(tomllib.loads(text or "")))
        else:
            self.problems.append(f"{place}: arguments {args}")
        for name, value in self.variables(place, container).items():
            if key := key_of_variable(program, name):
                settings[key] = value
        for key, value in settings.items():
            self.expect(key in keys, f"{place}: no setting {key}")
            for path in value if isinstance(value, list) else [value]:
                if READ_KEYS.search(key):
                    self.file(place, namespace, spec, container, path)
                elif WRITTEN_KEYS.match(key):
                    mount = self.mount(container, path)
                    writes = mount and not mount.get("readOnly")
                    self.expect(writes, f"{place}: {key} {path} cannot be written")
        for key, port in (("http.address", "http"), ("http.health_address", "health")):
            address = settings.get(key)
            wanted = {int(address.rsplit(":", 1)[1])} if address else set()
            found = {p["containerPort"] for p in container.get("ports", []) if p["name"] == port}
            self.expect(
                wanted == found, f"{place}: port {port} {found} is not that of {key} {wanted}"
            )

    @staticmethod
    def mount(container, path):
        """The mount that a path lies in."""
        mounts = container.get("volumeMounts", [])
        return next((m for m in mounts if f"{path}/".startswith(m["mountPath"] + "/")), None)

    def file(self, place, namespace, spec, container, path):
        """The text of a mounted file, "" for one of a secret; a problem if there is none."""
        mount = self.mount(container, path)
        if mount is None:
            return self.problems.append(f"{place}: nothing is mounted at {path}")
        volume = next((v for v in spec["volumes"] if v["name"] == mount["name"]), {})
        name = path.removeprefix(mount["mountPath"] + "/")
        if "configMap" in volume:
            found = self.configs.get((namespace, volume["configMap"]["name"]), {})
            self.expect(name in found, f"{place}: no {path} in its ConfigMap")
            return found.get(name, "")
        secret = volume.get("secret", {})
        self.secret(place, secret.get("secretName"), name)
        # The kubelet adds group's read permission for fsGroup; everyone's makes the program refuse it.
        self.expect(
            secret.get("defaultMode", 0o644) & 0o007 == 0, f"{place}: everyone reads {path}"
        )
        return ""

    def secret(self, place, secret, key):
        """A key of a secret that `deploy/k8s/secrets` makes."""
        key = key.replace("from-the-cluster", "MACHINE")
        self.expect(key in self.secrets.get(secret, ()), f"{place}: no {key} in secret {secret}")

    def probes(self, place, container, spec):
        """Probes ask the listener that is there for them."""
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind, {}).get("httpGet")
            if probe is None:
                # A sidecar without pages is ready when it runs.
                self.expect(
                    kind == "readinessProbe" and "restartPolicy" in container, f"{place}: no {kind}"
                )
                continue
            wanted = {
                "path": "/readyz" if kind == "readinessProbe" else "/healthz",
                "port": "health",
            }
            self.expect(probe == wanted, f"{place}: {kind} asks {probe}")

    def selected(self, place, namespace, selector):
        """Pods that a selector finds in a namespace; none is a problem."""
        found = [
            spec
            for of, labels, *_, spec in self.pods
            if of == namespace and selects(selector, labels)
        ]
        if not found and not selects(selector, BROKER):
            self.problems.append(f"{place}: selects no pod")
        return found

    def named_ports(self, place, specs, ports):
        """Ports by name are those of the pods."""
        for port in ports:
            for spec in specs if isinstance(port, str) else []:
                self.expect(port in ports_of(spec), f"{place}: no port {port}")

    def of_namespace(self, place, name, labels):
        """A namespace admits its pods, and nothing that none of them needs."""
        needed = [level_of(spec) for of, *_, spec in self.pods if of == name]
        level = max(needed, key=LEVELS.index, default="restricted")
        enforced = labels.get(ENFORCED)
        self.expect(enforced == level, f"{place}: enforces {enforced}, its pods need {level}")

    def of_service(self, place, namespace, spec):
        """A service finds its pods and their ports."""
        specs = self.selected(place, namespace, {"matchLabels": spec["selector"]})
        self.named_ports(place, specs, [port["targetPort"] for port in spec["ports"]])

    def of_poddisruptionbudget(self, place, namespace, spec):
        """A budget of disruptions finds its pods."""
        self.selected(place, namespace, spec["selector"])

    def of_networkpolicy(self, place, namespace, spec):
        """A policy finds its pods, and names ports that they have."""
        specs = self.selected(place, namespace, spec["podSelector"])
        rules = [*spec.get("ingress", []), *spec.get("egress", [])]
        self.expect(all("ports" in rule for rule in rules), f"{place}: all ports")
        self.expect(all("from" in rule or "to" in rule for rule in rules), f"{place}: everyone")
        if "Ingress" in spec["policyTypes"]:
            ports = [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
            self.named_ports(place, specs, ports)

    def of_podmonitor(self, place, namespace, spec):
        """A monitor finds its pods, their ports and the secrets."""
        specs = self.selected(place, namespace, spec["selector"])
        for endpoint in spec["podMetricsEndpoints"]:
            self.named_ports(place, specs, [endpoint["port"]])
            for wanted in (
                endpoint["authorization"]["credentials"],
                endpoint["tlsConfig"]["ca"]["secret"],
            ):
                self.secret(place, wanted["name"], wanted["key"])


def problems(docs, secrets):
    """What does not fit, as sentences."""
    return Checks(docs, secrets).run()
