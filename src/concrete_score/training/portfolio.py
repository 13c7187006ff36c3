"""The members of a mixture where none are asked for: several kinds of models, mixed as held-out rows decide.

No kind wins everywhere. Where columns depend on a few others, networks that start from found dependences do; where rows
fall into many loose groups, a mixture whose tables are decoded does; with few rows, what learns slowly and stays small
does. Members are trained one by one (`training.members`), and a choice among them costs their training alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SHORTEST, LONGEST = 25, 200
"""Steps between validations: about once in a round over the rows."""
MINUTE_STEPS = 100_000
"""Steps of a member whose end the clock decides."""

Options = Mapping[str, Any]


class Kind(NamedTuple):
    """A way to train members: how often each row is looked at, what that may come to in steps, and the settings."""

    rounds: int
    least: int
    most: int
    settings: Options

    def training(self, rows: int, batch_size: int, timed: bool) -> dict[str, Any]:
        """The settings for so many rows; a member that has minutes lets its rate fall with them."""
        once = max(1, rows // batch_size)
        steps = MINUTE_STEPS if timed else min(max(self.rounds * once, self.least), self.most)
        every = min(max(once, SHORTEST), LONGEST)
        patience = max(steps // 4, 4 * every) if not timed else MINUTE_STEPS
        given = {"steps": steps, "valid_every": every, "patience": patience, "schedule": "timed"}
        return {**given, **self.settings}


NETWORK = Kind(40, 1_000, 8_000, {"lr": 2e-3, "average": 0.99})
"""From the best start, as fast as a network of a large table learns."""
SLOW = Kind(40, 600, 4_000, {"lr": 5e-4, "average": 0.99, "weight_decay": 1.0})
"""From each start, slowly and with weights that decay: what a small table needs, and other dependences to mix in."""
LATENT = Kind(30, 600, 4_000, {"lr": 3e-3, "average": 0.98})
"""Of the decoded mixture."""
COMPONENTS = (256, 256)
"""Of the decoded mixtures, one number each."""


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
) -> Portfolio:
    """The members for a table.

    Args:
        starts: options of networks that start from the rows, the best first; each is also a member as it starts.
        networks: how many of them, the first ones that have dependences, are trained.
        rows: to learn from.
        batch_size: of a step.
        given: settings of every member's training that were asked for.
        options: of every network that is trained.
        timed: whether minutes rather than steps decide when a member ends.

    >>> found = plan_members([{"parents": [[], [0]]}, {"parents": [[], []]}], 1, 1000, 128)
    >>> [(each["model"], each["training"] and each["training"]["steps"]) for each in found.members]
    [('made', None), ('made', None), ('latent', 600), ('made', 1000), ('made', 600), ('latent', 600)]
    >>> found.steps
    2800
    """
    tables = [_member("made", {**start, "hidden": 1, "blocks": 0}, None) for start in starts]
    linked = [start for start in starts if any(start["parents"])][:networks] or list(starts[:1])
    network, slow, latent = (
        {**kind.training(rows, batch_size, timed), **(given or {})} for kind in (NETWORK, SLOW, LATENT)
    )
    decoded = [_member("latent", {"components": count}, latent) for count in COMPONENTS]
    trained = [
        decoded[0],
        _member("made", {**(options or {}), **starts[0]}, network),
        *(_member("made", {**(options or {}), **start}, slow) for start in linked),
        *decoded[1:],
    ]
    steps = sum(each["training"]["steps"] for each in trained)
    kinds = f"{1 + len(linked)} networks and {len(decoded)} decoded mixtures"
    why = f"{kinds} trained one by one, mixed with {len(tables)} simpler models by weights that validation decides"
    return Portfolio([*tables, *trained], steps, why)


def _member(model: str, options: Options, training: Options | None) -> dict[str, Any]:
    return {"model": model, "options": dict(options), "training": None if training is None else dict(training)}
