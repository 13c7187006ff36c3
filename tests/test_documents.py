"""Documents that cannot go stale: what they quote, name, link and promise is compared with what is there."""

import ast
import doctest
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from concrete_score import __version__, registry

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTEND = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
MATHEMATICS = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
GENERATED = ("gallery", "project", "reference/api", "reference/names.md", "_ext")
"""Parts of ``docs/`` that only a build of the site writes; it checks them itself."""


def is_generated(path):
    return any(path.is_relative_to(ROOT / "docs" / part) for part in GENERATED)


PAGES = sorted([*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").rglob("*.md") if not is_generated(page))])


def name_of(page):
    return str(page.relative_to(ROOT))


def section(page, title):
    """The text under a heading, up to the next one of its level."""
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]


def first_cells(text):
    """The first column of every table in ``text``, heads and rules left out."""
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    return [cell for cell in rows if cell and set(cell) != {"-"} and cell not in ("command", "package")]


def block(page, name):
    """The fenced block after ``<!-- name -->``."""
    return re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```", page, re.S)[1]


def test_the_newcomers_two_commands_are_there_and_are_targets_of_make():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for page, commands in (
        (README, ("demo", "test")),
        ((ROOT / "CONTRIBUTING.md").read_text(), ("lint", "test", "test-slow")),
    ):
        for command in commands:
            assert f"make {command}" in page
            assert command in targets


def test_every_command_is_in_the_readme_and_no_other():
    from concrete_score.cli.main import COMMANDS

    named = [re.match(r"`csm (\w+)", cell)[1] for cell in first_cells(section(README, "Commands"))]
    assert sorted(named) == sorted(COMMANDS)


def test_every_dependency_has_its_line_and_no_line_lacks_its_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in wanted]
    listed = [name.strip() for cell in first_cells(section(README, "Dependencies")) for name in cell.split(",")]
    assert sorted(listed) == sorted(set(names))


@pytest.mark.slow
def test_what_the_readme_quotes_is_what_the_demo_says():
    from concrete_score.cli.demo import render
    from concrete_score.experiments.demo import run

    def shape(line):
        """A line without its numbers: training rounds differently on other machines."""
        return re.sub(r"[\d.]+", "#", line)

    said = [shape(line) for line in render(run()).splitlines()]
    quoted = [line for line in block(README, "from: csm demo").splitlines() if line]
    assert len(quoted) > 5
    for line in quoted:
        assert shape(line) in said


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        target = (page.parent / link.partition("#")[0]).resolve()
        if not link.startswith(("http", "#")) and not is_generated(target):
            assert target.exists(), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_is_named_exists(page):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    assert named or page.name not in ("mathematics.md", "security.md", "errata.md")
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], f"{path}::{name}"


def test_every_promise_has_its_test():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 20
    for row in rows:
        assert re.search(r"\. \| `tests/[\w/]+\.py::\w+` \|$", row), row


def test_every_divergence_has_its_row_in_the_mathematics():
    for name in registry.BUILT_IN["divergences"]:
        assert f"| `{name}` |" in MATHEMATICS


def test_variances_in_the_mathematics_are_those_in_the_results():
    ours = json.loads((ROOT / "results" / "estimators" / "estimators.json").read_text())["ours"]
    rows = {
        "paired": "paired",
        "stratified": "stratified",
        "importance, Chow–Liu as reference": "importance (chow_liu)",
        "importance, independent sites as reference": "importance (independent)",
    }
    for title, way in rows.items():
        cells = re.search(rf"^\| {re.escape(title)} \|(.*)\|$", MATHEMATICS, re.M)[1].split("|")
        for cell, f in zip(cells, registry.BUILT_IN["divergences"], strict=True):
            found = [ours[f"{stage}, {f}, {way}"]["gradient_ratio"] for stage in ("start", "trained")]
            assert cell.strip() == ", ".join(f"{value:.2f}" for value in found)


def test_versions_agree():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert __version__ in (ROOT / "CHANGELOG.md").read_text()


# --- extending from outside


PIECES = ("divergence", "estimator", "neighborhood")


@pytest.mark.parametrize("piece", PIECES)
def test_each_piece_takes_under_thirty_lines(piece):
    assert len(block(EXTEND, f"example: {piece}").strip().splitlines()) < 30


@pytest.fixture
def my_package(tmp_path, monkeypatch):
    """The page's three pieces as an installed package, with the page's own entry points."""
    parser = doctest.DocTestParser()
    setup = re.search(r"```python\n(.*?)```", EXTEND, re.S)[1]
    blocks = [setup, *(block(EXTEND, f"example: {piece}") for piece in PIECES)]
    source = "".join(example.source for text in blocks for example in parser.get_examples(text))
    (tmp_path / "my_package.py").write_text(source)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    groups = tomllib.loads(block(EXTEND, "example: entry points"))["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    registry.installed.cache_clear()
    yield {group.removeprefix("concrete_score."): points for group, points in groups.items()}
    sys.modules.pop("my_package", None)
    registry.installed.cache_clear()


def test_entry_points_make_the_pieces_known_by_name(my_package):
    import torch

    from concrete_score.objectives import build
    from concrete_score.spaces import Space

    for kind, points in my_package.items():
        for name in points:
            assert registry.entries(kind)[name].help == "from my-package"
            assert registry.load(kind, name) is not None
    space = Space((2, 2, 2))
    swap = registry.load("neighborhoods", "swap")(space)
    objective = build("logistic", space, neighborhood=swap, edges="without_replacement", m=2)
    edges = objective.draw(space.enumerate(), torch.Generator().manual_seed(0))
    assert edges.nodes.shape == (8, 3, 3)


def test_names_of_the_library_cannot_be_replaced(my_package, tmp_path):
    points = tmp_path / "my_package-1.0.dist-info" / "entry_points.txt"
    points.write_text("[concrete_score.divergences]\ncsm = my_package:probability_flow\n")
    registry.installed.cache_clear()
    assert registry.load("divergences", "csm").name == "csm"
