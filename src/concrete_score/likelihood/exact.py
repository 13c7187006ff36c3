"""Log-likelihoods of rows: the result of an evaluation, and the exact one, of normalized models or by enumeration."""

from dataclasses import dataclass, replace
from math import isfinite, log, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
from concrete_score.samplers.completions import RowName, row_by_number
from concrete_score.shapes import PerState, States
from concrete_score.spaces import ENUMERATION_LIMIT, Space
from concrete_score.targets import log_normalizer

CHUNK = 2**20
"""How many sites (rows × D) are evaluated at a time."""


@dataclass(frozen=True)
class LogLikelihood:
    """Mean log-likelihood in nats per row, exact or bounded (docs/mathematics.md, "Likelihood bounds").

    Attributes:
        rows: how many rows the means are over.
        sites: D, for bits per site.
        method: ``exact``, ``enumeration``, ``importance``, ``sandwich``, ``ais``, ``variational`` or ``none``.
        log_likelihood: the exact mean; None if it is only bounded.
        lower: a stochastic lower bound; the exact mean if known, None where no true bound exists.
        upper: a stochastic upper bound, likewise.
        raise_: the RAISE estimate, a lower bound for the *annealing approximation* of the model, below the
            log-likelihood only on average over the model's own rows. Never a `lower`.
        stderr: of the mean over rows, of the data's randomness.
        bound_stderr: of the bounds, of the chains' randomness; the larger one's. 0.0 if exact.
        raise_stderr: of the RAISE estimate, of the chains' randomness.
        warnings: what is not to be trusted, a sentence each.

    >>> LogLikelihood(rows=10, sites=4, method="exact", log_likelihood=-2.0, lower=-2.0, upper=-2.0).gap
    0.0
    """

    rows: int
    sites: int
    method: str
    log_likelihood: float | None = None
    lower: float | None = None
    upper: float | None = None
    raise_: float | None = None
    stderr: float | None = None
    bound_stderr: float | None = None
    raise_stderr: float | None = None
    warnings: tuple[str, ...] = ()

    def moved(self, shift: float) -> "LogLikelihood":
        """All likelihoods with this added, such as the mean log-probability of numbers inside their ranges."""
        named = {name: getattr(self, name) for name in ("log_likelihood", "lower", "upper", "raise_")}
        return replace(self, **{name: value + shift for name, value in named.items() if value is not None})

    def joined(self, other: "LogLikelihood") -> "LogLikelihood":
        """The log-likelihood of these rows and others together; what one of them lacks, both lack.

        Means weigh by rows. The sum of squares about the common mean is the sum of both, about their own means, and
        ``n m / (n + m) (a - b)²`` of the means a and b of n and m rows.

        >>> from concrete_score.targets import pmf
        >>> a, b, both = (exact(pmf([0.25, 0.75]), rows) for rows in ([[0], [1]], [[1]], [[0], [1], [1]]))
        >>> joined = a.joined(b)
        >>> joined.rows, abs(joined.lower - both.lower) < 1e-12, abs(joined.stderr - both.stderr) < 1e-12
        (3, True, True)
        """
        n, m = self.rows, other.rows
        names = ("log_likelihood", "lower", "upper", "raise_")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        means = {name: None if None in both else (n * both[0] + m * both[1]) / (n + m) for name, both in pairs.items()}
        known = next((both for both in pairs.values() if None not in both), (0.0, 0.0))
        squares = self._squares + other._squares + n * m / (n + m) * (known[0] - known[1]) ** 2
        errors = {
            name: None if None in both else sqrt((n * both[0]) ** 2 + (m * both[1]) ** 2) / (n + m)
            for name in ("bound_stderr", "raise_stderr")
            if (both := (getattr(self, name), getattr(other, name)))
        }
        ways = {way: at for at, way in enumerate(("exact", "enumeration", "importance", "variational", "none"))}
        return LogLikelihood(
            rows=n + m,
            sites=self.sites,
            method=max(self.method, other.method, key=lambda way: ways.get(way, 0)),
            stderr=None if self.stderr is None or other.stderr is None else sqrt(squares / (n + m - 1) / (n + m)),
            warnings=tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            **means,
            **errors,
        )

    @property
    def _squares(self) -> float:
        """The sum of squares of the rows' values about their mean, by their standard error; 0 of a single row."""
        return 0.0 if self.stderr is None or self.rows == 1 else self.stderr**2 * self.rows * (self.rows - 1)

    @property
    def gap(self) -> float | None:
        """``upper - lower``; None if one of them is missing. Chains' randomness may make it slightly negative."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    @property
    def bits_per_site(self) -> float | None:
        """``-log_likelihood / (D log 2)``; None unless exact."""
        return None if self.log_likelihood is None else -self.log_likelihood / (self.sites * log(2))

    def to_json(self) -> dict[str, Any]:
        """The model's part of an evaluation's JSON; numbers that are not finite become null.

        >>> LogLikelihood(rows=10, sites=4, method="none").to_json()["raise"] is None
        True
        """
        numbers = {
            "log_likelihood": self.log_likelihood,
            "lower": self.lower,
            "upper": self.upper,
            "raise": self.raise_,
            "stderr": self.stderr,
            "bound_stderr": self.bound_stderr,
            "bits_per_site": self.bits_per_site,
        }
        finite = {key: value if value is not None and isfinite(value) else None for key, value in numbers.items()}
        return {"rows": self.rows, **finite, "method": self.method}


def exact(
    model: DensityModel, rows: Any, limit: int = ENUMERATION_LIMIT, row_name: RowName = row_by_number
) -> LogLikelihood:
    """The mean of ``log q(x) - log Z`` over rows, with its standard error.

    ``Z`` is 1 for a normalized model, else the sum over all states.

    Args:
        model: any density.
        rows: ``(N, D)``.
        limit: the largest space to enumerate.
        row_name: what a row is called in errors.

    Raises:
        InputError: rows outside the model's space, a broken density, or an unnormalized model on too large a space.

    >>> from concrete_score.targets import pmf
    >>> result = exact(pmf([0.25, 0.75]), [[0], [1], [1], [1]])
    >>> round(result.log_likelihood, 6), result.method
    (-0.562335, 'exact')
    """
    states = check_rows(model.space, rows)
    values = row_log_densities(model, states, row_name=row_name)
    if not model.normalized:
        values = values - _log_normalizer(model, limit)
    mean, stderr = mean_and_stderr(values)
    return LogLikelihood(
        rows=len(states),
        sites=model.space.num_sites,
        method="exact" if model.normalized else "enumeration",
        log_likelihood=mean,
        lower=mean,
        upper=mean,
        stderr=stderr,
        bound_stderr=0.0,
    )


@torch.no_grad()
def row_log_densities(
    model: DensityModel, states: States, chunk: int = CHUNK, row_name: RowName = row_by_number
) -> PerState:
    """``log q(x)`` of each row ``(N,)`` in float64, in bounded memory; -inf is legal, NaN and inf are refused."""
    step = max(1, chunk // states.shape[-1])
    values = torch.cat([model.log_density(part).double() for part in torch.split(states, step)])
    bad = ~(values < torch.inf)
    if bad.any():
        row = int(bad.nonzero()[0])
        came, fix = f"{values[row].item()} at {row_name(row)}", "the model is broken there"
        raise InputError("a log-density below infinity", came, where="model", fix=fix)
    return values


def check_rows(space: Space, rows: Any) -> States:
    """A table of at least one row ``(N, D)`` of the space's states."""
    states = space.check(rows, "rows")
    if states.ndim != 2 or not len(states):
        expected = f"rows of shape (N, {space.num_sites}), at least one"
        raise InputError(expected, f"shape {tuple(states.shape)}", where="rows")
    return states


@torch.no_grad()
def _log_normalizer(model: DensityModel, limit: int) -> float:
    value = float(log_normalizer(model, limit))
    if not abs(value) < float("inf"):
        raise InputError("a finite sum of densities", f"log Z = {value}", where="model", fix="the model is broken")
    return value


def check_finite(values: Tensor, where: str | RowName, fix: str) -> None:
    """Refuse NaN and infinities by their place: ``where[i, j]``, or what a row ``(N,)`` is called."""
    bad = ~values.isfinite()
    if bad.any():
        place = tuple(int(k) for k in bad.nonzero()[0])
        came = str(values[place].item())
        named = f"{where}[{', '.join(map(str, place))}]" if isinstance(where, str) else where(place[0])
        raise InputError("finite numbers", came, where=named, fix=fix)


def mean_and_stderr(values: Float[Tensor, " rows"]) -> tuple[float, float]:
    """The mean of rows ``(N,)`` and its standard error; NaN for a single row.

    >>> import torch
    >>> mean_and_stderr(torch.tensor([1.0, 3.0]))
    (2.0, 1.0)
    """
    values = values.double()
    stderr = float(values.std()) / sqrt(len(values)) if len(values) > 1 else float("nan")
    return float(values.mean()), stderr
