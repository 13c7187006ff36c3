"""Tables, as commands meet them: one site a column."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concrete_score.cli.options import Console, table
from concrete_score.cli.output import put, put_parts, refuse_output
from concrete_score.cli.table_options import TableWishes
from concrete_score.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.fit_job import Source
    from concrete_score.data import Form, Frame, Rows, TableCodec
    from concrete_score.training.choice import Choice

_SHOWN = 8
"""Values of a column, or columns, that are named; the rest is counted."""
BLANK_ELSEWHERE = frozenset({"NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "?"})
"""What other programs write into a blank cell."""


class Tables:
    """The `Kind` of rows and columns."""

    noun = "rows"
    precise = True
    """In double precision what a row gets does not depend on the rows beside it."""
    from_noise = False

    def load(self, spec: str, split: str, data_dir: str | None, say: Callable[[str], None]) -> "Frame":
        """The table that DATA means."""
        from concrete_score.data import load_table
        from concrete_score.data.images import holds_images

        if holds_images(spec):
            raise InputError("a table", "pictures", where=spec, fix="give rows and columns, or a run made of pictures")
        return load_table(spec, split, data_dir=data_dir, say=say)

    def make_codec(self, data: "Frame", source: "Source") -> "TableCodec":
        """By what the columns hold and what was asked for."""
        from concrete_score.data import TableCodec

        for name, value in (("--levels", source.levels), ("--threshold", source.threshold)):
            if value is not None:
                raise InputError("pictures, which have grey levels", "a table", where=name, fix="leave it out")
        return TableCodec.fit(data, source.wishes.options())

    def check_codec(self, codec: "TableCodec", data: "Frame", source: "Source") -> None:
        """Table options may be repeated, not changed."""
        if source.wishes != TableWishes.none() and self.make_codec(data, source).to_json() != codec.to_json():
            raise InputError("the table read as when this run began", "other options", "--resume", "leave them out")

    def doubts(self, codec: "TableCodec") -> list[str]:
        """Words by which other programs mean a blank cell; here they are values like any other, unless --na says so."""
        found: dict[str, list[str]] = {}
        for site in codec.sites:
            for word in BLANK_ELSEWHERE.intersection(site.labels):
                found.setdefault(word, []).append(repr(site.name))
        return [
            f"{word!r} counts as a value of {_some(names)}; if it means blank, add --na {shlex.quote(word)}"
            for word, names in sorted(found.items())
        ]

    def brings_held_out(self, spec: str) -> bool:
        """Whether DATA is a set's bare name that has a part for validation."""
        from concrete_score.data import data_sets
        from concrete_score.data.source import is_path

        return not is_path(spec) and "valid" in data_sets().get(spec, {})

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> "Choice":
        """As for any table."""
        from concrete_score.training.choice import choose

        return choose(recipe, training)

    def complete(self, choice: "Choice", codec: "TableCodec", rows: "Tensor") -> "Choice":
        """Nothing is open, but a model of pictures needs their shape."""
        from concrete_score.training.picture_choice import reads_pictures

        if reads_pictures(choice.recipe.model) and "shape" not in choice.recipe.model_options:
            raise InputError(
                f"pictures for the model {choice.recipe.model}, an array of shape (N, H, W)",
                f"a table of {len(codec.sites)} columns",
                where="DATA",
                fix="choose another --model, or say --set model.shape=[H,W] if its columns are pixels",
            )
        return choice

    def rows(self, codec: "TableCodec", data: "Frame", missing: str, unknown: str, console: Console) -> "Rows":
        """Blank cells refused by column, or their rows dropped."""
        from concrete_score.cli.open_run import read_rows

        return read_rows(codec, data, missing, unknown, console)

    def describe(self, codec: "TableCodec") -> Callable[[int, int], str]:
        """``column=value``."""
        return lambda site, value: f"{codec.names[site]}={codec.sites[site].labels[value]}"

    def values(self, codec: "TableCodec") -> Sequence[Sequence[Any]]:
        """As they stand in the table; a blank is None."""
        import numpy as np

        return [site.decode(np.arange(site.size)).cells().to_list() for site in codec.sites]

    def given(self, codec: "TableCodec", conditions: tuple[str, ...]) -> dict[int, int]:
        """``COLUMN=VALUE``."""
        return codec.given(conditions)

    def form(self, codec: "TableCodec") -> "Form":
        """The one it came in."""
        return codec.form

    def refuse_output(self, out: Path | None, codec: "TableCodec", console: Console) -> None:
        """Any table's ending."""
        refuse_output(out, codec.form, console)

    def put(self, codec: "TableCodec", parts: "Iterable[Tensor]", out: Path | None, console: Console) -> dict[str, Any]:
        """A table in a file, or CSV on standard output."""
        from concrete_score.data import join

        frames: Iterable[Frame] = map(codec.decode, parts)
        if not console.json:
            put_parts(frames, out, console)
            return {}
        frame = join(frames)
        put(frame, out, console)
        return {"columns": list(frame.names), "rows": frame.rows()}

    def schema(self, codec: "TableCodec") -> dict[str, Any]:
        """One entry a column."""
        columns = [
            {"name": site.name, "kind": site.kind, "size": site.size, "values": list(site.labels)}
            for site in codec.sites
        ]
        return {"columns": columns}

    def render_schema(self, value: Mapping[str, Any]) -> str:
        """One line a column."""
        columns = [(each["name"], each["kind"], each["size"], _few(each["values"])) for each in value["columns"]]
        return table(["column", "kind", "size", "values"], columns, "Columns:")


def _few(labels: list[str]) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > _SHOWN else ""
    return ", ".join(label or "(blank)" for label in labels[:_SHOWN]) + more


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    more = f" and {len(names) - _SHOWN} more columns" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
