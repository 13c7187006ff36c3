"""Mutation effects as Concrete scores: a planted Potts model found again, and a protein family against an assay.

``planted``: couplings that are known are recovered from draws, and draws of what was learned have the same one- and
two-site frequencies. ``family``: the alignment of β-lactamase, fitted as `csm fit --weights identity=0.8` does with
nothing else said, and its log-ratios against 4,807 measured single mutants (Stiffler et al., 2015). The assay judges;
nothing is chosen by it.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from concrete_score.answers import mutants
from concrete_score.bench.checks import Check
from concrete_score.codecs import SequenceCodec
from concrete_score.data import read_file
from concrete_score.data.catalog import FOLDER
from concrete_score.data.frame import Array
from concrete_score.errors import InputError
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitting import Request, prepare
from concrete_score.likelihood.relative import relative_log_densities
from concrete_score.likelihood.views import Views
from concrete_score.models import Potts
from concrete_score.models.potts import zero_sum
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.samplers.sweep import Sweep
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings, fit

SITES, LETTERS, ROWS, DEVIATION = 40, 4, 10_000, 0.3
FAMILY = "BLAT_ECOLX"
IDENTITY = "identity=0.8"
RESAMPLES = 1_000
PAPER = {"EVmutation": 0.707, "EVE": 0.727, "ESM-2 650M": 0.731, "DeepSequence": 0.743}
"""Spearman coefficients published on this assay."""


def run(settings: Settings) -> Findings:
    """The planted model, then the family; at the quick size the planted model alone, with fewer sites."""
    units = [Unit("planted", planted)]
    units += [] if settings.quick else [Unit("family", family)]
    found = complete(units, settings)
    value = found["planted"]
    checks = [
        Check.at_least("planted: correlation of couplings in the zero-sum gauge", value["correlation"], 0.9),
        Check.at_most("planted: largest |z| of one-site frequencies", value["one_site_z"], 5.0),
        Check.at_most("planted: mean z² of two-site frequencies", value["two_site_z2"], 1.5),
        Check.at_most("planted: ratios by fields against the density's, nats", value["ratio_error"], 1e-8),
    ]
    if "family" in found:
        name = "β-lactamase: Spearman of log-ratios and measured effects"
        checks.append(Check.at_least(name, found["family"]["spearman"], 0.70))
    return Findings({"family": PAPER}, found, tuple(checks))


def planted(settings: Settings) -> dict[str, Any]:
    """Couplings on a tenth of the pairs, recovered from draws by pseudo-likelihood."""
    sites, steps, rows = (12, 250, ROWS) if settings.quick else (SITES, 500, ROWS)
    space, random = Space((LETTERS,) * sites), generator(settings.seed, "planted")
    truth = plant(space, random)
    states = draw(truth, rows, generator(settings.seed, "planted rows"))
    learned = Potts(space, generator=random)
    options = TrainingSettings(steps=steps, batch_size=1_024, lr=0.02, l2=1e-3, valid_every=250, seed=settings.seed)
    fit(learned, build("pseudo_likelihood", space), states, options, device=settings.device)
    again = draw(learned, rows, generator(settings.seed, "drawn again"))
    pairs = truth.interactions()
    one, other = (zero_sum(m.blocks().detach().double(), m.exists)[pairs[:, 0], pairs[:, 1]] for m in (truth, learned))
    frequencies = [functional.one_hot(x, LETTERS).double().flatten(1) for x in (states, again)]
    single, double = (_z(frequencies, power) for power in (1, 2))
    apart = ~torch.eye(sites, dtype=torch.bool).repeat_interleave(LETTERS, 0).repeat_interleave(LETTERS, 1)
    return {
        "correlation": float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]),
        "one_site_z": float(single.abs().max()),
        "two_site_z2": float(double[apart].square().mean()),
        "ratio_error": _ratio_error(truth, states[:8]),
        "sites": sites,
        "rows": rows,
    }


def plant(space: Space, random: torch.Generator) -> Potts:
    """A Potts model with fields, and couplings on a tenth of the pairs, of deviation `DEVIATION` in the zero-sum gauge.

    In that gauge they are compared: a block drawn at random loses part of its deviation by going there, which says
    nothing about how well it is recovered.
    """
    model = Potts(space, generator=random, dtype=torch.float64)
    pairs = model.interactions()
    chosen = pairs[torch.randperm(len(pairs), generator=random)[: max(1, len(pairs) // 10)]]
    sites, width = model.exists.shape
    with torch.no_grad():
        model.fields.copy_(DEVIATION * torch.randn(sites * width, generator=random, dtype=torch.float64))
        model.couplings.zero_()
        blocks = model.couplings.view(sites, width, sites, width)
        for d, e in chosen.tolist():
            block = torch.randn(width, width, generator=random, dtype=torch.float64)
            blocks[d, :, e, :], blocks[e, :, d, :] = block, block.T
        centered = zero_sum(model.blocks(), model.exists)
        centered *= DEVIATION / centered[chosen[:, 0], chosen[:, 1]].square().mean().sqrt()
        blocks.copy_(centered.transpose(1, 2))
    return model


@torch.no_grad()
def draw(model: Potts, n: int, random: torch.Generator) -> Tensor:
    """``n`` states after fifty sweeps of single sites from uniform ones ``(n, D)``."""
    kernel = Sweep(model.pairwise())
    state = kernel.init(model.space.uniform(n, random))
    for _ in range(50):
        state, _ = kernel.step(state, random)
    return state.x


def _z(frequencies: list[Tensor], power: int) -> Tensor:
    """z-scores between two samples of the frequencies of values, or of pairs of values."""
    rows = len(frequencies[0])
    p, q = (hot.mean(0) if power == 1 else hot.T @ hot / rows for hot in frequencies)
    return (p - q) / ((p * (1 - p) + q * (1 - q)) / rows).sqrt().clamp_min(1e-12)


@torch.no_grad()
def _ratio_error(model: Potts, states: Tensor) -> float:
    """The largest difference between ratios read off local fields and those of two densities."""
    fields = functional.pad(model.local_fields(states), (1, 0))
    worst = 0.0
    for site in range(model.space.num_sites):
        changed = states.clone()
        changed[:, site] = (changed[:, site] + 1) % LETTERS
        ratio = model.log_density(changed) - model.log_density(states)
        table = fields[:, site]
        read = table.gather(1, changed[:, site, None]) - table.gather(1, states[:, site, None])
        worst = max(worst, float((ratio - read.squeeze(1)).abs().max()))
    return worst


def family(settings: Settings) -> dict[str, Any]:
    """The defaults on the alignment, and Spearman's coefficient with its bootstrap error."""
    folder = data_folder()
    job = prepare(
        Request(
            folder / f"{FAMILY}.a2m.gz",
            reading={"weights": IDENTITY},
            training={"seed": settings.seed},
        ),
        say=settings.say or (lambda message: None),
    )
    done = job.train(device=settings.device)
    effects, measured = assay(job.codec, done.model, folder)
    return {
        "spearman": spearman(effects, measured),
        "spearman_stderr": bootstrap(effects, measured, settings.seed),
        "mutants": len(measured),
        "model": job.plan.recipe.model,
        "l2": job.plan.settings.l2,
        "steps": done.ended.step,
        "valid": done.ended.best,
        "seconds": round(done.ended.seconds, 1),
    }


def data_folder() -> Path:
    """Where the families lie.

    Raises:
        InputError: they are not here.
    """
    folder = Path(os.environ.get(FOLDER, ".")) / "families"
    if not (folder / f"{FAMILY}.a2m.gz").exists():
        raise InputError(f"{FAMILY}.a2m.gz in {folder}", "no such file", where=f"${FOLDER}", fix="put it there")
    return folder


def assay(codec: Any, model: Any, folder: Path) -> tuple[Array, Array]:
    """Predicted log-ratios and measured effects of all mutants that are in both ``(M,), (M,)``."""
    wild = codec.encode(SequenceCodec.accept(read_file(folder / f"{FAMILY}.wild.fasta"))).states[0].long()
    table = read_file(folder / f"{FAMILY}.mutants.csv.gz").table
    found = mutants(codec, wild, table["mutant"].to_list(), f"{FAMILY}.mutants.csv.gz")
    ratio = relative_log_densities(Views(model, codec.space, from_noise=True), found.states, wild).numpy()
    measured = np.array(table["log_fitness"].cast(float).to_list())[found.row.numpy()]
    known = ~np.isnan(measured)
    return ratio[known], measured[known]


def spearman(one: Array, other: Array) -> float:
    """Spearman's rank correlation, equal values sharing their rank."""
    from scipy.stats import spearmanr

    return float(spearmanr(one, other)[0])


def bootstrap(one: Array, other: Array, seed: int) -> float:
    """The deviation of Spearman's coefficient over resampled mutants."""
    random = np.random.default_rng(seed)
    chosen = (random.integers(0, len(one), len(one)) for _ in range(RESAMPLES))
    return float(np.std([spearman(one[rows], other[rows]) for rows in chosen]))
