"""The images of deploy/container: what they hold, and that their programs run in them.
`PLIMSOLL_PROGRAMS` names the folder of the programs.
"""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import unittest

import containers
from containers import capability
from manifests import ROOT

IMAGES = {
    "node": "plimsoll-node",
    "aggregator": "plimsoll-aggregator",
    "profiler": "plimsoll-profiler",
    "cli": "plimsoll",
}
USER = 65532
MIB = 1 << 20
# Of an image without its program: glibc, authorities.
REST_BYTES_MAX = 4 * MIB
IMAGE_BYTES_MAX = 25 * MIB
# Libraries that NVIDIA's libnvidia-ml.so.1 names.
OF_NVML = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}


def loaded(root, program):
    """Paths of the loader and of the libraries of a program, as the loader in the image finds them."""
    loader = next(root.glob("lib*/ld-linux*"))
    command = ["chroot", root, f"/{loader.relative_to(root)}", "--list", program]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    return set(re.findall(r"(/\S+) \(0x", listed.stdout))


class Roots(unittest.TestCase):
    """The assembled roots."""

    @classmethod
    def setUpClass(cls):
        cls.programs = containers.programs()
        folder = tempfile.TemporaryDirectory(prefix="plimsoll-image-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.roots = {
            image: containers.assemble(cls.programs, cls.folder / image, program)
            for image, program in IMAGES.items()
        }

    def test_hold_what_the_program_loads_and_no_shell(self):
        for image, program in IMAGES.items():
            root = self.roots[image]
            paths = {f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()}
            programs = {path for path in paths if path.startswith("/usr/bin/")}
            tools = {"/usr/bin/chown"} if image == "node" else set()
            self.assertEqual(programs, {f"/usr/bin/{program}", *tools})
            libraries = {path for path in paths if ".so" in path}
            needed = set().union(*(loaded(root, path) for path in programs))
            self.assertLessEqual(needed, libraries)
            self.assertLessEqual({os.path.basename(path) for path in libraries - needed}, OF_NVML)
            self.assertLessEqual(OF_NVML, {os.path.basename(path) for path in libraries})
            rest = paths - programs - libraries
            documents = {"/etc/ssl/certs/ca-certificates.crt", "/usr/share/doc/plimsoll/LICENSE"}
            settings = {f"/etc/{name}" for name in ("group", "nsswitch.conf", "passwd")}
            self.assertEqual(rest - {"/etc/debian_version"}, documents | settings)

    def test_nothing_has_privileges_or_can_be_written_by_others(self):
        for root in self.roots.values():
            for path in root.rglob("*"):
                mode = path.lstat().st_mode
                self.assertFalse(mode & (stat.S_ISUID | stat.S_ISGID), path)
                if path != root / "tmp":
                    self.assertFalse(mode & (stat.S_IWGRP | stat.S_IWOTH), path)
            owned = {str(path.relative_to(root)) for path in root.rglob("*") if path.stat().st_uid}
            self.assertEqual(owned, {"run/plimsoll", "var/lib/plimsoll"})
            self.assertEqual((root / "run/plimsoll").stat().st_uid, USER)

    def test_are_small_beside_the_program(self):
        for image, program in IMAGES.items():
            root = self.roots[image]
            sizes = {path: path.lstat().st_size for path in root.rglob("*") if path.is_file()}
            rest = sum(sizes.values()) - sizes[root / "usr/bin" / program]
            self.assertLess(rest, REST_BYTES_MAX, image)

    def test_load_the_library_that_nvidias_runtime_adds(self):
        """A library in the place and with the needs of NVIDIA's."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler is installed")
        root = self.roots["node"]
        libc = next(root.rglob("libc.so.6"))
        place = root / "usr" / libc.parent.relative_to(root)
        place.mkdir(parents=True)
        library = place / "libnvidia-ml.so.1"
        source = self.folder / "nvml.c"
        source.write_text("int nvmlInit_v2(void) { return 0; }\n")
        needs = [f"/{(libc.parent / name).relative_to(root)}" for name in sorted(OF_NVML)]
        link = ["cc", "-shared", "-o", library, source, "-nostdlib", "-Wl,--no-as-needed", *needs]
        subprocess.run(link, check=True)
        try:
            found = {
                os.path.basename(path) for path in loaded(root, f"/{library.relative_to(root)}")
            }
            self.assertLessEqual(OF_NVML, found)
        finally:
            shutil.rmtree(root / "usr/lib")

    def workload(self, program, *args):
        """A pod with one container of an image, and nothing else."""
        container = {
            "name": "it",
            "image": f"{program}:0.1.0",
            "args": list(args),
            "volumeMounts": [{"name": name, "mountPath": path} for name, path in FOLDERS],
            "securityContext": {
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        spec = {
            "securityContext": {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER},
            "containers": [container],
            "volumes": [{"name": name, "emptyDir": {}} for name, _ in FOLDERS],
        }
        return {"metadata": {"namespace": "n"}, "spec": {"template": {"spec": spec}}}

    def test_run_without_privileges_on_a_root_that_cannot_be_written(self):
        capability.require(capability.NAMESPACES)
        with tempfile.TemporaryDirectory(prefix="plimsoll-run-") as folder:
            pathlib.Path(folder).chmod(0o755)
            cluster = containers.Cluster(folder, self.programs, [], [])
            for program in IMAGES.values():
                if program not in cluster.roots:
                    root = pathlib.Path(folder, program)
                    cluster.roots[program] = containers.assemble(self.programs, root, program)
            self.addCleanup(cluster.end)
            for program in IMAGES.values():
                pod = cluster.pod(self.workload(program, "--version"), f"version-of-{program}")
                code, text = pod.run("it")
                self.assertEqual(code, 0, text)
                self.assertTrue(text.startswith(f"{program} "), text)
            with containers.network():
                settings = [
                    "http.health_address=127.0.0.1:9911",
                    "listen.unix=/run/plimsoll/node.sock",
                ]
                settings += ["spool.path=/var/lib/plimsoll", "name=n"]
                args = [arg for setting in settings for arg in ("--set", setting)]
                pod = cluster.pod(self.workload("plimsoll-node", *args), "node")
                child = pod.start("it")
                containers.until("alive", 20, lambda: containers.status(9911, "/healthz") == 200)
                facts = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                self.assertRegex(facts, rf"Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n")
                self.assertRegex(facts, r"CapEff:\t0+\n")
                self.assertEqual(containers.status(9911, "/readyz"), 503)
                # What it holds is in the spool: there is no broker.
                self.assertEqual(pod.end("it"), 0, cluster.logs())

    def test_are_built_by_the_dockerfile(self):
        """Its last stages, on roots that are here: a registry may be out of reach, and a build takes
        many minutes."""
        if shutil.which("buildah") is None:
            self.skipTest("buildah is not installed")
        capability.require(capability.NAMESPACES)
        text = (ROOT / "deploy/container/Dockerfile").read_text()
        build, last = re.fullmatch(
            r"(.*?^FROM \S+ AS build\n.*?)(^FROM scratch .*)", text, re.S | re.M
        ).groups()
        for image, program in IMAGES.items():
            self.assertRegex(build, rf"rootfs target/shipped /{image} {program}(?!\S)")
            package = "plimsoll-cli" if image == "cli" else program
            self.assertRegex(build, rf" -p {package}(?!\S)")
        self.assertIn("--profile shipped --locked", build)
        store = self.folder / "store"
        options = ["--root", store, "--runroot", self.folder / "run", "--storage-driver", "vfs"]

        def buildah(*command):
            run = subprocess.run(
                ["buildah", *options, *command], check=False, capture_output=True, text=True
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout.strip()

        working = buildah("from", "scratch")
        mounted = pathlib.Path(buildah("mount", working))
        for image, root in self.roots.items():
            subprocess.run(["cp", "--archive", root, mounted / image], check=True)
        buildah("commit", "--quiet", working, "localhost/build")
        dockerfile = self.folder / "Dockerfile"
        dockerfile.write_text(f"FROM localhost/build AS build\n{last}")
        for image, program in IMAGES.items():
            tag, archive = f"localhost/{image}", self.folder / f"{image}.tar"
            common = ["--isolation", "chroot", "--pull-never", "--timestamp", "0"]
            buildah(
                "build", *common, "--file", dockerfile, "--target", image, "--tag", tag, self.folder
            )
            config = buildah(
                "inspect", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}", tag
            )
            self.assertEqual(config, f"{USER}:{USER} [/usr/bin/{program}]")
            buildah("push", tag, f"docker-archive:{archive}")
            owners, unpacked, packed = self.layer(archive)
            self.assertEqual(owners["run/plimsoll"], USER)
            self.assertEqual(owners[f"usr/bin/{program}"], 0)
            print(f"image {image}: {unpacked / MIB:.1f} MiB, compressed {packed / MIB:.1f} MiB")
            self.assertLess(packed, IMAGE_BYTES_MAX)
            # Programs that were not built for release are several times as large.
            if self.programs.name == "release":
                self.assertLess(unpacked, IMAGE_BYTES_MAX)

    def layer(self, archive):
        """Owner of each file of an image of one layer, its bytes, and those compressed."""
        with tarfile.open(archive) as outer:
            layers = [
                member for member in outer if member.isfile() and member.name.endswith(".tar")
            ]
            self.assertEqual(len(layers), 1)
            data = outer.extractfile(layers[0])
            with tarfile.open(fileobj=data) as inner:
                members = list(inner)
            data.seek(0)
            packed = subprocess.run(
                ["gzip", "--stdout"], input=data.read(), check=True, capture_output=True
            )
        owners = {member.name: member.uid for member in members}
        return owners, sum(member.size for member in members), len(packed.stdout)


# Folders that a container may write, where a test mounts nothing else.
FOLDERS = (("sockets", "/run/plimsoll"), ("data", "/var/lib/plimsoll"))


if __name__ == "__main__":
    unittest.main()
