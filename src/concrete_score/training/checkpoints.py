"""Tensor files that verify themselves: safetensors whose metadata carry a SHA-256 of everything else.

The format alone loads a flipped byte silently; here names, kinds, shapes, bytes and the other metadata are hashed, and
a file that does not match is refused by name. Nothing is ever unpickled.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.files import atomic, canonical_json

_SIZE = 8
"""Bytes that say how long the header is."""


@dataclass(frozen=True, eq=False)
class TensorFile:
    """Named tensors with a JSON state, of one run and step."""

    kind: str
    """``model`` or ``checkpoint``: one is never taken for the other."""
    id: str
    step: int
    state: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors under ``prefix/``, by the rest of their names."""
        start = f"{prefix}/"
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}


def write(path: Path, file: TensorFile) -> None:
    """Write a tensor file atomically: it is whole, or not there."""
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in file.tensors.items()}
    metadata = {
        "kind": file.kind,
        "id": file.id,
        "step": str(file.step),
        "state": canonical_json(file.state).decode(),
    }
    data = save(tensors, metadata={**metadata, "sha256": _digest(tensors, metadata)})
    with atomic(path) as draft:
        draft.write_bytes(data)


def read(path: Path, kind: str, id: str) -> TensorFile:
    """Read and verify a tensor file.

    Raises:
        InputError: it is damaged, of another kind, or belongs to another run; the file is named.
    """
    data = path.read_bytes()
    try:
        metadata, tensors = _parse(data)
        found = metadata.pop("sha256")
        sound = found == _digest(tensors, metadata)
        state, step = json.loads(metadata["state"]), int(metadata["step"])
    except Exception as error:  # whatever the bytes provoke in a parser, they are not a file of ours
        raise _refusal(path, f"a damaged one ({type(error).__name__})") from None
    if not sound:
        raise _refusal(path, "one whose bytes do not match their SHA-256")
    if metadata["id"] != id:
        raise _refusal(path, "a file of another run")
    if metadata["kind"] != kind:
        raise _refusal(path, f"a {metadata['kind']} file in its place")
    return TensorFile(kind, id, step, state, tensors)


def _parse(data: bytes) -> tuple[dict[str, str], dict[str, Tensor]]:
    from safetensors.torch import load

    size = int.from_bytes(data[:_SIZE], "little")
    header = data[_SIZE : _SIZE + size]
    # Only spaces may pad the header: nothing in the file is left unchecked.
    if len(header) != size or not header.rstrip(b" ").endswith(b"}"):
        raise ValueError("header")
    metadata: dict[str, str] = json.loads(header)["__metadata__"]
    return metadata, load(data)


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 over metadata, names, kinds, shapes and bytes, in one order."""
    total = hashlib.sha256(canonical_json(dict(metadata)))
    for name in sorted(tensors):
        value = tensors[name]
        total.update(canonical_json([name, str(value.dtype), list(value.shape)]))
        total.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return total.hexdigest()


def _refusal(path: Path, came: str) -> InputError:
    return InputError(
        "a file of this run as it was written", came, where=str(path), fix="restore it from a copy, or fit again"
    )
