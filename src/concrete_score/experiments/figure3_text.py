"""Figure 3 in words: every number beside the paper's claim, and why they differ where they do."""

from collections.abc import Mapping
from typing import Any

from concrete_score.experiments.figure_text import number, table

_WHY = """
What agrees, and what cannot:

- **Ratio** and **Marginal**, as first published, learn nothing of the data, as the paper says. Nothing in them depends
  on the observed value, so on every row and column that holds draws their minimizer is uniform: a uniform start stays,
  and a random one (standard normal logits, *random start*) comes back to it. States that lie on no such line, the
  corners of 2spirals, are in none of their terms; what mass they hold is left to the drift of the common level of all
  others, and from a random start the guard ends it where that has gone too far.
- **Ratio-fixed** is bounded and recovers all three toys. It is slow where a state is empty, for its gradient there
  falls with the square of the probability left.
- **CSM** and **Marginal-fixed** exactly as written have **no lower bound on draws**: an empty state beside a filled one
  feels the term that pulls their ratio up and not the one that would hold it. The *ray* is a proof for each toy: from
  the best point on, lowering the logits of all empty states by ten nats, which is what the draws call for, lowers the
  objective e¹⁰-fold, and so without end. What goes wrong in training is the other end of those edges. In CSM the filled
  states at the border of the empty ones rise above all others, and held-out draws become less and less likely. In
  Marginal-fixed all filled states of a line are pulled alike and soon alone count, so that the table rests at a flat
  picture of the support (right for the checkerboard, which is flat, and for nothing else) while the objective falls
  e²-fold with every nat. The guard stops the one where its likelihood has fallen off, the other where its loss is 10¹²
  times what it was; unguarded, the squares of its gradients overflow Adam's single precision soon after, and the
  weights freeze in a worse place without one number that is not finite. The samples show the best point on the way,
  chosen on held-out draws. The paper does not say how it avoided this.
- **Mixed**: the same two objectives on draws mixed with a known tenth of uniform noise, ε = 0.1, which is subtracted
  exactly afterwards (what falls below zero is set to zero, so that KL to the truth is infinite, as the histogram's own
  is; *mixed* compares before subtracting). No state is empty any more, both objectives are bounded,
  and their minimizer is the draws' own histogram. Kept where held-out draws are likeliest they may do better than it,
  for they learn what is common to draws before what is accidental.
- **Ours** is CSM with all changes of one site as neighbors (`hamming`) instead of the grid, on the mixed draws: a state
  is compared with its whole row and column, so that no long chain of neighbors has to agree first. It is the fastest by
  far, and not behind the histogram it learned from on any toy.
- The order of the paper's columns, CSM before Ratio-fixed and Marginal-fixed, is no property of the objectives: on
  every toy the bounded ones lead to the same distribution. It is one of how they were optimized and stopped.
"""


_CLAIM = """
The paper: "samples from CSM best capture the shape of the underlying data distributions across all three datasets",
Ratio and Marginal fail, Ratio-fixed and Marginal-fixed are "more reasonable" (shown as pictures, no numbers). Model,
start, rate and neighborhood are the paper's (uniform logits, Adam 5e-4, grid); steps, batch and number of draws are not
given there. Ours sees all draws in every step, as their histogram, which is free of minibatch noise and cheaper.
Weights are kept where held-out draws (nine a state) are likeliest, and training ends when they have not become likelier
for 4,000 steps; *where it ended* is the total variation of the last weights over the histogram's, with nothing chosen.
Distances are exact.
"""
_COLUMNS = (
    "method",
    "total variation",
    "/ the histogram's",
    "where it ended",
    "KL(truth ‖ model)",
    "kept / steps",
    "ended",
)


def text(ours: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The Markdown under the checks."""
    parts = ["## The paper and ours", _CLAIM.strip()]
    for toy, found in ours.items():
        rows = [_row(title, found[name]) for name, title in titles.items()]
        parts += [f"### {toy}", _head(found), table(_COLUMNS, rows), _rays(found, titles)]
    return "\n\n".join([*parts, _WHY.strip()])


def _head(found: Mapping[str, Any]) -> str:
    error = found["histogram_total_variation"]
    return (
        f"{found['draws']:,} draws; their histogram is at total variation {error:.4f} from the truth; "
        f"{found['empty_states']:,} states are empty."
    )


def _row(title: str, told: Mapping[str, Any]) -> list[str]:
    words = {"diverged": "stopped by the guard", "steps": "all steps", "patience": "no better since"}
    return [
        title.replace("\n", " "),
        number(told["total_variation"], 4),
        number(told["ratio"], 4),
        number(told["ratio_last"], 4),
        number(told["kl"]) if "kl_mixed" not in told else f"{number(told['kl'])} (mixed: {number(told['kl_mixed'])})",
        f"{told['kept_step']:,} / {told['steps']:,}",
        words.get(told["ended"], told["ended"]),
    ]


def _rays(found: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    lines = []
    for name, title in titles.items():
        if "ray" in found[name]:
            values = ", ".join(number(value) for value in found[name]["ray"])
            lines.append(
                f"- ray, {title.splitlines()[0]} as written: the objective is {values} with empty states lowered by "
                f"0, 10 and 20 nats. {_reason(found[name]['message'])}."
            )
    return "\n".join(lines)


def _reason(message: str) -> str:
    """The first part of the guard's message: what happened, without what to try.

    >>> _reason("training diverged at step 9: the loss is not a number; no retries were left")
    'Training diverged at step 9: the loss is not a number'
    """
    return message.split(";")[0].capitalize() if message else "It came to its end"
