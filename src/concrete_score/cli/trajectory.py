"""The way of some pictures from noise to what they became, drawn as one picture."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from concrete_score.cli.options import Console
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.open_run import Opened
    from concrete_score.data.image_codec import ImageCodec
    from concrete_score.samplers.annealed import Stage

CHAINS, STAGES = 8, 12
"""Rows and columns at most."""


@dataclass(eq=False)
class Trajectory:
    """Collects the first chains after every level, and draws a row of each."""

    codec: "ImageCodec"
    path: Path
    console: Console
    stages: "list[Tensor]" = field(default_factory=list)

    def see(self, stage: "Stage") -> None:
        """Keep the first chains of a stage."""
        self.stages.append(stage.x[:CHAINS].cpu())

    def write(self) -> None:
        """A row for each chain: some of its stages, evenly spread, the first and the last among them."""
        import torch

        from concrete_score.cli.picture_kind import put_bytes
        from concrete_score.data.pictures import grid_png

        count = min(STAGES, len(self.stages))
        places = [round(k * (len(self.stages) - 1) / max(1, count - 1)) for k in range(count)]
        shown = torch.stack([self.stages[place] for place in places], 1)
        pictures = self.codec.decode(shown.flatten(0, 1))
        put_bytes(grid_png(pictures, count, self.codec.top), self.path, self.console)
        self.console.say(f"the way of {len(shown)} pictures from noise, in {count} stages, written to {self.path}")


def trajectory_of(opened: "Opened", path: Path, console: Console) -> Trajectory:
    """The collector of a run, refused before any work where it makes no sense.

    Raises:
        InputError: a run of a table, or a path that is no new .png file.
    """
    from concrete_score.data.image_codec import ImageCodec

    if not isinstance(opened.codec, ImageCodec):
        raise InputError("a run of pictures", "one of a table", where="--trajectory", fix="leave it out")
    if path.suffix.lower() != ".png":
        raise InputError("a file ending in .png", repr(path.name), where="--trajectory")
    opened.kind.refuse_output(path, opened.codec, console)
    return Trajectory(opened.codec, path, console)
