"""The health of a fitted model: are its ratios consistent, does its mass leak, do chains mix on it?"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.diagnostics.consistency import LARGE, Consistency, measure_consistency
from concrete_score.diagnostics.leak import DRAWS, MassLeak, mass_leak
from concrete_score.diagnostics.mixing import KEPT, Mixing, measure_mixing
from concrete_score.errors import InputError
from concrete_score.files import finite
from concrete_score.likelihood import exact_sampler
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import DensityModel, Neighborhood, NoiseConditional, Samplable, ScoreModel, space_of
from concrete_score.samplers.completions import COMPLETIONS
from concrete_score.samplers.run import Progress
from concrete_score.spaces import Space, check_same_space
from concrete_score.targets.pmf import from_density

ROWS = 256
"""Rows at which ratios are held against each other."""
CHAINS = 32


@dataclass(frozen=True)
class RunHealth:
    """What was found, part by part; a part is None where the model or the data do not allow it."""

    consistency: Consistency
    leak: MassLeak | None
    mixing: Mixing | None
    notes: tuple[str, ...] = ()
    """Why a part is missing."""

    @property
    def healthy(self) -> bool:
        """Whether nothing speaks against the model; chains that stick do where there is no other way to draw."""
        leaks = self.leak is not None and self.leak.leaks
        stuck = self.mixing is not None and self.mixing.needed and not self.mixing.mixes
        return not (leaks or stuck or self.consistency.largest > LARGE)

    @property
    def messages(self) -> tuple[str, ...]:
        """One verdict a part, then the notes."""
        parts = [part.message for part in (self.consistency, self.leak, self.mixing) if part is not None]
        return (*parts, *self.notes)

    def verdict(self, from_noise: bool = False) -> str:
        """One sentence over all parts; ``from_noise`` is a model that draws by reversing noise, not by its ratios."""
        if self.healthy and (self.mixing is None or (self.mixing.mixes and self.mixing.agrees)):
            return "Nothing speaks against this model."
        if self.healthy:
            return "Nothing speaks against this model's exact draws; do not trust short chains on it, as told above."
        if from_noise:
            return (
                "Do not trust its ratios as they are; the reverse noise chain, by which it draws, does not need them."
            )
        return "Do not trust this model as it is."

    def to_json(self) -> dict[str, Any]:
        """Plain values, null where there is no number."""
        found: dict[str, Any] = {
            "healthy": self.healthy,
            "consistency": asdict(self.consistency),
            "leak": None,
            "mixing": None,
            "words": list(self.messages),
        }
        if self.leak is not None:
            found["leak"] = asdict(self.leak) | {"excess": self.leak.excess, "z_score": self.leak.z_score}
            found["leak"]["leaks"] = self.leak.leaks
        if self.mixing is not None:
            found["mixing"] = asdict(self.mixing) | {"mixes": self.mixing.mixes}
        plain: dict[str, Any] = finite(found)
        return plain


@torch.no_grad()
def diagnose_run(
    model: Any,
    states: Any,
    neighborhood: Neighborhood | None,
    generator: torch.Generator,
    *,
    held_out: Any = None,
    kernel: str | None = None,
    progress: Progress | None = None,
    looks: int = ROWS,
    draws: int = DRAWS,
    kept: int = KEPT,
    thin: int | None = None,
) -> RunHealth:
    """Look for what speaks against a fitted model.

    Args:
        model: a density or score model; of a noise-conditional one, its weakest level.
        states: rows of data ``(N, D)``; None leaves out what needs them.
        neighborhood: what a single move is, for the leak; the score model's own, or `hamming`, by default.
        generator: all randomness.
        held_out: rows to hold against ``states``; by default these are cut in two at random, which is as good.
        kernel, progress: the chains' kernel by name, by default chosen by the model; what is called after each step.
        looks, draws: rows at which ratios are held against each other, and draws for the leak.
        kept, thin: draws kept of each chain, and steps between them; no chains are run for 0.

    Raises:
        InputError: neither a density nor a score model, another space, or a kernel that cannot run.

    >>> from concrete_score.targets import Ising, from_density
    >>> model, g = from_density(Ising((2, 3), 0.2)), torch.Generator().manual_seed(0)
    >>> health = diagnose_run(model, model.sample(500, g), None, g)
    >>> health.healthy, health.leak.leaks, [text.split(":")[0] for text in health.messages]
    (True, False, ['Consistent by construction', 'No leak', 'Chains mix'])
    """
    model = model.at(0) if isinstance(model, NoiseConditional) else model
    space = space_of(model)
    moves = neighborhood or (model.neighborhood if isinstance(model, ScoreModel) else hamming(space))
    check_same_space(space, moves.space, "model and neighborhood")
    rows, held = _rows(space, states, "states"), _rows(space, held_out, "held_out")
    exact = _exact(model, space)
    starts, origin = _starts(model, space, rows, exact, generator)
    leak, notes = _leak(exact, rows, held, moves, generator, draws)
    some = rows if rows is not None else starts if len(starts) else space.uniform(ROWS, generator)
    agreement = measure_consistency(model, _some(some, looks, generator), generator)
    if kept == 0 or len(starts) < 2:
        why = "no chains were asked for" if kept == 0 else "no start of positive probability was found"
        return RunHealth(agreement, leak, None, (*notes, f"Mixing was not looked at: {why}."))
    how: dict[str, Any] = {"kernel": kernel, "exact": exact, "progress": progress, "kept": kept, "thin": thin}
    return RunHealth(agreement, leak, measure_mixing(model, starts, generator, start=origin, **how), notes)


def _leak(
    exact: Samplable | None,
    rows: Tensor | None,
    held: Tensor | None,
    moves: Neighborhood,
    generator: torch.Generator,
    draws: int,
) -> tuple[MassLeak | None, tuple[str, ...]]:
    """The leak, or why it is not known."""
    if rows is None or len(rows) < 2:
        return None, ("Mass leak was not looked at: it needs rows of data.",)
    if exact is None:
        return None, ("Mass leak was not looked at: it needs exact draws of the model, and there are none.",)
    if held is None:
        order = torch.randperm(len(rows), generator=generator, device=generator.device).to(rows.device)
        rows, held = rows[order[len(rows) // 2 :]], rows[order[: len(rows) // 2]]
    return mass_leak(exact, rows, held, moves, generator, draws), ()


def _starts(
    model: Any, space: Space, rows: Tensor | None, exact: Samplable | None, generator: torch.Generator
) -> tuple[Tensor, str]:
    """Possible states ``(C, D)`` and where they are from: rows, else the model's own draws, else uniform ones."""
    if rows is not None:
        found, origin = _some(rows, 4 * CHAINS, generator), "data"
    elif exact is not None:
        found, origin = exact.sample(CHAINS, generator), "model"
    else:
        found, origin = space.uniform(4 * CHAINS, generator), "uniform"
    if isinstance(model, DensityModel):
        found = found[model.log_density(found).isfinite()]
    if 0 < len(found) < CHAINS:
        found = found.repeat(-(-CHAINS // len(found)), 1)
    return found[:CHAINS], origin


def _exact(model: Any, space: Space) -> Samplable | None:
    """What draws the model's exact samples: itself, or a table of all its states where they are few."""
    own = exact_sampler(model)
    if own is not None or not isinstance(model, DensityModel) or space.num_states > COMPLETIONS:
        return own
    return from_density(model)


def _some(rows: Tensor, most: int, generator: torch.Generator) -> Tensor:
    if len(rows) <= most:
        return rows
    return rows[torch.randperm(len(rows), generator=generator, device=generator.device)[:most].to(rows.device)]


def _rows(space: Space, states: Any, name: str) -> Tensor | None:
    if states is None:
        return None
    rows = space.check(states, name)
    if rows.ndim != 2 or not len(rows):
        raise InputError(f"rows of shape (N, {space.num_sites}), at least one", f"shape {tuple(rows.shape)}", name)
    return rows
