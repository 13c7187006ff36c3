"""Two tables compared: how much alike, how useful, and how private; every part is a file, and a line here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from concrete_score.comparison.copies import copies
from concrete_score.comparison.findings import Finding, Part, Task, Update
from concrete_score.comparison.membership import membership
from concrete_score.comparison.nearest import nearest
from concrete_score.comparison.resemblance import resemblance
from concrete_score.comparison.tables import ROLES, Tables, align
from concrete_score.comparison.two_sample import two_sample
from concrete_score.comparison.usefulness import usefulness
from concrete_score.data import Images, as_frame
from concrete_score.data.frame import Array
from concrete_score.errors import PYTHON, InputError, Skin, spell

MakePart = Callable[[Task], Part]
PARTS: Mapping[str, MakePart] = {
    "resemblance": resemblance,
    "two_sample": two_sample,
    "usefulness": usefulness,
    "copies": copies,
    "nearest": nearest,
    "membership": membership,
}
"""In the order of what they say."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found about a synthetic table."""

    tables: Tables
    parts: tuple[Part, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One plain sentence each, with its error."""
        return tuple(finding for part in self.parts for finding in part.findings)

    def values(self) -> dict[str, Any]:
        """The values of every part, by key."""
        return {key: value for part in self.parts for key, value in part.values.items()}

    def to_json(self, skin: Skin = PYTHON) -> dict[str, Any]:
        """Numbers of rows, notes, the values of every part, and the findings in a skin's words."""
        rows = dict.fromkeys(ROLES) | dict(zip(ROLES, self.tables.rows, strict=False))
        findings = [
            {"part": each.part, "flagged": each.flagged, "text": spell(each.text, skin, bare=True)}
            for each in self.findings
        ]
        return {"rows": rows, "notes": list(self.tables.notes), **self.values(), "findings": findings}


def compare(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    target: str | None = None,
    columns: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    na: Sequence[str] | None = None,
    scores: tuple[Array, Array] | None = None,
    seed: int = 0,
    update: Update | None = None,
    parts: Sequence[str] = tuple(PARTS),
) -> Comparison:
    """A synthetic table beside the real one that its maker learned from.

    Args:
        real: a data frame, an array ``(N, D)``, or a table read by `concrete_score.data.load`.
        synthetic: likewise, of the same columns, and so is ``holdout``: real rows that the maker has not seen.
        holdout: needed for ``target``, and to judge whether rows are copied.
        target: the column to predict from the others.
        columns: what a column is (``number, date, category``) where that should not be inferred.
        drop: columns to leave out.
        na: texts that mean a blank cell; by default the usual spellings, if ``real`` is from a text file.
        scores: log-likelihoods of real rows and of held-out rows under the model that made the synthetic ones.
        seed: the same seed gives the same findings.
        update: receives progress.
        parts: names of `PARTS`, for less than all.

    Raises:
        InputError: tables of different columns, or a question that they cannot answer.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).integers(0, 3, (60, 2))
    >>> found = compare(rows, rows, parts=["resemblance"])
    >>> found.values()["shape"]["score"]
    1.0
    """
    given = [(role, data) for role, data in zip(ROLES, (real, synthetic, holdout), strict=True) if data is not None]
    for _, data in given:
        if isinstance(data, Images):
            raise InputError("a table", "images", data.where, "give rows and columns")
    frames = [as_frame(data, role) for role, data in given]
    tables = align(frames, kinds=columns, drop=drop, na=na)
    told = {"update": update} if update is not None else {}
    task = Task(tables, target, scores, seed, **told)
    return Comparison(tables, tuple(PARTS[name](task) for name in parts))
