"""``csm list``."""

import json

from concrete_score import registry


def test_kinds_with_counts(csm):
    listed = json.loads(csm("list", "--json").out)["kinds"]
    assert {row["kind"]: row["count"] for row in listed} == {
        kind: len(registry.names(kind)) for kind in registry.kinds()
    }


def test_names_with_help_and_section(csm):
    listed = json.loads(csm("list", "neighborhoods", "--json").out)
    assert listed["kind"] == "neighborhoods"
    assert {row["name"]: (row["help"], row["section"]) for row in listed["names"]} == {
        name: (entry.help, entry.section) for name, entry in registry.entries("neighborhoods").items()
    }


def test_table_has_one_uncut_line_a_name(csm):
    lines = csm("list", "neighborhoods").out.splitlines()
    for name, entry in registry.entries("neighborhoods").items():
        assert any(line.startswith(name + " ") and entry.help in line for line in lines)


def test_unknown_kind_gets_the_nearest(misused):
    assert "did you mean 'neighborhoods'?" in misused("list", "neighborhood")


def test_names_of_installed_packages_cannot_reach_the_terminal(csm, monkeypatch):
    entry = registry.Entry("x:y", "a \x1b[31m[bold]help[/bold]\nline :smile:")
    monkeypatch.setitem(registry.BUILT_IN["targets"], "strange\x07", entry)
    out = csm("list", "targets").out
    assert "\\x1b[31m[bold]help[/bold]\\nline :smile:" in out
    assert all(line.isprintable() for line in out.splitlines())
