"""Where a model starts: the best on validation of the networks found in the rows and the simplest baselines.

A model that starts from tables of parents is a density before its first step: a Bayesian network. Columns on their own
and a Chow–Liu tree are such networks too, so what is trained from the best of them, and kept only where it is better on
validation, is never worse there than these baselines.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from concrete_score.baselines.chow_liu import maximum_spanning_tree, mutual_information
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.structure import learn_structure
from concrete_score.progress import Lines
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.loop import mean_log_density
from concrete_score.training.recipe import Recipe, TrainingSettings

Say = Callable[[Any], None]
"""Receives a line of text."""

STARTS = ("parents", "pseudo_count")
"""The options of a model that can start so."""
COLUMNS = 10_000
"""The most columns among which dependences are searched for: the gains of all pairs take 800 MB."""
PRODUCTS = 2**40
"""Multiplications that finding a Chow–Liu tree may take; of more rows some are drawn."""


@dataclass(frozen=True)
class Start:
    """Options that a model starts with, what they are for reading, and its validation then."""

    options: dict[str, Any]
    what: str
    value: float | None = None

    @property
    def why(self) -> str:
        return f"starts from {self.what}"


def find_start(
    recipe: Recipe, rows: States, space: Space, valid: Tensor | None = None, say: Say = lambda message: None
) -> Start:
    """The best start on validation; without held-out rows, the network found by BIC.

    Args:
        recipe: of a model that takes ``parents`` and ``pseudo_count``.
        rows: to learn from ``(N, D)``.
        space: theirs.
        valid: held-out rows ``(M, D)``.
        say: receives how far a long search is.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> find_start(Recipe(), torch.stack([a, a], 1), Space.bits(2)).why
    'starts from 1 dependence between columns, found in the rows by BIC'
    """
    starts = _starts(rows, space, say)
    if valid is None or not len(valid):
        return next(starts)
    judged = [replace(start, value=_validation(recipe, start, rows, space, valid)) for start in starts]
    best, *others = sorted(judged, key=lambda start: -(start.value or 0.0))
    beside = ", ".join(f"{start.what.partition(', ')[0]} {start.value:.4f}" for start in others)
    return replace(best, what=f"{best.what}: validation {best.value:.4f} ({beside})")


def _starts(rows: States, space: Space, say: Say) -> Iterator[Start]:
    """The networks to choose from, the most promising first."""
    alone: list[list[int]] = [[] for _ in space.sizes]
    if 1 < space.num_sites <= COLUMNS:
        tell = Lines(f"dependences between {space.num_sites:,} columns", say)
        parents = [list(each) for each in learn_structure(rows, space, tell=tell)]
        count = sum(map(len, parents))
        links = "1 dependence" if count == 1 else f"{count:,} dependences"
        yield Start({"parents": parents}, f"{links} between columns, found in the rows by BIC")
        tree = [[each] if each >= 0 else [] for each in _tree(rows, space)]
        yield Start({"parents": tree, "pseudo_count": PSEUDO_COUNT}, "a Chow–Liu tree")
    yield Start({"parents": alone, "pseudo_count": PSEUDO_COUNT}, "independent columns")


def _tree(rows: States, space: Space) -> tuple[int, ...]:
    """The Chow–Liu tree's parents; -1 for the root."""
    most = max(1, PRODUCTS // sum(space.sizes) ** 2)
    return maximum_spanning_tree(mutual_information(rows[:most], space, PSEUDO_COUNT))


def _validation(recipe: Recipe, start: Start, rows: States, space: Space, valid: Tensor) -> float:
    """The mean log-density of held-out rows under the model before its first step."""
    options = {**recipe.model_options, **start.options}
    model: Any = replace(recipe, model_options=options).build_model(space, TrainingSettings())
    model.start_from(rows)
    return mean_log_density(model, valid)
