"""A mixture of many independents whose tables one small network decodes from latent points."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.baselines.conditionals import Observed, PerValue
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.independent import Mixture
from concrete_score.errors import check_count
from concrete_score.models.autoregressive import AutoregressiveLayout, Group
from concrete_score.models.layers import DEEPEST, Dense, normal_parameter
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space


class LatentMixture(nn.Module):
    """``q(x) = Σ_k w_k Π_d q_kd(x_d)``, where the tables of component k are ``softmax(decoder(z_k))``.

    Components share the decoder, so hundreds of them learn from few rows: neighbors among the points ``z_k`` have like
    tables. With the points as nodes of a quadrature it is a continuous mixture (Correia et al., 2023); here points and
    weights learn too. Whatever is asked of it, it answers as the `Mixture` of its tables does: exactly.

    Args:
        space: any space; it is never enumerated.
        components: how many points, K.
        hidden: units in each of the decoder's layers.
        layers: of the decoder, besides its last.
        latent: numbers a point has.
        generator: the source of the first weights and points.
        dtype: of the parameters.

    >>> model = LatentMixture(Space((2, 3)), 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> round(model.log_density(model.space.enumerate()).exp().sum().item(), 12)
    1.0
    """

    by_size: Tensor

    def __init__(
        self,
        space: Space,
        components: int = 512,
        hidden: int = 128,
        layers: int = 3,
        latent: int = 8,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name, value in (("components", components), ("hidden", hidden), ("latent", latent)):
            check_count(value, name)
        check_count(layers, "layers", most=DEEPEST)
        layout = AutoregressiveLayout(space, 1)
        self.space, self.normalized, self._groups = space, True, layout.groups
        self.register_buffer("by_size", layout.by_size.to(generator.device), persistent=False)
        outputs = sum(group.num_sites * group.width for group in self._groups)
        self.points = normal_parameter((components, latent), generator, dtype)
        self.decoder = Dense([latent, *[hidden] * layers, outputs], "silu", generator, dtype)
        self.weights = nn.Parameter(torch.zeros(components, dtype=dtype, device=generator.device))

    @property
    def starts_from_rows(self) -> bool:
        """Before the first step its tables are already about those of the columns."""
        return True

    @torch.no_grad()
    def start_from(
        self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None, l2: float = 0.0
    ) -> None:
        """Let every component begin near the columns' own frequencies.

        Args:
            rows: training rows ``(N, D)``.
            observed: which of their cells are known, bool ``(N, D)``; all by default.
            weights: of the rows ``(N,)``; 1 by default.
            l2: the penalty of the training to come, which frequencies have no use for.
        """
        bias: Tensor = self.decoder.layers[-1].bias  # type: ignore[assignment]
        for group, site, column in self._sites():
            seen = slice(None) if observed is None else observed[:, site]
            each = None if weights is None else weights[seen]
            count = torch.bincount(rows[seen, site].long(), each, minlength=group.size).double()
            chance = (count + PSEUDO_COUNT / group.size).log()
            logits = chance if group.width == group.size else (chance - chance[:1])[group.size - group.width :]
            bias[column : column + group.width] = logits.to(bias) - (logits.mean() if group.size > 2 else 0.0)

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, exact and normalized ``(..., D) -> (...)``."""
        rows = x.reshape(-1, self.space.num_sites)
        sorted_rows, outputs = rows.index_select(-1, self.by_size).long(), self.decoder(self.points)
        joint = self.weights.log_softmax(0)
        read, written = [], []
        for group in self._groups:
            # Relative to a site's first value, whose part is the same for all rows: a product has one column less.
            table = group.log_softmax(outputs)
            joint = joint + table[..., 0].sum(-1)
            written.append((table[..., 1:] - table[..., :1]).flatten(1))
            values = sorted_rows[:, group.first_site : group.first_site + group.num_sites]
            read.append(_one_hot(values, group.size).to(outputs.dtype).flatten(1))
        joint = torch.addmm(joint, torch.cat(read, 1), torch.cat(written, 1).T)
        return joint.logsumexp(-1).reshape(x.shape[:-1])

    @torch.no_grad()
    def mixture(self) -> Mixture:
        """The same density as tables in float64."""
        outputs, width = self.decoder(self.points).double(), max(self.space.sizes)
        parts = [group.log_softmax(outputs) for group in self._groups]
        padded = [functional.pad(part, (0, width - part.shape[-1]), value=-torch.inf) for part in parts]
        tables = torch.cat(padded, 1).index_select(1, self.by_size.argsort())
        return Mixture(self.space, self.weights.double().log_softmax(0), tables)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``."""
        return self.mixture().sample(n, generator)

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``."""
        return self.mixture().log_marginal(x, observed)

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed cells)`` ``(..., D, V)``."""
        return self.mixture().site_log_conditionals(x, observed)

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn jointly ``(..., D)``."""
        return self.mixture().sample_given(x, observed, generator)

    def propose_given(
        self, x: States, observed: Observed, generator: torch.Generator, ahead: Any = None
    ) -> tuple[States, PerState]:
        """`sample_given`, and as the weight of each draw the probability of what was observed, exactly ``(n,)``.

        Its draws know all that was observed: there is nothing to look ``ahead`` for.
        """
        mixture = self.mixture()
        return mixture.sample_given(x, observed, generator), mixture.log_marginal(x, observed)

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple[Any, Tensor]:
        """``q(x) Π_d e_d(x_d) / Z`` as a mixture of tables, and ``log Z``, from ``log e_d(v)`` ``(D, V)``."""
        return self.mixture().tilted(log_weights)

    def _sites(self) -> list[tuple[Group, int, int]]:
        """Every site with its group and the first of its outputs."""
        order = self.by_size.tolist()
        return [
            (group, order[group.first_site + i], group.first_column + i * group.width)
            for group in self._groups
            for i in range(group.num_sites)
        ]


latent = LatentMixture  # by its registered name


def _one_hot(values: Tensor, size: int) -> Tensor:
    """Which of a site's values but the first it has ``(n, sites) -> (n, sites, size - 1)``."""
    if size == 2:
        return values[..., None]
    return values[..., None] == torch.arange(1, size, device=values.device)
