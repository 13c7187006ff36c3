"""Grids of draws made while a training goes, kept in the run's folder ``samples``; for data that can be looked at."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from concrete_score.codecs import Codec
from concrete_score.files import atomic, read_regular
from concrete_score.fitted import Fitted
from concrete_score.likelihood import exact_sampler
from concrete_score.randomness import generator
from concrete_score.runs import SAMPLES, Run
from concrete_score.training.events import Event, Validated

COUNT = 36
"""Examples of a grid."""
_NAME = re.compile(r"step-(\d{8})\.png")


class KeptGrid(NamedTuple):
    """One grid that a run keeps."""

    step: int
    png: bytes


def draw_grid(model: Any, codec: Codec, seed: int, count: int = COUNT) -> bytes | None:
    """Draws of a model as a PNG grid; None for a model that has no quick way to draw, or data without grids.

    The same seed gives the same noise, so that the grids of one training show one set of examples in the making.
    """
    fitted = Fitted(model, codec.space, from_noise=codec.from_noise)
    if not codec.has_grid or (not fitted.draws_from_noise and exact_sampler(model) is None):
        return None
    random = generator(seed, "grid", device=fitted.views.device or "cpu")
    return codec.grid(fitted.sample(count, random).states)


def kept_grids(run: Run) -> list[KeptGrid]:
    """The grids of a run, the earliest first; none for a run of a table."""
    found = ((_NAME.fullmatch(path.name), path) for path in (run.path / SAMPLES).glob("step-*.png"))
    return sorted(KeptGrid(int(name[1]), read_regular(path)) for name, path in found if name)


class GridKeeper:
    """Draws a grid when a training begins, at every doubling of its steps, and of the best weights at the end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        kept = kept_grids(run)
        self.last = kept[-1].step if kept else None

    def see(self, event: Event) -> None:
        """Draw the model that was just validated, if it is time."""
        if (
            isinstance(event, Validated)
            and event.judged is not None
            and (self.last is None or event.step >= max(1, 2 * self.last))
        ):
            self._keep(event.judged, event.step)

    def finish(self, model: Any, best_step: int) -> None:
        """The grid of the best weights, unless it is there."""
        if not self._path(best_step).exists():
            self._keep(model, best_step)

    def _keep(self, model: Any, step: int) -> None:
        self.last = step
        page = draw_grid(model, self.run.codec, self.run.settings.seed)
        if page is not None:
            with atomic(self._path(step)) as draft:
                draft.write_bytes(page)

    def _path(self, step: int) -> Path:
        return self.run.path / SAMPLES / f"step-{step:08d}.png"
