"""Draws by short chains, for models that can be drawn from in no other way."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.fitted import Drawn
from concrete_score.report.effort import Effort
from concrete_score.report.mixing import mean_value
from concrete_score.samplers import run
from concrete_score.samplers.clamped import default_kernel, named_kernel, possible_starts
from concrete_score.spaces import Space

CHAINS, KEPT = 128, 8
"""Chains side by side, and draws used of each."""
SWEEPS = 60
"""Visits of each site, burn-in included; fewer where time is short."""
SECONDS = 4.0
LOOSE = 1.1
"""R-hat from which the draws are not to be trusted."""


@torch.no_grad()
def draw_by_chains(model: Any, space: Space, effort: Effort, generator: torch.Generator) -> Drawn:
    """Rows from uniform starts, half of all steps thrown away.

    Raises:
        InputError: no kernel runs on this model, or it is too slow for chains here.
    """
    steps = min(SWEEPS * space.num_sites, effort.steps(SECONDS, space, CHAINS))
    if steps < 4 * KEPT:
        raise InputError("a model quick enough for chains", "one that is not", fix="draw from it with csm sample")
    name = default_kernel(model)
    nothing = torch.zeros(CHAINS, space.num_sites, dtype=torch.int64, device=generator.device)
    starts = possible_starts(model, nothing, nothing.bool(), space, generator)
    thin = max(1, steps // (2 * KEPT))
    found = run(
        named_kernel(name, model),
        starts,
        steps=KEPT * thin,
        burn_in=steps - KEPT * thin,
        thin=thin,
        generator=generator,
        statistics={"the mean value": mean_value},
    )
    rows: Tensor = found.rows
    if found.diagnosis is None:  # pragma: no cover - asked for by default
        return Drawn(rows, name)
    worst = max(each.r_hat for each in found.diagnosis.statistics.values())
    sweeps = steps / space.num_sites
    doubt = (
        f"{CHAINS} chains of '{name}' that visited each column {sweeps:.0f} times have not mixed (R-hat {worst:.2f})"
    )
    words = f"Draws cannot be held against the data: {doubt}. csm sample runs them longer."
    return Drawn(rows, name, (words,) if not worst <= LOOSE else ())
