"""Sequences: one site a letter (or word); alignments column by column, others filled up with a value never shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from concrete_score.codecs.alphabets import BLANK, LONGEST, TOKENS, SequenceOptions, alphabet_of
from concrete_score.codecs.base import (
    Codec,
    check_choice,
    check_kind,
    is_data,
    kept_rows,
    options_of,
    refuse_other_kind,
)
from concrete_score.codecs.conditions import Condition
from concrete_score.data.frame import DRAW, Array, Form
from concrete_score.data.sequences import GAP, Sequences, first_number, header_field, matched
from concrete_score.defaults import MISSING, UNKNOWN
from concrete_score.errors import InputError, Option, Part
from concrete_score.protocols import Encoded
from concrete_score.shapes import States
from concrete_score.spaces import Space
from concrete_score.training.choice import Choice, choose_for_sequences

END = "<end>"
"""What fills a sequence up to the longest; modelled, and never shown in one."""
TOGETHER = 2**10
"""Sequences compared with all others at a time."""


@dataclass(frozen=True)
class SequenceCodec(Codec):
    """Letters of an alphabet at every site, the same alphabet everywhere.

    Args:
        symbols: the values in order; of sequences of different lengths the last is `END`.
        length: sites.
        blanks: letters that count as blank.
        tokens: one of `TOKENS`.
        window: tokens an example, where lines run on.
        width: of an alignment, the columns of its file; ``columns`` are those that are kept.
        columns: ``(D,)``, or none for all.
        numbers: what the sites are called ``(D,)``, or none for 1, 2, ….
        identity: see `SequenceOptions.identity`.
        form: ``fasta, a2m`` or ``text``.
        extra: names and values of further sites, one each: fields of the header lines.

    >>> codec = SequenceCodec.infer(Sequences(("ACG", "AC"), "x"), {})
    >>> codec.symbols, codec.encode(["AC", "GGT"][:1]).states.tolist()
    (('A', 'C', 'G', 'T', '<end>'), [[0, 1, 4]])
    >>> codec.decode(torch.tensor([[3, 0, 4]])).texts
    ('TA',)
    """

    symbols: tuple[str, ...]
    length: int
    blanks: str = ""
    tokens: str = TOKENS[0]
    window: int | None = None
    width: int | None = None
    columns: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    identity: float | None = None
    form: str = "fasta"
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kind = "sequence"
    noun = "sequences"
    site_noun = "positions"
    precise = False
    from_noise = True

    @property
    def missing(self) -> str:  # type: ignore[override]
        """Sequences with ambiguous letters are dropped; where gaps are blank, what is observed of each counts."""
        return "unobserved" if GAP in self.blanks else "drop"

    @property
    def output_format(self) -> str:
        """FASTA for sequences with names, text for lines without."""
        return "text" if self.form == "text" else "fasta"

    @property
    def padded(self) -> bool:
        """Whether sequences have different lengths."""
        return self.symbols[-1] == END

    @cached_property
    def space(self) -> Space:
        return Space((len(self.symbols),) * self.length + tuple(len(values) for _, values in self.extra))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Numbers, counted from 1 or as the focus sequence has them, and the names of further sites."""
        numbers = map(str, self.numbers or range(1, self.length + 1))
        return (*numbers, *(name for name, _ in self.extra))

    @classmethod
    def infer(cls, data: Any, options: Mapping[str, Any]) -> "SequenceCodec":
        """The codec of sequences to learn from.

        Raises:
            InputError: letters outside the alphabet, an absent focus sequence, or no letter at all.
        """
        chosen = options_of(SequenceOptions, options, "sequences")
        given = cls.accept(data)
        if chosen.focus is not None and given.form.kind != "a2m":
            raise InputError("an alignment in A2M", f"a {given.form.kind} file", Option("focus"), "leave it out")
        blank = cls((END,), 1, tokens=chosen.tokens, window=chosen.window, form=given.form.kind)
        given = blank._examples(given)
        rows = blank._tokens(given)
        symbols, blanks = alphabet_of(rows, given, chosen)
        lengths = {len(row) for row in rows}
        if max(lengths, default=0) < 1:
            raise InputError("sequences of at least one letter", "none", where=given.where)
        same, length = len(lengths) == 1, max(lengths)
        found = replace(
            blank,
            symbols=symbols if same else (*symbols, END),
            length=length,
            blanks=blanks,
            identity=chosen.identity,
            width=length if same and given.form.kind != "text" else None,
            extra=tuple((name, _field_values(given, name)) for name in chosen.fields),
        )
        return found._focused(given, chosen.focus) if given.form.kind == "a2m" else found

    @classmethod
    def accept(cls, data: Any, where: str = "data") -> Sequences:
        """Sequences, or a list of texts."""
        if isinstance(data, Sequences):
            return data
        if is_data(data):
            refuse_other_kind(data, "sequences (FASTA, A2M or text)")
        if isinstance(data, str) or not all(isinstance(each, str) for each in data):
            raise InputError("a list of texts", type(data).__name__, where=where)
        return Sequences(tuple(data), where, form=Form("text"))

    def encode(self, data: Any, *, missing: str = "refuse", unknown: str = "refuse") -> Encoded:
        """Sequences to states; letters outside the alphabet are unknown, those that stand for several are blank.

        Raises:
            InputError: another length, a letter outside the alphabet (sequence and position are named), or blanks.
        """
        check_choice(missing, MISSING, "missing")
        check_choice(unknown, UNKNOWN, "unknown")
        given = self._examples(self.accept(data))
        cells = np.stack([self._row(given, row, tokens) for row, tokens in enumerate(self._tokens(given))])
        cells = np.concatenate([cells, *(self._fields(given, *each) for each in self.extra)], 1)
        blank, strange = cells == _BLANK, cells == _UNKNOWN
        skipped = strange.any(1) if unknown == "skip" else np.zeros(len(cells), bool)
        if strange.any() and unknown != "skip":
            row, site = (int(k) for k in np.argwhere(strange)[0])
            raise self._unknown(given, row, site)
        if blank.any() and missing not in ("drop", "unobserved"):
            came = f"{int(blank.sum())} in {int(blank.any(1).sum())} of {len(cells)}"
            fix = [Option("missing", "drop"), Option("missing", "unobserved")]
            raise InputError("no blank or ambiguous letters", came, given.where, fix)
        dropped = blank.any(1) & ~skipped if missing == "drop" else np.zeros(len(cells), bool)
        kept = kept_rows(skipped, dropped, given.where, self.noun)
        states = torch.from_numpy(np.where(cells[kept] < 0, 0, cells[kept]).astype(self._dtype))
        observed = torch.from_numpy(~blank[kept])
        weights = None if self.identity is None else self._weights(cells[kept], self.identity)
        return Encoded(
            states, observed, torch.from_numpy(kept), int(skipped.sum()), int(dropped.sum()), weights=weights
        )

    def decode(
        self,
        states: States,
        generator: torch.Generator | None = None,
        conditions: Sequence[Condition] = (),
        first: int = 0,
    ) -> Sequences:
        """States ``(N, D)`` to texts, each up to its first `END`."""
        rows = self.space.check(states, "states").tolist()
        stop = len(self.symbols) - 1 if self.padded else None
        letters = [row[: self.length] for row in rows]
        texts = tuple(self._text(row[: row.index(stop)] if stop in row else row) for row in letters)
        ids = [self._header(f"sample{first + number}", row) for number, row in enumerate(rows, 1)]
        return Sequences(texts, "states", tuple(ids) if self.form != "text" else (), Form(self.output_format))

    def fill(self, data: Any, rows: Encoded, states: States, draws: int | None, **choices: Any) -> Sequences:
        """Sequences with their blanks filled, of an alignment the kept columns; of several draws, one below another."""
        given = self._examples(self.accept(data))
        kept = rows.kept.tolist()
        known = torch.where(rows.observed, rows.states.long(), states.cpu().long())
        copies = [self.decode(copy).texts for copy in known]
        named = [
            (given.ids[row], copy[place]) for copy in known.tolist() for place, row in enumerate(kept) if given.ids
        ]
        ids = tuple(self._header(name.split()[0], row) if self.extra else name for name, row in named)
        more = {} if draws is None else {DRAW: np.repeat(np.arange(len(copies)), len(kept))}
        texts = tuple(text for copy in copies for text in copy)
        return Sequences(texts, given.where, ids, Form(self.output_format), more)

    def natives(self, site: int) -> Sequence[Any]:
        return self.labels(site)

    def labels(self, site: int) -> tuple[str, ...]:
        return self.symbols if site < self.length else self.extra[site - self.length][1]

    def place(self, site: int, text: str) -> int | None:
        """The value of a letter, or of a field."""
        values = self.labels(site)
        return values.index(text) if text in values else None

    def notes(self) -> list[tuple[Part, ...]]:
        """Which alphabet it is, and what becomes of other letters."""
        found: list[tuple[Part, ...]] = [(f"alphabet: {self._shown_alphabet}; another by ", Option("alphabet"))]
        if self.blanks:
            found.append((f"letters that count as blank: {' '.join(self.blanks)}",))
        if self.columns and self.width is not None and len(self.columns) < self.width:
            found.append((f"{self.width - len(self.columns)} columns where the focus sequence has a gap are left out",))
        return found

    def choose(self, recipe: Mapping[str, Any], training: Mapping[str, Any]) -> Choice:
        """A Potts model of an alignment, a transformer of other sequences, unless another model was asked for."""
        return choose_for_sequences(recipe, training, aligned=self.width is not None)

    def schema(self) -> dict[str, Any]:
        """How many sites there are, and what they hold."""
        facts = {"length": self.length, "first": self.names[0], "last": self.names[-1], "alphabet": list(self.symbols)}
        facts |= {name: list(values) for name, values in self.extra}
        return {"sequences": {**facts, "blanks": self.blanks, "tokens": self.tokens, "window": self.window}}

    def schema_table(self) -> tuple[str, Sequence[str], Sequence[Sequence[Any]]]:
        """One line a fact."""
        facts = {**self.schema()["sequences"], "alphabet": self._shown_alphabet}
        return "Sequences:", ["fact", "value"], [(name, str(value)) for name, value in facts.items()]

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` builds an equal codec."""
        plain = asdict(self)
        lists: dict[str, Any] = {name: list(plain[name]) for name in ("symbols", "columns", "numbers")}
        lists["extra"] = [[name, list(values)] for name, values in self.extra]
        return {"kind": self.kind, **plain, **lists}

    @classmethod
    def from_json(cls, value: Any, where: str = "codec") -> "SequenceCodec":
        """The codec of plain values, every one of them checked.

        Raises:
            InputError: a field is missing or of the wrong type.
        """
        check_kind(value, cls.kind, where)
        for name, fits in _FIELDS.items():
            if name not in value or not fits(value[name]):
                raise InputError(f"the {name} of sequences", repr(value.get(name))[:60], where=f"{where}.{name}")
        plain: dict[str, Any] = {
            name: tuple(value[name]) if isinstance(value[name], list) else value[name] for name in _FIELDS
        }
        plain["extra"] = tuple((name, tuple(values)) for name, values in plain["extra"])
        length = plain["length"]
        for name in ("columns", "numbers"):
            if plain[name] and (len(plain[name]) != length or len(set(plain[name])) != length):
                raise InputError(f"{length} different numbers", str(len(plain[name])), where=f"{where}.{name}")
        if plain["columns"] and (plain["width"] is None or max(plain["columns"]) >= plain["width"]):
            raise InputError("columns of the alignment", "others", where=f"{where}.columns")
        return cls(**plain)

    @cached_property
    def _values(self) -> dict[str, int]:
        return {symbol: value for value, symbol in enumerate(self.symbols)}

    @property
    def _dtype(self) -> Any:
        return np.uint8 if len(self.symbols) <= 2**8 else np.int16

    @property
    def _shown_alphabet(self) -> str:
        letters = [symbol for symbol in self.symbols if symbol != END]
        if len(letters) > 100:
            return f"{len(letters):,} {self.tokens}"
        return " ".join(letter if letter.isprintable() and letter != " " else repr(letter) for letter in letters)

    def _text(self, row: list[int]) -> str:
        return (" " if self.tokens == "words" else "").join(self.symbols[value] for value in row)

    def _examples(self, data: Sequences) -> Sequences:
        """The examples of a text whose lines run on: windows of tokens; anything else as it is."""
        if self.window is None:
            return data
        apart = "\n" if self.tokens == "characters" else " "
        tokens = self._split(apart.join(data.texts))
        parts = [tokens[start : start + self.window] for start in range(0, len(tokens), self.window)]
        joined = "" if self.tokens == "characters" else " "
        whole = [part for part in parts if len(part) == self.window] or parts  # what is left over is left out
        return replace(data, texts=tuple(joined.join(part) for part in whole), ids=())

    def _split(self, text: str) -> list[str]:
        return text.split() if self.tokens == "words" else list(text)

    def _tokens(self, data: Sequences) -> list[list[str]]:
        """The tokens of every example; of an alignment in A2M, its aligned columns."""
        if data.form.kind == "a2m":
            return [list(matched(text)) for text in data.texts]
        return [self._split(text) for text in data.texts]

    def _focused(self, data: Sequences, focus: str | None) -> "SequenceCodec":
        """With the columns where the focus sequence has a letter, numbered as it is."""
        row = 0
        if focus is not None:
            called = [name.split()[0] if name else name for name in data.ids]
            if focus not in called:
                raise InputError("a sequence of the alignment", repr(focus), Option("focus"), f"such as {called[0]!r}")
            row = called.index(focus)
        numbers, columns = [], []
        number, column = first_number(data.ids[row]) - 1, -1
        for letter in data.texts[row]:
            number += letter.isalpha() or letter in "*?"
            column += letter.isupper() or letter in "-*?"
            if letter.isupper() or letter in "*?":
                numbers.append(number)
                columns.append(column)
        return replace(self, columns=tuple(columns), numbers=tuple(numbers), length=len(columns))

    def _placed(self, data: Sequences, row: int, tokens: list[str]) -> list[str]:
        """The tokens of one sequence at this codec's sites.

        Raises:
            InputError: lengths that do not fit.
        """
        if self.width is not None and len(tokens) == self.width and self.columns:
            return [tokens[column] for column in self.columns]
        if len(tokens) == self.length or (self.padded and len(tokens) < self.length):
            return tokens
        start = first_number(data.ids[row]) if data.ids else 1
        places = [number - start for number in self.numbers]
        if places and places[0] >= 0 and places[-1] < len(tokens):
            return [tokens[place] for place in places]
        expected = f"{'at most ' if self.padded else ''}{self.length} positions, as in training"
        where = f"{data.where}: {data.called(row)}"
        raise InputError(expected, str(len(tokens)), where, "align it as the sequences of the training were")

    def _row(self, data: Sequences, row: int, tokens: list[str]) -> Array:
        """The values of one sequence ``(D,)``; `_BLANK` and `_UNKNOWN` where it has none."""
        values, placed = self._values, self._placed(data, row, tokens)
        other = _BLANK if self.tokens == "words" else _UNKNOWN
        found = [values.get(t, _BLANK if t in self.blanks else other) for t in placed]
        return np.array([*found, *[len(self.symbols) - 1] * (self.length - len(found))])

    def _fields(self, data: Sequences, name: str, values: tuple[str, ...]) -> Array:
        """The values of a field of the header lines ``(N, 1)``; blank where a header has none."""
        place = {value: k for k, value in enumerate(values)}
        found = [header_field(header, name) for header in data.ids or [""] * len(data)]
        cells = [_BLANK if value in (None, BLANK) else place.get(str(value), _UNKNOWN) for value in found]
        return np.array(cells)[:, None]

    def _header(self, name: str, row: list[int]) -> str:
        """A header line with the fields of a row."""
        fields = zip(self.extra, row[self.length :], strict=True)
        return " ".join([name, *(f"{field}={values[value]}" for (field, values), value in fields)])

    def _unknown(self, data: Sequences, row: int, site: int) -> InputError:
        """Which value was never seen in training, and where."""
        where = f"{data.where}: {data.called(row)}, "
        if site >= self.length:
            name, values = self.extra[site - self.length]
            came = str(header_field(data.ids[row], name))
            return InputError(f"one of {', '.join(values)}", came, where + name, Option("unknown", "skip"))
        letter, where = self._placed(data, row, self._tokens(data)[row])[site], f"{where}position {self.names[site]}"
        return InputError(f"letters of {self._shown_alphabet}", repr(letter), where, Option("unknown", "skip"))

    def _weights(self, cells: Array, identity: float) -> Tensor:
        """By the letters alone; a blank is a value of its own."""
        return identity_weights(torch.from_numpy(cells[:, : self.length] + 1), identity)


_BLANK, _UNKNOWN = -1, -2


def _field_values(data: Sequences, name: str) -> tuple[str, ...]:
    """The values of a field of the header lines, in order.

    Raises:
        InputError: no header has it.
    """
    found = {header_field(header, name) for header in data.ids} - {None, BLANK}
    if not found:
        raise InputError(f"header lines with {name}=VALUE", "none", data.where, Option("extra"))
    return tuple(sorted(map(str, found)))


def identity_weights(states: Tensor, identity: float) -> Tensor:
    """One over the number of rows that agree with a row at a share ``identity`` of the sites, itself included ``(N,)``.

    >>> identity_weights(torch.tensor([[0, 1, 2], [0, 1, 1], [2, 2, 2]]), 0.6)
    tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    rows, sites = states.shape
    # As products of one-hot rows: the number of equal sites.
    hot = torch.nn.functional.one_hot(states.long()).to(torch.float32).flatten(1)
    least = identity * sites - 1e-6
    parts = [(part @ hot.T >= least).sum(-1) for part in torch.split(hot, TOGETHER)]
    return 1 / torch.cat(parts).double() if rows else torch.zeros(0, dtype=torch.float64)


def _is_whole(least: int, most: int, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_list(fits: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, list) and all(map(fits, value))


def _are_labels(value: Any) -> bool:
    """Whether they are different texts, at least one."""
    named = _is_list(lambda each: isinstance(each, str) and each != "", value)
    return named and 0 < len(set(value)) == len(value) < 2**13


def _is_field(value: Any) -> bool:
    """Whether a further site of a ``run.json`` is a name and its values."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and _are_labels(value[1])


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "symbols": _are_labels,
    "length": partial(_is_whole, 1, LONGEST),
    "blanks": lambda value: isinstance(value, str) and len(value) < 100,
    "tokens": lambda value: value in list(TOKENS),
    "window": lambda value: value is None or _is_whole(2, LONGEST, value),
    "width": lambda value: value is None or _is_whole(1, 2**20, value),
    "columns": partial(_is_list, partial(_is_whole, 0, 2**20)),
    "numbers": partial(_is_list, partial(_is_whole, -(2**31), 2**31)),
    "identity": lambda value: value is None or (isinstance(value, float) and 0 < value <= 1),
    "form": lambda value: value in ["fasta", "a2m", "text"],
    "extra": lambda value: _is_list(_is_field, value) and len({name for name, _ in value}) == len(value) < 2**10,
}
"""What each field of a ``run.json`` must be."""
