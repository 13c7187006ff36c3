"""Digits of 8 × 8 bits: a U-Net learns the clean value of every pixel, and takes noise off digits it never saw."""

import torch
from sklearn.datasets import load_digits

from concrete_score import Space
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import binarized_gaussian
from concrete_score.objectives.denoising import clean_value
from concrete_score.training import TrainingSettings, fit

LEVEL = 2
"""Which of the noise's levels; 0 is the weakest."""


def main(steps: int = 600, width: int = 16) -> dict[str, float]:
    """The share of pixels of held-out digits that are wrong: as corrupted, by a majority of neighbors, and denoised."""
    digits = torch.from_numpy(load_digits().images > 7).long()
    train, test = digits[:1500].flatten(1), digits[1500:].flatten(1)
    space = Space.bits(64)
    noise = binarized_gaussian(space)
    random = torch.Generator().manual_seed(0)

    model = unet(hamming(space), noise=noise, shape=(8, 8), width=width, depth=1, generator=random)
    fit(model, clean_value(space, noise=noise), train, TrainingSettings(steps=steps, lr=4e-3))

    noisy = noise.corrupt(test, LEVEL, random)
    with torch.no_grad():
        denoised = model.clean_log_probs(noisy, LEVEL).argmax(-1)
    window = torch.ones(1, 1, 3, 3)
    votes = torch.conv2d(noisy.view(-1, 1, 8, 8).float(), window, padding=1)
    smoothed = (votes > 4.5).long().flatten(1)
    for image in zip(test[0].view(8, 8), noisy[0].view(8, 8), denoised[0].view(8, 8), strict=True):
        print("   ".join("".join("·█"[int(pixel)] for pixel in row) for row in image))
    wrong = {"corrupted": noisy, "majority of neighbors": smoothed, "denoised": denoised}
    return {name: float((found != test).double().mean()) for name, found in wrong.items()}


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:24}{value:.3f} of the pixels wrong")
