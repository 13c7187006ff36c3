"""Where a model starts: the best on validation of the networks found in the rows and the simplest baselines.

A model that starts from tables of parents is a density before its first step: a Bayesian network. Columns on their own
and a Chow–Liu tree are such networks too, so what is trained from the best of them, and kept only where it is better on
validation, is never worse there than these baselines.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from concrete_score import registry
from concrete_score.baselines.chow_liu import maximum_spanning_tree, mutual_information
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.structure import learn_structure
from concrete_score.progress import Lines
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.examples import Examples
from concrete_score.training.judge import judge_of
from concrete_score.training.recipe import Recipe

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
    recipe: Recipe,
    rows: States | Examples,
    space: Space,
    valid: States | Examples | None = None,
    say: Say = lambda message: None,
) -> Start:
    """The best start on validation; without held-out rows, the network found by BIC.

    Args:
        recipe: of a model that takes ``parents`` and ``pseudo_count``.
        rows: to learn from ``(N, D)``, with blanks and weights or without.
        space: theirs.
        valid: held-out rows ``(M, D)``, likewise.
        say: receives how far a long search is.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> find_start(Recipe(), torch.stack([a, a], 1), Space.bits(2)).why
    'starts from 1 dependence between columns, found in the rows by BIC'
    """
    examples = Examples.of(rows)
    starts = _starts(examples, space, say)
    if valid is None or not len(valid):
        return next(starts)
    held_out = Examples.of(valid)
    judged = [replace(start, value=_validation(recipe, start, examples, space, held_out)) for start in starts]
    best, *others = sorted(judged, key=lambda start: -(start.value or 0.0))
    beside = ", ".join(f"{start.what.partition(', ')[0]} {start.value:.4f}" for start in others)
    return replace(best, what=f"{best.what}: validation {best.value:.4f} ({beside})")


def _starts(rows: Examples, space: Space, say: Say) -> Iterator[Start]:
    """The networks to choose from, the most promising first."""
    alone: list[list[int]] = [[] for _ in space.sizes]
    if 1 < space.num_sites <= COLUMNS:
        tell = Lines(f"dependences between {space.num_sites:,} columns", say)
        parents = [
            list(each)
            for each in learn_structure(rows.states, space, observed=rows.observed, weights=rows.weights, tell=tell)
        ]
        count = sum(map(len, parents))
        links = "1 dependence" if count == 1 else f"{count:,} dependences"
        yield Start({"parents": parents}, f"{links} between columns, found in the rows by BIC")
        tree = [[each] if each >= 0 else [] for each in _tree(_filled_by_column(rows), space)]
        yield Start({"parents": tree, "pseudo_count": PSEUDO_COUNT}, "a Chow–Liu tree")
    yield Start({"parents": alone, "pseudo_count": PSEUDO_COUNT}, "independent columns")


def _tree(rows: States, space: Space) -> tuple[int, ...]:
    """The Chow–Liu tree's parents; -1 for the root."""
    most = max(1, PRODUCTS // sum(space.sizes) ** 2)
    return maximum_spanning_tree(mutual_information(rows[:most], space, PSEUDO_COUNT))


def _validation(recipe: Recipe, start: Start, rows: Examples, space: Space, valid: Examples) -> float:
    """The mean log-density of held-out rows under the model before its first step."""
    # Its tables are all that counts before the first step: a network of one unit holds them as well as a large one.
    options = {**recipe.model_options, **start.options, "hidden": 1, "blocks": 0}
    model: Any = registry.load("models", recipe.model)(space, **options, generator=generator(0, "start"))
    model.start_from(rows.states, rows.observed, rows.weights)
    return judge_of(model, None, valid, 0)(model)


def _filled_by_column(rows: Examples) -> States:
    """Rows whose blanks hold values drawn from those that were seen in their column ``(N, D)``.

    For the tree alone: such draws weaken dependences and invent none.
    """
    states = rows.states.clone()
    if rows.observed is None:
        return states
    random = generator(0, "blanks of columns", device=states.device)
    for d, seen in enumerate(rows.observed.T):
        if not bool(seen.all()) and bool(seen.any()):
            values = rows.states[seen, d]
            drawn = torch.randint(len(values), (int((~seen).sum()),), generator=random, device=states.device)
            states[~seen, d] = values[drawn]
    return states
