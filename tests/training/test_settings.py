"""Settings from words: kinds, ranges, and the nearest name for a mistake."""

import pytest

from concrete_score.errors import InputError
from concrete_score.training import TrainingSettings
from concrete_score.training.recipe import Recipe, sort_settings


def test_words_and_values_give_the_same_settings_and_travel_as_json():
    words = {"steps": "100", "lr": "1e-2", "average": "0.9", "schedule": "constant", "patience": "none"}
    values = {"steps": 100, "lr": 0.01, "average": 0.9, "schedule": "constant", "patience": None}
    assert TrainingSettings.of(words) == TrainingSettings.of(values)
    assert TrainingSettings.of(TrainingSettings.of(words).to_json()) == TrainingSettings.of(words)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "0"),
        ("steps", "1.5"),
        ("steps", "true"),
        ("lr", "0"),
        ("lr", "nan"),
        ("lr", "Infinity"),
        ("lr", "fast"),
        ("average", "1"),
        ("patience", "0"),
        ("schedule", "cosin"),
        ("seed", "-1"),
        ("minutes", "-1"),
    ],
)
def test_wrong_values_are_refused_by_name(name, value):
    with pytest.raises(InputError, match=name):
        TrainingSettings.of({name: value})


def test_mistyped_names_get_the_nearest():
    with pytest.raises(InputError, match="did you mean 'clip_norm'"):
        TrainingSettings.of({"clipnorm": "1"})
    with pytest.raises(InputError, match="did you mean 'valid_every'"):
        sort_settings(("validevery=3",))
    with pytest.raises(InputError, match="KEY=VALUE"):
        sort_settings(("lr",))


def test_schedules_start_at_the_rate_and_cosine_ends_at_zero():
    for schedule, end in (("constant", 1.0), ("cosine", 0.0)):
        settings = TrainingSettings(steps=100, lr=0.5, schedule=schedule)
        assert settings.rate(0) == 0.5
        assert settings.rate(100) == pytest.approx(0.5 * end)
        assert settings.rate(50) == pytest.approx(0.25 + 0.25 * end)


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        (Recipe(model="mad"), "did you mean 'made'"),
        (Recipe(objective="csn"), "did you mean 'csm'"),
        (Recipe(edges="paired"), "no edges with made and maximum_likelihood"),
        (Recipe(neighborhood="grid"), "no neighborhood"),
        (Recipe(objective="logistic", edges="self_proposal", neighborhood="grid"), "no neighborhood"),
        (Recipe(noise="categorical"), "no noise"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(recipe, match):
    with pytest.raises(InputError, match=match):
        recipe.resolved()


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        (Recipe(model_options={"hiden": 3}), "did you mean 'hidden'"),
        (Recipe(model_options={"generator": 3}), "model.generator"),
        (Recipe("mlp", "logistic", "self_proposal"), "density model"),
        (Recipe("energy", "maximum_likelihood"), "normalized"),
        (Recipe("made", "logistic", objective_options={"n": 3}), "objective"),
        (Recipe("mlp", "denoising", noise="categorical"), "weights"),
        (Recipe("mlp", "denoising"), "noise"),
        (Recipe("mlp", "csm", neighborhood="explicit"), "explicit"),
    ],
)
def test_pieces_that_do_not_fit_are_refused_in_words(recipe, match):
    from concrete_score.spaces import Space

    with pytest.raises(InputError, match=match):
        recipe.resolved().build(Space((2, 3)), TrainingSettings(pool=8))
