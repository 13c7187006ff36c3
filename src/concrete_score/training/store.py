"""Files of a run that verify themselves: tensors, and the journal of measurements.

A tensor file is safetensors whose metadata carry a SHA-256 of everything else: the format alone loads a flipped byte
silently; here names, types, shapes, bytes and the other metadata are hashed, and a file that does not match is refused
by name. ``metrics.jsonl`` is one JSON object a line, each chained to the one before, so that no line can change or
vanish. Nothing is ever unpickled.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.files import atomic, canonical_json, finite, named, read_regular, write_text

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
    data = read_regular(path)
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


@dataclass(eq=False)
class Journal:
    """The measurements of one run, appended as they come.

    Each line's ``digest`` is taken of the run's id, the digest before it and its own values. A checkpoint remembers how
    many lines there were and the last digest. A last line cut short, as a killed process leaves it, is no damage.
    """

    path: Path
    id: str
    lines: int = 0
    digest: str = ""

    def append(self, **values: Any) -> None:
        line, self.digest = _line(self.id, self.digest, finite(values))
        with named(self.path), self.path.open("ab") as file:
            file.write(line)
        self.lines += 1

    def mark(self) -> dict[str, Any]:
        """Where the journal stands, for a checkpoint; what came before is on disk from here on."""
        if self.path.exists():
            with named(self.path), self.path.open("rb") as file:
                os.fsync(file.fileno())
        return {"lines": self.lines, "digest": self.digest}

    def read(self, mark: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """All whole lines.

        Args:
            mark: what a checkpoint remembers; the journal must contain it.

        Raises:
            InputError: a line was edited, or lines that a checkpoint remembers are gone; the file is named.
        """
        found, digest = [], ""
        known = "" if mark is None or mark["lines"] else mark["digest"]
        for number, line in enumerate(self._whole_lines(), 1):
            try:
                values = json.loads(line)
                given = values.pop("digest")
                expected, digest = _line(self.id, digest, values)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._refusal(f"line {number} that is none") from None
            if given != digest or line != expected:
                raise self._refusal(f"line {number} edited, or of another run")
            if mark is not None and number == mark["lines"]:
                known = digest
            found.append(values)
        if mark is not None and (len(found) < mark["lines"] or known != mark["digest"]):
            raise self._refusal(f"{len(found)} lines where a checkpoint remembers {mark['lines']}")
        return found

    def cut(self, mark: dict[str, Any]) -> None:
        """Go back to where a checkpoint left it."""
        self.read(mark)
        kept = b"".join(self._whole_lines()[: mark["lines"]])
        write_text(self.path, kept.decode())
        self.lines, self.digest = mark["lines"], mark["digest"]

    def _whole_lines(self) -> list[bytes]:
        if not self.path.exists():
            return []
        return [line for line in read_regular(self.path).splitlines(keepends=True) if line.endswith(b"\n")]

    def _refusal(self, came: str) -> InputError:
        return InputError(
            "the measurements of this run as they were written",
            came,
            where=str(self.path),
            fix="restore the file from a copy, or fit again",
        )


def _line(id: str, before: str, values: Any) -> tuple[bytes, str]:
    digest = hashlib.sha256(canonical_json([id, before, values])).hexdigest()[:16]
    return canonical_json({**values, "digest": digest}) + b"\n", digest
