"""``csm explore`` in a browser: what is shown is the model's, nothing comes from outside, and no click breaks it."""

import random
import re

import numpy as np
import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette absent: pip install concrete-score[explore]")

from concrete_score.data.frame import Form, Frame
from concrete_score.model import Model
from tests.explorer.cases import RUNS, TOKEN, serving
from tests.report import cases

pytestmark = pytest.mark.browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
QUIET = 'html[data-ready][data-busy="0"]:not([data-waiting="1"])'
"""The page when nothing is asked. Its policy forbids to wait by a script that is evaluated."""
SHOWN = """() => Object.fromEntries([...document.querySelectorAll("[data-column]")].map(card => [card.dataset.column,
  Object.fromEntries([...card.querySelectorAll(".bar")].map(bar =>
    [bar.dataset.label, Number(bar.dataset.probability)]))]))"""
CUT = """() => [...document.querySelectorAll("h1, h2, h3, p, li, button, input, section, figure")].filter(e =>
  e.checkVisibility() && !e.closest(".scroll, .skip, .unseen") && e.getBoundingClientRect().right > innerWidth + 0.5
).map(e => e.outerHTML.slice(0, 120))"""
NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, canvas[tabindex]")].filter(e =>
  !(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.textContent.trim()
).map(e => e.outerHTML.slice(0, 120))"""
SMALL = """() => [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.closest(".unseen")
  && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
  && parseFloat(getComputedStyle(e).fontSize) < 12.5).map(e => e.outerHTML.slice(0, 120))"""

MADE = "[document.scripts.length, document.images.length, document.querySelectorAll('b').length]"
INJECT = "() => { const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s) }"


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A server of each kind of run, started when it is first asked for."""
    from contextlib import ExitStack

    found = {}
    with ExitStack() as stack:

        def site(kind):
            if kind not in found:
                model = Model.open(RUNS[kind](tmp_path_factory.mktemp(kind) / "run"))
                found[kind] = stack.enter_context(serving(model))
            return found[kind]

        yield site


class Visit:
    """The page of a run, with its console messages, errors and requests."""

    def __init__(self, browser, site, size="desktop", scheme="light"):
        viewport = dict(zip(("width", "height"), SIZES[size], strict=True))
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme)
        self.page, self.heard, self.asked = self.context.new_page(), [], []
        self.page.on("console", lambda message: self.heard.append(message.text))
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.heard.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(site.url)
        self.settle()

    def settle(self):
        self.page.wait_for_selector(QUIET, state="attached", timeout=120_000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def press(visit, column, label):
    """Press a bar."""
    visit.page.locator(f'[data-column="{column}"] .bar[data-label="{label}"]').click()
    visit.settle()


def model_shows(model, **values):
    """What `Model.probabilities` says of a row's blanks."""
    cells = {name: pl.Series([values.get(name)], dtype=pl.String) for name in model.codec.names}
    given = model.read(Frame(pl.DataFrame(cells), Form("csv"), "row"), filling=True)
    found = {}
    for column, value, share in model.probabilities(given).table.select("column", "value", "probability").rows():
        found.setdefault(column, {})[value] = share
    return found


def test_conditionals_shown_are_the_models(browser, sites):
    site = sites("clinic")
    with Visit(browser, site) as visit:
        for values in ({}, {"smoke": "yes"}, {"smoke": "yes", "ill": "True"}):
            for column, label in list(values.items())[-1:]:
                press(visit, column, label)
            shown, theirs = visit.page.evaluate(SHOWN), model_shows(site.model, **values)
            assert set(theirs) == set(site.model.codec.names) - set(values)
            for column, shares in theirs.items():
                assert shown[column] == pytest.approx(shares, abs=1e-6)
            assert visit.page.get_by_text("Exact: every way to fill the other columns was counted.").is_visible()
        log_value = float(visit.page.locator("[data-log-probability]").get_attribute("data-log-probability"))
        assert log_value == pytest.approx(site.model.probability({"smoke": "yes", "ill": "True"}).log_value, abs=1e-6)
        ratio = float(visit.page.locator(".change").first.get_attribute("data-log-ratio"))
        frame = pl.DataFrame({"smoke": ["yes"], "age": [None], "ill": ["True"]}, schema_overrides={"age": pl.Int64})
        assert ratio == pytest.approx(site.model.explain(frame)["log_ratio"][0], abs=1e-6)
        visit.page.get_by_role("button", name="unset smoke").click()
        visit.settle()
        assert visit.page.evaluate(SHOWN)["smoke"] == pytest.approx(
            model_shows(site.model, ill="True")["smoke"], abs=1e-6
        )
        assert visit.heard == []


def test_numbers_are_set_by_typing_and_by_their_ranges(browser, sites):
    site = sites("numbers")
    with Visit(browser, site) as visit:
        page = visit.page
        page.get_by_label("Set age", exact=True).fill(">= 40")
        page.get_by_label("Set age", exact=True).press("Enter")
        visit.settle()
        shown = page.evaluate(SHOWN)
        drawn = site.model.sample(1024, ["age>=40"])
        assert shown["ill"]["yes"] == pytest.approx((drawn["ill"] == "yes").mean(), abs=1e-6)
        assert "Counted in 1,024 draws" in page.locator("[data-part=how]").inner_text()
        assert "standard error" in page.locator("[data-part=how]").inner_text()
        page.get_by_label("Set age", exact=True).fill("")
        page.get_by_label("Set age", exact=True).press("Enter")
        visit.settle()
        bar = page.locator('[data-column="age"] .bar').nth(5)
        bar.click()
        visit.settle()
        assert bar.get_attribute("aria-pressed") == "true"
        assert float(bar.get_attribute("data-probability")) == pytest.approx(1, abs=1e-6)
        page.get_by_label("Set city", exact=True).fill("Atlantis")
        page.get_by_label("Set city", exact=True).press("Enter")
        visit.settle()
        assert "a value of 'city' seen in training" in page.get_by_role("alert").inner_text()
        assert visit.heard == []


def test_a_page_of_elsewhere_gets_nothing(browser, sites):
    site = sites("clinic")
    context = browser.new_context()
    page = context.new_page()
    assert page.goto(f"http://127.0.0.1:{site.port}/").status == 403
    assert page.goto(f"http://127.0.0.1:{site.port}/{TOKEN[::-1]}/").status == 403
    context.close()
    # A name of elsewhere that was made to point here: the browser believes it is that host's own page.
    import os
    import shutil

    from tests.browser.conftest import FLAGS, NAMES

    binary = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)))
    flags = [*FLAGS, "--host-resolver-rules=MAP rebound.example 127.0.0.1"]
    rebound = browser.browser_type.launch(executable_path=binary, args=flags)
    try:
        page = rebound.new_page()
        found = page.goto(f"http://rebound.example:{site.port}/{TOKEN}/")
        assert found.status == 421
        assert "refused" in page.inner_text("body")
    finally:
        rebound.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", RUNS)
def test_it_is_whole_quiet_readable_and_loads_nothing_from_outside(browser, sites, kind, size, scheme):
    site = sites(kind)
    with Visit(browser, site, size, scheme) as visit:
        page = visit.page
        assert visit.heard == []
        assert {url[: len(site.url)] for url in visit.asked} == {site.url}
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        for fault in (CUT, NAMELESS, SMALL):
            assert page.evaluate(fault) == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) > 600) == (scheme == "light")


def test_strange_names_are_shown_and_not_obeyed(browser, sites):
    with Visit(browser, sites("hostile")) as visit:
        page = visit.page
        assert page.get_by_role("heading", name=cases.SCRIPT, exact=True).is_visible()
        for index in range(4):
            page.locator(".card").nth(index).locator(".bar").nth(index % 3).click()
            visit.settle()
        assert page.locator(".chip").count() == 4
        assert page.locator(".chip").get_by_text(f"{cases.SCRIPT} = {min(cases.VALUES)}", exact=True).is_visible()
        assert page.evaluate(MADE) == [1, 0, 0]
        page.evaluate(INJECT)
        assert page.evaluate("window.ran") is None
        assert all("Content Security Policy" in message for message in visit.heard)
        assert len(visit.heard) == 1


def test_pixels_are_painted_by_mouse_and_keys_and_the_rest_fills_in(browser, sites):
    with Visit(browser, sites("image")) as visit:
        page, canvas = visit.page, visit.page.locator("canvas.paint")
        page.get_by_label("passes from noise").select_option("20")
        visit.settle()
        box = canvas.bounding_box()
        page.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 0.1 * box["height"])
        visit.settle()
        assert page.get_by_text("1 of 20 pixels are painted").is_visible()
        assert page.evaluate("[...document.querySelectorAll('.picture')].map(p => p.levels[0])") == [1] * 9
        canvas.focus()
        for key in ("ArrowRight", "ArrowDown", "Space"):
            page.keyboard.press(key)
        visit.settle()
        assert page.evaluate("[...document.querySelectorAll('.picture')].map(p => p.levels[6])") == [1] * 9
        page.get_by_role("button", name="take completion 3").click()
        visit.settle()
        assert page.get_by_text("20 of 20 pixels are painted").is_visible()
        assert page.locator(".change").count() == 6
        assert visit.heard == []


def test_the_map_of_a_sequence_is_the_models_and_changes_it(browser, sites):
    site = sites("sequence")
    with Visit(browser, site) as visit:
        page, field = visit.page, visit.page.get_by_label("One of 5 positions")
        field.fill("ACDEA")
        field.blur()
        visit.settle()
        theirs = site.model.log_ratios(["ACDEA"]).reshape(5, 4)
        canvas = page.get_by_role("application")
        canvas.focus()
        for right in range(5):
            for down in range(4):
                assert (canvas.get_attribute("data-site"), canvas.get_attribute("data-to")) == (
                    str(11 + right),
                    "ACDE"[down],
                )
                assert float(canvas.get_attribute("data-log-ratio")) == pytest.approx(theirs[right, down], abs=1e-6)
                page.keyboard.press("ArrowDown")
            for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowRight"):
                page.keyboard.press(key)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        visit.settle()
        assert field.input_value() == "ACDEC"
        best = float(page.locator(".change").first.get_attribute("data-log-ratio"))
        assert best == pytest.approx(np.max(site.model.log_ratios(["ACDEC"])), abs=1e-6)
        field.fill("NO")
        field.blur()
        visit.settle()
        assert "5 positions" in page.get_by_role("alert").inner_text()
        assert visit.heard == []


WORDS = ("", "yes", "40", ">= 40", "20..30", "<", "!=", "<img src=x onerror=alert(1)>", "ACDEA", "A?DEA", "€")


def interact(page, target, rng):
    """Type into it, press keys on it, or click it."""
    if target.evaluate("e => e.tagName") in ("INPUT", "TEXTAREA"):
        target.fill(rng.choice(WORDS), timeout=2000)
        target.press("Tab", timeout=2000)
    elif rng.random() < 0.2:
        target.focus()
        page.keyboard.press(rng.choice(["ArrowRight", "ArrowDown", "Home", "End", "Enter", "Space", "Tab"]))
    else:
        target.click(timeout=2000)


@pytest.mark.parametrize(("kind", "times"), [("clinic", 120), ("numbers", 40), ("sequence", 30), ("image", 10)])
def test_random_interactions_leave_no_error(browser, sites, kind, times):
    """Two hundred in all: clicks, keys and typing, often before the last answer has come."""
    sync_api = pytest.importorskip("playwright.sync_api")
    rng = random.Random(0)
    site = sites(kind)
    with Visit(browser, site, rng.choice(list(SIZES))) as visit:
        page = visit.page
        done = 0
        while done < times:
            target = rng.choice(page.query_selector_all("button:enabled, input, textarea, canvas[tabindex]"))
            try:
                interact(page, target, rng)
            except sync_api.Error as error:  # what was chosen is gone: an answer came and took its place
                gone = re.search("Timeout|not attached|not visible", str(error))
                if not gone:
                    raise
                continue
            done += 1
            if rng.random() < 0.3:
                visit.settle()
        visit.settle()
        assert visit.heard == []
        assert {url[: len(site.url)] for url in visit.asked} == {site.url}
