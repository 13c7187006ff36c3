"""The divergence guard: state in, verdict out; it never lets a broken model pass for a good one.

On samples some objectives have no lower bound: with ``f = r²`` (``csm``) or ``f = r log r`` (``score_entropy``) a state
without data next to one with data feels only the term that pulls its ratio up. The guard watches the loss and the
validation, says when to go back to the best model with a smaller rate, and when to stop trying.
"""

from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

EXPLOSION = 1e3
"""A loss this many times its typical size has exploded."""
BOTTOMLESS = 1e12
"""A loss this many times its first size has no bound: the draws ask at most for about as many as there are of them."""
_MEMORY = 0.9

ADVICE = (
    "csm and score_entropy have no lower bound on samples: try the logistic or ratio_matching objective, "
    "the denoising objective, mixing a little uniform noise into the data, or self_proposal edges; "
    "a smaller lr or clip_norm only delays it"
)
"""For objectives without a lower bound on samples."""
SLOWER = "try a smaller lr, a larger batch_size or clip_norm=1; a model that learns its rows by heart needs more rows"
"""For all others."""


@dataclass(frozen=True)
class Verdict:
    """What the guard found: nothing, or why training must go back or stop."""

    reason: str = ""

    @property
    def fine(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Guard:
    """What the guard remembers; each observation gives the next state and a verdict.

    >>> guard, verdict = Guard().see_loss(1.0)
    >>> guard, verdict = guard.see_loss(float("nan"))
    >>> verdict.reason
    'the loss is not a number'
    """

    typical: float | None = None
    """A running mean of the loss's size."""
    start: float | None = None
    """The untrained model's validation."""
    best: float | None = None
    """The best validation, higher is better."""
    rollbacks: int = 0
    """How often training went back."""
    last: str = ""
    """Why it last did."""
    first: float | None = None
    """The loss's size at the first look."""

    def see_loss(self, loss: float) -> tuple["Guard", Verdict]:
        """The mean loss since the last look."""
        if not isfinite(loss):
            return self, Verdict("the loss is not a number" if loss != loss else "the loss is infinite")
        size = abs(loss)
        first = size if self.first is None else self.first
        # A fall too even for a jump: Adam's moments would overflow and freeze the weights while every number is finite.
        if size > BOTTOMLESS * max(first, 1.0):
            return self, Verdict(f"the loss went to {loss:.3g} without end, from ±{first:.3g} at first")
        if self.typical is None:
            return replace(self, typical=size, first=first), Verdict()
        if size > EXPLOSION * max(self.typical, 1.0):
            return self, Verdict(f"the loss jumped to {loss:.3g}, from about ±{self.typical:.3g}")
        return replace(self, typical=_MEMORY * self.typical + (1 - _MEMORY) * size), Verdict()

    def see_validation(self, value: float) -> tuple["Guard", Verdict]:
        """The validation of the current weights; a cliff is losing all that was ever won, and at least 1."""
        if not isfinite(value):
            return self, Verdict("the validation is not a finite number")
        if self.start is None or self.best is None:
            return replace(self, start=value, best=value), Verdict()
        won = max(1.0, self.best - self.start)
        if self.best - value > won:
            return self, Verdict(f"the validation fell to {value:.4g}, from {self.best:.4g} at its best")
        return replace(self, best=max(self.best, value)), Verdict()

    def went_back(self, reason: str) -> "Guard":
        """After a return to the best model: the loss's size is learned anew."""
        return replace(self, rollbacks=self.rollbacks + 1, typical=None, last=reason)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def advice_for(objective: Any) -> str:
    """What to try, by whether the objective is bounded below on samples.

    >>> from concrete_score.objectives import build
    >>> from concrete_score.spaces import Space
    >>> advice_for(build("csm", Space.bits(3))) == ADVICE, advice_for(build("logistic", Space.bits(3))) == SLOWER
    (True, True)
    """
    divergence = getattr(objective, "divergence", None)
    if divergence is None:
        return ADVICE if getattr(objective, "name", "").startswith("discrete_marginalization") else SLOWER
    return SLOWER if divergence.bounded else ADVICE


def explain(reason: str, step: int, best_step: int, rollbacks: int, advice: str = ADVICE) -> str:
    """Why training ended, and what to try, in plain words.

    >>> explain("the loss is not a number", 900, 500, 3)[:57]
    'training diverged at step 900: the loss is not a number; '
    """
    tried = f"going back with a smaller rate did not help ({rollbacks} times)" if rollbacks else "no retries were left"
    kept = f"the best model, of step {best_step}, is kept" if best_step else "no model better than the untrained one"
    return f"training diverged at step {step}: {reason}; {tried}; {kept}; {advice}"


def recount(guard: Guard, best_step: int, advice: str = ADVICE) -> str:
    """What the guard did in a training that nevertheless came to its end; nothing where it did nothing.

    >>> recount(Guard(), 500), recount(Guard(rollbacks=2, last="the loss is not a number"), 500)[:51]
    ('', 'training went back 2 times with a smaller rate, las')
    """
    if not guard.rollbacks:
        return ""
    times = "once" if guard.rollbacks == 1 else f"{guard.rollbacks} times"
    kept = f"the model kept is that of step {best_step}"
    return f"training went back {times} with a smaller rate, last because {guard.last}; {kept}; {advice}"
