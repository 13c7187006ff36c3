"""The built site in a browser: no page is wider than a phone, loads anything from elsewhere or complains."""

from pathlib import Path

import pytest

SITE = Path(__file__).parent.parent.parent / "build" / "docs"

pytestmark = pytest.mark.browser


def test_every_page_fits_a_phone_and_fetches_nothing(browser):
    pages = sorted(SITE.rglob("*.html"))
    if not pages:
        pytest.skip("no site in build/docs: run `make docs` first")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    outside, errors, wide = [], [], []
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or outside.append(request.url))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    for path in pages:
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(path.name)
    page.close()
    assert (outside, errors, wide) == ([], [], [])
