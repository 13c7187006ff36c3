"""A fit starts from the best of its baselines on validation, and never ends below it."""

import pytest
import torch

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.errors import InputError
from concrete_score.experiments.tables import mixed_network
from concrete_score.models import MADE
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import random_network
from concrete_score.training import TrainingSettings, fit, portfolio
from concrete_score.training import starts as starting
from concrete_score.training.choice import choose, fit_to_rows
from concrete_score.training.examples import Examples
from concrete_score.training.recipe import Recipe
from concrete_score.training.starts import find_start


def table(seed, count=60):
    """Rows of a random small network, or of its columns on their own, with a few rows held out."""
    gen = generator(seed, "table")
    sizes = torch.randint(1, 5, (int(torch.randint(2, 7, (), generator=gen)),), generator=gen).tolist()
    truth = random_network(sizes, seed % 3, gen)
    return truth.space, truth.sample(count, gen).to(torch.uint8), truth.sample(25, gen).to(torch.uint8)


@pytest.mark.parametrize("seed", range(20))
def test_a_fit_is_never_below_independent_columns_or_a_tree_on_validation(seed):
    space, rows, valid = table(seed, (15, 60, 300)[seed % 3])
    choice = fit_to_rows(choose({}, {"steps": 20, "valid_every": 5, "seed": seed}), rows, space, valid)
    built = choice.recipe.build(space, choice.settings)
    ended = fit(built.model, built.objective, rows, choice.settings, valid=valid)
    for kind in (Independent, ChowLiu):
        simple = float(kind.fit(rows, space).log_density(valid.long()).mean())
        assert ended.best >= simple - 1e-5
    now = built.model.log_density(valid.long()).mean().item()
    assert now == pytest.approx(ended.best, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_is_never_below_a_simple_model_on_validation(seed, monkeypatch):
    space, rows, valid = table(seed, (15, 60, 300)[seed])
    for kind in ("NETWORK", "SLOW", "LATENT"):
        monkeypatch.setattr(portfolio, kind, getattr(portfolio, kind)._replace(least=20, most=20))
    choice = fit_to_rows(choose({"model": "mixture"}, {"seed": seed}), rows, space, valid)
    built = choice.recipe.build(space, choice.settings)
    ended = fit(built.model, built.objective, rows, choice.settings, valid=valid)
    for kind in (Independent, ChowLiu):
        assert ended.best >= float(kind.fit(rows, space).log_density(valid.long()).mean()) - 1e-3
    assert built.model.log_density(valid.long()).mean().item() == pytest.approx(ended.best, abs=1e-5)


@pytest.mark.parametrize("kind", [Independent, ChowLiu])
def test_with_a_baselines_parents_and_smoothing_the_start_is_that_baseline(kind):
    space, rows, _ = table(7)
    simple = kind.fit(rows, space)
    above = simple.parents if kind is ChowLiu else [-1] * space.num_sites
    parents = [[p] if p >= 0 else [] for p in above]
    model = MADE(space, parents=parents, pseudo_count=4.0, generator=generator(0, "w"), dtype=torch.float64)
    model.start_from(rows)
    states = space.enumerate()
    assert torch.allclose(model.log_density(states), simple.log_density(states), atol=1e-12)


def test_what_decided_is_said():
    gen = generator(0, "rows")
    rows = Space.bits(6).uniform(400, gen)
    rows[:, 3:] = rows[:, :3] ^ (torch.rand(400, 3, generator=gen) < 0.1)
    found = find_start(Recipe(), rows[:300], Space.bits(6), rows[300:])
    assert found.why.startswith("starts from ")
    assert "BIC" in found.why
    assert "3 dependences between columns -" in found.why
    assert "a Chow–Liu tree -" in found.why
    assert "independent columns -" in found.why
    noise = Space.bits(6).uniform(60, gen)
    assert find_start(Recipe(), noise[:30], Space.bits(6), noise[30:]).options["parents"] == [[]] * 6


def test_a_start_without_a_rival_is_told_without_brackets():
    why = find_start(Recipe(), torch.tensor([[0], [1], [0]]), Space.bits(1), torch.tensor([[1]])).why
    assert "validation -" in why
    assert "()" not in why


def test_a_network_without_dependences_is_not_told_by_the_words_of_independent_columns():
    gen = generator(0, "rows")
    rows = Space.bits(3).uniform(60, gen).to(torch.uint8)
    why = find_start(Recipe(), rows[:40], Space.bits(3), rows[40:]).why
    assert "independent columns with half a row more a value" in why
    assert "independent columns -" in why.replace(": validation", "")
    assert "0 dependences" not in why


def test_wide_tables_have_a_start_and_a_long_search_is_not_silent(monkeypatch):
    gen, said = generator(0, "rows"), []
    rows = Space.bits(150).uniform(200, gen).to(torch.uint8)
    rows[:, 1::2] = rows[:, ::2]
    monkeypatch.setattr(starting, "Lines", lambda work, write, first: lambda done, total: write(f"{work}: {done}"))
    found = find_start(Recipe(), rows[:150], Space.bits(150), rows[150:], said.append)
    assert [0] in found.options["parents"]
    searches = [line.partition(": ")[0] for line in said]
    assert list(dict.fromkeys(searches)) == [
        "dependences between 150 columns, by BIC",
        "dependences between 150 columns, by a quarter of BIC's penalty",
    ]
    monkeypatch.setattr(starting, "COLUMNS", 149)
    assert find_start(Recipe(), rows, Space.bits(150)).what == "independent columns"


def test_a_pseudo_count_is_a_positive_number():
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="pseudo_count: expected a number above 0"):
            MADE(Space.bits(2), parents=[[], []], pseudo_count=wrong, generator=generator(0, "w"))


def test_nothing_is_searched_for_a_model_that_came_as_an_object():
    rows = torch.tensor([[0, 0], [1, 1]] * 50)
    kept = fit_to_rows(choose({}, {}), rows, Space.bits(2), start=False)
    assert kept.recipe.model_options == {}
    assert TrainingSettings.of(kept.training).steps == kept.settings.steps


def test_completed_rows_show_dependences_that_blanks_hide(monkeypatch):
    truth = mixed_network(0)
    states = truth.sample(6_000, generator(0, "training rows")).to(torch.uint8)
    seen = torch.rand(states.shape, generator=generator(0, "training blanks")) >= 0.3
    rows, valid = (Examples.of(states[part], seen[part]) for part in (slice(5_000), slice(5_000, None)))
    found = find_start(Recipe(), rows, truth.space, valid)
    monkeypatch.setattr(starting, "OFTEN", 1.0)
    before = find_start(Recipe(), rows, truth.space, valid)
    assert "once completed" in found.what
    assert found.value > before.value + 0.01
