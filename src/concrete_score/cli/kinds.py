"""The kinds of data commands are given, tables and pictures: what each of them does its own way.

A command asks the kind of a run's codec, or of DATA itself, and never looks which one it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from concrete_score.cli.options import Console
from concrete_score.cli.picture_kind import Pictures
from concrete_score.cli.table_kind import Tables

if TYPE_CHECKING:
    from torch import Tensor

    from concrete_score.cli.fit_job import Source
    from concrete_score.data import Form, Rows
    from concrete_score.training.choice import Choice

Say = Callable[[str], None]


@runtime_checkable
class Kind(Protocol):
    """What commands ask of a kind of data; ``codec`` is always one of its own."""

    @property
    def noun(self) -> str: ...
    @property
    def precise(self) -> bool: ...
    @property
    def from_noise(self) -> bool: ...

    def load(self, spec: str, split: str, data_dir: str | None, say: Say) -> Any:
        """What DATA means; another kind of data is refused."""
        ...

    def make_codec(self, data: Any, source: "Source") -> Any:
        """The codec of data to learn from."""
        ...

    def check_codec(self, codec: Any, data: Any, source: "Source") -> None:
        """Refuse wishes that differ from those a run was begun with."""
        ...

    def doubts(self, codec: Any) -> list[str]:
        """What was read in one way and may have been meant in another, and the option for that."""
        ...

    def brings_held_out(self, spec: str) -> bool:
        """Whether DATA is a bare name that has a part for validation."""
        ...

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> "Choice":
        """A whole recipe of what was given."""
        ...

    def complete(self, choice: "Choice", codec: Any, rows: "Tensor") -> "Choice":
        """The choice with what the codec decides, before it is built."""
        ...

    def rows(self, codec: Any, data: Any, missing: str, unknown: str, console: Console) -> "Rows":
        """Data as states, what was left out told."""
        ...

    def describe(self, codec: Any) -> Callable[[int, int], str]:
        """A site's value in the data's own words."""
        ...

    def values(self, codec: Any) -> Sequence[Sequence[Any]]:
        """Each site's values in order, as they stand in the data."""
        ...

    def given(self, codec: Any, conditions: tuple[str, ...]) -> dict[int, int]:
        """Conditions as ``{site: value}``."""
        ...

    def form(self, codec: Any) -> "Form":
        """The form of tables written about this data."""
        ...

    def refuse_output(self, out: Path | None, codec: Any, console: Console) -> None:
        """Say no to an output path before any work is done."""
        ...

    def put(self, codec: Any, parts: "Iterable[Tensor]", out: Path | None, console: Console) -> dict[str, Any]:
        """Write what states mean that come in parts, or print it; what JSON says of it."""
        ...

    def schema(self, codec: Any) -> dict[str, Any]:
        """What the data look like, as plain values."""
        ...

    def render_schema(self, value: Mapping[str, Any]) -> str:
        """The same for reading."""
        ...


KINDS: dict[str, Kind] = {"table": Tables(), "image": Pictures()}
"""By the kind of their codec."""


def kind_of(spec: str) -> Kind:
    """The kind of data that DATA means."""
    from concrete_score.data.images import holds_images

    return KINDS["image" if holds_images(spec) else "table"]
