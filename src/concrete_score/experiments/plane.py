"""A table of logits learned on a quantized plane, full batch, and how far it ends from the truth (paper, C.2).

Every step sees all training draws at once, as their histogram: the sample's own objective without the noise of
minibatches, and cheaper than one on so small a space. Weights are kept where held-out draws are likeliest. Samples are
stored as packed counts, and plotted as images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.experiments.drawing import INK
from concrete_score.metrics import histogram, kl, total_variation
from concrete_score.models import Table
from concrete_score.protocols import Objective
from concrete_score.randomness import generator
from concrete_score.shapes import PerStateTable, States
from concrete_score.spaces import Space
from concrete_score.targets.pmf import Pmf
from concrete_score.targets.toys import Toy, toy
from concrete_score.training import Finished, TrainingSettings, Validated, train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 100_000
"""Samples in a plot, as many as there are training draws."""
_LOOKS = 80
"""Validations a training."""


@dataclass(frozen=True)
class Plane:
    """One toy with its training draws.

    Args:
        name: of the toy.
        bins: along each axis.
        rows: training draws.
        seed: of the draws.
    """

    name: str
    bins: int
    rows: int
    seed: int

    @cached_property
    def toy(self) -> Toy:
        """The law, cut into bins."""
        return toy(self.name, self.bins)

    @property
    def space(self) -> Space:
        """Two sites of ``bins`` values."""
        return self.toy.space

    @cached_property
    def truth(self) -> Pmf:
        """The exact probability of every bin."""
        return self.toy.pmf()

    @cached_property
    def draws(self) -> Pmf:
        """The histogram of the training draws."""
        return histogram(self.toy.sample(self.rows, generator(self.seed, f"{self.name} rows")), self.space)

    @cached_property
    def error(self) -> float:
        """The training histogram's own total variation to the truth."""
        return total_variation(self.draws, self.truth)

    def held_out(self, share: float) -> States:
        """Draws that were not trained on, a ``share`` of them uniform: each state once, exactly (none if 0)."""
        size = self.space.num_states
        count = round(size * (1 - share) / share) if share else 9 * size
        fresh = self.toy.sample(count, generator(self.seed, f"{self.name} held out"))
        return torch.cat([fresh, self.space.enumerate()]) if share else fresh


def mixed(pmf: PerStateTable, share: float) -> PerStateTable:
    """``(1 - ε) p + ε / S``.

    >>> mixed(torch.tensor([1.0, 0.0]), 0.5).tolist()
    [0.75, 0.25]
    """
    return (1 - share) * pmf + share / len(pmf)


def unmixed(pmf: PerStateTable, share: float) -> tuple[PerStateTable, float]:
    """`mixed` undone exactly, and how much was below zero: that is set to zero, and the rest sums to one again.

    >>> unmixed(torch.tensor([0.75, 0.25]), 0.5)
    (tensor([1., 0.]), 0.0)
    """
    if not share:
        return pmf, 0.0
    clean = (pmf - share / len(pmf)) / (1 - share)
    positive = clean.clamp(min=0)
    return positive / positive.sum(), float((positive - clean).sum())


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A training's end: the kept weights, the last ones, and the way there."""

    kept: PerStateTable
    """Logits where held-out draws were likeliest ``(S,)``."""
    last: PerStateTable
    """Logits where training ended or was stopped, the last finite ones seen ``(S,)``."""
    path: list[tuple[int, float]]
    """Step and total variation to the truth, over the training histogram's own."""
    ended: Finished


def learn(
    plane: Plane,
    objective: Objective,
    how: TrainingSettings,
    *,
    share: float = 0.0,
    start: Table | None = None,
) -> LearnedTable:
    """Train a table, looking at its exact distance from the truth on the way.

    Args:
        plane: the toy and its draws.
        objective: looks at everything at once, whatever the batch.
        how: steps, rate, what the guard may do.
        share: of uniform noise in what the objective sees; subtracted before looking.
        start: uniform by default.
    """
    model = Table(plane.space) if start is None else start
    path: list[tuple[int, float]] = []
    last = model.logits.detach().clone()
    for event in train(model, objective, plane.space.enumerate()[:1], how, plane.held_out(share)):
        if isinstance(event, Validated) and bool(model.logits.isfinite().all()):
            last = model.logits.detach().clone()
            found, _ = unmixed(last.double().softmax(0), share)
            path.append((event.step, total_variation(found, plane.truth) / plane.error))
        if isinstance(event, Finished):
            return LearnedTable(model.logits.detach().clone(), last, path, event)
    raise RuntimeError("training ended without an ending")


def training_settings(steps: int, lr: float, seed: int, **others: Any) -> TrainingSettings:
    """Adam at a constant rate, full batch: one row stands for all."""
    every = max(1, steps // _LOOKS)
    return TrainingSettings(
        steps=steps, batch_size=1, lr=lr, schedule="constant", valid_every=every, seed=seed, **others
    )


def held_against(plane: Plane, logits: PerStateTable, share: float = 0.0) -> dict[str, Any]:
    """Exact distances of a table from the truth, after subtracting the uniform share it was given.

    ``kl`` is infinite where the subtraction leaves nothing, ``kl_mixed`` compares before it.
    """
    q = logits.double().softmax(0)
    clean, clipped = unmixed(q, share)
    distance = total_variation(clean, plane.truth)
    whole = mixed(plane.truth.probabilities, share)
    return {
        "total_variation": distance,
        "ratio": distance / plane.error,
        "kl": _finite(kl(plane.truth, clean)),
        **({"kl_mixed": kl(whole / whole.sum(), q / q.sum()), "clipped": clipped} if share else {}),
    }


def sampled(plane: Plane, logits: PerStateTable, stream: str, share: float = 0.0) -> str:
    """The counts of samples from a table, packed."""
    clean, _ = unmixed(logits.double().softmax(0), share)
    return packed_samples(Pmf(plane.space, clean.log()), generator(plane.seed, stream))


def packed_samples(pmf: Pmf, gen: torch.Generator) -> str:
    """The counts of `SHOWN` exact samples, packed."""
    index: Tensor = pmf.space.index(pmf.sample(SHOWN, gen))
    return pack(torch.bincount(index, minlength=pmf.space.num_states).tolist())


def line_departure(plane: Plane, logits: PerStateTable) -> float:
    """The largest total variation to uniform of a row or column that holds training draws."""
    table = logits.double().softmax(0).reshape(plane.space.sizes)
    weight = plane.draws.probabilities.reshape(plane.space.sizes)
    worst = 0.0
    for site in range(plane.space.num_sites):
        line = (table / table.sum(site, keepdim=True) - 1 / table.shape[site]).abs().sum(site) / 2
        worst = max(worst, float(line[weight.sum(site) > 0].max()))
    return worst


def _finite(value: float) -> float | None:
    return None if value == inf else value


COLORS = "Blues"
_DEEP = 0.995
"""The share of filled bins whose counts are drawn in full; the few above are cut to them."""


def depth(packed: str, bins: int) -> float:
    """The count that is drawn darkest: nearly the largest, so that a few full bins leave the others visible.

    >>> depth("3x3 9", 2)
    9.0
    """
    filled = sorted(count for count in unpack(packed, bins * bins) if count)
    return float(filled[min(len(filled) - 1, int(_DEEP * len(filled)))]) if filled else 1.0


def panel(axes: "Axes", packed: str, bins: int, deepest: float, title: str = "", note: str = "") -> None:
    """Counts as an image, x to the right and y upwards, with a title above and a note below."""
    import numpy as np

    counts = np.array(unpack(packed, bins * bins)).reshape(bins, bins)
    axes.imshow(counts.T, origin="lower", cmap=COLORS, vmin=0, vmax=deepest, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=9.5, color=INK)
    axes.set_xlabel(note, fontsize=8.5, color=INK)


def pack(counts: Sequence[int]) -> str:
    """Many small counts as one short string: how often a value repeats is written after it.

    >>> pack([0, 0, 0, 2, 1, 1])
    '0x3 2 1x2'
    """
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return " ".join(str(value) if times == 1 else f"{value}x{times}" for value, times in runs)


def unpack(text: str, size: int) -> list[int]:
    """The counts of `pack`.

    Raises:
        InputError: there are not ``size`` of them.

    >>> unpack("0x3 2 1x2", 6)
    [0, 0, 0, 2, 1, 1]
    """
    counts: list[int] = []
    for word in text.split():
        value, _, times = word.partition("x")
        counts += [int(value)] * int(times or 1)
    if len(counts) != size:
        raise InputError(f"{size} counts", str(len(counts)), where="a stored unit", fix="remove it, and run again")
    return counts
