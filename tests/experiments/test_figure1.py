"""Figure 1: every registered neighborhood is built, checked and drawn, and a wrong one is caught."""

import sys
from dataclasses import replace

import pytest

from concrete_score import registry
from concrete_score.experiments import Settings, figure1
from concrete_score.neighborhoods import explicit
from concrete_score.spaces import Space


@pytest.fixture(scope="module")
def found():
    return figure1.run(Settings())


def test_every_registered_neighborhood_is_there_and_all_checks_hold(found):
    assert set(found.ours) == set(registry.names("neighborhoods"))
    assert [str(check) for check in found.checks if not check.ok] == []


def test_the_papers_five_are_weakly_connected(found):
    assert len(found.paper) == 5
    for name, claim in found.paper.items():
        assert claim["weakly_connected"]
        assert found.ours[name]["weakly_connected"]


def test_the_papers_star(found):
    # Example 1: N(x_0) is empty and N(x_i) = {x_0} for i = 1..5.
    assert set(figure1.build("star").edges) == {(i, 0) for i in range(1, 6)}


def test_wrong_graph_is_caught():
    good = figure1.build("cycle")
    torn = explicit(Space((6,)), [(0, 1), (1, 2), (3, 4), (4, 5), (5, 3)])
    bad = replace(good, neighborhood=torn, edges=((0, 1), (1, 2), (3, 4), (4, 5), (5, 3)))
    failed = {check.name for check in figure1.checks(bad) if not check.ok}
    assert failed == {"cycle: edges", "cycle: weakly connected"}


def test_lying_symmetric_flag_is_caught(monkeypatch):
    monkeypatch.setattr("concrete_score.neighborhoods.Product.symmetric", property(lambda self: True))
    assert "chain: symmetric flag" in {check.name for check in figure1.checks(figure1.build("chain")) if not check.ok}


def test_the_plot_is_a_png_and_the_same_each_time(found):
    again = figure1.run(Settings(seed=1)).images["figure1"]
    assert again == found.images["figure1"]
    assert again.startswith(b"\x89PNG")


@pytest.mark.parametrize(("target", "panels"), [("site_graphs:hamming", 1), ("explicit:explicit", 0)])
def test_neighborhood_of_another_package_gets_a_panel_if_a_space_is_enough(monkeypatch, target, panels):
    entry = registry.Entry(f"neighborhoods.{target}", "from elsewhere")
    monkeypatch.setitem(registry.BUILT_IN, "neighborhoods", {"visiting": entry})
    found = figure1.run(Settings())
    assert len(found.ours) == panels
    assert all(check.ok for check in found.checks)


def test_pyplot_and_its_global_state_are_left_alone(monkeypatch):
    # None in place of a module makes importing it fail.
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert figure1.plot([figure1.build("star")]).axes
