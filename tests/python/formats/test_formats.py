"""Profiles that `plimsoll profile` writes, in the readers of others: speedscope and pprof-format
from npm, Protocol Buffers of Google, Chromium.

    python -m unittest discover --start-directory tests/python/formats

Needs chromium, node, the built programs and `npm ci` in this folder. PLIMSOLL_PROGRAMS is the folder
with the programs, by default target/debug.
"""

import functools
import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from playwright.sync_api import expect, sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PLIMSOLL_PROGRAMS", ROOT / "target/debug"))
# Of Go: `go tool pprof -top -cum` states 2.48 s for main.augment and 1.81 s for sort.partition,
# of 2.6 s in all.
GO = ROOT / "tests/data/pprof/go_cpu.pb.gz"
FORMS = ["svg", "html", "speedscope.json", "trace.json", "folded", "json", "pb.gz"]
HOSTILE = "</script><img src=x onerror=alert(1)>"
# pprof's profile.proto: each message with its fields, their numbers and types.
PROTO = {
    "ValueType": [("type", 1, "int64"), ("unit", 2, "int64")],
    "Label": [("key", 1, "int64"), ("str", 2, "int64")],
    "Sample": [("location_id", 1, "*uint64"), ("value", 2, "*int64"), ("label", 3, "*Label")],
    "Line": [("function_id", 1, "uint64"), ("line", 2, "int64")],
    "Location": [("id", 1, "uint64"), ("line", 4, "*Line")],
    "Function": [("id", 1, "uint64"), ("name", 2, "int64"), ("filename", 4, "int64")],
    "Profile": [
        ("sample_type", 1, "*ValueType"), ("sample", 2, "*Sample"), ("location", 4, "*Location"),
        ("function", 5, "*Function"), ("string_table", 6, "*string"), ("time_nanos", 9, "int64"),
        ("duration_nanos", 10, "int64"), ("period", 12, "int64"),
    ],
}
DECODE = """
const { readFileSync } = require("node:fs");
const { gunzipSync } = require("node:zlib");
const { Profile } = require("pprof-format");
const profile = Profile.decode(gunzipSync(readFileSync(process.argv[1])));
const text = (at) => profile.stringTable.strings[Number(at)];
const names = new Map(profile.function.map((of) => [of.id, text(of.name)]));
const places = new Map(profile.location.map((of) => [of.id, of.line.map((l) => names.get(l.functionId))]));
const totals = {};
for (const { locationId, value } of profile.sample) {
  const seen = new Set(locationId.flatMap((id) => places.get(id)));
  for (const name of seen) totals[name] = (totals[name] ?? 0) + Number(value.at(-1)) / 1e9;
}
console.log(JSON.stringify(totals));
"""


def profile_class():
    """The class of pprof's messages."""
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in PROTO.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            bare = kind.lstrip("*")
            label = kinds.LABEL_REPEATED if kind != bare else kinds.LABEL_OPTIONAL
            of = message.field.add(name=field, number=number, label=label)
            if bare in PROTO:
                of.type, of.type_name = kinds.TYPE_MESSAGE, f".p.{bare}"
            else:
                of.type = getattr(kinds, f"TYPE_{bare.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


PROFILE = profile_class()


def plimsoll(*arguments):
    """The output of `plimsoll profile`."""
    ran = subprocess.run([PROGRAMS / "plimsoll", "profile", *map(str, arguments)], check=True,
                         capture_output=True, text=True)
    return ran.stdout


def wide(path, stacks):
    """A profile of a tree of some 50 000 nodes, with a hostile name."""
    profile = PROFILE(string_table=["", "cpu", "nanoseconds", "a.py", HOSTILE], period=1,
                      duration_nanos=10**9)
    profile.sample_type.add(type=1, unit=2)
    for number in range(1, 2 * stacks + 30):
        name = 4 if number == 1 else len(profile.string_table)
        profile.string_table.extend([] if number == 1 else [f"function_{number}"])
        profile.function.add(id=number, name=name, filename=3)
        profile.location.add(id=number).line.add(function_id=number, line=number)
    for stack in range(stacks):
        # Root last; half of each stack is its own.
        own = [30 + stack] * 8
        profile.sample.add(location_id=[*own, *range(1 + stack % 20, 0, -1)], value=[1 + stack % 9])
    path.write_bytes(gzip.compress(profile.SerializeToString()))


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    def log_message(self, *_):
        pass


class Formats(unittest.TestCase):
    """Each form of one profile."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for form in FORMS:
            plimsoll("show", GO, "-o", cls.folder / f"go.{form}", "--top", "1000")
        # Viewer and files on one origin.
        os.symlink(HERE / "node_modules/speedscope/dist/release", cls.folder / "speedscope")
        handler = functools.partial(Quiet, directory=cls.folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        cls.url = f"http://127.0.0.1:{server.server_port}"

        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                                 args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)
        cls.summary = json.loads((cls.folder / "go.json").read_text())
        cls.totals = {of["name"]: of["cumulative_seconds"] for of in cls.summary["top_functions"]}

    def page(self):
        """A page whose errors and requests are kept."""
        page = self.browser.new_page(viewport={"width": 1200, "height": 900})
        self.addCleanup(page.close)
        page.errors, page.requests = [], []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda of: page.errors.append(of.text) if of.type == "error" else None)
        page.on("request", lambda of: page.requests.append(of.url))
        page.on("dialog", lambda of: page.errors.append(of.message) or of.dismiss())
        return page

    def test_the_summary_has_the_figures_of_go(self):
        self.assertEqual(round(self.totals["main.augment"], 2), 2.48)
        self.assertEqual(round(self.summary["total_seconds"], 2), 2.6)

    def test_pprof_format_decodes_our_pprof(self):
        decoded = subprocess.run(["node", "-e", DECODE, self.folder / "go.pb.gz"], check=True,
                                 capture_output=True, text=True, cwd=HERE)
        totals = json.loads(decoded.stdout)
        self.assertEqual(totals.keys(), self.totals.keys())
        for name, seconds in totals.items():
            self.assertAlmostEqual(seconds, self.totals[name], 9, name)

    def test_protobuf_decodes_our_pprof(self):
        profile = PROFILE()
        profile.ParseFromString(gzip.decompress((self.folder / "go.pb.gz").read_bytes()))
        whole = sum(sample.value[-1] for sample in profile.sample)
        self.assertEqual(whole / 1e9, self.summary["total_seconds"])
        kinds = [profile.string_table[of.type] for of in profile.sample_type]
        self.assertEqual(kinds, ["samples", "cpu"])

    def test_speedscope_imports_speedscope_pprof_and_traces(self):
        for form in ["speedscope.json", "pb.gz", "trace.json"]:
            with self.subTest(form):
                page = self.page()
                file = urllib.parse.quote(f"{self.url}/go.{form}", safe="")
                page.goto(f"{self.url}/speedscope/index.html#profileURL={file}")
                expect(page).to_have_title(re.compile(".+ - speedscope"), timeout=15_000)
                page.keyboard.press("3")
                rows = page.get_by_role("row").filter(has_text="sort.partition")
                expect(rows.first).to_be_visible()
                # Of events of a trace it makes one row for each line of a function.
                totals = [re.match(r"([\d.]+)(m?)s", text) for text in rows.all_inner_texts()]
                seconds = sum(float(of[1]) / (1_000 if of[2] else 1) for of in totals)
                self.assertAlmostEqual(seconds, self.totals["sort.partition"], 2)
                self.assertEqual(page.errors, [])

    def test_the_trace_has_each_function_within_its_thread(self):
        page = self.page()
        page.goto(self.url)
        trace = page.evaluate("fetch('/go.trace.json').then((of) => of.json())")
        events = trace["traceEvents"]
        self.assertIn("positions no instants", trace["otherData"]["layout"])
        threads = {of["tid"]: of["args"]["name"] for of in events if of["name"] == "thread_name"}
        self.assertIn("loader, rank 3", threads.values())
        complete = [of for of in events if of["ph"] == "X"]
        names = {of["name"] for of in complete}
        self.assertEqual(names, self.totals.keys())
        for event in complete:
            self.assertTrue(event["dur"] > 0 and event["ts"] >= 0 and event["tid"] in threads)

    def test_chromium_draws_the_picture(self):
        page = self.page()
        page.goto(f"file://{self.folder}/go.svg")
        page.locator(".frame", has_text="main.augment").first.click()
        self.assertGreater(page.locator(".frame.above").count(), 0)
        self.assertEqual((page.errors, len(page.requests)), ([], 1))

    def test_the_page_zooms_searches_and_needs_nothing_else(self):
        page = self.page()
        page.goto(f"file://{self.folder}/go.html")
        canvas, status = page.locator("canvas"), page.locator("#status")
        page.locator("button.find", has_text="main.augment").first.click()
        expect(status).to_contain_text("1 found, 95.4 %")
        page.keyboard.press("Escape")
        expect(status).to_contain_text("click or Enter")

        # The root is at the bottom of a flame graph, and on top of an icicle graph.
        box = canvas.bounding_box()
        below = {"x": 20, "y": box["height"] - 9}
        canvas.hover(position=below)
        expect(status).to_contain_text("all: 2.6 s (100.00 %), self 0 s")
        page.locator("#flip").click()
        canvas.hover(position={"x": 20, "y": 9})
        expect(status).to_contain_text("all: 2.6 s")
        canvas.press("ArrowDown")
        canvas.press("ArrowDown")
        canvas.press("Enter")
        canvas.hover(position={"x": 1000, "y": 27})
        expect(status).not_to_contain_text("all:")
        for colour in ["share", "module"]:
            page.locator("#colour").select_option(colour)
        page.locator("button.sort", has_text="self").click()
        first = page.locator("tbody tr").first
        expect(first).to_contain_text("sort.partition")
        self.assertEqual((page.errors, len(page.requests)), ([], 1))

    def test_a_large_page_answers_within_200_ms_and_runs_no_name(self):
        source = self.folder / "wide.pb.gz"
        wide(source, 6_000)
        plimsoll("show", source, "-o", self.folder / "wide.html")
        page = self.page()
        page.goto(f"file://{self.folder}/wide.html")
        self.assertGreater(page.evaluate("JSON.parse(data.textContent).name.length"), 45_000)
        timed = """(work) => {
          const times = [];
          for (let round = 0; round < 5; round += 1) {
            const start = performance.now();
            eval(work);
            flame.getContext("2d").getImageData(0, 0, 1, 1);
            times.push(performance.now() - start);
          }
          return Math.min(...times);
        }"""
        box = "flame.getBoundingClientRect()"
        click = f"""const b = {box};
          flame.dispatchEvent(new MouseEvent("click", {{clientX: b.x + b.width / 3,
            clientY: b.y + b.height - 27}}));"""
        input_event = "document.getElementById('search').dispatchEvent(new Event('input'))"
        work = {
            "zoom": click,
            "search": f"document.getElementById('search').value = 'function_1'; {input_event}",
            "reset": "document.getElementById('reset').click()",
            "flip": "document.getElementById('flip').click()",
            "move": click.replace("click", "mousemove"),
        }
        for name, steps in work.items():
            took = page.evaluate(timed, steps)
            print(f"{name}: {took:.1f} ms")
            self.assertLess(took, 200, name)
        self.assertEqual((page.errors, len(page.requests)), ([], 1))


if __name__ == "__main__":
    unittest.main()
