"""How sequences are to be read: alphabets by name or inferred, letters that count as blank, tokens and windows."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from concrete_score.codecs.base import check_choice
from concrete_score.data.sequences import GAP, Sequences
from concrete_score.errors import InputError, Option, check_count

LETTERS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT", "rna": "ACGU"}
"""Alphabets by name."""
AMBIGUOUS = {"protein": "BJOUXZ*", "dna": "BDHKMNRSVWXY", "rna": "BDHKMNRSVWXY"}
"""Letters that stand for several of an alphabet: such a cell counts as blank."""
BLANK = "?"
"""A cell that is not known; of texts that hold this letter, `_`."""
TOKENS = ("characters", "words")
GAPS = ("letter", "blank")
MOST_WORDS = 4095
"""Words that are told apart, the most frequent ones; others count as blanks."""
LONGEST, MOST_VALUES = 2**16, 2**12
"""An untrusted ``run.json`` must not fill the memory."""


@dataclass(frozen=True)
class SequenceOptions:
    """How sequences are to be read.

    Args:
        alphabet: ``protein, dna, rna``, or the letters themselves; inferred by default.
        tokens: of text, ``characters`` or ``words``.
        window: of text, so many tokens an example, lines running on; a line an example by default.
        focus: of an alignment in A2M, the name of the sequence that numbers its columns; the first by default.
        weights: ``identity=0.8``: a sequence counts as one over the number of those equal to it in so large a share of
            the sites.
        gaps: of an alignment, ``letter``: a gap is a value like the others, or ``blank``: nothing was observed; by
            default blank in A2M, whose sequences are fragments of one family, and a letter in aligned FASTA.
        extra: names of fields ``NAME=VALUE`` in the header lines of FASTA, one a sequence, modelled beside its letters.
        missing: sequences with blank cells: ``drop`` them, ``refuse`` them, or keep them as ``unobserved``.
    """

    alphabet: Any = None
    tokens: Any = TOKENS[0]
    window: Any = None
    focus: Any = None
    weights: Any = None
    gaps: Any = None
    extra: Any = None
    missing: Any = None

    def __post_init__(self) -> None:
        check_choice(self.tokens, TOKENS, "tokens")
        if self.missing is not None:
            check_choice(self.missing, ("drop", "refuse", "unobserved"), "missing")
        if self.gaps is not None:
            check_choice(self.gaps, GAPS, "gaps")
        if self.window is not None:
            check_count(self.window, Option("window"), 2, LONGEST)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of ``extra``: a list, or a text with commas."""
        listed = self.extra.split(",") if isinstance(self.extra, str) else self.extra or ()
        return tuple(str(name).strip() for name in listed)

    @property
    def identity(self) -> float | None:
        """The share of equal sites from which two sequences are taken for copies; None without weights."""
        if self.weights is None:
            return None
        name, _, share = str(self.weights).partition("=")
        try:
            value = float(share)
        except ValueError:
            value = -1.0
        if name != "identity" or not 0 < value <= 1:
            expected = "identity=SHARE, a share of equal sites from 0 to 1"
            raise InputError(expected, repr(self.weights), Option("weights"), ("for example ", _IDENTITY))
        return value


_IDENTITY = Option("weights", "identity=0.8")


def alphabet_of(rows: list[list[str]], data: Sequences, chosen: SequenceOptions) -> tuple[tuple[str, ...], str]:
    """The values of a site in order, and the letters that count as blank.

    Raises:
        InputError: letters outside the alphabet; one of them is named with its place.
    """
    count = Counter(token for row in rows for token in row)
    if chosen.alphabet is None and data.form.kind == "text":
        kept = [token for token, _ in count.most_common(MOST_WORDS if chosen.tokens == "words" else None)]
        if len(kept) > MOST_VALUES:
            raise InputError(f"at most {MOST_VALUES:,} characters", f"{len(kept):,}", where=data.where)
        return tuple(sorted(kept)), next((mark for mark in (BLANK, "_") if mark not in count), "")
    name = chosen.alphabet if chosen.alphabet is not None else _guess(count)
    letters = LETTERS.get(name, name)
    blanks = AMBIGUOUS.get(name, "") + ("" if BLANK in letters else BLANK)
    gap = GAP in count and GAP not in letters
    observed = (chosen.gaps or ("blank" if data.form.kind == "a2m" else "letter")) == "letter"
    symbols = (*([GAP] if gap and observed else []), *dict.fromkeys(letters))
    blanks += GAP if gap and not observed else ""
    known = {*symbols, *blanks}
    for row, tokens in enumerate(rows):
        for place, token in enumerate(tokens):
            if token not in known:
                where = f"{data.where}: {data.called(row)}, letter {place + 1}"
                raise InputError(f"letters of {''.join(symbols)}", repr(token), where, Option("alphabet"))
    return symbols, blanks


def _guess(count: Counter[str]) -> str:
    """The alphabet that letters are of: nucleotides where nine tenths are A, C, G, T or U."""
    total = sum(count.values()) - count[GAP] - count[BLANK]
    if sum(count[letter] for letter in "ACGTU") < 0.9 * total:
        return "protein"
    return "rna" if count["U"] > count["T"] else "dna"
