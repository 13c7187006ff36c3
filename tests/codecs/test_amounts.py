"""Numbers written with a currency, a unit or parted thousands: read as numbers, given back as they were written."""

import re

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.codecs import TableCodec
from concrete_score.codecs.amounts import Amount
from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import column_from_json
from concrete_score.codecs.conditions import Condition
from concrete_score.codecs.numbers import Number
from concrete_score.data.amounts import Spelling, find_spelling
from concrete_score.data.frame import Form
from concrete_score.errors import InputError

SPELLINGS = [
    Spelling("$", group=",", places=2),
    Spelling(suffix="%", places=1),
    Spelling(suffix=" €", group=".", point=",", places=2),
    Spelling("USD ", group=",", places=0),
    Spelling(suffix=" min", places=0),
    Spelling(group="'", places=0),
    Spelling(suffix="\u00a0€", group="\u202f", point=",", places=2),  # spaces at which lines do not break
    Spelling(suffix="\u202f%", group="\u00a0", point=",", places=1),
]


def column_of(spelling, count=300, seed=0):
    rng = np.random.default_rng(seed)
    numbers = pl.Series("a", np.round(rng.normal(2e4, 3e4, count), spelling.places))
    return numbers, spelling.spell(numbers)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=repr)
def test_a_spelling_is_found_in_what_it_wrote_and_reads_it_back(spelling):
    numbers, texts = column_of(spelling)
    assert find_spelling(texts) == spelling
    assert spelling.plain(texts).cast(pl.Float64).to_list() == numbers.to_list()


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.sampled_from(SPELLINGS))
def test_every_number_survives_being_written(numbers, spelling):
    exact = pl.Series([n / 10**spelling.places for n in numbers])
    assert spelling.plain(spelling.spell(exact)).cast(pl.Float64).to_list() == exact.to_list()


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "2.5"],
        ["N123", "N456"],
        ["12A", "13B"],
        ["007%", "12%"],
        ["1.5", "2,5"],
        ["10.0.0.1"],
        ["1e5", "3"],
        ["a"],
    ],
)
def test_plain_numbers_and_names_have_no_spelling(texts):
    assert find_spelling(pl.Series(texts)) is None


@pytest.mark.parametrize("spelling", SPELLINGS, ids=repr)
def test_a_written_column_is_the_same_law_as_the_plain_one(spelling):
    numbers, texts = column_of(spelling)
    written, cells = Amount.of(Column(texts)), Column(texts)
    plain, bare = Number.of(Column(numbers)), Column(numbers)
    assert (written.encode(cells) == plain.encode(bare)).all()
    assert written.log_inside(cells) == pytest.approx(plain.log_inside(bare))
    codes = written.encode(cells)
    drawn, same = (each.decode(codes, np.random.default_rng(1)) for each in (written, plain))
    assert drawn.to_list() == spelling.spell(same.cast(pl.Float64)).to_list()
    text, number = texts[0], str(numbers[0])
    for value in (text, number):
        found = written.log_evidence([Condition(0, ">=", (value,))])
        assert found == pytest.approx(plain.log_evidence([Condition(0, ">=", (number,))]))
    assert column_from_json(written.to_json(), "columns[0]") == written


@pytest.mark.parametrize(
    ("spelling", "texts", "number"),
    [
        (SPELLINGS[0], ["1,000", "$1,000", "$1000", "1000.00"], "1000"),
        (SPELLINGS[2], ["1.000", "1.000 €", "1000,00", "1.000,00", "1000,00€", "1000", "1000.0"], "1000"),
        (SPELLINGS[2], ["1000,5", "1.000,5", "1000.5", "1.000,50 €"], "1000.5"),
        (SPELLINGS[5], ["1'000", "1,000", "1000"], "1000"),
        (Spelling(suffix=" €", group=" ", point=",", places=2), ["1 000,50", "1.000,5 €", "1000.5"], "1000.5"),
    ],
)
def test_a_number_of_a_condition_may_be_written_as_in_the_column_with_or_without_its_symbol(spelling, texts, number):
    column = Amount.of(Column(column_of(spelling)[1]))
    (wanted,) = column.allowed([Condition(0, ">", (number,), plain=True)])
    for text in texts:
        assert column.allowed([Condition(0, ">", (text,))]) == (wanted,), text
    with pytest.raises(InputError, match=re.escape(f"a number for 'a', such as {column.written(column.span[1])}, got")):
        column.allowed([Condition(0, ">", ("soon",))])


def test_a_programs_number_and_a_ranges_label_are_not_read_as_a_person_would():
    spelling = Spelling(suffix=" kg", group=".", point=",", places=3)
    column = Amount.of(Column(spelling.spell(pl.Series("a", [1.125] * 90 + [k / 8 for k in range(9000, 9100)]))))
    codec = TableCodec((column,), Form("csv"))
    assert column.allowed(codec.conditions({"a": 1.125})) == ((1125, 1125),)
    assert column.allowed(codec.conditions({"a": [1.125, 2]})) == ((1125, 1125), (2000, 2000))
    assert column.allowed(codec.conditions({"a": "1.126"})) == ((1126000, 1126000),)
    assert "1.125" in column.labels
    assert column.allowed(codec.conditions(["a=1.125"])) == ((1125, 1125),)
    (sign, bound), *_ = column.histogram().conditions[1]
    assert (sign, bound) == (">=", "50,000 kg")
    assert column.allowed([Condition(0, sign, (bound,))])[0][0] == 50_000


def test_a_written_column_of_a_run_is_checked():
    stored = Amount.of(Column(column_of(SPELLINGS[0])[1])).to_json()
    for wrong in (None, {"prefix": 3}, {"prefix": "$", "more": 1}, {"places": -1}, {"suffix": "x" * 99}):
        with pytest.raises(InputError, match="how numbers are written"):
            column_from_json({**stored, "spelling": wrong}, "columns[0]")
    assert torch.tensor(Amount.from_json(stored, False, "").means).isfinite().all()
