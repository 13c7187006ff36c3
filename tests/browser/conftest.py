"""A headless Chromium, or a skip that says what is missing."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests; $CHROMIUM names it, else it is looked for."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright absent: pip install concrete-score[browser]"
    )
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium found: install one (Debian: apt-get install chromium), or set CHROMIUM to its path")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield running
        running.close()
