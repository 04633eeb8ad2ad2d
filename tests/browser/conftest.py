"""A headless Chromium, driven by Playwright; tests are skipped only where none is installed."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTH, HEIGHT = 1280, 1000


@dataclass
class Opened:
    """A page in the browser, with what went wrong there and what it asked the network for."""

    page: Page
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[[Path], Opened]


def chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    found = chromium()
    if found is None:
        if os.environ.get("SCHEDBENCH_BROWSER") == "required":
            pytest.fail("SCHEDBENCH_BROWSER=required, and no Chromium is on the PATH")
        pytest.skip(f"no Chromium on the PATH ({', '.join(NAMES)}): apt-get install chromium")
    with sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=found,
            headless=True,
            args=list(ARGUMENTS),
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="light",
        )
        yield context
        context.close()


@pytest.fixture
def opened(browser: BrowserContext) -> Iterator[Open]:
    """Open a file; at the end no error may have been said and nothing been asked for."""
    found: list[Opened] = []

    def open_page(path: Path) -> Opened:
        shown = Opened(browser.new_page())
        shown.page.on("console", lambda message: _note(shown, message))
        shown.page.on("pageerror", lambda error: shown.faults.append(str(error)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(path.as_uri())
        shown.page.wait_for_selector("body[data-ready]")
        found.append(shown)
        return shown

    yield open_page
    for each in found:
        each.page.close()
        assert each.faults == []
        assert [url for url in each.requests if not url.startswith("file:")] == []


def _note(shown: Opened, message: Any) -> None:  # noqa: ANN401 - Playwright's
    if message.type in ("error", "warning"):
        shown.faults.append(message.text)
