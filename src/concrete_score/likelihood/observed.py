"""Log-likelihoods of rows with blanks: ``log q(observed cells)``, exact where it can be, else an importance bound."""

from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.baselines.conditionals import Conditionals
from concrete_score.errors import InputError, Option
from concrete_score.likelihood.exact import LogLikelihood, mean_and_stderr, row_log_densities
from concrete_score.models.completing import can_draw_blanks, count_completions
from concrete_score.protocols import DensityModel
from concrete_score.samplers.completions import COMPLETIONS, Completions, RowName, in_rows, row_by_number
from concrete_score.samplers.mixed import Mixed, weighed_members
from concrete_score.spaces import ENUMERATION_LIMIT
from concrete_score.targets.pmf import Pmf

LISTED = 512
"""Completions of a row that are listed rather than drawn from."""
PILOT, LEAST, MOST = 32, 64, 4096
"""Draws that find out how many are needed, and the fewest and most of a row."""
ERROR = 0.05
"""The standard error of a row's log-likelihood that is aimed at; its bound is then about 0.001 low."""
METHODS = ("exact", "enumeration", "importance")
"""How a row's log-likelihood is found, the surest first."""
CELLS = 2**21
"""Cells (draws × sites) laid out at once."""


class ObservedLogDensities(NamedTuple):
    """``log q(observed cells)`` of rows."""

    values: Float[Tensor, " rows"]
    """``(N,)`` float64; where drawn, ``log (1/K) Σ_k w_k``, below the truth on average."""
    stderr: Float[Tensor, " rows"]
    """Of each, from the spread of its weights ``(N,)``; 0 where it is exact."""
    method: str
    """``exact``, or ``enumeration`` where completions were summed, or ``importance`` where some were drawn."""

    def mean(self, sites: int, warnings: tuple[str, ...] = ()) -> LogLikelihood:
        """Over the rows; where some are drawn it is a lower bound, on average."""
        mean, stderr = mean_and_stderr(self.values)
        drawn = self.method == "importance"
        return LogLikelihood(
            rows=len(self.values),
            sites=sites,
            method=self.method,
            log_likelihood=None if drawn else mean,
            lower=mean,
            upper=None if drawn else mean,
            stderr=stderr,
            bound_stderr=float(self.stderr.square().sum().sqrt()) / len(self.values),
            warnings=warnings,
        )


@torch.no_grad()
def observed_log_densities(
    model: Any, x: Tensor, observed: Tensor, generator: torch.Generator, row_name: RowName = row_by_number
) -> ObservedLogDensities:
    """``log q(observed cells)`` of every row, each by the first way that it allows.

    A baseline's closed form; the sum over all completions, where they are few; importance-weighted draws of an
    autoregressive model (docs/mathematics.md, "Blanks"). How many draws a row needs is found by a few others that are
    then forgotten: weights that decide how many of them are drawn would bias their mean.

    Args:
        model: a normalized density; None where there is none.
        x: checked states, whatever their blank cells hold ``(N, D)``.
        observed: which cells are known, bool ``(N, D)``.
        generator: the source of the draws.
        row_name: what a row is called in errors.

    Raises:
        InputError: no normalized density; or a row with more completions than can be listed, of a model that cannot
            draw them.

    >>> from concrete_score.targets import pmf
    >>> p = pmf([[0.1, 0.2], [0.3, 0.4]])
    >>> seen = torch.tensor([[True, False], [True, True]])
    >>> found = observed_log_densities(p, torch.tensor([[1, 0], [0, 1]]), seen, torch.Generator())
    >>> found.values.exp().tolist(), found.method
    ([0.7..., 0.2...], 'enumeration')
    """
    if model is None:
        expected = "rows without blanks, for a model that has no exact log-likelihood"
        where = row_name(int((~observed.all(-1)).nonzero()[0]))
        raise InputError(expected, "a row with blanks", where, Option("missing", "drop"))
    values = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    errors = torch.zeros_like(values)
    if isinstance(model, Conditionals):
        for part in _parts(torch.arange(len(x)), x.shape[-1] * max(model.space.sizes)):
            values[part] = model.log_marginal(x[part], observed[part]).double()
        return ObservedLogDensities(values, errors, "exact")
    if isinstance(model, Mixed):
        return _of_members(model, x, observed, generator, row_name)
    whole, few, many = _by_completions(model, observed, row_name)
    if len(whole):
        values[whole] = row_log_densities(model, x[whole], row_name=lambda row: row_name(int(whole[row])))
    if len(few):
        with in_rows(few, row_name):
            for rows, found in Completions(model, x[few], observed[few]).log_marginals():
                values[few[rows]] = found
    if len(many):
        for at, found, stderr in _by_draws(model, x, observed, many, generator):
            values[at], errors[at] = found, stderr
    return ObservedLogDensities(values, errors, "importance" if len(many) else "enumeration" if len(few) else "exact")


def _of_members(
    model: Mixed, x: Tensor, observed: Tensor, generator: torch.Generator, row_name: RowName
) -> ObservedLogDensities:
    """Of a mixture: ``log Σ_m w_m q_m(observed cells)``, each member by the way it allows; errors add up by shares."""
    members, log_weights = weighed_members(model)
    found = [observed_log_densities(member, x, observed, generator, row_name) for member in members]
    joint = torch.stack([each.values for each in found], -1) + log_weights
    errors = torch.stack([each.stderr for each in found], -1)
    worst = max((each.method for each in found), key=METHODS.index)
    share = joint.softmax(-1).nan_to_num()
    return ObservedLogDensities(joint.logsumexp(-1), (share * errors).square().sum(-1).sqrt(), worst)


def _by_completions(model: Any, observed: Tensor, row_name: RowName) -> tuple[Tensor, Tensor, Tensor]:
    """Rows without a blank, rows whose completions are summed, and rows whose completions are drawn; by number."""
    whole, count = observed.all(-1), count_completions(model.space, observed)
    few = ~whole & (count <= (LISTED if can_draw_blanks(model) else _most(model)))
    found = tuple(rows.nonzero().squeeze(-1) for rows in (whole, few, ~whole & ~few))
    if len(found[2]) and not can_draw_blanks(model):
        row = int(found[2][0])
        raise InputError(
            "rows with few blanks, for a model that cannot draw them",
            f"{count[row]:,.0f} ways to fill them",
            where=row_name(row),
            fix=Option("missing", "drop"),
        )
    return found[0], found[1], found[2]


def _by_draws(
    model: Any, x: Tensor, observed: Tensor, rows: Tensor, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows, their bounds and standard errors, some at a time; those that need equally many draws together."""
    found = [_weigh(model, x, observed, part, PILOT, generator) for part in _parts(rows, PILOT * x.shape[-1])]
    wanted = torch.cat([stderr for _, stderr in found]).square() * PILOT / ERROR**2
    # In powers of four, so that there are few groups.
    size = (LEAST * 4 ** (wanted / LEAST).clamp_min(1).log2().div(2).ceil()).clamp_max(MOST)
    for draws in sorted({int(each) for each in size.tolist()}):
        group = rows[size == draws]
        for part in _parts(group, draws * x.shape[-1]):
            yield part, *_weigh(model, x, observed, part, draws, generator)


def _weigh(
    model: Any, x: Tensor, observed: Tensor, rows: Tensor, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """``log mean w`` over the draws of each row and its standard error ``(r,)``."""
    shape = (len(rows), draws, -1)
    flat, known = (table[rows, None].expand(shape).flatten(0, 1) for table in (x, observed))
    _, log_weight = model.propose_given(flat, known, generator)
    log_weight = log_weight.double().reshape(len(rows), draws)
    mean = log_weight.logsumexp(-1) - log(draws)
    relative = torch.where(mean[:, None] > -torch.inf, (log_weight - mean[:, None]).exp(), 1.0)
    return mean, relative.std(-1) / draws**0.5


def _parts(rows: Tensor, width: int) -> tuple[Tensor, ...]:
    return torch.split(rows, max(1, CELLS // max(1, width)))


def _most(model: DensityModel) -> int:
    return ENUMERATION_LIMIT if isinstance(model, Pmf) else COMPLETIONS
