"""Markup is escaped in one place, charts put numbers where they belong, and every text can be read on its ground."""

import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.report.charts import (
    Dot,
    Interval,
    Line,
    Mark,
    Scale,
    heat_map,
    interval_chart,
    line_chart,
    scatter,
    ticks,
)
from concrete_score.report.examples import KINDS, STEPS, kind_of
from concrete_score.report.html import Html, join, number, tag, text

STYLE = files("concrete_score.report").joinpath("style.css").read_text()


class Reader(HTMLParser):
    """The elements of a page in order, and its text; unbalanced markup is an error."""

    VOID = ("meta", "br", "img")

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


@given(st.text(), st.text())
def test_any_text_stays_text_in_content_and_in_attributes(content, value):
    page = Reader(tag("p", content, title=value))
    assert [name for name, _ in page.elements] == ["p"]
    assert all(c.isprintable() for c in page.text)
    if content.isprintable() and value.isprintable():
        assert (page.text, page.elements[0][1]) == (content, {"title": value})


def test_markup_is_not_escaped_twice_and_plain_text_made_of_it_is_plain():
    bold = tag("b", "x & y")
    assert tag("p", bold) == "<p><b>x &amp; y</b></p>"
    assert isinstance(join([bold]), Html)
    assert not isinstance(f"{bold}", Html)
    assert text(f"{bold}!").startswith("&lt;b&gt;")
    assert tag("p", hidden=True, lang=None, inert=False) == '<p hidden=""></p>'
    assert tag("p", 0, [1, (2, None)], "") == "<p>012</p>"


def test_names_of_elements_and_attributes_are_never_data():
    for name in ("p onclick=x", "", "a>b"):
        with pytest.raises(ValueError, match="no name"):
            tag(name)
        with pytest.raises(ValueError, match="no name"):
            tag("p", **{name: 1})


def test_lone_surrogates_can_be_written():
    assert text("\udc80").encode() == b"\\udc80"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_few_and_inside(low, size, count):
    marks = ticks(low, low + size, count)
    assert 1 <= len(marks) <= 2.6 * count + 1
    steps = [b - a for a, b in pairwise(marks)]
    assert all(abs(step - steps[0]) <= 1e-6 * max(1, abs(low)) for step in steps)
    assert all(low - 1e-6 * size - 1e-9 <= mark <= low + size * (1 + 1e-6) + 1e-9 for mark in marks)


def test_numbers_keep_their_sign_and_never_say_minus_zero():
    assert [number(v, 2) for v in (-0.001, 0.0, -1.5)] == ["0.00", "0.00", "−1.50"]
    assert number(float("nan")) == number(None) == "–"
    assert number(1234.5, 1, sign=True) == "+1,234.5"


def test_points_lie_where_their_numbers_say():
    chart = Reader(
        line_chart(
            [Line("model", [(0.0, 1.0), (50.0, 3.0), (100.0, 2.0)])],
            x_label="x",
            y_label="y",
            title="t",
            description="w",
            marks=[Mark(50.0, "m")],
        )
    )
    places = next(a["points"] for name, a in chart.elements if name == "polyline").split()
    (x0, y0), (x1, y1), (x2, y2) = (map(float, place.split(",")) for place in places)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y2 == pytest.approx(y2 - y1, abs=0.2)
    assert y1 < y2 < y0  # up is less in SVG
    mark = next(a for name, a in chart.elements if name == "line" and a.get("class") == "mark")
    assert float(mark["x1"]) == float(mark["x2"]) == x1

    dots = Reader(
        scatter([Dot(0.25, 0.25, "a"), Dot(1.0, 0.0, "b")], x_label="x", y_label="y", title="t", description="w")
    )
    circles = [(float(a["cx"]), float(a["cy"])) for name, a in dots.elements if name == "circle"]
    line = next(a for name, a in dots.elements if a.get("class") == "diagonal")
    slope = (float(line["y2"]) - float(line["y1"])) / (float(line["x2"]) - float(line["x1"]))
    assert circles[0][1] == pytest.approx(float(line["y1"]) + slope * (circles[0][0] - float(line["x1"])), abs=0.2)
    assert circles[1] == (float(line["x2"]), float(line["y1"]))


def test_charts_stay_within_their_frame_whatever_comes():
    flat = [(float(k), 1e9) for k in range(5000)]
    charts = [
        line_chart([Line("data", [(7.0, -3.0)])], x_label="x", y_label="y", title="t", description="w"),
        line_chart([Line("data", flat)], x_label="", y_label="", title="", description=""),
        interval_chart([Interval("a", -1e6, 0.0, "model")], x_label="x", title="t", description="w"),
        heat_map(["<b>"] * 3, [[None, (7, "a"), (0, "b")]] * 3, "t", "w"),
    ]
    for chart in charts:
        page = Reader(chart)
        width, height = map(float, page.elements[0][1]["viewbox"].split()[2:])
        assert len(chart) < 30_000
        for _, a in page.elements[1:]:
            for key, most in (("x1", width), ("x2", width), ("cx", width), ("y1", height), ("cy", height)):
                assert 0 <= float(a.get(key, 0)) <= most
    assert Scale.around([2.0], 0, 10)(2.0) == 5.0


def test_colors_of_ratios_change_where_the_legend_says():
    assert [kind_of(step + 1e-9) for step in STEPS] == list(KINDS[1:])
    assert [kind_of(step - 1e-9) for step in STEPS] == list(KINDS[:-1])
    assert kind_of(float("-inf")) is None


def luminance(color):
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_stands_out_from_its_ground(scheme):
    colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", re.findall(r":root \{(.*?)\}", STYLE, re.S)[scheme]))
    for ground in ("page", "card"):
        for ink in ("ink", "muted", "model", "good", "bad", "open"):
            assert contrast(colors[ink], colors[ground]) >= 4.5, (ink, ground)
        for mark in ("data", "best", "back"):
            assert contrast(colors[mark], colors[ground]) >= 3, (mark, ground)
    for kind in KINDS:
        assert contrast(colors["ink"], colors[kind]) >= 4.5, kind


def test_the_style_sheet_asks_for_nothing():
    assert not re.search(r"url\(|@import|https?:|</", STYLE)
