"""Makes the picture of the page in the README: ten minutes of a mesh of three nodes, one of which
slows down twice.

    PLIMSOLL_PROGRAMS=target/debug python tests/python/page/picture.py aggregator/page/latency.png
"""

import os
import pathlib
import shutil
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

from mesh import Mesh

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = os.environ.get("PLIMSOLL_PROGRAMS", ROOT / "target/debug")
MINUTES = 10


def is_slow(seconds):
    """Whether the second node is slow: from the fourth minute to the sixth, and at the end."""
    return 200 < seconds < 340 or seconds > 500


def main():
    """Feeds the mesh, then takes the picture."""
    with tempfile.TemporaryDirectory() as folder, Mesh(PROGRAMS, folder) as mesh:
        nodes = ["node-1", "node-2", "node-3"]
        for node in nodes:
            mesh.start_node(node)
        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < 60 * MINUTES:
            for node in nodes:
                slow = node == "node-2" and is_slow(elapsed)
                mesh.latencies(node, "epoch_hook", 38 if slow else 9, 24)
            time.sleep(0.25)
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            end = time.time()
            span = f"from={(end - 60 * MINUTES + 20) * 1000:.0f}&to={end * 1000:.0f}"
            page.goto(f"{mesh.url}/?view=latency&operation=epoch_hook&{span}")
            chart = page.get_by_role("application", name="Heatmap of epoch_hook")
            chart.wait_for()
            box = chart.bounding_box()
            page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.3 * box["height"])
            page.wait_for_function("document.querySelector('output').textContent.includes('of')")
            page.screenshot(path=sys.argv[1])
            browser.close()


if __name__ == "__main__":
    main()
