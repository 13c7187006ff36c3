"""Table 1: what is trained and in which order, what the checks hold, what is written, and no cell done twice."""

import json
from math import isnan

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.experiments import Settings
from concrete_score.experiments.result import Result
from concrete_score.experiments.table1 import (
    DATASETS,
    LIKELIHOODS,
    LISTED,
    SCORE_BASED,
    CellTable,
    findings,
    full_checks,
    run,
    run_table2,
    table_json,
    units,
)
from concrete_score.experiments.table1 import PAPER as PRINTED
from concrete_score.experiments.table1.cells import AVERAGED, METHODS, PAPER_SETTINGS, cell, log_likelihoods
from concrete_score.files import finite
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings
from concrete_score.training.recipe import Recipe


def made_up(shift=0.0, method_shift=None):
    """Every cell of the full table: likelihoods and `csm_weighed` as printed, the others a nat below, shifted."""
    cells = []
    for unit in units(Settings()):
        dataset, method, seed = (unit.options[key] for key in ("dataset", "method", "seed"))
        value = PRINTED["maximum_likelihood"][dataset] - (0 if method in (*LIKELIHOODS, "csm_weighed") else 1)
        value += shift + (method_shift or {}).get(method, 0.0)
        numbers = {"log_likelihood": value, "stderr": 0.1, "valid_log_likelihood": value + 0.05}
        cells.append({"dataset": dataset, "method": method, "seed": seed, "steps": 9, "seconds": 1.5, **numbers})
    return cells


def failed(cells):
    return [check.name for check in full_checks(CellTable(cells, DATASETS)) if not check.ok]


@pytest.mark.parametrize("name", METHODS)
def test_a_step_looks_at_no_more_than_two_densities_an_example(name, monkeypatch):
    space, method = Space.bits(6), METHODS[name]
    built = Recipe(**method.recipe).resolved().build(space, TrainingSettings.of({**method.training, "pool": 16}))
    density, seen = built.model.log_density, []

    def counted(x):
        seen.append(x.shape[:-1].numel())
        return density(x)

    x = space.uniform(5, generator(0, "x"))
    draws = built.objective.draw(x, generator(0, "draws"), built.model)
    monkeypatch.setattr(built.model, "log_density", counted)
    built.objective.loss(built.model, draws)
    assert 5 <= sum(seen) <= 10


def test_the_papers_rows_have_the_papers_settings():
    for name in ("ratio_matching", "discrete_marginalization", "csm", "maximum_likelihood"):
        how = TrainingSettings.of(METHODS[name].training)
        assert (how.steps, how.lr, how.schedule, how.average) == (50_000, 5e-4, "constant", None)
        assert (how.patience, how.batch_size, how.clip_norm) == (5_000, 128, None)
    for name, method in METHODS.items():
        if method.family or name == "maximum_likelihood_averaged":  # the same for all of ours
            assert {key: method.training[key] for key in AVERAGED} == AVERAGED, name
    assert PAPER_SETTINGS.items() <= {**AVERAGED}.items()


def test_cells_are_named_once_and_the_most_telling_come_first():
    names = [unit.name for unit in units(Settings())]
    assert len(set(names)) == len(names)
    trained = [name for name in names if name.split("-")[1] in METHODS]
    assert trained[:16] == [f"{name}-{method}-0" for name in DATASETS for method in LIKELIHOODS]
    assert all("self_proposal" in name for name in trained[16:32])
    for name in DATASETS:
        seeds = 3 if name in ("nltcs", "gifts", "media") else 1
        for method in ("csm", "csm_weighed", "self_proposal_csm"):
            assert sum(each.startswith(f"{name}-{method}-") for each in names) == seeds
        for method in (*LIKELIHOODS, "self_proposal_logistic"):
            assert sum(each.startswith(f"{name}-{method}-") for each in names) == 3
    assert [unit.options["seed"] for unit in units(Settings(seed=5)) if unit.name == "nltcs-csm-2"] == [7]


def test_a_table_as_good_as_asked_passes_and_each_shortfall_is_named():
    near = {"self_proposal_logistic": 0.95, "chow_liu": -0.5}  # 0.05 nat below maximum likelihood
    assert failed(made_up(0.0, near)) == ["self_proposal_logistic: sets where it is at or above our maximum likelihood"]
    assert failed(made_up(0.0, {**near, "self_proposal_logistic": 1.0})) == []
    below = failed(made_up(0.0, {**near, "self_proposal_logistic": 0.85}))
    assert "self_proposal_logistic: sets where it is within 0.1 nat of our maximum likelihood" in below
    tree = failed(made_up(0.0, {"self_proposal_logistic": 1.0, "chow_liu": 1.1}))
    assert tree == ["self_proposal_logistic: sets where it is better than Chow–Liu"]
    weak = failed(made_up(-0.1, {**near, "self_proposal_logistic": 1.0}))
    assert weak == [f"{name}: maximum likelihood" for name in ("nltcs", "gifts", "media", "toys")]


def test_the_weighed_objective_must_reach_the_papers_own_numbers():
    cells = made_up(0.0, {"self_proposal_logistic": 1.0, "chow_liu": -0.5, "csm_weighed": -0.2})
    assert failed(cells) == ["csm_weighed: sets where it is above the paper's CSM"]  # nltcs, by 0.07


def test_the_paper_must_be_beaten_by_its_best_number():
    cells = made_up(0.0, {"self_proposal_logistic": 1.0, "chow_liu": -0.5})
    best = max(PRINTED[method]["nltcs"] for method in SCORE_BASED)
    for found in cells:
        if (found["dataset"], found["method"]) == ("nltcs", "self_proposal_logistic"):
            found["log_likelihood"] = best
    names = failed(cells)
    assert "self_proposal_logistic: sets where it is better than the paper's best score-based number" in names


def test_our_method_is_chosen_by_validation_and_never_by_test():
    cells = made_up()
    for found in cells:
        if found["method"] == "self_proposal_csm":
            found["valid_log_likelihood"] += 0.2
        if found["method"] == "logistic":
            found["log_likelihood"] += 5.0
    assert CellTable(cells, DATASETS).chosen() == "self_proposal_csm"


def test_our_maximum_likelihood_is_chosen_by_validation_and_the_other_rows_shortfall_is_told():
    good = {"self_proposal_logistic": 1.0, "chow_liu": -0.5}
    assert CellTable(made_up(0.0, good), DATASETS).likelihood() == "maximum_likelihood"  # a tie
    cells = made_up(0.0, {**good, "maximum_likelihood": -0.16})
    assert failed(cells) == []
    table = CellTable(cells, DATASETS)
    assert table.likelihood() == "maximum_likelihood_averaged"
    text = findings(cells, DATASETS, quick=False, likelihood=False).text
    assert "falls short of the bounds above on: nltcs (-6.160 against -6.05)" in text
    for found in cells:  # the test rows have no say
        if found["method"] == "maximum_likelihood":
            found["valid_log_likelihood"] += 1
    assert CellTable(cells, DATASETS).likelihood() == "maximum_likelihood"
    assert "jester: maximum likelihood" in failed(cells)


def test_a_partial_table_is_shown_with_blanks_and_its_checks_fail():
    cells = [found for found in made_up() if found["method"] == "maximum_likelihood" and found["seed"] == 0]
    table = CellTable(cells, DATASETS)
    assert isnan(table.mean("toys", "csm"))
    found = findings(cells, DATASETS, quick=False, likelihood=False)
    assert "| CSM as written |  |  |" in found.text
    good = {check.name for check in found.checks if check.ok}
    assert good == {f"{name}: maximum likelihood" for name in DATASETS}


def test_table_json_lists_every_cell():
    cells = made_up()
    cells[3]["log_likelihood"] = float("nan")
    listed = json.loads(table_json(cells))
    assert all(tuple(found) == LISTED for found in listed)
    assert listed[3]["log_likelihood"] is None
    assert [(each["dataset"], each["method"]) for each in listed] == [(c["dataset"], c["method"]) for c in cells]


def test_table2_adds_the_likelihood_of_the_paper():
    one, two = (findings(made_up(), DATASETS, quick=False, likelihood=likelihood) for likelihood in (False, True))
    assert "paper: maximum likelihood" not in one.text
    assert "paper: maximum likelihood" in two.text
    assert two.paper["plants"]["maximum_likelihood"] == -12.52
    assert list(two.images) == ["table2"]


def test_an_absent_set_names_the_file_and_its_place_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setenv("CONCRETE_SCORE_DATA", str(tmp_path))
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CONCRETE_SCORE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("concrete_score.data.catalog.TRIES", 1)
    with pytest.raises(InputError, match="nltcs") as caught:
        run(Settings(store=tmp_path / "store"))
    assert str(tmp_path / "cache" / "twenty" / "nltcs" / "nltcs.train.data.gz") in caught.value.fix
    assert not (tmp_path / "store").exists()


def test_a_cell_tests_the_weights_best_on_validation(data_dir):
    training = {"steps": 60, "lr": 1e-2, "valid_every": 20, "average": 0.9, "refresh_every": 10, "pool": 128}
    method = METHODS["self_proposal_logistic"]
    asked = {"dataset": "gifts", "method": "self_proposal_logistic", "seed": 3, "recipe": method.recipe}
    found = cell(Settings(), **asked, training=training)
    assert found["valid_log_likelihood"] == pytest.approx(max(value for _, value in found["curve"]), abs=1e-4)
    assert [step for step, _ in found["curve"]] == [0, 20, 40, 60]
    assert found["log_likelihood"] > found["curve"][0][1] + 1
    again = cell(Settings(), **asked, training=training)
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_log_likelihoods_go_in_parts():
    model = Recipe().resolved().build(Space.bits(3), TrainingSettings()).model
    rows = Space.bits(3).enumerate().to(torch.uint8).repeat(600, 1)
    found = log_likelihoods(model, rows)
    assert found.dtype == torch.float64
    assert found[:8].exp().sum().item() == pytest.approx(1.0, abs=1e-6)
    torch.testing.assert_close(found, found[:8].repeat(600), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_quick_size_holds_and_table2_trains_nothing(data_dir, tmp_path):
    settings = Settings(quick=True, store=tmp_path / "table1")
    found = run(settings)
    assert [str(check) for check in found.checks if not check.ok] == []
    Result("table1", "csm reproduce table1 --quick", "0", settings, 1.0, found).write(tmp_path / "table1")
    listed = json.loads((tmp_path / "table1" / "table.json").read_text())
    assert {each["dataset"] for each in listed} == {"nltcs", "gifts"}
    before = (tmp_path / "table1" / "units.jsonl").read_bytes()
    again = run_table2(Settings(quick=True, store=tmp_path / "table2"))
    assert (tmp_path / "table1" / "units.jsonl").read_bytes() == before
    assert not (tmp_path / "table2").exists()
    assert finite(again.ours) == finite(found.ours)  # None equals None, NaN nothing
