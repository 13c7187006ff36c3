"""The codec a run carries, built again from its plain values."""

from collections.abc import Callable, Mapping
from typing import Any

from concrete_score.data.codec import TableCodec
from concrete_score.data.frame import Form
from concrete_score.data.image_codec import ImageCodec
from concrete_score.data.meaning import INTEGER
from concrete_score.data.sites import Categories
from concrete_score.errors import InputError, nearest
from concrete_score.protocols import Codec

LARGEST = 2**16
"""The most values a column of numbers may take: a stranger's run.json must not fill the memory."""


def codec_from_json(value: Any, where: str = "codec") -> Codec:
    """The codec of a ``run.json``.

    Raises:
        InputError: of a kind that is not known here, or not as it was written.

    >>> codec_from_json({"kind": "integers", "sizes": [2, 3]}).names
    ('x0', 'x1')
    """
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind not in _KINDS:
        raise InputError("a kind of codec", repr(kind), where=f"{where}.kind", fix=nearest(str(kind), list(_KINDS)))
    return _KINDS[kind](value, where)


def integers(sizes: tuple[int, ...]) -> TableCodec:
    """The codec of tables without names whose column ``d`` holds the numbers below ``sizes[d]``."""
    sites = tuple(Categories(f"x{d}", INTEGER, tuple(range(size))) for d, size in enumerate(sizes))
    return TableCodec(sites, Form("npy", "<i8"), named=False)


def _integers(value: Mapping[str, Any], where: str) -> TableCodec:
    sizes = value.get("sizes")
    if not isinstance(sizes, list) or not sizes or not all(map(_is_size, sizes)):
        raise InputError(f"a list of sizes up to {LARGEST}", repr(sizes)[:60], where=f"{where}.sizes")
    return integers(tuple(sizes))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and 0 < value <= LARGEST


_KINDS: dict[str, Callable[[Mapping[str, Any], str], Codec]] = {
    "table": TableCodec.from_json,
    "integers": _integers,
    "image": ImageCodec.from_json,
}
