"""Numbers as people write them: ``$1,234.50``, ``12.5 %``, ``1.234,5 €``; what stands around and between the digits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from concrete_score.errors import InputError

_SPACES = "\u0020\u00a0\u202f"
"""That part thousands, or a number from its unit; the last two where lines must not break."""
_CURRENCY = r"[$€£¥₹₽₩₺]|(?:US|A|C|NZ|HK|S)\$|R\$|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD)"
_BEFORE = rf"(?:{_CURRENCY})[{_SPACES}]?"
# A unit may follow every number; before one, letters make a name of it (N14228).
_AFTER = rf"[{_SPACES}]?(?:[%‰°€£$¥₹₽]|[^\W\d_][^\W\d_]{{0,5}})"
_STYLES = (
    *((",", "."), (".", ","), ("'", "."), ("’", ".")),
    *(("\u0020", ","), ("\u0020", "."), ("\u00a0", ","), ("\u00a0", "."), ("\u202f", ","), ("\u202f", ".")),
)
"""What groups the digits, and what parts decimals from them."""
_PARTS = re.compile(rf"([+-]?)({_BEFORE})?([+-]?)(\d[\d.,'’{_SPACES}]*?)({_AFTER})?")
_LOOKED_AT = 1000
_MARKS = frozenset(".,'’" + _SPACES)


@dataclass(frozen=True)
class Spelling:
    """How all numbers of a column are written.

    Args:
        prefix: what stands before the digits, after a sign.
        suffix: what stands behind them.
        group: what parts thousands; empty where nothing does.
        point: what parts decimals.
        places: how many decimals all have; None where they differ.

    >>> dollars = Spelling("$", group=",", places=2)
    >>> dollars.plain(pl.Series(["$1,234.50", "-$7.00", "7"])).to_list()
    ['1234.50', '-7.00', None]
    >>> dollars.spell(pl.Series([1234.5, -7, None])).to_list()
    ['$1,234.50', '-$7.00', None]
    """

    prefix: str = ""
    suffix: str = ""
    group: str = ""
    point: str = "."
    places: int | None = None

    @classmethod
    def from_json(cls, value: Any, where: str) -> "Spelling":
        """From plain values, every one of them checked."""
        known = {each.name for each in fields(cls)}
        if not isinstance(value, Mapping) or not set(value) <= known:
            raise InputError("how numbers are written", repr(value)[:60], where=where)
        places = value.get("places")
        texts = [value.get(name, "") for name in ("prefix", "suffix", "group", "point")]
        right = all(isinstance(text, str) and len(text) <= 8 for text in texts)
        if not right or not (places is None or (type(places) is int and 0 <= places <= 18)):
            raise InputError("how numbers are written", repr(value)[:60], where=where)
        return cls(**value)

    def to_json(self) -> dict[str, Any]:
        """What differs from a plain number."""
        return {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }

    @property
    def pattern(self) -> str:
        """What a text so written matches."""
        digits = rf"\d{{1,3}}(?:{re.escape(self.group)}\d{{3}})+|(?:0|[1-9]\d*)" if self.group else r"(?:0|[1-9]\d*)"
        sign = r"[+-]?" if not self.prefix else rf"[+-]?{re.escape(self.prefix)}[+-]?"
        return rf"^{sign}(?:{digits})(?:{re.escape(self.point)}\d*)?{re.escape(self.suffix)}$"

    def plain(self, texts: pl.Series) -> pl.Series:
        """The same numbers without it all, null where a text is not so written."""
        bare = texts.str.replace(self.prefix, "", literal=True) if self.prefix else texts
        bare = bare.str.strip_suffix(self.suffix) if self.suffix else bare
        bare = bare.str.replace_all(self.group, "", literal=True) if self.group else bare
        bare = bare.str.replace(self.point, ".", literal=True).str.strip_prefix("+")
        return bare.set(~texts.str.contains(self.pattern), None)

    def read(self, text: str) -> str:
        """A number written beside the column as a plain one, any other text as it is.

        What stands around it and between thousands may be left out; ``1.000`` is a thousand where a comma parts the
        decimals. What is no number so written may be one as programs write it.

        >>> euros = Spelling(suffix=" €", group=".", point=",", places=2)
        >>> [euros.read(text) for text in ("1.000", "1.000,50 €", "-1000,5€", "1000.5", "soon")]
        ['1000', '1000.50', '-1000.5', '1000.5', 'soon']
        """
        before, after = (rf"(?:{re.escape(each.strip())})?" for each in (self.prefix, self.suffix))
        found = re.fullmatch(rf"\s*([+-]?)\s*{before}\s*([+-]?)(\S.*?)\s*{after}\s*", text)
        if found is None:
            return text
        # The mark of the two that parts no decimals parts thousands, whatever else does in the column.
        other, own = "." if self.point == "," else ",", r"\s" if self.group.isspace() else re.escape(self.group)
        group = f"[{other}{own}]"
        digits = found[3]
        if re.fullmatch(rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)(?:{re.escape(self.point)}\d*)?", digits):
            digits = re.sub(group, "", digits).replace(self.point, ".")
        return f"{found[1]}{found[2]}{digits}"

    def spell(self, numbers: pl.Series) -> pl.Series:
        """Numbers written in this way."""
        return pl.Series(numbers.name, [self._spell(each) for each in numbers.to_list()], dtype=pl.String)

    def _spell(self, number: int | float | None) -> str | None:
        if number is None:
            return None
        text = f"{abs(number):,.{self.places}f}" if self.places is not None else f"{abs(number):,}".removesuffix(".0")
        text = text.replace(",", "\0").replace(".", self.point).replace("\0", self.group)
        return f"{'-' if number < 0 else ''}{self.prefix}{text}{self.suffix}"


def find_numbers(texts: pl.Series) -> tuple[Spelling, list[float]] | None:
    """How all texts write numbers, be it plainly, and these numbers; None where they do not.

    >>> find_numbers(pl.Series(["10 %", "2,5 %"]))[1], find_numbers(pl.Series(["0.5", "10"]))[1]
    ([10.0, 2.5], [0.5, 10.0])
    """
    plain = Spelling()
    found = plain if texts.str.contains(plain.pattern).all() else find_spelling(texts)
    return None if found is None else (found, found.plain(texts).cast(pl.Float64).to_list())


def find_spelling(texts: pl.Series) -> Spelling | None:
    """How all texts write numbers, where they do and not plainly; else None.

    >>> find_spelling(pl.Series(["12.5%", "3.0%"]))
    Spelling(prefix='', suffix='%', group='', point='.', places=1)
    >>> find_spelling(pl.Series(["N14228", "N24211"])), find_spelling(pl.Series(["1.5", "2"]))
    (None, None)
    """
    if texts.dtype != pl.String or not len(texts):
        return None
    first = _PARTS.fullmatch(texts[0])
    if first is None:
        return None
    prefix, suffix = first[2] or "", first[5] or ""
    # A sign may stand before the prefix.
    inner = texts.head(_LOOKED_AT).str.replace(prefix, "", literal=True).str.strip_suffix(suffix).to_list()
    marks = _MARKS & set("".join(inner))
    for group, point in _STYLES:
        used = group if group in marks else ""
        part = point if point in marks else "," if group == "." else "."
        found = Spelling(prefix, suffix, used, part)
        plain = not (prefix or suffix or used) and point not in marks - {"."}
        if marks <= {group, point} and not plain and texts.str.contains(found.pattern).all():
            places = found.plain(texts).str.extract(r"\.(\d*)$").str.len_chars().fill_null(0).unique()
            return Spelling(prefix, suffix, used, part, int(places[0]) if len(places) == 1 else None)
    return None
