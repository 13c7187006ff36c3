"""The members of a mixture where none are asked for: several kinds of models, mixed as held-out rows decide.

No kind wins everywhere. Where columns depend on a few others, networks that start from found dependences do; where rows
fall into many loose groups, a mixture of trees or independents whose tables are decoded does; with few rows, what
learns slowly and stays small does. Members are trained one by one (`training.members`), and a choice among them costs
their training alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from concrete_score.spaces import Space

SHORTEST, LONGEST = 25, 200
"""Steps between validations: about once in a round over the rows."""
MINUTE_STEPS = 100_000
"""Steps of a member whose end the clock decides."""
PRODUCTS = 1.2e12
"""Multiplications that a member's training may take: a minute or two of two cores."""
TREE_VALUES = 8
"""The most values a column may take for trees of pair tables in hundreds of components."""

Options = Mapping[str, Any]


class Kind(NamedTuple):
    """A way to train members: how often each row is looked at, what that may come to in steps, and the settings."""

    rounds: int
    least: int
    most: int
    settings: Options

    def training(self, rows: int, batch_size: int, timed: bool, cost: float = 0.0) -> dict[str, Any]:
        """The settings for so many rows and multiplications a step; with minutes its rate falls with them."""
        once = max(1, rows // batch_size)
        most = min(self.most, max(self.least, int(PRODUCTS / cost))) if cost else self.most
        steps = MINUTE_STEPS if timed else min(max(self.rounds * once, self.least), most)
        every = min(max(once, SHORTEST), LONGEST)
        patience = max(steps // 4, 4 * every) if not timed else MINUTE_STEPS
        given = {"steps": steps, "valid_every": every, "patience": patience, "schedule": "timed"}
        return {**given, **self.settings}


NETWORK = Kind(40, 1_000, 8_000, {"lr": 2e-3, "average": 0.99})
"""From the best start, as fast as a network of a large table learns."""
SLOW = Kind(40, 600, 4_000, {"lr": 5e-4, "average": 0.99, "weight_decay": 1.0})
"""From each start, slowly and with weights that decay: what a small table needs, and other dependences to mix in."""
LATENT = Kind(30, 600, 4_000, {"lr": 3e-3, "average": 0.98})
"""Of a decoded mixture of independents."""
TREES = Kind(60, 600, 20_000, {"lr": 3e-3, "average": 0.999})
"""Of a decoded mixture of trees."""
INDEPENDENTS: Options = {"components": 256}
FORESTS: tuple[Options, ...] = ({"components": 512}, {"components": 512, "hidden": 256})
"""The decoded mixtures."""
_DECODER = 128
"""Units of a decoder that nothing is said of."""


class Portfolio(NamedTuple):
    """The members of a mixture, the steps they may take together, and what they are for reading."""

    members: list[dict[str, Any]]
    steps: int
    why: str


def plan_members(
    starts: Sequence[Options],
    networks: int,
    rows: int,
    batch_size: int,
    given: Options | None = None,
    *,
    options: Options | None = None,
    timed: bool = False,
    space: Space | None = None,
    tree: Sequence[int] = (),
) -> Portfolio:
    """The members for a table, those that gain most first.

    Args:
        starts: options of networks that start from the rows, the best first; each is also a member as it starts.
        networks: how many of them, the first ones that have dependences, are trained.
        rows: to learn from.
        batch_size: of a step.
        given: settings of every member's training that were asked for.
        options: of every network that is trained.
        timed: whether minutes rather than steps decide when a member ends.
        space: of the rows, with a tree.
        tree: the parent of each site in a tree, -1 for the root, where columns have few values; else empty.

    >>> found = plan_members([{"parents": [[], [0]]}, {"parents": [[], []]}], 1, 1000, 128)
    >>> [(each["model"], each["training"] and each["training"]["steps"]) for each in found.members]
    [('made', None), ('made', None), ('latent', 600), ('made', 1000), ('latent', 600), ('made', 600)]
    >>> found.steps
    2800
    """
    tables = [_member("made", {**start, "hidden": 1, "blocks": 0}, None) for start in starts]
    linked = [start for start in starts if any(start["parents"])][:networks] or list(starts[:1])

    def trained(kind: Kind, cost: float = 0.0) -> dict[str, Any]:
        return {**kind.training(rows, batch_size, timed, cost), **(given or {})}

    decoded = [_member("latent", INDEPENDENTS, trained(LATENT))] * 2
    if tree and space is not None:
        costs = [_products(each, tree, space, batch_size) for each in FORESTS]
        forests = [{**each, "parents": list(tree)} for each in FORESTS]
        decoded = [_member("latent", *each) for each in zip(forests, (trained(TREES, c) for c in costs), strict=True)]
    learned = [
        decoded[0],
        _member("made", {**(options or {}), **starts[0]}, trained(NETWORK)),
        *decoded[1:],
        *(_member("made", {**(options or {}), **start}, trained(SLOW)) for start in linked),
    ]
    steps = sum(each["training"]["steps"] for each in learned)
    kinds = f"{1 + len(linked)} networks and {len(decoded)} decoded mixtures of {'trees' if tree else 'independents'}"
    why = f"{kinds} trained one by one, mixed with {len(tables)} simpler models by weights that validation decides"
    return Portfolio([*tables, *learned], steps, why)


def _products(decoder: Options, tree: Sequence[int], space: Space, batch_size: int) -> float:
    """Multiplications of a step of a decoded mixture of trees: tables decoded and met by rows, there and back."""
    sizes = space.sizes
    columns = sum(size - 1 for size in sizes)
    columns += sum((sizes[parent] - 1) * (size - 1) for size, parent in zip(sizes, tree, strict=True) if parent >= 0)
    return 3.0 * int(decoder["components"]) * columns * (batch_size + int(decoder.get("hidden", _DECODER)))


def _member(model: str, options: Options, training: Options | None) -> dict[str, Any]:
    return {"model": model, "options": dict(options), "training": None if training is None else dict(training)}
