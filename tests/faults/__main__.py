"""``python -m tests.faults``: every family of faults, at reduced or at full size, cut into units that are stored.

A unit that was stored is not done again, so that a run at full size may be cut off and continued. Exit 1 where a
promise was broken; the seeds of such trials are printed.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

from tests.faults import children
from tests.faults.families import FAMILIES
from tests.faults.plan import Family, reduced_count, run_unit, say

STORE = "units.jsonl"
KILLS = ("kills", "kills-streams")


def main() -> int:
    """Do what is not stored yet, then write the counts."""
    asked = _options()
    asked.out.mkdir(parents=True, exist_ok=True)
    children.warm()
    began = monotonic()
    store = asked.out / STORE
    done = _stored(store)
    for family, unit, count in _units(asked):
        if (family.name, unit, count) in done or monotonic() - began > 60 * asked.minutes:
            continue
        found = {**run_unit(family, unit, count), "count": count}
        with store.open("a") as file:
            file.write(json.dumps(found) + "\n")
        done[family.name, unit, count] = found
        say(f"{family.name}:{unit}: {found['trials']} trials, {len(found['faults'])} faults, {found['seconds']} s")
        for fault in found["faults"][:5]:
            say(f"  seed {fault['seed']}: {fault['fault']}")
        _write_summary(done, asked)
    return 1 if _write_summary(done, asked)["faults"] else 0


def _write_summary(done: dict[Any, dict[str, Any]], asked: Any) -> dict[str, Any]:
    """The counts so far, for people and for programs."""
    summary = _summary(list(done.values()), asked.full)
    (asked.out / "faults.json").write_text(json.dumps(summary, indent=1) + "\n")
    (asked.out / "faults.md").write_text(_page(summary))
    return summary


def _options() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--full", action="store_true", help="the full size")
    parser.add_argument("--out", type=Path, default=Path("results/faults"))
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no unit after so many minutes")
    parser.add_argument("--only", nargs="*", choices=sorted(FAMILIES), default=sorted(FAMILIES))
    return parser.parse_args()


def _units(asked: Any) -> list[tuple[Family, int, int]]:
    """Of each family its first unit, then its second, and so on: cut off, a run has some of each."""
    found = []
    for name in FAMILIES:
        family = FAMILIES[name]
        if name not in asked.only:
            continue
        total = family.full if asked.full else reduced_count(family)
        size = family.unit if asked.full else total
        found += [(family, unit, min(size, total - start)) for unit, start in enumerate(range(0, total, size))]
    return sorted(found, key=lambda each: each[1] * each[0].unit / each[0].full)


def _stored(store: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    lines = store.read_text().splitlines() if store.exists() else []
    units = (json.loads(line) for line in lines)
    return {(unit["family"], unit["unit"], unit["count"]): unit for unit in units}


def _summary(units: list[dict[str, Any]], full: bool) -> dict[str, Any]:
    families: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        mine = [unit for unit in units if unit["family"] == name]
        outcomes: Counter[str] = Counter()
        for unit in mine:
            outcomes.update(unit["outcomes"])
        families[name] = {
            "trials": sum(unit["trials"] for unit in mine),
            "of": family.full if full else reduced_count(family),
            "faults": sum(len(unit["faults"]) for unit in mine),
            "peak_mib": max((unit["peak_mib"] for unit in mine), default=0),
            "seconds": round(sum(unit["seconds"] for unit in mine), 1),
            "outcomes": dict(sorted(outcomes.items())),
        }
    for name in KILLS:
        families[name]["strikes"] = sum(
            int(found[1]) * count
            for outcome, count in families[name]["outcomes"].items()
            if (found := re.search(r"(\d+) strikes", outcome))
        )
    faults = [fault for unit in units for fault in unit["faults"]]
    return {"size": "full" if full else "reduced", "families": families, "faults": faults}


def _page(summary: dict[str, Any]) -> str:
    lines = [
        "# Faults",
        "",
        f"    make test-faults{' FULL=1' if summary['size'] == 'full' else ''}",
        "",
        "| family | trials | of | broken promises | peak MiB | seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in summary["families"].items():
        counts = (each["trials"], each["of"], each["faults"], each["peak_mib"], each["seconds"])
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
    kills = [summary["families"][name] for name in KILLS]
    strikes = sum(each["strikes"] for each in kills)
    kinds = sorted({outcome.partition(",")[0] for each in kills for outcome in each["outcomes"]})
    lines += [
        "",
        f"Kills and signals that met a fit: {strikes:,}, over fits of: {', '.join(kinds) or 'none yet'}.",
        "The seed of a trial is its name, `family:unit:number`; units that were done are in `units.jsonl`.",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
