"""What was asked for: the run, its data, its columns, and every setting."""

from collections.abc import Mapping
from typing import Any

from concrete_score.data import TableCodec
from concrete_score.report.html import Html, shortened
from concrete_score.report.numbers import count, number
from concrete_score.report.parts import Section, folded, named, paragraph, stacked, table
from concrete_score.report.subject import Subject

COLUMNS, VALUES, SETTING = 100, 6, 120
"""Columns listed, values of each, and letters of a setting."""


def configuration_section(subject: Subject) -> Section:
    """All of ``run.json`` that a person may want."""
    info, config = subject.run.info, subject.run.config
    about = [("id", info["id"]), ("created", info["created"]), ("seed", info["seed"])]
    about += [*flat(info["versions"], "versions."), *flat(info["data"], "data.")]
    parts = {name: value for name, value in config.items() if isinstance(value, Mapping)}
    other = {name: value for name, value in config.items() if name not in parts}
    body = [paragraph("All that is needed to make this run again.", kind="lead")]
    body += [folded("Run and data", _facts(about, "Run and data"))]
    body += [folded(f"Settings: {name}", _facts(flat(value), name)) for name, value in parts.items()]
    body += [folded("Other settings", _facts(flat(other), "Other settings"))] if other else []
    return Section("Configuration", stacked(body, folded(f"Columns ({number(len(subject.names))})", _columns(subject))))


def flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines ``part.name``; what is unset is left out.

    >>> flat({"a": {"b": 1, "c": None}, "d": 0.001})
    [('a.b', '1'), ('d', '0.001')]
    """
    lines: list[tuple[str, str]] = []
    for key, each in value.items():
        if isinstance(each, Mapping):
            lines += flat(each, f"{prefix}{key}.")
        elif each is not None:
            lines.append((f"{prefix}{key}", f"{each:.6g}" if isinstance(each, float) else str(each)))
    return lines


def _facts(lines: list[tuple[str, Any]], label: str) -> Html:
    return table(["setting", "value"], [(key, shortened(str(value), SETTING)) for key, value in lines], label=label)


def _columns(subject: Subject) -> Html:
    codec, sizes = subject.run.codec, subject.space.sizes
    kinds = [site.kind for site in codec.sites] if isinstance(codec, TableCodec) else [codec.kind] * len(sizes)
    rows = []
    for site, name in list(enumerate(subject.names))[:COLUMNS]:
        words = [shortened(subject.label(site, value) or "(blank)", 24) for value in range(min(VALUES, sizes[site]))]
        more = ", …" if sizes[site] > VALUES else ""
        rows.append([named(name), kinds[site], number(sizes[site]), ", ".join(words) + more])
    left = len(sizes) - len(rows)
    note = (
        paragraph(f"{count(left, 'more column')} not listed here; csm show lists all.", kind="note") if left else None
    )
    return stacked(table(["column", "kind", "size", "values"], rows, numbers=(2,), label="Columns"), note)
