"""What the page costs: bytes, time to first paint and to data, frame times while it is live, and CPU
time of the aggregator for each open page.

    python tests/python/page/figures.py http://127.0.0.1:9900 [PAGES]

Measure on a fleet: `drill-fleet --nodes 10000 --seconds 200 --dir DIR`; the aggregator's address is
in the first lines of DIR/aggregator.log. Prints one line of JSON.
"""

import json
import re
import shutil
import sys
import time
import urllib.request

from playwright.sync_api import sync_playwright

FRAMES = """milliseconds => new Promise(done => {
    const times = []; let last = performance.now(); const begun = last;
    const frame = now => {
        times.push(now - last); last = now;
        now - begun < milliseconds ? requestAnimationFrame(frame) : done(times);
    };
    requestAnimationFrame(frame);
})"""
DATA = """() => new Promise(done => {
    const look = () => document.querySelector("tbody tr td, .card data")
        ? done(performance.now()) : setTimeout(look, 2);
    look();
})"""
TRIES = 5
LIVE_SECONDS = 10


def get(url):
    """Body and the bytes of its compressed form."""
    headers = {"Accept-Encoding": "gzip", "Accept": "text/html"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
        return response.read()


def cpu(url):
    """CPU seconds that the aggregator has used."""
    with urllib.request.urlopen(f"{url}/metrics") as response:
        text = response.read().decode()
    return float(re.search(r"^process_cpu_seconds_total (\S+)", text, re.M)[1])


def loads(browser, url, view):
    """Milliseconds to the first paint and to data: medians of several loads without a cache."""
    paints, data = [], []
    for _ in range(TRIES):
        context = browser.new_context(viewport={"width": 1360, "height": 900})
        page = context.new_page()
        page.goto(url + view, wait_until="commit")
        data.append(page.evaluate(DATA))
        paints.append(page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"))
        context.close()
    return sorted(paints)[TRIES // 2], sorted(data)[TRIES // 2]


def main():
    """Prints the figures."""
    url, pages = sys.argv[1].rstrip("/"), int(sys.argv[2]) if len(sys.argv) > 2 else 8
    figures = {"bytes": sum(len(get(f"{url}/{file}")) for file in ("", "page.js", "page.css"))}
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, view in (("budgets", "/"), ("nodes", "/?view=nodes")):
            paint, data = loads(browser, url, view)
            figures[f"{name}_paint_ms"], figures[f"{name}_data_ms"] = round(paint), round(data)
        page = browser.new_page()
        page.goto(f"{url}/?view=nodes")
        page.wait_for_selector("tbody tr td")
        frames = sorted(page.evaluate(FRAMES, LIVE_SECONDS * 1000))
        figures["frame_p50_ms"] = round(frames[len(frames) // 2], 1)
        figures["frame_p99_ms"] = round(frames[len(frames) * 99 // 100], 1)
        page.close()
        figures["cpu_without_pages"] = spent(url)
        opened = [browser.new_page() for _ in range(pages)]
        for page in opened:
            page.goto(url)
            page.wait_for_selector(".card")
        figures["cpu_with_pages"] = spent(url)
        figures["pages"] = pages
        per_page = (figures["cpu_with_pages"] - figures["cpu_without_pages"]) / pages
        figures["cpu_per_page"] = round(per_page, 4)
        browser.close()
    print(json.dumps(figures))


def spent(url):
    """Share of a core that the aggregator uses."""
    before, begun = cpu(url), time.monotonic()
    time.sleep(LIVE_SECONDS)
    return round((cpu(url) - before) / (time.monotonic() - begun), 4)


if __name__ == "__main__":
    main()
