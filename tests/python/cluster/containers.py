"""Runs containers without Kubernetes, set up as a kubelet and its runtime set them up: a root that cannot
be written, volumes, user, groups, capabilities, variables of the cluster. Not the same: all share one
network and one table of processes, and no seccomp profile applies. Needs root.
"""

import base64
import contextlib
import ctypes
import fcntl
import http.client
import itertools
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from manifests import ROOT, containers_of

sys.path.append(str(ROOT / "tests/python"))

import capability  # noqa: E402
import captured  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
# From linux/sched.h, linux/mount.h, linux/prctl.h and linux/capability.h.
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITIES = {"CHOWN": 0, "SYS_PTRACE": 19, "PERFMON": 38}
# Owner of what the kubelet makes.
KUBELET = 0


def system(call, *args):
    """A system call; an OSError if it fails."""
    args = [arg.encode() if isinstance(arg, str) else arg for arg in args]
    if getattr(LIBC, call)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call} {args}: {os.strerror(number)}")


def decoded(data):
    """The files of a Secret."""
    return {name: base64.b64decode(text) for name, text in data.items()}


def programs():
    """The folder with our programs; without one, or where no image can be assembled, the test is skipped."""
    found = os.environ.get("PLIMSOLL_PROGRAMS")
    if not found:
        raise unittest.SkipTest("PLIMSOLL_PROGRAMS names no folder with programs")
    capability.require(capability.OTHER_USERS)
    return pathlib.Path(found)


def assemble(binaries, out, program):
    """The root of an image, as Dockerfile makes it."""
    subprocess.run([ROOT / "deploy/container/rootfs", binaries, out, program], check=True)
    return out


@contextlib.contextmanager
def network():
    """A network of its own for this thread and what it starts, so that ports are free."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        system("unshare", CLONE_NEWNET)
        with socket.socket() as any_socket:
            # SIOCSIFFLAGS, IFF_UP: loopback is down at first.
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))
        yield
    finally:
        system("setns", before, CLONE_NEWNET)
        os.close(before)


def until(what, seconds, ready):
    """The first true answer of `ready`; an error names what did not come in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if found := ready():
                return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def status(port, path):
    """The status of a probe."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


class Files:
    """Files of a ConfigMap or Secret: links into a folder that is exchanged as a whole."""

    def __init__(self, folder, files, mode, group):
        self.folder, self.mode, self.group = folder, mode, group
        self.versions = itertools.count()
        folder.mkdir(parents=True)
        self.replace(files)

    def replace(self, files):
        """The next version of all files."""
        version = self.folder / f"..{next(self.versions)}"
        version.mkdir()
        for name, content in files.items():
            path = version / name
            path.write_bytes(content)
            path.chmod(self.mode)
            os.chown(path, KUBELET, self.group)
        link = self.folder / "..next"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")


class Pod:
    """One pod of a workload: its volumes, and containers that end with it."""

    def __init__(self, cluster, workload, name, machine="m-1"):
        self.spec = workload["spec"]["template"]["spec"]
        self.cluster, self.name = cluster, name
        namespace = workload["metadata"]["namespace"]
        self.facts = {
            "metadata.name": name,
            "metadata.namespace": namespace,
            "spec.nodeName": machine,
        }
        self.context = self.spec["securityContext"]
        self.folder = cluster.folder / "pods" / name
        self.volumes, self.files, self.children = {}, {}, {}
        claims = workload["spec"].get("volumeClaimTemplates", [])
        for volume in self.spec["volumes"]:
            self.volumes[volume["name"]] = self.volume(volume, namespace)
        for claim in claims:
            self.volumes[claim["metadata"]["name"]] = self.claim(claim["metadata"]["name"])

    def group(self):
        """The group that volumes get."""
        return self.context.get("fsGroup", 0)

    def volume(self, volume, namespace):
        """The folder of a volume."""
        folder = self.folder / "volumes" / volume["name"]
        if volume.get("hostPath", {}).get("path") == "/":
            folder = pathlib.Path("/")
        elif path := volume.get("hostPath"):
            folder = self.cluster.folder / "machine" / path["path"].strip("/")
            if path["type"] == "DirectoryOrCreate":
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            assert folder.is_dir(), f"{path['path']} is not on the machine"
        elif "emptyDir" in volume:
            folder.mkdir(parents=True)
            os.chown(folder, KUBELET, self.group())
            folder.chmod(0o2777)
        else:
            source = volume.get("configMap") or volume["secret"]
            kind = "ConfigMap" if "configMap" in volume else "Secret"
            name = source.get("name") or source["secretName"]
            files = self.cluster.data[kind, namespace, name]
            mode = source.get("defaultMode", 0o644)
            # With fsGroup the group may read.
            mode |= 0o440 if self.group() else 0
            self.files[volume["name"]] = Files(folder, files, mode, self.group())
        return folder

    def claim(self, name):
        """The folder of a claimed volume, which outlives the pod."""
        folder = self.cluster.folder / "claims" / f"{name}-{self.name}"
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, KUBELET, self.group())
        folder.chmod(0o2775)
        return folder

    def variables(self, container):
        """The environment of a container."""
        known = {"PATH": "/usr/bin", "HOSTNAME": self.name}
        for variable in container.get("env", []):
            value = variable.get("value")
            if value is None:
                value = self.facts[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for name, content in known.items():
                value = value.replace(f"$({name})", content)
            known[variable["name"]] = value
        return known

    def run(self, name, *more):
        """Runs a container of our images until it ends: exit code and output. `more` follows its
        arguments."""
        with tempfile.TemporaryFile() as log:
            code = self.start(name, *more, log=log).wait(30)
            log.seek(0)
            return code, log.read().decode()

    def start(self, name, *more, log=None):
        """Starts a container of our images."""
        container = next(c for c in containers_of(self.spec) if c["name"] == name)
        program = container["image"].rsplit("/", 1)[-1].split(":")[0]
        root = self.cluster.roots[program]
        command = container.get("command", [f"/usr/bin/{program}"]) + container.get("args", [])
        mounts = [("/proc", "/proc", False), ("/dev", "/dev", False), ("/sys", "/sys", True)]
        mounts.append((self.cluster.folder / "hosts", "/etc/hosts", True))
        mounts += self.mounts(container)
        for source, path, _ in mounts:
            inside = root / path.strip("/")
            if pathlib.Path(source).is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            else:
                inside.touch()
        return self.enter(name, container, [*command, *more], root, mounts, log)

    def start_job(self, name):
        """Starts a container of someone else's image, here with the programs of this machine."""
        container = next(c for c in containers_of(self.spec) if c["name"] == name)
        command = ["/usr/bin/python3", *container["command"][1:]]
        return self.enter(name, container, command, None, self.mounts(container), None)

    def mounts(self, container):
        """Folder, path and whether it may only be read, of a container's volumes."""
        return [
            (self.volumes[mount["name"]], mount["mountPath"], mount.get("readOnly", False))
            for mount in container.get("volumeMounts", [])
        ]

    def enter(self, name, container, command, root, mounts, log):
        """Starts a process with its own mounts, user and capabilities."""
        context = {**self.context, **container["securityContext"]}
        kept = [CAPABILITIES[added] for added in context["capabilities"].get("add", [])]
        assert context["readOnlyRootFilesystem"] and context["capabilities"]["drop"] == ["ALL"]
        groups = [context["fsGroup"]] if "fsGroup" in context else []
        user, group = context["runAsUser"], context.get("runAsGroup", 0)

        def become():
            system("unshare", CLONE_NEWNS)
            system("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
            base = str(root or "")
            if root:
                system("mount", base, base, None, MS_BIND | MS_REC, None)
            else:
                system("mount", "none", "/run", "tmpfs", 0, None)
            for source, path, only_read in mounts:
                inside = base + path
                if root is None:
                    os.makedirs(inside)
                system("mount", str(source), inside, None, MS_BIND | MS_REC, None)
                if only_read:
                    system("mount", None, inside, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None)
            if root:
                system("mount", None, base, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None)
                os.chroot(base)
            os.chdir("/")
            for capability in set(range(64)) - set(kept):
                # Above the kernel's last one this fails.
                LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
            os.setgroups(groups)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            system("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

        output = log or open(self.cluster.folder / f"{self.name}-{name}.log", "ab")
        with contextlib.ExitStack() as stack:
            if log is None:
                stack.enter_context(output)
            child = subprocess.Popen(
                command,
                env=self.variables(container),
                preexec_fn=become,
                stdout=output,
                stderr=output,
            )
        self.children[name] = child
        return child

    def printed(self, name):
        """What a container has printed."""
        return (self.cluster.folder / f"{self.name}-{name}.log").read_text()

    def end(self, name):
        """Ends a container as a kubelet does; its exit code."""
        child = self.children.pop(name)
        child.terminate()
        try:
            return child.wait(self.spec.get("terminationGracePeriodSeconds", 30))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise

    def kill(self):
        """Ends all that still runs."""
        for child in self.children.values():
            child.kill()
            child.wait()
        self.children = {}


class Cluster:
    """Roots of the images, and the data of ConfigMaps and Secrets, in one folder."""

    def __init__(self, folder, binaries, docs, names):
        self.folder = pathlib.Path(folder)
        self.pods = []
        self.roots = {
            program: assemble(binaries, self.folder / program, program)
            for program in ("plimsoll-node", "plimsoll-aggregator", "plimsoll-profiler")
        }
        self.data = {}
        for doc in docs:
            key = doc["kind"], doc["metadata"].get("namespace"), doc["metadata"]["name"]
            if doc["kind"] == "ConfigMap":
                self.data[key] = {name: text.encode() for name, text in doc["data"].items()}
            elif doc["kind"] == "Secret":
                self.data[key] = decoded(doc["data"])
        (self.folder / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in names))

    def pod(self, *args, **named):
        """A pod that ends with the cluster."""
        self.pods.append(Pod(self, *args, **named))
        return self.pods[-1]

    def logs(self):
        """What all containers have printed."""
        texts = (f"{path.name}:\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(texts))

    def end(self):
        """Ends all pods."""
        for pod in self.pods:
            pod.kill()
