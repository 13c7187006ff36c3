"""What is chosen for the user, and that what was given is kept."""

import pytest

from concrete_score.errors import InputError
from concrete_score.training.choice import TRAINING, choose


def test_nothing_said():
    choice = choose({}, {})
    assert (choice.recipe.model, choice.recipe.objective, choice.recipe.edges) == ("made", "maximum_likelihood", None)
    assert choice.training == dict(TRAINING)
    assert any("maximum_likelihood" in line for line in choice.why)
    assert any("steps at most" in line for line in choice.why)


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
