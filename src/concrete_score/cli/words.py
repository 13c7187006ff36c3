"""Numbers as one would say them."""

from math import exp, isfinite


def in_words(log_ratio: float) -> str:
    """A log-ratio as one would say it.

    >>> in_words(0.7), in_words(-0.7), in_words(float("-inf"))
    ('2.0 times as probable', '2.0 times less probable', 'impossible')
    >>> in_words(900.0)
    'e^900 times as probable'
    """
    if not isfinite(log_ratio):
        return "impossible"
    size = abs(log_ratio)
    factor = f"{exp(size):,.1f}" if size < 14 else f"e^{size:.0f}"
    return f"{factor} times {'as' if log_ratio >= 0 else 'less'} probable"
