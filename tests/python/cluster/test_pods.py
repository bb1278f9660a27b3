"""The pods of deploy/k8s with our programs: from the secrets that `deploy/k8s/secrets` makes to samples at
the aggregator, without Kubernetes. `PLIMSOLL_PROGRAMS` names the folder of the programs.
"""

import contextlib
import copy
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest

import containers
import yaml
from containers import capability, captured, until
from manifests import FOLDER, PROGRAMS, find, kubectl, pods_of, render, render_with
from test_manifests import SECRETS

# As cloud machines are called.
MACHINE = "ip-10-0-0-1.ec2.internal"
# What both example jobs send.
SAMPLES = 200
AGGREGATOR = "plimsoll-aggregator.plimsoll.svc"
# Flags of the operator's command, and what `deploy/k8s/secrets` made for them.
ACCESS = {"ca": "ca.pem", "token": "reader.token"}


class Pods(unittest.TestCase):
    """A cluster of one machine."""

    maxDiff = None
    of_broker = {}
    servers = []

    @classmethod
    def setUpClass(cls):
        cls.programs = containers.programs()
        capability.require(capability.NAMESPACES)
        cls.exits = contextlib.ExitStack()
        cls.addClassCleanup(cls.exits.close)
        folder = cls.exits.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-pods-"))
        cls.folder = pathlib.Path(folder)
        # Users of containers pass through it to the volumes.
        cls.folder.chmod(0o755)
        cls.secrets_folder = cls.folder / "secrets"
        cls.secrets = cls.make_secrets(MACHINE)
        cls.docs = render("base") + render("jobs")
        names = ["nats.plimsoll.svc"]
        cls.cluster = containers.Cluster(folder, cls.programs, cls.docs + cls.secrets, names)
        cls.exits.callback(cls.cluster.end)
        cls.exits.enter_context(containers.network())
        cls.start_broker()
        cls.aggregator = cls.start_aggregator()

    @classmethod
    def make_secrets(cls, *machines):
        command = [FOLDER / "secrets", cls.secrets_folder, "--jobs", "train", *machines]
        names = {"PLIMSOLL": str(cls.programs / "plimsoll"), "KUBECTL": str(kubectl())}
        made = subprocess.run(
            command, env={**os.environ, **names}, check=True, capture_output=True, text=True
        )
        return list(yaml.safe_load_all(made.stdout))

    @classmethod
    def start_broker(cls):
        """As many servers as nats-values.yaml has replicas, with the configuration that the chart makes
        of it, as far as it matters on one machine. The first one has the service's port."""
        values = yaml.safe_load((FOLDER / "nats-values.yaml").read_text())["config"]
        for secret, path in (("nats-tls", "nats-certs/nats"), ("nats-users", "nats-users")):
            files = cls.cluster.data["Secret", "plimsoll", secret]
            cls.of_broker[secret] = containers.Files(cls.folder / "etc" / path, files, 0o644, 0)
        certificates = cls.folder / "etc/nats-certs/nats"
        (cls.folder / "etc/nats-config").mkdir()
        servers = range(values["cluster"]["replicas"])
        routes = ", ".join(f'"nats-route://127.0.0.1:{6222 + number}"' for number in servers)
        for number in servers:
            cls.start_server(
                f"nats-{number}",
                f"port: {4222 + number}\nserver_name: nats-{number}\n"
                f'cluster {{ name: nats, listen: "127.0.0.1:{6222 + number}", routes: [{routes}] }}\n'
                f"jetstream {{ store_dir: {cls.folder}/streams-{number} }}\n"
                f"tls {{ cert_file: {certificates}/tls.crt, key_file: {certificates}/tls.key\n"
                f"timeout: {values['nats']['tls']['merge']['timeout']} }}\n"
                f"include {values['merge']['zz$include']};\n",
            )

    @classmethod
    def start_server(cls, name, settings):
        config = cls.folder / "etc/nats-config" / f"{name}.conf"
        config.write_text(settings)
        program = os.environ.get("PLIMSOLL_NATS_SERVER") or shutil.which(
            "nats-server", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
        )
        with open(cls.folder / f"{name}.log", "wb") as log:
            server = subprocess.Popen([program, "--config", config], stdout=log, stderr=log)
        cls.servers.append(server)
        cls.exits.callback(server.wait)
        cls.exits.callback(server.kill)

    @classmethod
    def start_aggregator(cls):
        workload = find(cls.docs, "StatefulSet", "plimsoll-aggregator")
        pod = cls.cluster.pod(workload, "plimsoll-aggregator-0")
        pod.start("aggregator")
        cls.wait("the aggregator is ready", lambda: containers.status(9910, "/readyz") == 200)
        return pod

    @classmethod
    def wait(cls, what, ready):
        """Waits; an error has the logs."""
        try:
            return until(what, 30, ready)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{cls.cluster.logs()}") from None

    def page(self, path):
        """A page of the aggregator, as a reader with its token and the mesh's authority gets it."""
        context = ssl.create_default_context(cafile=self.secrets_folder / "ca.pem")
        token = (self.secrets_folder / "reader.token").read_text().strip()
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", 9900)) as connection:
            connection.connect = lambda: None
            plain = containers.socket.create_connection(("127.0.0.1", 9900), 10)
            connection.sock = context.wrap_socket(plain, server_hostname=AGGREGATOR)
            headers = {"Authorization": f"Bearer {token}", "Host": f"{AGGREGATOR}:9900"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read()
        if response.status != 200:
            raise ValueError(f"{path}: {response.status} {body!r}")
        return json.loads(body)

    def merged(self, node):
        """The row of a node that has left with all samples of a job merged."""

        def row():
            found = self.page(f"/api/v1/nodes/{node}")["status"]
            left = found["presence"] == "left" and found["samples"]["jobs"] == SAMPLES
            return found if left else None

        found = self.wait(f"{node} has left, and {SAMPLES} samples are merged", row)
        self.assertEqual(found["ledger"]["recorded"], found["ledger"]["merged"])
        return found

    def test_secrets_are_those_that_the_resources_refer_to(self):
        made = {doc["metadata"]["name"]: set(doc["data"]) for doc in self.secrets}
        wanted = {**SECRETS, "plimsoll-node-keys": {f"node-{MACHINE}.nk"}}
        self.assertEqual({name: made[name] for name in wanted}, wanted)

    def test_secrets_stay_when_a_machine_is_added(self):
        after = {doc["metadata"]["name"]: doc["data"] for doc in self.make_secrets(MACHINE, "m-2")}
        for doc in self.secrets:
            name, data = doc["metadata"]["name"], doc["data"]
            if name != "nats-users":
                self.assertEqual(data, {key: after[name][key] for key in data}, name)
        self.assertIn("node-m-2.nk", after["plimsoll-node-keys"])

    def test_every_container_accepts_its_settings(self):
        checked = 0
        for *_, doc, spec in pods_of(self.docs):
            pod = None
            for container in [*spec.get("initContainers", []), *spec["containers"]]:
                program = container["image"].split(":")[0]
                if program not in PROGRAMS or "command" in container:
                    continue
                if pod is None:
                    pod = self.cluster.pod(doc, f"check-{doc['metadata']['name']}", MACHINE)
                    if "initContainers" in spec and doc["kind"] == "DaemonSet":
                        self.assertEqual(pod.run("folders"), (0, ""))
                code, text = pod.run(container["name"], "--check-config")
                self.assertEqual(code, 0, text)
                checked += 1
        self.assertEqual(checked, 3)

    def test_a_setting_that_does_not_exist_is_refused(self):
        pod = self.cluster.pod(find(self.docs, "DaemonSet", "plimsoll-node"), "wrong", MACHINE)
        code, text = pod.run("node", "--set", "bus.ulr=x", "--check-config")
        self.assertEqual(code, 3, text)
        self.assertIn("ulr", text)

    def test_a_job_reaches_the_fleet_through_the_node_of_its_machine(self):
        node = self.cluster.pod(find(self.docs, "DaemonSet", "plimsoll-node"), "node-x1", MACHINE)
        code, text = node.run("folders")
        self.assertEqual((code, text), (0, ""))
        for folder in ("run/plimsoll", "var/lib/plimsoll"):
            self.assertEqual((self.cluster.folder / "machine" / folder).stat().st_uid, 65532)
        node.start("node")
        self.wait("the node is alive", lambda: containers.status(9911, "/healthz") == 200)
        self.wait("the node is ready", lambda: containers.status(9911, "/readyz") == 200)
        job = self.cluster.pod(find(self.docs, "Job", "train-on-machine"), "train-a", MACHINE)
        self.assertEqual(job.start_job("train").wait(30), 0, self.cluster.logs())
        self.assertEqual(node.end("node"), 0, self.cluster.logs())
        self.merged(MACHINE)

    def test_a_node_beside_a_job_proves_its_last_samples(self):
        job = find(self.docs, "Job", "train-with-sidecar")
        pod = self.cluster.pod(job, "train-with-sidecar-x7k2p", MACHINE)
        pod.start("node")
        # What the kubelet waits for before it starts the job.
        self.wait("the node is alive", lambda: containers.status(9911, "/healthz") == 200)
        self.assertEqual(pod.start_job("train").wait(30), 0, self.cluster.logs())
        # At once, as the kubelet does: the open interval has samples.
        self.assertEqual(pod.end("node"), 0, self.cluster.logs())
        row = self.merged("train-with-sidecar-x7k2p")
        labels = {"namespace": "train", "pod": "train-with-sidecar-x7k2p", "machine": MACHINE}
        self.assertEqual(row["labels"], labels)

    def test_the_key_of_a_machine_may_come_after_its_node(self):
        pod = self.cluster.pod(find(self.docs, "DaemonSet", "plimsoll-node"), "node-x9", "m-9")
        self.assertEqual(pod.run("folders"), (0, ""))
        code, text = pod.run("node")
        self.assertEqual(code, 3, text)
        self.assertIn("/etc/plimsoll/keys/node-m-9.nk", text)
        made = {doc["metadata"]["name"]: doc["data"] for doc in self.make_secrets(MACHINE, "m-9")}
        of = lambda name: containers.decoded(made[name])  # noqa: E731
        self.of_broker["nats-users"].replace(of("nats-users"))
        for server in self.servers:
            server.send_signal(signal.SIGHUP)
        pod.files["keys"].replace(of("plimsoll-node-keys"))
        # As the kubelet does when a container has ended.
        pod.start("node")
        self.wait("the node is ready", lambda: containers.status(9911, "/readyz") == 200)
        self.assertEqual(pod.end("node"), 0, self.cluster.logs())

    def test_a_pod_reads_the_machine_as_a_process_outside_does(self):
        """Every sensor of the DaemonSet, as it is and with the machine's root, beside a node that runs without
        a container."""
        workload = find(self.docs, "DaemonSet", "plimsoll-node")
        outside = self.sights(workload, self.start_outside)
        pod = self.sights(workload, lambda pod: pod.start("node"))
        self.assertLess(20, len(outside))
        # What is of the process or the pod itself, and what a node learns while it runs.
        own = ("process_", "sampling_", "cgroup_", "net_", "tcp_", "cpu_frequency_", "cpu_throttled")
        of_machine = lambda sensor: not sensor.startswith(own)  # noqa: E731
        mounts = lambda sensor: sensor.startswith(("disk_", "inodes_"))  # noqa: E731

        # README of deploy/k8s, "Hardware readings in a pod": file systems and the name of the operating system
        # alone are those of the pod.
        of_both = lambda sensor: of_machine(sensor) and not mounts(sensor) and sensor != "machine_info"  # noqa: E731
        self.assertEqual(self.differing(outside, pod, of_both), {})
        self.assertLessEqual({key for key in pod if mounts(key[0])}, outside.keys())

        with_root = copy.deepcopy(workload)
        spec = with_root["spec"]["template"]["spec"]
        spec["volumes"].append({"name": "host", "hostPath": {"path": "/", "type": "Directory"}})
        [node] = spec["containers"]
        node["volumeMounts"].append({"name": "host", "mountPath": "/host", "readOnly": True})
        node["env"].append({"name": "PLIMSOLL_NODE_HARDWARE__ROOT", "value": "/host"})
        pod = self.sights(with_root, lambda pod: pod.start("node"))
        self.assertEqual(self.differing(outside, pod, of_machine), {})

    def start_outside(self, pod):
        """The node of a pod, with its settings, as a process of the machine."""
        settings = (pod.volumes["settings"] / "node.toml").read_text()
        for name in ("secrets", "keys"):
            settings = settings.replace(f"/etc/plimsoll/{name}", str(pod.volumes[name]))
        for folder in ("/run/plimsoll", "/var/lib/plimsoll"):
            settings = settings.replace(folder, str(pod.folder))
        (pod.folder / "node.toml").write_text(settings)
        variables = {
            "PLIMSOLL_NODE_NAME": MACHINE,
            "PLIMSOLL_NODE_BUS__NKEY_SEED_FILE": str(pod.volumes["keys"] / f"node-{MACHINE}.nk"),
        }
        with open(self.cluster.folder / "outside.log", "wb") as log:
            # The broker's name, as in a pod.
            with_names = 'mount --bind "$0" /etc/hosts; exec "$@"'
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", with_names]
            command += [self.cluster.folder / "hosts", self.programs / "plimsoll-node"]
            command += ["--config", pod.folder / "node.toml"]
            pod.children["node"] = subprocess.Popen(
                command, env={**os.environ, **variables}, stdout=log, stderr=log
            )

    def sights(self, workload, start):
        """What a node reads, as far as two nodes on one machine have to agree on it."""
        name = f"node-s{len(self.cluster.pods)}"
        pod = self.cluster.pod(workload, name, MACHINE)
        self.assertEqual(pod.run("folders"), (0, ""))
        since = time.time()
        start(pod)

        def read():
            nodes = self.page("/api/v1/hardware")["nodes"]
            [node] = [node for node in nodes if node["node"] == MACHINE] or [None]
            is_new = node and (node["received_at_seconds"] or 0) > since
            return is_new and dict(map(self.sight, node["readings"]))

        self.wait("its readings have come", read)
        # File systems are asked beside each other; those of the first second may lack one.
        time.sleep(3)
        found = read()
        self.assertEqual(pod.end("node"), 0, self.cluster.logs())
        return found

    @staticmethod
    def sight(reading):
        key = reading["sensor"], tuple(sorted(reading["labels"].items()))
        exact = reading["sensor"] in ("disk_read_only", "disk_total_bytes", "memory_total_bytes")
        return key, (reading["state"], reading["reason"], reading["value"] if exact else None)

    @staticmethod
    def differing(one, other, picked):
        return {
            key: (one.get(key), other.get(key))
            for key in one.keys() | other.keys()
            if one.get(key) != other.get(key) and picked(key[0])
        }

    def test_a_profiler_beside_the_node_reads_whom_it_may(self):
        """The component `captures`, with its user and capabilities: a job of another user and mounts that sends,
        and refused ones. None of them gets a signal."""
        workload = find(render_with("base", "captures"), "DaemonSet", "plimsoll-node")
        pod = self.cluster.pod(workload, "node-captures", MACHINE)
        self.assertEqual(pod.run("folders"), (0, ""))
        pod.start("profiler")
        pod.start("node")
        self.wait("the node is ready", lambda: containers.status(9911, "/readyz") == 200)
        # Of many more threads than 516 KiB for each processor, which need no limit, have room.
        job, number = self.job_to_capture("captured", 1000, threads=4 * os.cpu_count() + 8)
        of_root, _ = self.job_to_capture("of-root", 0)

        self.wait("the node is up", lambda: self.page(f"/api/v1/nodes/{MACHINE}")["status"]["presence"] == "up")
        profile = self.cluster.folder / "native.pb.gz"
        native = ["--job=captured", "--native", f"--output={profile}"]
        self.assertIn("by the profiler", self.order(*native))
        self.assertTrue(captured.native_of(profile).startswith("user and kernel"))
        self.assertIn("planted", self.shown(profile))
        for selected, user in (("--job=of-root", 0), (f"--pid={number}", 1000)):
            refused = f"(process_not_permitted); the process is of user {user}: add it to allow_users"
            self.assertIn(refused, self.order(selected))
        # Kubernetes has no field for it, so the runtime's limit applies: what does not fit is counted.
        pod.end("profiler")
        before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, before[1]))
        pod.start("profiler")
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
        self.assertIn("by the profiler", self.order(*native))
        self.assertRegex(captured.native_of(profile), r"user and kernel, \d+ threads not sampled")
        self.assertIn("planted", self.shown(profile))

        # As a runtime that grants none.
        pod.end("profiler")
        container = next(c for c in pod.spec["containers"] if c["name"] == "profiler")
        container["securityContext"]["capabilities"]["add"] = []
        pod.start("profiler")
        denied = self.order("--job=captured")
        self.assertRegex(denied, r"failed \(denied\).*belongs to user 1000.*containers: cap_add SYS_PTRACE")

        for one in (job, of_root):
            self.assertEqual(one.end("train"), 0, self.cluster.logs())
            self.assertRegex(one.printed("train"), r"^\d+\n\d+ \[\]\n$")
        self.assertEqual(pod.end("node"), 0, self.cluster.logs())

    def job_to_capture(self, name, user, threads=0):
        """A job of a user, and its number on the machine."""
        workload = copy.deepcopy(find(self.docs, "Job", "train-on-machine"))
        spec = workload["spec"]["template"]["spec"]
        spec["securityContext"].update(runAsUser=user, runAsGroup=user)
        spec["containers"][0]["command"] = ["python3", "-c", captured.JOB, name, str(threads)]
        pod = self.cluster.pod(workload, name, MACHINE)
        pod.start_job("train")
        return pod, self.wait("the job runs", lambda: pod.printed("train").strip())

    def order(self, *words):
        """All that the operator's command prints."""
        command = [self.programs / "plimsoll", "profile", "cpu", f"--node={MACHINE}", "--seconds=2", *words]
        command += ["--url=https://localhost:9900", f"--ca-file={self.secrets_folder / 'ca.pem'}"]
        command += [f"--token-file={self.secrets_folder / 'token'}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout + done.stderr

    def shown(self, profile):
        """The table of a profile."""
        command = [self.programs / "plimsoll", "profile", "show", profile]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def test_the_operator_reads_the_pages_over_a_forwarded_port(self):
        files = [f"--{kind}-file={self.secrets_folder / name}" for kind, name in ACCESS.items()]
        command = [
            self.programs / "plimsoll",
            "top",
            "--once",
            "--url",
            "https://localhost:9900",
            *files,
        ]
        shown = subprocess.run(command, check=False, capture_output=True, text=True)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("mesh default", shown.stdout)

    def test_rules_are_read_again_when_their_config_map_changes(self):
        budget = b'[[budget]]\nname = "b"\noperation = "b"\nquantile = 0.5\nlimit = "1s"\nwindow = "1m"\n'
        names = lambda: {row["budget"] for row in self.page("/metrics/summary")["budgets"]}  # noqa: E731
        self.assertNotIn("b", names())
        self.aggregator.files["rules"].replace({"rules.toml": budget})
        self.wait("the budget is there", lambda: "b" in names())


if __name__ == "__main__":
    unittest.main()
