"""Work shared by processes: its order, how it fails, and how it ends."""

import os
import signal
import time
from functools import partial

import pytest

from concrete_score import jobs
from concrete_score.errors import InputError
from concrete_score.jobs import AHEAD, in_order


def slow_double(item):
    time.sleep(0.2 if item == 0 else 0.0)
    return os.getpid(), 2 * item


def refuse(item):
    if item == 3:
        raise InputError("less than three", str(item), where=f"item {item}", fix="count again")
    return item


def fall(item):
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def threads(item):
    import sys

    import polars as pl
    import torch

    sys.stdout.write("not an answer")
    sys.stdout.flush()
    return torch.get_num_threads(), pl.thread_pool_size(), "" in sys.path


def test_results_come_in_the_order_of_the_items_from_several_processes():
    found = list(in_order(slow_double, range(8), jobs=2))
    assert [value for _, value in found] == [2 * item for item in range(8)]
    pids = {pid for pid, _ in found}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_items_are_taken_only_a_few_ahead():
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    results = in_order(slow_double, items(), jobs=2)
    next(results)
    results.close()
    assert len(taken) <= 2 * AHEAD + 1


def test_a_mistake_in_the_work_is_the_same_mistake_here():
    results = in_order(refuse, range(5), jobs=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match=r"^item 3: expected less than three, got 3; count again$"):
        next(results)


def test_a_process_that_falls_is_told_in_one_line_by_its_signal():
    with pytest.raises(ChildProcessError) as fallen:
        list(in_order(fall, range(4), jobs=2))
    assert "SIGKILL" in str(fallen.value)
    assert "\n" not in str(fallen.value)


def test_a_process_that_falls_while_it_starts_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(jobs, "_SERVE", "raise SystemExit(3)")
    large = partial(refuse, bytes(2**20))  # more than a pipe takes without a reader
    with pytest.raises(ChildProcessError, match="one of the processes at work ended with code 3"):
        list(in_order(large, range(2), jobs=2))


def test_work_that_others_cannot_load_is_refused_in_one_line():
    with pytest.raises(InputError, match="a model that other processes can load"):
        list(in_order(lambda item: item, [1], jobs=2))


def test_processes_end_when_the_loop_is_left():
    results = in_order(slow_double, range(10), jobs=2)
    pid, _ = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_has_one_thread_and_nothing_from_the_working_directory(tmp_path, monkeypatch):
    for name in ("struct", "polars", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    assert list(in_order(threads, range(2), jobs=2)) == [(1, 1, False)] * 2
