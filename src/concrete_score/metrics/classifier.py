"""A small classifier of pictures, trained here: its features and its opinion judge samples."""

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
"""The class of each picture ``(N,)``."""

CHUNK = 512
"""How many pictures are read at a time."""


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
        """``log P(class | picture)`` ``(N, D) -> (N, classes)``."""
        return torch.cat([self(part).log_softmax(-1) for part in torch.split(x, CHUNK)])

    def accuracy(self, x: States, labels: Labels) -> float:
        """The share of pictures whose likeliest class is their label."""
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
    """A classifier of labelled pictures, by Adam with a rate that falls along a cosine.

    Args:
        states: ``(N, D)``, of any integer kind.
        labels: whole numbers from 0 ``(N,)``.
        space, shape: of the pictures.
        seed: of weights and batches.

    Raises:
        InputError: as many labels as pictures are wanted, or fewer than two classes.
    """
    labels = torch.as_tensor(labels).long()
    if labels.shape != states.shape[:1] or not len(labels) or int(labels.min()) < 0 or int(labels.max()) < 1:
        came = f"shape {tuple(labels.shape)} for {len(states)} pictures"
        raise InputError("a label from 0 for every picture, of at least two classes", came, where="labels")
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
        """Plain numbers."""
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
