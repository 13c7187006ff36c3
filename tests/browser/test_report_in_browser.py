"""``report.html`` in a browser: wide and narrow, light and dark, without a message in the console."""

import json

import pytest

from concrete_score.likelihood import Budget
from concrete_score.report import write_report
from tests.report import cases

pytestmark = pytest.mark.browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
LEAST_SVG, LEAST_HTML = 10.0, 12.5
"""Pixels: the smallest text in charts, and elsewhere."""

OVERLAPS = """() => [...document.querySelectorAll("svg.chart")].flatMap(svg => {
  const words = [...svg.querySelectorAll("text:not([transform])")].map(t => [t.textContent, t.getBoundingClientRect()]);
  return words.flatMap(([a, p], i) => words.slice(i + 1).filter(([b, q]) =>
    p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2).map(([b]) => [a, b]));
})"""
SMALL = """([svg, html]) => [...document.querySelectorAll("body *")].filter(e => {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.closest("style, title, desc, .unseen")) return false;
  const picture = e.ownerSVGElement;
  const scale = picture ? picture.getBoundingClientRect().width / picture.viewBox.baseVal.width : 1;
  return parseFloat(getComputedStyle(e).fontSize) * scale < (picture ? svg : html);
}).map(e => e.outerHTML.slice(0, 120))"""
CUT = """() => [...document.querySelectorAll("h1, h2, p, li, dt, dd, caption, summary, svg.chart")].filter(e =>
  e.checkVisibility() && !e.closest(".scroll, .skip") && e.getBoundingClientRect().right > innerWidth + 0.5
).map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The reports of one run of each kind of model, and of one whose names contain markup."""
    patch = pytest.MonkeyPatch()
    patch.setattr("concrete_score.diagnostics.mixing.KEPT", 60)
    patch.setattr("concrete_score.diagnostics.mixing.LIMITED_THIN", 1)
    patch.setattr("concrete_score.diagnostics.mixing.SWEEPS", 8)
    few = Budget(steps=5, chains=4, raise_chains=2, bound_rows=10, pilot_steps=2, pilot_chains=4)
    patch.setattr("concrete_score.report.likelihood.BOUNDS", few)
    folder, found = tmp_path_factory.mktemp("reports"), {}
    for kind, recipe in cases.RECIPES.items():
        columns = 18 if kind == "energy" else 7
        found[kind] = write_report(*cases.make_run(folder / kind, cases.table(cases.columns(columns)), recipe))
    hostile = cases.table([*cases.HOSTILE, *cases.columns(30)], values=cases.VALUES)
    found["hostile"] = write_report(*cases.make_run(folder / "hostile", hostile))
    patch.undo()
    return found


class Visit:
    """A page opened once, with its console messages, errors and requests."""

    def __init__(self, browser, path, size, scheme):
        self.context = browser.new_context(
            viewport=dict(zip(("width", "height"), SIZES[size], strict=True)), color_scheme=scheme
        )
        self.page, self.heard, self.asked = self.context.new_page(), [], []
        self.page.on("console", lambda message: self.heard.append(message.text))
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.heard.append(dialog.message), dialog.dismiss()))
        self.page.on("requestfailed", lambda request: self.heard.append(request.url))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [*cases.RECIPES, "hostile"])
def test_it_is_whole_quiet_and_readable(browser, pages, kind, size, scheme):
    with Visit(browser, pages[kind], size, scheme) as visit:
        page = visit.page
        assert visit.heard == []
        assert visit.asked == [pages[kind].as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        assert page.evaluate(CUT) == []
        assert page.evaluate(OVERLAPS) == []
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate(SMALL, [LEAST_SVG, LEAST_HTML]) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        assert page.locator("section").count() == 9
        for section in page.locator("section").all():
            box = section.bounding_box()
            assert box["height"] > 80
            assert section.locator("h2").inner_text()
        for chart in page.locator("svg.chart").all():
            assert chart.bounding_box()["width"] > 250
            assert chart.get_attribute("aria-label")
        assert visit.heard == []


def test_light_and_dark_differ_and_both_follow_the_system(browser, pages):
    grounds = {}
    for scheme in ("light", "dark"):
        with Visit(browser, pages["made"], "desktop", scheme) as visit:
            words = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
            grounds[scheme] = sum(json.loads(words.replace("rgb(", "[").replace(")", "]")))
    assert grounds["light"] > 3 * 200
    assert grounds["dark"] < 3 * 60


def test_links_and_folds_work_without_a_script(browser, pages):
    with Visit(browser, pages["made"], "phone", "light") as visit:
        page = visit.page
        page.get_by_role("link", name="Example rows").click()
        assert page.url.endswith("#example-rows")
        fold = page.locator("#example-rows details")
        assert not fold.locator("table").is_visible()
        fold.locator("summary").click()
        assert fold.locator("table").is_visible()
        assert page.evaluate("document.scripts.length") == 0


def test_strange_names_are_shown_and_not_obeyed(browser, pages):
    with Visit(browser, pages["hostile"], "desktop", "light") as visit:
        page = visit.page
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.locator("#configuration").get_by_text(cases.SCRIPT, exact=True).is_visible()
        assert page.evaluate("[document.scripts.length, document.images.length]") == [0, 0]
        assert page.locator("section").first.is_visible()
        # Even an injected script would not run: the page's policy forbids all of them.
        page.evaluate(
            "() => { const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s) }"
        )
        assert page.evaluate("window.ran") is None
