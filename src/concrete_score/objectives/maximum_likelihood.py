"""Maximum likelihood, for models that are normalized (paper, appendix B.1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
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


@dataclass(frozen=True)
class MaximumLikelihood:
    """``-log q(x)``.

    >>> from concrete_score.models import Table
    >>> space = Space((4,))
    >>> objective = MaximumLikelihood(space)
    >>> round(objective.exact(Table(space), torch.tensor([0.7, 0.1, 0.1, 0.1])).item(), 4)  # log 4
    1.3863
    """

    space: Space

    def check(self, model: Any) -> None:
        """A likelihood needs a normalized density."""
        if not isinstance(model, DensityModel) or not model.normalized:
            raise InputError(
                "a normalized density model for maximum likelihood",
                "an unnormalized one" if isinstance(model, DensityModel) else "a score model",
                where="model",
                fix="use `made` or `table`, or an objective of ratios such as `logistic`",
            )
        check_same_space(model.space, self.space, "model and objective")

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> RowDraws:
        return RowDraws(x)

    def loss(self, model: Any, draws: RowDraws) -> PerState:
        self.check(model)
        return -model.log_density(draws.x)  # type: ignore[no-any-return]

    def exact(self, model: Any, pmf: PerStateTable) -> Tensor:
        """The cross-entropy of ``pmf`` and the model."""
        return expectation(pmf, self.loss(model, RowDraws(self.space.enumerate())))
