"""The paper's own setting can blow up; the guard catches it (section 5.4, with what the paper leaves open).

A MADE on the data set ``nltcs`` with ``f = r²`` on single flips: on samples that objective has no lower bound, since a
state without data next to one with data feels only the term that pulls its ratio up. Without a guard the weights end
as NaN; with it the run goes back, tries a smaller rate, and ends with a usable model and an explanation.
"""

from typing import Any

from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.experiments.result import Findings, Settings
from concrete_score.fitting import load_splits
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.registry import load
from concrete_score.training import Finished, TrainingSettings, Validated, WentBack, train
from concrete_score.training.guard import ADVICE

DATA = "nltcs"


def run(settings: Settings) -> Findings:
    """One guarded training, and what happened on the way."""
    codec, rows, valid, test = load_splits(DATA)
    space = codec.space
    model: Any = load("models", "made")(space, generator=generator(settings.seed, "weights"))
    objective = build("csm", space, edges="all")
    how = TrainingSettings(
        steps=2_000 if settings.quick else 20_000,
        batch_size=32 if settings.quick else 128,
        lr=3e-3 if settings.quick else 5e-4,
        schedule="constant",
        valid_every=100,
        retries=1 if settings.quick else 3,
        seed=settings.seed,
    )
    events = list(train(model, objective, rows, how, valid, device=settings.device))
    returns = [event for event in events if isinstance(event, WentBack)]
    untrained = next(event.value for event in events if isinstance(event, Validated))
    ended = next(event for event in events if isinstance(event, Finished))
    ours = {
        "untrained": untrained,
        "validation": ended.best,
        "test": _mean(model, test),
        "first_blow_up": returns[0].step if returns else None,
        "returns": [f"step {event.step}: {event.reason}" for event in returns],
        "ended": ended.why,
        "best_step": ended.best_step,
        "steps": ended.step,
        "message": ended.message,
    }
    return Findings({"test": -6.13}, ours, _checks(ended, returns, ours))


def _checks(ended: Finished, returns: list[WentBack], ours: dict[str, Any]) -> tuple[Check, ...]:
    return (
        Check.at_least("times the guard went back", float(len(returns)), 1.0),
        Check.equal("the run ends with a usable model", ended.usable, True),
        Check.at_least("test log-likelihood kept, above the untrained model's", ours["test"], ours["untrained"] + 1),
        Check.equal("what happened and what to try is said", ended.message.endswith(ADVICE), True),
    )


def _mean(model: Any, rows: Tensor) -> float:
    return float(model.log_density(rows.long()).mean().detach())
