"""``metrics.jsonl``: one JSON object a line, each chained to the one before, so that no line can change or vanish."""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from concrete_score.errors import InputError
from concrete_score.files import canonical_json, finite, write_text


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
        """Write one line."""
        line, self.digest = _line(self.id, self.digest, finite(values))
        with self.path.open("ab") as file:
            file.write(line)
        self.lines += 1

    def mark(self) -> dict[str, Any]:
        """Where the journal stands, for a checkpoint; what came before is on disk from here on."""
        if self.path.exists():
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
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
        return [line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def _refusal(self, came: str) -> InputError:
        return InputError(
            "the measurements of this run as they were written",
            came,
            where=str(self.path),
            fix="restore the file from a copy, or fit again",
        )


def _line(id: str, before: str, values: Any) -> tuple[bytes, str]:
    digest = sha256(canonical_json([id, before, values])).hexdigest()[:16]
    return canonical_json({**values, "digest": digest}) + b"\n", digest
