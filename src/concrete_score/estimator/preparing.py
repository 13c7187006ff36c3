"""From a person's tables to the states a model learns from."""

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from concrete_score.data import Frame, TableCodec
from concrete_score.data.held_out import digest, hold_out
from concrete_score.errors import InputError
from concrete_score.estimator.tables import held_out_table, options, training_table


class Prepared(NamedTuple):
    """States to learn from and to judge by, with what identifies them."""

    codec: TableCodec
    names: tuple[str, ...]
    """Of all columns that came."""
    rows: Tensor
    valid: Tensor
    facts: dict[str, Any]
    """``{rows, sha256, valid}``, as in ``run.json``."""
    reading: dict[str, Any]
    """``{valid_fraction, missing}``, likewise."""


def prepare(estimator: Any, X: Any, valid: Any, seed: int) -> Prepared:
    """The table as the estimator's parameters want it read; without ``valid``, a share of it is held out.

    Raises:
        ValueError: it is no table of categories; all that mends it is named.
        TypeError: a sparse matrix.
    """
    missing = estimator.missing
    frame = training_table(estimator, X, missing)
    codec = TableCodec.fit(frame, options(frame, estimator.bins, missing, estimator.max_categories))
    states = _encoded(codec, frame, missing)
    facts: dict[str, Any] = {"rows": len(states), "sha256": digest(states), "valid": None}
    reading = {"valid_fraction": _share(estimator.valid_fraction), "missing": missing}
    if valid is None:
        return Prepared(codec, frame.names, *hold_out(states, reading["valid_fraction"], seed), facts, reading)
    judged = _encoded(codec, held_out_table(estimator, valid, codec), missing)
    facts["valid"] = {"rows": len(judged), "sha256": digest(judged)}
    return Prepared(codec, frame.names, states, judged, facts, reading)


def _encoded(codec: TableCodec, frame: Frame, missing: str) -> Tensor:
    return codec.encode(frame, missing="drop" if missing == "drop" else "refuse").states


def _share(value: Any) -> float:
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise InputError("a share between 0 and 1", repr(value), where="valid_fraction")
    return float(value)
