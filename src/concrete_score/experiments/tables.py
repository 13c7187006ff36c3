"""Tables learned with nothing said: how good is what ``fit`` chooses by itself?

``tables``: truths that are known, the Asia network, whose support single flips cannot cross, and random networks of
mixed categories; likelihoods, conditional draws and filled blanks are all held against the truth's own. ``explain``:
real rows with one planted mistake each, and which model finds it first.
"""

import random
from collections.abc import Mapping
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.bench.checks import Check
from concrete_score.defaults import VALID_FRACTION
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitted import Fitted
from concrete_score.fitting import Splits, hold_out, load_splits
from concrete_score.randomness import generator
from concrete_score.samplers.completions import Cells
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import BayesianNetwork, asia, random_network
from concrete_score.targets.pmf import from_density
from concrete_score.training import Finished, fit
from concrete_score.training.choice import choose, fit_to_rows
from concrete_score.training.examples import Examples

ROWS, TEST, BLANKED = 20_000, 20_000, 2_000
COLUMNS, PARENTS, NETWORKS = 12, 2, 3
CONDITIONS = {
    "smoke=yes": {"smoke": "yes"},
    "either=yes": {"either": "yes"},
    "xray=yes, dysp=no, asia=yes": {"xray": "yes", "dysp": "no", "asia": "yes"},
}
"""From a healthy row, single flips of possible rows never reach either=yes."""
DRAWS = 20_000
PLANTED = 1_000
PLANTED_DATA = ("nltcs", "plants")
RIVALS: Mapping[str, Any] = {"independent": Independent, "chow_liu": ChowLiu}


def run(settings: Settings) -> Findings:
    """Asia, then the mixed networks."""
    networks = range(1 if settings.quick else NETWORKS)
    units = [Unit("asia", clinic), *(Unit(f"mixed-{k}", mixed, {"network": k}) for k in networks)]
    found = complete(units, settings)
    bound = {"kl": 0.1, "gap": 0.4, "accuracy": 0.1, "loss": 0.1} if settings.quick else _BOUNDS
    clinic_found = found["asia"]
    checks = [
        Check.at_most("asia: KL(truth || model), nats", clinic_found["kl"], bound["kl"]),
        *(
            Check.at_most(f"asia given {name}: largest |z| ({method})", z, 4.5)
            for method, values in clinic_found["conditionals"].items()
            for name, z in values.items()
        ),
        Check.at_most("asia: imputed cells' log-loss over the truth's own", clinic_found["excess_loss"], bound["loss"]),
    ]
    for k in networks:
        value = found[f"mixed-{k}"]
        checks += [
            Check.at_most(f"mixed {k}: nats below the truth's log-likelihood", value["gap"], bound["gap"]),
            Check.at_most(f"mixed {k}: accuracy below the best possible", value["accuracy_lost"], bound["accuracy"]),
        ]
    return Findings({}, found, tuple(checks))


_BOUNDS = {"kl": 0.01, "gap": 0.05, "accuracy": 0.02, "loss": 0.02}


def clinic(settings: Settings) -> dict[str, Any]:
    """The Asia network, against its exact joint distribution."""
    network = asia()
    fitted, ended = learned(network, settings)
    truth, model = network.joint(), from_density(fitted.model)
    possible = truth.log_pmf.isfinite()
    kl = (truth.probabilities * (truth.log_pmf - model.log_pmf))[possible].sum()
    losses = blanked_cells(network, fitted, settings)
    forced = Fitted(fitted.model, network.space, limit=1)
    gen = generator(settings.seed, "conditional draws")
    conditionals = {
        name: {text: _conditional_z(each, network, given, gen) for text, given in CONDITIONS.items()}
        for name, each in (("enumeration", fitted), ("importance", forced))
    }
    return {
        "kl": float(kl),
        "excess_loss": losses["excess_loss"],
        "conditionals": conditionals,
        "steps": ended.step,
        "seconds": round(ended.seconds, 1),
    }


def mixed(settings: Settings, network: int) -> dict[str, Any]:
    """A random network of 12 columns of 2 to 6 values, each with up to two parents."""
    truth = mixed_network(network)
    fitted, ended = learned(truth, settings)
    test = truth.sample(TEST, generator(settings.seed, "test rows"))
    return {
        "sizes": list(truth.space.sizes),
        **behind(truth.log_density(test), fitted.row_log_likelihoods(test)),
        **blanked_cells(truth, fitted, settings),
        "steps": ended.step,
        "seconds": round(ended.seconds, 1),
    }


def mixed_network(number: int) -> BayesianNetwork:
    """The random network of a number."""
    chance = random.Random(number)
    sizes = [chance.randint(2, 6) for _ in range(COLUMNS)]
    return random_network(sizes, PARENTS, generator(number, "mixed network"))


def behind(best: Tensor, ours: Tensor | None) -> dict[str, float]:
    """How far the log-likelihoods of rows fall short of the best ones, on average, with the standard error."""
    if ours is None:
        raise RuntimeError("the default model has an exact likelihood")
    gap = best - ours
    return {
        "truth": float(best.mean()),
        "ours": float(ours.mean()),
        "gap": float(gap.mean()),
        "gap_stderr": float(gap.std()) / sqrt(len(gap)),
    }


def learned(truth: BayesianNetwork, settings: Settings, blank: float = 0.0) -> tuple[Fitted, Finished]:
    """A model of rows of a network, chosen and trained with nothing said; a share of their cells may be blank."""
    states = truth.sample(ROWS, generator(settings.seed, "training rows")).to(torch.uint8)
    observed = torch.rand(states.shape, generator=generator(settings.seed, "training blanks")) >= blank
    train, valid = hold_out(Examples.of(states, observed), VALID_FRACTION, settings.seed)
    model, ended, _ = _fit(train, valid, truth.space, settings, {"steps": 200 if blank else 600, "valid_every": 200})
    return Fitted(model.requires_grad_(False), truth.space), ended


def _fit(
    rows: Tensor | Examples,
    valid: Tensor | Examples,
    space: Space,
    settings: Settings,
    quick: Mapping[str, Any],
) -> tuple[nn.Module, Finished, str]:
    """Train what is chosen where nothing is asked for, and its name; ``quick`` are the settings of the quick size."""
    choice = choose({}, {"seed": settings.seed, **(quick if settings.quick else {})})
    choice = fit_to_rows(choice, rows, space, valid)
    built = choice.recipe.build(space, choice.settings)
    ended = fit(built.model, built.objective, rows, choice.settings, valid=valid, device=settings.device)
    return built.model, ended, choice.recipe.model


def blanked_cells(truth: BayesianNetwork, fitted: Fitted, settings: Settings) -> dict[str, float]:
    """Two random cells of each row blanked: log-loss and accuracy of their distributions, ours and the truth's own."""
    gen = generator(settings.seed, "blanks")
    rows = truth.sample(BLANKED, gen)
    hidden = torch.rand(rows.shape, generator=gen).argsort(-1)[:, :2]
    observed = torch.ones_like(rows, dtype=torch.bool).scatter_(1, hidden, False)
    exact, ours = (each.conditional_probs(rows, observed, gen) for each in (Fitted(truth, truth.space), fitted))
    (best_loss, best_accuracy), (loss, accuracy) = (_judged(cells, rows) for cells in (exact, ours))
    return {
        "loss": loss,
        "excess_loss": loss - best_loss,
        "accuracy": accuracy,
        "accuracy_lost": best_accuracy - accuracy,
    }


def _judged(cells: Cells, rows: Tensor) -> tuple[float, float]:
    value = rows[cells.row, cells.site]
    given = cells.log_probs.gather(1, value[:, None]).squeeze(1)
    return -float(given.mean()), float((cells.log_probs.argmax(1) == value).double().mean())


def _conditional_z(fitted: Fitted, network: BayesianNetwork, given: dict[str, str], gen: torch.Generator) -> float:
    """Draws given a condition against the model's own exact conditional: the largest |z| over all pairs of columns."""
    sites = {network.names.index(name): network.values[network.names.index(name)].index(v) for name, v in given.items()}
    states = network.space.enumerate()
    holds = torch.stack([states[:, d] == value for d, value in sites.items()]).all(0)
    weight = fitted.model.log_density(states).double().exp() * holds
    drawn = fitted.sample(DRAWS, gen, sites).states
    expected = _pairs(states, weight / weight.sum())
    found = _pairs(drawn, torch.full((DRAWS,), 1 / DRAWS, dtype=torch.float64))
    spread = (expected * (1 - expected)).clamp(min=0.0).div(DRAWS).sqrt()
    certain = spread < 1e-8
    # What is certain under the condition must be certain among the draws.
    z = torch.where((found - expected).abs() > 1e-6, torch.inf, 0.0).where(certain, (found - expected) / spread)
    return float(z.abs().max())


def _pairs(states: Tensor, weight: Tensor) -> Tensor:
    """``P(x_d = 1, x_e = 1)`` for all columns of bits ``(D, D)``; the diagonal holds the marginals."""
    bits = states.double()
    return bits.T @ (bits * weight.double()[:, None])


def run_explain(settings: Settings) -> Findings:
    """Rows with one planted mistake: is the planted cell the first that the model would change?

    A thousand test rows of real data, one random cell of each flipped. A model ranks the single changes of a row by
    their log-ratios; the flip that undoes the mistake should come first. The same for independent columns and a
    Chow–Liu tree.
    """
    names = PLANTED_DATA[:1] if settings.quick else PLANTED_DATA
    found = complete([Unit(name, one_data_set, {"data": name}) for name in names], settings)
    checks = []
    for name, value in found.items():
        for rival in RIVALS:
            lead = value["ours"]["first"] - value[rival]["first"]
            checks.append(Check.at_least(f"{name}: planted cell first, ahead of {rival}", lead, 1 / PLANTED))
            checks.append(Check.at_least(f"{name}: the same lead, in its standard errors", value[rival]["lead_z"], 2.0))
    return Findings({}, found, tuple(checks))


def one_data_set(settings: Settings, data: str) -> dict[str, Any]:
    """Train with nothing said, plant the mistakes, and rank."""
    parts = load_splits(data)
    wrong, site = planted(parts.test, generator(settings.seed, "planted"))
    model, ended, name = _fit(parts.train, parts.valid, parts.space, settings, {"steps": 500, "valid_every": 500})
    models: dict[str, Any] = {"ours": model}
    models |= {rival: kind.fit(parts.train, parts.space) for rival, kind in RIVALS.items()}
    ranks = {who: rank_of(Fitted(each, parts.space), wrong, site) for who, each in models.items()}
    judged = {who: _ranked(rank, ranks["ours"]) for who, rank in ranks.items()}
    return {**judged, "rows": len(wrong), "steps": ended.step, "model": name, **_sizes(parts)}


def planted(rows: States, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Up to a thousand of the rows of bits, each with one flipped cell, and which cell it is."""
    chosen = torch.randperm(len(rows), generator=gen)[:PLANTED]
    wrong = rows[chosen].long()
    site = torch.randint(wrong.shape[1], (len(wrong),), generator=gen)
    wrong[torch.arange(len(wrong)), site] ^= 1
    return wrong, site


def rank_of(fitted: Fitted, wrong: Tensor, site: Tensor) -> Tensor:
    """How many other flips are ranked above the one that undoes the mistake ``(N,)``; ties count as above."""
    ratios = fitted.log_ratios(wrong)
    undone = ratios.gather(1, site[:, None])
    return (ratios >= undone).sum(1) - 1


def _ranked(rank: Tensor, ours: Tensor) -> dict[str, float]:
    first, own = (rank == 0).double(), (ours == 0).double()
    difference = own - first
    error = float(difference.std()) / sqrt(len(rank))
    return {
        "first": float(first.mean()),
        "first_three": float((rank < 3).double().mean()),
        "lead_z": float(difference.mean()) / error if error > 0 else 0.0,
    }


def _sizes(parts: Splits) -> dict[str, int]:
    return {"columns": parts.space.num_sites, "training_rows": len(parts.train)}
