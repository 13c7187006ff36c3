"""The pictures of figure 4, and the shelf where what was learned from them is kept (paper, section 5.5)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from concrete_score.data.image_codec import ImageCodec
from concrete_score.data.images import load_images
from concrete_score.data.named import cache_folder
from concrete_score.errors import InputError
from concrete_score.files import canonical_json, digest
from concrete_score.spaces import Space
from concrete_score.training.checkpoints import TensorFile, read, write


@dataclass(frozen=True, eq=False)
class Pictures:
    """Labelled pictures of bits, thresholded at one half, in three parts."""

    space: Space
    shape: tuple[int, int]
    train: Tensor
    """``(N, D)`` uint8."""
    train_labels: Tensor
    valid: Tensor
    test: Tensor
    test_labels: Tensor


@cache
def pictures(name: str) -> Pictures:
    """A named set; read once a process.

    Raises:
        InputError: it is not here and cannot be fetched, or it has no labels.

    >>> pictures("digits").train.shape
    torch.Size([1199, 64])
    """
    parts = {split: load_images(name, split) for split in ("train", "valid", "test")}
    codec = ImageCodec.fit(parts["train"])
    states = {split: codec.encode(part).states for split, part in parts.items()}
    labels = {}
    for split in ("train", "test"):
        found = parts[split].labels
        if found is None:
            raise InputError("pictures with labels", "none", where=f"{name}:{split}")
        labels[split] = torch.as_tensor(found)
    return Pictures(
        codec.space,
        codec.shape,
        states["train"],
        labels["train"],
        states["valid"],
        states["test"],
        labels["test"],
    )


@dataclass(frozen=True)
class Shelf:
    """Tensor files of one configuration, outside the repository: in the user's cache.

    Args:
        configuration: all that decides what is learned, as plain values; another one has another folder.
    """

    configuration: Mapping[str, Any]

    @property
    def id(self) -> str:
        """A short digest of the configuration."""
        return digest(canonical_json(dict(self.configuration)))[:16]

    @property
    def folder(self) -> Path:
        """Where the files lie; ``$CONCRETE_SCORE_CACHE`` moves it."""
        return cache_folder() / "weights" / f"figure4-{self.id}"

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / f"{name}.safetensors"

    def put(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any] | None = None) -> None:
        """Keep tensors, whole or not at all."""
        write(self.path(name), TensorFile("model", f"{self.id}/{name}", 0, dict(state or {}), dict(tensors)))

    def get(self, name: str) -> TensorFile | None:
        """What is kept under a name, verified; None where nothing is."""
        path = self.path(name)
        return read(path, "model", f"{self.id}/{name}") if path.is_file() else None

    def once(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """What is kept under a name, made first where nothing is."""
        found = self.get(name)
        if found is None:
            self.put(name, make())
            found = self.get(name)
        if found is None:
            raise InputError("a folder that keeps files", "one that does not", where=str(self.folder))
        return dict(found.tensors)
