"""What a page may ask: every number is the model's own, and every mistake is one line."""

import re
from base64 import b64decode

import numpy as np
import polars as pl
import pytest
import torch

from concrete_score.codecs.conditions import Condition
from concrete_score.data.frame import Form, Frame
from concrete_score.errors import InputError
from concrete_score.explorer import questions
from concrete_score.explorer.asking import SKIN, Asked
from concrete_score.fitted import Fitted
from tests.cli.clinic import COLUMNS, PMF, STATES, agrees, probability

SETTINGS = [{}, {"smoke": "yes"}, {"age": "55"}, {"smoke": "no", "ill": "True"}, {"smoke": "yes", "age": "41"}]


def given(**values):
    """A question about columns set to values."""
    return {"given": [{"column": name, "operator": "=", "values": [value]} for name, value in values.items()]}


def asked(*conditions):
    """A question about conditions ``(column, operator, value)``."""
    return {"given": [{"column": c, "operator": o, "values": [v]} for c, o, v in conditions]}


def row_of(model, values):
    """A table of one row, blank but for some cells."""
    cells = {name: pl.Series([values.get(name)], dtype=pl.String) for name in model.codec.names}
    return Frame(pl.DataFrame(cells), Form("csv"), "row")


def shown(answer):
    """``{column: {label: probability}}`` of an answer."""
    return {each["column"]: {bar["label"]: bar["probability"] for bar in each["bars"]} for each in answer["columns"]}


@pytest.mark.parametrize("values", SETTINGS)
def test_conditionals_are_the_models_and_the_truths(clinic, values):
    model = clinic.model
    answer = questions.conditionals(model, given(**values))
    found = shown(answer)
    assert set(found) == set(COLUMNS) - set(values)
    assert (answer["exact"], answer["method"]) == (True, "enumeration")
    table = model.probabilities(model.read(row_of(model, values), filling=True)).table
    for column, value, theirs in table.select("column", "value", "probability").rows():
        assert found[column][value] == pytest.approx(theirs, abs=1e-12)
        truth = probability(**values, **{column: value}) / probability(**values)
        assert theirs == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("values", [{}, {"ill": "yes"}, {"ill": "yes", "city": "city 3", "age": "30"}])
def test_numbers_are_ranges_whose_probabilities_are_those_of_their_conditions(numbers, values):
    model, codec = numbers.model, numbers.model.codec
    answer = questions.conditionals(model, given(**values))
    table = model.probabilities(model.read(row_of(model, values), filling=True)).table
    for column in answer["columns"]:
        site, mine = codec.names.index(column["column"]), table.filter(pl.col("column") == column["column"])
        probs = dict(mine.select("value", "probability").rows())
        assert column["ranges"] == (column["column"] in ("age", "income", "day"))
        if column["ranges"]:
            assert sum(bar["probability"] for bar in column["bars"]) == pytest.approx(1, abs=1e-9)
            assert 8 <= len(column["bars"]) <= 24
        if column["column"] in values:  # a number that is set lies in one of its ranges for certain
            assert max(bar["probability"] for bar in column["bars"]) == pytest.approx(1, abs=1e-9)
            continue
        for bar in column["bars"]:
            told = [Condition(site, each["operator"], tuple(each["values"])) for each in bar["conditions"]]
            share = np.exp(codec.log_evidence(site, told))
            theirs = sum(share[k] * probs[label] for k, label in enumerate(codec.labels(site)))
            assert bar["probability"] == pytest.approx(theirs, abs=1e-9)
    cities = [column for column in answer["columns"] if column["column"] == "city"]
    for column in cities:
        assert len(column["bars"]) == 24
        assert column["hidden"] == 6
        assert column["rest"] == pytest.approx(1 - sum(bar["probability"] for bar in column["bars"]))
        assert column["bars"] == sorted(column["bars"], key=lambda bar: -bar["probability"])


def test_conditions_that_leave_several_values_are_counted_in_the_models_draws(numbers):
    model = numbers.model
    question = asked(("age", ">=", "40"), ("city", "!=", "city 3"))
    answer = questions.conditionals(model, question)
    assert (answer["exact"], answer["draws"]) == (False, questions.DRAWS)
    drawn = model.sample(questions.DRAWS, ["age>=40", "city!=city 3"])
    assert shown(answer)["ill"]["yes"] == (drawn["ill"] == "yes").mean()
    bars = shown(answer)["age"]
    assert sum(bars.values()) == pytest.approx(1)
    assert max(bars[label] for label in list(bars)[:4]) == 0  # below 40
    assert "city 3" not in {label for label, share in shown(answer)["city"].items() if share > 0}


def test_the_error_that_is_told_is_the_error_that_is_made(numbers):
    model = numbers.model
    values = {"ill": "yes"}
    question = given(**values)
    exact = Fitted(model.fitted.model, model.codec.space, limit=10**6)
    row = Asked.of(model.codec, question).row.rows
    cells = exact.conditional_probs(row.states, row.observed, torch.Generator())
    truth = {model.codec.names[d]: probs.exp().numpy() for d, probs in zip(cells.site, cells.log_probs, strict=True)}
    answers = [questions.shares(model, Asked.of(model.codec, question), seed) for seed in range(10)]
    assert not answers[0].exact
    told = {each["column"]: each["error"] for each in questions.doubt(model, question)["columns"]}
    for site, probs in answers[0].probs.items():
        name = model.codec.names[site]
        made = np.stack([each.probs[site] - truth[name][: len(probs)] for each in answers])
        histogram = model.codec.histogram(site)
        made = made if histogram is None else made @ histogram.shares.T
        worst = np.sqrt(np.square(made).mean(0)).max()
        assert worst / 3 < told[name] < 3 * worst
    few = {**values, **{f"sign {k}": "no" for k in range(5)}, "city": "city 3", "age": "30"}
    assert questions.doubt(model, given(**few)) == {"columns": [], "repeats": 0}


def test_the_same_question_has_the_same_answer(numbers):
    for question in (given(ill="yes"), asked(("age", ">", "50"))):
        for name in ("conditionals", "draws", "row"):
            first, second = (questions.QUESTIONS[name](numbers.model, question, None) for _ in range(2))
            assert first == second


def test_draws_meet_what_is_set(clinic, numbers):
    found = questions.draws(clinic.model, {**given(smoke="yes"), "count": 20})
    assert found["columns"] == list(COLUMNS)
    assert len(found["rows"]) == 20
    assert {row[0] for row in found["rows"]} == {"yes"}
    assert {row[1] for row in found["rows"]} <= {"41", "55"}
    found = questions.draws(numbers.model, asked(("age", ">=", "80"), ("ill", "=", "no")))
    assert all(int(row[0]) >= 80 and row[4] == "no" for row in found["rows"])


def test_a_rows_probability_and_changes_are_the_models(clinic, numbers):
    model = clinic.model
    answer = questions.row(model, given(smoke="no", age="41", ill="True"))
    assert answer["complete"]
    frame = row_of(model, {"smoke": "no", "age": "41", "ill": "True"})
    assert answer["probability"]["log_value"] == pytest.approx(model.score_samples(frame)[0], abs=1e-6)
    assert answer["probability"]["relative_error"] == 0
    truth = sum(p for state, p in zip(STATES, PMF, strict=True) if agrees(state, {"smoke": "no", "age": 41}))
    partial = questions.row(model, given(smoke="no", age="41"))
    assert not partial["complete"]
    assert np.exp(partial["probability"]["log_value"]) == pytest.approx(truth, abs=1e-6)
    theirs = model.explanation(model.read(frame), questions.CHANGES).to_json()
    mine = [(each["column"], each["to"], each["log_ratio"]) for each in answer["changes"]]
    assert [each[0] for each in mine] == [each["column"] for each in theirs]
    assert [each[2] for each in mine] == pytest.approx([each["log_ratio"] for each in theirs], abs=1e-9)
    two = numbers.model.probability(["age>=40", "ill=yes"])
    found = questions.row(numbers.model, asked(("age", ">=", "40"), ("ill", "=", "yes")))
    assert found["probability"] == {"log_value": two.log_value, "relative_error": two.relative_error}
    assert found["changes"] == []
    assert "several values" in found["reason"]


def test_nothing_set_has_neither_a_probability_nor_changes(clinic):
    answer = questions.row(clinic.model, {})
    assert (answer["probability"], answer["changes"], answer["reason"]) == (None, [], "nothing is set yet")


def test_the_map_of_a_sequence_is_the_models(sequence):
    model = sequence.model
    answer = questions.effects(model, {"text": "ACDEA"})
    assert answer["sites"] == ["11", "12", "13", "14", "15"]
    assert (answer["labels"], answer["values"]) == (list("ACDE"), list("ACDEA"))
    theirs = model.log_ratios(["ACDEA"]).reshape(5, 4)
    assert np.array(answer["log_ratios"]) == pytest.approx(theirs, abs=1e-9)
    again = questions.effects(model, {"given": answer["given"]})
    assert again == answer
    row = questions.row(model, {"given": answer["given"]})
    best = row["changes"][0]
    assert best["log_ratio"] == pytest.approx(theirs.max(), abs=1e-9)
    drawn = questions.draws(model, {"given": answer["given"][:2], "count": 3})
    assert all(row[-1].startswith("AC") for row in drawn["rows"])
    blank = questions.effects(model, {"text": "AC?EA"})
    assert blank["values"][2] is None
    assert np.isnan(blank["log_ratios"][2]).all()


def test_painted_pixels_stay_and_the_way_is_told(image):
    model, told = image.model, []
    question = {**asked(("0,0", "=", "255"), ("3,4", "=", "0")), "count": 3, "passes": 8}
    answer = questions.fill(model, question, told.append)
    states = np.array([list(b64decode(text)) for text in answer["images"]])
    assert states.shape == (3, 20)
    assert (states[:, 0] == 1).all()
    assert (states[:, 19] == 0).all()
    (theirs,) = model.sample_parts(3, {"0,0": 255, "3,4": 0}, passes=8)
    assert states.tolist() == theirs.states.tolist()
    assert answer["mean"] == pytest.approx(states.mean(0).tolist())
    assert len(told) > 2
    assert told[-1]["images"] == answer["images"]
    assert all(len(b64decode(part["images"][0])) == 20 for part in told)


def test_an_image_that_is_all_painted_has_changes_and_a_map(image):
    model = image.model
    picture = np.eye(4, 5, dtype=np.uint8) * 255
    question = asked(*((f"{r},{c}", "=", str(picture[r, c])) for r in range(4) for c in range(5)))
    answer = questions.effects(model, question)
    theirs = model.log_ratios(picture[None]).reshape(20, 2)
    assert np.array(answer["log_ratios"]) == pytest.approx(theirs, abs=1e-6)
    changes = questions.row(model, question)["changes"]
    assert changes[0]["log_ratio"] == pytest.approx(model.explain(picture[None])["log_ratio"][0], abs=1e-6)
    assert questions.row(model, asked(("0,0", "=", "255")))["reason"] == "set all pixels"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"given": 3}, "a list of at most 12 conditions"),
        ({"given": [3]}, "conditions with a column"),
        ({"given": [{"column": ["smoke"]}]}, "conditions with a column"),
        ({"given": [{"column": "smoke"}]}, "the text of a value"),
        ({"given": [{"column": "smoke", "values": []}]}, "the text of a value"),
        ({"given": [{"column": "smoke", "values": ["no", "yes"]}]}, "the text of a value"),
        ({"given": [{"column": "smoke", "values": [1]}]}, "the text of a value"),
        ({"given": [{"column": "smoke", "operator": "~", "values": ["no"]}]}, "one of != "),
        ({"given": [{"column": "smoke", "operator": {}, "values": ["no"]}]}, "one of != "),
        ({"given": [{"column": "smoke", "values": ["no"]}] * 13}, "got 13 conditions"),
        (given(smok="yes"), "did you mean 'smoke'"),
        (given(smoke="maybe"), "a value of 'smoke' seen in training"),
        (given(smoke="n" * 10**5), "a value of 'smoke' seen in training"),
        (asked(("age", ">", "99")), "a condition that some value of 'age' meets"),
        (asked(("age", "<", "old")), "a number to compare 'age' with"),
        (given(smoke="yes", age="30"), "probability 0"),
        ({"count": 0}, None),
        ({"count": 10**9}, None),
        ({"count": "3"}, None),
    ],
)
def test_mistakes_are_one_short_line_without_options(clinic, question, message):
    with pytest.raises(InputError) as caught:
        (questions.draws if message is None else questions.conditionals)(clinic.model, question)
    line = caught.value.render(SKIN)
    assert (message or "a whole number from 1 to 64") in line
    assert len(line) < 3000
    assert "\n" not in line
    assert not re.search(r"--\w", line)


def test_mistakes_about_sequences_and_images(sequence, image):
    for model, question, message in (
        (sequence.model, {"text": "ACDE"}, "5 positions"),
        (sequence.model, {"text": "ACDEX<"}, "positions"),
        (sequence.model, {"text": "ACDE!"}, "letters of A C D E"),
        (sequence.model, {"text": 3}, "a text"),
        (image.model, asked(("9,9", "=", "0")), "the name of a pixel"),
        (image.model, asked(("0,0", "=", "999")), "seen in training"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            questions.effects(model, question)
