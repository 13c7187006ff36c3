"""The grid ``{x ± e_d}``: one site moves by one (paper, sections 3.1, 4.2 and C.5)."""

from concrete_score.neighborhoods.chain import Chain
from concrete_score.neighborhoods.cycle import Cycle
from concrete_score.neighborhoods.product import Product
from concrete_score.spaces import Space


def grid(space: Space) -> Product:
    """The product of per-site two-way cycles: it wraps; a site of two values has one flip, of one value none.

    >>> import torch
    >>> grid(Space((3, 2))).neighbors(torch.tensor([0, 0])).tolist()
    [[1, 0], [2, 0], [0, 1]]
    """
    return Product.of(space, Cycle(two_way=True))


def grid_bounded(space: Space) -> Product:
    """The product of per-site two-way chains: the same moves without wrapping.

    >>> import torch
    >>> grid_bounded(Space((3, 2))).degree(torch.tensor([[0, 0], [1, 0]])).tolist()
    [2, 3]
    """
    return Product.of(space, Chain(two_way=True))
