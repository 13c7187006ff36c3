"""Models of what is hidden given what is visible: the conditionals that absorbing noise asks for, learned or exact.

One network without a level input serves every level. Hiding one site at a time it gives all single-site conditionals,
so it is a score model of the clean states too; revealing site after site in a random order it is an any-order
autoregressive model (docs/mathematics.md, "Absorbing noise").
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError
from concrete_score.models.layers import SiteLogits, SiteTable
from concrete_score.neighborhoods import Product, hamming
from concrete_score.noise import Absorbing, Reveals
from concrete_score.noise.tables import in_chunks
from concrete_score.shapes import PerSlot, PerStateTable, States
from concrete_score.spaces import Space, check_same_space

TOGETHER = 2**18
"""Sites of hidden copies that go through a network at once."""


class Masked(ABC):
    """What follows from the conditionals of hidden sites, ``clean_log_probs``."""

    noise: Absorbing

    @property
    def space(self) -> Space:
        """Of the clean states."""
        return self.noise.space

    @property
    def neighborhood(self) -> Product:
        """All single changes of clean states."""
        return hamming(self.space)

    @abstractmethod
    def clean_log_probs(self, x: States, level: int | Tensor | None = None) -> SiteTable:
        """``log P(x_d = v | the visible sites of x̃)`` of all sites ``(..., D, V)``; a visible one is what it is.

        Whatever the ``level``: the noise says only which sites are visible, and x̃ shows that.
        """

    def log_ratios(self, x: States) -> PerSlot:
        """``log P(x_d = v | the others) - log P(x_d | the others)`` on `hamming`: D hidden copies of each row.

        The conditionals of a learned model need not be those of one distribution.
        """
        size, sites = self.space.sizes_tensor(x.device), self.space.num_sites
        site = torch.arange(sites, device=x.device).repeat_interleave(size - 1)
        first = ((size - 1).cumsum(0) - (size - 1))[site]
        rank = torch.arange(len(site), device=x.device) - first
        one = torch.eye(sites, dtype=torch.bool, device=x.device)

        def ratios(rows: Tensor) -> Tensor:
            copies = self.noise.hide(rows[:, None].expand(-1, sites, -1), one.expand(len(rows), -1, -1))
            flat = self.clean_log_probs(copies.flatten(0, 1))
            table = flat.reshape(len(rows), sites, sites, flat.shape[-1])
            table = table.diagonal(dim1=1, dim2=2).transpose(1, 2)  # each copy's own hidden site: (n, D, V)
            other = rank + (rank >= rows[:, site])
            now = table.gather(-1, rows[..., None].long()).squeeze(-1)
            return table[:, site].gather(-1, other[..., None]).squeeze(-1) - now[:, site]

        rows = x.reshape(-1, sites)
        step = max(1, TOGETHER // sites**2)
        return torch.cat([ratios(part) for part in torch.split(rows, step)]).reshape(*x.shape[:-1], len(site))

    def scores_at(self, level: int) -> "MaskedAtLevel":
        """The score model of the noisy states at one level."""
        return MaskedAtLevel(self, level)

    def _shown(self, x: States, hidden_log_probs: Tensor) -> Tensor:
        """The conditionals of hidden sites, and certainty at the visible ones."""
        value = torch.arange(hidden_log_probs.shape[-1], device=x.device)
        sure = torch.where(x[..., None] == value, 0.0, -torch.inf).to(hidden_log_probs.dtype)
        return torch.where(self.noise.hidden(x)[..., None], hidden_log_probs, sure)


class MaskedNetwork(Masked, nn.Module):
    """A trunk that reads noisy states, *unknown* included, and writes logits of every site's clean value.

    Args:
        trunk: a network on ``noise.noisy_space`` without levels, of one output for each clean value.
        noise: absorbing.

    Raises:
        InputError: a trunk that does not fit.

    >>> from concrete_score.models.score import MLP
    >>> noise = Absorbing(Space((2, 3)), (0.5, 0.0))
    >>> model = MaskedNetwork(MLP(noise.noisy_space, 5, generator=torch.Generator().manual_seed(0)), noise)
    >>> model.clean_log_probs(torch.tensor([[1, 3]])).exp()[0, 0]  # visible
    tensor([0., 1., 0.], grad_fn=<SelectBackward0>)
    >>> model.log_ratios(torch.tensor([[1, 2], [0, 0]])).shape
    torch.Size([2, 3])
    """

    def __init__(self, trunk: Any, noise: Absorbing) -> None:
        super().__init__()
        check_same_space(trunk.space, noise.noisy_space, "trunk and noisy states")
        self.sites = SiteLogits(noise.space)
        if trunk.out_features != self.sites.out_features or trunk.num_levels is not None:
            expected = f"a trunk of {self.sites.out_features} outputs and no levels"
            raise InputError(expected, f"{trunk.out_features} and {trunk.num_levels}", where="trunk")
        self.trunk, self.noise = trunk, noise

    def forward(self, x: States) -> SiteTable:
        return self.clean_log_probs(x)

    def clean_log_probs(self, x: States, level: int | Tensor | None = None) -> SiteTable:
        """``(..., D) -> (..., D, V)``; one pass."""
        return self._shown(x, self.sites.log_probs(self.trunk(x)))


@dataclass(frozen=True, eq=False)
class IdealMasked(Masked):
    """The exact conditionals of weighted clean states: what training would reach if it were perfect.

    Args:
        states: clean states ``(N, D)``.
        noise: absorbing.
        weights: positive, any sum ``(N,)``.

    >>> ideal = IdealMasked.of(torch.tensor([0.1, 0.2, 0.3, 0.4]), Absorbing(Space.bits(2), (0.5, 0.0)))
    >>> ideal.clean_log_probs(torch.tensor([[2, 1]])).exp()[0, 0].tolist()  # 0.2 : 0.4
    [0.333..., 0.666...]
    """

    states: Tensor
    noise: Absorbing
    weights: Tensor
    _member: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", self.noise.space.check(self.states, "states"))
        object.__setattr__(self, "_member", self.states[..., None] == torch.arange(max(self.noise.space.sizes)))

    @classmethod
    def of(cls, pmf: PerStateTable, noise: Absorbing) -> "IdealMasked":
        """Of a distribution over an enumerable space ``(S,)``."""
        return cls(noise.space.enumerate(), noise, pmf)

    def clean_log_probs(self, x: States, level: int | Tensor | None = None) -> SiteTable:
        """``(..., D) -> (..., D, V)`` in float64; -inf where no clean state has it, NaN given the impossible."""
        log_weights = self.weights.double().log()

        def marginals(rows: Tensor) -> Tensor:
            agrees = ((rows[:, None] == self.states) | self.noise.hidden(rows)[:, None]).all(-1)
            posterior = torch.where(agrees, log_weights, -torch.inf).log_softmax(-1)
            return torch.where(self._member, posterior[..., None, None], -torch.inf).logsumexp(1)

        rows = x.reshape(-1, self.space.num_sites)
        found = in_chunks(marginals, self._member.numel(), rows)
        return self._shown(x, found.reshape(*x.shape, found.shape[-1]))


@dataclass(frozen=True, eq=False)
class MaskedAtLevel:
    """A `ScoreModel` of noisy states at one level: ratios between a value and *unknown* (see `Absorbing`)."""

    model: Masked
    level: int

    @property
    def neighborhood(self) -> Reveals:
        return self.model.noise.neighborhood

    def log_ratios(self, x: States) -> PerSlot:
        """``log p̃(N(x̃)_k) - log p̃(x̃)`` ``(..., K)``: one pass for the unknown sites, one copy more a visible one."""
        noise = self.model.noise
        site, value = noise.neighborhood.slots(x.device)
        one = torch.eye(noise.space.num_sites, dtype=torch.bool, device=x.device)
        copies = noise.hide(x[..., None, :].expand(*x.shape, -1), one | noise.hidden(x)[..., None, :])
        # [copy, site, value] at copy = site: the site's conditional given the other visible ones.
        table = self.model.clean_log_probs(copies).diagonal(dim1=-3, dim2=-2).transpose(-1, -2)
        towards = table[..., site, :].gather(
            -1, value.clamp_max(table.shape[-1] - 1).expand_as(x[..., site])[..., None]
        )
        last = (noise.space.sizes_tensor(x.device) - 1)[site]
        own = table.gather(-1, x.clamp_max(table.shape[-1] - 1)[..., None]).squeeze(-1)[..., site]
        log_kept, log_lost = (float(logs[self.level]) for logs in noise.logs())
        shown = towards.squeeze(-1) + (log_kept - log_lost)
        gain = torch.where(noise.hidden(x)[..., site] & (value <= last), shown, log_lost - log_kept - own)
        return torch.where(self.neighborhood.valid(x), gain, 0.0)
