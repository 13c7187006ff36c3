"""Rows of the synthetic table that are rows of the real one: more of them than chance has?

Held-out rows say what chance has: a fresh row of the same law equals some real row about as often as one of them does
(Fisher's exact test of the two rates). A model that favors frequent rows exceeds that rate and yet copies nothing; so a
second question is asked whose answer does not depend on the model: of the row values that occur once in real and
held-out rows together and also in the synthetic table, how many are real? Without copying, each is real with the
probability ``n_real / (n_real + n_holdout)``, as if tables had been dealt out at random (a binomial test). Both must
say so.

Without held-out rows, a real row equals some other real row as often as a fresh one would, where rows are independent;
a real table freed of its duplicates says less than that.

Texts that nearly all differ in the real table, such as names and addresses, may be copied cell by cell into rows that
are no copies: columns of them whose synthetic values nearly all stand in the real one are named.
"""

from statistics import NormalDist
from typing import Any

import numpy as np

from concrete_score.comparison.findings import LEVEL, Finding, Part, Task, listed, percent, probability
from concrete_score.comparison.tables import CATEGORY, HOLDOUT, LEAST, REAL, SYNTHETIC, Column, Tables
from concrete_score.data.frame import Array
from concrete_score.errors import Option

TESTS = 3
"""Tests of privacy that share `LEVEL`: copies, all nearest rows, the closest of them."""
DIFFERENT, COPIED = 0.8, 0.95
"""Which share of a column's real texts differs from one another, and of its synthetic ones is real, if it is copied."""


def copies(task: Task) -> Part:
    """The share of synthetic rows that are real rows, beside the share that chance has."""
    tables = task.tables
    ids = tables.row_ids
    hits = int(np.isin(ids[SYNTHETIC], ids[REAL]).sum())
    found: dict[str, Any] = {"rows": hits, **_share("rate", hits, tables.rows[SYNTHETIC])}
    found |= _against_holdout(tables, hits) if tables.has_holdout else _against_itself(tables, hits)
    found["same_rows"] = np.array_equal(np.sort(ids[REAL]), np.sort(ids[SYNTHETIC]))
    found["flagged"] = found["same_rows"] or bool(found["p_value"] < LEVEL / TESTS)
    found["copied_columns"] = [each.name for each in (*tables.columns, *tables.aside) if _is_copied(each)]
    findings = [Finding("copies", _sentence(found), found["flagged"])]
    if found["copied_columns"]:
        names = listed([repr(name) for name in found["copied_columns"]])
        text = f"Values of {names}, which nearly all differ, are copied from real rows: to leave them out, fit with "
        findings.append(Finding("copies", (text, Option("drop", found["copied_columns"]), ".")))
    return Part({"copies": found}, tuple(findings))


def _is_copied(column: Column) -> bool:
    """Whether a category's values nearly all differ in the real table, and nearly all synthetic ones are among them."""
    if column.kind != CATEGORY:
        return False
    real, synthetic = (column.cells[table][~column.blank(table)] for table in (REAL, SYNTHETIC))
    distinct = len(np.unique(real))
    differ = len(real) >= LEAST and distinct >= DIFFERENT * len(real) and len(synthetic) > 0
    return differ and float(np.isin(synthetic, real).mean()) >= COPIED


def _against_holdout(tables: Tables, hits: int) -> dict[str, Any]:
    from scipy import stats  # half a second that no fit needs to wait for

    real, synthetic, holdout = tables.row_ids
    n, m = tables.rows[SYNTHETIC], tables.rows[HOLDOUT]
    chance = int(np.isin(holdout, real).sum())
    rates = float(stats.hypergeom.sf(hits - 1, n + m, hits + chance, n))
    once_real = _occurring_once(real, holdout, synthetic)
    once_held = _occurring_once(holdout, real, synthetic)
    share = tables.rows[REAL] / (tables.rows[REAL] + m)
    dealt = float(stats.binom.sf(once_real - 1, once_real + once_held, share))
    found = {"baseline": "holdout", **_share("chance_rate", chance, m)}
    found |= {"single_real": once_real, "single_holdout": once_held, "single_chance": share}
    return {**found, "p_value": max(rates, dealt)}


def _against_itself(tables: Tables, hits: int) -> dict[str, Any]:
    """The rate of real rows that occur more than once, its variance by leaving out one row at a time."""
    counts = np.bincount(tables.row_ids[REAL])
    counts = counts[counts > 0]
    n, m = tables.rows[SYNTHETIC], tables.rows[REAL]
    repeated = int(counts[counts > 1].sum())
    # Without one of a pair of equal rows two fewer are repeated, without one of more one fewer.
    stderr = float(np.sqrt(4 * counts[counts == 2].sum() + counts[counts > 2].sum())) / m
    rate, chance = hits / n, repeated / m
    pooled = (hits + repeated) / (n + m)
    error = np.sqrt(max(pooled * (1 - pooled), 1 / (n + m)) / n + max(stderr, 1 / m) ** 2)
    p_value = 1 - NormalDist().cdf((rate - chance) / error)
    return {"baseline": "real", "chance_rate": chance, "chance_rate_stderr": stderr, "p_value": p_value}


def _occurring_once(here: Array, there: Array, wanted: Array) -> int:
    """How many row values of ``wanted`` occur once ``here`` and not ``there``."""
    values, counts = np.unique(here, return_counts=True)
    once = values[(counts == 1) & ~np.isin(values, there)]
    return int(np.isin(once, wanted).sum())


def _share(name: str, hits: int, rows: int) -> dict[str, float]:
    share = hits / rows
    return {name: share, f"{name}_stderr": float(np.sqrt(share * (1 - share) / rows))}


def _sentence(found: dict[str, Any]) -> str:
    if found["same_rows"]:
        return "The two tables are the same rows, each as often in the one as in the other."
    rate = f"{percent(found['rate'])} ± {percent(found['rate_stderr'])} of the synthetic rows are real rows"
    chance = f"{percent(found['chance_rate'])} ± {percent(found['chance_rate_stderr'])}"
    verdict = "more than chance" if found["flagged"] else "no more than chance"
    if found["baseline"] == "holdout":
        return f"{rate}, as are {chance} of the held-out rows: {verdict} ({probability(found['p_value'])})."
    return (
        f"{rate}; {chance} of the real rows occur there more than once, as often as fresh rows would: {verdict}"
        f" ({probability(found['p_value'])}). Held-out rows would judge this better."
    )
