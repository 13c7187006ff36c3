"""Samplers side by side: effective draws a second of processor time over a textbook DMALA loop's, and are they right?

Every kernel of a problem starts from the same chains, is tuned alike (step sizes to one acceptance, ladders to equal
swap rates, both frozen) and is timed in turns; times are the least of all turns. ``csm bench samplers`` takes the best
kernel's figure of each problem alone.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from concrete_score.bench.checks import Check
from concrete_score.bench.efficiency import HIDDEN, YARDSTICK
from concrete_score.bench.problems import GRADIENT, PROBLEMS, SMALL
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.experiments.result import Findings, Settings, number, table
from concrete_score.experiments.runner import Unit, complete
from concrete_score.experiments.samplers.units import (
    cost,
    independent_sets,
    problem,
    sandwich,
    single_flips,
    tempering_cost,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Mapping[str, list[dict[str, Any]]]
"""Of each problem, the textbook loop's first."""

PAPER = {
    "independent set, path-auxiliary": 44.57,
    "independent set, DMALA": 44.20,
    "effective draws a step over single flips, 50×50 in a field": 58,
}
"""What the literature has."""
WORK = {
    "single_flips": single_flips,
    "cost": cost,
    "tempering_cost": tempering_cost,
    "independent_sets": independent_sets,
    "sandwich": sandwich,
}


class Bar(NamedTuple):
    """What the best of some kernels must gain on a problem."""

    problem: str
    kernels: tuple[str, ...]
    key: str
    bound: float
    what: str


GRADIENT_KERNELS = tuple(GRADIENT)
BARS = (
    Bar("ising_0.3", GRADIENT_KERNELS, "per_second", 4.0, "best gradient kernel, energy"),
    Bar("ising_0.44", GRADIENT_KERNELS, "per_second", 4.0, "best gradient kernel, energy"),
    Bar("spin_glass", GRADIENT_KERNELS, "per_second", 5.0, "best gradient kernel, energy"),
    Bar("rbm_25", GRADIENT_KERNELS, "per_second", 5.0, "best gradient kernel, energy"),
    Bar("ising_0.3", (HIDDEN,), "per_second", 1.4, "multi_site with the local fields hidden, energy"),
    Bar("ising_0.44", (HIDDEN,), "per_second", 1.4, "multi_site with the local fields hidden, energy"),
    Bar("ising_0.3", ("colored",), "per_second", 40.0, "colored, energy"),
    Bar("ising_0.44", ("colored",), "per_second", 40.0, "colored, energy"),
    Bar("potts_4", ("colored",), "per_second", 40.0, "colored, energy"),
    Bar("rbm_25", ("auxiliary",), "per_second", 30.0, "auxiliary, energy"),
    Bar("spin_glass", ("sweep",), "slow_per_second", 7.0, "sweep, slow statistic"),
    Bar("spin_glass", ("tempering",), "slow_per_second", 20.0, "batched tempering over sweeps, slow statistic"),
)
MOST_Z = 4.0
UNKNOWN = "–"
"""Of chains too short to tell."""
FIELD = "ising_field"


def run(settings: Settings) -> Findings:
    """All problems, then the costs, the independent sets and the sandwich."""
    names = list(SMALL if settings.quick else PROBLEMS)
    units = [Unit(name, problem, {"name": name}) for name in names]
    units += [Unit(name, work) for name, work in WORK.items()]
    found = complete(units, settings)
    rows = {name: found[name]["rows"] for name in names}
    titles = {name: found[name]["title"] for name in names}
    more = {name: found[name] for name in WORK}
    ours = {titles[name]: {row["kernel"]: row for row in each} for name, each in rows.items()}
    return Findings(
        paper=PAPER,
        ours={**ours, **more},
        checks=tuple(checks(rows, titles, more)),
        images={"samplers": png(plot(rows, titles))},
        text=text(rows, titles, more),
    )


def checks(rows: Rows, titles: Mapping[str, str], more: Mapping[str, Any]) -> Iterable[Check]:
    """One for each promise; of problems that were left out, none."""
    for bar in BARS:
        if bar.problem in rows:
            name = f"{titles[bar.problem]}: {bar.what}, effective draws a second over textbook DMALA's"
            of = {row["kernel"]: row[bar.key] or 0.0 for row in rows[bar.problem] if row["kernel"] in bar.kernels}
            best = max(of, key=of.__getitem__)
            yield Check.at_least(f"{name} ({best})", of[best], bar.bound)
    if FIELD in rows:
        best, gain = _over_single_flips(rows, more, tuple(row["kernel"] for row in rows[FIELD]))
        name = f"{titles[FIELD]}: best kernel, effective draws a step over single informed flips, energy ({best})"
        yield Check.at_least(name, gain, 50.0)
    z = [row["z"] for each in rows.values() for row in each if row["z"] is not None]
    yield Check.at_least("means of energies held against the truth", float(len(z)), 20.0)
    yield Check.within("the one furthest off, standard errors", max(z, key=abs), -MOST_Z, MOST_Z)
    tempering = more["tempering_cost"]["over_before"]
    yield Check.at_most("tempering, five temperatures in a batch / one by one by gradients, as before", tempering, 0.2)
    yield Check.within(
        "a colored sweep's time against sites, slope", more["cost"]["colored, slope in sites"], 0.7, 1.15
    )
    sets = more["independent_sets"]
    yield Check.at_least("independent sets: ours less the textbook loop's, same graphs", sets["gain"], 0.3)
    bounds = more["sandwich"]
    yield Check.at_most("sandwich of an RBM: time / written plainly", bounds["seconds_ratio"], 0.5)
    yield Check.at_most(
        "sandwich of an RBM: wider by, standard errors", bounds["wider_by"] / bounds["wider_error"], 2.0
    )


def text(rows: Rows, titles: Mapping[str, str], more: Mapping[str, Any]) -> str:
    """A table of every problem's kernels, what steps cost, and sentences about the rest."""
    parts = [
        "## Effective draws over a textbook DMALA loop's",
        "Of the energy and of the slow statistic, a second of processor time and a pass; autocorrelation times τ in "
        "steps; z is how many standard errors the mean energy is off. A star marks runs too short to tell τ.",
    ]
    for name, each in rows.items():
        lines = [_line(row) for row in each]
        columns = ["kernel", "τ energy", "τ slow", "ms a step", "a second: energy", "slow", "a pass: energy", "z"]
        parts += [f"### {titles[name]}", table(columns, lines)]
    costs = more["cost"]
    lines = [
        [key, *(f"{count}: {value:.3g}" for count, value in each.items())] for key, each in costs.items() if "by" in key
    ]
    width = max(len(line) for line in lines)
    parts += [
        "## What a step costs",
        "Milliseconds of processor time; by sites with 64 chains, by chains with the fewest sites.",
        table(["", *([" "] * (width - 1))], [line + [""] * (width - len(line)) for line in lines]),
        "Slopes: " + ", ".join(f"{key} {value:.3g}" for key, value in costs.items() if "slope" in key) + ".",
        _tempering(rows, more),
        "## Independent sets, and the sandwich",
        _sets(more["independent_sets"]),
        _sandwich(more["sandwich"]),
    ]
    return "\n\n".join(parts)


def _line(row: Mapping[str, Any]) -> list[str]:
    star = "" if row["long_enough"] else " *"
    return [
        row["kernel"],
        f"{number(row['time'])} ± {number(row['time_error'], 2)}{star}",
        f"{number(row['slow_time'])} ± {number(row['slow_time_error'], 2)}{star}",
        number(1e3 * row["seconds"]),
        *(UNKNOWN if row[key] is None else number(row[key]) for key in ("per_second", "slow_per_second", "per_pass")),
        UNKNOWN if row["z"] is None else number(row["z"], 2),
    ]


def _over_single_flips(rows: Rows, more: Mapping[str, Any], kernels: Collection[str]) -> tuple[str, float]:
    """The best of some kernels on the lattice in a field, and its effective draws a step over single flips'."""
    times = {row["kernel"]: row["time"] for row in rows[FIELD] if row["time"] and row["kernel"] in kernels}
    times.pop(YARDSTICK, None)
    best = min(times, key=times.__getitem__)
    return best, (more["single_flips"]["time"] or 0.0) / times[best]


def _tempering(rows: Rows, more: Mapping[str, Any]) -> str:
    cost, single = more["tempering_cost"], more["single_flips"]
    among = ""
    if FIELD in rows:
        best, gain = _over_single_flips(rows, more, GRADIENT_KERNELS)
        among = f" Among kernels that propose all sites at once {best} has {number(gain)} times their draws a step."
    return (
        f"A step of five temperatures in one batch takes {cost['over_before']:.2f} of the time of one by one by "
        f"gradients, as before, and {cost['over_apart']:.2f} of one by one by the same local fields. Single informed "
        f"flips remember the energy of the lattice in a field for {number(single['time'])} ± "
        f"{number(single['time_error'], 2)} steps.{among}"
    )


def _sets(found: Mapping[str, Any]) -> str:
    return (
        f"Largest independent sets of {len(found['sets']['ours'])} graphs, 32 chains: {found['ours']:.2f} in "
        f"{found['seconds_a_graph']:.2f} s a graph, the textbook loop's {found['textbook']:.2f} in "
        f"{found['textbook_seconds_a_graph']:.2f} s; paired, {found['gain']:.2f} ± {found['gain_error']:.2f} more."
    )


def _sandwich(found: Mapping[str, Any]) -> str:
    fast, plain = found["fast"], found["plain"]
    return (
        f"Bounds on log Z of the RBM are {fast['width']:.3f} ± {fast['width_error']:.3f} nats apart in "
        f"{fast['seconds']:.1f} s, written plainly {plain['width']:.3f} ± {plain['width_error']:.3f} in "
        f"{plain['seconds']:.1f} s; RAISE says {fast['raise']:.2f} and {plain['raise']:.2f}."
    )


def plot(rows: Rows, titles: Mapping[str, str]) -> "Figure":
    """A panel a problem: how many times the textbook loop's effective draws a second."""
    from matplotlib.figure import Figure

    columns = 3
    figure = Figure(figsize=(11, 2.6 * -(-len(rows) // columns)), layout="constrained")
    axes = figure.subplots(-(-len(rows) // columns), columns, squeeze=False).flatten()
    for axis, (name, each) in zip(axes, rows.items(), strict=False):
        kept = [row for row in each if row["kernel"] != YARDSTICK and row["per_second"]]
        for shift, key, color in ((-0.2, "per_second", INK), (0.2, "slow_per_second", ACCENT)):
            axis.barh(
                [k + shift for k in range(len(kept))], [row[key] or 0 for row in kept], 0.36, color=color,
                label="energy" if color == INK else "slow statistic",
            )  # fmt: skip
        axis.set_yticks(range(len(kept)), [row["kernel"].replace(", fields", "\nfields") for row in kept], fontsize=7)
        axis.set_xscale("log")
        axis.axvline(1, color=QUIET, linewidth=1)
        axis.set_title(titles[name], fontsize=9)
    for axis in axes[len(rows) :]:
        axis.set_axis_off()
    axes[0].legend(fontsize=7)
    figure.supxlabel("effective draws a second over a textbook DMALA loop's", fontsize=9)
    return figure
