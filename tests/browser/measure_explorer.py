"""How long a click takes until the page has its answer, and pictures of the page.

    python -m tests.browser.measure_explorer RUN NAME [--start DATA] [--press COLUMN=LABEL]… [--clicks N] --out DIR

Writes ``NAME-desktop.png`` and ``NAME-phone.png``; with ``--clicks`` also ``NAME.json``: milliseconds from a press on a
random bar until all other columns show their distributions, in a Chromium on this machine.
"""

import json
import os
import random
import shutil
import statistics
from pathlib import Path

import click

from concrete_score.model import Model
from tests.browser.conftest import FLAGS, NAMES
from tests.explorer.cases import serving

QUIET = 'html[data-ready][data-busy="0"]:not([data-waiting="1"])'
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@click.command()
@click.argument("run")
@click.argument("name")
@click.option("--start")
@click.option("--press", multiple=True)
@click.option("--paint", default="", help="row,column;… of pixels to paint white")
@click.option("--clicks", default=0)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def measure(run: str, name: str, start: str | None, press: tuple[str, ...], paint: str, clicks: int, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    model = Model.open(run)
    given = None if start is None else model.read(start, filling=True)
    binary = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)))
    out.mkdir(parents=True, exist_ok=True)
    with serving(model, given) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
        for size, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(site.url)
            page.wait_for_selector(QUIET, state="attached", timeout=300_000)
            if size == "desktop" and clicks:
                (out / f"{name}.json").write_text(json.dumps(timed(page, clicks), indent=1) + "\n")
            for text in press:
                column, _, label = text.partition("=")
                page.locator(f'[data-column="{column}"] .bar[data-label="{label}"]').click()
                page.wait_for_selector(QUIET, state="attached", timeout=300_000)
            for pixel in filter(None, paint.split(";")):
                down, right = map(int, pixel.split(","))
                box, (rows, columns) = page.locator("canvas.paint").bounding_box(), model.codec.shape
                page.mouse.click(
                    box["x"] + (right + 0.5) * box["width"] / columns, box["y"] + (down + 0.5) * box["height"] / rows
                )
            page.wait_for_selector(QUIET, state="attached", timeout=300_000)
            page.mouse.move(0, 0)
            page.screenshot(path=out / f"{name}-{size}.png", full_page=size == "desktop")
        browser.close()


def timed(page, clicks: int) -> dict:
    """Milliseconds of presses on random bars."""
    rng, taken, whole = random.Random(0), [], []
    for _ in range(clicks):
        bars = page.query_selector_all(".bars .bar")
        rng.choice(bars).click()
        page.wait_for_selector(QUIET, state="attached", timeout=300_000)
        taken.append(float(page.evaluate("document.documentElement.dataset.answered")))
        whole.append(float(page.evaluate("document.documentElement.dataset.whole || 'NaN'")))
    ordered = sorted(taken)
    return {
        "clicks": clicks,
        "median_ms": round(statistics.median(taken), 1),
        "tenth_ms": round(ordered[len(ordered) // 10], 1),
        "ninetieth_ms": round(ordered[9 * len(ordered) // 10], 1),
        "everything_median_ms": round(statistics.median(whole), 1),
        "what": "from a press on a bar until all other columns show their distributions; 'everything' until the"
        " draws, the log-probability and the best changes stand there too",
    }


if __name__ == "__main__":
    measure()
