"""Pictures, as commands meet them: one site a pixel, written as a grid, an array or a table of pixels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concrete_score.cli.options import Console, table
from concrete_score.cli.output import put, refuse_output, warn
from concrete_score.cli.table_options import TableWishes
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.fit_job import Source
    from concrete_score.data import Form, Frame, Rows
    from concrete_score.data.image_codec import ImageCodec
    from concrete_score.data.images import Images
    from concrete_score.training.choice import Choice


class Pictures:
    """The `Kind` of arrays ``(N, H, W)`` of grey values."""

    noun = "pictures"
    precise = False
    """A convolution in double precision takes twice as long, and a picture's bits need none of it."""
    from_noise = True

    def load(self, spec: str, split: str, data_dir: str | None, say: Callable[[str], None]) -> "Images":
        """The pictures that DATA means."""
        from concrete_score.data.images import load_images

        if spec == "-":
            raise InputError("pictures in a file", "standard input", where="DATA", fix="save them as .npy or .npz")
        return load_images(spec, split, data_dir=data_dir, say=say)

    def make_codec(self, data: "Images", source: "Source") -> "ImageCodec":
        """Bits above half of the largest grey value, unless told otherwise."""
        from concrete_score.data.image_codec import ImageCodec

        if source.wishes._replace(missing="refuse") != TableWishes.none() or source.wishes.missing == "category":
            fix = "leave --columns, --drop, --bins, --na, --max-categories and --missing category out"
            raise InputError("pictures, which have no columns", "table options", where=source.data, fix=fix)
        levels, threshold = source.levels or 2, 0.5 if source.threshold is None else source.threshold
        if levels > 2 and source.threshold is not None:
            raise InputError("a threshold of bits alone", f"{levels} levels", where="--threshold", fix="leave it out")
        return ImageCodec.fit(data, levels, threshold)

    def check_codec(self, codec: "ImageCodec", data: "Images", source: "Source") -> None:
        """Levels and threshold may be repeated, not changed."""
        wished = {"levels": source.levels, "threshold": source.threshold}
        for name, value in wished.items():
            if value is not None and value != getattr(codec, name):
                came = f"--{name} {value}"
                raise InputError("the pictures read as when this run began", came, "--resume", "leave it out")

    def doubts(self, codec: "ImageCodec") -> list[str]:
        """None: a pixel is a number."""
        return []

    def brings_held_out(self, spec: str) -> bool:
        """Every named set of pictures does; a split of one does not."""
        from concrete_score.data.source import is_path

        return not is_path(spec) and ":" not in spec

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> "Choice":
        """A U-Net, unless told otherwise."""
        from concrete_score.training.picture_choice import choose_for_pictures

        return choose_for_pictures(recipe, training)

    def complete(self, choice: "Choice", codec: "ImageCodec", rows: "Tensor") -> "Choice":
        """Height and width, and what follows from them."""
        from concrete_score.training.picture_choice import fit_to_shape

        return fit_to_shape(choice, codec.shape)

    def rows(self, codec: "ImageCodec", data: "Images", missing: str, unknown: str, console: Console) -> "Rows":
        """Blank pixels refused with a count, or their pictures dropped."""
        found = codec.encode_rows(data, missing="drop" if missing == "drop" else "refuse", unknown=unknown)
        if found.unknown:
            console.say(f"{found.unknown} pictures with grey values above those of training skipped")
        if found.blank:
            console.say(f"{found.blank} pictures with blanks dropped")
        warn_of_darkness(codec, data, found)
        return found

    def describe(self, codec: "ImageCodec") -> Callable[[int, int], str]:
        """``row,column=grey value``."""
        greys = codec.greys
        return lambda site, value: f"{codec.names[site]}={greys[value]}"

    def values(self, codec: "ImageCodec") -> Sequence[Sequence[Any]]:
        """The grey values, the same everywhere."""
        return [codec.greys] * codec.space.num_sites

    def given(self, codec: "ImageCodec", conditions: tuple[str, ...]) -> dict[int, int]:
        """Refused: known pixels are told in an array."""
        if conditions:
            raise InputError(
                "a run of a table", "one of pictures", where="--given", fix="blank the other pixels and use csm impute"
            )
        return {}

    def form(self, codec: "ImageCodec") -> "Form":
        """Tables about pictures are CSV, unless an ending says otherwise."""
        from concrete_score.data import Form

        return Form("csv")

    def refuse_output(self, out: Path | None, codec: "ImageCodec", console: Console) -> None:
        """A grid, an array, or any table's ending."""
        from concrete_score.data.pictures import FILES
        from concrete_score.files import refuse_existing

        if out is None or out.suffix.lower() not in FILES:
            try:
                refuse_output(out, self.form(codec), console)
            except InputError as error:
                expected = error.expected.replace("ending in ", "ending in .png, ")
                raise InputError(expected, error.came, error.where, error.fix) from None
            return
        refuse_existing(out, console.force)
        refuse_output(out.with_suffix(".npy"), self.form(codec), Console(**{**vars(console), "force": True}))

    def put(self, codec: "ImageCodec", parts: "Iterable[Tensor]", out: Path | None, console: Console) -> dict[str, Any]:
        """A grid or an array in a file, or a table of pixels."""
        import numpy as np

        return put_pictures(codec, np.concatenate([codec.decode(states) for states in parts]), out, console)

    def schema(self, codec: "ImageCodec") -> dict[str, Any]:
        """Height, width, and how grey values become states."""
        facts = codec.to_json()
        if codec.levels > 2:
            del facts["threshold"]
        return {"pictures": {name: value for name, value in facts.items() if name != "kind"}}

    def render_schema(self, value: Mapping[str, Any]) -> str:
        """One line a fact."""
        return table(["fact", "value"], [(name, str(each)) for name, each in value["pictures"].items()], "Pictures:")


def warn_of_darkness(codec: "ImageCodec", data: "Images", rows: "Rows") -> None:
    """Pictures of bits given to a model of 256 greys would be black all over, and nobody would notice."""
    largest = data.pixels.max()
    if largest > 0 and not rows.encoded.states[rows.encoded.observed].any():
        warn([f"every pixel counts as black: the largest grey value is {largest:g}, in training it was {codec.top:g}"])


def put_pictures(
    codec: "ImageCodec",
    pictures: Any,
    out: Path | None,
    console: Console,
    columns: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Write pictures ``(N, H, W)`` by the ending of ``out``, or print them as CSV; what JSON says of them.

    Args:
        codec: theirs.
        pictures: grey values.
        out: a path; None is standard output.
        columns: pictures a row of a grid.
        more: one number a picture, by name: further arrays or columns.
    """
    from concrete_score.data.pictures import FILES, grid_png, npy, npz

    if out is not None and out.suffix.lower() in FILES:
        write = {".png": lambda: grid_png(pictures, columns, codec.top), ".npy": lambda: npy(pictures)}
        data = write.get(out.suffix.lower(), lambda: npz(pictures, **more))()
        put_bytes(data, out, console)
        console.say(f"{len(pictures)} pictures written to {out}")
    else:
        put(_table(codec, pictures, more), out, console)
    if not console.json:
        return {}
    rows = pictures.reshape(len(pictures), -1).tolist()
    kept = {name: value.tolist() for name, value in more.items()}
    return {"shape": list(codec.shape), "columns": list(codec.names), "rows": rows, **kept}


def put_bytes(data: bytes, out: Path, console: Console) -> None:
    """A file, whole or not at all."""
    from concrete_score.files import atomic

    with atomic(out, force=console.force) as draft:
        draft.write_bytes(data)


def _table(codec: "ImageCodec", pictures: Any, more: Mapping[str, Any]) -> "Frame":
    import polars as pl

    from concrete_score.data import as_frame

    cells = pictures.reshape(len(pictures), -1)
    columns = {**more, **{name: cells[:, site] for site, name in enumerate(codec.names)}}
    return as_frame(pl.DataFrame(columns))
