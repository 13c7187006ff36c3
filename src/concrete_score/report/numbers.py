"""Numbers as a page shows them, and the round ones that axes are marked with."""

from math import ceil, floor, isfinite, isnan, log10

MINUS, NONE = "−", "–"


def number(value: float | int | None, digits: int = 4, sign: bool = False) -> str:
    """With a true minus; a dash where there is none.

    >>> number(-2.22704), number(0.5, 2, sign=True), number(None), number(float("-inf")), number(12_000)
    ('−2.2270', '+0.50', '–', '−∞', '12,000')
    """
    if value is None or isnan(value):
        return NONE
    if not isfinite(value):
        return f"{MINUS if value < 0 else ''}∞"
    shown = f"{abs(value):,}" if isinstance(value, int) else f"{abs(value):,.{digits}f}"
    zero = not any(letter in "123456789" for letter in shown)
    return f"{MINUS if value < 0 and not zero else '+' if sign and not zero else ''}{shown}"


def percent(share: float, digits: int = 1) -> str:
    """A share of one.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{number(100 * share, digits)} %"


def significant(value: float | None, digits: int = 3) -> str:
    """So many digits that count, whatever the size.

    >>> significant(0.00123456), significant(-1234.5), significant(2.0)
    ('0.00123', '−1,234', '2')
    """
    if value is None or not isfinite(value) or value == 0:
        return "0" if value == 0 else number(value)
    places = digits - 1 - floor(log10(abs(value)))
    if places > 12:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    shown = number(float(value), max(0, places))
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def count(many: int, one: str, more: str | None = None) -> str:
    """So many of something.

    >>> count(1, "column"), count(1200, "column")
    ('1 column', '1,200 columns')
    """
    return f"{number(many)} {one if many == 1 else more or one + 's'}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from ``low`` to ``high``.

    >>> ticks(0.0, 1.0), ticks(-2.31, -2.22, 2)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [-2.3, -2.25])
    """
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(1, count)
    power = 10.0 ** floor(log10(rough))
    step = min((power * unit for unit in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """A mark's number, with the digits its neighbors differ in.

    >>> tick_text(0.25, 0.05), tick_text(2000.0, 500.0), tick_text(12000.0, 4000.0)
    ('0.25', '2,000', '12k')
    """
    if step >= 1000 and value % 1000 == 0 and abs(value) >= 10_000:
        return f"{number(round(value / 1000))}k"
    return number(round(value)) if step >= 1 else number(value, max(0, -floor(log10(step) + 1e-9)))
