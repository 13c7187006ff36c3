"""The documentation site: what its own tools do, and that it builds, links and lists every public name."""

import re
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest

import concrete_score
from concrete_score import registry

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
NOTEBOOKS = [*TUTORIALS, DOCS / "start" / "table.md", DOCS / "start" / "python.md", DOCS / "theory" / "overview.md"]


def tool(name):
    """A module of ``docs/_ext``."""
    spec = util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the tools


@pytest.mark.parametrize(
    ("text", "depth", "page"),
    [
        ("[a](../results/figure1/figure1.md)", 0, "[a](gallery/figure1.md)"),
        ("[a](../../results/figure1/figure1.md#checks)", 1, "[a](../gallery/figure1.md#checks)"),
        ("[a](../results)", 0, "[a](gallery/index.md)"),
        ("[a](../CHANGELOG.md)", 0, "[a](project/changelog.md)"),
        ("[a](../paper.md)", 1, "[a](../paper.md)"),
        ("[a](../LICENSE.md)", 0, "[a](../LICENSE.md)"),
        ("[a](https://example.org/../results/x.md)", 0, "[a](https://example.org/../results/x.md)"),
    ],
)
def test_links_to_the_repository_become_links_to_pages(text, depth, page):
    assert tool("repository_links").rewrite(text, depth) == page


def test_a_site_without_fault_and_one_of_each_fault(tmp_path):
    faults = tool("check_site").faults
    (tmp_path / "style.css").write_text("body { background: url(paper.png) }")
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="https://example.org">away</a>')
    (tmp_path / "b.html").write_text('<link rel="stylesheet" href="style.css"><p id="here">')
    assert list(faults(tmp_path)) == []
    (tmp_path / "a.html").write_text('<a href="c.html"></a><a href="b.html#there"></a><a href="#nowhere"></a>')
    (tmp_path / "b.html").write_text('<script src="https://example.org/x.js"></script><img src="lost.png">')
    (tmp_path / "style.css").write_text("@import 'https://example.org/font.css';")
    found = list(faults(tmp_path))
    for fault in ("c.html leads nowhere", "#there leads to no anchor", "#nowhere leads to no anchor"):
        assert any(fault in line for line in found)
    for fault in ("loads https://example.org/x.js", "lost.png, which is not there", "css: fetches from elsewhere"):
        assert any(fault in line for line in found)
    assert len(found) == 6


def test_every_result_has_its_page_and_every_registered_one_a_line():
    pages = tool("generated_pages")
    assert {folder.name for folder in (ROOT / "results").iterdir() if any(folder.glob("*.md"))} == set(pages.results())
    assert all(pages.help_of(name) for name in pages.results())


def test_notebooks_are_dealt_out_and_no_page_is_lost():
    spread = tool("side_by_side").spread
    assert spread(list("abcdef"), {"a", "b"}) == list("acdbef")
    assert spread(["x"], set()) == spread(["x"], {"x"}) == ["x"]
    names = [f"page{k}" for k in range(17)]
    assert sorted(spread(names, set(names[3:8]))) == sorted(names)


# --- the pages


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_are_executed(page):
    text = page.read_text(encoding="utf-8")
    assert text.startswith("---\nfile_format: mystnb\n")
    assert "```{code-cell}" in text
    assert ">>>" not in text  # doctests are for plain pages, which pytest runs


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_tutorial_has_a_figure_and_needs_no_file(page):
    cells = "\n".join(re.findall(r"```\{code-cell\}\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
    assert "plt.subplots" in cells
    assert "shared" not in cells
    assert "CONCRETE_SCORE_DATA" not in cells


def test_every_page_is_in_the_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for folder in ("start", "tutorials", "howto", "theory"):
        for page in (DOCS / folder).glob("*.md"):
            assert f"\n{folder}/{page.stem}\n" in index, page


# --- the whole site


def public_names():
    """Every name of the package and of its public sub-packages, by its path in the reference."""
    for name, module in concrete_score._NAMES.items():
        yield f"concrete_score.{module}.{name}"
    for room in concrete_score._ROOMS:
        module = import_module(f"concrete_score.{room}")
        for name, value in vars(module).items():
            ours = getattr(value, "__module__", "").startswith("concrete_score")
            exported = hasattr(module, "__path__") or getattr(value, "__module__", None) == module.__name__
            if not name.startswith("_") and ours and exported and callable(value):
                yield f"{module.__name__}.{name}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site with its notebooks shown and not executed; `make docs` executes them."""
    if util.find_spec("sphinx") is None:
        pytest.skip("Sphinx is not installed: run `make docs` first, which installs the extra `docs`")
    out = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-q", "-D", "nb_execution_mode=off", "-d", str(out / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(out / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.slow
def test_links_and_anchors_of_the_site_lead_somewhere_and_nothing_is_fetched(site):
    assert list(tool("check_site").faults(site)) == []


@pytest.mark.slow
def test_every_public_name_has_an_entry(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        found = InventoryFile.load(file, "", lambda base, path: path)
    known = {name for kind, names in found.items() if kind.startswith("py:") for name in names}
    missing = sorted(set(public_names()) - known)
    assert not missing
    assert len(list(public_names())) > 200


@pytest.mark.slow
def test_every_command_and_every_registered_name_is_listed(site):
    from concrete_score.cli.main import COMMANDS

    commands = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    names = (site / "reference" / "names.html").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f'id="csm-{command}"' in commands
    for kind in registry.kinds():
        for name in registry.BUILT_IN[kind]:
            assert f">{name}</span>" in names, name
