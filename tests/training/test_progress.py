"""A training's events for people: what is said, when, and that quiet is quiet."""

from pathlib import Path

from concrete_score import progress
from concrete_score.training import Progress, TrainingSettings, Validated, WentBack
from concrete_score.training.events import Status, tensorboard, training_progress

SETTINGS = TrainingSettings(steps=1000)


def test_lines_say_loss_validation_speed_and_time_left(monkeypatch, capsys):
    clock = iter([0.0, 11.0, 11.0, 12.0, 30.0, 30.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with training_progress(SETTINGS) as show:
        show(Progress(100, 2.5, 1e-3, 1.0))
        show(Validated(100, -6.5, 100, -6.25))
        show(Progress(200, 2.25, 1e-3, 2.0))  # too soon after the first
        show(Progress(300, 2.0, 1e-3, 3.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "step 100/1,000: loss 2.5000",
        "step 300/1,000: loss 2.0000, validation -6.5000 (best -6.2500 at step 100), 100 steps/s, 0:07 left",
    ]


def test_the_guards_return_is_always_told(capsys):
    with training_progress(SETTINGS) as show:
        show(Progress(20, 2.5, 1e-3, 1.0))  # too soon after the beginning
        show(WentBack(40, 20, 3e-4, "the loss is not a number"))
    assert capsys.readouterr() == ("", "step 40: the loss is not a number; back to step 20 with rate 0.0003\n")


def test_quiet_is_quiet(capsys):
    with training_progress(SETTINGS, quiet=True) as show:
        show(WentBack(40, 20, 3e-4, "why"))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_on_standard_error(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with training_progress(SETTINGS) as show:
        show(Progress(100, 2.5, 1e-3, 1.0))
        show(WentBack(40, 20, 3e-4, "[red]why"))
    out, err = capsys.readouterr()
    assert out == ""
    assert "[red]why" in err


def test_time_left_is_bounded_by_the_minutes_allowed():
    status = Status(TrainingSettings(steps=10**6, minutes=1.0))
    status.see(Progress(10, 1.0, 1e-3, 1.0))
    assert status.see(Progress(20, 1.0, 1e-3, 2.0)).endswith("0:58 left")


def test_tensorboard_gets_the_scalars(tmp_path: Path):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        show = tensorboard(tmp_path)
        show(Progress(100, 2.5, 1e-3, 1.0))
        show(Validated(100, -6.5, 100, -6.25))
    (file,) = tmp_path.iterdir()
    assert b"validation" in file.read_bytes()
