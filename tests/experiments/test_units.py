"""Units are done once, kept when done, and the same whether found now or before, by one process or two."""

import json

import pytest

from concrete_score.errors import InputError
from concrete_score.experiments.result import Settings
from concrete_score.experiments.units import Unit, complete, spent, stored


def square(settings, number, log):
    with open(log, "a") as file:
        file.write(f"{number}\n")
    if number < 0:
        raise InputError("a number", "one below zero")
    return {"value": number**2, "seed": settings.seed, "third": number / 3}


def units(log, *numbers):
    return [Unit(f"square-{number}", square, {"number": number, "log": str(log)}) for number in numbers]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_stored_is_not_done_again(tmp_path, jobs):
    log, settings = tmp_path / "log", Settings(jobs=jobs, store=tmp_path)
    first = complete(units(log, 3, 1, 2), settings)
    assert list(first) == ["square-3", "square-1", "square-2"]
    assert first["square-3"] == {"value": 9, "seed": 0, "third": 1.0}
    again = complete(units(log, 3, 1, 2, 5), settings)
    assert sorted(log.read_text().split()) == ["1", "2", "3", "5"]
    assert {name: again[name] for name in first} == first
    assert stored(units(log, 7, 5), settings) == {"square-5": again["square-5"]}


def test_time_spent_before_is_not_forgotten(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    assert spent(settings) == spent(Settings()) == 0
    complete(units(log, 3, 1), settings)
    for number, seconds in ((3, 40.0), (1, 2.5)):
        path = tmp_path / "units" / "seed-0" / f"square-{number}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": seconds}))
    complete(units(log, 3, 1), settings)
    assert spent(settings) == 42.5
    assert spent(Settings(seed=1, store=tmp_path)) == 0


def test_an_interrupted_experiment_keeps_what_was_done(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    with pytest.raises(InputError):
        complete(units(log, 4, -1, 6), settings)
    assert list(stored(units(log, 4, -1, 6), settings)) == ["square-4"]


def test_other_options_seeds_and_sizes_are_kept_apart(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    complete(units(log, 4), settings)
    assert not stored(units(log, 4), Settings(seed=1, store=tmp_path))
    assert not stored(units(log, 4), Settings(quick=True, store=tmp_path))
    assert not stored([Unit("square-4", square, {"number": 4, "log": "other"})], settings)


def test_another_version_or_a_damaged_unit_is_refused(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    complete(units(log, 4), settings)
    path = tmp_path / "units" / "seed-0" / "square-4.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"version 0\.0\.1"):
        complete(units(log, 4), settings)
    path.write_text("{")
    with pytest.raises(InputError, match="square-4"):
        complete(units(log, 4), settings)


def test_progress_is_told(tmp_path):
    said = []
    complete(units(tmp_path / "log", 1, 2), Settings(store=tmp_path, say=said.append))
    assert said == ["square-1: done (1 of 2)", "square-2: done (2 of 2)"]
