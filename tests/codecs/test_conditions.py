"""Conditions on columns: how they are written, which values meet them, and what is said of those that make no sense."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.codecs import TableCodec
from concrete_score.codecs.columns import Bins, Categories
from concrete_score.codecs.conditions import COMPARISONS, OPERATORS, Condition, split_condition, split_values
from concrete_score.codecs.image import ImageCodec
from concrete_score.data.frame import Form
from concrete_score.errors import InputError, Option

CENSUS = TableCodec(
    (
        Categories("age", "integer", (17, 30, 65, 90)),
        Categories("income", "text", ("<=50K", ">50K")),
        Categories("country", "text", ("Bonn, D", "CA", "US", "a in b")),
        Categories("ill", "boolean", (False, True)),
        Categories("age=group", "text", ("x", "y")),
        Categories("off", "text", ("0 %", "10 %", "2,5 %", "5 %"), blank=True),
        Categories("share", "text", ("0.25", "10.5", "2.5")),
    ),
    Form("csv"),
)


def left(codec, given_):
    """The values each condition's column may still take, as they stand in the table."""
    found = codec.evidence(codec.conditions(given_))
    return {
        codec.names[site]: [value for value, w in zip(codec.natives(site), weights.tolist(), strict=True) if w == 0]
        for site, weights in found.items()
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("income=>50K", ("income", "=", ">50K")),
        ("income=<=50K", ("income", "=", "<=50K")),
        ("income!=>50K", ("income", "!=", ">50K")),
        ("age>=65", ("age", ">=", "65")),
        ("age >= 65", ("age", ">=", "65")),
        ("age> 65", ("age", ">", " 65")),  # what follows the operator is the value, blanks and all
        ("age<=65", ("age", "<=", "65")),
        ("age<65", ("age", "<", "65")),
        ("age==65", ("age", "=", "=65")),
        ("age=group=x", ("age=group", "=", "x")),
        ("age=grou", ("age", "=", "grou")),
        ("country in US,CA", ("country", "in", "US,CA")),
        ("country=a in b", ("country", "=", "a in b")),
        ("age=", ("age", "=", "")),
    ],
)
def test_the_longest_name_then_the_operator_then_the_value(text, parts):
    assert split_condition(text, CENSUS.names) == parts


names = st.text("ab=<>! in", min_size=1, max_size=6).filter(lambda name: name == name.strip())


@settings(max_examples=200)
@given(st.lists(names, min_size=1, max_size=4, unique=True), st.sampled_from(OPERATORS), st.text("ab1=<> ", max_size=4))
def test_texts_are_read_back_unless_a_longer_name_fits_too(columns, sign, value):
    name = columns[0]
    text = f"{name}{sign}{value}"
    read = split_condition(text, columns)
    longer = [other for other in columns if len(other) > len(name) and text.startswith(other)]
    # The operator is the longest that fits, so that what follows a shorter one must not make it longer.
    longest = next(each for each in OPERATORS if f"{sign}{value}".startswith(each))
    if not longer:
        assert read == (name, longest, f"{sign}{value}"[len(longest) :])
    else:
        assert len(read[0]) >= len(name)


def test_lists_are_parted_by_commas_but_not_within_quotes_or_known_values():
    assert left(CENSUS, ["country in US,CA"]) == {"country": ["CA", "US"]}
    assert left(CENSUS, ["country in US, Bonn, D"]) == {"country": ["Bonn, D", "US"]}
    assert left(CENSUS, ['country in "Bonn, D",CA']) == {"country": ["Bonn, D", "CA"]}
    assert left(CENSUS, ["country in a in b"]) == {"country": ["a in b"]}
    assert left(CENSUS, ["age in 17,90"]) == {"age": [17, 90]}
    assert split_values("", lambda text: None) == ("",)


@pytest.mark.parametrize(
    ("given_", "found"),
    [
        (["age>=65"], {"age": [65, 90]}),
        (["age>17", "age<90", "age!=30"], {"age": [65]}),
        (["age<65.5"], {"age": [17, 30, 65]}),
        (["country<Z"], {"country": ["Bonn, D", "CA", "US"]}),  # by code point: capitals come first
        (["off>=5 %"], {"off": ["10 %", "5 %"]}),
        (["off>5"], {"off": ["10 %"]}),
        (["off<=2,5"], {"off": ["0 %", "2,5 %"]}),
        (["share>2"], {"share": ["10.5", "2.5"]}),
        (["ill>=true"], {"ill": [True]}),
        (["ill=1", "income=>50K"], {"ill": [True], "income": [">50K"]}),
        ({"age": [17, 65], "ill": True}, {"age": [17, 65], "ill": [True]}),
        ({"age": {17}, "income": (">50K",)}, {"age": [17], "income": [">50K"]}),
        ({"age": np.array([17, 65])}, {"age": [17, 65]}),
        ({"income": ">50K"}, {"income": [">50K"]}),  # the value of a mapping is a value, whatever it looks like
        (None, {}),
        ([], {}),
    ],
)
def test_values_that_meet_all_conditions_on_their_column(given_, found):
    assert left(CENSUS, given_) == found


@settings(max_examples=60)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=6, unique=True), st.integers(-6, 6), st.booleans())
def test_whole_numbers_compare_as_numbers_and_blanks_never(values, bound, blank):
    codec = TableCodec((Categories("n", "integer", tuple(sorted(values)), blank),), Form("csv"))
    for sign, compare in COMPARISONS.items():
        wanted = sorted(value for value in values if compare(value, bound))
        if wanted:
            assert left(codec, [f"n{sign}{bound}"]) == {"n": wanted}
        else:
            with pytest.raises(InputError, match="some value of 'n' meets"):
                left(codec, [f"n{sign}{bound}"])
    if blank:
        assert left(codec, ["n="]) == {"n": [None]}
        assert left(codec, [f"n!={values[0]}"])["n"][-1] is None


def test_a_range_is_met_as_a_whole_or_not_at_all():
    codec = TableCodec((Bins("w", (0.5, 1.0, 2.0, 3.0, 3.5)),), Form("csv"))
    labels = codec.labels(0)
    for text, found in (
        ("w>=2", labels[2:]),
        ("w<2", labels[:2]),
        ("w<=3.5", labels),
        ("w in 0.7,[2, 3)", (labels[0], labels[2])),
        ("w!=0.7", labels[1:]),
        ("w=2.2", labels[2:3]),
    ):
        assert left(codec, [text]) == {"w": list(found)}
    for text in ("w>2", "w>=2.5", "w<=2", "w<3.5"):
        with pytest.raises(InputError, match=r"an edge of the ranges of 'w'.*its edges: 0.5, 1, 2, 3, 3.5"):
            left(codec, [text])
    with pytest.raises(InputError, match="some value of 'w' meets"):
        left(codec, ["w>3.5"])


def test_pixels_compare_as_grey_values():
    codec = ImageCodec((1, 2), levels=4)
    assert codec.natives(0) == [0, 85, 170, 255]
    assert left(codec, ["0,1>=100"]) == {"0,1": [170, 255]}
    assert left(codec, ["0,0 in 0,255"]) == {"0,0": [0, 255]}


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (["agee>=3"], "with the name of a column, got 'agee>=3'; did you mean 'age'"),
        (["age"], "COLUMN=VALUE, or another comparison, got 'age' without one"),
        (["age 65"], "with the name of a column"),
        (["age=18"], "a value of 'age' seen in training, got '18'"),
        (["age!=18"], "a value of 'age' seen in training"),
        (["age in 17,18"], "a value of 'age' seen in training, got '18'"),
        (["age>old"], "a number to compare 'age' with, got 'old'"),
        (["age>nan"], "a number to compare 'age' with"),
        (["off>much"], "a number to compare 'off' with, such as 5 %, got 'much'"),
        (["ill>maybe"], "true or false to compare 'ill' with"),
        (["age>90"], "a condition that some value of 'age' meets, got age>90; its values: 17, 30, 65, 90"),
        (["age>inf"], "a condition that some value of 'age' meets"),
        (
            ["age>=65", "ill=true", "age<30"],
            "one value for 'age' that meets all conditions on it, got none for age>=65",
        ),
        (["age!=17", "age<65", "age!=30"], "none for age!=17 and age<65 and age!=30; leave one of them out"),
        (["age>90", "age<17"], "got age>90"),
        ({"age": []}, "a value for 'age', got an empty list"),
        ({"years": 3}, "the name of a column, got 'years'"),
        ("age>=65", "a mapping such as {'smoke': 'yes'}, or a list of texts such as ['age>=65'], got str"),
        (3, "got int"),
        ([3], "texts such as 'age>=65', got 3"),
    ],
)
def test_conditions_that_make_no_sense_are_one_line(given_, words):
    with pytest.raises(InputError) as caught:
        CENSUS.evidence(CENSUS.conditions(given_))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.where == Option("given")


def test_given_wants_one_value_of_each_column():
    assert CENSUS.given(["age>=65", "age<90"]) == {0: 2}
    with pytest.raises(InputError, match="one value for 'age', got 2"):
        CENSUS.given(["age>=65"])


def test_several_conditions_on_one_column_reach_its_kind_together():
    """A kind whose values stand for several cells must see all of them at once: shares do not multiply."""
    seen = []

    class Kind(Categories):
        def log_evidence(self, conditions):
            seen.append(tuple(conditions))
            return np.log([0.5, 1.0, 0.0001, 0.25])

    first = CENSUS.columns[0]
    codec = TableCodec((Kind(first.name, first.kind, first.values), *CENSUS.columns[1:]), CENSUS.form)
    found = codec.evidence(codec.conditions(["age>=65", "income=>50K", "age<80"]))
    assert seen == [(Condition(0, ">=", ("65",)), Condition(0, "<", ("80",)))]
    torch.testing.assert_close(found[0].exp(), torch.tensor([0.5, 1.0, 0.0001, 0.25]).double())
