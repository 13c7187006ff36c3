"""A model's own draws beside the rows it learned from: what a report on a run can say about its synthetic rows."""

from typing import Any, Protocol, runtime_checkable

from concrete_score.comparison.compare import Comparison, compare
from concrete_score.data.frame import Array
from concrete_score.errors import InputError


@runtime_checkable
class Maker(Protocol):
    """What is asked of a model; `concrete_score.load` gives one."""

    def sample(self, n: int, *, random_state: int | None) -> Any: ...
    def read(self, data: Any, *, missing: str, unknown: str) -> Any: ...
    def score_samples(self, data: Any) -> Array: ...


def compare_draws(
    model: Maker, real: Any, holdout: Any = None, *, rows: int | None = None, seed: int = 0, **options: Any
) -> Comparison:
    """As many rows drawn from a model as it learned from, or ``rows``, compared with those.

    Likelihoods are judged for membership too, where there are held-out rows and the model has exact ones.

    Args:
        model: a fitted model of tables.
        real: the rows it learned from, and ``holdout`` rows it did not.
        holdout: None where there are none.
        rows: how many to draw.
        seed: of the draws and of all else.
        options: those of `compare`.
    """
    drawn = model.sample(len(real) if rows is None else rows, random_state=seed)
    scores = None if holdout is None else likelihoods(model, real, holdout)
    return compare(real, drawn, holdout, scores=scores, seed=seed, **options)


def likelihoods(model: Maker, real: Any, holdout: Any) -> tuple[Array, Array] | None:
    """Log-likelihoods of learned and of held-out rows ``(N,), (M,)``, rows that cannot be read left out; None where the
    model has no exact ones."""
    try:
        one, other = (model.score_samples(model.read(data, missing="drop", unknown="skip")) for data in (real, holdout))
    except InputError as error:
        if error.where:
            raise
        return None
    return one, other
