"""Densities given directly: a table of logits, and an energy that is never normalized."""

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError, check_count
from concrete_score.models.layers import Dense, SiteFeatures, draw_categories, normal_parameter
from concrete_score.shapes import PerState, PerStateTable, States
from concrete_score.spaces import Space


class Table(nn.Module):
    """``log q(x) = logits[x] - logsumexp(logits)``, or the logits alone; it can be any distribution at all.

    The paper's model of the two-dimensional toys (section 5.3, appendix C.2).

    Args:
        space: an enumerable space.
        generator: None starts uniform, as the paper does; else the logits start standard normal.
        normalized: whether `log_density` subtracts the normalizer; log-ratios are the same either way.
        dtype: of the logits.

    Raises:
        InputError: the space is too large to enumerate.

    >>> table = Table(Space((2, 3)))
    >>> table.log_density(torch.tensor([0, 2])).exp()
    tensor(0.1667, grad_fn=<ExpBackward0>)
    """

    def __init__(
        self,
        space: Space,
        generator: torch.Generator | None = None,
        normalized: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        space.check_enumerable()
        self.space, self.normalized = space, normalized
        shape = (space.num_states,)
        zeros = nn.Parameter(torch.zeros(shape, dtype=dtype))
        self.logits = zeros if generator is None else normal_parameter(shape, generator, dtype)

    @classmethod
    def from_pmf(cls, space: Space, pmf: PerStateTable, normalized: bool = True) -> "Table":
        """The table of a known distribution, zeros included (their logit is -inf).

        Args:
            space: an enumerable space.
            pmf: one weight a state, in the order of enumeration ``(S,)``; need not sum to 1.

        >>> Table.from_pmf(Space((2,)), torch.tensor([1.0, 3.0])).log_density(torch.tensor([[0], [1]])).exp().tolist()
        [0.25, 0.75]
        """
        table = cls(space, normalized=normalized, dtype=pmf.dtype)
        if pmf.shape != table.logits.shape:
            raise InputError(f"one weight for each of {space.num_states} states", f"{tuple(pmf.shape)}", "pmf")
        if not (pmf.isfinite().all() and (pmf >= 0).all() and pmf.sum() > 0):
            raise InputError("finite weights, none negative, not all zero", "others", where="pmf")
        table.logits = nn.Parameter(pmf.detach().log())
        return table

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, up to a constant unless ``normalized`` ``(..., D) -> (...)``."""
        # index_select's gradient adds up in place, several times faster than that of indexing.
        found = self.logits.index_select(0, self.space.index(x).reshape(-1)).reshape(x.shape[:-1])
        return found - self.logits.logsumexp(0) if self.normalized else found

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact draws ``(n, D)``."""
        unit = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
        index: Tensor = draw_categories(self.logits, unit.to(self.logits.device))
        return self.space.state(index)


table = Table  # by its registered name


class Energy(nn.Module):
    """``log q(x) = network(x) + constant``: ratios are exact, the constant is never known.

    Bits are read as -1 or +1, larger sites one-hot.

    Args:
        space: any space; it is never enumerated.
        hidden: the width of each hidden layer.
        activation: a name of `layers.ACTIVATIONS`.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> model = Energy(Space.bits(4), generator=torch.Generator().manual_seed(0))
    >>> model.normalized, model.log_density(torch.zeros(7, 4, dtype=torch.int64)).shape
    (False, torch.Size([7]))
    """

    def __init__(
        self,
        space: Space,
        hidden: tuple[int, ...] = (100, 100),
        activation: str = "tanh",
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for i, width in enumerate(hidden):
            check_count(width, f"hidden[{i}]")
        self.space, self.normalized = space, False
        self.features = SiteFeatures(space, dtype=dtype).to(generator.device)
        self.network = Dense([self.features.num_features, *hidden, 1], activation, generator, dtype)

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` up to a constant ``(..., D) -> (...)``."""
        value: PerState = self.network(self.features(x)).squeeze(-1)
        return value


energy = Energy  # by its registered name
