"""Are samples of images as good as data? Judged by a classifier trained here, in its features and by copied rows."""

from dataclasses import dataclass
from math import ceil, cos, pi
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import InputError
from concrete_score.metrics.bootstrap import Estimate, bootstrap
from concrete_score.models.layers import Linear
from concrete_score.models.unet_blocks import Conv
from concrete_score.randomness import generator as named_generator
from concrete_score.shapes import States
from concrete_score.spaces import Space

Labels = Integer[Tensor, "_"]
"""The class of each image ``(N,)``."""
FeatureRows = Float[Tensor, "_ _"]
"""One row of features an image ``(N, F)``."""
Rows = Integer[Tensor, "_ _"]
"""Rows ``(N, D)``."""

CHUNK = 512
"""How many images are classified at a time."""
DISTANCES = 2**24
"""How many distances are held at a time."""
NEAR = 0.01
"""The share of fresh data that counts as suspiciously near."""
TIMES = 3.0
"""How many times more samples than fresh data may lie that near."""


class Classifier(nn.Module):
    """Three convolutions, ``features`` numbers, one logit a class.

    Args:
        space: one site a pixel, row by row, all of one size.
        shape: height and width.
        classes: how many.
        features: numbers before the logits, which the Fréchet distance sees.
        generator: the source of the first weights.

    >>> net = Classifier(Space.bits(64), (8, 8), 10, generator=torch.Generator().manual_seed(0))
    >>> net.features(torch.zeros(3, 64, dtype=torch.int64)).shape, net(torch.zeros(3, 64, dtype=torch.int64)).shape
    (torch.Size([3, 64]), torch.Size([3, 10]))
    """

    def __init__(
        self,
        space: Space,
        shape: tuple[int, int],
        classes: int,
        features: int = 64,
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if shape[0] * shape[1] != space.num_sites or len(set(space.sizes)) > 1 or space.sizes[0] < 2:
            raise InputError("pixels of one size, one a site", f"{shape[0]}x{shape[1]}", where="shape")
        self.space, self.shape, self.classes = space, shape, classes
        tall, wide = (ceil(side / 4) for side in shape)
        self.padding = (0, 4 * wide - shape[1], 0, 4 * tall - shape[0])
        self.first = Conv(4, 32, 3, generator)
        self.second = Conv(32, 64, 2, generator, stride=2)
        self.third = Conv(64, 64, 3, generator)
        self.look = Linear(64 * tall * wide, features, generator)
        self.write = Linear(features, classes, generator)

    def forward(self, x: States) -> Float[Tensor, "n classes"]:
        """Logits ``(N, D) -> (N, classes)``."""
        logits: Tensor = self.write(functional.relu(self._features(x)))
        return logits

    @torch.no_grad()
    def features(self, x: States) -> Float[Tensor, "n features"]:
        """What the logits are made of ``(N, D) -> (N, F)``."""
        return torch.cat([self._features(part) for part in torch.split(x, CHUNK)])

    @torch.no_grad()
    def log_probs(self, x: States) -> Float[Tensor, "n classes"]:
        """``log P(class | image)`` ``(N, D) -> (N, classes)``."""
        return torch.cat([self(part).log_softmax(-1) for part in torch.split(x, CHUNK)])

    def accuracy(self, x: States, labels: Labels) -> float:
        """The share of images whose likeliest class is their label."""
        return float((self.log_probs(x).argmax(-1) == labels.to(x.device)).double().mean())

    def _features(self, x: Tensor) -> Tensor:
        grey = 2.0 / (self.space.sizes[0] - 1) * x.to(self.look.weight.dtype) - 1
        image = functional.pad(grey.reshape(-1, 1, *self.shape), self.padding)
        patches = functional.pixel_unshuffle(image, 2).contiguous(memory_format=torch.channels_last)
        inner = functional.relu(self.second(functional.relu(self.first(patches))))
        found: Tensor = self.look(functional.relu(self.third(inner)).flatten(1))
        return found


def train_classifier(
    states: States,
    labels: Labels,
    space: Space,
    shape: tuple[int, int],
    *,
    seed: int = 0,
    steps: int = 600,
    batch_size: int = 128,
    lr: float = 2e-3,
) -> Classifier:
    """A classifier of labelled images, by Adam with a rate that falls along a cosine.

    Args:
        states: ``(N, D)``, of any integer kind.
        labels: whole numbers from 0 ``(N,)``.
        space, shape: of the images.
        seed: of weights and batches.

    Raises:
        InputError: as many labels as images are wanted, or fewer than two classes.
    """
    labels = torch.as_tensor(labels).long()
    if labels.shape != states.shape[:1] or not len(labels) or int(labels.min()) < 0 or int(labels.max()) < 1:
        came = f"shape {tuple(labels.shape)} for {len(states)} images"
        raise InputError("a label from 0 for every image, of at least two classes", came, where="labels")
    net = Classifier(space, shape, int(labels.max()) + 1, generator=named_generator(seed, "classifier"))
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lr * (1 + cos(pi * step / steps)) / 2
        rows = torch.randint(len(states), (batch_size,), generator=named_generator(seed, "classifier batch", step))
        loss = functional.cross_entropy(net(states[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return net


@dataclass(frozen=True)
class ClassReport:
    """What a classifier sees in samples."""

    shares: tuple[Estimate, ...]
    """Of each class."""
    confidence: Estimate
    """The mean probability of the likeliest class."""

    @property
    def least(self) -> Estimate:
        """The rarest class's share."""
        return min(self.shares)

    @property
    def most(self) -> Estimate:
        """The commonest class's share."""
        return max(self.shares)

    def to_json(self) -> dict[str, Any]:
        return {
            "shares": [share.value for share in self.shares],
            "share_stderrs": [share.stderr for share in self.shares],
            "confidence": self.confidence.value,
            "confidence_stderr": self.confidence.stderr,
        }


def class_report(
    classifier: Classifier, samples: States, generator: torch.Generator, resamples: int = 100
) -> ClassReport:
    """How often each class is seen, and how surely, with bootstrap errors."""
    log_probs = classifier.log_probs(samples).double()
    seen = functional.one_hot(log_probs.argmax(-1), classifier.classes).double()
    table = torch.cat([seen, log_probs.max(-1).values.exp()[:, None]], 1)
    value, stderr = bootstrap(lambda weight: weight @ table, (table,), generator, resamples)
    estimates = [Estimate(v, e) for v, e in zip(value.tolist(), stderr.tolist(), strict=True)]
    return ClassReport(tuple(estimates[:-1]), estimates[-1])


def frechet(one: FeatureRows, other: FeatureRows, generator: torch.Generator, resamples: int = 50) -> Estimate:
    """``|μ₁ - μ₂|² + tr(Σ₁ + Σ₂ - 2 (Σ₁ Σ₂)^½)``, with a bootstrap error over both samples.

    Two samples of one distribution are not at distance 0: the distance of fresh data from the training data, at the
    same number of rows, is the floor that others are to be held against.

    Args:
        one, other: features ``(N, F)``, ``(M, F)``, more rows than features.
        generator: the source of the resamples.
        resamples: how many.

    Raises:
        InputError: different features, too few rows, or numbers that are not finite.

    >>> g = torch.Generator().manual_seed(0)
    >>> a, b = (torch.randn(2000, 3, generator=g, dtype=torch.float64) for _ in range(2))
    >>> near, far = frechet(a, b, g), frechet(a, 2 * b + 1, g)
    >>> near.value < 0.02, abs(far.value - 6) < 4 * far.stderr
    (True, True)
    """
    one, other = _check(one, "one"), _check(other, "other")
    if one.shape[1] != other.shape[1]:
        raise InputError("as many features on both sides", f"{one.shape[1]} and {other.shape[1]}", where="features")

    def distance(left: Tensor, right: Tensor) -> Tensor:
        return gaussian_distance(*_moments(one, left), *_moments(other, right))

    value, stderr = bootstrap(distance, (one, other), generator, resamples)
    return Estimate(float(value), float(stderr))


def gaussian_distance(mean: Tensor, cov: Tensor, other_mean: Tensor, other_cov: Tensor) -> Float[Tensor, ""]:
    """The squared Fréchet (2-Wasserstein) distance of two Gaussians.

    ``tr (Σ₁ Σ₂)^½`` is the sum of the roots of the eigenvalues of ``R Σ₂ R``, ``R = Σ₁^½``, which is symmetric.

    >>> one = torch.eye(2, dtype=torch.float64)
    >>> gaussian_distance(torch.zeros(2).double(), one, torch.ones(2).double(), 4 * one).item()
    4.0
    """
    value, vector = torch.linalg.eigh(cov)
    root = (vector * value.clamp_min(0).sqrt()) @ vector.T
    both = torch.linalg.eigvalsh(root @ other_cov @ root).clamp_min(0).sqrt().sum()
    apart = (mean - other_mean).square().sum()
    # Rounding may leave the distance of equal Gaussians just below zero.
    distance: Tensor = (apart + cov.trace() + other_cov.trace() - 2 * both).clamp_min(0)
    return distance


def _moments(rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    mean = weight @ rows
    centered = rows - mean
    return mean, (centered * weight[:, None]).T @ centered


def _check(features: Tensor, where: str) -> Tensor:
    rows = features.detach().cpu().double()
    if rows.ndim != 2 or len(rows) <= rows.shape[1]:
        raise InputError("more rows than features", f"shape {tuple(rows.shape)}", where=where, fix="draw more samples")
    if not rows.isfinite().all():
        raise InputError("finite features", "NaN or infinity", where=where)
    return rows


@dataclass(frozen=True)
class Memorization:
    """Distances to the nearest training state, of samples and of fresh data, in changed sites."""

    samples: Estimate
    """The mean distance of samples."""
    fresh: Estimate
    """The mean distance of held-out data."""
    radius: int
    """The distance within which 1 % of the fresh data lie."""
    near: Estimate
    """The share of samples within it."""
    fresh_near: float
    """The share of fresh data within it: about 1 %, more where distances tie."""
    copies: float
    """The share of samples that are training states."""
    fresh_copies: float
    """The share of fresh data that are."""

    @property
    def passed(self) -> bool:
        """Whether no more than three times as many samples as fresh data lie near training states, within error."""
        return self.near.value <= TIMES * self.fresh_near + 3 * self.near.stderr

    def to_json(self) -> dict[str, Any]:
        return {
            "sample_distance": self.samples.value,
            "sample_distance_stderr": self.samples.stderr,
            "fresh_distance": self.fresh.value,
            "fresh_distance_stderr": self.fresh.stderr,
            "radius": self.radius,
            "near": self.near.value,
            "near_stderr": self.near.stderr,
            "fresh_near": self.fresh_near,
            "copies": self.copies,
            "fresh_copies": self.fresh_copies,
            "passed": self.passed,
        }


def memorization(
    samples: Rows, train: Rows, fresh: Rows, generator: torch.Generator, resamples: int = 100
) -> Memorization:
    """Samples against fresh data, by their distance to the training data, with bootstrap errors.

    Args:
        samples: drawn states ``(N, D)``.
        train: what was learned from ``(M, D)``.
        fresh: held-out data ``(F, D)``.
        generator: the source of the resamples.

    >>> g = torch.Generator().manual_seed(0)
    >>> train, fresh, new = (torch.randint(2, (500, 20), generator=g) for _ in range(3))
    >>> memorization(new, train, fresh, g).passed, memorization(train, train, fresh, g).passed
    (True, False)
    """
    drawn, held = nearest_distances(samples, train), nearest_distances(fresh, train)
    radius = int(held.double().quantile(NEAR, interpolation="lower"))
    table = torch.stack([drawn.double(), (drawn <= radius).double()], 1)
    value, stderr = bootstrap(lambda weight: weight @ table, (table,), generator, resamples)
    fresh_value, fresh_stderr = bootstrap(lambda weight: weight @ held.double(), (held,), generator, resamples)
    return Memorization(
        samples=Estimate(float(value[0]), float(stderr[0])),
        fresh=Estimate(float(fresh_value), float(fresh_stderr)),
        radius=radius,
        near=Estimate(float(value[1]), float(stderr[1])),
        fresh_near=float((held <= radius).double().mean()),
        copies=float((drawn == 0).double().mean()),
        fresh_copies=float((held == 0).double().mean()),
    )


def nearest_distances(rows: Rows, reference: Rows) -> Integer[Tensor, " n"]:
    """How many sites each row differs in from the nearest of ``reference`` ``(N, D), (M, D) -> (N,)``.

    Agreeing sites are counted by one product of matrices, exact in float32 up to 2^24 sites.

    >>> nearest_distances(torch.tensor([[0, 1, 1]]), torch.tensor([[0, 0, 0], [0, 1, 0]])).tolist()
    [1]
    """
    if rows.ndim != 2 or reference.ndim != 2 or rows.shape[1] != reference.shape[1] or not len(reference):
        raise InputError(
            "two tables of as many sites", f"{tuple(rows.shape)} and {tuple(reference.shape)}", where="rows"
        )
    if not len(rows):
        return rows.new_zeros(0, dtype=torch.int64)
    width = 1 + max(int(rows.max()), int(reference.max()))
    sites = rows.shape[1]
    step = max(1, DISTANCES // (sites * width))
    each = max(1, DISTANCES // step)
    best = torch.full((len(rows),), sites, dtype=torch.int64)
    for part in torch.split(reference, step):
        known = _spelled(part, width)
        agreed = torch.cat([(_spelled(some, width) @ known.T).amax(1) for some in torch.split(rows, min(each, step))])
        apart = (sites - agreed) / 2 if width == 2 else sites - agreed
        best = torch.minimum(best, apart.round().long().cpu())
    return best


def _spelled(states: Tensor, width: int) -> Tensor:
    """Bits as -1 and 1, whose product is what agrees less what differs; other values one-hot."""
    return 2.0 * states - 1 if width == 2 else functional.one_hot(states.long(), width).flatten(1).float()
