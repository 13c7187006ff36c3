"""The Potts model: fields of all sites and couplings of all pairs; how strongly two sites are coupled."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.models.layers import SiteTable
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.pairwise import Pairwise

SMALL = 1e-3
"""Deviation of the first weights."""
PSEUDO_COUNT = 1.0
"""Rows of evenly spread pseudo-data by which the first fields are smoothed."""
TILE = 256
"""Rows and columns of a matrix that are mirrored at once."""
SETTLING = 200
"""Newton's steps that find the penalized fields."""
WORK, FEWEST_STEPS, MOST_STEPS = 4e9, 150, 2_000
"""Couplings times steps of a training, and how many steps that may be."""


class Potts(nn.Module):
    """``log q(x) = Σ_d h_d(x_d) + Σ_{d<e} J_de(x_d, x_e)``, not normalized: a density with local fields.

    The couplings are one symmetric matrix ``(D V, D V)`` whose blocks on the diagonal are 0. A row, one-hot, times it
    is the sum of the couplings to every value of every site: all conditionals and all log-ratios of single changes
    cost one product. `pairwise` gives the same density to the samplers that keep local fields up to date.

    Args:
        space: any sizes, V the largest.
        generator: the source of the first weights, which are small.
        dtype: of the parameters.

    >>> model = Potts(Space((2, 3)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> x = model.space.enumerate()
    >>> bool(torch.allclose(model.log_density(x), model.pairwise().log_density(x)))
    True
    """

    exists: Tensor

    def __init__(self, space: Space, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.space, self.normalized = space, False
        sites, width = space.num_sites, max(space.sizes)
        exists = torch.arange(width, device=generator.device) < space.sizes_tensor(generator.device)[:, None]
        self.register_buffer("exists", exists, persistent=False)
        build: dict[str, Any] = {"generator": generator, "dtype": dtype, "device": generator.device}
        self.fields = nn.Parameter(SMALL * torch.randn(sites * width, **build) * exists.flatten())
        half = SMALL * torch.randn(sites * width, sites * width, **build)
        apart = exists.flatten()[:, None] & exists.flatten()
        self.couplings = nn.Parameter(_off_diagonal((half + half.T) * apart, width))

    starts_from_rows = True
    leaves_blanks = True
    """Its site conditionals can do without the sites that are blank (`site_logits`)."""

    @staticmethod
    def suited_training(space: Space, rows: float) -> dict[str, tuple[Any, str]]:
        """Settings that suit an effective number of rows, each with its reason.

        The penalty is what is customary for protein families (Hopf et al., 2017): 0.01 (D - 1) (V - 1) of each squared
        coupling; each stands in the matrix twice.
        """
        pair = max(1, space.num_sites - 1) * (max(space.sizes) - 1)
        l2 = 0.01 * pair / (2 * max(rows, 1.0))
        steps = int(min(max(WORK / (space.num_sites * max(space.sizes)) ** 2, FEWEST_STEPS), MOST_STEPS))
        return {
            "l2": (l2, f"l2 {l2:.3g}: a hundredth for each free number of a pair, over the effective rows"),
            "steps": (steps, f"{steps:,} steps: the fewer, the more couplings there are"),
        }

    @property
    def penalized(self) -> tuple[Tensor, ...]:
        """What a penalty is on: the fields as well as the couplings (Ekeberg et al., 2013)."""
        return self.fields, self.couplings

    @torch.no_grad()
    def start_from(
        self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None, l2: float = 0.0
    ) -> None:
        """Independent sites with the frequencies of the rows ``(N, D)``: of ``observed`` cells, by ``weights``.

        With a penalty the fields minimize ``-Σ_v f(v) log softmax(h)(v) + l2 Σ_v h(v)²`` at every site.
        """
        share = torch.ones(len(rows), device=rows.device) if weights is None else weights.float() / weights.mean()
        seen = share[:, None].expand(rows.shape) if observed is None else share[:, None] * observed
        count = torch.zeros(self.exists.shape, device=rows.device)
        for start in range(0, len(rows), 2**12):
            part = slice(start, start + 2**12)
            count += (functional.one_hot(rows[part].long(), count.shape[-1]) * seen[part, :, None]).sum(0)
        count = (count + PSEUDO_COUNT / count.shape[-1]) * self.exists
        log_share = count.log().masked_fill(~self.exists, 0.0)
        centered = log_share - log_share.sum(-1, keepdim=True) / self.exists.sum(-1, keepdim=True)
        fields = _shrunk(centered * self.exists, count / count.sum(-1, keepdim=True), l2) if l2 else centered
        self.fields.copy_((fields * self.exists).flatten())
        self.couplings.zero_()

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, not normalized ``(..., D) -> (...)``."""
        # Every coupling stands in the products of both its ends.
        both = self._products(x) + 2 * self.fields.view(self.exists.shape)
        return both.gather(-1, x.long()[..., None]).squeeze(-1).sum(-1) / 2

    def site_logits(self, x: States, observed: Tensor | None = None) -> SiteTable:
        """``log q(x_d = v | the others)`` up to a constant a site ``(..., D) -> (..., D, V)``; -inf beyond a size.

        Of rows with blanks, ``observed`` bool ``(..., D)``: a blank says nothing about the other sites, so its
        couplings are left out. That is not the marginal of the model; it is how gapped alignments are learned from.
        """
        logits = self._products(x, observed) + self.fields.view(self.exists.shape)
        return logits if bool(self.exists.all()) else logits.masked_fill(~self.exists, -torch.inf)

    def local_fields(self, x: States, observed: Tensor | None = None) -> Tensor:
        """``log q(x_d = v | the others) - log q(x_d = 0 | the others)`` ``(..., D) -> (..., D, V-1)``."""
        logits = self.site_logits(x, observed)
        return logits[..., 1:] - logits[..., :1]

    def interactions(self) -> Tensor:
        """All pairs of sites ``(E, 2)``."""
        return torch.triu_indices(*(self.space.num_sites,) * 2, offset=1, device=self.couplings.device).T

    def pairwise(self) -> Pairwise:
        """The density as it is now, its parameters shared."""
        pairs = self.interactions()
        return Pairwise(self.space, self.fields.view(self.exists.shape), self.blocks()[pairs[:, 0], pairs[:, 1]], pairs)

    def blocks(self) -> Float[Tensor, "sites sites values values"]:
        """``J_de(a, b)`` ``(D, D, V, V)``."""
        sites, width = self.exists.shape
        return self.couplings.view(sites, width, sites, width).transpose(1, 2)

    def _products(self, x: States, observed: Tensor | None = None) -> Tensor:
        """The row, one-hot, times the couplings ``(..., D) -> (..., D, V)``."""
        sites, width = self.exists.shape
        hot = functional.one_hot(x.reshape(-1, sites).long(), width).to(self.couplings.dtype)
        if observed is not None:
            hot = hot * observed.reshape(-1, sites, 1)
        hot = hot.view(-1, sites * width)
        found: Tensor = _SymmetricProduct.apply(hot, self.couplings, width)  # type: ignore[no-untyped-call]
        return found.view(*x.shape, width)


potts = Potts  # by its registered name


def _shrunk(fields: Tensor, share: Tensor, l2: float) -> Tensor:
    """The penalized fields of sites with these shares of values ``(D, V)``; 0 where no value exists.

    Newton's steps by the diagonal, halved, which always leads downhill here.
    """
    for _ in range(SETTLING):
        probs = fields.masked_fill(share == 0, -torch.inf).softmax(-1)
        slope = probs - share + 2 * l2 * fields
        fields = fields - 0.5 * slope / (probs * (1 - probs) + 2 * l2)
    return fields


class _SymmetricProduct(torch.autograd.Function):
    """``hot @ W`` with the gradient of a W that stays symmetric and 0 on its diagonal blocks."""

    @staticmethod
    def forward(ctx: Any, hot: Tensor, matrix: Tensor, width: int) -> Tensor:
        ctx.save_for_backward(hot)
        ctx.width = width
        return hot @ matrix

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (hot,) = ctx.saved_tensors
        slope = hot.T @ grads[0]
        # A coupling and its mirror image are one number, so each gets the sum of both slopes.
        return None, _off_diagonal(_with_mirror_image(slope), ctx.width), None


def _with_mirror_image(matrix: Tensor) -> Tensor:
    """``M + M.T`` in place: by tiles that a cache holds, six times as fast as at once."""
    for i in range(0, len(matrix), TILE):
        for j in range(i, len(matrix), TILE):
            tile, mirror = matrix[i : i + TILE, j : j + TILE], matrix[j : j + TILE, i : i + TILE]
            both = tile + mirror.T
            tile.copy_(both)
            mirror.copy_(both.T)
    return matrix


def _off_diagonal(matrix: Tensor, width: int) -> Tensor:
    """The matrix with its diagonal blocks set to 0, in place."""
    sites = len(matrix) // width
    matrix.view(sites, width, sites, width).diagonal(dim1=0, dim2=2).zero_()
    return matrix


def zero_sum(blocks: Tensor, exists: Tensor) -> Tensor:
    """Couplings whose rows and columns sum to 0, the same interactions written uniquely ``(D, D, V, V)``.

    Args:
        blocks: ``J_de(a, b)`` ``(D, D, V, V)``.
        exists: which values a site has, bool ``(D, V)``.
    """
    first, second = (exists[:, None, :, None], exists[None, :, None, :])
    inside = (first & second).to(blocks.dtype)
    kept = blocks * inside
    size = exists.sum(-1).to(blocks.dtype)
    over_first = kept.sum(-2, keepdim=True) / size[:, None, None, None]
    over_second = kept.sum(-1, keepdim=True) / size[None, :, None, None]
    over_both = over_first.sum(-1, keepdim=True) / size[None, :, None, None]
    return (kept - over_first - over_second + over_both) * inside


@torch.no_grad()
def coupling_strengths(model: Potts) -> Float[Tensor, "sites sites"]:
    """How strongly each pair of sites is coupled: norms in the zero-sum gauge, average-product-corrected ``(D, D)``.

    ``S_de - S_d. S_.e / S_..`` with ``S_de = ‖J_de‖`` (Dunn, Wahl and Gloor, 2008); 0 on the diagonal.

    >>> model = Potts(Space((2, 2, 2)), generator=torch.Generator().manual_seed(0))
    >>> with torch.no_grad():
    ...     _ = model.couplings.zero_()
    ...     model.couplings[0, 2] = model.couplings[2, 0] = 1.0
    >>> strength = coupling_strengths(model)
    >>> int(strength.argmax())  # sites 0 and 1
    1
    """
    norm = zero_sum(model.blocks(), model.exists).square().sum((-2, -1)).sqrt()
    others = max(1, len(norm) - 1)
    mean = norm.sum(-1) / others
    corrected = norm - mean[:, None] * mean / mean.mean().clamp_min(torch.finfo(norm.dtype).tiny)
    return corrected.fill_diagonal_(0.0)
