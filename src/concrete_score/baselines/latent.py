"""A mixture of many trees, or of many independents, whose tables one small network decodes from latent points."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.baselines.conditionals import Observed, PerValue
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.forests import Forest, TreeMixture
from concrete_score.baselines.independent import Mixture
from concrete_score.errors import InputError, check_count
from concrete_score.models.layers import DEEPEST, Dense, normal_parameter
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

PRIOR = 1.0
"""Rows' worth of a column's own frequencies in the first table of each of its parent's values."""


class Decoded(NamedTuple):
    """Sites of one size whose parents have one size, and where the decoder writes their logits."""

    size: int
    above: int
    """Values of a parent; 1 for a root, whose hidden parent has one value."""
    sites: tuple[int, ...]
    parents: tuple[int, ...]
    first: int
    """The first of their outputs: a site's are ``[u, v]``, without the first value of a bit, whose logit is 0."""

    @property
    def width(self) -> int:
        """Outputs of one site given one value of its parent."""
        return self.size if self.size > 2 else self.size - 1

    @property
    def end(self) -> int:
        return self.first + len(self.sites) * self.above * self.width

    def logits(self, outputs: Tensor) -> Tensor:
        """``(K, O) -> (K, sites, above, size)``."""
        part = outputs[:, self.first : self.end].reshape(len(outputs), len(self.sites), self.above, self.width)
        return functional.pad(part, (self.size - self.width, 0))

    def log_totals(self, logits: Tensor) -> Tensor:
        """``log Σ_v e^{logit(u, v)}`` ``(K, sites, above)``; of a bit from its one logit."""
        return -functional.logsigmoid(-logits[..., 1]) if self.size == 2 else logits.logsumexp(-1)


def _groups(space: Space, parents: Sequence[int]) -> Iterator[Decoded]:
    """The sites by their own and their parents' sizes."""
    sizes, first = space.sizes, 0
    found: dict[tuple[int, int], list[int]] = {}
    for site, parent in enumerate(parents):
        found.setdefault((sizes[site], 1 if parent < 0 else sizes[parent]), []).append(site)
    for (size, above), sites in sorted(found.items()):
        group = Decoded(size, above, tuple(sites), tuple(parents[site] for site in sites), first)
        first = group.end
        yield group


class LatentMixture(nn.Module):
    """``q(x) = Σ_k w_k Π_d q_kd(x_d | x_parent(d))``, where the tables of component k are ``softmax(decoder(z_k))``.

    Components share the decoder, so hundreds of them learn from few rows: neighbors among the points ``z_k`` have like
    tables. With the points as nodes of a quadrature it is a continuous mixture (Correia et al., 2023); here points and
    weights learn too. Whatever is asked of it, it answers as the mixture of its tables does: exactly.

    Args:
        space: any space; it is never enumerated.
        components: how many points, K.
        hidden: units in each of the decoder's layers.
        layers: of the decoder, besides its last.
        latent: numbers a point has.
        parents: the one other site that each site depends on in every component, -1 for none; none at all by default.
        generator: the source of the first weights and points.
        dtype: of the parameters.

    Raises:
        InputError: a size below 1, or parents that are no forest.

    >>> options = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64}
    >>> model = LatentMixture(Space((2, 3)), 8, parents=[-1, 0], **options)
    >>> round(model.log_density(model.space.enumerate()).exp().sum().item(), 12)
    1.0
    """

    sites: Tensor
    parents: Tensor
    added: Tensor

    def __init__(
        self,
        space: Space,
        components: int = 512,
        hidden: int = 128,
        layers: int = 3,
        latent: int = 8,
        parents: Sequence[int] = (),
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name, value in (("components", components), ("hidden", hidden), ("latent", latent)):
            check_count(value, name)
        check_count(layers, "layers", most=DEEPEST)
        if parents and len(parents) != space.num_sites:
            raise InputError(f"{space.num_sites} parents", f"{len(parents)}", where="parents")
        self.space, self.normalized = space, True
        self.forest = Forest(tuple(parents) or (-1,) * space.num_sites)
        self._groups = tuple(_groups(space, self.forest.parents))
        indices: dict[str, list[int]] = {
            "sites": [site for group in self._groups for site in group.sites],
            "parents": [max(parent, 0) for group in self._groups for parent in group.parents],
            "added": self._above_columns(),
        }
        for index, places in indices.items():
            self.register_buffer(index, torch.tensor(places, device=generator.device), persistent=False)
        self.points = normal_parameter((components, latent), generator, dtype)
        self.decoder = Dense([latent, *[hidden] * layers, self._groups[-1].end], "silu", generator, dtype)
        self.weights = nn.Parameter(torch.zeros(components, dtype=dtype, device=generator.device))

    @property
    def starts_from_rows(self) -> bool:
        """Before the first step its tables are already about those of the columns."""
        return True

    @torch.no_grad()
    def start_from(
        self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None, l2: float = 0.0
    ) -> None:
        """Let every component begin near the frequencies of the columns, given those of their parents.

        Args:
            rows: training rows ``(N, D)``.
            observed: which of their cells are known, bool ``(N, D)``; all by default.
            weights: of the rows ``(N,)``; 1 by default.
            l2: the penalty of the training to come, which frequencies have no use for.
        """
        bias: Tensor = self.decoder.layers[-1].bias  # type: ignore[assignment]
        for group in self._groups:
            tables = []
            for site, parent in zip(group.sites, group.parents, strict=True):
                cells = rows[:, site].long() + (0 if parent < 0 else group.size * rows[:, parent].long())
                seen = slice(None) if observed is None else observed[:, site]
                if parent >= 0 and observed is not None:
                    seen = seen & observed[:, parent]  # type: ignore[operator]
                each = None if weights is None else weights[seen]
                count = torch.bincount(cells[seen], each, minlength=group.above * group.size).double()
                count = count.reshape(group.above, group.size)
                column = count.sum(0) + PSEUDO_COUNT / group.size
                chance = (column[None] if parent < 0 else count + PRIOR * column / column.sum()).log()
                tables.append((chance - chance[:, :1])[:, group.size - group.width :] if group.size <= 2 else chance)
            logits = torch.stack(tables)
            logits = logits - logits.mean(-1, keepdim=True) if group.size > 2 else logits
            bias[group.first : group.end] = logits.flatten().to(bias)

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, exact and normalized ``(..., D) -> (...)``."""
        rows, outputs = x.reshape(-1, self.space.num_sites).long(), self.decoder(self.points)
        joint = self.weights.log_softmax(0)
        # log q_d(v | u) relative to the first values of a site and its parent, whose part is the same for all rows:
        # what v adds, what u adds, and what both add together. So bits take one product of 2 D columns.
        alone, above, both = [], [], []
        for group in self._groups:
            logits = group.logits(outputs)
            totals = group.log_totals(logits)
            joint = joint + (logits[..., 0, 0] - totals[..., 0]).sum(-1)
            alone.append((logits[..., 0, 1:] - logits[..., 0, :1]).flatten(1))
            if group.above > 1:
                first = logits[..., 0] - totals
                above.append((first[..., 1:] - first[..., :1]).flatten(1))
                relative = logits[..., 1:] - logits[..., :1]
                both.append((relative[..., 1:, :] - relative[..., :1, :]).flatten(1))
        written = torch.cat(alone, 1)
        if above:
            written = written.index_add(1, self.added, torch.cat(above, 1))
        read = self._features(rows, outputs.dtype)
        joint = torch.addmm(joint, read, torch.cat([written, *both], 1).T)
        return joint.logsumexp(-1).reshape(x.shape[:-1])

    def _features(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Which values the sites have, then which pairs of values sites and parents have, first values left out."""
        alone, both, at = [], [], 0
        sites, parents = rows.index_select(1, self.sites), rows.index_select(1, self.parents)
        for group in self._groups:
            part = slice(at, at := at + len(group.sites))
            own = _one_hot(sites[:, part], group.size).to(dtype)
            alone.append(own.flatten(1))
            if group.above > 1:
                parent = _one_hot(parents[:, part], group.above).to(dtype)
                both.append((parent[..., :, None] * own[..., None, :]).flatten(1))
        return torch.cat([*alone, *both], 1)

    def _above_columns(self) -> list[int]:
        """Where among the columns of sites alone what their children's tables say of them is added."""
        first, column = {}, 0
        for group in self._groups:
            for site in group.sites:
                first[site], column = column, column + group.size - 1
        return [
            first[parent] + value
            for group in self._groups
            if group.above > 1
            for parent in group.parents
            for value in range(group.above - 1)
        ]

    @torch.no_grad()
    def mixture(self) -> Mixture | TreeMixture:
        """The same density as tables in float64."""
        outputs, width = self.decoder(self.points).double(), max(self.space.sizes)
        weights = self.weights.double().log_softmax(0)
        above = max(group.above for group in self._groups)
        shape = (len(outputs), self.space.num_sites, width if above > 1 else 1, width)
        tables = torch.full(shape, -torch.inf, dtype=torch.float64, device=outputs.device)
        for group in self._groups:
            tables[:, group.sites, : group.above, : group.size] = group.logits(outputs).log_softmax(-1)
        if above == 1:
            return Mixture(self.space, weights, tables[:, :, 0])
        return TreeMixture(self.space, self.forest, weights, tables)

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
        return self.mixture().propose_given(x, observed, generator)

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple[Any, Tensor]:
        """``q(x) Π_d e_d(x_d) / Z`` as a mixture of tables, and ``log Z``, from ``log e_d(v)`` ``(D, V)``."""
        return self.mixture().tilted(log_weights)


latent = LatentMixture  # by its registered name


def _one_hot(values: Tensor, size: int) -> Tensor:
    """Which of a site's values but the first it has ``(n, sites) -> (n, sites, size - 1)``."""
    if size == 2:
        return values[..., None]
    return values[..., None] == torch.arange(1, size, device=values.device)
