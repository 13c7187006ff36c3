"""Maximum likelihood, for models that are normalized (paper, appendix B.1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.models.completing import DRAWS, Completed, fill
from concrete_score.models.lookahead import LookAhead
from concrete_score.protocols import is_density
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.pmf import expectation


@dataclass(frozen=True)
class RowDraws:
    """Rows of data: all that is random about the likelihood is which ones."""

    x: Tensor

    def rows(self, part: slice) -> "RowDraws":
        """A slice of the batch."""
        return RowDraws(self.x[part])

    def log_density(self, model: Any) -> PerState:
        """Of each row ``(B,)``."""
        return model.log_density(self.x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class MaximumLikelihood:
    """``-log q(x)``, or of rows with blanks ``-log q(observed cells)``: exact, or an importance-weighted bound.

    Args:
        space: of the rows.
        completions: draws that fill the blanks of a row at each step, where one does not do; of rows that have few
            completions, all are listed instead (see `models.completing`).

    >>> from concrete_score.models import Table
    >>> space = Space((4,))
    >>> objective = MaximumLikelihood(space)
    >>> round(objective.exact(Table(space), torch.tensor([0.7, 0.1, 0.1, 0.1])).item(), 4)  # log 4
    1.3863
    """

    space: Space
    completions: int = DRAWS

    def __post_init__(self) -> None:
        check_count(self.completions, "completions")

    def check(self, model: Any) -> None:
        """A likelihood needs a normalized density."""
        if not is_density(model) or not model.normalized:
            raise InputError(
                "a normalized density model for maximum likelihood",
                "an unnormalized one" if is_density(model) else "a score model",
                where="model",
                fix="use `made` or `table`, or an objective of ratios such as `logistic`",
            )
        check_same_space(model.space, self.space, "model and objective")

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> RowDraws:
        return RowDraws(x)

    def draw_observed(
        self, x: States, observed: Tensor, generator: torch.Generator, model: Any, ahead: LookAhead | None = None
    ) -> Completed:
        """One completion a row by the model as it is now, chosen among several by weight."""
        return fill(model, x, observed, self.completions, generator, ahead)

    def loss(self, model: Any, draws: RowDraws | Completed) -> PerState:
        self.check(model)
        return -draws.log_density(model)

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The cross-entropy of ``pmf`` and the model."""
        return expectation(pmf, self.loss(model, RowDraws(self.space.enumerate())))
