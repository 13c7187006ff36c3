"""Numbers and dates: laws that sum to one on the whole grid, draws that stay in their cells, conditions by counting."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.codecs import TableCodec
from concrete_score.codecs.cells import Column
from concrete_score.codecs.columns import UNKNOWN, column_from_json
from concrete_score.codecs.conditions import Condition
from concrete_score.codecs.dates import Date
from concrete_score.codecs.numbers import Number
from concrete_score.codecs.ranges import LIMIT, grid_digits, intervals
from concrete_score.data.dates import find_format, find_formats
from concrete_score.errors import InputError

keys = st.lists(st.integers(-50, 50) | st.sampled_from([0, 7]), min_size=2, max_size=80).filter(
    lambda x: len(set(x)) > 1
)
GRID = np.arange(-3000, 3001)


def probability(column, points=GRID):
    """``(V, K)``: the probability of each grid point inside each cell."""
    cell, each = column.cell_of(points), np.exp(column.log_points(points))
    return np.where(cell == np.arange(column.size)[:, None], each, 0.0)


@given(keys)
def test_inside_every_cell_the_grid_has_probability_one(values):
    column = Number.fit("a", np.array(values))
    total = probability(column).sum(1)
    # The tails go on for ever; what lies beyond 3,000 is at most what is given to all values not seen.
    rows = np.bincount(column.cell_of(np.array(values)), minlength=column.size)
    assert (total <= 1 + 1e-9).all()
    assert (total >= 1 - 1 / (rows + 1)).all()
    assert column_from_json(json.loads(json.dumps(column.to_json())), "c") == column


@given(keys, st.integers(0, 2**32))
def test_draws_and_middles_stay_in_their_cells_and_labels_name_them(values, seed):
    column = Number.fit("a", np.array(values))
    codes = np.repeat(np.arange(column.size), 20)
    assert (column.cell_of(column.drawn(codes, np.random.default_rng(seed), None)) == codes).all()
    assert (column.cell_of(column.middles) == np.arange(column.size)).all()
    assert [column.place(label) for label in column.labels] == list(range(column.size))
    assert len(set(column.labels)) == column.size


@given(keys)
def test_a_cells_size_is_that_of_a_typical_number_of_it(values):
    """A range whose rows prefer some of its points is as large as those, or a change into it looks too probable."""
    column = Number.fit("a", np.array(values))
    law = probability(column, np.arange(min(values), max(values) + 1))
    held = law.sum(1)
    wanted = -(law * np.log(np.where(law > 0, law, 1.0))).sum(1) / held.clip(1e-300)
    some = held > 0
    np.testing.assert_allclose(column.log_sizes[some], wanted[some], atol=1e-9)
    law = probability(column)  # but for what lies beyond 3,000
    whole = -(law * np.log(np.where(law > 0, law, 1.0))).sum(1)
    assert (column.log_sizes[~some] >= whole[~some]).all()
    assert (column.log_sizes[~some] > 0).all()


@given(
    keys,
    st.sampled_from(["<", "<=", ">", ">=", "=", "!=", "in"]),
    st.lists(st.integers(-60, 60), min_size=1, max_size=3),
)
def test_evidence_is_what_counting_the_grid_gives(values, operator, texts):
    column = Number.fit("a", np.array(values))
    chosen = texts if operator == "in" else texts[:1]
    conditions = [Condition(0, operator, tuple(map(str, chosen)))]
    allowed = column.allowed(conditions)
    holds = {
        "<": chosen[0] > GRID,
        "<=": chosen[0] >= GRID,
        ">": chosen[0] < GRID,
        ">=": chosen[0] <= GRID,
        "=": chosen[0] == GRID,
        "!=": chosen[0] != GRID,
        "in": np.isin(GRID, chosen),
    }[operator]
    inside = probability(column)
    beyond = 1 - inside.sum(1)
    found = np.exp(column.log_evidence(conditions))
    low, high = (inside * holds).sum(1), (inside * holds).sum(1) + beyond
    assert (found >= low - 1e-9).all()
    assert (found <= high + 1e-9).all()
    possible = np.flatnonzero(found > 1e-6)
    if len(possible):
        drawn = column.drawn(np.repeat(possible, 10), np.random.default_rng(0), allowed)
        inside_grid = np.abs(drawn) <= 3000
        assert holds[drawn[inside_grid] + 3000].all()
        assert (column.cell_of(drawn) == np.repeat(possible, 10)).all()


COLUMNS = {
    "few values, the rarest ones below": [0.0] * 6 + [4.0] * 273 + [4.4, 4.5],
    "two values, one of them rare": [4.0] * 278 + [4.5] * 3,
    "few values, rare ones on both sides": [0.0] * 2 + [4.0] * 275 + [4.3] + [4.5] * 3,
    "atoms alone": [float(k) for k in range(3) for _ in range(40)],
    "few rows of many digits": np.random.default_rng(0).normal(0, 2, 64).round(3).tolist(),
    "heaped": np.concatenate([np.random.default_rng(1).gamma(2, 9, 900).round(1), np.full(300, 5.0)]).tolist(),
    "many rows": np.random.default_rng(2).normal(50, 9, 5000).round(4).tolist(),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_only_conditions_that_leave_nothing_else_are_met_by_numbers_beyond_the_training_range(values):
    cells = Column(pl.Series("a", values))
    column = Number.of(cells)
    every = np.arange(column.size).repeat(500)  # any cell, the ones that no row has with the others
    drawn = column.decode(every, np.random.default_rng(0)).to_numpy()
    assert min(values) <= drawn.min() <= drawn.max() <= max(values)
    middle = float(np.median(values))
    above = [Condition(0, ">=", (str(middle),))]
    likely = np.flatnonzero(np.exp(column.log_evidence(above))).repeat(500)
    drawn = column.decode(likely, np.random.default_rng(0), above).to_numpy()
    assert middle <= drawn.min() <= drawn.max() <= max(values)
    for beyond in ([Condition(0, ">", (str(max(values)),))], [Condition(0, "<", (str(min(values)),))]):
        possible = np.flatnonzero(np.exp(column.log_evidence(beyond)))
        assert len(possible)
        drawn = column.decode(possible.repeat(100), np.random.default_rng(0), beyond).to_numpy()
        assert (drawn > max(values)).all() if beyond[0].operator == ">" else (drawn < min(values)).all()


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_every_cell_holds_numbers_of_the_training_range_where_not_all_of_them_are_atoms(values):
    column = Number.of(Column(pl.Series("a", values)))
    low, high = column.span
    held = np.unique(column.cell_of(np.arange(low, high + 1)))
    assert column.size - len(held) == (len(set(values)) == 3 and min(map(values.count, values)) >= 30)


def test_a_date_beyond_the_training_range_is_drawn_only_where_a_condition_asks_for_one():
    days = pl.Series("day", np.datetime64("2020-01-01") + np.arange(3).repeat(40))
    column = Date.of(Column(days.cast(pl.String)))
    every = np.arange(column.size).repeat(200)
    drawn = column.decode(every, np.random.default_rng(0))
    assert sorted(set(drawn.to_list())) == ["2020-01-01", "2020-01-02", "2020-01-03"]
    later = [Condition(0, ">", ("2020-01-03",))]
    possible = np.flatnonzero(np.exp(column.log_evidence(later))).repeat(50)
    assert min(column.decode(possible, np.random.default_rng(0), later).to_list()) > "2020-01-03"


def test_a_value_between_grid_points_is_met_by_none_and_divides_them():
    column = Number.fit("a", np.arange(10), digits=0)

    def allowed(operator, text):
        return column.allowed([Condition(0, operator, (text,))])

    assert allowed("=", "2.5") == ()
    assert allowed("<", "2.5") == allowed("<=", "2.5") == ((-LIMIT, 2),)
    assert allowed(">", "2.5") == allowed(">=", "2.5") == ((3, LIMIT),)
    assert allowed("!=", "2.5") == ((-LIMIT, LIMIT),)
    with pytest.raises(InputError, match="a number for 'a'"):
        allowed("=", "x")
    both = [Condition(0, ">=", ("3",)), Condition(0, "<", ("5",))]
    assert column.allowed(both) == ((3, 4),)
    drawn = column.decode(
        np.repeat(np.flatnonzero(np.exp(column.log_evidence(both))), 50), np.random.default_rng(0), both
    )
    assert set(drawn.to_list()) <= {3, 4}
    assert intervals("!=", [(3, 3)]) == ((-LIMIT, 2), (4, LIMIT))


def test_numbers_come_back_in_their_own_resolution_and_law():
    rng = np.random.default_rng(0)
    values = np.round(np.where(rng.random(20_000) < 0.2, 0.0, rng.gamma(2, 3, 20_000)), 2)
    column = Number.of(Column(pl.Series("x", values)))
    assert (column.digits, column.labels[0]) == (2, "0")
    cells = Column(pl.Series("x", values))
    drawn = column.decode(column.encode(cells), np.random.default_rng(1))
    assert drawn.dtype == pl.Float64
    assert (drawn.round(2) == drawn).all()
    points = np.unique(np.concatenate([values, drawn.to_numpy()]))
    ends = [np.searchsorted(np.sort(each), points, side="right") / len(values) for each in (values, drawn.to_numpy())]
    assert np.abs(ends[0] - ends[1]).max() < 0.006
    # The cross-entropy of fresh draws is near that of the true law on the grid.
    fresh = np.round(np.where(rng.random(20_000) < 0.2, 0.0, rng.gamma(2, 3, 20_000)), 2)
    fresh_cells = Column(pl.Series("x", fresh))
    codes = column.encode(fresh_cells)
    shares = np.bincount(column.encode(cells), minlength=column.size) / len(values)
    ours = (np.log(shares[codes]) + column.log_inside(fresh_cells)).mean()
    from scipy.stats import gamma

    inside = gamma.cdf(fresh + 0.005, 2, scale=3) - gamma.cdf(np.maximum(fresh - 0.005, 0), 2, scale=3)
    truth = np.log(0.8 * inside + 0.2 * (fresh == 0)).mean()
    assert truth - 0.02 < ours < truth + 0.02


def test_values_beyond_the_training_range_have_a_tail_and_words_are_unknown():
    column = Number.fit("age", np.arange(18, 90).repeat(10))
    cells = Column(pl.Series("age", ["17", "95", "1000", "-4", "x", None]))
    assert column.encode(cells)[-2] == UNKNOWN
    inside = column.log_inside(Column(pl.Series("age", [17, 95, 1000, 10**15, -4])))
    assert np.isfinite(inside).all()
    assert (np.diff(inside[1:4]) < 0).all()
    assert inside[4] < inside[0]


def test_the_grid_is_found_in_the_values():
    assert grid_digits(np.array([0.5, 1.25])) == 2
    assert grid_digits(np.arange(0.0, 5000, 100)) == -2
    assert grid_digits(np.array([1.0, 2.0])) == 0
    continuous = np.random.default_rng(0).normal(size=100)
    assert 8 <= grid_digits(continuous) <= 10
    big = Number.of(Column(pl.Series("id", [2**53 + k for k in range(40)])))
    assert big.decode(big.encode(Column(pl.Series("id", [2**53 + 1])))).dtype == pl.Int64
    assert big.cell_of(np.array([2**53 + 1])) == 0


def test_a_mean_a_median_and_a_mode_fill_a_number():
    column = Number.fit("a", np.array([0] * 50 + [10] * 30 + [100] * 30), digits=1, decimal=True)
    chance = {"0": 0.5, "1": 0.3, "10": 0.2}
    probs = np.log(np.array([[chance.get(label, 1e-12) for label in column.labels]]))
    assert column.summary(probs, "mean").to_list() == [2.3]
    assert column.summary(probs, "median").to_list()[0] in (0.0, 1.0)
    assert column.summary(probs, "mode").to_list() == [0.0]


@pytest.mark.parametrize(
    ("texts", "form", "what"),
    [
        (["2024-01-31", "2023-12-01"], "%Y-%m-%d", "date"),
        (["1/31/2024", "12/1/2023"], "%-m/%-d/%Y", "date"),
        (["31/01/2024", "01/12/2023"], "%d/%m/%Y", "date"),
        (["2024-01-31T10:00:00Z", "2024-01-31T11:30:00Z"], "%Y-%m-%dT%H:%M:%SZ", "datetime"),
        (["10:30", "23:59"], "%H:%M", "time"),
        (["31 Jan 2024", "01 Feb 2024"], "%d %b %Y", "date"),
        (["Jan 1 2000", "Feb 1 2000"], "%b %-d %Y", "date"),
        (["1:05 PM", "12:30 AM"], "%-I:%M %p", "time"),
        (["1/2/2020 5:15 PM", "12/31/2020 11:00 AM"], "%-m/%-d/%Y %-I:%M %p", "datetime"),
        (["2024-01-31T10:00:00+02:00", "2024-07-31T11:30:00+02:00"], "%Y-%m-%dT%H:%M:%S+02:00", "datetime"),
    ],
)
def test_dates_keep_their_format_and_resolution(texts, form, what):
    assert find_format(pl.Series(texts)) == (form, what)
    column = Date.of(Column(pl.Series("d", texts * 30)))
    cells = Column(pl.Series("d", texts))
    codes = column.encode(cells)
    drawn = column.decode(codes, np.random.default_rng(0))
    assert find_format(drawn) == (form, what)
    assert drawn.to_list() == texts  # both are atoms
    assert np.isfinite(column.log_inside(cells)).all()
    assert column_from_json(json.loads(json.dumps(column.to_json())), "c") == column
    assert np.exp(column.log_evidence([Condition(0, ">=", (max(texts),))])).max() <= 1


def test_dates_of_two_formats_are_dates_where_they_cannot_be_confused():
    texts = [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(60)]
    texts += [f"{1 + k % 28:02d}/{1 + k % 12:02d}/2024" for k in range(30)]
    column = Date.of(Column(pl.Series("d", texts)))
    assert (column.form, column.others) == ("%Y-%m-%d", ("%d/%m/%Y",))
    assert column.place("2024-03-15") == column.place("15/03/2024")
    assert find_format(column.decode(np.arange(column.size), np.random.default_rng(0))) == ("%Y-%m-%d", "date")
    assert column_from_json(json.loads(json.dumps(column.to_json())), "c") == column
    assert find_format(pl.Series(["2024-01-31", "31.01.2024"])) is None
    assert find_format(pl.Series(["a-1", "b-2"])) is None
    confused = [f"{a:02d}/{b:02d}/2024" for a in range(1, 29) for b in (1, 2, 13)] + ["01/31/2024"]
    assert find_formats(pl.Series(confused)) is None


def test_years_of_two_digits_are_not_years_of_our_lord():
    assert find_format(pl.Series(["19-Sep-03", "01-Oct-03"])) == ("%d-%b-%y", "date")
    assert find_format(pl.Series(["01/31/24", "02/03/24"])) == ("%m/%d/%y", "date")


def test_whole_numbers_are_dates_where_all_of_them_can_be():
    days = [20240000 + 100 * (1 + k % 12) + 1 + k % 28 for k in range(90)]
    column = Date.of(Column(pl.Series("d", days)))
    assert Date.of(Column(pl.Series("d", days).cast(pl.String))) == column
    assert Date.of(Column(pl.Series("d", days).cast(pl.String), typed=True)) is None  # text that is known to be text
    drawn = column.decode(np.arange(column.size).repeat(50), np.random.default_rng(0))
    assert drawn.dtype == pl.Int64
    assert find_format(drawn) == ("%Y%m%d", "date")
    assert Date.of(Column(pl.Series("d", [*days, 20240230]))) is None


@pytest.mark.parametrize(
    ("condition", "dates"),
    [
        ((">=", "2024-03"), 61),
        ((">", "2024-03"), 30),
        (("<", "2024-03-01"), 60),
        (("<=", "2024-02"), 60),
        (("=", "2024-02-10"), 1),
        (("=", "2024-02"), 29),
        (("!=", "2024"), 0),
    ],
)
def test_a_condition_on_a_date_may_name_a_month_or_year(condition, dates):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 30), eager=True).rename("d")
    for cells in (days, days.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M")):
        column = Date.of(Column(cells))
        operator, value = condition
        allowed = column.allowed([Condition(0, operator, (value,))])
        inside = column.number.span
        points = sum(min(b, inside[1]) - max(a, inside[0]) + 1 for a, b in allowed if b >= inside[0] and a <= inside[1])
        assert points == dates


@pytest.mark.parametrize(
    ("form", "text", "span"),
    [
        ("%b %-d %Y", "Feb 2024", ("2024-02-01", "2024-02-29")),
        ("%b %-d %Y", "2/3/2024", ("2024-02-03", "2024-02-03")),
        ("%Y-%m-%d", "march 2024", ("2024-03-01", "2024-03-31")),
        ("%d.%m.%Y", "2/3/2024", ("2024-03-02", "2024-03-02")),
        ("%-m/%-d/%y", "2/3/2024", ("2024-02-03", "2024-02-03")),
        ("%-m/%-d/%y", "13 Jan 2024", ("2024-01-13", "2024-01-13")),
    ],
)
def test_a_date_of_a_condition_is_read_in_the_order_of_the_column(form, text, span):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 30), eager=True).rename("d")
    column = Date.of(Column(days.dt.strftime(form)))
    assert column.form == form
    first, last = (int(np.datetime64(day).astype(int)) for day in span)
    assert column.allowed([Condition(0, "=", (text,))]) == ((first, last),)


@pytest.mark.parametrize(
    ("form", "text"), [("%-m/%-d/%y", "13/1/24"), ("%d.%m.%Y", "1/13/2024"), ("%Y-%m-%d", "1/2/2024")]
)
def test_a_date_of_a_condition_that_is_none_in_the_order_of_the_column_is_refused_with_an_example(form, text):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 30), eager=True).rename("d")
    column = Date.of(Column(days.dt.strftime(form)))
    words = f"such as {days.dt.strftime(form)[-1]}, or a day, month or year such as 2024-04-30, 2024-04 or 2024, got"
    with pytest.raises(InputError, match=words):
        column.allowed([Condition(0, ">", (text,))])


def test_the_first_days_of_months_are_a_grid_of_months():
    months = pl.date_range(pl.date(1965, 1, 1), pl.date(1974, 12, 1), "1mo", eager=True).rename("d")
    for cells in (months, months.dt.strftime("%b %-d %Y")):
        column = Date.of(Column(cells))
        assert column.number.span == (-60, 59)
        assert column_from_json(json.loads(json.dumps(column.to_json())), "c") == column
        drawn = column.decode(np.arange(column.size).repeat(50), np.random.default_rng(0))
        assert drawn.is_in(cells.implode()).all()
        assert (column.encode(Column(drawn)) == np.arange(column.size).repeat(50)).all()
        assert column.allowed([Condition(0, "=", ("1966-02",))]) == ((-47, -47),)
        assert column.allowed([Condition(0, ">", ("1966-02-10",))]) == ((-46, LIMIT),)
        assert column.allowed([Condition(0, "=", ("1966-02-10",))]) == ()
    quick = Date.of(Column(months)).quick(months)
    assert (quick.codes == Date.of(Column(months)).encode(Column(months))).all()
    assert Date.of(Column(pl.concat([months, pl.Series([months[0] + dt.timedelta(1)])]))).number.span[1] > 1000


@pytest.mark.parametrize(
    ("values", "text", "words"),
    [
        (np.arange(1, 45), "12.5", "a value of 'a', which has whole numbers only, got 12.5"),
        (np.arange(100) / 10, "1.25", "multiples of 0.1 only"),
        (np.arange(0, 9000, 100), "250", "multiples of 100 only"),
    ],
)
def test_a_value_that_the_grid_cannot_hold_is_refused(values, text, words):
    column = Number.of(Column(pl.Series("a", values)))
    for operator in ("=", "in"):
        with pytest.raises(InputError, match=words):
            column.log_evidence([Condition(0, operator, (text,))])
    assert np.isfinite(column.log_evidence([Condition(0, ">", (text,))])).any()


def test_conditions_that_leave_only_values_beyond_the_training_rows_are_told():
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 30), eager=True)
    table = pl.DataFrame({"age": [k % 44 + 1 for k in range(len(days))], "day": days, "sex": [0, 1] * 60 + [0]})
    codec = TableCodec.fit(table)
    told = "no training row has {}: its values are extrapolated".format
    assert codec.extrapolated(["age>200", "sex=1", "day>=2030"]) == [
        told("'age' above 44"),
        told("'day' above 2024-04-30"),
    ]
    assert codec.extrapolated(["age<1"]) == [told("'age' below 1")]
    assert codec.extrapolated({"age": [0, 45]}) == [told("'age' outside 1 to 44")]
    assert codec.extrapolated(["age>30", "age!=44", "day<2025"]) == codec.extrapolated(None) == []
