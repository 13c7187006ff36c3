"""What figure 4 learns from its images: one U-Net for every noise level, and the classifier that judges samples.

The network learns each pixel's clean value by cross-entropy at levels drawn uniformly (paper, section 5.5 and C.4). Its
denoising head then gives the ratios of every level, so that the paper's sampler and ours run on the same weights: the
levels are the paper's seven σ among others, evenly spaced in the logarithm of the signal-to-noise ratio, which reach
down to where digits are decided. It is kept as a run directory in the user's cache, never in the results.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from math import exp, log, log1p, sqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score import runs
from concrete_score.codecs import ImageCodec
from concrete_score.data import load
from concrete_score.data.catalog import cache_folder
from concrete_score.defaults import VALID_FRACTION
from concrete_score.errors import InputError
from concrete_score.files import canonical_json, digest
from concrete_score.fitting import states_digest
from concrete_score.metrics.images import Classifier, class_report, frechet, memorization, train_classifier
from concrete_score.noise import SIGMAS, FactorizedNoise, flip_probability, symmetric
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training import Event, Progress, TrainingSettings, Validated
from concrete_score.training.recipe import Recipe
from concrete_score.training.store import TensorFile, read, write

FORMAT = 1
"""Another network, or another meaning of its weights, would be another one."""
FEW = 128
"""Samples of the comparison that every sampler can afford; the distance of few samples is larger than that of many."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images of bits, thresholded at one half, in three parts."""

    codec: ImageCodec
    train: Tensor
    """``(N, D)`` uint8."""
    train_labels: Tensor
    valid: Tensor
    test: Tensor
    test_labels: Tensor

    @property
    def space(self) -> Space:
        """One site a pixel."""
        return self.codec.space

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of an image."""
        return self.codec.shape


@cache
def labelled_images(name: str) -> LabelledImages:
    """A named set; read once a process.

    Raises:
        InputError: it is not here and cannot be fetched, or it has no labels.

    >>> labelled_images("digits").train.shape
    torch.Size([1199, 64])
    """
    parts = {split: load(name, split) for split in ("train", "valid", "test")}
    codec = ImageCodec.fit(parts["train"])
    states = {split: codec.encode(part).states for split, part in parts.items()}
    labels = {}
    for split in ("train", "test"):
        found = parts[split].labels
        if found is None:
            raise InputError("images with labels", "none", where=f"{name}:{split}")
        labels[split] = torch.as_tensor(found)
    return LabelledImages(codec, states["train"], labels["train"], states["valid"], states["test"], labels["test"])


@dataclass(frozen=True)
class Levels:
    """The noise of figure 4: even levels of log signal-to-noise, with the paper's seven among them."""

    count: int = 64
    """Of the even levels."""
    weakest: float = 5.0
    strongest: float = -9.0

    def flips(self) -> list[tuple[float, bool]]:
        """The flip probability of every level, weakest first, and whether it is one of the paper's."""
        gap = (self.weakest - self.strongest) / max(1, self.count - 1)
        even = [(_flip(self.weakest - gap * level), False) for level in range(self.count)]
        return sorted([*even, *((flip_probability(sigma), True) for sigma in SIGMAS)])

    def options(self) -> dict[str, list[float]]:
        """Of the registered noise ``symmetric``."""
        flips = [flip for flip, _ in self.flips()]
        return {"log_stay": [log1p(-flip) for flip in flips], "log_leave": [log(flip) for flip in flips]}

    def noise(self, space: Space) -> FactorizedNoise:
        """Bit flips at all levels."""
        return symmetric(space, **self.options())

    @property
    def paper(self) -> tuple[int, ...]:
        """The levels that are the paper's."""
        return tuple(level for level, (_, theirs) in enumerate(self.flips()) if theirs)

    def log_snr(self, level: int) -> float:
        """``log λ²/(1 - λ²)`` of a level, λ the correlation that is left of a bit."""
        kept = 1 - 2 * self.flips()[level][0]
        return log(kept**2) - log1p(-(kept**2))

    def even(self, count: int) -> tuple[int, ...]:
        """``count`` of the even levels, the weakest and the strongest among them."""
        ours = [level for level, (_, theirs) in enumerate(self.flips()) if not theirs]
        if count == 1:
            return (ours[-1],)
        return tuple(sorted({ours[round(i * (len(ours) - 1) / (count - 1))] for i in range(count)}))


def _flip(log_snr: float) -> float:
    """The flip probability of a bit whose correlation λ is left with ``log λ²/(1 - λ²)``, to all its digits."""
    kept = sqrt(1 / (1 + exp(-log_snr)))
    return 1 / (1 + exp(log_snr)) / (1 + kept) / 2


@dataclass(frozen=True)
class NetworkPlan:
    """All that decides what the network learns; another plan has another run directory.

    >>> NetworkPlan().path == NetworkPlan().path, NetworkPlan().path == NetworkPlan(seed=1).path
    (True, False)
    """

    dataset: str = "mnist"
    width: int = 32
    blocks: int = 1
    depth: int = 2
    levels: Levels = field(default_factory=Levels)
    training: Mapping[str, Any] = field(
        default_factory=lambda: {
            "steps": 7_000,
            "batch_size": 64,
            "lr": 2e-3,
            "average": 0.999,
            "valid_every": 500,
            "checkpoint_seconds": 60.0,
        }
    )
    valid_rows: int = 2_000
    seed: int = 0

    @property
    def path(self) -> Path:
        """Its run directory; ``$CONCRETE_SCORE_CACHE`` moves it."""
        return cache_folder() / "figure4" / f"{self.dataset}-{_id({**asdict(self), 'format': FORMAT})}"

    def images(self) -> LabelledImages:
        """What it learns from."""
        return labelled_images(self.dataset)

    def held_out(self) -> Tensor:
        """What it is validated on."""
        return self.images().valid[: self.valid_rows]

    def recipe(self) -> Recipe:
        """The U-Net, its noise and its objective, by name."""
        shape = {"shape": list(self.images().shape), "width": self.width, "blocks": self.blocks, "depth": self.depth}
        named = Recipe(
            "unet", "clean_value", noise="symmetric", noise_options=self.levels.options(), model_options=shape
        )
        return named.resolved()

    def run(self) -> runs.Run:
        """Its run, begun where it is not there yet."""
        if runs.exists(self.path):
            return runs.open(self.path)
        data, valid = self.images(), self.held_out()
        training = TrainingSettings.of({**self.training, "seed": self.seed}).to_json()
        config = {"recipe": self.recipe().to_json(), "training": training, "valid_fraction": VALID_FRACTION}
        facts = {
            "rows": len(data.train),
            "sha256": states_digest(data.train),
            "valid": {"rows": len(valid), "sha256": states_digest(valid)},
        }
        return runs.create(self.path, config=config, codec=data.codec.to_json(), data=facts, seed=self.seed)


def learn(plan: NetworkPlan, say: Callable[[str], None] | None = None, device: str = "cpu") -> dict[str, Any]:
    """Train the network, from the last checkpoint of its run if there is one; a finished run is left as it is.

    Returns:
        Plain numbers: steps, seconds, the validation's curve.
    """
    run = plan.run()

    def show(event: Event) -> None:
        if say is None:
            return
        if isinstance(event, Validated):
            say(f"unet: step {event.step}, validation {event.value:.2f}")
        elif isinstance(event, Progress) and event.step % 100 == 0:
            say(f"unet: step {event.step}, loss {event.loss:.2f}, {event.seconds:.0f} s")

    ended = runs.train(run, plan.images().train, plan.held_out(), device=device, show=show)
    return {
        "steps": ended.step,
        "best_step": ended.best_step,
        "validation": ended.best,
        "seconds": round(ended.seconds, 1),
        "ended": ended.why,
        "parameters": sum(p.numel() for p in run.model().parameters()),
        "curve": [[line["step"], round(line["valid"], 3)] for line in run.journal.read() if "valid" in line],
    }


def learned(plan: NetworkPlan) -> Any:
    """The trained network; trained first where it is not."""
    run = plan.run()
    last = run.checkpoint()
    # A finished run is only read, for several processes may do so at once.
    if last is None or not last.state["ended"]:
        learn(plan)
    model: nn.Module = run.model()
    return model.eval()


@dataclass(frozen=True)
class TensorCache:
    """Tensor files of one configuration in the user's cache: what was fitted and is no registered model.

    Args:
        configuration: all that decides what is fitted, as plain values; another one has another folder.
    """

    configuration: Mapping[str, Any]

    @property
    def id(self) -> str:
        """A short digest of the configuration."""
        return _id(self.configuration)

    @property
    def folder(self) -> Path:
        """Where its files lie; ``$CONCRETE_SCORE_CACHE`` moves it."""
        return cache_folder() / "weights" / f"figure4-{self.id}"

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / f"{name}.safetensors"

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors, whole or not at all."""
        write(self.path(name), TensorFile("model", f"{self.id}/{name}", 0, {}, dict(tensors)))

    def get(self, name: str) -> dict[str, Tensor] | None:
        """What is kept under a name, verified; None where nothing is."""
        path = self.path(name)
        return dict(read(path, "model", f"{self.id}/{name}").tensors) if path.is_file() else None

    def once(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """What is kept under a name, made first where nothing is."""
        found = self.get(name)
        if found is None:
            self.put(name, make())
            found = self.get(name)
        if found is None:
            raise InputError("a folder that keeps files", "one that does not", where=str(self.folder))
        return found


def _id(configuration: Mapping[str, Any]) -> str:
    return digest(canonical_json(dict(configuration)))[:16]


@dataclass(frozen=True, eq=False)
class SampleJudge:
    """Fréchet distance to the training images, class balance, confidence and memorization, with bootstrap errors.

    Args:
        data: the images.
        classifier: whose features the Fréchet distance sees.
        reference: how many training images it is taken to.
        fresh: how many test images samples are held against for memorization.
        seed: of the resamples.
        resamples: of every bootstrap.
    """

    data: LabelledImages
    classifier: Classifier
    reference: int
    fresh: int
    seed: int = 0
    resamples: int = 50

    def __call__(self, samples: States) -> dict[str, Any]:
        """Plain numbers of samples ``(N, D)``; distances of the first `FEW` of them as well."""
        features = self.classifier.features(samples)
        few = frechet(features[:FEW], self._reference, generator(self.seed, "few"), self.resamples)
        found: dict[str, Any] = {
            "samples": len(samples),
            "frechet_few": few.value,
            "frechet_few_stderr": few.stderr,
            "mean_pixel": float(samples.double().mean()),
            "frechet": None,
            "frechet_stderr": None,
        }
        if len(samples) > FEW:
            many = frechet(features, self._reference, generator(self.seed, "many"), self.resamples)
            found |= {"frechet": many.value, "frechet_stderr": many.stderr}
        report = class_report(self.classifier, samples, generator(self.seed, "classes"), self.resamples)
        fresh, gen = self.data.test[: self.fresh], generator(self.seed, "near")
        near = memorization(samples.to(torch.uint8), self.data.train, fresh, gen, self.resamples)
        return found | report.to_json() | {"memorization": near.to_json()}

    @cached_property
    def _reference(self) -> Tensor:
        return self.classifier.features(self.data.train[: self.reference])


def classifier_of(data: LabelledImages, kept: TensorCache, steps: int, seed: int) -> Classifier:
    """The classifier of a set of images; trained where it is not kept."""

    def make() -> dict[str, Tensor]:
        how = {"seed": seed, "steps": steps}
        return train_classifier(data.train, data.train_labels, data.space, data.shape, **how).state_dict()

    weights = kept.once("classifier", make)
    classes = int(data.train_labels.max()) + 1
    net = Classifier(data.space, data.shape, classes, generator=generator(seed, "classifier"))
    net.load_state_dict(weights)
    return net
