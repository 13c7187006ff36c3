"""What the tests of targets share: a goodness-of-fit test with honest pooling."""

from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor


@pytest.fixture(scope="session")
def goodness_of_fit() -> Callable[[Tensor, Tensor], float]:
    """p-value of Pearson's chi-square of state indices ``(n,)`` against probabilities ``(S,)``; rare states pooled."""

    def p_value(indices: Tensor, probabilities: Tensor) -> float:
        counts = torch.bincount(indices, minlength=len(probabilities)).double()
        assert counts[probabilities == 0].sum() == 0, "an impossible state was drawn"
        expected = probabilities * len(indices)
        common = expected >= 10
        expected = torch.cat([expected[common], expected[~common].sum()[None]])
        counts = torch.cat([counts[common], counts[~common].sum()[None]])
        if expected[-1] < 10:  # too little even together: it joins the last common state
            expected = torch.cat([expected[:-2], expected[-2:].sum()[None]])
            counts = torch.cat([counts[:-2], counts[-2:].sum()[None]])
        statistic = ((counts - expected) ** 2 / expected).sum()
        return float(chi2.sf(float(statistic), len(expected) - 1))

    return p_value


@pytest.fixture
def generator() -> torch.Generator:
    """A fresh seeded generator."""
    return torch.Generator().manual_seed(2022)
