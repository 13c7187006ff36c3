"""Distributions on which samplers are compared, each with its energy written plainly for the textbook loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.bench.dmala import Energy
from concrete_score.codecs import ImageCodec
from concrete_score.data import load
from concrete_score.randomness import generator
from concrete_score.samplers import (
    Auxiliary,
    Colored,
    DiscreteLangevin,
    GibbsWithGradients,
    MetropolisHastings,
    MultiSite,
    PathAuxiliary,
    Relaxed,
    Sweep,
    Tempering,
)
from concrete_score.samplers.run import Statistic
from concrete_score.spaces import Space
from concrete_score.targets import (
    RBM,
    FactorialHMM,
    Ising,
    Pairwise,
    disk_lattice,
    potts,
    random_factorial_hmm,
    spin_glass,
    torus_log_partition,
)

LADDER = (1.0, 0.88, 0.76, 0.64, 0.52, 0.4, 0.3)
"""Where the temperatures of the spin glass begin; they are adapted. In one batch seven cost little more than five."""
NEARLY_CRITICAL = 0.4
"""Couplings of the lattice, critical at 0.4407, from which it remembers for thousands of steps."""
Builder = Callable[[Any], Any]
"""From a density to a kernel."""

GRADIENT: Mapping[str, Builder] = {
    "multi_site": MultiSite,
    "dlmc": DiscreteLangevin,
    "path_auxiliary": PathAuxiliary,
}
"""Informed by all single-site ratios, many sites a step."""
SINGLE: Mapping[str, Builder] = {"mh": MetropolisHastings, "gwg": GibbsWithGradients}
"""One site a step."""
TEMPERED: Mapping[str, Builder] = {"tempering": partial(Tempering, inverse_temperatures=LADDER, kernel=Sweep)}


@dataclass(frozen=True, eq=False)
class Problem:
    """A distribution, and all that a comparison needs to know of it."""

    name: str
    model: Any
    energy: Energy = field(repr=False)
    """The same log-density for `TextbookDMALA`, of bits as floats or of one-hot states."""
    slow: Statistic = field(repr=False)
    """What chains find out last."""
    structured: Mapping[str, Builder] = field(repr=False)
    """Kernels that use the model's structure; the first makes the starts of all."""
    exact: float | None = None
    """``E log q`` where it is known."""
    hidden: Any = field(default=None, repr=False)
    """The same density without its local fields, where that is compared too."""
    patience: float = 1.0
    """How many times the usual time its chains are given; more where they remember for long."""
    thin: int = 1
    """Steps from one record to the next, of kernels that need many of them."""

    @property
    def kernels(self) -> dict[str, Builder]:
        """All that are compared beside the textbook loop, by name."""
        return {**GRADIENT, **self.structured, **SINGLE}


def ising(coupling: float, side: int = 30) -> Problem:
    """The periodic lattice; its slow statistic is the squared magnetization."""
    model = Ising((side, side), coupling)

    def energy(x: Tensor) -> Tensor:
        spins = (2 * x - 1).reshape(-1, side, side)
        return coupling * (spins * (spins.roll(1, 1) + spins.roll(1, 2))).sum((1, 2))

    step = 1e-4
    ends = [torus_log_partition((side, side), coupling * (1 + sign * step)) for sign in (1, -1)]
    hidden = _hidden(model.space, energy)
    name = f"Ising {side}×{side} at {coupling:g}"
    exact = (ends[0] - ends[1]) / (2 * step)
    slow = {"patience": 5.0, "thin": 8} if coupling > NEARLY_CRITICAL else {}
    return Problem(name, model, energy, _squared_magnetization, {"colored": Colored}, exact, hidden, **slow)  # type: ignore[arg-type]


def disk(side: int = 50) -> Problem:
    """A lattice in a field of two signs and much noise."""
    model = disk_lattice(side, 0.5, 0.5, 1.5, generator(0, "disk lattice"))
    name = f"Ising {side}×{side} in a field"
    return Problem(name, model, _spin_energy(model, (side, side)), _magnetization, {"colored": Colored}, thin=4)


def potts_lattice(states: int, coupling: float, side: int = 30) -> Problem:
    """The periodic Potts lattice; its slow statistic is how unequal the shares of the values are."""

    def energy(x: Tensor) -> Tensor:
        marks = x.reshape(-1, side, side, states)
        return coupling * (marks * (marks.roll(1, 1) + marks.roll(1, 2))).sum((1, 2, 3))

    def slow(x: Tensor) -> Tensor:
        return functional.one_hot(x, states).double().mean(-2).square().sum(-1)

    name = f"Potts {side}×{side}, {states} states, at {coupling:g}"
    patience = 1.0 if states < 8 else 0.25
    return Problem(name, potts((side, side), states, coupling), energy, slow, {"colored": Colored}, patience=patience)


def glass(sites: int = 100, inverse_temperature: float = 1.5) -> Problem:
    """A dense spin glass; its slow statistic is how far spins follow the strongest direction of the couplings."""
    model = spin_glass(sites, inverse_temperature, generator(0, "spin glass"))
    couplings = _spin_matrix(model)
    strongest: Tensor = torch.linalg.eigh(couplings)[1][:, -1].float()
    matrix = couplings.float() / 2

    def energy(x: Tensor) -> Tensor:
        spins = 2 * x - 1
        return ((spins @ matrix) * spins).sum(-1)

    def slow(x: Tensor) -> Tensor:
        return ((2 * x.float() - 1) @ strongest).square()

    name, hidden = f"spin glass of {sites} at {inverse_temperature:g}", _hidden(model.space, energy)
    return Problem(name, model, energy, slow, {**TEMPERED, "sweep": Sweep}, hidden=hidden, patience=3.0, thin=2)


def digits_rbm(hidden: int, steps: int = 500) -> Problem:
    """An RBM trained on binarized digits; its slow statistic is how many pixels are on.

    Trained for one pass over the digits: longer, and even its layers drawn in turn remember for thousands of steps, so
    that no other kernel's time can be told.
    """
    model = trained_rbm(hidden, steps)
    weights, bias, inner = (part.float() for part in (model.weights, model.visible_bias, model.hidden_bias))

    def energy(x: Tensor) -> Tensor:
        return x @ bias + functional.softplus(x @ weights + inner).sum(-1)

    kernels, patience = {"auxiliary": Auxiliary}, 3.0 if hidden < 100 else 0.25
    return Problem(f"RBM 784×{hidden}", model, energy, _magnetization, kernels, patience=patience, thin=4)


def factorial_hmm(times: int = 100, chains: int = 10) -> Problem:
    """A factorial hidden Markov model given what was seen; its exact mean comes from a transfer matrix."""
    model: FactorialHMM = random_factorial_hmm(times, chains, generator(0, "factorial hmm"))
    weights, seen = model.weights.float(), model.observations.float()
    keep, change = (float(part) for part in model._step[0])
    first = torch.tensor([1 - model.first, model.first]).log()

    def energy(x: Tensor) -> Tensor:
        bits = x.reshape(-1, times, chains)
        flips = bits[:, 1:] + bits[:, :-1] - 2 * bits[:, 1:] * bits[:, :-1]
        start = (first[0] + (first[1] - first[0]) * bits[:, 0]).sum(-1)
        along = keep * (times - 1) * chains + (change - keep) * flips.sum((1, 2))
        return start + along - (seen - bits @ weights).square().sum(-1) / (2 * model.noise**2)

    name, kernels = f"factorial HMM {times}×{chains}", {"colored": Colored, "sweep": Sweep}
    return Problem(name, model, energy, _magnetization, kernels, model.mean_log_density(), patience=0.5)


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "ising_0.3": partial(ising, 0.3),
    "ising_0.44": partial(ising, 0.44),
    "ising_field": disk,
    "spin_glass": glass,
    "potts_4": partial(potts_lattice, 4, 0.9),
    "potts_8": partial(potts_lattice, 8, 1.1),
    "rbm_25": partial(digits_rbm, 25),
    "rbm_200": partial(digits_rbm, 200),
    "factorial_hmm": factorial_hmm,
}
SMALL: Mapping[str, Callable[[], Problem]] = {
    "ising_0.3": partial(ising, 0.3, 8),
    "spin_glass": partial(glass, 20),
    "potts_4": partial(potts_lattice, 4, 0.9, 6),
    "factorial_hmm": partial(factorial_hmm, 12, 3),
}
"""Some of them at a size that takes seconds."""


@cache
def trained_rbm(hidden: int, steps: int = 6_000, batch: int = 128, rate: float = 0.05) -> RBM:
    """Persistent contrastive divergence on binarized digits of 28×28 pixels, one step of its chains a batch."""
    images = load("mnist", "train")
    data = ImageCodec.fit(images).encode(images).states
    g = generator(0, f"rbm {hidden}")
    mean = data.float().mean(0).clamp(0.01, 0.99)
    weights = 0.01 * torch.randn(data.shape[1], hidden, generator=g)
    bias, inner = mean.logit(), torch.zeros(hidden)
    chains = torch.bernoulli(mean.expand(batch, -1), generator=g)
    for step in range(steps):
        rows = data[torch.randint(len(data), (batch,), generator=g)].float()
        up = torch.bernoulli((chains @ weights + inner).sigmoid_(), generator=g)
        chains = torch.bernoulli((up @ weights.T + bias).sigmoid_(), generator=g)
        given, dreamt = (rows @ weights + inner).sigmoid_(), (chains @ weights + inner).sigmoid_()
        size = rate * (1 - step / steps) / batch
        weights += size * (rows.T @ given - chains.T @ dreamt)
        bias += size * (rows - chains).sum(0)
        inner += size * (given - dreamt).sum(0)
    return RBM(weights, bias, inner)


def _hidden(space: Space, energy: Energy) -> Relaxed:
    """A density of bits of which nothing is known but how to differentiate it."""
    return Relaxed(space, lambda p: energy(p[..., 1]), torch.float32)


def _magnetization(x: Tensor) -> Tensor:
    return x.double().mean(-1)


def _squared_magnetization(x: Tensor) -> Tensor:
    return (2 * x.double().mean(-1) - 1).square()


def _spin_matrix(model: Pairwise) -> Tensor:
    """J of ``½ Σ_de J_de s_d s_e`` ``(D, D)``."""
    sites = model.space.num_sites
    head, tail = model.edges.T
    matrix = torch.zeros(sites, sites, dtype=torch.float64)
    matrix[head, tail] = matrix[tail, head] = model.couplings[:, 1, 1]
    return matrix


def _spin_energy(model: Pairwise, shape: tuple[int, int]) -> Energy:
    """A periodic lattice of equal couplings, with its fields."""
    coupling, fields = float(model.couplings[0, 1, 1]), model.fields[:, 1].float()

    def energy(x: Tensor) -> Tensor:
        spins = 2 * x - 1
        square = spins.reshape(-1, *shape)
        return coupling * (square * (square.roll(1, 1) + square.roll(1, 2))).sum((1, 2)) + spins @ fields

    return energy
