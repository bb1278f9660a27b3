"""Spans of the Python client in TensorBoard, by hand: its packages take 271 MB, too many for the gate.

    python -m venv tb && tb/bin/pip install tensorboard==2.21.0 torch-tb-profiler==0.4.3 pandas 'setuptools<81'
    tb/bin/python tests/python/formats/tensorboard_by_hand.py

Writes a trace as `export_trace` names it for TensorBoard, and reads it from the answers of the plugin.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "node/client-python"))
os.environ["PLIMSOLL_ENABLE"] = os.environ["PLIMSOLL_ENABLE_TIMERS"] = "1"
import plimsoll  # noqa: E402

PORT = 16006
PLUGIN = f"http://127.0.0.1:{PORT}/data/plugin/pytorch_profiler"


def answer(path):
    """What TensorBoard answers, once it has read the folder."""
    for _ in range(60):
        try:
            with urllib.request.urlopen(PLUGIN + path) as found:
                text = found.read()
        except OSError:
            text = b"{}"
        body = json.loads(gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text)
        if body and not (isinstance(body, dict) and body.get("runs") == []):
            return body
        time.sleep(1)
    sys.exit(f"TensorBoard has no {path}")


with tempfile.TemporaryDirectory() as folder:
    plimsoll.trace(seconds=60)
    with plimsoll.step("train") as step:
        with step.phase("input"), plimsoll.timer("read"):
            time.sleep(0.01)
    run = pathlib.Path(folder, "run1")
    run.mkdir()
    plimsoll.export_trace(run / "worker0.pt.trace.json.gz")

    program = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(PORT)]
    board = subprocess.Popen([*program, "--host", "127.0.0.1"], stderr=subprocess.DEVNULL)
    try:
        print(answer("/runs"), answer("/workers?run=run1&view=Trace"))
        events = answer("/trace?run=run1&worker=worker0&span=default")["traceEvents"]
    finally:
        board.terminate()
        board.wait()
names = {event["name"] for event in events if event["ph"] == "X"}
print("spans:", sorted(names))
assert {"train", "train.input", "read"} <= names, names
