"""Grids of pictures drawn while a training goes, kept in the run's folder ``samples``."""

import re
from typing import Any, NamedTuple

import torch

from concrete_score.data.image_codec import ImageCodec
from concrete_score.data.pictures import grid_png
from concrete_score.files import atomic
from concrete_score.fitted import Fitted
from concrete_score.likelihood import exact_sampler
from concrete_score.randomness import generator
from concrete_score.runs import SAMPLES, Run
from concrete_score.training.events import Event, Validated

COUNT = 36
"""Pictures of a grid."""
_NAME = re.compile(r"step-(\d{8})\.png")


class KeptGrid(NamedTuple):
    """One grid that a run keeps."""

    step: int
    png: bytes


def draw_grid(model: Any, codec: ImageCodec, seed: int, count: int = COUNT) -> bytes | None:
    """Draws of a model as a PNG grid; None for a model that has no quick way to draw.

    The same seed gives the same noise, so that the grids of one training show one set of pictures in the making.

    Args:
        model: over the codec's space.
        codec: of pictures.
        seed: of the draws.
        count: how many.
    """
    fitted = Fitted(model, codec.space, from_noise=True)
    if not fitted.draws_from_noise and exact_sampler(model) is None:
        return None
    first = next(iter(model.parameters()), None)
    device = torch.device("cpu") if first is None else first.device
    drawn = fitted.sample(count, generator(seed, "grid", device=device))
    return grid_png(codec.decode(drawn.states), top=codec.top)


def kept_grids(run: Run) -> list[KeptGrid]:
    """The grids of a run, the earliest first; none for a run of a table.

    Args:
        run: any.
    """
    found = ((_NAME.fullmatch(path.name), path) for path in (run.path / SAMPLES).glob("step-*.png"))
    return sorted(KeptGrid(int(name[1]), path.read_bytes()) for name, path in found if name)


class GridKeeper:
    """Draws a grid when a training begins, at every doubling of its steps, and of the best weights at the end.

    Args:
        run: whose folder keeps them; one of a table keeps none.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.codec = run, run.codec
        kept = kept_grids(run)
        self.last = kept[-1].step if kept else None

    def see(self, event: Event) -> None:
        """Draw, if it is time."""
        if (
            isinstance(event, Validated)
            and event.judged is not None
            and (self.last is None or event.step >= max(1, 2 * self.last))
        ):
            self._keep(event.judged, event.step)

    def finish(self, best_step: int) -> None:
        """The grid of the best weights, unless it is there."""
        if isinstance(self.codec, ImageCodec) and not self._path(best_step).exists():
            self._keep(self.run.model(), best_step)

    def _keep(self, model: Any, step: int) -> None:
        self.last = step
        page = draw_grid(model, self.codec, self.run.settings.seed) if isinstance(self.codec, ImageCodec) else None
        if page is not None:
            with atomic(self._path(step)) as draft:
                draft.write_bytes(page)

    def _path(self, step: int) -> Any:
        return self.run.path / SAMPLES / f"step-{step:08d}.png"
