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
from concrete_score.experiments.figure4.learning import (
    FEW,
    Levels,
    NetworkPlan,
    SampleJudge,
    TensorCache,
    classifier_of,
    learn,
    learned,
)
from concrete_score.experiments.result import Settings
from concrete_score.likelihood.variational import variational
from concrete_score.models import MADE
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.samplers.annealed import Annealed, Stage
from concrete_score.samplers.gibbs import HeatBath
from concrete_score.samplers.informed import Informed
from concrete_score.samplers.mh import MetropolisHastings
from concrete_score.shapes import States
from concrete_score.training import TrainingSettings, fit

SHOWN = 64
"""Images of a grid."""
WAYS = 6
"""Chains whose path from noise to a digit is shown."""


@dataclass(frozen=True)
class Figure4Size:
    """All numbers of an experiment's size."""

    network: NetworkPlan = field(default_factory=NetworkPlan)
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

    def judge(self, seed: int) -> SampleJudge:
        """The judge of all samples."""
        data = self.network.images()
        classifier = classifier_of(data, self.fitted(seed), self.classifier_steps, seed)
        return SampleJudge(data, classifier, self.reference, self.samples, seed, self.resamples)

    def fitted(self, seed: int) -> TensorCache:
        """Where classifier and baselines are kept."""
        decided = {"mixture": dict(self.mixture), "made": {**self.made, **self.made_training}}
        return TensorCache(
            {"dataset": self.network.dataset, "seed": seed, "classifier": self.classifier_steps, **decided}
        )


FULL = Figure4Size()
QUICK = Figure4Size(
    network=NetworkPlan(
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


def size_of(settings: Settings) -> Figure4Size:
    """The size a run is asked for."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True)
class Sampler:
    """One way from noise to images: a row of the table.

    Args:
        title: for people.
        build: of the network and the size.
        many: whether it is cheap enough for all samples; `FEW` are drawn otherwise.
        ours: whether it is one of our candidates.
    """

    title: str
    build: Callable[[Any, Figure4Size], Annealed]
    many: bool = True
    ours: bool = True


def _reverse(model: Any, size: Figure4Size, count: int) -> Annealed:
    return Annealed(model, kernel=None, steps=1, levels=size.network.levels.even(count), descent="reverse")


def _corrected(model: Any, size: Figure4Size, count: int, share: float, steps: int) -> Annealed:
    kernel = partial(HeatBath, share=share)
    return Annealed(model, kernel, steps, size.network.levels.even(count), descent="reverse")


def _paper(model: Any, size: Figure4Size) -> Annealed:
    return Annealed(model, MetropolisHastings, size.mh_steps, size.network.levels.paper, finish="none")


def _informed(model: Any, size: Figure4Size) -> Annealed:
    return Annealed(model, Informed, size.informed_steps, size.network.levels.paper)


def _heat_bath(model: Any, size: Figure4Size) -> Annealed:
    return Annealed(model, HeatBath, 10, size.network.levels.paper)


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
    """Test images, judged as if they were samples, and the classifier's accuracy on all of them."""
    size = size_of(settings)
    data, judge = size.network.images(), size.judge(settings.seed)
    rows = data.test[: size.samples].long()
    accuracy = judge.classifier.accuracy(data.test, data.test_labels)
    return {"accuracy": accuracy, "grid": packed(rows[:SHOWN]), **judge(rows)}


def independent(settings: Settings) -> dict[str, Any]:
    """Every pixel on its own."""
    size = size_of(settings)
    data = size.network.images()
    return _density(settings, Independent.fit(data.train, data.space))


def mixture(settings: Settings) -> dict[str, Any]:
    """A mixture of independent pixels, by expectation–maximization."""
    return _density(settings, mixture_of(size_of(settings), settings.seed))


def mixture_of(size: Figure4Size, seed: int) -> Mixture:
    """The fitted mixture; fitted where it is not kept."""
    data = size.network.images()

    def make() -> dict[str, Tensor]:
        model = Mixture.fit(data.train, data.space, generator=generator(seed, "mixture"), **size.mixture)
        return {"log_weights": model.log_weights, "log_tables": model.log_tables}

    kept = size.fitted(seed).once("mixture", make)
    return Mixture(data.space, kept["log_weights"], kept["log_tables"])


def made(settings: Settings) -> dict[str, Any]:
    """A MADE by maximum likelihood, kept where its validation is best."""
    size, seed = size_of(settings), settings.seed
    data = size.network.images()
    model = MADE(data.space, **size.made, generator=generator(seed, "made"))

    def make() -> dict[str, Tensor]:
        how = TrainingSettings.of({**size.made_training, "seed": seed})
        fit(model, build("maximum_likelihood", data.space), data.train, how, valid=data.valid)
        return model.state_dict()

    model.load_state_dict(size.fitted(seed).once("made", make))
    return _density(settings, model.requires_grad_(False))


def _density(settings: Settings, model: Any) -> dict[str, Any]:
    """Exact draws of a density model, judged, and its exact test log-likelihood."""
    size = size_of(settings)
    data = size.network.images()
    samples = model.sample(size.samples, generator(settings.seed, "draws"))
    found = torch.cat([model.log_density(part.long()).double() for part in torch.split(data.test, 1000)])
    numbers = {"log_likelihood": float(found.mean()), "log_likelihood_stderr": float(found.std()) / len(found) ** 0.5}
    return {**numbers, "grid": packed(samples[:SHOWN]), **size.judge(settings.seed)(samples)}


def network(settings: Settings) -> dict[str, Any]:
    """The network, trained, and the variational bound of its reverse chain on test images."""
    size = size_of(settings)
    numbers = learn(size.network, settings.say, settings.device)
    model, data = learned(size.network), size.network.images()
    bound = variational(model, data.test[: size.bound_rows].long(), generator(settings.seed, "bound"), draws=8)
    return {**numbers, "lower": bound.lower, "lower_stderr": bound.stderr, "bound_stderr": bound.bound_stderr}


def draw(settings: Settings, sampler: str) -> dict[str, Any]:
    """Samples by one sampler of the network, judged; the first `FEW` chains of all samplers start alike."""
    size, how = size_of(settings), SAMPLERS[sampler]
    model = learned(size.network)
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


SHARE = 0.5
"""Of the hidden pixels that are drawn anew in a heat-bath step."""
SHOWN_DRAWS = 4
"""Draws of an image that are shown."""


def paint(settings: Settings, first: int) -> dict[str, Any]:
    """In-painting: the lower half of some test images from the upper one, by the network and by the mixture.

    Clamped pixels are corrupted anew at every level, so a chain knows what was observed only through its noise: it is
    unadjusted (docs/mathematics.md, "Denoising and noise levels"). Chains go through the levels of
    `Figure4Size.painted_between`: from where the observed half begins to tell, to where what the head says of clean
    pixels is neither sure nor blurred. Its probabilities there, averaged over the draws of an image, are the marginals
    that are judged. Levels and steps were chosen on validation images.

    Args:
        settings: the experiment's.
        first: the first of the test images.

    Returns:
        The log-loss a hidden pixel, image by image, and what is shown.
    """
    size = size_of(settings)
    data = size.network.images()
    rows = data.test[: size.painted][first : first + size.painted_at_once].long()
    hidden = lower_half(data.shape)
    model = learned(size.network)
    log_probs, draws, passes = painted(model, rows, hidden, size, generator(settings.seed, "painting", first))
    exact = mixture_of(size, settings.seed).site_log_conditionals(rows, (~hidden).expand_as(rows))
    return {
        "ours": log_losses(log_probs, rows, hidden).tolist(),
        "mixture": log_losses(exact, rows, hidden).tolist(),
        "passes": passes,
        "rows": packed(rows),
        "draws": [packed(draw) for draw in draws[:SHOWN_DRAWS]],
    }


def painted(
    model: Any, rows: States, hidden: Tensor, size: Figure4Size, gen: torch.Generator
) -> tuple[Tensor, Tensor, int]:
    """The marginals of every pixel, the draws and the network passes.

    Args:
        model: noise-conditional, with a denoising head.
        rows: whose pixels outside ``hidden`` were observed ``(N, D)``.
        hidden: ``(D,)``.
        size: how many draws, and through which levels.
        gen: the source of the draws.

    Returns:
        ``log P(x_d = v)`` ``(N, D, V)``, the draws ``(M, N, D)``, and the passes.
    """
    chain = painter(model, size)
    many = rows.repeat(size.draws, 1)
    last = chain.run(many, gen, (~hidden).expand_as(many))
    if last.clean_log_probs is None:
        raise RuntimeError("a chain without a final denoising")
    each = last.clean_log_probs.double().reshape(size.draws, *rows.shape, -1)
    mean = each.logsumexp(0) - torch.tensor(float(size.draws), dtype=torch.float64).log()
    return mean, last.x.reshape(size.draws, *rows.shape), last.passes


def painter(model: Any, size: Figure4Size) -> Annealed:
    """Heat-bath steps at every level, each after a new corruption of what was observed, then the reverse chain down."""
    levels, (low, high) = size.network.levels, size.painted_between
    chosen = tuple(level for level in levels.even(size.painted_levels) if low <= levels.log_snr(level) <= high)
    kernel = partial(HeatBath, share=SHARE)
    return Annealed(model, kernel, size.painted_steps, chosen, descent="reverse", renoise_every=1)


def lower_half(shape: tuple[int, int]) -> Tensor:
    """The pixels of the lower half ``(D,)``.

    >>> lower_half((2, 2)).tolist()
    [False, False, True, True]
    """
    row = torch.arange(shape[0] * shape[1]) // shape[1]
    return row >= shape[0] // 2


def log_losses(log_probs: Tensor, rows: States, hidden: Tensor) -> Tensor:
    """``-log P(x_d)`` of the hidden pixels, averaged over them ``(N, D, V), (N, D) -> (N,)``."""
    numbers = log_probs.gather(-1, rows[..., None]).squeeze(-1)
    return -numbers[:, hidden].mean(-1)
