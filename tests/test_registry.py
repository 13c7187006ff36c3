"""The registry: every name leads somewhere, installed packages may add theirs, and nothing else is ever imported."""

import importlib.metadata
import sys

import pytest

from concrete_score import registry
from concrete_score.errors import InputError

ALL = [(kind, name) for kind in registry.kinds() for name in registry.names(kind)]


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda part: part)
def test_every_name_leads_to_its_object_and_has_its_line(kind, name):
    assert registry.load(kind, name) is not None
    entry = registry.entries(kind)[name]
    assert 8 < len(entry.help) <= 90
    assert entry.target.startswith("concrete_score.")


def test_an_installed_package_may_add_names_but_not_replace_ours(monkeypatch, request):
    def entry_points(group):
        if group != "concrete_score.neighborhoods":
            return []
        point = importlib.metadata.EntryPoint
        return [point("mine", "math:floor", group), point("grid", "os:system", group)]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    registry.installed.cache_clear()
    request.addfinalizer(registry.installed.cache_clear)
    assert registry.load("neighborhoods", "mine")(1.5) == 1
    assert registry.load("neighborhoods", "grid").__module__ == "concrete_score.neighborhoods.site_graphs"


@pytest.mark.parametrize("name", ["os:system", "concrete_score.files:digest", "../grid", "gird", ""])
def test_a_name_that_is_not_registered_is_never_imported(name, monkeypatch):
    registry.names("neighborhoods")  # what is installed is known by now
    monkeypatch.setitem(sys.modules, "importlib", None)  # any import by the registry would fail loudly
    with pytest.raises(InputError, match="expected one of the registered neighborhoods"):
        registry.load("neighborhoods", name)


def test_unknown_kinds_are_refused():
    with pytest.raises(InputError, match="did you mean 'neighborhoods'"):
        registry.names("neighbourhoods")
