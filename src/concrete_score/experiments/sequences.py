"""Text by masked diffusion: a transformer's bound beside its autoregressive twin and a 5-gram, and what it fills in.

Both transformers have the same size, the same steps and batches of the same size; the masked one hides characters at
random and is judged by its any-order bound (and, where ``orders`` are given, by the closer one over whole orders), the
twin reads from left to right and has an exact likelihood. Each keeps the weights of its own best validation. Of
tinyshakespeare the last tenth is held out, of the names (whose order tells how common they are) a tenth at random. The
quick size learns a planted language of known entropy instead, and needs no data.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.baselines.kneser_ney import KneserNey
from concrete_score.bench.checks import Check
from concrete_score.codecs import SequenceCodec
from concrete_score.codecs.sequence import END
from concrete_score.data import read_file
from concrete_score.data.catalog import FOLDER
from concrete_score.data.sequences import Sequences
from concrete_score.errors import InputError
from concrete_score.experiments.drawing import png
from concrete_score.experiments.result import Findings, Settings, number, table, without
from concrete_score.experiments.runner import Unit, complete
from concrete_score.likelihood.any_order import AnyOrder
from concrete_score.likelihood.exact import row_log_densities
from concrete_score.randomness import generator
from concrete_score.samplers.unmasking import Unmasking
from concrete_score.spaces import Space
from concrete_score.training import fit
from concrete_score.training.choice import choose

PASSES = (8, 32, 128)
GAP = 0.15
"""Nats a character that the bound may lie above the twin's log-loss."""
HELD_OUT, JUDGES = 10, 20
"""One in so many examples is held out; one in so many of the others chooses among a training's checkpoints."""
ROWS, DRAWS, SHOWN = 1_000, 32, 4
"""Held-out examples at most, draws of the bound of each, and samples shown."""
SETS: Mapping[str, Mapping[str, Any]] = {
    "names": {
        "orders": 16,
        "model": {"width": 64, "depth": 3, "reach": 2},
        "training": {"steps": 5_000, "batch_size": 128},
    },
    "tinyshakespeare": {
        "window": 128,
        "draws": 8,
        "model": {"width": 192, "depth": 4, "reach": 2, "mixed": True},
        "training": {"steps": 6_000, "batch_size": 32},
    },
    "planted": {
        "orders": 4,
        "model": {"width": 32, "depth": 2},
        "training": {"steps": 300, "batch_size": 64},
    },
}
"""How each text is cut into examples, how many draws the bound of one has and over how many whole orders it is bounded
more closely, the size of both transformers and how long they learn."""
LANGUAGE = Space((5,) * 12)
"""Of the planted language."""
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "masked": {"model": "transformer"},
    "twin": {"model": "transformer", "objective": "maximum_likelihood"},
}


CLOSER = (
    "*Closer, over orders*: the logarithm of the mean probability over whole orders of the characters, a lower bound "
    "on the same model's log-likelihood; where no orders are drawn, the bound itself. Gaps are the closer one's."
)


class Text(NamedTuple):
    """Examples to learn from and held-out ones ``(N, D)``, and the codec that shows them; none of planted ones."""

    space: Space
    rows: Tensor
    held_out: Tensor
    codec: SequenceCodec | None = None

    @property
    def lengths(self) -> Tensor:
        """Characters of the held-out examples, of padded ones with the first end mark ``(N,)``."""
        end = self.space.sizes[0] - 1 if self.codec is not None and self.codec.symbols[-1] == END else -1
        return ((self.held_out != end).sum(-1) + 1).clamp_max(self.space.num_sites)

    @property
    def middle(self) -> Tensor:
        """The middle third of each held-out example's characters, bool ``(N, D)``."""
        place, length = torch.arange(self.space.num_sites), self.lengths[:, None]
        return (place >= length // 3) & (place < 2 * length // 3)

    def show(self, states: Tensor) -> list[str]:
        """Examples as their characters; planted ones as letters from a to e."""
        if self.codec is None:
            return ["".join("abcde"[value] for value in row) for row in states.tolist()]
        return list(self.codec.decode(states).texts)


def run(settings: Settings) -> Findings:
    """Three models of every text; at the quick size of the planted language alone."""
    names = ["planted"] if settings.quick else ["names", "tinyshakespeare"]
    found = complete([unit for name in names for unit in units(name)], settings)
    checks, ours = [], {}
    for name in names:
        grams, exact, hidden = (found[unit.name] for unit in units(name))
        gap = hidden["bound"] - exact["log_loss"]
        filled = hidden["filled"] - grams["filled"]
        checks += [
            Check.at_most(f"{name}: the masked bound above its twin's log-loss, nats a character", gap, GAP),
            Check.at_most(f"{name}: the middle third filled in, above the 5-gram's log-loss of it", filled, 0.0),
        ]
        ours[name] = {"5-gram": grams, "twin": exact, "masked": without(hidden, "samples"), "gap": gap}
    samples = {name: found[f"{name}: masked"]["samples"] for name in names}
    return Findings({}, ours, tuple(checks), {"sequences": _plot(ours)}, text=_text(ours, samples))


def units(name: str) -> list[Unit]:
    """The three models of a text."""
    options = {"name": name, "setup": SETS[name]}
    works = {"five-gram": five_gram, "twin": twin, "masked": masked}
    return [Unit(f"{name}: {what}", work, options) for what, work in works.items()]


def read(name: str, seed: int, window: int | None = None) -> Text:
    """The examples of a text: its lines, or windows of so many characters.

    Raises:
        InputError: it is not here.
    """
    if name == "planted":
        return planted(seed)
    path = Path(os.environ.get(FOLDER, ".")) / "text" / f"{name}.txt.gz"
    if not path.exists():
        raise InputError(f"{path.name} in {path.parent}", "no such file", where=f"${FOLDER}", fix="put it there")
    given = SequenceCodec.accept(read_file(path))
    codec = SequenceCodec.infer(given, {} if window is None else {"window": window})
    states = codec.encode(Sequences(given.texts, str(path), form=given.form)).states.long()
    if window is None:
        states = states[torch.randperm(len(states), generator=generator(seed, "held out"))]
    last = len(states) - len(states) // HELD_OUT
    return Text(codec.space, states[:last], _some(states[last:], seed), codec)


def planted(seed: int) -> Text:
    """Letters of which each depends on the one before it: the right neighbor says as much as the left one."""
    random = generator(seed, "language")
    letters = LANGUAGE.sizes[0]
    step = (1.5 * torch.randn(letters, letters, generator=random, dtype=torch.float64)).softmax(-1)
    states = torch.zeros((3_000, LANGUAGE.num_sites), dtype=torch.int64)
    states[:, 0] = torch.randint(letters, (len(states),), generator=random)
    for site in range(1, LANGUAGE.num_sites):
        states[:, site] = torch.multinomial(step[states[:, site - 1]], 1, generator=random).squeeze(1)
    return Text(LANGUAGE, states[:-500], states[-500:])


def five_gram(settings: Settings, name: str, setup: Mapping[str, Any]) -> dict[str, Any]:
    """Interpolated Kneser–Ney: its log-loss, and that of the middle third given what is left of it."""
    text = read(name, settings.seed, setup.get("window"))
    site = KneserNey.fit(text.rows, text.space).site_log_probs(text.held_out)
    return {"log_loss": _a_character(site.sum(-1), text.lengths), "filled": _filled(site, text)}


def twin(settings: Settings, name: str, setup: Mapping[str, Any]) -> dict[str, Any]:
    """The autoregressive transformer's exact log-loss."""
    text = read(name, settings.seed, setup.get("window"))
    model, seconds = train("twin", text, setup, settings)
    log_q = row_log_densities(model, text.held_out)
    return {"log_loss": _a_character(log_q, text.lengths), **_size(model), "seconds": seconds}


@torch.no_grad()
def masked(settings: Settings, name: str, setup: Mapping[str, Any]) -> dict[str, Any]:
    """The masked transformer's bound, with fewer passes too, samples of each, and the middle third filled in."""
    text = read(name, settings.seed, setup.get("window"))
    with torch.enable_grad():
        model, seconds = train("masked", text, setup, settings)
    rows, seed, draws = text.held_out, settings.seed, 8 if settings.quick else setup.get("draws", DRAWS)
    plain = AnyOrder(model).estimate(rows, generator(seed, "bound"), draws)
    bound, middle = plain, AnyOrder(model).estimate(rows, generator(seed, "middle"), draws, given=~text.middle)
    if orders := setup.get("orders"):
        bound = AnyOrder(model).over_orders(rows, generator(seed, "orders"), orders)
        middle = AnyOrder(model).over_orders(rows, generator(seed, "middle"), orders, given=~text.middle)
    passes = [each for each in PASSES if each < text.space.num_sites] + [text.space.num_sites]
    fewer = {each: AnyOrder(model, each).estimate(rows, generator(seed, "fewer"), draws) for each in passes[:-1]}
    shown = {each: Unmasking(model, each).sample(SHOWN, generator(seed, "samples")) for each in passes}
    return {
        "bound": _a_character(bound, text.lengths),
        "bound_stderr": float(bound.std() / len(rows) ** 0.5 / text.lengths.double().mean()),
        "filled": float(-middle.sum() / text.middle.sum()),
        "by_passes": {
            **{str(each): _a_character(value, text.lengths) for each, value in fewer.items()},
            str(passes[-1]): _a_character(plain, text.lengths),
        },
        "samples": {str(each): text.show(states) for each, states in shown.items()},
        **_size(model),
        "seconds": seconds,
    }


def train(kind: str, text: Text, setup: Mapping[str, Any], settings: Settings) -> tuple[Any, float]:
    """One of `RECIPES` on a text, and the seconds it took."""
    recipe = {**RECIPES[kind], "model_options": dict(setup["model"])}
    choice = choose(recipe, {**setup["training"], "seed": settings.seed, "patience": None})
    model, objective = choice.recipe.build(text.space, choice.settings)
    judges = max(1, len(text.rows) // JUDGES)
    order = torch.randperm(len(text.rows), generator=generator(settings.seed, "judges"))
    rows, valid = text.rows[order[judges:]], text.rows[order[:judges]]
    ended = fit(model, objective, rows, choice.settings, valid=valid[:ROWS], device=settings.device)
    return model.to("cpu").requires_grad_(False), round(ended.seconds, 1)


def _some(states: Tensor, seed: int) -> Tensor:
    """At most `ROWS` of the held-out examples."""
    return states[torch.randperm(len(states), generator=generator(seed, "some"))[:ROWS]]


def _a_character(log_q: Tensor, lengths: Tensor) -> float:
    return float(-log_q.sum() / lengths.sum())


def _filled(site_log_probs: Tensor, text: Text) -> float:
    return float(-site_log_probs[text.middle].sum() / text.middle.sum())


def _size(model: Any) -> dict[str, int]:
    return {"parameters": sum(each.numel() for each in model.parameters())}


def _text(ours: Mapping[str, Any], samples: Mapping[str, Mapping[str, list[str]]]) -> str:
    """Nats a character, and samples by passes with the bound of so many."""
    lines = [
        [
            name,
            number(each["5-gram"]["log_loss"], 4),
            number(each["twin"]["log_loss"], 4),
            number(list(each["masked"]["by_passes"].values())[-1], 4),
            f"{number(each['masked']['bound'], 4)} ± {number(each['masked']['bound_stderr'], 2)}",
            number(each["5-gram"]["filled"], 4),
            number(each["masked"]["filled"], 4),
        ]
        for name, each in ours.items()
    ]
    head = ["nats a character", "5-gram", "twin", "masked, at most", "closer, over orders"]
    head += ["middle: 5-gram", "middle: masked, at most"]
    parts = ["## Log-loss", table(head, lines), CLOSER, "## Samples"]
    for name, by_passes in samples.items():
        for passes, texts in by_passes.items():
            bound = number(ours[name]["masked"]["by_passes"][passes], 4)
            shown = "\n\n".join("\n".join(f"    {line}" for line in text.splitlines() or [""]) for text in texts)
            parts.append(f"{name}, {passes} passes (at most {bound} nats a character):\n\n{shown}")
    return "\n\n".join(parts)


def _plot(ours: Mapping[str, Any]) -> bytes:
    """The bound by passes, beside twin and 5-gram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(ours), 3.4), layout="constrained", facecolor="white")
    for axes, (name, each) in zip(figure.subplots(1, len(ours), squeeze=False)[0], ours.items(), strict=True):
        passes = each["masked"]["by_passes"]
        axes.plot([int(key) for key in passes], list(passes.values()), "o-", label="masked, at most")
        for other, style in (("twin", "--"), ("5-gram", ":")):
            axes.axhline(each[other]["log_loss"], linestyle=style, color="gray", label=other)
        axes.set_xscale("log", base=2)
        axes.set(title=name, xlabel="passes", ylabel="nats a character")
        axes.legend()
    return png(figure)
