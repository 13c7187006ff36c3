"""What questions about data are asked with and answered by: data with their states, changes, filled data."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from concrete_score.codecs import Codec
from concrete_score.codecs.columns import as_text
from concrete_score.data.frame import ARRAYS, Form, Frame
from concrete_score.errors import InputError, Option
from concrete_score.protocols import Encoded
from concrete_score.samplers.completions import Cells


class Counted(NamedTuple):
    """What of the rows that a question is asked about is out of the ordinary."""

    rows: int = 0
    """That are left."""
    unknown: int = 0
    """Rows left out for a value never seen in training."""
    dropped: int = 0
    """Rows left out for a blank cell."""
    unobserved: int = 0
    """Rows with blanks that stay."""
    unseen: int = 0
    """Cells whose value was never seen in training, in rows that stay."""

    @classmethod
    def of(cls, rows: Encoded) -> "Counted":
        """Of rows that were encoded together."""
        unobserved = 0 if rows.observed.all() else int((~rows.observed.all(1)).sum())
        unseen = 0 if rows.unseen is None else int(rows.unseen.sum())
        return cls(len(rows.kept), rows.unknown, rows.blank, unobserved, unseen)

    def plus(self, other: "Counted") -> "Counted":
        """The counts of two sets of rows together."""
        return Counted(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def skipped(self) -> int:
        """Rows that were left out."""
        return self.unknown + self.dropped

    def notes(self, noun: str, filling: bool = False) -> tuple[str, ...]:
        """In plain words.

        >>> Counted(rows=8, unknown=2).notes("rows")
        ('2 rows with values never seen in training skipped',)
        """
        found = []
        if self.unknown:
            left = "left as they are" if filling else "skipped"
            found.append(f"{self.unknown} {noun} with values never seen in training {left}")
        if not filling and self.unobserved:
            found.append(f"{self.unobserved} {noun} with blanks, which count as not observed")
        if self.dropped:
            found.append(f"{self.dropped} {noun} with blanks dropped")
        if self.unseen:
            found.append(
                f"{self.unseen} cells hold values never seen in training; each has the probability reserved for such"
                " values"
            )
        return tuple(found)


class Named(NamedTuple):
    """Stands for data of which only the states are needed."""

    where: str


class Given(NamedTuple):
    """Data that a question is asked about, with their states."""

    data: Any
    rows: Encoded
    notes: tuple[str, ...] = ()
    """What was left out, in plain words."""
    warnings: tuple[str, ...] = ()
    first: int = 0
    """The number of the first row, where these are part of more."""

    def take(self, places: npt.NDArray[Any]) -> "Given":
        """Some of the states, by their places; of the data only the name is kept."""
        rows, inside = self.rows, self.rows.log_inside
        some = Encoded(rows.states[places], rows.observed[places], self.first + rows.kept[places])
        return Given(Named(self.data.where), some._replace(log_inside=None if inside is None else inside[places]))

    @classmethod
    def join(cls, parts: Iterable["Given"]) -> "Given":
        """States one below the other, all of which are known by their numbers (`take`)."""
        every = list(parts)
        rows = [part.rows for part in every]
        zeros = torch.zeros(1, dtype=torch.float64)
        inside = [zeros.expand(len(each.kept)) if each.log_inside is None else each.log_inside for each in rows]
        some = any(each.log_inside is not None for each in rows)
        states, observed, kept = (torch.cat(column) for column in zip(*(each[:3] for each in rows), strict=True))
        whole = Encoded(states, observed, kept)
        return Given(every[0].data, whole._replace(log_inside=torch.cat(inside) if some else None))

    @property
    def numbers(self) -> int:
        """Rows are numbered up to this, also those that were left out."""
        return len(self.data)

    def block(self, start: int, size: int, whole: bool = False) -> "Given":
        """The rows from number ``start`` on, at most ``size``; their data too if ``whole``, else only their name."""
        stop, kept = start + size, self.rows.kept
        if start == 0 and stop >= self.numbers:
            return self if whole else self._replace(data=Named(self.data.where))
        part = slice(*torch.searchsorted(kept, torch.tensor([start, stop])).tolist())
        rows = Encoded(self.rows.states[part], self.rows.observed[part], kept[part] - start)
        more: dict[str, Any] = {
            name: None if (each := getattr(self.rows, name)) is None else each[part]
            for name in ("log_inside", "unseen", "weights")
        }
        data = self.data.take(np.arange(start, min(stop, len(self.data)))) if whole else Named(self.data.where)
        return Given(data, rows._replace(**more), first=self.first + start)

    @property
    def blank(self) -> Tensor:
        """Which cells are blank ``(N', D)``; one whose value was never seen is not."""
        observed, unseen = self.rows.observed, self.rows.unseen
        return ~observed if unseen is None else ~observed & ~unseen

    @property
    def skipped(self) -> int:
        """Rows that were left out."""
        return self.rows.unknown + self.rows.blank

    def row_name(self, row: int) -> str:
        """What a row of the states is called: its place in the data."""
        return f"row {self.first + int(self.rows.kept[row])}"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within it, an error about a row names the data too."""
        try:
            yield
        except InputError as error:
            if isinstance(error.where, str) and error.where.startswith("row "):
                raise error.moved((self.data.where, error.where)) from None
            raise


@dataclass(frozen=True, eq=False)
class Explanation:
    """Single changes in the data's own terms, by row and then by falling log-ratio; one line each."""

    row: list[int]
    column: list[str]
    before: list[Any]
    after: list[Any]
    log_ratio: list[float]

    def to_json(self) -> list[dict[str, Any]]:
        """One object a change: ``row, column, from, to, log_ratio``."""
        names = ("row", "column", "from", "to", "log_ratio")
        lines = zip(self.row, self.column, self.before, self.after, self.log_ratio, strict=True)
        return [dict(zip(names, line, strict=True)) for line in lines]

    def frame(self) -> Frame:
        """The same as a table; values are text, for they are of many types."""
        before, after = ([as_text(value) for value in values] for values in (self.before, self.after))
        columns = {"row": self.row, "column": self.column, "from": before, "to": after, "log_ratio": self.log_ratio}
        return Frame(pl.DataFrame(columns, strict=False), Form("csv"), "explanation")

    def native(self, form: Form) -> Any:
        """A data frame of the library that ``form`` names, or a structured array."""
        table = self.frame().table
        if form.kind not in ARRAYS:
            return Frame(table, form, "explanation").native()
        kinds = [
            (name, "O" if table[name].dtype == pl.String else table[name].to_numpy().dtype) for name in table.columns
        ]
        found = np.empty(len(table), dtype=kinds)
        for name in table.columns:
            found[name] = table[name].to_numpy()
        return found


class Filled(NamedTuple):
    """Data without blanks, and how they were filled."""

    data: Any
    cells: int
    """Cells that were filled in each copy."""
    method: str | None
    """None where nothing was blank."""
    warnings: tuple[str, ...] = ()


FEW = 3
"""Warnings of one kind of work that are told; of more, how many."""


def few_warnings(warnings: Iterable[str]) -> tuple[str, ...]:
    """Warnings of several blocks of rows: each once, and the first few of many.

    >>> few_warnings(["a", "b", "a", "c", "d", "e"])
    ('a', 'b', 'c', 'and 2 more such warnings of other rows')
    """
    found = list(dict.fromkeys(warnings))
    more = len(found) - FEW
    rest = [f"and {more} more such warning{'s' if more > 1 else ''} of other rows"] if more > 0 else []
    return (*found[:FEW], *rest)


def filled_together(parts: Sequence[Filled]) -> Filled:
    """How the blocks of a table were filled; the data are the first one's.

    >>> filled_together([Filled(0, 2, "enumeration"), Filled(1, 0, None), Filled(2, 3, "enumeration, importance")])
    Filled(data=0, cells=5, method='enumeration, importance', warnings=())
    """
    named = dict.fromkeys(name for part in parts if part.method for name in part.method.split(", "))
    cells, warnings = sum(part.cells for part in parts), (each for part in parts for each in part.warnings)
    return Filled(parts[0].data, cells, ", ".join(named) or None, few_warnings(warnings))


class Conditionals(NamedTuple):
    """Distributions of blank cells given the others of their rows, and how they were found."""

    cells: Cells
    method: str
    """``closed_form`` and ``enumeration`` are exact."""
    warnings: tuple[str, ...] = ()


def by_value(ratios: Tensor, states: Tensor, sizes: tuple[int, ...], observed: Tensor | None = None) -> Tensor:
    """Hamming's slots, the other values of each site, spread to all values: ``(N, K) -> (N, Σ sizes)``.

    >>> by_value(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[1, 0]]), (3, 2)).tolist()
    [[0.1..., 0.0, 0.2..., 0.0, 0.3...]]
    """
    parts, start = [], 0
    for d, size in enumerate(sizes):
        spread = ratios.new_zeros(len(ratios), size)
        other = torch.arange(size - 1, device=ratios.device).expand(len(ratios), -1)
        here = states[:, d : d + 1].to(ratios.device)
        spread.scatter_(1, other + (other >= here), ratios[:, start : start + size - 1])
        if observed is not None:
            spread[~observed[:, d].to(ratios.device)] = torch.nan
        parts.append(spread)
        start += size - 1
    return torch.cat(parts, 1)


CHANGE = re.compile(r"(\D+?)(\d+)(\D+)")
"""A change of one letter, such as ``A42G``."""


class Mutants(NamedTuple):
    """Changed copies of one sequence."""

    states: Tensor
    """``(M, D)``."""
    row: Tensor
    """Which of the texts each of them is ``(M,)``; those at positions that are not modelled are left out."""


def mutants(codec: Codec, wild: Tensor, texts: Sequence[str | None], where: str) -> Mutants:
    """The states of mutants such as ``A42G:V84I``: letter before, position, letter after.

    Args:
        codec: names the sites by their positions.
        wild: the sequence they are changes of ``(D,)``.
        texts: one a mutant; changes are joined by colons, commas or semicolons. None is a blank cell.
        where: what the texts are called in messages.

    Raises:
        InputError: a text that is no mutant, or whose letter before is not the wild type's; row or position named.
    """
    sites = {name: site for site, name in enumerate(codec.names)}
    states, rows = [], []
    for row, text in enumerate(texts):
        found = [CHANGE.fullmatch(part.strip()) for part in re.split("[:,;]", text or "")]
        place = f"{where}: row {row + 2}"
        if not all(found):
            raise InputError("changes such as A42G:V84I", repr(text) if text else "a blank cell", where=place)
        changed = wild.clone()
        for before, number, after in (part.groups() for part in found if part is not None):
            if number not in sites:
                break
            site = sites[number]
            own, new = codec.labels(site)[int(wild[site])], codec.place(site, after)
            if before != own:
                raise InputError(f"{own} at position {number}, as the wild type has", before, place, "check numbering")
            if new is None:
                raise InputError(f"a letter of {''.join(codec.labels(site))} at position {number}", after, where=place)
            changed[site] = new
        else:
            states.append(changed)
            rows.append(row)
    if not states:
        raise InputError("mutants at positions of the model", "none", where, "check the numbering of the wild type")
    return Mutants(torch.stack(states), torch.tensor(rows))


def times_as_probable(log_ratio: float) -> str:
    """A log-ratio in plain words.

    >>> times_as_probable(0.7), times_as_probable(-0.7), times_as_probable(float("-inf"))
    ('2.0 times as probable', '2.0 times less probable', 'impossible')
    >>> times_as_probable(900.0)
    'e^900 times as probable'
    """
    if not isfinite(log_ratio):
        return "impossible"
    size = abs(log_ratio)
    factor = f"{exp(size):,.1f}" if size < 14 else f"e^{size:.0f}"
    return f"{factor} times {'as' if log_ratio >= 0 else 'less'} probable"


def by_site(cells: Cells, at: Tensor, blank: Tensor) -> dict[int, npt.NDArray[np.float64]]:
    """The log-probabilities of blanks by site ``(B, V)``, by row; ``at`` are the places of the rows asked about."""
    row, site, log_probs = at[cells.row.cpu()], cells.site.cpu(), cells.log_probs.double().cpu()
    wanted = blank[row, site]
    row, site, log_probs = row[wanted], site[wanted], log_probs[wanted]
    order = row.argsort(stable=True)
    row, site, log_probs = row[order], site[order], log_probs[order]
    return {d: log_probs[site == d].numpy() for d in set(site.tolist())}


def probability_table(given: Given, cells: Cells | None, codec: Codec) -> Frame:
    """The distributions of blank cells as a table ``row, column, value, probability``."""
    if cells is None:
        empty = {"row": pl.Int64, "column": pl.String, "value": pl.String, "probability": pl.Float64}
        return Frame(pl.DataFrame(schema=empty), Form("csv"), "probabilities")
    wanted = given.blank.to(cells.row.device)[cells.row, cells.site]
    at, sites = (given.first + given.rows.kept[cells.row[wanted].cpu()]).numpy(), cells.site[wanted].cpu().numpy()
    probs, sizes = cells.log_probs[wanted].exp().cpu().numpy(), np.array(codec.space.sizes)[sites]
    labels = [codec.labels(d) for d in range(len(codec.names))]
    columns = {
        "row": np.repeat(at, sizes),
        "column": np.repeat(np.array(codec.names)[sites], sizes),
        "value": [label for d in sites for label in labels[d]],
        "probability": np.concatenate([row[:size] for row, size in zip(probs, sizes, strict=True)]),
    }
    return Frame(pl.DataFrame(columns), Form("csv"), "probabilities")


def without(codec: Codec, data: Any, target: Any) -> Frame:
    """A table all of whose cells of one column are blank; the column may be absent.

    Raises:
        InputError: the codec has no such column.
    """
    frame: Frame = codec.accept(data)
    site = codec.site_of(target, Option("target"))
    name = codec.names[site]
    place = name if name in frame.names or len(frame.names) != len(codec.names) else frame.names[site]
    kind = frame.table[place].dtype if place in frame.names else pl.String
    return replace(frame, table=frame.table.with_columns(pl.lit(None, dtype=kind).alias(place)))
