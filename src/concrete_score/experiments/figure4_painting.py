"""In-painting: the lower half of test pictures from the upper one, by the network and by the mixture (DESIGN M8).

Clamped pixels are corrupted anew at every level, so a chain knows what was observed only through its noise: unadjusted.
Chains go through the levels of `Size.painted_between`: from where the observed half begins to tell, to where what the
head says of clean pixels is neither sure nor blurred. Its probabilities there, averaged over the draws of a picture,
are the marginals that are judged. Levels and steps were chosen on validation pictures.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from concrete_score.experiments.figure4_cells import Size, mixture_of, packed, size_of
from concrete_score.experiments.figure4_learning import learned
from concrete_score.experiments.result import Settings
from concrete_score.randomness import generator
from concrete_score.samplers.annealed import Annealed
from concrete_score.samplers.heat_bath import HeatBath
from concrete_score.shapes import States

SHARE = 0.5
"""Of the hidden pixels that are drawn anew in a heat-bath step."""
SHOWN = 4
"""Draws of a picture that are shown."""


def paint(settings: Settings, first: int) -> dict[str, Any]:
    """The log-loss a hidden pixel, picture by picture, for some test pictures from ``first`` on."""
    size = size_of(settings)
    data = size.lesson.pictures()
    rows = data.test[: size.painted][first : first + size.painted_at_once].long()
    hidden = lower_half(data.shape)
    model = learned(size.lesson)
    log_probs, draws, passes = painted(model, rows, hidden, size, generator(settings.seed, "painting", first))
    exact = mixture_of(size, settings.seed).site_log_conditionals(rows, (~hidden).expand_as(rows))
    return {
        "ours": log_losses(log_probs, rows, hidden).tolist(),
        "mixture": log_losses(exact, rows, hidden).tolist(),
        "passes": passes,
        "rows": packed(rows),
        "draws": [packed(draw) for draw in draws[:SHOWN]],
    }


def painted(model: Any, rows: States, hidden: Tensor, size: Size, gen: torch.Generator) -> tuple[Tensor, Tensor, int]:
    """The marginals of every pixel, the draws and the network passes.

    Args:
        model: noise-conditional, with a denoising head.
        rows: whose pixels outside ``hidden`` were observed ``(N, D)``.
        hidden: ``(D,)``.
        size: how many draws, and through which levels.
        gen: the source of the draws.

    Returns:
        ``log P(x_d = v)`` ``(N, D, V)``, the draws ``(M, N, D)``, and the passes.
    """
    chain = painter(model, size)
    many = rows.repeat(size.draws, 1)
    last = chain.run(many, gen, (~hidden).expand_as(many))
    if last.clean_log_probs is None:
        raise RuntimeError("a chain without a final denoising")
    each = last.clean_log_probs.double().reshape(size.draws, *rows.shape, -1)
    mean = each.logsumexp(0) - torch.tensor(float(size.draws), dtype=torch.float64).log()
    return mean, last.x.reshape(size.draws, *rows.shape), last.passes


def painter(model: Any, size: Size) -> Annealed:
    """Heat-bath steps at every level, each after a new corruption of what was observed, then the reverse chain down."""
    levels, (low, high) = size.lesson.levels, size.painted_between
    chosen = tuple(level for level in levels.even(size.painted_levels) if low <= levels.log_snr(level) <= high)
    kernel = partial(HeatBath, share=SHARE)
    return Annealed(model, kernel, size.painted_steps, chosen, descent="reverse", renoise_every=1)


def lower_half(shape: tuple[int, int]) -> Tensor:
    """The pixels of the lower half ``(D,)``.

    >>> lower_half((2, 2)).tolist()
    [False, False, True, True]
    """
    row = torch.arange(shape[0] * shape[1]) // shape[1]
    return row >= shape[0] // 2


def log_losses(log_probs: Tensor, rows: States, hidden: Tensor) -> Tensor:
    """``-log P(x_d)`` of the hidden pixels, averaged over them ``(N, D, V), (N, D) -> (N,)``."""
    told = log_probs.gather(-1, rows[..., None]).squeeze(-1)
    return -told[:, hidden].mean(-1)
