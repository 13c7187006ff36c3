"""A trained model as scores, as a density and as a chain from noise, whatever it was trained as.

See docs/mathematics.md, "Recovery and connected support" and "Likelihood bounds".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.exact import row_log_densities
from concrete_score.likelihood.path_density import PathDensity
from concrete_score.models.densities import Table
from concrete_score.models.masked import Masked
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import Product, hamming
from concrete_score.noise import FactorizedNoise
from concrete_score.protocols import DensityModel, Neighborhood, NoiseConditional, ScoreModel
from concrete_score.samplers.base import all_edits
from concrete_score.samplers.completions import COMPLETIONS, RowName, row_by_number
from concrete_score.scores import Recovery, recover, recover_support
from concrete_score.shapes import States
from concrete_score.spaces import ENUMERATION_LIMIT, Space, check_same_space
from concrete_score.targets.pmf import Pmf, from_density

RECOVERED = 4096
"""States up to which a score model's distribution is the least-squares one; beyond, it is summed along paths."""
INCONSISTENT = 0.5
"""Nats between ratios and the distribution that fits them best, beyond which it is theirs in name only."""
LONGEST = 256
"""Sites up to which a score model's density is summed along paths and bounded."""
RATIOS = 2**22
"""Log-ratios held at once."""


@dataclass(frozen=True, eq=False)
class Views:
    """What a model is, and what can be made of it; each view is made when first asked for, and kept.

    Args:
        model: a density model, a score model, or a score model of several noise levels; it must not change afterwards.
        space: of its states.
        from_noise: of a noise-conditional model, whether it is a chain from noise on small spaces too.

    Raises:
        InputError: neither a density nor a score model, or one of another space.

    >>> from concrete_score.targets import pmf
    >>> p = pmf([0.5, 0.2, 0.3])
    >>> views = Views(DensityScore(p, hamming(p.space)), p.space)   # a model that knows ratios only
    >>> views.normalized.probabilities.round(decimals=6).tolist()
    [0.5, 0.2, 0.3]
    """

    model: Any
    space: Space
    from_noise: bool = False

    def __post_init__(self) -> None:
        if self.score is None and not isinstance(self.model, DensityModel):
            fix = "it must offer `log_density(x)`, or `neighborhood` and `log_ratios(x)`"
            raise InputError("a density model or a score model", type(self.model).__name__, where="model", fix=fix)
        own: Space = self.model.space if self.score is None else self.score.neighborhood.space
        check_same_space(own, self.space, "model and data")

    @cached_property
    def levels(self) -> NoiseConditional | Masked | None:
        """The model that answers as a chain from noise; None where it does not."""
        model = self.model
        if isinstance(model, Masked):
            return model
        if not isinstance(model, NoiseConditional) or not isinstance(model.noise, FactorizedNoise):
            return None
        small = self.space.num_states <= RECOVERED and not self.from_noise
        return None if small or model.noise.num_levels < 2 else model

    @cached_property
    def score(self) -> ScoreModel | None:
        """The score model, at the weakest noise if it has levels; None for a density."""
        if isinstance(self.model, DensityModel):
            return None
        found = self.model.at(0) if isinstance(self.model, NoiseConditional) else self.model
        return found if isinstance(found, ScoreModel) else None

    @cached_property
    def density(self) -> DensityModel | None:
        """The density, as a table where the space is small; None for a score model that has none."""
        if self.score is None:
            small = self.space.num_states <= COMPLETIONS and not isinstance(self.model, Table | Pmf)
            return from_density(self.model) if small else self.model
        if self._recovered is not None:
            return Pmf(self.space, self._recovered.log_pmf)
        try:
            path = PathDensity(self.score)
        except InputError:
            return None
        return from_density(path) if self.space.num_states <= COMPLETIONS else path

    @cached_property
    def _recovered(self) -> Recovery | None:
        """The distribution that fits a score model's ratios best, on a small space; None where none can be had."""
        if self.score is None or self.space.num_states > RECOVERED:
            return None
        ratios = self.score.log_ratios(self.space.enumerate())
        for way in (recover, recover_support):
            try:
                return way(ratios, self.score.neighborhood)
            except InputError:
                pass  # ratios of zero, from a raw head: a support may fit them, or paths avoid them
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about answers by enumeration: that the ratios are of no one distribution, if they are not."""
        misfit = 0.0 if self._recovered is None else self._recovered.inconsistency
        if misfit <= INCONSISTENT:
            return ()
        return (
            "the model's ratios are those of no one distribution: this is the one that fits them best,"
            f" {misfit:.2g} nats from them (root mean square)",
        )

    @cached_property
    def normalized(self) -> DensityModel | None:
        """A density whose sum is known to be 1, by itself or by enumeration; None where it cannot be had."""
        if self.score is None and self.model.normalized:
            normalized: DensityModel = self.model
            return normalized
        if isinstance(self.density, Pmf):
            return self.density
        if self.score is None and self.space.num_states <= ENUMERATION_LIMIT:
            return from_density(self.model)
        return None

    @property
    def device(self) -> torch.device | None:
        """Where the weights are; None for a model without any."""
        parameters = getattr(self.model, "parameters", None)
        first = next(iter(parameters()), None) if callable(parameters) else None
        return None if first is None else first.device

    def why_no_density(self) -> str:
        """Why a score model's density is not known or too expensive; empty where it can be had."""
        if self.density is None:
            return "the density of this score model is not known: its edges change several sites at once"
        if self.score is not None and self.space.num_sites > LONGEST:
            return (
                f"the density of a score model is summed along a path of one pass a site, and there are"
                f" {self.space.num_sites}"
            )
        return ""

    def log_ratios(
        self, rows: States, wanted: Neighborhood, row_name: RowName = row_by_number
    ) -> Float[Tensor, "rows slots"]:
        """``log q(N(x)_k) - log q(x)`` of rows ``(N, K)``: the score model's own where it knows them.

        Raises:
            InputError: a row of probability zero, or a score model that does not know these ratios.
        """
        own = None if self.score is None else _own_log_ratios(self.score, rows, wanted)
        if own is not None:
            return own
        density = self.model if self.score is None else self.density
        if density is None:
            raise InputError(
                "the score model's own neighborhood", "another", "neighborhood", "a score model knows no other ratios"
            )
        refuse_impossible(density, rows, row_name)
        return DensityScore(density, wanted).log_ratios(rows)


def refuse_impossible(density: DensityModel, rows: States, row_name: RowName = row_by_number) -> None:
    """Raise an `InputError` that names the first row of probability zero."""
    zero = row_log_densities(density, rows, row_name=row_name) == -torch.inf
    if zero.any():
        raise InputError(
            "rows that the model gives some probability",
            "probability 0",
            where=row_name(int(zero.nonzero()[0])),
            fix="a ratio to nothing is undefined: leave the row out, or fit a model without zeros",
        )


def _own_log_ratios(model: ScoreModel, rows: States, wanted: Neighborhood) -> Tensor | None:
    """A score model's own log-ratios where they are those wanted, else None."""
    own = model.neighborhood
    step = max(1, RATIOS // max(1, own.num_slots))
    if own == wanted:
        return torch.cat([model.log_ratios(part).double() for part in torch.split(rows, step)])
    changes = sum(size - 1 for size in own.space.sizes)
    if not (isinstance(own, Product) and isinstance(wanted, Product) and own.num_slots == changes):
        return None
    if wanted != hamming(own.space):
        return None
    # All single changes, in slots of another order: through a table of each site's values.
    parts = [_reordered(model.log_ratios(part).double(), part, own, wanted) for part in torch.split(rows, step)]
    return torch.cat(parts)


def _reordered(ratios: Tensor, x: Tensor, own: Product, wanted: Product) -> Tensor:
    """Log-ratios by the slots of ``own`` ``(n, K)`` as those of ``wanted``, both all single changes."""
    width = max(own.space.sizes)
    table = ratios.new_zeros(len(x), own.space.num_sites * width)
    place = [site * width + value for site, value in (all_edits(own, x), all_edits(wanted, x))]
    return table.scatter_(1, place[0], ratios).gather(1, place[1])
