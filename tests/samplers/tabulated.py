"""An ideal denoiser looked up instead of computed, for chains by the thousand on a small space."""

import torch

from concrete_score.models.ideal import IdealDenoiser
from concrete_score.neighborhoods import hamming


class Tabulated:
    """The exact noisy scores and clean values of a pmf at every level; ``clean`` hides the latter."""

    def __init__(self, pmf, noise, clean=True):
        self.noise, self.space, self.neighborhood = noise, noise.space, hamming(noise.space)
        ideal, states = IdealDenoiser.of(pmf, noise, self.neighborhood), noise.space.enumerate()
        levels = range(noise.num_levels)
        self.ratios = torch.stack([ideal.at(level).log_ratios(states) for level in levels])
        self.clean = torch.stack([ideal.clean_log_probs(states, level) for level in levels])
        if clean:
            self.clean_log_probs = lambda x, level: self.clean[level, self.space.index(x)]

    def at(self, level):
        return AtLevel(self, level)


class AtLevel:
    def __init__(self, whole, level):
        self.neighborhood = whole.neighborhood
        self.log_ratios = lambda x: whole.ratios[level, whole.space.index(x)]
        if hasattr(whole, "clean_log_probs"):
            self.clean_log_probs = lambda x: whole.clean_log_probs(x, level)
