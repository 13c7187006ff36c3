"""Sequences of letters or words: FASTA, alignments (FASTA and A2M) and lines of text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concrete_score.data.encoding import as_utf8
from concrete_score.data.frame import DRAW, Array, Form, Frame
from concrete_score.errors import InputError

GAP = "-"
WIDTH = 80
"""Letters a line of a FASTA file that is written."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Texts, what they are called, and where they come from.

    Raises:
        InputError: there is none.
    """

    texts: tuple[str, ...]
    where: str
    ids: tuple[str, ...] = ()
    """One each, or none at all."""
    form: Form = field(default_factory=lambda: Form("fasta"))
    more: Mapping[str, Array] = field(default_factory=dict)
    """Further numbers ``(N,)`` to write beside the sequences, by name."""
    kind: ClassVar[str] = "sequence"

    def __post_init__(self) -> None:
        if not self.texts:
            raise InputError("at least one sequence", "none", where=self.where)

    def __len__(self) -> int:
        return len(self.texts)

    def called(self, row: int) -> str:
        """What an example is called in messages."""
        return f"sequence {self.ids[row]}" if self.ids else f"line {row + 1}"

    def take(self, rows: slice | Array) -> "Sequences":
        """Some of the sequences."""
        at = np.arange(len(self))[rows].tolist()
        ids = tuple(self.ids[i] for i in at) if self.ids else ()
        more = {name: values[at] for name, values in self.more.items()}
        return replace(self, texts=tuple(self.texts[i] for i in at), ids=ids, more=more)

    def frame(self) -> Frame:
        """A table of one column, ``sequence``, and of ``id`` where there are any."""
        columns: dict[str, Any] = dict(self.more)
        if self.ids:
            columns["id"] = list(self.ids)
        return Frame(pl.DataFrame({**columns, "sequence": list(self.texts)}), Form("csv"), self.where)

    def to_json(self) -> dict[str, Any]:
        """The texts, their names where there are any, and further numbers."""
        ids = {"ids": list(self.ids)} if self.ids else {}
        return {**ids, "sequences": list(self.texts), **{name: value.tolist() for name, value in self.more.items()}}

    def native(self) -> list[str] | list[list[str]]:
        """The texts; draws that are counted are a list each."""
        draws = self.more.get(DRAW)
        if draws is None:
            return list(self.texts)
        each = len(self) // (int(draws.max()) + 1)
        return [list(self.texts[start : start + each]) for start in range(0, len(self), each)]

    @classmethod
    def join(cls, parts: "Iterable[Sequences]") -> "Sequences":
        """The parts of one set, at least one."""
        first, *rest = parts
        every = [first, *rest]
        more = {name: np.concatenate([each.more[name] for each in every]) for name in first.more}
        ids = tuple(name for each in every for name in each.ids)
        return replace(first, texts=tuple(text for each in every for text in each.texts), ids=ids, more=more)


def read_fasta(content: bytes, where: str) -> Sequences:
    """Sequences, aligned or not, in capital letters; a dot is a gap, and a star at the end is left out.

    >>> read_fasta(b">a\\nac.\\n-T\\n", "x.fasta").texts
    ('AC--T',)
    """
    found = _records(content, where)
    texts = tuple(text.upper().replace(".", GAP).removesuffix("*") for text in found.texts)
    return replace(found, texts=texts)


def read_a2m(content: bytes, where: str) -> Sequences:
    """An alignment whose small letters and dots are insertions; they are kept here, for numbering counts them.

    Raises:
        InputError: sequences with different numbers of aligned columns.
    """
    found = replace(_records(content, where), form=Form("a2m"))
    width = len(matched(found.texts[0]))
    for row, text in enumerate(found.texts):
        if len(matched(text)) != width:
            came = f"{len(matched(text))} in {found.called(row)}"
            raise InputError(
                f"{width} aligned columns in every sequence", came, where, "align them, without insertions"
            )
    return found


def read_text(content: bytes, where: str) -> Sequences:
    """Lines of text; empty ones at the end are left out."""
    lines = as_utf8(content, where).data.decode().splitlines()
    while lines and not lines[-1]:
        lines.pop()
    return Sequences(tuple(lines), where, form=Form("text"))


def write_fasta(parts: Iterator[Sequences], file: Any) -> None:
    """Sequences with their names, or numbered from 1, in lines of `WIDTH` letters."""
    count = 0
    for part in parts:
        for row, text in enumerate(part.texts):
            name = part.ids[row] if part.ids else f"sequence{count + row + 1}"
            lines = [text[start : start + WIDTH] for start in range(0, len(text), WIDTH)] or [""]
            file.write("\n".join([f">{name}", *lines, ""]).encode())
        count += len(part)


def write_text(parts: Iterator[Sequences], file: Any) -> None:
    """One text a line."""
    for part in parts:
        file.write("".join(f"{text}\n" for text in part.texts).encode())


def matched(text: str) -> str:
    """The aligned columns of a line of A2M: capital letters and gaps.

    >>> matched("acG-.tT")
    'G-T'
    """
    return "".join(letter for letter in text if letter.isupper() or letter in "-*?")


def first_number(name: str) -> int:
    """The number of a sequence's first letter by its name, ``NAME/24-286``; 1 where it says none.

    >>> first_number("BLAT_ECOLX/24-286"), first_number("toy")
    (24, 1)
    """
    start, _, stop = name.split()[0].rpartition("/")[2].partition("-") if name.split() else ("", "", "")
    return int(start) if start.isdecimal() and stop.isdecimal() and len(start) < 10 else 1


def header_field(header: str, name: str) -> str | None:
    """The value of a field ``NAME=VALUE`` of a header line, without spaces.

    >>> header_field("s1 class=EI", "class"), header_field("s1", "class")
    ('EI', None)
    """
    start = f"{name}="
    return next((word.removeprefix(start) for word in header.split()[1:] if word.startswith(start)), None)


def _records(content: bytes, where: str) -> Sequences:
    """Names and texts of a file of FASTA.

    Raises:
        InputError: text before the first name, a name without a sequence, or no record at all.
    """
    names: list[str] = []
    parts: list[list[str]] = []
    for number, line in enumerate(as_utf8(content, where).data.decode().splitlines(), start=1):
        line = line.strip()
        if line.startswith(">"):
            names.append(line[1:].strip())
            parts.append([])
        elif line and not names:
            raise InputError("a line that begins with >", repr(line[:20]), f"{where}: line {number}", "is it FASTA?")
        elif line:
            parts[-1].append("".join(line.split()))
    if not names:
        raise InputError("FASTA: a line that begins with >, then a sequence", "no sequence", where=where)
    for name, part in zip(names, parts, strict=True):
        if not part:
            raise InputError("a sequence after each name", f"none after >{name[:40]}", where=where)
    return Sequences(tuple(map("".join, parts)), where, tuple(names))
