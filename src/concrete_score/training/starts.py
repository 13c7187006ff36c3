"""Where a model starts that can start from dependences between columns: networks found in the rows, and simple models.

All of them are judged by held-out rows before the first step of a training, so that no training ends below them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.baselines.chow_liu import maximum_spanning_tree, mutual_information
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.structure import learn_structure
from concrete_score.progress import Lines
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.examples import Examples
from concrete_score.training.loop import judge_of
from concrete_score.training.recipe import Recipe, build_piece

Say = Callable[[Any], None]
"""Receives a line of text."""
COLUMNS = 10_000
"""The most columns among which dependences are searched for: the gains of all pairs take 800 MB."""
_SOON = 2.0
"""Seconds after which a search says that it goes on."""
PENALTIES = {1.0: "BIC", 0.25: "a quarter of BIC's penalty"}
"""Networks that are tried: sure ones, and ones whose less certain dependences their smoothed tables can afford."""
MIXED_PENALTIES = {1.0: "BIC", 2.0: "twice BIC's penalty", 0.25: "a quarter of BIC's penalty"}
"""Networks that a mixture has members from: few dependences for small tables, many for large ones."""
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
    valid: Tensor | Examples | None = None,
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
    return _judged(recipe, starts, examples, space, Examples.of(valid))[0]


def find_starts(recipe: Recipe, rows: Examples, space: Space, valid: Examples, say: Say) -> list[Start]:
    """All that the members of a mixture may start from, the best on validation first, which says so of the others."""
    return _judged(recipe, _starts(rows, space, say, MIXED_PENALTIES), rows, space, valid)


def _judged(recipe: Recipe, starts: Iterator[Start], rows: Examples, space: Space, valid: Examples) -> list[Start]:
    """The starts with their validation, the best first; what is said of it tells that of the others."""
    found = [replace(start, value=_validation(recipe, start, rows, space, valid)) for start in starts]
    best, *others = sorted(found, key=lambda start: -(start.value or 0.0))
    beside = ", ".join(f"{start.what.partition(', ')[0]} {start.value:.4f}" for start in others)
    return [replace(best, what=f"{best.what}: validation {best.value:.4f} ({beside})"), *others]


def _starts(rows: Examples, space: Space, say: Say, penalties: Mapping[float, str] = PENALTIES) -> Iterator[Start]:
    """The networks to choose from, the most promising first; those of other penalties, as far as they differ."""
    alone: list[list[int]] = [[] for _ in space.sizes]
    if 1 < space.num_sites <= COLUMNS:
        seen = [alone]
        for penalty, name in penalties.items():
            tell = Lines(f"dependences between {space.num_sites:,} columns, by {name}", say, first=_SOON)
            known: dict[str, Any] = {"observed": rows.observed, "weights": rows.weights, "tell": tell}
            parents = [list(each) for each in learn_structure(rows.states, space, penalty=penalty, **known)]
            if parents in seen and len(seen) > 1:
                continue
            seen.append(parents)
            yield Start({"parents": parents}, _found(sum(map(len, parents)), name))
        tree = [[each] if each >= 0 else [] for each in find_tree(rows, space)]
        yield Start({"parents": tree, "pseudo_count": PSEUDO_COUNT}, "a Chow–Liu tree")
    yield Start({"parents": alone, "pseudo_count": PSEUDO_COUNT}, "independent columns")


def _found(count: int, how: str) -> str:
    """What a network of so many dependences is: without any, independent columns of other frequencies (`shrunk`)."""
    if count == 0:
        return f"independent columns with half a row more a value, for no dependences were found in the rows by {how}"
    links = "1 dependence" if count == 1 else f"{count:,} dependences"
    return f"{links} between columns, found in the rows by {how}"


def find_tree(rows: Examples, space: Space) -> tuple[int, ...]:
    """The Chow–Liu tree's parents; -1 for the root."""
    # What is often blank is then rarely the parent of what is not, and can come last.
    root = 0 if rows.observed is None or not rows.often_blank else int(rows.observed.sum(0).argmax())
    some = rows.spread(max(1, PRODUCTS // sum(space.sizes) ** 2))
    return maximum_spanning_tree(mutual_information(_filled_by_column(some), space, PSEUDO_COUNT), root)


def _validation(recipe: Recipe, start: Start, rows: Examples, space: Space, valid: Examples) -> float:
    """The mean log-density of held-out rows under the model before its first step."""
    # Its tables are all that counts before the first step: a network of one unit holds them as well as a large one.
    options = {**recipe.model_options, **start.options, "hidden": 1, "blocks": 0}
    pieces = {"space": space, "generator": generator(0, "start")}
    model: Any = build_piece(registry.load("models", recipe.model), pieces, options, "model")
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
