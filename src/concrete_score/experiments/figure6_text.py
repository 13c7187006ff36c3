"""Figure 6 in words."""

from collections.abc import Mapping
from typing import Any

from concrete_score.experiments.figure_text import number, table
from concrete_score.experiments.one_dimensional_cases import TITLES


def text(ours: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The Markdown under the checks.

    Args:
        ours: what was found, by unit.
        about: the ``rows``, ``starts``, ``tolerance`` and titles of the denoising ``ways`` it was found with.
    """
    rows, starts = about["rows"], about["starts"]
    written = [_row(ours, name, count, start) for count in rows for start in starts for name in TITLES]
    noisy = [_noisy(ours, name, way, title) for way, title in about["ways"].items() for name in TITLES]
    parts = [
        "## The paper and ours",
        _CLAIM.format(bound=ours["bound"], tolerance=about["tolerance"]).strip(),
        "### CSM as written",
        table(_WRITTEN_COLUMNS, written),
        _WRITTEN.strip(),
        f"### Denoising CSM, {rows[0]:,} draws, the noise integrated out",
        table(_NOISY_COLUMNS, noisy),
        _NOISY.strip(),
    ]
    return "\n\n".join(parts)


_CLAIM = """
The paper (B.2): with low density "the neighborhood structure plays a critical role": the complete graph is best, a
cycle whose low-density regions lie between the modes does comparably, and noise annealing with denoising CSM may help
(left for future work). Its distribution and its numbers are pictures only; ours has weight 1 on 2, 3, 4, 10, 11, 12
and 1e-4 elsewhere. The best possible expected log-likelihood is minus the entropy, {bound:.4f} nats; below are the
nats each model stays under it, exactly. *Fails* is more than {tolerance} nat, the tolerance of figure 5, where
training ended; *kept* are the weights that held-out draws liked best on the way.
"""
_WRITTEN_COLUMNS = [
    "draws",
    "start",
    "neighborhood",
    "nats below the bound",
    "fails",
    "kept",
    "total variation",
    "ended",
]
_NOISY_COLUMNS = ["", "neighborhood", "nats below the bound", "of which noise", "total variation, noise inverted"]

_WRITTEN = """
With few draws most of the desert is empty, and then CSM has no lower bound on any neighborhood: an empty category
beside a filled one feels only the pull that raises their ratio. On a cycle that pull meets one or two categories of
each plateau, which rise above their fellows, and empty categories with empty neighbors feel nothing at all and stay
where they started. On the complete graph every empty category pulls at all filled ones alike, so their balance
survives: the paper's finding that it does best, with the reason. Its objective is unbounded all the same, and only
equal pulls keep it right: from a random start it keeps the balance it was given.

With many draws nothing is empty and the minimizer is right on all four; what is left is how weakly a cycle joins the
plateaus: the error of a log-ratio weighs with the square of the ratio, 1e-8 on the way down into a desert, which is
hardly learned, so the balance of the plateaus stays near where the start put it. A uniform start happens to be right
here, for the plateaus are equal; a random one is not, and only the complete graph mends it. So a cycle does
comparably, as the paper saw in one of its cases, where nothing is empty and the start is balanced, and not otherwise.
"""

_NOISY = """
The same softmax logits, from the random start that with as few draws failed everywhere, learn the noisy distribution of
one level after the other, w = .2, .4, .6, .8, .95, .99 (*annealed*), each starting where the last ended; or as many
steps at w = .99 alone. The model at the last level is judged as it is, with the price of the noise still in it (*of
which noise*: the exact noisy distribution's own distance). Inverting the known noise exactly gives the clean
distribution; what falls below zero is set to zero, so it is judged by total variation.

Annealing mends all that failed, as the paper hoped: under noise no category is empty and the objective is bounded;
strong noise fills the desert, so the plateaus are compared through it whatever the start; and each weaker noise has
only to sharpen what the last one taught. What is left above the price of the last noise is the draws' own error. On a
cycle the lowest noise alone does not do it with `f = r²`, which still weighs the way down into the desert with the
square of its ratio; with the logistic `f`, whose weight there falls with the ratio alone, it does.
"""


def _row(ours: Mapping[str, Any], name: str, count: int, start: str) -> list[str]:
    told = ours[f"{name}-{count}-{start}"]
    below = told["below_bound"]
    words = {"diverged": f"stopped at step {told['steps']:,}", "steps": f"{told['steps']:,} steps"}
    return [
        f"{count:,}",
        start,
        TITLES[name],
        number(below),
        "**yes**" if told["fails"] else "no",
        f"{number(told['kept']['below_bound'])} at step {told['kept_step']:,}",
        number(told["total_variation"]),
        words.get(told["ended"], told["ended"]),
    ]


def _noisy(ours: Mapping[str, Any], name: str, way: str, title: str) -> list[str]:
    told = ours[f"{name}-{way}"]
    return [
        title,
        TITLES[name],
        number(told["below_bound"]),
        number(told["cost_of_noise"]),
        number(told["clean_total_variation"]),
    ]
