"""What an evaluation says: a log-likelihood, or bounds that are named for what they are."""

from dataclasses import dataclass
from math import isfinite, log
from typing import Any


@dataclass(frozen=True)
class LogLikelihood:
    """Mean log-likelihood in nats per row, exact or bounded (DESIGN M12).

    Attributes:
        rows: how many rows the means are over.
        sites: D, for bits per site.
        method: ``exact``, ``enumeration``, ``sandwich``, ``ais``, ``variational`` or ``none``.
        log_likelihood: the exact mean; None if it is only bounded.
        lower: a stochastic lower bound; the exact mean if known, None where no true bound exists.
        upper: a stochastic upper bound, likewise.
        raise_: the RAISE estimate, a lower bound for the *annealing approximation* of the model, below the
            log-likelihood only on average over the model's own rows. Never a `lower`.
        stderr: of the mean over rows, of the data's randomness.
        bound_stderr: of the bounds, of the chains' randomness; the larger one's. 0.0 if exact.
        raise_stderr: of the RAISE estimate, of the chains' randomness.
        warnings: plain words about what is not to be trusted.

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

    @property
    def gap(self) -> float | None:
        """``upper - lower``; None if one of them is missing. Chains' randomness may make it slightly negative."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    @property
    def bits_per_site(self) -> float | None:
        """``-log_likelihood / (D log 2)``; None unless exact."""
        return None if self.log_likelihood is None else -self.log_likelihood / (self.sites * log(2))

    def to_json(self) -> dict[str, Any]:
        """The keys of ``csm evaluate --json`` that are the model's; numbers that are not finite become null.

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
