"""The network of figure 4: one U-Net for every noise level, trained in stretches (paper, section 5.5 and C.4).

It learns each pixel's clean value by cross-entropy at levels drawn uniformly. Its denoising head then gives the ratios
of every level, so that the paper's sampler and ours run on the same weights: the levels are the paper's seven σ among
others, evenly spaced in the logarithm of the signal-to-noise ratio, which reach down to where digits are decided.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import exp, log, log1p, sqrt
from typing import Any

from torch import nn

from concrete_score.experiments.figure4_data import Pictures, Shelf, pictures
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import SIGMAS, FactorizedNoise, flip_probability, symmetric
from concrete_score.objectives.clean_value import CleanValue
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import Checkpoint, Finished, Progress, TrainingSettings, Validated, train
from concrete_score.training.checkpoints import TensorFile, read, write
from concrete_score.training.state import Snapshot

FORMAT = 1
"""Of what is kept on the shelf; another network or another meaning of the weights would be another one."""


@dataclass(frozen=True)
class Levels:
    """The noise of figure 4: even levels of log signal-to-noise, with the paper's seven among them."""

    count: int = 64
    """Of the even levels."""
    weakest: float = 5.0
    strongest: float = -9.0

    def flips(self) -> list[tuple[float, bool]]:
        """The flip probability of every level, weakest first, and whether it is one of the paper's."""
        gap = (self.weakest - self.strongest) / max(1, self.count - 1)
        even = [(_flip(self.weakest - gap * level), False) for level in range(self.count)]
        return sorted([*even, *((flip_probability(sigma), True) for sigma in SIGMAS)])

    def noise(self, space: Space) -> FactorizedNoise:
        """Bit flips at all levels."""
        flips = [flip for flip, _ in self.flips()]
        return symmetric(space, [log1p(-flip) for flip in flips], [log(flip) for flip in flips])

    @property
    def paper(self) -> tuple[int, ...]:
        """The levels that are the paper's."""
        return tuple(level for level, (_, theirs) in enumerate(self.flips()) if theirs)

    def log_snr(self, level: int) -> float:
        """``log λ²/(1 - λ²)`` of a level, λ the correlation that is left of a bit."""
        kept = 1 - 2 * self.flips()[level][0]
        return log(kept**2) - log1p(-(kept**2))

    def even(self, count: int) -> tuple[int, ...]:
        """``count`` of the even levels, the weakest and the strongest among them."""
        ours = [level for level, (_, theirs) in enumerate(self.flips()) if not theirs]
        if count == 1:
            return (ours[-1],)
        return tuple(sorted({ours[round(i * (len(ours) - 1) / (count - 1))] for i in range(count)}))


def _flip(log_snr: float) -> float:
    """The flip probability of a bit whose correlation λ is left with ``log λ²/(1 - λ²)``, to all its digits."""
    kept = sqrt(1 / (1 + exp(-log_snr)))
    return 1 / (1 + exp(log_snr)) / (1 + kept) / 2


@dataclass(frozen=True)
class Lesson:
    """All that decides what the network learns.

    >>> Lesson().shelf().id == Lesson().shelf().id, Lesson().shelf().id == Lesson(seed=1).shelf().id
    (True, False)
    """

    dataset: str = "mnist"
    width: int = 32
    blocks: int = 1
    depth: int = 2
    levels: Levels = field(default_factory=Levels)
    training: Mapping[str, Any] = field(
        default_factory=lambda: {
            "steps": 7_000,
            "batch_size": 64,
            "lr": 2e-3,
            "average": 0.999,
            "valid_every": 500,
            "checkpoint_seconds": 60.0,
        }
    )
    valid_rows: int = 2_000
    seed: int = 0

    def shelf(self) -> Shelf:
        """Where it is kept."""
        return Shelf({**asdict(self), "format": FORMAT})

    def pictures(self) -> Pictures:
        """What it learns from."""
        return pictures(self.dataset)

    def model(self) -> Any:
        """The network before its first step."""
        data = self.pictures()
        return unet(
            hamming(data.space),
            noise=self.levels.noise(data.space),
            shape=data.shape,
            width=self.width,
            blocks=self.blocks,
            depth=self.depth,
            generator=generator(self.seed, "weights"),
        )


def learn(lesson: Lesson, say: Callable[[str], None] | None = None, device: str = "cpu") -> dict[str, Any]:
    """Train the network, from the last checkpoint if there is one; its best weights are kept on the shelf.

    Returns:
        Plain numbers: steps, seconds, the validation's curve.
    """
    shelf, data = lesson.shelf(), lesson.pictures()
    done = shelf.get("unet")
    if done is not None:
        return dict(done.state)
    settings = TrainingSettings.of({**lesson.training, "seed": lesson.seed})
    model = lesson.model()
    start, curve = _restored(shelf)
    valid = data.valid[: lesson.valid_rows]
    ended: Finished | None = None
    for event in train(model, CleanValue(model.noise), data.train, settings, valid, start=start, device=device):
        if isinstance(event, Validated):
            curve.append([event.step, round(event.value, 3)])
            if say is not None:
                say(f"unet: step {event.step}, validation {event.value:.2f}")
        elif isinstance(event, Progress) and say is not None and event.step % 100 == 0:
            say(f"unet: step {event.step}, loss {event.loss:.2f}, {event.seconds:.0f} s")
        elif isinstance(event, Checkpoint):
            _save(shelf, event.snapshot, curve)
        elif isinstance(event, Finished):
            ended = event
    if ended is None:
        raise RuntimeError("training ended without an ending")
    found = {
        "steps": ended.step,
        "best_step": ended.best_step,
        "validation": ended.best,
        "seconds": round(ended.seconds, 1),
        "ended": ended.why,
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
    }
    shelf.put("unet", model.state_dict(), found)
    return found


def learned(lesson: Lesson) -> Any:
    """The trained network; trained first where it is not."""
    learn(lesson)
    model = lesson.model()
    kept = lesson.shelf().get("unet")
    if kept is None:
        raise RuntimeError("the weights were not kept")
    model.load_state_dict(dict(kept.tensors))
    return _frozen(model)


def latest(lesson: Lesson) -> tuple[int, Any]:
    """The last checkpoint's step and averaged network: how far a training under way has come."""
    snapshot, _ = _restored(lesson.shelf())
    model = lesson.model()
    if snapshot is None:
        return 0, _frozen(model)
    weights = {
        name.removeprefix("average/"): value for name, value in snapshot.tensors.items() if name.startswith("average/")
    }
    model.load_state_dict(weights)
    return snapshot.step, _frozen(model)


def _frozen(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False)


def _save(shelf: Shelf, snapshot: Snapshot, curve: list[Any]) -> None:
    state = {"snapshot": dict(snapshot.state), "curve": curve}
    write(shelf.path("checkpoint"), TensorFile("checkpoint", shelf.id, snapshot.step, state, snapshot.tensors))


def _restored(shelf: Shelf) -> tuple[Snapshot | None, list[Any]]:
    path = shelf.path("checkpoint")
    if not path.is_file():
        return None, []
    file = read(path, "checkpoint", shelf.id)
    curve = [point for point in file.state["curve"] if point[0] <= file.step]
    return Snapshot(file.step, file.state["snapshot"], file.tensors), curve
