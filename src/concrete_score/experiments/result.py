"""What an experiment finds, and the files it leaves: ``NAME.json``, ``NAME.md`` and images."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from concrete_score.bench.checks import Check
from concrete_score.errors import InputError, Option
from concrete_score.files import atomic, write_json, write_text

STORE = "units.jsonl"
"""One line a finished unit: ``{name, version, quick, seed, options, seconds, result}``."""


@dataclass(frozen=True)
class Settings:
    """How an experiment is to be run.

    Args:
        seed: of all randomness.
        quick: a smaller version that ends in seconds.
        device: where tensors live.
        jobs: how many processes share the units, one thread each.
        store: the folder where finished units are kept; none are if None.
        force: whether units of another version are done again.
        say: takes lines of progress.
    """

    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    jobs: int = 1
    store: Path | None = None
    force: bool = False
    say: Callable[[str], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Findings:
    """What an experiment hands back: the paper's numbers, ours under the same keys, checks and PNG images."""

    paper: Mapping[str, Any]
    ours: Mapping[str, Any]
    checks: tuple[Check, ...]
    images: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """File name without suffix -> the bytes of a PNG."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """File name -> its text, written beside the others."""
    text: str = field(default="", repr=False)
    """Markdown that tells the numbers better than the plain table of ``paper`` and ``ours``, and stands in for it."""


@dataclass(frozen=True)
class Result:
    """Findings with all that is needed to repeat them.

    >>> found = Findings({}, {}, (Check.at_most("error", 0.2, 0.1),))
    >>> result = Result("figure0", "csm reproduce figure0", "0.1.0", Settings(), 1.5, found)
    >>> result.ok, [str(check) for check in result.failed]
    (False, ['error: 0.2 not <= 0.1'])
    """

    name: str
    command: str
    version: str
    settings: Settings
    seconds: float
    findings: Findings
    units: Mapping[str, int] = field(default_factory=dict)
    """Version -> how many of the units that are stored it did."""

    @property
    def failed(self) -> list[Check]:
        """The checks that do not hold."""
        return [check for check in self.findings.checks if not check.ok]

    @property
    def ok(self) -> bool:
        """Whether all checks hold."""
        return not self.failed

    def to_json(self) -> dict[str, Any]:
        """``{name, command, version, seed, quick, seconds, paper, ours, checks}``."""
        return {
            "name": self.name,
            "command": self.command,
            "version": self.version,
            "seed": self.settings.seed,
            "quick": self.settings.quick,
            "seconds": round(self.seconds, 3),
            "paper": dict(self.findings.paper),
            "ours": dict(self.findings.ours),
            "checks": [check.to_json() for check in self.findings.checks],
        }

    def to_markdown(self) -> str:
        """The same for reading: command, checks, the paper beside ours, images."""
        found = self.findings
        checks = [[c.name, c.value_text, c.bound_text, "yes" if c.ok else "**no**"] for c in found.checks]
        keys = list(dict.fromkeys([*found.paper, *found.ours]))
        beside = [[key, _cell(found.paper.get(key)), _cell(found.ours.get(key))] for key in keys]
        size = "the quick size" if self.settings.quick else "the full size"
        parts = [
            f"# {self.name}",
            f"    {self.command}",
            f"concrete-score {self.version}, seed {self.settings.seed}, {size}, {self.seconds:.1f} s.{self._older()}",
            *(f"![{image}]({image}.png)" for image in found.images),
            "## Checks",
            table(["check", "value", "bound", "holds"], checks),
        ]
        if found.text:
            parts.append(found.text.strip())
        elif beside:
            parts += ["## The paper and ours", table(["", "paper", "ours"], beside)]
        return "\n\n".join(parts) + "\n"

    def _older(self) -> str:
        """A sentence on units that another version did."""
        others = [f"{count} of version {version}" for version, count in self.units.items() if version != self.version]
        return f" Of {sum(self.units.values())} stored units: {', '.join(others)}." if others else ""

    def write(self, folder: Path) -> list[Path]:
        """Write all files into ``folder``, each whole or not at all; the JSON last, as the sign of completeness."""
        written = []
        for image, data in self.findings.images.items():
            written.append(folder / f"{image}.png")
            with atomic(written[-1]) as draft:
                draft.write_bytes(data)
        for name, text in self.findings.files.items():
            written.append(folder / name)
            write_text(written[-1], text)
        written += [folder / f"{self.name}.md", folder / f"{self.name}.json"]
        write_text(written[-2], self.to_markdown())
        write_json(written[-1], self.to_json())
        return written


def refuse_others(folder: Path, name: str, version: str, settings: Settings) -> None:
    """Refuse to write over the results of another seed or size, or over a file that is no result.

    Those of another version are refused too where the units that they were made of are not stored: they would be lost.

    Raises:
        InputError: such a file lies in ``folder``.
    """
    path = folder / f"{name}.json"
    fix = [("choose another ", Option("out")), (Option("force", True), " to replace them")]
    strays = sorted(each for each in folder.glob(f"{name}.*") if each.suffix in (".md", ".png"))
    if strays and not path.exists() and not (folder / STORE).exists():
        raise InputError(f"a new place for {name}, or its results", "a file that is none", str(strays[0]), fix)
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        stated, rest = found["version"], (found.get("seed"), found.get("quick"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        stated, rest = "unknown", (None, None)
    if stated != version and not (folder / STORE).exists():
        raise InputError(f"results of version {version}", f"version {str(stated)[:60]}", str(path), fix)
    wanted = (settings.seed, settings.quick)
    if rest != wanted:
        asked, came = (f"seed {seed}, {'quick' if quick else 'full'} size" for seed, quick in (wanted, rest))
        raise InputError(f"results of {asked}", f"some of {came}", str(path), fix)


def _cell(value: Any) -> str:
    """A JSON value on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["toy", "error"], [["2spirals", "0.06"]]))
    | toy | error |
    | --- | --- |
    | 2spirals | 0.06 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    escaped = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def without(found: Mapping[str, Any], *hidden: str) -> dict[str, Any]:
    """What belongs into the JSON: all but what only plots need.

    >>> without({"error": 0.1, "samples": "0x9"}, "samples")
    {'error': 0.1}
    """
    return {key: value for key, value in found.items() if key not in hidden}


def number(value: float | None, digits: int = 3) -> str:
    """A number in a few digits; what JSON could not hold was infinite.

    >>> number(0.06011, 2), number(None), number(7000.0)
    ('0.06', '∞', '7e+03')
    """
    return "∞" if value is None else f"{value:.{digits}g}"
