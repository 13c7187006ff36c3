"""The guard's verdicts, one observation at a time."""

from math import inf, nan

import pytest

from concrete_score.objectives import build
from concrete_score.spaces import Space
from concrete_score.training.guard import ADVICE, EXPLOSION, SLOWER, Guard, advice_for, explain, recount


def seen(*losses: float) -> Guard:
    guard = Guard()
    for loss in losses:
        guard, verdict = guard.see_loss(loss)
        assert verdict.fine
    return guard


@pytest.mark.parametrize("loss", [nan, inf, -inf])
def test_what_is_no_number_is_never_fine(loss):
    guard = seen(1.0, 2.0)
    after, verdict = guard.see_loss(loss)
    assert not verdict.fine
    assert after == guard  # a broken number is not remembered
    assert not guard.see_validation(loss)[1].fine


@pytest.mark.parametrize("sign", [1, -1])
def test_an_explosion_either_way_is_caught_and_growth_below_it_is_not(sign):
    guard = seen(5.0, 5.0)
    assert not guard.see_loss(sign * 5.0 * EXPLOSION * 1.01)[1].fine
    assert guard.see_loss(sign * 5.0 * EXPLOSION * 0.99)[1].fine


def test_small_losses_have_room():
    assert seen(1e-9).see_loss(EXPLOSION * 0.99)[1].fine


def test_a_fall_too_even_for_a_jump_has_a_floor_that_going_back_does_not_lower():
    losses = [-(10.0**power) for power in range(1, 14)]
    guard = seen(*losses).went_back("a cliff")
    assert guard.first == 10.0
    assert seen(*losses).see_loss(-0.99e13)[1].fine
    for fallen in (seen(*losses), guard):
        assert "without end" in fallen.see_loss(-1.01e13)[1].reason
    assert Guard(**guard.to_json()) == guard


def test_a_cliff_is_losing_all_that_was_won():
    guard, verdict = Guard().see_validation(-11.0)
    assert verdict.fine
    guard, verdict = guard.see_validation(-6.0)
    assert verdict.fine
    assert guard.best == -6.0
    assert guard.see_validation(-10.9)[1].fine
    assert "from -6" in guard.see_validation(-11.1)[1].reason


def test_before_anything_is_won_a_fall_below_one_is_no_cliff():
    guard, _ = Guard().see_validation(-1.0)
    assert guard.see_validation(-1.9)[1].fine
    assert not guard.see_validation(-2.1)[1].fine


def test_going_back_forgets_the_losses_and_remembers_the_best():
    guard, _ = seen(1.0).see_validation(-3.0)
    back = guard.went_back("a cliff")
    assert (back.rollbacks, back.typical, back.best, back.last) == (1, None, -3.0, "a cliff")
    assert Guard(**back.to_json()) == back


def test_the_explanation_says_what_happened_what_is_kept_and_what_to_try():
    told = explain("the loss is not a number", 900, 500, 3)
    assert "step 900" in told
    assert "step 500" in told
    assert told.endswith(ADVICE)
    for remedy in ("logistic", "denoising", "uniform", "self_proposal"):
        assert remedy in ADVICE
    assert recount(Guard(), 500) == ""
    once = recount(Guard().went_back("a cliff"), 500)
    assert "once" in once
    assert "a cliff" in once
    assert once.endswith(ADVICE)
    assert "no model better" in explain("x", 9, 0, 0)


def test_advice_follows_the_objective():
    space = Space.bits(3)
    for name in ("csm", "score_entropy", "discrete_marginalization"):
        assert advice_for(build(name, space)) == ADVICE
    for name in ("logistic", "ratio_matching", "maximum_likelihood", "ratio_matching_multiclass"):
        assert advice_for(build(name, space)) == SLOWER
    assert "no lower bound" not in SLOWER
