"""Other agents: installs them from packages and starts each with a configuration of its own.

All flush once a second, as the node does, and write nowhere, so that no disk counts in their cost. An
agent that cannot be installed is left out, with the reason; installed ones stay.
"""

import re
import shutil
import socket
import subprocess
from pathlib import Path

from speed.process import Failed, Process, free_port, output, progress
from speed.programs import ROOT, Server, answers, bound

STATSD = "statsd@0.9.0"

NETDATA = """
[global]
    run as user = {user}
[directories]
    config = {folder}
    stock config = {folder}
    plugins = {folder}
    cache = {folder}
    lib = {folder}
    log = {folder}
[db]
    mode = ram
[web]
    mode = none
[health]
    enabled = no
[ml]
    enabled = no
[plugins]
    enable running new plugins = no
    cgroups = no
    diskspace = no
    idlejitter = no
    netdata monitoring = no
    netdata monitoring extended = no
    proc = no
    slabinfo = no
    tc = no
    timex = no
    statsd = yes
[statsd]
    bind to = udp:127.0.0.1:{port}
"""

COLLECTD = """
Hostname "speed"
FQDNLookup false
BaseDir "{folder}"
PIDFile "{folder}/collectd.pid"
Interval 1
LoadPlugin statsd
<Plugin statsd>
  Host "127.0.0.1"
  Port "{port}"
  TimerCount true
  TimerPercentile 50
  TimerPercentile 99
</Plugin>
"""

ETSY = """{{
  address: "127.0.0.1", port: {port}, mgmt_address: "127.0.0.1", mgmt_port: {management},
  backends: [], flushInterval: 1000, percentThreshold: [50, 99]
}}
"""


def find(program):
    """A program, also in directories that are on root's PATH only."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")


def need(program, package, service=None):
    """The path of a program, whose Debian package is installed first where it is missing."""
    found = find(program)
    if found:
        return found
    if not shutil.which("apt-get"):
        raise Failed(f"{program} is missing and there is no apt-get")
    script = 'source deploy/packages.sh && install_packages "$0" && stop_service "$1"'
    command = ["bash", "-c", script, package, service or package]
    done = subprocess.run(command, cwd=ROOT, stdout=2, stdin=subprocess.DEVNULL)
    found = find(program)
    if done.returncode != 0 or not found:
        raise Failed(f"the package {package} could not be installed")
    return found


def netdata(stack, folder, _cache):
    program = need("netdata", "netdata-core", "netdata")
    folder = own(folder, "netdata")
    port, config = free_port(), folder / "netdata.conf"
    user = output(["id", "-un"]).strip()
    config.write_text(NETDATA.format(folder=folder, port=port, user=user))
    process = Process(stack, folder / "netdata.out", [program, "-D", "-c", str(config)])
    server = bound(Server("Netdata", process, f"127.0.0.1:{port}", port))
    server.version = output([program, "-v"]).split()[1].lstrip("v")
    return server


def collectd(stack, folder, _cache):
    program = need("collectd", "collectd-core", "collectd")
    folder = own(folder, "collectd")
    port, config = free_port(), folder / "collectd.conf"
    config.write_text(COLLECTD.format(folder=folder, port=port))
    process = Process(stack, folder / "collectd.out", [program, "-f", "-C", str(config)])
    server = bound(Server("collectd", process, f"127.0.0.1:{port}", port))
    # Only its help contains the version, and ends with exit code 0.
    found = re.search(r"collectd (\d+(?:\.\d+)+)", output([program, "-h"]))
    server.version = found[1] if found else ""
    return server


def etsy(stack, folder, cache):
    node = find("node")
    npm = find("npm")
    if not node or not npm:
        raise Failed("there is no Node.js with npm")
    script = cache / "npm/node_modules/statsd/stats.js"
    if not script.exists():
        progress(f"installing {STATSD} from npm")
        flags = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"]
        install = [npm, "install", "--prefix", str(cache / "npm"), *flags, STATSD]
        output(install, timeout=180)
    folder = own(folder, "etsy")
    port, config = free_port(), folder / "statsd.js"
    config.write_text(ETSY.format(port=port, management=free_port(socket.SOCK_STREAM)))
    process = Process(stack, folder / "statsd.out", [node, str(script), str(config)])
    server = bound(Server("etsy statsd", process, f"127.0.0.1:{port}", port))
    server.version = STATSD.partition("@")[2]
    return server


def node_exporter(stack, folder, flags=()):
    """node_exporter, the address to scrape, and its version."""
    program = need("prometheus-node-exporter", "prometheus-node-exporter")
    port = free_port(socket.SOCK_STREAM)
    command = [program, f"--web.listen-address=127.0.0.1:{port}", *flags]
    process = Process(stack, folder / "node_exporter.log", command)
    url = f"http://127.0.0.1:{port}/metrics"
    process.wait_until(lambda: answers(url))
    printed = subprocess.run([program, "--version"], capture_output=True, text=True)
    words = (printed.stdout + printed.stderr).split()
    version = words[words.index("version") + 1] if "version" in words else ""
    return process, url, version


def python(cache, wanted):
    """A Python interpreter that has these packages of PyPI, each with a module of its own, and
    their versions."""
    folder = cache / "venv"
    program = folder / "bin/python"
    if not program.exists():
        output(["python3", "-m", "venv", "--clear", str(folder)])
    if not imports(program, wanted.values()):
        progress(f"installing {', '.join(wanted)} from PyPI")
        pip = [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        output([*pip, *wanted], timeout=180)
    program_text = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"
    versions = output([str(program), "-c", program_text, *wanted]).split()
    return str(program), dict(zip(wanted, versions))


def imports(program, modules):
    """Whether this interpreter has these modules."""
    command = [str(program), "-c", f"import {', '.join(modules)}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def rotel(stack, folder, cache):
    """Rotel, a collector of OpenTelemetry, which takes OTLP and drops it; its addresses."""
    _, versions = python(cache, {"rotel": "rotel"})
    program = next((cache / "venv").glob("lib/python*/site-packages/rotel/rotel-agent"), None)
    if program is None:
        raise Failed("the package rotel has no agent")
    folder = own(folder, "rotel")
    http, grpc = (f"127.0.0.1:{free_port(socket.SOCK_STREAM)}" for _ in range(2))
    command = [str(program), "start", "--exporter", "blackhole"]
    command += ["--otlp-http-endpoint", http, "--otlp-grpc-endpoint", grpc]
    command += ["--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")]
    process = Process(stack, folder / "rotel.out", command)
    process.wait_until(lambda: all(listens(address) for address in (http, grpc)))
    return process, {"http": http, "json": http, "grpc": grpc}, versions["rotel"]


def listens(address):
    """Whether this address accepts connections."""
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), 1):
            return True
    except OSError:
        return False


def own(folder, name) -> Path:
    made = folder / name
    made.mkdir()
    return made


def start(stack, folder, cache):
    """Every StatsD server that is available, and the reason for each that is not."""
    servers, skipped = [], {}
    for name, begin in (("Netdata", netdata), ("collectd", collectd), ("etsy statsd", etsy)):
        try:
            servers.append(begin(stack, folder, cache))
        except Failed as why:
            progress(f"without {name}: {why}")
            skipped[name] = str(why)
    return servers, skipped
