"""The history of a training: one line a validation or a return of the guard."""

from concrete_score.training import Progress, Validated, WentBack
from concrete_score.training.events import Finished, History


def test_lines_are_those_of_the_journal():
    history = History()
    assert history.see(Validated(0, -9.0, 0, -9.0)) == {"step": 0, "loss": None, "valid": -9.0, "best_step": 0}
    assert history.see(Progress(20, 2.5, 1e-3, 1.0)) is None
    assert history.see(Validated(20, -8.0, 20, -8.0)) == {"step": 20, "loss": 2.5, "valid": -8.0, "best_step": 20}
    back = history.see(WentBack(40, 20, 3e-4, "why"))
    assert back == {"step": 40, "went_back_to": 20, "rate": 3e-4, "why": "why"}
    assert [line["step"] for line in history.lines] == [0, 20, 40]


def test_a_model_is_usable_once_it_learned_or_if_it_knew_the_rows_before():
    assert not Finished(40, "diverged", 0, -9.0, 1.0).usable
    assert Finished(40, "diverged", 20, -9.0, 1.0).usable
    assert Finished(40, "diverged", 0, -9.0, 1.0, started=True).usable
