"""Known tables of numbers, small: the default fit comes near the true likelihood of the original values."""

import polars as pl
import torch

from concrete_score.experiments import numbers
from concrete_score.experiments.result import Settings
from concrete_score.randomness import generator
from concrete_score.targets.numbers import random_mixed_table


def test_a_known_table_is_approached(tmp_path):
    found = numbers.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    value = found.ours["6-columns-0-leaves"]
    assert value["gap"] > 0
    assert value["numbers"] == sum(each is not None for each in random_mixed_table(6, 2, _truth()).components)
    # Stored units are not done again.
    assert numbers.run(Settings(quick=True, store=tmp_path)).ours == found.ours


def test_rows_become_words_and_decimals():
    table = random_mixed_table(6, 2, _truth())
    rows = table.sample(50, generator(0, "rows"))
    frame = numbers.as_table(table, rows)
    for d, laws in enumerate(table.components):
        if laws is None:
            assert frame[f"c{d}"].to_list() == [f"v{each}" for each in rows[:, d].tolist()]
        else:
            assert frame[f"c{d}"].dtype == pl.Float64
            again = (torch.from_numpy(frame[f"c{d}"].to_numpy().copy()) * 100).round().long()
            assert torch.equal(again, rows[:, d])


def _truth():
    return generator(0, "table of 6 columns")
