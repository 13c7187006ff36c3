"""Reports of every kind of model: whole, escaped, bounded, repeatable, and with the numbers that were computed."""

import re
from dataclasses import replace

import pytest
import torch

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.baselines.chow_liu import mutual_information
from concrete_score.errors import InputError
from concrete_score.likelihood import Budget
from concrete_score.report import Finding, Section, Subject, render, write_report
from concrete_score.report.draws import measure_dependence, measure_marginals
from concrete_score.report.examples import measure_examples
from concrete_score.report.html import number, tag
from concrete_score.report.likelihood import compare
from concrete_score.report.page import SECTIONS
from concrete_score.report.subject import Missing
from tests.report import cases
from tests.report.test_html import Reader

TITLES = [
    "Likelihood",
    "Training",
    "Marginals",
    "Pairwise dependence",
    "Comparison",
    "Example rows",
    "Sampler health",
    "Mass leak",
    "Configuration",
]


def subject_of(folder, frame, recipe=cases.RECIPES["made"], **more):
    run, train, held = cases.make_run(folder / "run", frame, recipe, **more)
    return Subject.of(run, train, held)


def checked(page):
    """The page, read; it may load nothing and hold no script."""
    read = Reader(page.removeprefix("<!doctype html>\n"))
    for name, attributes in read.elements:
        assert name not in ("script", "link", "iframe", "object", "embed", "base", "form")
        assert not any(key.startswith("on") or key in ("src", "style") for key in attributes)
        assert attributes.get("href", "#").startswith("#")
    policy = next(a["content"] for name, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    anchors = {a["id"] for _, a in read.elements if "id" in a}
    assert {a["href"][1:] for name, a in read.elements if name == "a"} <= anchors
    for _, attributes in read.elements:
        if attributes.get("role") in ("img", "region"):
            assert attributes["aria-label"]
    return read


@pytest.fixture(autouse=True)
def _short_chains(monkeypatch):
    """What is tested here does not depend on how long chains are."""
    monkeypatch.setattr("concrete_score.diagnostics.mixing.KEPT", 60)
    monkeypatch.setattr("concrete_score.diagnostics.mixing.LIMITED_THIN", 1)
    monkeypatch.setattr("concrete_score.diagnostics.mixing.SWEEPS", 8)
    few = Budget(steps=5, chains=4, raise_chains=2, bound_rows=10, pilot_steps=2, pilot_chains=4)
    monkeypatch.setattr("concrete_score.report.likelihood.BOUNDS", few)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return subject_of(tmp_path_factory.mktemp("made"), cases.table(["a", "b", "c", "d", "e"], rows=1200))


@pytest.mark.parametrize("kind", cases.RECIPES)
def test_every_kind_of_model_has_every_section(kind, tmp_path):
    read = checked(render(subject_of(tmp_path, cases.table(["a", "b", "c"]), cases.RECIPES[kind])))
    for title in TITLES:
        assert title in read.text
    assert read.text.count("nats per row") > 3


@pytest.mark.parametrize("kind", ["energy", "mlp"])
def test_what_cannot_be_had_is_said_in_a_sentence(kind, tmp_path):
    subject = subject_of(tmp_path, cases.table(cases.columns(18)), cases.RECIPES[kind])
    read = checked(render(subject))
    if kind == "energy":
        assert "only bounded: at most" in read.text
        assert compare(subject).exact is None
    else:
        assert "A score model knows ratios, not probabilities" in read.text
    assert "Mass leak was not looked at: it needs exact draws" in read.text
    assert not isinstance(subject.draws, Missing)
    assert subject.draws.method == "gibbs"


def test_the_numbers_shown_are_those_computed(made):
    rows = made.held_out.long()
    own = made.model.log_density(rows)
    read = checked(render(made))
    assert number(float(own.mean())) in read.text
    for build in (Independent, ChowLiu):
        other = build.fit(made.train, made.space).log_density(rows)
        gain = own - other
        assert number(float(gain.mean()), sign=True) in read.text
        assert f"± {number(float(gain.std() / len(gain) ** 0.5))}" in read.text
    assert "−4.0000 nats a row" in read.text  # the journal's best
    assert f"{len(made.train)} rows of 5 columns" in read.text
    assert made.run.id in read.text


def test_marginals_dependence_and_ratios_are_those_of_brute_force(made):
    draws = made.draws.states
    found = measure_marginals(made, draws)
    assert torch.equal(found.data[2, 1], (made.train[:, 2] == 1).double().mean())
    assert torch.equal(found.sampled[4, 0], (draws[:, 4] == 0).double().mean())
    pairs = measure_dependence(made, draws)
    assert pairs.rows == min(len(draws), len(made.train) // 2)
    assert torch.allclose(pairs.sampled, mutual_information(draws[: pairs.rows], made.space, 0.0))
    examples = measure_examples(made)
    before = made.model.log_density(examples.rows)
    for site in range(5):
        other = examples.rows.clone()
        other[:, site] = 1 - other[:, site]
        assert torch.allclose(made.model.log_density(other) - before, examples.log_ratio[:, site])
        assert torch.equal(examples.value[:, site], other[:, site])
    largest = examples.log_ratio.amax(-1)[: examples.strange]
    assert torch.equal(largest, largest.sort(descending=True).values)


def test_the_same_run_and_rows_give_the_same_file(made):
    again = Subject(made.run, made.fitted, made.train, made.held_out)
    assert render(again) == render(made)


def test_strange_names_do_nothing(tmp_path):
    frame = cases.table(list(cases.HOSTILE), values=cases.VALUES)
    page = render(subject_of(tmp_path, frame))
    read = checked(page)
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<style>") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", page)
    for name in (cases.SCRIPT, "<b>no</b>", "&lt;yes&gt;"):
        assert name in read.text
    assert "n" * 600 not in page
    assert "\\x1b[31m" in read.text


@pytest.mark.slow
def test_a_thousand_columns_make_a_small_page_that_says_what_is_left_out(tmp_path):
    names = [f"column {d} {'long' * 30}" for d in range(1000)]
    page = render(subject_of(tmp_path, cases.table(names, rows=60)))
    read = checked(page)
    assert len(page) < 600_000
    assert "992 others are in the chart alone" in read.text
    assert "980 columns with smaller ratios are not shown" in read.text
    assert "900 more columns not listed here" in read.text


def test_one_column_one_value_one_row_and_nothing_held_out(tmp_path):
    run, train, _ = cases.make_run(tmp_path / "one", cases.numbers((2,)))
    read = checked(render(Subject.of(run, train)))
    assert "training rows (none were held out)" in read.text
    assert "There are no two columns" in read.text
    run, train, _ = cases.make_run(tmp_path / "flat", cases.numbers((1, 1)))
    read = checked(render(Subject.of(run, train[:1], train[1:2])))
    assert "No cell has another value" in read.text
    with pytest.raises(InputError, match="none"):
        Subject.of(run, train[:0])


def test_a_row_the_model_calls_impossible_is_a_finding(tmp_path):
    subject = subject_of(tmp_path, cases.table(["a", "b"]), cases.RECIPES["table"])
    with torch.no_grad():
        subject.model.logits[0] = -torch.inf
    read = checked(render(subject))
    assert "impossible under the model" in read.text
    assert "−∞" in read.text


def test_what_the_guard_did_is_reported(tmp_path):
    journal = [
        {"step": 0, "loss": None, "valid": None, "best_step": 0},
        {"step": 10, "loss": 1e300, "valid": -4.0, "best_step": 10},
        {"step": 20, "went_back_to": 10, "rate": 1e-4, "why": cases.SCRIPT},
    ]
    read = checked(render(subject_of(tmp_path, cases.table(["a", "b"]), journal=journal)))
    assert "The guard went back 1 time: the training was unstable" in read.text
    empty = subject_of(tmp_path / "empty", cases.table(["a", "b"]))
    (empty.run.path / "metrics.jsonl").unlink()
    assert "holds no measurements of its training" in checked(render(empty)).text


def test_a_section_of_ones_own_is_a_function(made):
    def grid(subject):
        return Section("Sample grid", tag("p", f"{len(subject.train)} <rows>"), (Finding(False, "a new finding"),))

    read = checked(render(made, [*SECTIONS, grid, lambda subject: None]))
    assert f"{len(made.train)} <rows>" in read.text
    assert "1 of 9 findings need a look." in read.text or "a new finding" in read.text
    assert next(a for name, a in read.elements if a.get("href") == "#sample-grid")
    alone = checked(render(made, [grid]))
    assert "1 of 1 findings need a look." in alone.text


def test_the_file_is_whole_or_as_it_was(made, monkeypatch):
    path = write_report(made.run, made.train, made.held_out)
    assert path == made.run.path / "report.html"
    before = path.read_bytes()
    assert before.decode() == render(made)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_report(made.run, made.train, made.held_out, sections=[])
    assert path.read_bytes() == before
    assert sorted(file.name for file in made.run.path.glob("*.html")) == ["report.html"]
    assert not list(made.run.path.glob(".*draft*"))


def test_a_model_that_is_built_already_gives_the_same_page_and_stays_as_it_is(made, monkeypatch):
    model = made.run.model().requires_grad_(True)
    path = write_report(made.run, made.train, made.held_out)
    before = path.read_bytes()
    monkeypatch.setattr(type(made.run), "model", lambda run: pytest.fail("built again"))
    assert write_report(made.run, made.train, made.held_out, model=model).read_bytes() == before
    weights = list(model.parameters())
    assert {weight.dtype for weight in weights} == {torch.float32}
    assert all(weight.requires_grad for weight in weights)


def test_large_models_are_asked_less_and_never_by_the_clock(made):
    effort = made.effort
    slow = replace(effort, per_second=effort.per_second / 1e6)
    assert slow.within(1.0, 5, 100) == 5
    assert slow.chain_length(4.0, made.space, 32) == (0, 1)
    assert effort.chain_length(4.0, made.space, 32)[0] == 60
    subject = Subject(made.run, made.fitted, made.train, made.held_out)
    subject.__dict__["effort"] = slow
    read = checked(render(subject))
    assert "Mixing was not looked at" in read.text
