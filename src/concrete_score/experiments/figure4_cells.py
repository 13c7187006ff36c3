"""The units of figure 4: the data's own floor, the baselines, the network, its samplers, and in-painting."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from concrete_score.baselines import Independent, Mixture
from concrete_score.experiments.figure4_data import Shelf
from concrete_score.experiments.figure4_judging import FEW, Judge, classifier_of
from concrete_score.experiments.figure4_learning import Lesson, Levels, learn, learned
from concrete_score.experiments.result import Settings
from concrete_score.likelihood.variational import variational
from concrete_score.models import MADE
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.samplers.annealed import Annealed, Stage
from concrete_score.samplers.heat_bath import HeatBath
from concrete_score.samplers.informed import Informed
from concrete_score.samplers.mh import MetropolisHastings
from concrete_score.shapes import States
from concrete_score.training import TrainingSettings
from concrete_score.training.loop import fit

SHOWN = 64
"""Pictures of a grid."""
WAYS = 6
"""Chains whose way from noise to a digit is shown."""


@dataclass(frozen=True)
class Size:
    """All numbers of an experiment's size."""

    lesson: Lesson = field(default_factory=Lesson)
    samples: int = 2_000
    reference: int = 10_000
    resamples: int = 50
    classifier_steps: int = 1_000
    mixture: Mapping[str, Any] = field(default_factory=lambda: {"components": 100, "steps": 60, "tolerance": 0.01})
    made: Mapping[str, Any] = field(default_factory=lambda: {"hidden": 1024, "blocks": 1})
    made_training: Mapping[str, Any] = field(
        default_factory=lambda: {"steps": 5_000, "lr": 1e-3, "average": 0.999, "valid_every": 250, "patience": 1_500}
    )
    mh_steps: int = 800
    informed_steps: int = 100
    bound_rows: int = 1_000
    painted: int = 200
    painted_at_once: int = 25
    painted_levels: int = 32
    painted_between: tuple[float, float] = (-4.0, 0.3)
    painted_steps: int = 4
    draws: int = 32

    def judge(self, seed: int) -> Judge:
        """The judge of all samples."""
        data, shelf = self.lesson.pictures(), self.shelf(seed)
        classifier = classifier_of(data, shelf, self.classifier_steps, seed)
        return Judge(data, classifier, self.reference, self.samples, seed, self.resamples)

    def shelf(self, seed: int) -> Shelf:
        """Where classifier and baselines are kept."""
        decided = {"mixture": dict(self.mixture), "made": {**self.made, **self.made_training}}
        return Shelf({"dataset": self.lesson.dataset, "seed": seed, "classifier": self.classifier_steps, **decided})


FULL = Size()
QUICK = Size(
    lesson=Lesson(
        dataset="digits",
        width=16,
        levels=Levels(32),
        training={"steps": 500, "batch_size": 64, "lr": 4e-3, "average": 0.98, "valid_every": 125},
        valid_rows=299,
    ),
    samples=299,
    reference=1_199,
    classifier_steps=300,
    mixture={"components": 10, "steps": 30, "tolerance": 0.01},
    made={"hidden": 64, "blocks": 1},
    made_training={"steps": 300, "lr": 5e-3, "average": 0.98, "valid_every": 100},
    mh_steps=60,
    informed_steps=20,
    bound_rows=299,
    painted=40,
    painted_at_once=20,
    painted_levels=32,
    draws=8,
)


def size_of(settings: Settings) -> Size:
    """The size a run is asked for."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True)
class Sampler:
    """One way from noise to pictures: a row of the table.

    Args:
        title: for people.
        build: of the network and the size.
        many: whether it is cheap enough for all samples; `FEW` are drawn otherwise.
        ours: whether it is one of our candidates.
    """

    title: str
    build: Callable[[Any, Size], Annealed]
    many: bool = True
    ours: bool = True


def _reverse(model: Any, size: Size, count: int) -> Annealed:
    return Annealed(model, kernel=None, steps=1, levels=size.lesson.levels.even(count), descent="reverse")


def _corrected(model: Any, size: Size, count: int, share: float, steps: int) -> Annealed:
    kernel = partial(HeatBath, share=share)
    return Annealed(model, kernel, steps, size.lesson.levels.even(count), descent="reverse")


def _paper(model: Any, size: Size) -> Annealed:
    return Annealed(model, MetropolisHastings, size.mh_steps, size.lesson.levels.paper, finish="none")


def _informed(model: Any, size: Size) -> Annealed:
    return Annealed(model, Informed, size.informed_steps, size.lesson.levels.paper)


def _heat_bath(model: Any, size: Size) -> Annealed:
    return Annealed(model, HeatBath, 10, size.lesson.levels.paper)


SAMPLERS: Mapping[str, Sampler] = {
    "paper": Sampler("the paper's annealed MH", _paper, many=False, ours=False),
    "informed": Sampler("annealed, informed single flips", _informed, many=False),
    "heat_bath": Sampler("annealed heat bath, a fifth at once", _heat_bath),
    "reverse_8": Sampler("reverse chain, 8 levels", partial(_reverse, count=8)),
    "reverse_16": Sampler("reverse chain, 16 levels", partial(_reverse, count=16)),
    "reverse_32": Sampler("reverse chain, 32 levels", partial(_reverse, count=32)),
    "corrected": Sampler(
        "reverse chain, 32 levels, one heat-bath step each", partial(_corrected, count=32, share=0.1, steps=1)
    ),
}
"""All on the same network, the last pass a denoising except in the paper's."""


def floor(settings: Settings) -> dict[str, Any]:
    """Test pictures, judged as if they were samples, and the classifier's accuracy on all of them."""
    size = size_of(settings)
    data, judge = size.lesson.pictures(), size.judge(settings.seed)
    rows = data.test[: size.samples].long()
    accuracy = judge.classifier.accuracy(data.test, data.test_labels)
    return {"accuracy": accuracy, "grid": packed(rows[:SHOWN]), **judge(rows)}


def independent(settings: Settings) -> dict[str, Any]:
    """Every pixel on its own."""
    size = size_of(settings)
    data = size.lesson.pictures()
    return _density(settings, Independent.fit(data.train, data.space))


def mixture(settings: Settings) -> dict[str, Any]:
    """A mixture of independent pixels, by expectation–maximization."""
    return _density(settings, mixture_of(size_of(settings), settings.seed))


def mixture_of(size: Size, seed: int) -> Mixture:
    """The fitted mixture; fitted where it is not on the shelf."""
    data = size.lesson.pictures()

    def make() -> dict[str, Tensor]:
        model = Mixture.fit(data.train, data.space, generator=generator(seed, "mixture"), **size.mixture)
        return {"log_weights": model.log_weights, "log_tables": model.log_tables}

    kept = size.shelf(seed).once("mixture", make)
    return Mixture(data.space, kept["log_weights"], kept["log_tables"])


def made(settings: Settings) -> dict[str, Any]:
    """A MADE by maximum likelihood, kept where its validation is best."""
    size, seed = size_of(settings), settings.seed
    data = size.lesson.pictures()
    model = MADE(data.space, **size.made, generator=generator(seed, "made"))

    def make() -> dict[str, Tensor]:
        how = TrainingSettings.of({**size.made_training, "seed": seed})
        fit(model, build("maximum_likelihood", data.space), data.train, how, valid=data.valid)
        return model.state_dict()

    model.load_state_dict(size.shelf(seed).once("made", make))
    return _density(settings, model.requires_grad_(False))


def _density(settings: Settings, model: Any) -> dict[str, Any]:
    """Exact draws of a density model, judged, and its exact test log-likelihood."""
    size = size_of(settings)
    data = size.lesson.pictures()
    samples = model.sample(size.samples, generator(settings.seed, "draws"))
    found = torch.cat([model.log_density(part.long()).double() for part in torch.split(data.test, 1000)])
    told = {"log_likelihood": float(found.mean()), "log_likelihood_stderr": float(found.std()) / len(found) ** 0.5}
    return {**told, "grid": packed(samples[:SHOWN]), **size.judge(settings.seed)(samples)}


def network(settings: Settings) -> dict[str, Any]:
    """The network, trained, and the variational bound of its reverse chain on test pictures."""
    size = size_of(settings)
    told = learn(size.lesson, settings.say, settings.device)
    model, data = learned(size.lesson), size.lesson.pictures()
    bound = variational(model, data.test[: size.bound_rows].long(), generator(settings.seed, "bound"), draws=8)
    return {**told, "lower": bound.lower, "lower_stderr": bound.stderr, "bound_stderr": bound.bound_stderr}


def draw(settings: Settings, sampler: str) -> dict[str, Any]:
    """Samples by one sampler of the network, judged; the first `FEW` chains of all samplers start alike."""
    size, how = size_of(settings), SAMPLERS[sampler]
    model = learned(size.lesson)
    count = size.samples if how.many else FEW
    start = starts(model, count, settings.seed)
    chain = how.build(model, size)
    ways: list[Tensor] = [start[:WAYS]]
    accepted: list[float | None] = []
    stage: Stage | None = None
    for stage in chain.stream(start, generator(settings.seed, sampler)):
        ways.append(stage.x[:WAYS])
        accepted.append(stage.acceptance)
        if settings.say is not None:
            settings.say(f"{sampler}: level {stage.level}, {stage.passes} passes")
    if stage is None:
        raise RuntimeError("a sampler without stages")
    return {
        "passes": stage.passes,
        "notes": list(chain.notes),
        "acceptance": accepted,
        "grid": packed(stage.x[:SHOWN]),
        "ways": [packed(way) for way in ways],
        **size.judge(settings.seed)(stage.x),
    }


def best_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Our sampler with the least Fréchet distance of many samples."""
    ours = [name for name, how in SAMPLERS.items() if how.ours and found[name]["frechet"] is not None]
    return min(ours, key=lambda name: float(found[name]["frechet"]))


def starts(model: Any, count: int, seed: int) -> States:
    """Uniform noise, chain by chain the same however many there are ``(count, D)``."""
    space = model.noise.space
    few = space.uniform(FEW, generator(seed, "start"))
    rest = space.uniform(max(0, count - FEW), generator(seed, "further starts"))
    return torch.cat([few, rest])[:count]


def packed(states: States) -> str:
    """Bits as a short text; `unpacked` takes it back.

    >>> unpacked(packed(torch.tensor([[0, 1, 1]])), 3).tolist()
    [[0, 1, 1]]
    """
    return b64encode(np.packbits(states.numpy(force=True).astype(np.uint8), axis=-1).tobytes()).decode()


def unpacked(text: str, sites: int) -> Tensor:
    """The states of `packed` ``(N, D)``."""
    rows = np.frombuffer(b64decode(text), np.uint8).reshape(-1, -(-sites // 8))
    return torch.from_numpy(np.unpackbits(rows, axis=-1, count=sites).astype(np.int64))
