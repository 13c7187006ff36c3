"""Arrays of whole numbers, as early runs kept them: their ``run.json`` opens as that of a table."""

from typing import Any

from concrete_score.codecs.columns import INTEGER, Categories
from concrete_score.codecs.table import LARGEST, TableCodec
from concrete_score.data.frame import Form
from concrete_score.errors import InputError


class IntegersCodec(TableCodec):
    """Reads the ``run.json`` of tables without names whose column ``d`` holds the numbers below ``sizes[d]``."""

    @classmethod
    def from_json(cls, value: Any, where: str = "codec") -> TableCodec:  # type: ignore[override]
        sizes = value.get("sizes")
        right = isinstance(sizes, list) and all(type(size) is int and 0 < size <= LARGEST for size in sizes)
        if not right or not sizes or sum(sizes) > 2**22:
            raise InputError(f"a list of sizes up to {LARGEST}", repr(sizes)[:60], where=f"{where}.sizes")
        columns = tuple(Categories(f"x{d}", INTEGER, tuple(range(size))) for d, size in enumerate(sizes))
        return TableCodec(columns, Form("npy", "<i8"), named=False)
