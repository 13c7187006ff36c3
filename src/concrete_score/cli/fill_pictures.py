"""Pictures with their blank pixels filled: every other pixel is written as it was read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from concrete_score.cli.open_run import Opened, Wish, renumbered, rows_of_file
from concrete_score.cli.options import Console
from concrete_score.cli.output import counting, pipes, warn
from concrete_score.cli.picture_kind import put_pictures, warn_of_darkness

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.data import Rows


def fill_pictures(opened: Opened, wish: Wish, out: Path | None, console: Console) -> None:
    """What ``csm impute`` does with pictures: the whole of it once its options are checked."""
    import numpy as np

    images = opened.kind.load(wish.data, "test", wish.data_dir, console.say)
    rows: Rows = opened.codec.encode_rows(images, missing="keep", unknown=wish.unknown)
    if rows.unknown:
        console.say(f"{rows.unknown} pictures with grey values above those of training left as they are")
    warn_of_darkness(opened.codec, images, rows)
    count = int((~rows.encoded.observed).sum())
    states, method = _filled(opened, rows, images.where, wish, console)
    console.say(f"{count} pixels filled by {method}" if count else "no blank pixels: nothing to fill")
    copies, kept, seen = len(states), rows.kept.numpy(), rows.encoded.observed.numpy()
    pictures = np.broadcast_to(images.pixels, (copies, *images.pixels.shape)).copy()
    painted = opened.codec.decode(states.flatten(0, 1)).reshape(copies, len(kept), *images.shape)
    known = seen.reshape(len(kept), *images.shape)
    pictures[:, kept] = np.where(known, pictures[:, kept], painted)
    with pipes():
        value = _put(opened, pictures, wish.draws, out, console)
        if console.json:
            console.give({**value, "filled": count, "method": method}, str)


def _filled(opened: Opened, rows: "Rows", where: str, wish: Wish, console: Console) -> "tuple[Tensor, str | None]":
    """The states of all pictures ``(M, N, D)``, and how blanks were filled; None where there were none."""
    states, observed = rows.encoded.states.long(), rows.encoded.observed
    filled = states.expand(wish.draws or 1, -1, -1).clone()
    holes = ~observed.all(1)
    if not holes.any():
        return filled, None
    given, known = (part[holes].to(opened.device) for part in (states, observed))
    with counting(console, "imputing") as progress, rows_of_file(where, rows.kept[holes]):
        found = opened.fitted.impute(
            given,
            known,
            opened.generator("impute"),
            draws=wish.draws,
            sampler=wish.sampler,
            progress=progress,
            passes=wish.passes,
        )
    warn([renumbered(warning, rows.kept[holes]) for warning in found.warnings])
    filled[:, holes] = found.states.reshape(len(filled), -1, states.shape[1]).cpu()
    return filled, found.method


def _put(opened: Opened, pictures: Any, draws: int | None, out: Path | None, console: Console) -> dict[str, Any]:
    """Copies below one another, counted; in a grid each picture's copies side by side."""
    import numpy as np

    copies, count = pictures.shape[:2]
    if draws is not None and out is not None and out.suffix.lower() == ".png":
        side_by_side = pictures.swapaxes(0, 1).reshape(-1, *pictures.shape[2:])
        return put_pictures(opened.codec, side_by_side, out, console, columns=copies)
    more: Any = {} if draws is None else {"draw": np.repeat(np.arange(copies), count)}
    return put_pictures(opened.codec, pictures.reshape(-1, *pictures.shape[2:]), out, console, **more)
