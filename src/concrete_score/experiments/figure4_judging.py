"""How figure 4 judges samples: by a classifier trained here, and by their distance to the training pictures."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from concrete_score.experiments.figure4_data import Pictures, Shelf
from concrete_score.metrics.classifier import Classifier, class_report, train_classifier
from concrete_score.metrics.frechet import frechet
from concrete_score.metrics.memorization import memorization
from concrete_score.randomness import generator
from concrete_score.shapes import States

FEW = 128
"""Samples of the comparison that every sampler can afford; the distance of few samples is larger than that of many."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Fréchet distance to the training pictures, class balance, confidence and memorization, with bootstrap errors.

    Args:
        data: the pictures.
        classifier: whose features the Fréchet distance sees.
        reference: how many training pictures it is taken to.
        fresh: how many test pictures samples are held against for memorization.
        seed: of the resamples.
        resamples: of every bootstrap.
    """

    data: Pictures
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


def classifier_of(data: Pictures, shelf: Shelf, steps: int, seed: int) -> Classifier:
    """The classifier of a set of pictures; trained where it is not on the shelf."""

    def make() -> dict[str, Tensor]:
        how = {"seed": seed, "steps": steps}
        return train_classifier(data.train, data.train_labels, data.space, data.shape, **how).state_dict()

    weights = shelf.once("classifier", make)
    classes = int(data.train_labels.max()) + 1
    net = Classifier(data.space, data.shape, classes, generator=generator(seed, "classifier"))
    net.load_state_dict(weights)
    return net
