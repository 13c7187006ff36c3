"""Where a model starts that can start from dependences between columns: networks found in the rows, and simple models.

All of them are judged by held-out rows before the first step of a training, so that no training ends below them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
OFTEN, ROUNDS, COMPLETED = 0.05, 2, 10_000
"""Of the cells blank, from which on networks are looked for in completed rows too; how often, and in how many rows."""
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
    found = _judged(recipe, starts, examples, space, Examples.of(valid))
    if examples.blank_cells > OFTEN * examples.states.numel() and space.num_sites <= COLUMNS:
        found = _searched_completed(recipe, found, examples, space, Examples.of(valid), say)
    return _told(found)


def find_starts(recipe: Recipe, rows: Examples, space: Space, valid: Examples, say: Say) -> list[Start]:
    """All that the members of a mixture may start from, the best on validation first, which says so of the others."""
    found = _judged(recipe, _starts(rows, space, say, MIXED_PENALTIES), rows, space, valid)
    return [_told(found), *found[1:]]


def _judged(recipe: Recipe, starts: Iterable[Start], rows: Examples, space: Space, valid: Examples) -> list[Start]:
    """The starts with their validation, the best first."""
    found = [replace(start, value=_validation(recipe, start, rows, space, valid)) for start in starts]
    return sorted(found, key=lambda start: -(start.value or 0.0))


def _told(found: Sequence[Start]) -> Start:
    """The first of some starts; what is said of it tells the validation of the others."""
    best, *others = found
    beside = ", ".join(f"{start.what.partition(', ')[0]} {start.value:.4f}" for start in others)
    return replace(best, what=f"{best.what}: validation {best.value:.4f}{f' ({beside})' if beside else ''}")


def _searched_completed(
    recipe: Recipe, found: list[Start], rows: Examples, space: Space, valid: Examples, say: Say
) -> list[Start]:
    """The starts, and networks found in rows whose blanks the best one fills (structural EM; Friedman, 1997).

    Rows with blanks tell of a family only where all of it was seen: each family is judged by other rows, and a search
    ends sooner in networks that are wrong. What is found in completed rows is judged by validation as the others are.
    """
    some = rows.spread(COMPLETED)
    for turn in range(ROUNDS):
        model = _started(recipe, found[0], rows, space)
        filled = some.completed(model, generator(0, "completed rows", turn), some.look_ahead(model))
        known = [start.options["parents"] for start in found]
        new = [start for start in _networks(filled, space, say, PENALTIES) if start.options["parents"] not in known]
        best = found[0]
        again = [replace(start, what=f"{start.what} once completed") for start in new]
        found = sorted([*found, *_judged(recipe, again, rows, space, valid)], key=lambda start: -(start.value or 0.0))
        if found[0] is best:
            break
    return found


def _starts(rows: Examples, space: Space, say: Say, penalties: Mapping[float, str] = PENALTIES) -> Iterator[Start]:
    """The networks to choose from, the most promising first; those of other penalties, as far as they differ."""
    alone: list[list[int]] = [[] for _ in space.sizes]
    if 1 < space.num_sites <= COLUMNS:
        yield from _networks(rows, space, say, penalties)
        yield tree_start(rows, space)
    yield Start({"parents": alone, "pseudo_count": PSEUDO_COUNT}, "independent columns")


def tree_start(rows: Examples, space: Space) -> Start:
    """The start at the Chow–Liu tree of the rows."""
    tree = [[each] if each >= 0 else [] for each in find_tree(rows, space)]
    return Start({"parents": tree, "pseudo_count": PSEUDO_COUNT}, "a Chow–Liu tree")


def _networks(rows: Examples, space: Space, say: Say, penalties: Mapping[float, str]) -> Iterator[Start]:
    """The network of each penalty, as far as they differ."""
    seen: list[list[list[int]]] = [[[] for _ in space.sizes]]
    for penalty, name in penalties.items():
        tell = Lines(f"dependences between {space.num_sites:,} columns, by {name}", say, first=_SOON)
        known: dict[str, Any] = {"observed": rows.observed, "weights": rows.weights, "tell": tell}
        parents = [list(each) for each in learn_structure(rows.states, space, penalty=penalty, **known)]
        if parents in seen and len(seen) > 1:
            continue
        seen.append(parents)
        yield Start({"parents": parents}, _found(sum(map(len, parents)), name))


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
    model = _started(recipe, start, rows, space)
    return judge_of(model, None, valid, 0)(model)


def _started(recipe: Recipe, start: Start, rows: Examples, space: Space) -> Any:
    """The model before its first step."""
    # Its tables are all that counts before the first step: a network of one unit holds them as well as a large one.
    options = {**recipe.model_options, **start.options, "hidden": 1, "blocks": 0}
    pieces = {"space": space, "generator": generator(0, "start")}
    model: Any = build_piece(registry.load("models", recipe.model), pieces, options, "model")
    model.start_from(rows.states, rows.observed, rows.weights)
    return model


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
