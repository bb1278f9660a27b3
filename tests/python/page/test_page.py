"""The page at `/` in Chromium, on a real mesh: every view, live updates, the past by link, alerts
with evidence, changes with the token, hostile names, the keyboard, axe-core, and that page and API
agree.

    python -m unittest discover --start-directory tests/python/page

Needs chromium, the built programs and `npm ci` in aggregator/page (for axe-core). Environment:
PLIMSOLL_PROGRAMS is the folder with the programs, by default target/debug; PLIMSOLL_SHOTS a folder
for screenshots, by default none.
"""

import contextlib
import csv
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from random import Random

from playwright.sync_api import expect, sync_playwright

from fake_api import FakeApi
from mesh import TOKEN, Mesh, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = pathlib.Path(os.environ.get("PLIMSOLL_PROGRAMS", ROOT / "target/debug"))
SHOTS = os.environ.get("PLIMSOLL_SHOTS")
AXE = ROOT / "aggregator/page/node_modules/axe-core/axe.min.js"
# After the end of a slot its last samples have arrived.
SETTLE_SECONDS = 8
# A slow machine needs longer than Playwright's five seconds.
expect.set_options(timeout=15_000)

# As long as a name of an operation may be.
LONG = "o" * 128
HOSTILE = "<img/src=x/onerror=alert(1)>"
VIEWS = {
    "budgets": "?",
    "latency": "?view=latency&operation=epoch_hook&last=5m",
    "nodes": "?view=nodes&group=rack",
    "node": "?view=node&node=node-2&last=5m",
    "resources": "?view=resources&resource=memory&last=5m",
    "backpressure": "?view=backpressure",
    "alerts": "?view=alerts",
    "alert": "?view=alert&rule=epoch_hook&node=node-2&operation=epoch_hook",
    "runbook": "?view=runbook",
    "runs": "?view=runs",
    "run": "?view=run&run=train-v42",
    "compare": "?view=compare&a=train-v41&b=train-v42",
    "profiles": "?view=profiles",
    "drills": "?view=drills",
}
DRILL = {
    "drill": "latency",
    "version": "0.1.0",
    "passed": False,
    "seconds": 41.5,
    "expectations": [
        {"name": "fires", "expected": "<b>in 5 s</b>", "seen": "2.1 s", "took_seconds": 2.1,
         "verdict": "met"},
        {"name": "resolves", "expected": "in 9 s", "seen": "nothing", "took_seconds": 9,
         "verdict": "missed"},
    ],
    "notifications": [],
}


class Feed(threading.Thread):
    """Jobs: node-2 is slow, and an operation has the longest name that there may be."""

    def __init__(self, mesh):
        super().__init__(daemon=True)
        self.mesh, self.run_name, self.ended = mesh, "train-v41", threading.Event()

    def run(self):
        while not self.ended.wait(0.25):
            tags = f"|#run:{self.run_name}"
            for node in list(self.mesh.sockets):
                slow = 45 if node == "node-2" else 10
                with contextlib.suppress(OSError):
                    self.mesh.latencies(node, "epoch_hook", slow, 20, tags)
                    self.mesh.latencies(node, "kernel_fetch", 4, 20, tags)
                    self.mesh.send(node, f"{LONG}:3|ms", "checkpoint:90|ms")


class OnMesh(unittest.TestCase):
    """One mesh and one browser for all tests of a class; each test has a context of its own."""

    @classmethod
    def setUpClass(cls):
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        folder = cls.cleanup.enter_context(tempfile.TemporaryDirectory())
        cls.mesh = cls.cleanup.enter_context(Mesh(PROGRAMS, folder))
        for name, rack in (("node-1", "r1"), ("node-2", "r1"), ("node-3", "r2")):
            cls.mesh.start_node(name, [f"rack={rack}"])
        cls.feed = Feed(cls.mesh)
        cls.feed.start()
        cls.cleanup.callback(cls.feed.join)
        cls.cleanup.callback(cls.feed.ended.set)
        playwright = cls.cleanup.enter_context(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        cls.browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        cls.cleanup.callback(cls.browser.close)

    @classmethod
    def alert(cls, rule, node):
        """A firing alert of a node."""
        alerts = cls.mesh.get(f"/api/v1/alerts?rule={rule}&state=firing")["alerts"]
        return next((of for of in alerts if of["scope"] == {"node": node}), None)

    def open(self, where, ready="h1", before=None, **options):
        """A page in a context of its own. What goes wrong in it fails the test."""
        options = {"viewport": {"width": 1360, "height": 900}, **options}
        context = self.browser.new_context(**options)
        self.addCleanup(context.close)
        page = context.new_page()
        self.wrong = []
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("console", lambda line: line.type == "error" and self.wrong.append(line.text))
        page.on("request", lambda request: self.check_origin(request.url))
        if before:
            before(context, page)
        page.goto(self.mesh.url + "/" + where)
        page.wait_for_selector(ready)
        return page

    def check_origin(self, url):
        if not url.startswith((self.mesh.url, "data:", "blob:")):
            self.wrong.append(f"request to {url}")

    def shot(self, page, name):
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


class Glance(OnMesh):
    """What the gate looks at. `AllViews` has the rest, and takes minutes."""

    def test_first_views_are_live_accessible_and_agree_with_the_api(self):
        until("node-2's alert fires", 60, lambda: self.alert("epoch_hook", "node-2"))
        # The policy of the page would not let axe-core in.
        page = self.open("?", ".card", bypass_csp=True)
        merged = page.locator(".fleet a", has_text="samples merged").locator("data").first
        first = int(merged.get_attribute("value"))
        until("more samples", 20, lambda: int(merged.get_attribute("value")) > first + 20)

        if AXE.exists():
            page.add_script_tag(path=AXE)
            found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
            self.assertEqual([of["id"] for of in found["violations"]], [])
        page.goto(self.mesh.url + "/" + VIEWS["alert"])
        expect(page.locator("h1")).to_contain_text("epoch_hook")
        page.goto(self.mesh.url + "/?view=nodes")
        expect(page.get_by_role("link", name="node-2", exact=True).first).to_be_visible()
        self.assertEqual(self.wrong, [])

    def test_names_from_outside_are_text(self):
        page = self.open(f"?view=node&node={HOSTILE}", "h1, .problem")
        self.assertEqual(page.locator("main img, main script").count(), 0)
        page.goto(f"{self.mesh.url}/?view=latency&operation={LONG}&last=5m")
        expect(page.locator("h1")).to_have_text(f"Latency of {LONG}")
        errors = [line for line in self.wrong if not line.startswith("Failed to load resource")]
        self.assertEqual(errors, [])

    def test_figures_of_the_past_equal_those_of_the_api(self):
        # A slot of ten seconds has ended, and its last samples have arrived.
        begin = int(time.time()) // 10 * 10
        until("a slot ends", 30, lambda: time.time() > begin + 10 + SETTLE_SECONDS)
        query = f"operation=epoch_hook&from={begin}&to={begin + 10}&step=10s&quantiles=0.5,0.9,0.99"
        [point] = self.mesh.get(f"/api/v1/query?{query}")["points"]
        link = f"?view=latency&operation=epoch_hook&from={begin * 1000}&to={(begin + 10) * 1000}"
        page = self.open(link, ".readout")
        page.get_by_text("Table", exact=True).click()
        row = page.locator(".figures tbody tr").first
        # A list of elements is of those that are there; the table is drawn after the click.
        expect(row.locator("data").last).to_be_visible()
        shown = [float(cell.get_attribute("value")) for cell in row.locator("data").all()]
        wanted = [point["count"], *(of["value"] for of in point["quantiles"]), point["max"]]
        self.assertEqual(shown, wanted)
        self.assertGreater(point["count"], 0)
        self.assertEqual(self.wrong, [])


class GlanceAtSilence(unittest.TestCase):
    """What the page shows of a mesh that falls silent. The answers of the API are made here."""

    NODES = 301

    @classmethod
    def setUpClass(cls):
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        playwright = cls.cleanup.enter_context(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        cls.browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        cls.cleanup.callback(cls.browser.close)

    def setUp(self):
        self.api = FakeApi()
        self.enterContext(self.api)
        context = self.browser.new_context(bypass_csp=True)
        self.addCleanup(context.close)
        self.page = context.new_page()
        self.answer()

    def answer(self, silent_for=0, broker="jetstream", firing=0, severity=None):
        """The state of the mesh: figures are stale once it has been silent for so long."""
        now = time.time()
        stale = silent_for > 0
        known = {"as_of_seconds": now - silent_for, "stale": stale}
        budgets = [
            budget("epoch_hook", "no_data" if stale else "within"),
            budget("kernel_fetch", "breach"),
        ]
        reporting = 0 if stale else self.NODES
        of_budgets = {**known, "nodes_reporting": reporting, "completeness": [self.NODES] * 2}
        common = {"ready": True, "broker": broker, "at_seconds": now, **known}
        self.api.pulse = {
            **common, "firing": firing, "firing_severity": severity, "pending": 0,
            "changed_at_seconds": None,
        }
        self.api.answers["/metrics/summary"] = {
            **common, "mesh": "m", "version": "0",
            "presence": {"up": reporting, "silent": self.NODES - reporting, "left": 0},
            "ledger": {"recorded": 9, "merged": 9, "held": 0, "unaccounted": 0, "unread": 0,
                       "lost": {}, "crashed_runs": 0},
            "operations": [], "budgets": [of | of_budgets for of in budgets],
            "rules_error": None, "unmatched": [], "insufficient": [],
        }
        nodes = [fake(n) | {"presence": "silent" if stale else "up"} for n in range(3)]
        self.api.answers["/api/v1/headroom"] = {"at_seconds": now, "nodes": nodes}

    def open(self, where="?", ready=".card"):
        self.page.goto(f"{self.api.url}/{where}")
        self.page.wait_for_selector(ready)
        return self.page

    def test_a_silent_mesh_looks_stale_with_its_time(self):
        page = self.open()
        connection = page.locator(".connection")
        expect(connection).to_contain_text("● live")
        expect(page.locator(".card.within")).to_have_count(1)
        expect(page.locator(".fleet")).to_contain_text("301 of 301 nodes reporting")

        self.answer(silent_for=29, broker="disconnected")
        expect(connection).to_contain_text(re.compile(r"◆ stale, last data \d\d:\d\d:\d\d"))
        expect(page.locator(".card.stale")).to_have_count(2)
        cards = page.locator(".cards").inner_text()
        self.assertRegex(cards, r"no data since \d\d:\d\d:\d\d \(\d\d\ss\)")
        self.assertNotIn("within\n", cards)
        breach = page.locator(".card", has_text="kernel_fetch")
        expect(breach).to_contain_text("▲ breach")
        for card in page.locator(".card").all():
            expect(card).to_contain_text("0 of 301")
        # A number and its noun are held together.
        text = page.locator("body").inner_text().replace("\u00a0", " ")
        self.assertIn("0 of 301 nodes reporting", text)
        self.assertNotIn("301 of 301", text)
        self.assertRegex(text, r"Broker disconnected: figures are from \d\d:\d\d:\d\d")
        colour = "of => getComputedStyle(of).borderTopColor"
        colours = {card.evaluate(colour) for card in page.locator(".card").all()}
        self.assertEqual(len(colours), 1, "a breach is told by its word")
        if AXE.exists():
            page.add_script_tag(path=AXE)
            found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
            self.assertEqual([of["id"] for of in found["violations"]], [])

        self.answer()
        expect(connection).to_contain_text("● live")
        expect(page.locator(".card.stale")).to_have_count(0)

    def test_silent_nodes_show_no_headroom(self):
        page = self.open("?view=nodes", "tbody tr")
        listed = page.locator(".controls output")
        expect(listed).to_have_text("3 of 3 nodes listed, 3 reporting")
        rows = page.get_by_role("region", name="Nodes", exact=True).locator("tbody tr")
        expect(rows.locator(".room")).to_have_count(3)
        self.answer(silent_for=29)
        expect(listed).to_have_text("3 of 3 nodes listed, 0 reporting")
        expect(rows.locator(".room")).to_have_count(0)
        expect(rows.first).to_contain_text("out of date")

    def test_a_page_whose_aggregator_is_gone_looks_stale(self):
        page = self.open()
        expect(page.locator(".card.within")).to_have_count(1)
        self.api.down = True
        expect(page.locator(".card.stale")).to_have_count(2, timeout=40_000)
        expect(page.locator(".fleet")).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d"))

    def test_the_badge_has_the_colour_of_the_worst_severity(self):
        page = self.open()
        badge = page.locator(".badge")
        expect(badge).to_have_count(0)
        for severity, tone in (("info", "none"), ("warning", "warn"), ("critical", "bad")):
            self.answer(firing=2, severity=severity)
            expect(badge).to_have_class(f"badge {tone}")
            expect(badge).to_have_text("2 firing")


class GlanceAtProfiles(unittest.TestCase):
    """Flame graphs by mouse and keyboard. The answers of the API are made here."""

    PROFILES = "/api/v1/profiles"

    @classmethod
    def setUpClass(cls):
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        playwright = cls.cleanup.enter_context(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        cls.browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        cls.cleanup.callback(cls.browser.close)

    def setUp(self):
        self.api = FakeApi()
        self.enterContext(self.api)
        context = self.browser.new_context(bypass_csp=True)
        self.addCleanup(context.close)
        self.page = context.new_page()
        self.api.pulse = {"ready": True, "broker": "jetstream", "firing": 0, "pending": 0,
                          "firing_severity": None, "changed_at_seconds": None,
                          "as_of_seconds": time.time(), "stale": False}
        rows = [captured("a" * 32, "node-2", peer="b" * 32), captured("b" * 32, "node-1"),
                captured("c" * 32, "node-3", state="refused", reason="no_key"),
                captured("d" * 32, "node-4") | {"kept_as": "v41"},
                captured("e" * 32, "node-5") | {"kind": "trace"}]
        self.api.answers[self.PROFILES] = {"profiles": rows}
        for row in rows:
            self.api.answers[f"{self.PROFILES}/{row['id']}"] = row

    def tree(self, root, kind="wall", unit="nanoseconds", id="a" * 32):
        graph = {"kind": kind, "unit": unit, "isDifference": "delta" in root, **columns(root)}
        self.api.answers[f"{self.PROFILES}/{id}/flame.json"] = graph

    def open(self, where, ready):
        self.page.goto(f"{self.api.url}/{where}")
        self.page.wait_for_selector(ready)
        return self.page

    def test_the_list_leads_to_a_profile_and_to_a_difference(self):
        page = self.open("?view=profiles", "tbody tr")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(5)
        expect(rows.nth(2)).to_contain_text("no_key")
        expect(rows.nth(3)).to_contain_text("cpu, v41")
        expect(page.get_by_role("link", name="node-3")).to_have_count(0)
        self.tree(flame("all", 4e9, [flame("main", 4e9, [flame("main", 1e9)])]))
        page.get_by_role("link", name="node-2").click()
        expect(page.locator("h1")).to_contain_text("node-2")
        # A recursion counts once.
        row = page.locator("tbody tr").first
        expect(row).to_have_text(re.compile(r"main.*4.s100.%4.s100.%"))
        others = page.get_by_label("Difference from")
        expect(others.locator("option").nth(1)).to_have_text(re.compile("its peer node-1 "))
        expect(others.locator("option").nth(2)).to_have_text(re.compile("v41 "))
        others.select_option("b" * 32)
        expect(page).to_have_url(re.compile(f"id={'a' * 32}&minus={'b' * 32}"))
        others.select_option("none")
        expect(page.get_by_role("link", name="Download pprof")).to_have_attribute(
            "href", f"api/v1/profiles/{'a' * 32}/pprof")
        self.accessible(page)

    def test_a_flame_graph_is_searched_zoomed_and_walked_by_keys(self):
        load = flame("load", 3e9, [flame("read", 1e9)])
        self.tree(flame("all", 4e9, [flame("main", 4e9, [flame(HOSTILE, 1e9), load])]))
        page = self.open(f"?view=profile&id={'a' * 32}", ".flame")
        frames = page.locator(".frame")
        expect(frames).to_have_count(5)
        self.assertEqual(page.locator("main img").count(), 0)
        row = page.locator("tbody tr").first
        expect(row).to_have_text(re.compile(r"load.*2.s50.%3.s75.%"))

        page.get_by_label("Search").fill("READ")
        expect(page.locator(".found")).to_have_count(1)
        expect(page.locator("output")).to_contain_text("25\u00a0% in 1 of 4 places")

        whole = frames.first.bounding_box()["width"]
        frames.first.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        # What is beside the zoomed function is gone, and its callers are not.
        expect(frames).to_have_count(4)
        zoomed = page.get_by_role("treeitem", name="load")
        self.assertAlmostEqual(zoomed.bounding_box()["width"], whole, delta=4)
        page.keyboard.press("Escape")
        expect(frames).to_have_count(5)
        self.assertAlmostEqual(zoomed.bounding_box()["width"], whole * 3 / 4, delta=4)
        self.accessible(page)

    def test_filters_are_in_the_address_and_in_the_request(self):
        requests = []
        self.page.on("request", lambda request: requests.append(request.url))
        time = "from=1000000000000&to=1000000600000"
        page = self.open(f"?view=profiles&node=node-2&rule=slow&{time}", "tbody tr")
        wanted = f"{self.PROFILES}?node=node-2&rule=slow&from=1000000000.000&to=1000000600.000"
        until("the list is requested", 9, lambda: self.api.url + wanted in requests)
        page.get_by_label("Kind").select_option("memory")
        page.get_by_label("Node").fill("node-7")
        page.get_by_role("link", name="Ordered by slow").click()
        expect(page).to_have_url(re.compile(f"node=node-7&{time}&kind=memory"))
        kind = f"{self.PROFILES}?kind=memory&node=node-7&from=1000000000.000"
        until("the filters are requested", 9,
              lambda: any(url.startswith(self.api.url + kind) for url in requests))

    def test_an_alert_a_run_and_a_node_lead_to_the_profiles_of_their_time(self):
        self.api.answers["/api/v1/alerts"] = {"alerts": []}
        time = "from=1000000000000&to=1000000600000"
        page = self.open(f"?view=alert&rule=slow&node=node-2&operation=step&{time}", "h1")
        expect(page.get_by_role("link", name="profiles of that time")).to_have_attribute(
            "href", f"?view=profiles&node=node-2&{time}")

        run = {"name": "v41", "state": "ended", "begun_seconds": 1e9, "ended_seconds": 1e9 + 600,
               "exit_code": 0, "labels": {}, "nodes": [], "has_more_nodes": False,
               "by_label": False, "completeness": 1, "operations": [], "operations_omitted": 0}
        self.api.answers["/api/v1/runs/v41"] = run
        page = self.open("?view=run&run=v41", "h1")
        expect(page.get_by_role("link", name="Profiles of its time")).to_have_attribute(
            "href", f"?view=profiles&{time}")

        outbox = dict.fromkeys(
            ("attempted", "published", "confirmed", "unconfirmed", "rerouted", "rate_limited",
             "dropped", "refused", "coalesced", "combined", "retried", "messages", "depth",
             "depth_max", "bytes", "age_seconds", "pressure"), 0)
        ledger = {"recorded": 0, "merged": 0, "held": 0, "unaccounted": 0, "unread": 0, "lost": {},
                  "crashed_runs": 0}
        status = {"node": "node-2", "presence": "up", "last_seen_seconds": 1e9, "version": "0",
                  "labels": {}, "ledger": ledger, "samples": {"jobs": 0, "own": 0},
                  "clock_ahead_seconds": None, "round_trip_seconds": None, "delay_seconds": None,
                  "troubles": [], "machine": None}
        self.api.answers["/api/v1/nodes/node-2"] = {
            "at_seconds": 1e9, "status": status, "operations": [], "budgets": [],
            "outbox": {"node": "node-2", "presence": "up", "breaker": None, "conservative": False,
                       "outbox": outbox},
            "entry": {"runs": [], "past": ledger, "duplicates": 0, "duplicate_names": 0}}
        page = self.open(f"?view=node&node=node-2&{time}", "h1")
        expect(page.get_by_role("link", name="profiles", exact=True).last).to_have_attribute(
            "href", f"?view=profiles&node=node-2&{time}")

    def test_a_past_range_is_chosen_and_shown_without_any_id(self):
        page = self.open("?view=profiles", "tbody tr")
        expect(page.get_by_role("link", name="the last hour")).to_be_visible()
        page.get_by_text("From … to …").click()
        field = page.get_by_label("From", exact=True)
        field.fill("2001-09-09T01:46:40")
        self.api.pulse["firing"] = 1
        expect(page.locator(".badge")).to_be_visible()
        # The pulses since have taken nothing back.
        expect(field).to_have_value("2001-09-09T01:46:40")
        page = self.open("?view=profiles&node=node-2&from=1000000000000&to=1000000300000", "h2")
        page.get_by_label("To see its functions").fill("of the test")
        page.get_by_role("button", name="Unlock").click()
        page.get_by_label("Process").fill("42")

        missing = {"node-3": "no_response"}
        past = captured("f" * 32, "node-1") | {
            "kind": "past", "hz": 0, "seconds": 300, "start_seconds": 1e9, "state": "running",
            "nodes": {"asked": 2, "answered": 0, "left_out": 0, "missing": {}}}
        self.api.made = past
        url = f"{self.PROFILES}/{past['id']}"
        self.api.answers[url] = past
        page.get_by_role("button", name=re.compile("^Show node-2 from .* to ")).click()
        expect(page.get_by_text("Loading what was recorded")).to_be_visible()
        body = {"kind": "past", "node": "node-2", "pid": 42, "from": 10**9, "to": 10**9 + 300}
        self.assertEqual(self.api.posted, [(self.PROFILES, body)])

        nodes = past["nodes"] | {"answered": 1, "missing": missing}
        self.tree(flame("all", 4e9, [flame("planted", 4e9)]), id="f" * 32)
        self.api.answers[url] = past | {"state": "torn", "nodes": nodes, "hz": 19}
        expect(page.locator("tbody tr").first).to_contain_text("planted")
        expect(page.locator("h1")).to_contain_text("Profile of 1 of 2 nodes from ")
        expect(page.locator("main")).to_contain_text("node-3: no_response")
        expect(page.locator("main")).to_contain_text("at 19 Hz")
        with page.expect_request(lambda request: "state=gil" in request.url):
            page.get_by_label("Threads").select_option("gil")
        expect(page.get_by_role("link", name="Download SVG")).to_have_attribute(
            "href", f"api/v1/profiles/{'f' * 32}/flamegraph.svg?state=gil")
        expect(page.get_by_role("link", name="Choose another range")).to_have_attribute(
            "href", "?view=profiles&from=1000000000000&to=1000000300000")
        self.accessible(page)

    def test_callers_are_below_on_request_and_modules_have_colours(self):
        load = flame("load", 3e9) | {"file": "/usr/lib/python3.12/site-packages/torch/data.py"}
        step = flame("step", 1e9) | {"file": "/usr/lib/python3.12/site-packages/torch/nn/a.py"}
        self.tree(flame("all", 4e9, [flame("main", 4e9, [load, step])]))
        page = self.open(f"?view=profile&id={'a' * 32}", ".flame")
        top = lambda name: page.get_by_role("treeitem", name=name).bounding_box()["y"]
        self.assertLess(top("main"), top("load"))
        page.get_by_role("button", name="Callers below").click()
        expect(page).to_have_url(re.compile("graph=flame"))
        self.assertGreater(top("main"), top("load"))
        page.locator(".frame").first.focus()
        page.keyboard.press("ArrowUp")
        expect(page.locator(".frame:focus title")).to_have_text(re.compile("^main"))

        page.get_by_label("Colour").select_option("module")
        read = "all => all.map(of => of.attributes.fill.value)"
        folder = "/usr/lib/python3.12/site-packages/torch"
        wanted = ["of a.py", "of a.py", f"of {folder}/data.py", f"of {folder}/nn/a.py"]
        self.assertEqual(page.locator(".frame rect").evaluate_all(read), wanted)
        page.get_by_label("Colour").select_option("function")
        fills = page.locator(".frame rect").evaluate_all(read)
        self.assertEqual(fills, ["of all", "of main", "of load", "of step"])
        page.get_by_label("Colour").select_option("share")
        self.assertEqual(page.locator(".frame rect").first.get_attribute("fill"), "hsl(8,90%,66%)")

    def test_memory_is_in_bytes_and_a_trace_is_a_file(self):
        self.tree(flame("all", 3e6, [flame("f", 3e6)]), "inuse_space", "bytes")
        page = self.open(f"?view=profile&id={'a' * 32}", ".flame")
        expect(page.locator("tbody tr").first).to_have_text(re.compile(r"f.*MiB100.%.*MiB"))
        page = self.open(f"?view=profile&id={'e' * 32}", "h1")
        expect(page.get_by_role("link", name="Download the trace")).to_have_attribute(
            "href", f"api/v1/profiles/{'e' * 32}/trace")
        expect(page.locator("main")).to_contain_text("ui.perfetto.dev")
        self.assertEqual(page.locator(".flame").count(), 0)

    def test_fifty_thousand_functions_are_drawn_zoomed_and_searched_at_once(self):
        self.tree(forest(50_000))
        page = self.open(f"?view=profile&id={'a' * 32}", ".flame")
        expect(page.locator("output")).to_contain_text("50,000 places")
        drawn = page.locator(".frame").count()
        self.assertGreater(drawn, 300)
        self.assertLessEqual(drawn, 500)
        expect(page.get_by_text("narrower functions are drawn where you zoom in")).to_be_visible()
        middle = page.locator(".frame").nth(drawn // 2)
        zoom = page.evaluate(DURATION, ["click", middle.get_attribute("id")])
        leaf = page.locator(".frame").last
        self.assertGreater(leaf.bounding_box()["width"], 0)
        search = page.evaluate(DURATION, ["input", "f77"])
        back = page.evaluate(DURATION, ["Escape", page.locator(".frame").first.get_attribute("id")])
        page.evaluate("performance.clearResourceTimings()")
        first = page.evaluate(FIRST_PAINT, f"?view=profile&id={'a' * 32}")
        print(f"50 000 functions, in ms: first paint {first:.0f} after the request for them, "
              f"zoom {zoom:.0f}, search {search:.0f}, back {back:.0f}")
        self.assertLess(first, 1_000)
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/flame-50000.png", full_page=True)

    def test_a_difference_has_two_colours_and_both_sides(self):
        more = flame("gc", 3e8) | {"delta": 4e8}
        less = flame("step", 5e8) | {"delta": -2e8}
        self.tree(flame("all", 8e8, [more, less]) | {"delta": 2e8})
        page = self.open(f"?view=profile&id={'a' * 32}&minus={'b' * 32}", ".flame")
        read = "all => all.map(of => of.attributes.fill.value)"
        fills = page.locator(".frame rect").evaluate_all(read)
        self.assertEqual([fill.split(",")[0] for fill in fills], ["hsl(4", "hsl(4", "hsl(214"])
        expect(page.locator("tbody tr").first).to_have_text(
            re.compile(r"gc.*\+400.ms/s500.ms/s100.ms/s"))
        frame = page.get_by_role("treeitem", name="step")
        expect(frame.locator("title")).to_contain_text("culprit 400\u00a0ms/s, peer 600\u00a0ms/s")

    def accessible(self, page):
        if AXE.exists():
            page.add_script_tag(path=AXE)
            found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
            self.assertEqual([of["id"] for of in found["violations"]], [])


class PastMinute(unittest.TestCase):
    """Which function was it at 3 PM? By the page alone, on a day of a minute."""

    CONFIRM = "[confirm]\nkey_file = '{}/confirm.key'\n"
    NODE = """[captures]
enabled = true
socket = '{0}/profiler.sock'
[profiles]
continuous = true
jobs = false
processes = ['planted-on-page']
directory = '{0}/profiles'
"""
    # From second 30 to 45 it is in `planted`, else in `usual`.
    JOB = """
import time
open('/proc/self/comm', 'w').write('planted-on-page')
start = time.time()
def planted():
    until = time.monotonic() + 0.05
    while time.monotonic() < until: sum(range(100))
def usual():
    until = time.monotonic() + 0.05
    while time.monotonic() < until: sum(range(100))
while time.time() < start + 56:
    planted() if 30 <= time.time() - start < 45 else usual()
print(start)
"""

    def test_the_function_of_a_past_minute_is_found_by_the_page_alone(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "confirm.key").write_text("5a" * 32)
        (folder / "confirm.key").chmod(0o600)
        mesh = self.enterContext(Mesh(PROGRAMS, folder, self.CONFIRM.format(folder)))
        self.start_profiler(folder, mesh)
        for name in ("node-1", "node-2"):
            # The other one records nothing.
            more = self.NODE.format(folder) if name == "node-1" else ""
            mesh.start_node(name, more=more + self.CONFIRM.format(folder))
        job = ["python3", "-c", self.JOB]
        start = float(subprocess.run(job, stdout=subprocess.PIPE, check=True).stdout)

        playwright = self.enterContext(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        self.addCleanup(browser.close)
        page = browser.new_page()
        page.goto(f"{mesh.url}/?view=profiles&node=node-1")
        page.get_by_text("From … to …").click()
        page.wait_for_selector(".between[open]")
        self.choose(page, start + 30, start + 45)
        page.get_by_label("To see its functions").fill(TOKEN)
        page.get_by_role("button", name="Unlock").click()
        page.get_by_role("button", name=re.compile("^Show node-1 from ")).click()
        expect(page.locator("tbody tr").first).to_contain_text("planted", timeout=30_000)
        expect(page.get_by_role("treeitem", name=re.compile("^planted"))).to_be_visible()
        expect(page.locator("main")).to_contain_text("at 19 Hz")
        self.shot(page, "past")

        # Of all nodes one has nothing, and is named.
        page.get_by_role("link", name="Choose another range").click()
        page.get_by_label("Node").fill("")
        page.locator(".between summary").click()
        self.choose(page, start + 13, start + 24)
        page.get_by_role("button", name=re.compile("^Show all nodes from ")).click()
        expect(page.locator("tbody tr").first).to_contain_text("usual", timeout=60_000)
        expect(page.locator("h1")).to_contain_text("1 of 2 nodes")
        expect(page.locator("main")).to_contain_text("node-2: no_response")
        self.assertEqual(page.get_by_text("planted").count(), 0)

    def choose(self, page, start, end):
        """Fills in the range as a person does."""
        for label, at in (("From", start), ("To", end)):
            text = datetime.datetime.fromtimestamp(int(at)).strftime("%Y-%m-%dT%H:%M:%S")
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Show", exact=True).click()

    def start_profiler(self, folder, mesh):
        """Starts it on a socket that it inherits, as the service manager does."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "profiler.sock"))
            listener.listen()
            allowed = [f"{key}=['{os.getuid()}']" for key in ("allow_peers", "allow_users")]
            settings = [word for setting in allowed for word in ("--set", setting)]
            command = [PROGRAMS / "plimsoll-profiler", "serve", *settings]
            mesh.children["profiler"] = subprocess.Popen(command, stdin=listener)

    def shot(self, page, name):
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


class GlanceAtResources(unittest.TestCase):
    """The fleet by resource (DESIGN A193). The answers of the API are made here."""

    NODES, HISTORY = "/api/v1/hardware", "/api/v1/hardware/history"
    COLUMNS, STEP = 30, 30

    @classmethod
    def setUpClass(cls):
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        playwright = cls.cleanup.enter_context(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        cls.browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        cls.cleanup.callback(cls.browser.close)

    def setUp(self):
        self.api = FakeApi()
        self.enterContext(self.api)
        context = self.browser.new_context(bypass_csp=True)
        self.addCleanup(context.close)
        self.page = context.new_page()
        self.api.pulse = {"ready": True, "broker": "jetstream", "firing": 0, "pending": 0,
                          "firing_severity": None, "changed_at_seconds": None,
                          "as_of_seconds": time.time(), "stale": False}
        # The second is the worst now, and the last has left.
        nodes = [self.node("node-1", 0.25), self.node(HOSTILE, 0.9), self.node("node-3", 0.5),
                 self.node("node-4", 0.99) | {"presence": "left"}]
        self.api.answers[self.NODES] = {"nodes": nodes, "next": None}
        self.past([self.history("node-1", 0.25), self.history(HOSTILE, 0.9)])

    @staticmethod
    def node(name, value):
        """A node with one reading, as the API has it."""
        reading = {"sensor": "cpu_usage_ratio", "labels": {}, "unit": "ratio", "state": "ok",
                   "value": value, "reason": None}
        return {"node": name, "presence": "up", "received_at_seconds": time.time(),
                "outdated": False, "readings": [reading]}

    def history(self, name, value):
        """What a node has: the last column is the value, those before are a tenth."""
        start = self.start = int(time.time()) // 30 * 30 - self.COLUMNS * self.STEP
        points = [{"from_seconds": start + n * self.STEP, "min": 0, "mean": of / 2, "max": of,
                   "count": 30} for n, of in enumerate([0.1] * (self.COLUMNS - 1) + [value])]
        readings = [{"sensor": "cpu_usage_ratio", "points": points}]
        return {"node": name, "missing": 0, "readings": readings}

    def past(self, nodes):
        start = int(time.time()) // 30 * 30 - self.COLUMNS * self.STEP
        self.api.answers[self.HISTORY] = {
            "from_seconds": start, "to_seconds": start + self.COLUMNS * self.STEP,
            "step_seconds": self.STEP, "nodes": nodes,
        }

    def open(self, where, ready):
        self.page.goto(f"{self.api.url}/{where}")
        self.page.wait_for_selector(ready)
        return self.page

    def test_nodes_are_rows_worst_first_with_links_and_keys(self):
        page = self.open("?view=resources", ".beside a")
        names = page.locator(".beside a")
        expect(names).to_have_text([HOSTILE, "node-3", "node-1"])
        self.assertEqual(page.locator("main img").count(), 0)
        expect(page.locator("main")).to_contain_text("3\u00a0nodes, worst first")

        # The last column of the first row, by keys.
        page.locator(".plot").focus()
        for key in ("End", "ArrowDown"):
            page.keyboard.press(key)
        expect(page.locator(".readout")).to_contain_text(f"{HOSTILE}: 90\u00a0%")
        page.get_by_text("Table", exact=True).click()
        rows = page.locator(".figures tbody tr")
        expect(rows.first).to_have_text(re.compile(r"90.%12\.7.%90.%"))
        # A node without a history is a row without cells.
        expect(rows.nth(1)).to_have_text(re.compile(r"node-350.%––"))
        self.accessible(page)
        page.locator(".beside").get_by_role("link", name="node-1").click()
        expect(page).to_have_url(re.compile(r"view=node&node=node-1$"))

    def test_names_in_a_file_are_quoted_and_compute_nothing(self):
        name = '=1,"x"'
        self.api.answers[self.NODES]["nodes"][1] = self.node(name, 0.9)
        self.past([self.history("node-1", 0.25), self.history(name, 0.9)])
        page = self.open("?view=resources", ".beside a")
        with page.expect_download() as download:
            page.locator(".files button").click()
        text = pathlib.Path(download.value.path()).read_bytes().decode()
        head, first = text.split("\r\n")[:2]
        start = self.api.answers[self.HISTORY]["from_seconds"]
        time_of = [datetime.datetime.fromtimestamp(start + n * self.STEP, datetime.timezone.utc)
                   .strftime("%Y-%m-%dT%H:%M:%S.000Z") for n in range(2)]
        self.assertEqual(head, "from,to,\"'=1,\"\"x\"\"\",node-3,node-1")
        # A node without a history has empty cells.
        self.assertEqual(first, f"{time_of[0]},{time_of[1]},0.1,,0.1")

    def test_shares_and_rates_are_those_of_the_readings(self):
        gib = 2**30
        for resource, now, past, wanted in (
            ("memory", [("memory_used_bytes", {}, 6 * gib), ("memory_total_bytes", {}, 8 * gib)],
             {("memory_used_bytes", ""): [2 * gib, 4 * gib]}, "75.%37\\.5.%50.%"),
            # The fuller one of two file systems, by what is left of each.
            ("disk", [("disk_available_bytes", {"mount": "/"}, gib),
                      ("disk_total_bytes", {"mount": "/"}, 10 * gib),
                      ("disk_available_bytes", {"mount": "/data"}, 30 * gib),
                      ("disk_total_bytes", {"mount": "/data"}, 40 * gib)],
             {("disk_available_bytes", "/"): [5 * gib, gib],
              ("disk_available_bytes", "/data"): [8 * gib, 39 * gib]}, "90.%85.%90.%"),
            # 1 KiB a second over 30 s, each way: both requests have this answer. A counter that was
            # reset has no rate, and loopback none.
            ("network", [("network_receive_bytes_total", {"interface": "eth0"}, 9)],
             {("network_receive_bytes_total", "eth0"): [7, 30 * 1024 + 7, 5],
              ("network_receive_bytes_total", "lo"): [0, 10**9, 2 * 10**9]},
             "2.KiB/s2.KiB/s2.KiB/s"),
        ):
            with self.subTest(resource=resource):
                node = self.node("node-1", 0.5)
                node["readings"] = [
                    {"sensor": sensor, "labels": labels, "unit": None, "state": "ok",
                     "value": value, "reason": None} for sensor, labels, value in now]
                self.api.answers[self.NODES] = {"nodes": [node], "next": None}
                key = "interface" if resource == "network" else "mount"
                self.past([])
                start = self.api.answers[self.HISTORY]["from_seconds"]
                readings = [
                    {"sensor": sensor, "labels": {key: label} if label else {}, "points": [
                        {"from_seconds": start + n * self.STEP, "min": value, "mean": value,
                         "max": value, "count": 1} for n, value in enumerate(values)]}
                    for (sensor, label), values in past.items()]
                self.past([{"node": "node-1", "missing": 0, "readings": readings}])
                page = self.open(f"?view=resources&resource={resource}", ".beside a")
                page.get_by_text("Table", exact=True).click()
                expect(page.locator(".figures tbody tr")).to_have_text(
                    re.compile(f"^node-1{wanted}$"))

    def test_what_is_missing_is_stated(self):
        why = "no answer: the node is away, keeps no history (--history)"
        self.past([self.history("node-1", 0.25), {"node": "node-3", "missing": 0, "readings": [],
                                                  "error": why}])
        page = self.open("?view=resources", ".beside a")
        problem = page.locator(".problem")
        expect(problem).to_have_text(
            f"1 of 3\u00a0nodes gave no whole history (node-3): {why}")
        page.get_by_label("Resource").select_option("gpu")
        expect(page.locator("main")).to_contain_text(
            "None of 3\u00a0nodes reads gpu_utilization_ratio.")
        self.api.answers[self.NODES] = {"nodes": [], "next": None}
        page = self.open("?view=resources&resource=disk", "h1")
        expect(page.locator("main")).to_contain_text("No node reports now.")
        del self.api.answers[self.NODES]
        page = self.open("?view=resources&resource=network", ".problem")
        expect(problem).to_contain_text("Readings of the nodes: ")

    def test_of_many_nodes_the_worst_are_asked_and_the_others_counted(self):
        nodes = [self.node(f"n{n:03}", n / 100) for n in range(100)]
        self.api.answers[self.NODES] = {"nodes": nodes, "next": None}
        asked = []
        self.page.on("request", lambda request: asked.append(request.url))
        page = self.open("?view=resources", ".beside a")
        expect(page.locator(".beside a")).to_have_count(64)
        expect(page.locator(".beside a").first).to_have_text("n099")
        expect(page.locator("main")).to_contain_text(
            "The 64 of 100\u00a0nodes with the highest now, worst first")
        [url] = {url for url in asked if self.HISTORY in url}
        self.assertEqual((url.count("node="), "node=n036" in url, "node=n035" in url),
                         (64, True, False))

    def accessible(self, page):
        if AXE.exists():
            page.add_script_tag(path=AXE)
            found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
            self.assertEqual([of["id"] for of in found["violations"]], [])


class AllViews(OnMesh):
    """Every view after two named runs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_of("train-v41", 35)
        cls.run_of("train-v42", 25)
        until("node-2's alert fires", 60, lambda: cls.alert("epoch_hook", "node-2"))

    @classmethod
    def run_of(cls, name, seconds):
        """A run that lasts for some seconds."""
        cls.feed.run_name = name
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = {"name": name, "by": "ann"}
        assert cls.mesh.request("/api/v1/runs", "POST", body, headers)[0] == 201
        end = time.monotonic() + seconds
        until(f"{name} ends", seconds + 5, lambda: time.monotonic() > end)
        stop = f"/api/v1/runs/{name}/stop"
        assert cls.mesh.request(stop, "POST", {"exit_code": 0}, headers)[0] == 200

    def test_every_view_is_shown_and_axe_finds_nothing(self):
        for scheme in ("light", "dark"):
            # The policy of the page would not let axe-core in; nothing else runs in this context.
            page = self.open("?", color_scheme=scheme, bypass_csp=True)
            page.add_script_tag(path=AXE)
            for view, where in VIEWS.items():
                with self.subTest(view=view, scheme=scheme):
                    page.evaluate("to => { history.pushState(null, '', to); "
                                  "dispatchEvent(new PopStateEvent('popstate')); }", where)
                    expect(page.locator("[aria-busy=true]")).to_have_count(0)
                    expect(page.locator("h1")).to_be_visible()
                    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
                    text = [
                        f"{of['id']}: {node['html'][:120]} {node['failureSummary']}"
                        for of in found["violations"] for node in of["nodes"][:3]
                    ]
                    self.assertEqual(text, [])
                    self.assertEqual(page.locator(".problem").all_inner_texts(), [])
                    self.shot(page, f"{view}-{scheme}")
            self.assertEqual(self.wrong, [])

    def test_a_phone_shows_every_view_without_scrolling_sideways(self):
        page = self.open("?", viewport={"width": 390, "height": 844}, device_scale_factor=2)
        for view, where in VIEWS.items():
            with self.subTest(view=view):
                page.goto(self.mesh.url + "/" + where)
                expect(page.locator("[aria-busy=true]")).to_have_count(0)
                width = page.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(width, 390)
                self.shot(page, f"{view}-phone")

    def test_the_page_is_live_and_a_hidden_tab_closes_its_stream(self):
        page = self.open("?")
        merged = page.locator(".fleet a", has_text="samples merged").locator("data").first
        first = int(merged.get_attribute("value"))
        until("more samples", 20, lambda: int(merged.get_attribute("value")) > first + 100)
        self.assertEqual(self.streams(), 1)
        hide = """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.evaluate(hide, True)
        until("the stream is closed", 10, lambda: self.streams() == 0)
        expect(page.locator(".connection")).to_contain_text("paused")
        frozen = merged.get_attribute("value")
        page.evaluate(hide, False)
        until("it is live again", 20, lambda: merged.get_attribute("value") != frozen)
        self.assertEqual(self.wrong, [])

    def streams(self):
        found = re.search(r"^plimsoll_aggregator_streams (\d+)", self.mesh.get("/metrics"), re.M)
        return int(found[1])

    def test_page_and_api_agree_to_the_digit(self):
        """Figures of the past do not change: each is compared with a request of its own."""
        run = self.mesh.get("/api/v1/runs/train-v41")
        page = self.open("?view=run&run=train-v41", "tbody tr")
        for of in run["operations"]:
            link = page.get_by_role("link", name=of["operation"], exact=True)
            row = page.locator("tbody tr").filter(has=link)
            expect(row.locator("data").last).to_be_visible()
            shown = [cell.get_attribute("value") for cell in row.locator("data").all()]
            wanted = [of["count"], of["mean"], *(q["value"] for q in of["quantiles"]), of["max"]]
            self.assertEqual([float(value) for value in shown], wanted)
        of = next(of for of in run["operations"] if of["operation"] == "epoch_hook")
        begin, end = of["from_seconds"], of["to_seconds"]
        # The newest slot grows between two requests.
        settled = -(-end // 10) * 10 + SETTLE_SECONDS
        time.sleep(max(0.0, settled - time.time()))
        query = f"operation=epoch_hook&from={begin:.3f}&to={end:.3f}&step=10s"
        past = self.mesh.get(f"/api/v1/query?{query}&quantiles=0.5,0.9,0.99&over=18ms")
        heatmap = self.mesh.get(f"/api/v1/heatmap?{query}&bands=60")
        link = f"?view=latency&operation=epoch_hook&from={begin * 1000:.0f}&to={end * 1000:.0f}"
        page = self.open(link, ".readout")
        page.get_by_text("Table", exact=True).click()
        rows = page.locator(".figures tbody tr")
        expect(rows).to_have_count(len(heatmap["counts"]))
        rows = rows.all()
        for row, column in zip(rows, heatmap["counts"]):
            self.assertEqual(int(row.locator("data").first.get_attribute("value")), sum(column))
        shown = [
            [float(cell.get_attribute("value")) for cell in row.locator("data").all()]
            for row in rows[: len(past["points"])]
        ]
        wanted = [
            [point["count"], *(q["value"] for q in point["quantiles"]), point["max"]]
            for point in past["points"]
        ]
        # What is not there has a dash.
        wanted = [[value for value in row if value is not None] for row in wanted]
        self.assertEqual(shown, wanted)
        over = sum(point["over"][0]["over"] for point in past["points"])
        texts = [row.locator("td").nth(6).inner_text() for row in rows]
        self.assertEqual(sum(int(text.replace(",", "")) for text in texts if text != "–"), over)
        self.assertEqual(self.wrong, [])

    def test_a_link_opens_a_past_range_and_the_keyboard_reads_and_zooms_it(self):
        run = self.mesh.get("/api/v1/runs/train-v41")
        begin, end = run["begun_seconds"] // 10 * 10, run["ended_seconds"] // 10 * 10
        link = f"?view=latency&operation=epoch_hook&from={begin * 1000:.0f}&to={end * 1000:.0f}"
        page = self.open(link, ".readout")
        before = page.url
        chart = page.get_by_role("application", name="Heatmap of epoch_hook")
        query = f"operation=epoch_hook&from={begin:.3f}&to={end:.3f}&step=10s&bands=60"
        column = self.mesh.get(f"/api/v1/heatmap?{query}")["counts"][1]
        band = column.index(max(column))
        chart.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        for _ in range(band + 1):
            page.keyboard.press("ArrowUp")
        readout = page.locator(".chart").first.locator("output")
        self.assertEqual(readout.get_attribute("aria-live"), "polite")
        self.assertGreater(column[band], 1)
        expect(readout).to_contain_text(f": {column[band]:,} of {sum(column):,} samples")
        expect(readout).to_contain_text("p99")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Enter")
        expect(page).not_to_have_url(before)
        found = re.findall(r"(from|to)=(\d+)", page.url)
        zoomed = {key: float(value) / 1000 for key, value in found}
        self.assertEqual(zoomed, {"from": begin + 10, "to": begin + 30})
        page.go_back()
        expect(page).to_have_url(before)
        expect(page.get_by_role("application", name="Heatmap of epoch_hook")).to_be_visible()
        self.assertEqual(self.wrong, [])

    def test_a_chart_gives_its_data_as_files_and_a_link_to_itself(self):
        run = self.mesh.get("/api/v1/runs/train-v41")
        begin, end = run["begun_seconds"] // 10 * 10, run["ended_seconds"] // 10 * 10
        link = f"?view=latency&operation=epoch_hook&from={begin * 1000:.0f}&to={end * 1000:.0f}"
        page = self.open(link, ".readout")
        api = page.get_by_role("link", name="JSON of Quantiles").get_attribute("href")
        points = self.mesh.get("/" + api)["points"]
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV of Quantiles").click()
        self.assertEqual(download.value.suggested_filename, "Quantiles.csv")
        with open(download.value.path(), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        self.assertEqual(rows[0], ["from", "to", "p50", "p90", "p99", "max"])
        found = [[float(cell) for cell in row[2:] if cell] for row in rows[1:]]
        wanted = [
            [*(of["value"] for of in point["quantiles"]), point["max"]] if point["count"] else []
            for point in points
        ]
        self.assertEqual(found[: len(wanted)], wanted)
        first = datetime.datetime.fromisoformat(rows[1][0].replace("Z", "+00:00"))
        self.assertEqual(first.timestamp(), points[0]["from_seconds"])

        page.get_by_role("link", name="Only this chart: Quantiles").click()
        chart = page.get_by_role("application", name="Quantiles of epoch_hook")
        expect(chart).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("application", name="Heatmap of epoch_hook")).to_be_hidden()
        page.get_by_role("link", name="All of this view").click()
        expect(page.get_by_role("application", name="Heatmap of epoch_hook")).to_be_visible()
        self.assertEqual(self.wrong, [])

    def test_a_metric_of_a_node_is_beside_its_sensors(self):
        self.mesh.send("node-1", "tokens:50|c")
        query = "/api/v1/query?metric=tokens&node=node-1&last=5m"
        points = until("the node has it", 20, lambda: [
            point for point in self.mesh.get(query)["points"] if point["count"]])
        self.assertEqual(sum(point["sum"] for point in points), 50)
        page = self.open("?view=node&node=node-1&last=5m&metric=tokens", ".readout")
        chart = page.get_by_role("application", name="tokens a second of node-1")
        expect(chart).to_be_visible()
        expect(page.get_by_label("Metric")).to_have_value("tokens")
        self.assertEqual(self.wrong, [])

    def test_the_mouse_zooms_by_dragging(self):
        page = self.open(VIEWS["latency"], ".plot canvas")
        box = page.locator(".plot").first.bounding_box()
        y = box["y"] + 100
        page.mouse.move(box["x"] + 0.5 * box["width"], y)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.9 * box["width"], y, steps=4)
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
        self.assertEqual(self.wrong, [])

    def test_the_link_of_an_alert_opens_its_evidence(self):
        alert = self.alert("epoch_hook", "node-2")
        link = alert["context"]["dashboard"]
        self.assertTrue(link.startswith(f"{self.mesh.url}/?view=alert&rule=epoch_hook&node=node-2"))
        page = self.open(link.removeprefix(self.mesh.url + "/"), ".facts")
        evidence = alert["evidence"]
        values = [data.get_attribute("value") for data in page.locator(".facts data").all()]
        for key in ("value_seconds", "limit_seconds", "lower_seconds", "over", "samples"):
            self.assertIn(evidence[key], map(float, values))
        worst = page.get_by_role("region", name="Worst nodes")
        expect(worst.get_by_role("link", name="node-2")).to_be_visible()
        bars = page.get_by_role("region", name="Samples before and during the alert")
        expect(bars.locator("tbody tr").first).to_be_visible()
        during = bars.locator("tbody tr td:nth-child(5) data").all()
        wanted = [bar["samples"] for bar in alert["context"]["during"]]
        self.assertEqual([int(of.get_attribute("value")) for of in during], wanted)
        expect(page.locator(".prose")).to_contain_text("move the job off a slow machine")
        self.assertEqual(alert["runbook"], f"{self.mesh.url}/?view=runbook&section=epoch_hook")
        page.get_by_role("link", name="node-2 at that time").click()
        expect(page.locator("h1")).to_have_text("Node node-2")
        chart = page.get_by_role("application", name="Quantiles of epoch_hook on node-2")
        expect(chart).to_be_visible(timeout=15000)
        expect(page.get_by_role("application", name="Memory of node-2")).to_be_visible()
        self.assertEqual(self.wrong, [])

    def test_changes_need_the_token_which_stays_in_memory(self):
        page = self.open(VIEWS["alert"], ".token")
        self.assertEqual(page.get_by_role("button", name="Silence").count(), 0)
        self.enter_token(page, "a-token-that-is-wrong")
        self.silence(page, "ann")
        expect(page.locator(".act .problem")).to_contain_text("Nothing was changed")
        self.assertEqual(self.mesh.get("/api/v1/silences")["silences"], [])
        page.get_by_role("button", name="Forget the token").click()
        self.enter_token(page, TOKEN)
        self.silence(page, HOSTILE)
        expect(page.locator(".act output")).to_have_text("Silenced.")
        [silence] = self.mesh.get("/api/v1/silences")["silences"]
        match = {"rule": "epoch_hook", "operation": "epoch_hook", "node": "node-2"}
        self.assertEqual({key: of for key, of in silence["match"].items() if of}, match)
        expect(page.locator(".facts")).to_contain_text(f"by silence {silence['id']}")
        page.get_by_label("Your name").fill("bob")
        page.get_by_role("button", name="Acknowledge", exact=True).click()
        expect(page.locator(".act output")).to_have_text("Acknowledged.")
        acknowledged = self.alert("epoch_hook", "node-2")["acknowledged"]
        self.assertEqual(acknowledged["by"], "bob")
        page.get_by_role("button", name="Remove acknowledgement").click()
        until("it is removed", 10, lambda: not self.alert("epoch_hook", "node-2")["acknowledged"])
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, "
                             "document.cookie, location.href, history.state])")
        self.assertNotIn(TOKEN, kept)
        # Within the tab it is still there; the list shows what was entered as text.
        page.get_by_role("link", name="alerts", exact=False).first.click()
        row = page.get_by_role("region", name="Silences").locator("tbody tr")
        expect(row).to_contain_text(HOSTILE)
        row.get_by_role("button").click()
        until("the silence ends", 10, lambda: not self.mesh.get("/api/v1/silences")["silences"])
        page.reload()
        page.goto(self.mesh.url + "/" + VIEWS["alert"])
        expect(page.locator(".token")).to_be_visible()
        rejected = [line for line in self.wrong if "401" not in line]
        self.assertEqual(rejected, [])

    def enter_token(self, page, token):
        page.locator(".token input").fill(token)
        page.locator(".token button").click()

    def silence(self, page, by):
        page.get_by_label("Your name").fill(by)
        page.get_by_role("button", name="Silence", exact=True).click()

    def test_requests_of_other_sites_and_names_are_rejected(self):
        status, headers, _ = self.mesh.request("/", headers={"Accept": "text/html"})
        policy = headers["content-security-policy"]
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        status, _, body = self.mesh.request("/api/v1/alerts", headers={"Host": "evil.example"})
        self.assertEqual(status, 421)
        self.assertIn(b"http.hosts", body)
        allowed = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = {"match": {"rule": "x"}, "by": "ann", "for": "1m"}
        crossed = {**allowed, "Origin": "http://evil.example"}
        self.assertEqual(self.mesh.request("/api/v1/silences", "POST", body, crossed)[0], 403)
        self.assertEqual(self.mesh.request("/api/v1/silences", "POST", body, {})[0], 401)
        plain = self.mesh.get("/")
        self.assertTrue(plain.startswith("plimsoll-aggregator\n"), plain[:80])

    def test_hostile_and_long_names_are_text(self):
        page = self.open("?view=alerts", "tbody tr")
        row = page.locator("tbody tr", has_text="has_memory").first
        expect(row).to_contain_text(
            "<script>alert(1)</script> It has memory: sensor:memory_total_bytes")
        page.goto(f"{self.mesh.url}/?view=latency&operation={LONG}&last=5m")
        expect(page.locator("h1")).to_have_text(f"Latency of {LONG}")
        expect(page.get_by_role("application", name=f"Heatmap of {LONG}")).to_be_visible()
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 1360)
        page.goto(f"{self.mesh.url}/?view=latency&operation={2 * LONG}")
        expect(page.locator(".problem")).to_contain_text("256 bytes, more than 128")
        for view in ("node", "alert", "latency", "run", "runbook"):
            where = f"?view={view}&node={HOSTILE}&rule={HOSTILE}&operation={HOSTILE}"
            page.goto(f"{self.mesh.url}/{where}&run={HOSTILE}&section={HOSTILE}")
            page.wait_for_selector("h1, .problem")
            self.assertEqual(page.locator("main img, main script").count(), 0, view)
        page.goto(f"{self.mesh.url}/?view=drills")
        drill = {"name": "drill.json", "mimeType": "application/json",
                 "buffer": json.dumps(DRILL).encode()}
        page.get_by_label("Open drill reports").set_input_files(drill)
        expect(page.get_by_role("region", name="Expectations of latency")).to_contain_text(
            "<b>in 5 s</b>")
        expect(page.locator("h2")).to_contain_text("failed")
        broken = {**drill, "buffer": b"[1]"}
        page.get_by_label("Open drill reports").set_input_files(broken)
        expect(page.locator(".problem")).to_contain_text("drill.json is not a drill report")
        dialogs = [line for line in self.wrong if not line.startswith("Failed to load resource")]
        self.assertEqual(dialogs, [])

    def test_the_keyboard_reaches_everything_and_focus_is_seen(self):
        page = self.open("?", ".card")
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to the content")
        for view, where in VIEWS.items():
            page.goto(self.mesh.url + "/" + where)
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            reached = []
            for _ in range(60):
                page.keyboard.press("Tab")
                at = page.evaluate("""() => {
                    const of = document.activeElement, style = getComputedStyle(of);
                    return of === document.body ? null : [of.tagName, of.textContent.slice(0, 40),
                        of.getAttribute("aria-label"), style.outlineStyle, style.outlineWidth];
                }""")
                if at is None:
                    break
                reached.append(at)
            with self.subTest(view=view):
                self.assertEqual([at for at in reached if at[3] == "none" or at[4] == "0px"], [])
                names = " ".join(str(at) for at in reached)
                for tab in ("budgets", "latency", "nodes", "backpressure", "runs", "drills"):
                    self.assertIn(tab, names)
        page.goto(self.mesh.url + "/?view=nodes")
        page.get_by_role("button", name="node", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("sort=node"))
        expect(page.locator("tbody tr").first).to_contain_text("node-1")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr").first).to_contain_text("node-3")
        self.assertEqual(self.wrong, [])

    def test_a_wrong_clock_of_the_browser_is_stated_and_changes_no_figure(self):
        shift = "const now = Date.now; Date.now = () => now() + 86400e3;"
        page = self.open("?view=nodes", "tbody tr", lambda of, _: of.add_init_script(shift))
        expect(page.locator(".notice")).to_contain_text("This browser's clock is 24 h ahead of")
        row = page.locator("tbody tr", has_text="node-1")
        expect(row).to_contain_text(re.compile(r"now|\d\ss ago"))
        page.goto(self.mesh.url + "/" + VIEWS["latency"])
        page.wait_for_selector(".readout")
        total = page.locator("main p data").first
        self.assertGreater(int(total.get_attribute("value")), 0)
        self.assertEqual(self.wrong, [])

    def test_a_range_without_samples_and_unknown_names_are_stated(self):
        page = self.open("?view=latency&operation=epoch_hook&from=1000000000000&to=1000000600000",
                         "main p")
        expect(page.locator("main")).to_contain_text(re.compile("no samples in|before|history"))
        page.goto(self.mesh.url + "/?view=node&node=absent")
        expect(page.locator(".problem")).to_contain_text('node "absent" is unknown')
        page.goto(self.mesh.url + "/?view=alert&rule=absent")
        expect(page.locator("main")).to_contain_text("This alert is not active")

    def test_ten_thousand_nodes_of_which_nine_thousand_are_silent(self):
        """The answer of the API is made here: a fleet of this size is measured elsewhere."""
        answer = json.dumps({"at_seconds": time.time(), "nodes": [fake(n) for n in range(10_000)]})
        page = self.open("?view=nodes&group=rack", "tbody tr", lambda _, page: page.route(
            "**/api/v1/headroom", lambda route: route.fulfill(
                body=answer, content_type="application/json")))
        rows = page.get_by_role("region", name="Nodes", exact=True).locator("tbody tr")
        output = page.locator(".controls output")
        expect(output).to_have_text("10,000 of 10,000 nodes listed, 1,000 reporting")
        self.assertLess(rows.count(), 100)
        expect(rows.first).to_contain_text("n00999")
        self.shot(page, "nodes-10000")
        table = page.get_by_role("region", name="Nodes", exact=True)
        table.focus()
        page.keyboard.press("End")
        expect(rows.last).to_contain_text("n09999")
        page.get_by_label("State").select_option("up")
        expect(output).to_contain_text("1,000 of 10,000 nodes listed")
        page.get_by_label("Find").fill("rack=r7 n0")
        expect(output).to_contain_text("100 of 10,000 nodes listed")
        expect(page).to_have_url(re.compile("find=rack%3Dr7"))
        self.assertEqual(self.wrong, [])

    def test_a_tab_that_is_open_for_long_keeps_its_size(self):
        page = self.open("?", ".card")
        client = page.context.new_cdp_session(page)
        client.send("Performance.enable")

        def size():
            for _ in range(3):
                client.send("HeapProfiler.collectGarbage")
            metrics = client.send("Performance.getMetrics")["metrics"]
            of = {metric["name"]: metric["value"] for metric in metrics}
            return of["JSHeapUsedSize"], of["Nodes"], of["JSEventListeners"]

        def walk(times):
            for _ in range(times):
                for where in VIEWS.values():
                    page.evaluate("to => { history.pushState(null, '', to); "
                                  "dispatchEvent(new PopStateEvent('popstate')); }", where)
                    expect(page.locator("[aria-busy=true]")).to_have_count(0)
            page.evaluate("history.pushState(null, '', '?'); "
                          "dispatchEvent(new PopStateEvent('popstate'))")
            expect(page.locator(".card").first).to_be_visible()

        walk(2)
        heap, nodes, listeners = size()
        walk(6)
        later = size()
        self.assertLess(later[0], heap * 1.25 + 500_000)
        self.assertLess(later[1], nodes * 1.25 + 200)
        self.assertLess(later[2], listeners * 1.25 + 20)


class RestartTest(unittest.TestCase):
    """A mesh of its own, without nodes at first, whose aggregator is killed."""

    def start(self, stack):
        """A mesh and a page."""
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        mesh = stack.enter_context(Mesh(PROGRAMS, folder))
        playwright = stack.enter_context(sync_playwright())
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack.callback(browser.close)
        return mesh, browser.new_page()

    def test_a_broker_that_is_gone_makes_every_figure_stale(self):
        with contextlib.ExitStack() as stack:
            mesh, page = self.start(stack)
            mesh.start_node("only")
            for _ in range(8):
                mesh.latencies("only", "epoch_hook", 10, 50)
                time.sleep(0.5)
            page.goto(mesh.url + "/")
            card = page.locator(".card", has_text="epoch_hook")
            expect(card).to_have_class("card within")
            expect(page.locator(".connection")).to_contain_text("live")
            mesh.kill("nats-server")
            expect(page.locator(".connection")).to_contain_text("stale, last data")
            expect(card).to_have_class("card stale", timeout=30_000)
            expect(card).to_contain_text(re.compile(r"no data since \d\d:\d\d:\d\d"))
            expect(page.locator(".fleet")).to_contain_text("0 of 1 node reporting")

    def test_no_data_one_node_and_a_restart(self):
        with contextlib.ExitStack() as stack:
            mesh, page = self.start(stack)
            texts = {
                "?": "No node has sent a message yet",
                "?view=nodes": "No node has sent a message yet",
                "?view=latency": "No operation has been stored yet",
                "?view=alerts": "No active alerts",
                "?view=runs": "No runs yet",
                "?view=backpressure": "balances",
            }
            for where, text in texts.items():
                page.goto(mesh.url + "/" + where)
                expect(page.locator("main")).to_contain_text(text, timeout=10000)
            mesh.start_node("only")
            mesh.latencies("only", "epoch_hook", 10, 50)
            page.goto(mesh.url + "/?view=nodes")
            expect(page.locator("tbody tr")).to_contain_text("only")
            mesh.kill("aggregator")
            expect(page.locator(".notice")).to_contain_text("does not answer", timeout=20000)
            expect(page.locator("tbody tr")).to_contain_text("only")
            mesh.start_aggregator()
            expect(page.locator(".connection")).to_contain_text("live", timeout=40000)
            expect(page.locator(".notice")).to_have_count(0)


def budget(name, verdict):
    """A budget of the fleet as the API has it: 4 ms of 18 ms in a minute."""
    return {
        "budget": name, "operation": name, "scope": "fleet", "quantile": 0.99,
        "limit_ns": 18_000_000, "window": "1m", "samples": 500, "value_ns": 4_000_000,
        "lower_ns": 3_900_000, "upper_ns": 4_100_000, "over": 0, "uncertain": 0, "nodes_late": 0,
        "since_limit": None, "objective": None, "budget_remaining": None, "verdict": verdict,
        "alert": "inactive",
    }


def captured(id, node, state="kept", reason=None, peer=None):
    """A profile as the API has it."""
    is_kept = state == "kept"
    return {
        "id": id, "kind": "cpu", "node": node, "operation": "epoch_hook", "labels": {},
        "seconds": 10, "hz": 100, "start_seconds": time.time() - 60, "rule": "epoch_hook",
        "peer": peer, "state": state, "reason": reason, "bytes": 4096 if is_kept else 0,
        "facts": {"rung": "profiler", "pid": 42, "command": "train.py", "python": "3.12.1",
                  "samples": 1000, "torn": 3, "lost": 0, "advice": "set captures.enabled"},
    }


def flame(name, value, children=()):
    """A node of a flame graph."""
    own = value - sum(child["value"] for child in children)
    return {"name": name, "file": "a.py", "line": 7, "value": value, "self": own,
            "children": list(children)}


def columns(root):
    """The tree as the API has it for the page, each node before what it calls."""
    names, of = {}, {key: [] for key in ("name", "line", "depth", "value", "own", "delta")}

    def add(node, depth):
        name = names.setdefault((node["name"], node["file"]), len(names))
        row = {"name": name, "line": node["line"], "depth": depth, "value": node["value"],
               "own": node["self"]} | ({"delta": node["delta"]} if "delta" in node else {})
        for key, value in row.items():
            of[key].append(value)
        for child in node["children"]:
            add(child, depth + 1)

    add(root, 0)
    most = max((abs(delta) for delta in of["delta"]), default=0)
    # By function and by module; which they are is up to the API.
    names = [[name, file, f"of {name}", f"of {file}"] for name, file in names]
    return {"names": names, "deltaMax": most, **of}


# How long a change takes until it is painted.
DURATION = """async ([what, of]) => {
    const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    await painted();
    const from = performance.now();
    if (what === "input") {
        const input = document.querySelector("section input[type=search]");
        input.value = of;
        input.dispatchEvent(new Event("input", { bubbles: true }));
    } else if (what === "click") {
        document.getElementById(of).dispatchEvent(new MouseEvent("click", { bubbles: true }));
    } else {
        document.getElementById(of).dispatchEvent(
            new KeyboardEvent("keydown", { key: what, bubbles: true }));
    }
    await painted();
    return performance.now() - from;
}"""


# From the request for a flame graph until it is painted, coming from another view.
FIRST_PAINT = """async where => {
    const go = to => {
        history.pushState(null, "", to);
        dispatchEvent(new PopStateEvent("popstate"));
    };
    const until = async ready => {
        while (!ready()) await new Promise(done => requestAnimationFrame(done));
    };
    const drawn = () => document.querySelector(".flame");
    go("?view=profiles");
    await until(() => !drawn());
    go(where);
    await until(drawn);
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const requests = performance.getEntriesByType("resource");
    const from = requests.filter(of => of.name.includes("flame.json")).at(-1).startTime;
    return performance.now() - from;
}"""


def forest(size):
    """A tree of this many functions below its root: each calls up to four, to 40 levels."""
    random = Random(7)
    nodes = [[n, 0, []] for n in range(size)]
    for n, depth, _below in nodes[50:]:
        caller = nodes[random.randrange(n)]
        while len(caller[2]) >= 4 or caller[1] >= 40:
            caller = nodes[random.randrange(n)]
        nodes[n][1] = caller[1] + 1
        caller[2].append(n)

    def build(n):
        children = [build(child) for child in nodes[n][2]]
        own = random.randint(1, 20) * 10_000_000
        return flame(f"f{n % 9_000}", own + sum(child["value"] for child in children), children)

    roots = [build(n) for n in range(50)]
    return flame("all", sum(root["value"] for root in roots), roots)


def fake(n):
    """A node as the API has it: the first thousand are up, and the later the slower."""
    up = n < 1000
    limit = 18_000_000
    value = limit * (n + 1) // 900
    least = {
        "budget": "epoch_hook", "operation": "epoch_hook", "limit_ns": limit, "value_ns": value,
        "headroom": 1 - value / limit, "samples": 500,
        "verdict": "breach" if value > limit else "within",
    }
    return {
        "node": f"n{n:05}", "presence": "up" if up else "silent",
        "labels": {"rack": f"r{n % 10}"}, "last_seen_seconds": time.time() - (1 if up else 600),
        "outbox_depth": n % 4, "rerouted": 0, "dropped": 0,
        "alert": "firing" if up and value > limit else "inactive", "least": least if up else None,
    }


if __name__ == "__main__":
    unittest.main()
