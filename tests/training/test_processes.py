"""Several processes train what one would: every model with every objective, in one launch."""

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
import torch

from concrete_score import runs
from concrete_score.experiments.processes.launching import csm, launch
from concrete_score.experiments.result import Settings
from concrete_score.experiments.runner import reproduce
from tests.training import pairs

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def run_in_two(*words, **options):
    """Two processes on this machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*TORCHRUN, *words], capture_output=True, text=True, timeout=300, env=environment, **options)


@pytest.mark.slow
def test_two_processes_train_every_pair_as_one_does(tmp_path):
    from safetensors.torch import load_file

    done = run_in_two(str(Path(pairs.__file__)), str(tmp_path / "weights.safetensors"))
    assert done.returncode == 0, done.stderr[-2000:]
    found, expected = load_file(tmp_path / "weights.safetensors"), pairs.train_all()
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-5, rtol=0, msg=name)


def kill_worker(job, rank):
    assert job.kill(rank, 0.0)
    return job.wait(120.0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_a_worker_that_dies_ends_the_job_in_at_most_one_line(count, tmp_path):
    """All survivors notice; one of them says so, and nothing was imported from the working directory."""
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(0).integers(0, 2, (200, 4)))
    out = tmp_path / "run"
    fit = csm(
        "fit", rows, "--out", out, "--steps", 100_000, "--set", "patience=none", "--set", "checkpoint_seconds=0.1"
    )
    job = launch(fit, tmp_path / "job", count)
    start = monotonic()
    while not list((out / "checkpoint").glob("step-*")) and monotonic() - start < 240:
        sleep(0.1)
    started = monotonic()
    assert kill_worker(job, 1) == 1
    assert monotonic() - started < 30
    assert len(job.errors) == 1, job.messages[-2000:]
    assert "--no-python csm fit" in job.errors[0]
    assert "Traceback" not in job.messages
    assert runs.open(out).checkpoint() is not None


@pytest.mark.slow
def test_two_processes_beside_one_at_the_quick_size(tmp_path):
    """All checks but the time of a step, which needs a quiet machine."""
    found = reproduce("processes", Settings(quick=True), tmp_path)
    assert [check.name for check in found.failed if "seconds of a U-Net's step" not in check.name] == []


def test_every_model_and_objective_is_among_the_pairs():
    from concrete_score import registry

    names = [name.split("-") for name in pairs.recipes()]
    assert {name[0] for name in names} == set(registry.names("models"))
    assert {name[1] for name in names} == set(registry.names("objectives"))
    assert {name[2] for name in names} == {"None", *registry.names("edges")}


@pytest.mark.parametrize("device", ["x", "cuda:99", ""])
def test_a_device_that_is_none_is_one_line(device):
    from concrete_score.errors import InputError
    from concrete_score.training.processes import connect, usable

    for ask in (usable, connect):
        with pytest.raises(InputError, match=r"^[^\n]*expected a device that PyTorch can use here, got "):
            ask(device)
