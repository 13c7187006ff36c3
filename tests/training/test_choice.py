"""What is chosen for the user, and that what was given is kept."""

from dataclasses import replace

import pytest
import torch

from concrete_score.defaults import LEAST_STEPS, MOST_STEPS, MOST_WORK
from concrete_score.errors import InputError
from concrete_score.spaces import Space
from concrete_score.training.choice import IMAGE_TRAINING, TRAINING, choose, choose_for_images, fit_to_rows
from concrete_score.training.examples import Examples


def test_nothing_said():
    choice = choose({}, {})
    assert (choice.recipe.model, choice.recipe.objective, choice.recipe.edges) == ("made", "maximum_likelihood", None)
    assert choice.training == dict(TRAINING)
    assert any("maximum_likelihood" in line for line in choice.why)


def test_steps_follow_the_rows_and_the_start_their_dependences():
    a = torch.randint(2, (60_000, 1), generator=torch.Generator().manual_seed(0))
    rows = torch.cat([a, a, 1 - a], 1)
    network = choose({"model": "made"}, {})
    few, many = (fit_to_rows(network, part, Space.bits(3)) for part in (rows[:100], rows))
    assert (few.settings.steps, many.settings.steps) == (LEAST_STEPS, MOST_STEPS)
    assert fit_to_rows(network, rows[:16_000], Space.bits(3)).settings.steps == 5_000
    # 128 rows a step by 200 units that read and write about 4,000 values.
    assert fit_to_rows(network, rows, Space((2, 2, 4_000))).settings.steps == MOST_WORK // (128 * 200 * 4_202)
    assert sum(map(len, many.recipe.model_options["parents"])) == 2
    assert any("2 dependences" in line for line in many.why)
    assert any("steps at most" in line for line in many.why)


def test_columns_that_are_often_blank_come_last():
    random = torch.Generator().manual_seed(0)
    a = torch.randint(2, (2_000, 1), generator=random)
    rows = torch.cat([a, a, torch.where(torch.rand(2_000, 2, generator=random) < 0.1, 1 - a, a)], 1)
    seen = torch.rand(rows.shape, generator=random) > torch.tensor([0.6, 0.0, 0.2, 0.01])
    choice = fit_to_rows(choose({}, {}), Examples.of(rows, seen), Space.bits(4), Examples.of(rows[:200], seen[:200]))
    assert choice.recipe.model_options["last"] == [2, 0]
    assert any("often blank" in line for line in choice.why)
    model = choice.recipe.build_model(Space.bits(4), choice.settings)
    assert model.order.tolist()[-2:] == [2, 0]
    even = torch.rand(rows.shape, generator=random) > 0.2
    assert "last" not in fit_to_rows(choose({}, {}), Examples.of(rows, even), Space.bits(4)).recipe.model_options


def test_the_members_of_a_mixture_follow_the_rows():
    a = torch.randint(2, (4_000, 1), generator=torch.Generator().manual_seed(0))
    rows = torch.cat([a, a, 1 - a, torch.randint(2, (4_000, 3), generator=torch.Generator().manual_seed(1))], 1)
    choice = choose({"model": "mixture"}, {})
    few, many = (fit_to_rows(choice, part, Space.bits(6), rows[-500:]) for part in (rows[:200], rows[:3500]))
    assert many.settings.steps > few.settings.steps
    members = many.recipe.model_options["members"]
    assert [each["model"] for each in members if each["training"]][:2] == ["latent", "made"]
    assert many.settings.steps == sum(each["training"]["steps"] for each in members if each["training"])
    assert [[], [0], [0], [], [], []] in [each["options"]["parents"] for each in members if each["model"] == "made"]
    assert any("networks and 2 decoded mixtures" in line for line in many.why)
    assert any("the best of them starts from" in line and "a Chow–Liu tree -" in line for line in many.why)


WIDE = torch.randint(2, (2_000, 20), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def learned_by(rows=WIDE, space=None, valid=WIDE[:200], recipe=None, **training):
    found = fit_to_rows(choose(recipe or {}, training), rows, space or Space.bits(20), valid)
    return found.recipe.model


def test_wide_tables_of_few_values_are_learned_by_a_mixture():
    choice = fit_to_rows(choose({}, {}), WIDE, Space.bits(20), WIDE[:200])
    assert choice.recipe.model == "mixture"
    assert "kinds of models together" in choice.why[0]
    assert not any("made with" in line for line in choice.why)
    assert choice.recipe.build_model(Space.bits(20), choice.settings).normalized
    assert learned_by(minutes=0.01) == "mixture"


@pytest.mark.parametrize(
    "otherwise",
    [
        {"steps": 100},
        {"recipe": {"model": "made"}},
        {"recipe": {"model_options": {"ordered": [3]}}},
        {"rows": Examples.of(WIDE, torch.rand(WIDE.shape, generator=torch.Generator().manual_seed(1)) > 0.1)},
        {"space": Space((2,) * 19 + (30,))},
        {"rows": WIDE[:, :8], "valid": WIDE[:200, :8], "space": Space.bits(8)},
        {"valid": None},
    ],
)
def test_other_tables_and_what_was_asked_for_are_learned_by_one_network(otherwise):
    assert learned_by(**otherwise) == "made"


def test_with_minutes_the_clock_ends_the_members_of_a_mixture():
    rows = torch.tensor([[0, 0], [1, 1]] * 50)
    found = fit_to_rows(choose({"model": "mixture"}, {"minutes": 1.0}), rows, Space.bits(2), rows)
    trained = [each["training"] for each in found.recipe.model_options["members"] if each["training"]]
    assert {each["schedule"] for each in trained} == {"timed"}
    assert min(each["steps"] for each in trained) >= 10_000


def test_settings_that_were_given_hold_for_every_member():
    rows = torch.tensor([[0, 0], [1, 1]] * 50)
    given = {"steps": 7, "lr": 0.5, "patience": None}
    found = fit_to_rows(choose({"model": "mixture"}, given), rows, Space.bits(2), rows)
    trained = [each["training"] for each in found.recipe.model_options["members"] if each["training"]]
    assert all({name: each[name] for name in given} == given for each in trained)
    assert found.settings.steps == 7 * len(trained)


def test_what_was_said_about_the_start_is_kept():
    rows = torch.tensor([[0, 0], [1, 1]] * 50)
    for options in ({"order_seed": 3}, {"parents": [[], []]}):
        choice = fit_to_rows(choose({"model_options": options}, {"steps": 9}), rows, Space.bits(2))
        assert choice.recipe.model_options == options
        assert choice.settings.steps == 9


@pytest.mark.parametrize("objective", ["csm", "logistic", "score_entropy", "ratio_matching"])
def test_ratios_of_a_density_use_a_connected_neighborhood(objective):
    choice = choose({"objective": objective}, {})
    assert (choice.recipe.edges, choice.recipe.neighborhood) == ("self_proposal", None)
    assert any("self_proposal" in line for line in choice.why)


def test_what_is_said_is_kept():
    choice = choose({"objective": "logistic", "neighborhood": "hamming"}, {"steps": 7, "patience": None})
    assert (choice.recipe.edges, choice.recipe.neighborhood) == ("paired", "hamming")
    assert (choice.training["steps"], choice.training["patience"]) == (7, None)
    assert choose({"model": "mlp", "objective": "csm"}, {}).recipe.edges == "paired"  # it cannot draw proposals
    assert choice.why == ()


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="did you mean 'made'"):
        choose({"model": "mad"}, {})


def test_a_model_without_a_likelihood_learns_ratios():
    for model in ("energy", "mlp"):
        choice = choose({"model": model}, {})
        assert (choice.recipe.objective, choice.recipe.neighborhood) == ("logistic", "hamming")
        assert any("no likelihood to maximize" in line for line in choice.why)
        choice.recipe.build(Space.bits(3), choice.settings)
        assert choose({"model": model, "objective": "csm"}, {}).recipe.objective == "csm"
    for model in ("made", "table"):
        assert choose({"model": model}, {}).recipe.objective == "maximum_likelihood"


def test_images_get_a_network_that_fits_their_shape_with_the_reasons():
    choice = choose_for_images({}, {}, (28, 28))
    recipe = choice.recipe
    assert (recipe.model, recipe.objective, recipe.noise) == ("unet", "clean_value", "log_snr")
    assert recipe.model_options == {"shape": [28, 28], "depth": 2}
    assert choice.training == dict(IMAGE_TRAINING)
    for start in ("unet", "objective clean_value", "noise log_snr", "depth 2: as images of 28x28 allow"):
        assert any(line.startswith(start) for line in choice.why)
    assert choose_for_images({}, {}, (1, 9)).recipe.model_options == {"shape": [1, 9], "depth": 0, "width": 32}


@pytest.mark.parametrize(
    ("head", "objective"), [("denoising", "clean_value"), ("raw", "denoising"), ("log_ratio", "denoising")]
)
def test_the_head_of_a_model_of_images_decides_what_it_learns_by(head, objective):
    choice = choose_for_images({"model_options": {"head": head}}, {}, (8, 8))
    assert choice.recipe.objective == objective
    small = {**choice.recipe.model_options, "width": 4}
    replace(choice.recipe, model_options=small).build(Space.bits(64), choice.settings)


def test_what_is_said_about_images_is_kept():
    given = {"model_options": {"depth": 1, "width": 8}, "noise": "categorical", "noise_options": {"weights": [0.5]}}
    choice = choose_for_images(given, {"lr": 0.5, "steps": 3}, (8, 8))
    assert choice.recipe.model_options == {"depth": 1, "width": 8, "shape": [8, 8]}
    assert choice.recipe.noise == "categorical"
    assert (choice.training["lr"], choice.training["steps"]) == (0.5, 3)
    assert choose_for_images({"model": "made"}, {}, (8, 8)) == choose({"model": "made"}, {})  # needs no shape
