"""Takes the pictures of docs/report.md: `python docs/make_report_pictures.py`. Needs Chromium.

Replays the shipped sample on too small a pool, writes the reports and opens them headless.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 1100
CROWDED = ("--speedup", "3", "--max-num-seqs", "128", "--num-gpu-blocks", "2000")
MARKED = (*CROWDED, "--watermark", "0.05")
GRID = ("--speedup", "3", "--max-num-seqs", "32:256:x2", "--num-gpu-blocks", "1500,2000,4000,8000")
SLO = ("--slo", "ttft:5s,tpot:50ms")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        root = Path(folder)
        _schedbench(root, "replay", *CROWDED, "--out", "runs/crowded")
        _schedbench(root, "replay", *MARKED, "--out", "runs/watermark")
        _schedbench(root, "sweep", *GRID, *SLO, "--out", "runs/sweep")
        _schedbench(root, "report", "runs/crowded", "-o", "run.html")
        _schedbench(root, "report", "runs/crowded", "runs/watermark", "-o", "comparison.html")
        _schedbench(root, "report", "runs/sweep", "-o", "sweep.html")
        browser = driver.chromium.launch_persistent_context(
            root / "profile",
            executable_path=shutil.which("chromium"),
            headless=True,
            args=ARGUMENTS,
            viewport={"width": WIDTH, "height": 700},
        )
        _take(_open(browser, root / "run.html", "#time"), "run", 700)
        _take(_with_row(_open(browser, root / "run.html", "#time")), "pass", 800)
        _take(_open(browser, root / "comparison.html", "#time", dark=True), "comparison", 700)
        _take(_open(browser, root / "sweep.html", "#heat"), "sweep", 1060)
        browser.close()


def _schedbench(root: Path, *words: str) -> None:
    command = [sys.executable, "-m", "schedbench", *words]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)


def _open(browser: BrowserContext, path: Path, anchor: str, *, dark: bool = False) -> Page:
    page = browser.new_page()
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    page.evaluate("place => document.querySelector(place).scrollIntoView()", anchor)
    return page


def _with_row(page: Page) -> Page:
    """The passes around an eviction, and the row of the one that evicted."""
    page.locator("[data-panel=preempted] button").nth(20).click()
    page.click("[data-row=zoom]")
    page.evaluate("document.querySelector('#time').scrollIntoView()")
    return page


def _take(page: Page, name: str, height: int) -> None:
    path = PICTURES / f"report-{name}.png"
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    page.close()


if __name__ == "__main__":
    main()
