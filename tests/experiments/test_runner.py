"""Units are done once, kept when done, and the same whether found now or before, by one process or two."""

import json
from dataclasses import replace
from multiprocessing import Process

import pytest

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.experiments import runner
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import STORE, Unit, complete, spent, stored


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


def rewrite(path, change):
    """Every stored line changed by a function."""
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_time_spent_before_is_not_forgotten(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    assert spent(settings) == spent(Settings()) == 0
    complete(units(log, 3, 1), settings)
    seconds = {"square-3": 40.0, "square-1": 2.5}
    rewrite(tmp_path / STORE, lambda line: {**line, "seconds": seconds[line["name"]]})
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


def test_a_unit_done_again_takes_the_place_of_the_one_before(tmp_path):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    complete(units(log, 4, 5), settings)
    other = [Unit("square-4", square, {"number": -0.5 + 1, "log": str(log)})]
    complete(other, settings)
    assert len((tmp_path / STORE).read_text().splitlines()) == 3
    assert stored(other, settings)["square-4"]["value"] == 0.25
    assert not stored(units(log, 4), settings)
    rewrite(tmp_path / STORE, lambda line: {**line, "seconds": 1.0})
    assert spent(settings) == 2


@pytest.mark.parametrize("left", [1, 40, -2, -1])
def test_a_half_written_last_line_is_written_again(tmp_path, left):
    """As a process leaves it that was killed in the middle, down to the line's end."""
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    first = complete(units(log, 4, 5), settings)
    path = tmp_path / STORE
    one, two = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(one + two[:left])
    assert list(stored(units(log, 4, 5), settings)) == ["square-4"]
    assert complete(units(log, 4, 5), settings) == first
    assert log.read_text().split() == ["4", "5", "5"]
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == ["square-4", "square-5"]


def test_processes_append_at_once(tmp_path):
    """Long lines, so that a torn or mixed one would show."""
    path, rounds = tmp_path / STORE, 40
    work = [Process(target=append_many, args=(path, name, rounds)) for name in "abcd"]
    for each in work:
        each.start()
    for each in work:
        each.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted([name * 20_000 for name in "abcd"] * rounds)


def append_many(path, name, rounds):
    for _ in range(rounds):
        runner._append(path, json.dumps(name * 20_000))


def test_units_of_another_version_count_unless_forced(tmp_path):
    """Hours of work are not done again because a number changed; what asks for it by name does them again."""
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    complete(units(log, 4), settings)
    rewrite(tmp_path / STORE, lambda line: {**line, "version": "0.0.1"})
    assert complete(units(log, 4, 5), settings)["square-4"]["value"] == 16
    assert log.read_text().split() == ["4", "5"]
    assert runner._versions(settings) == {"0.0.1": 1, __version__: 1}
    assert complete(units(log, 4), replace(settings, force=True))["square-4"]["value"] == 16
    assert log.read_text().split() == ["4", "5", "4"]
    assert runner._versions(settings) == {__version__: 2}


def test_reproduce_goes_on_from_units_of_another_version_and_says_so(tmp_path, monkeypatch):
    log, said = tmp_path / "log", []
    monkeypatch.setattr(runner, "load", lambda *_: lambda s: Findings({}, complete(units(log, 4), s), ()))
    runner.reproduce("squares", Settings(), tmp_path)
    rewrite(tmp_path / "squares" / STORE, lambda line: {**line, "version": "0.0.1"})
    runner.reproduce("squares", Settings(say=said.append), tmp_path)
    assert log.read_text().split() == ["4"]
    assert said == ["squares: 1 stored units are of another version and count; force does them again"]
    assert "Of 1 stored units: 1 of version 0.0.1." in (tmp_path / "squares" / "squares.md").read_text()
    runner.reproduce("squares", Settings(), tmp_path, force=True)
    assert log.read_text().split() == ["4", "4"]


@pytest.mark.parametrize("damage", ["{", "[]", "7", '{"name": "square-4"}'])
def test_a_damaged_line_is_refused(tmp_path, damage):
    log, settings = tmp_path / "log", Settings(store=tmp_path)
    complete(units(log, 4, 5), settings)
    path = tmp_path / STORE
    path.write_text(path.read_text().replace("\n", f"\n{damage}\n", 1))
    with pytest.raises(InputError, match="line 2"):
        complete(units(log, 4), settings)


def test_progress_is_reported(tmp_path):
    said = []
    complete(units(tmp_path / "log", 1, 2), Settings(store=tmp_path, say=said.append))
    assert said == ["square-1: done (1 of 2)", "square-2: done (2 of 2)"]
