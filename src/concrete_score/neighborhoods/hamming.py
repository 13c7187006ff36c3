"""The Hamming neighborhood: one site takes any other value."""

from concrete_score.neighborhoods.complete import Complete
from concrete_score.neighborhoods.product import Product
from concrete_score.spaces import Space


def hamming(space: Space) -> Product:
    """The product of per-site complete graphs; slots are site-major, the other values ascending.

    >>> import torch
    >>> hamming(Space((3, 2))).neighbors(torch.tensor([1, 0])).tolist()
    [[0, 0], [2, 0], [1, 1]]
    """
    return Product.of(space, Complete())
