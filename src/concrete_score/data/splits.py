"""A named set's three parts as states of one codec."""

from pathlib import Path
from typing import NamedTuple

from concrete_score.data.codec import TableCodec
from concrete_score.data.source import load_table
from concrete_score.shapes import States
from concrete_score.spaces import Space


class Splits(NamedTuple):
    """What is learned from, what decides when to stop, and what is judged by; each ``(N, D)``, stored narrowly."""

    codec: TableCodec
    train: States
    valid: States
    test: States

    @property
    def space(self) -> Space:
        """The states' space."""
        return self.codec.space


def load_splits(name: str, data_dir: str | Path | None = None) -> Splits:
    """The parts of a named data set; the codec is that of the training rows.

    Raises:
        InputError: no such set, or a file of it is not here; it says which to put where.
    """
    frames = [load_table(f"{name}:{split}", data_dir=data_dir) for split in ("train", "valid", "test")]
    codec = TableCodec.fit(frames[0])
    return Splits(codec, *(codec.encode(frame).states for frame in frames))
