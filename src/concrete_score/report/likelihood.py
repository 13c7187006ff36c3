"""How probable unseen rows are under the model, beside independent columns and a Chow–Liu tree, row by row."""

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.errors import InputError
from concrete_score.likelihood import Budget, LogLikelihood, sandwich
from concrete_score.likelihood.exact import mean_and_stderr, row_log_densities
from concrete_score.report.charts import Interval, interval_chart
from concrete_score.report.html import (
    Finding,
    Html,
    Section,
    Tile,
    number,
    paragraph,
    side_by_side,
    stacked,
    table,
    tag,
)
from concrete_score.report.subject import Missing, Subject
from concrete_score.training.loop import has_likelihood

ROWS = 20_000
"""Rows that are judged at most."""
BOUNDS = Budget(steps=200, chains=64, raise_chains=2, bound_rows=100, pilot_steps=20, pilot_chains=64)
"""For models without a known sum; the evaluate command spends more."""
QUICK = 20_000.0
"""States a second that a model must judge for bounds to be worth while here."""
PAIRS = 4e10
"""Products of counting pairs of values, for a tree."""
TABLES = 2**25
"""Entries of its tables."""

NAMES = {"independent": "independent", "chow_liu": "Chow–Liu tree"}
PHRASES = {"independent": "independent columns", "chow_liu": "the Chow–Liu tree"}
CLEAR = 2.0
"""Standard errors from which a difference is one."""
HOW = {
    "observed": "A row with blanks counts by the probability of the cells that were seen: summed over all ways to fill"
    " it where these are few, else a mean over weighted draws, which is a little low on average.",
    "exact": "The model is normalized, so its number is exact.",
    "enumeration": "The model was normalized by summing over all its states, so its number is exact.",
    "sandwich": "The model's sum is not known: lower and upper bound its log-likelihood, on average over chains.",
    "ais": "The model's sum is not known: annealed importance sampling bounds its log-likelihood from above, on average"
    " over chains; there is no exact draw of the model, so nothing bounds it from below.",
}


@dataclass(frozen=True)
class Scored:
    """The mean log-likelihood under one model, in nats a row, with its standard error over rows."""

    name: str
    mean: float
    stderr: float
    gain: float | None = None
    """How much more the run's own model gives, on average over the same rows; None where that is only bounded."""
    gain_stderr: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The likelihood of rows under the run's model and under simpler ones."""

    rows: int
    found: LogLikelihood | Missing
    """The likelihood under the run's model."""
    baselines: tuple[Scored, ...]
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> LogLikelihood | None:
        """That under the run's model, if it is exact."""
        known = isinstance(self.found, LogLikelihood) and self.found.log_likelihood is not None
        return self.found if known and isinstance(self.found, LogLikelihood) else None


@torch.no_grad()
def compare(subject: Subject) -> Comparison:
    """The rows held out, or those learned where there are none."""
    exact = has_likelihood(subject.model) or subject.small
    most = subject.effort.within(3.0, 200, ROWS) if exact else BOUNDS.bound_rows
    rows, seen = subject.some(subject.judged, most, "judged"), _seen(subject, most)
    # Of a number both count: its range, and where it lies in it.
    inside = rows.new_zeros(len(rows), dtype=torch.double)
    inside = inside if subject.inside is None else subject.some_of(subject.inside, most, "judged")
    own = _rows_under(subject, rows, seen) if exact else None
    own = None if own is None else own + inside
    found = _found(subject, rows, float(inside.mean())) if own is None else _exactly(subject, own, seen)
    baselines, notes = _baselines(subject)
    scored = []
    for name, model in baselines.items():
        each = row_log_densities(model, rows) if seen is None else model.log_marginal(rows, seen).double()
        each = each + inside
        gain = (None, None) if own is None else mean_and_stderr(own - each)
        scored.append(Scored(name, *mean_and_stderr(each), *gain))
    return Comparison(len(rows), found, tuple(scored), notes)


def _seen(subject: Subject, most: int) -> Tensor | None:
    """Which cells of the rows that are judged were seen: a row counts by these."""
    return None if subject.observed is None else subject.some(subject.observed, most, "judged").bool()


def _rows_under(subject: Subject, rows: Tensor, seen: Tensor | None) -> Tensor | None:
    try:
        return subject.fitted.row_log_likelihoods(rows, observed=seen, generator=subject.generator("blanks"))
    except InputError:  # a score model whose ratios belong to no distribution
        return None


def _exactly(subject: Subject, rows: Tensor, seen: Tensor | None) -> LogLikelihood:
    mean, stderr = mean_and_stderr(rows)
    return LogLikelihood(
        rows=len(rows),
        sites=subject.space.num_sites,
        method="observed" if seen is not None else "exact" if has_likelihood(subject.model) else "enumeration",
        log_likelihood=mean,
        lower=mean,
        upper=mean,
        stderr=stderr,
        bound_stderr=0.0,
    )


def _found(subject: Subject, rows: Tensor, inside: float) -> LogLikelihood | Missing:
    """Bounds, with what numbers inside their ranges add on average, or why there are none."""
    if not subject.is_density:
        return Missing(
            "A score model knows ratios, not probabilities; on so many states its likelihood can only be bounded, which"
            " takes longer than a report may: the evaluate command does it."
        )
    if subject.effort.per_second < QUICK:
        why = "Bounds on the likelihood of so large a model take longer than a report may"
        return Missing(f"{why}: the evaluate command finds them.")
    try:
        return sandwich(subject.model, rows, subject.generator("bounds"), BOUNDS).moved(inside)
    except InputError as refusal:
        return Missing(f"The likelihood could not be bounded: {refusal}.")


def _baselines(subject: Subject) -> tuple[dict[str, Independent | ChowLiu], tuple[str, ...]]:
    space, train = subject.space, subject.train
    found: dict[str, Independent | ChowLiu] = {"independent": Independent.fit(train, space)}
    width = sum(space.sizes)
    if space.num_sites < 2:
        return found, ("There is one column only, so a tree is the same as independent columns.",)
    rows = int(PAIRS / width**2)
    if space.num_sites * max(space.sizes) ** 2 > TABLES or rows < 1000:
        return found, ("The Chow–Liu tree is left out: the columns have too many pairs of values to count here.",)
    found["chow_liu"] = ChowLiu.fit(subject.some(train, rows, "tree"), space)
    seen = min(len(train), rows)
    if seen < len(train):
        return found, (f"The Chow–Liu tree was fitted to {seen:,} of the rows, drawn at random.",)
    return found, ()


def likelihood_section(subject: Subject) -> Section:
    """Held-out rows under the model, independent columns and a Chow–Liu tree."""
    found = compare(subject)
    what = subject.judged_name
    lead = paragraph(
        f"The mean log-probability of {number(found.rows)} {what}, in nats a row: farther right is better. A"
        " useful model lies clearly to the right of independent columns, and of the tree that knows one dependence a"
        " column.",
        kind="lead",
    )
    if subject.held_out is not None:
        lead = stacked(lead, paragraph("The same rows chose the best step of the training.", kind="note"))
    notes = [paragraph(note, kind="note") for note in found.notes]
    if isinstance(found.found, Missing):
        body = stacked(lead, paragraph(found.found.why, kind="missing"), _table(found), notes)
        return Section("Likelihood", body, (Finding(None, found.found.why),), _tiles(subject, found))
    notes += [paragraph(note, kind="note") for note in _method_notes(found.found)]
    body = stacked(lead, side_by_side(_chart(found), _table(found)), notes)
    return Section("Likelihood", body, _findings(found), _tiles(subject, found))


def _method_notes(found: LogLikelihood) -> list[str]:
    """How the number was found, and its warnings; the RAISE estimate is not shown, so its warnings are left out."""
    return [HOW.get(found.method, ""), *(warning for warning in found.warnings if not warning.startswith("raise"))]


def _tiles(subject: Subject, found: Comparison) -> tuple[Tile, ...]:
    title = "Held-out log-likelihood" if subject.held_out is not None else "Training log-likelihood"
    own = found.found
    if isinstance(own, Missing):
        first = Tile(title, number(None), "not known for this model")
    elif own.log_likelihood is not None:
        first = Tile(title, number(own.log_likelihood), f"nats per row, ± {number(own.stderr)}")
    else:
        low = "" if own.lower is None else f"at least {number(own.lower)}, "
        first = Tile(title, f"≤ {number(own.upper)}", f"{low}nats per row")
    return (first, *(_gain_tile(each) for each in found.baselines))


def _gain_tile(each: Scored) -> Tile:
    short = {"independent": "independent", "chow_liu": "Chow–Liu"}[each.name]
    if each.gain is None:
        return Tile(f"For comparison: {short}", number(each.mean), "nats per row")
    return Tile(f"Gain over {short}", number(each.gain, sign=True), f"nats per row, ± {number(each.gain_stderr)}")


def _chart(found: Comparison) -> Html | None:
    rows = [Interval(NAMES[each.name], each.mean, each.stderr, each.name) for each in found.baselines]
    for name, value, error in _own(found):
        rows.append(Interval(name, value, error, "model"))
    rows = [row for row in rows if isfinite(row.value) and isfinite(row.error)]
    if not rows:
        return None
    description = "; ".join(f"{row.name} {number(row.value)}" for row in rows)
    return interval_chart(rows, x_label="nats per row", title="Log-likelihood by model", description=description)


def _own(found: Comparison) -> list[tuple[str, float, float]]:
    """The run's own numbers: one, or its bounds."""
    own = found.found
    if not isinstance(own, LogLikelihood):
        return []
    if own.log_likelihood is not None:
        return [("this model", own.log_likelihood, own.stderr or 0.0)]
    bounds = (("at least", own.lower), ("at most", own.upper))
    return [(name, value, own.stderr or 0.0) for name, value in bounds if value is not None]


def _table(found: Comparison) -> Html:
    rows: list[list[object]] = [[name, _uncertain(number(value), error), ""] for name, value, error in _own(found)]
    for each in reversed(found.baselines):
        gain = "" if each.gain is None else _uncertain(number(each.gain, sign=True), each.gain_stderr)
        rows.append([NAMES[each.name], _uncertain(number(each.mean), each.stderr), gain])
    return table(["model", "nats per row", "gain over it"], rows, numbers=(1, 2), label="Likelihood")


def _uncertain(value: str, error: float | None) -> Html:
    """A number with its standard error."""
    return stacked(value, " ", tag("small", f"± {number(error)}"))


def _findings(found: Comparison) -> tuple[Finding, ...]:
    own = found.exact
    if own is None or own.log_likelihood is None:
        upper = found.found.upper if isinstance(found.found, LogLikelihood) else None
        bounded = f"The log-likelihood is only bounded: at most {number(upper)} nats a row."
        below = [PHRASES[each.name] for each in found.baselines if upper is not None and upper < each.mean]
        if below:
            return (Finding(False, f"{bounded} That is below {' and '.join(below)}."),)
        return (Finding(None, bounded),)
    if not isfinite(own.log_likelihood):
        return (Finding(False, "Some of these rows are impossible under the model, so their mean is minus infinity."),)
    return tuple(_gained(each) for each in found.baselines)


def _gained(each: Scored) -> Finding:
    name = PHRASES[each.name]
    gain, error = each.gain or 0.0, each.gain_stderr or 0.0
    difference = f"{number(abs(gain))} ± {number(error)} nats a row"
    if gain > CLEAR * error:
        return Finding(True, f"Better than {name} by {difference}.")
    if gain < -CLEAR * error:
        return Finding(False, f"Worse than {name} by {difference}.")
    return Finding(None, f"Not clearly different from {name} (by {number(gain, sign=True)} ± {number(error)} nats).")
