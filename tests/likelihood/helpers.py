"""Small random problems whose every number can be summed."""

from dataclasses import dataclass
from functools import partial

import torch
from hypothesis import strategies as st

from concrete_score.likelihood import Annealing, Geometric, Schedule
from concrete_score.samplers import Gibbs, Informed, MetropolisHastings, MultiSite, systematic
from concrete_score.spaces import Space
from concrete_score.targets import Pmf
from tests.strategies import generators, spaces


@dataclass(frozen=True, eq=False)
class Unnormalized:
    """A table of log-densities, normalized or not, that claims not to be."""

    space: Space
    table: torch.Tensor
    normalized: bool = False

    def log_density(self, x):
        return self.table[self.space.index(x)]


KERNELS = {
    "systematic": systematic,
    "gibbs": Gibbs,
    "mh": partial(MetropolisHastings, laziness=0.1),
    "informed": partial(Informed, laziness=0.1),
    "multi_site": partial(MultiSite, step_size=0.7),
}


def random_problem(sizes, seed=0, scale=1.0, shift=1.5):
    """A random base that can be sampled and a random unnormalized target."""
    space, generator = Space(tuple(sizes)), torch.Generator().manual_seed(seed)
    base = Pmf(space, torch.randn(space.num_states, generator=generator, dtype=torch.float64).log_softmax(0))
    table = scale * torch.randn(space.num_states, generator=generator, dtype=torch.float64) + shift
    return Geometric(base, Unnormalized(space, table))


@st.composite
def annealings(draw):
    """Any kernel on a random space of at least two states, target and schedule."""
    space = draw(spaces(max_states=24).filter(lambda space: space.num_states > 1))
    generator = draw(generators())

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    base = Pmf(space, normal(space.num_states).log_softmax(0))
    target = Unnormalized(space, 1.5 * normal(space.num_states) + 3 * normal())
    inner = torch.rand(draw(st.integers(0, 4)), generator=generator, dtype=torch.float64).unique().tolist()
    kernels = KERNELS[draw(st.sampled_from(sorted(KERNELS)))]
    return Annealing(Geometric(base, target), Schedule((0.0, *inner, 1.0)), kernels, sweeps=draw(st.integers(1, 2)))
