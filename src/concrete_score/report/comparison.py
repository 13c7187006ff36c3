"""The likelihood of rows under a model beside that of independent columns and of a Chow–Liu tree, row by row."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.errors import InputError
from concrete_score.likelihood import Budget, LogLikelihood, sandwich
from concrete_score.likelihood.exact import row_log_densities
from concrete_score.likelihood.weights import mean_and_stderr
from concrete_score.protocols import DensityModel
from concrete_score.report.subject import Missing, Subject
from concrete_score.training.validation import has_likelihood

ROWS = 20_000
"""Rows that are judged at most."""
BOUNDS = Budget(steps=200, chains=64, raise_chains=2, bound_rows=100, pilot_steps=20, pilot_chains=64)
"""Of models without a known sum; `csm evaluate` spends more."""
QUICK = 20_000.0
"""States a second that a model must judge for bounds to be worth while here."""
PAIRS = 4e10
"""Products of counting pairs of values, for a tree."""
TABLES = 2**25
"""Entries of its tables."""


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
    """What rows are worth under the run's model and under simpler ones."""

    rows: int
    found: LogLikelihood | Missing
    """Of the run's model."""
    baselines: tuple[Scored, ...]
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> LogLikelihood | None:
        """The model's own, if it is exact."""
        known = isinstance(self.found, LogLikelihood) and self.found.log_likelihood is not None
        return self.found if known and isinstance(self.found, LogLikelihood) else None


@torch.no_grad()
def compare(subject: Subject) -> Comparison:
    """The rows held out, or those learned where there are none."""
    exact = has_likelihood(subject.model) or subject.small
    most = subject.effort.within(3.0, 200, ROWS) if exact else BOUNDS.bound_rows
    rows = subject.some(subject.judged, most, "judged")
    own = _rows_under(subject, rows) if exact else None
    found = _found(subject, rows) if own is None else _exactly(subject, own)
    baselines, notes = _baselines(subject)
    scored = []
    for name, model in baselines.items():
        each = row_log_densities(model, rows)
        gain = (None, None) if own is None else mean_and_stderr(own - each)
        scored.append(Scored(name, *mean_and_stderr(each), *gain))
    return Comparison(len(rows), found, tuple(scored), notes)


def _rows_under(subject: Subject, rows: Tensor) -> Tensor | None:
    try:
        return subject.fitted.row_log_likelihoods(rows)
    except InputError:  # a score model whose ratios belong to no distribution
        return None


def _exactly(subject: Subject, rows: Tensor) -> LogLikelihood:
    mean, stderr = mean_and_stderr(rows)
    return LogLikelihood(
        rows=len(rows),
        sites=subject.space.num_sites,
        method="exact" if has_likelihood(subject.model) else "enumeration",
        log_likelihood=mean,
        lower=mean,
        upper=mean,
        stderr=stderr,
        bound_stderr=0.0,
    )


def _found(subject: Subject, rows: Tensor) -> LogLikelihood | Missing:
    """Bounds, or why there are none."""
    if not subject.is_density:
        return Missing(
            "A score model knows ratios, not probabilities; on so many states its likelihood can only be bounded, which"
            " takes longer than a report may: csm evaluate does it."
        )
    if subject.effort.per_second < QUICK:
        return Missing("Bounds on the likelihood of so large a model take longer than a report may: see csm evaluate.")
    try:
        return sandwich(subject.model, rows, subject.generator("bounds"), BOUNDS)
    except InputError as refusal:
        return Missing(f"The likelihood could not be bounded: {refusal}.")


def _baselines(subject: Subject) -> tuple[dict[str, DensityModel], tuple[str, ...]]:
    space, train = subject.space, subject.train
    found: dict[str, DensityModel] = {"independent": Independent.fit(train, space)}
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
