"""Several processes train what one would: every model with every objective, in one launch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training import pairs

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def launch(*words, **options):
    """Two processes on this machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*TORCHRUN, *words], capture_output=True, text=True, timeout=300, env=environment, **options)


@pytest.mark.slow
def test_two_processes_train_every_pair_as_one_does(tmp_path):
    from safetensors.torch import load_file

    done = launch(str(Path(pairs.__file__)), str(tmp_path / "weights.safetensors"))
    assert done.returncode == 0, done.stderr[-2000:]
    found, expected = load_file(tmp_path / "weights.safetensors"), pairs.train_all()
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-5, rtol=0, msg=name)


def test_every_model_and_objective_is_among_the_pairs():
    from concrete_score import registry

    names = [name.split("-") for name in pairs.recipes()]
    assert {name[0] for name in names} == set(registry.names("models"))
    assert {name[1] for name in names} == set(registry.names("objectives"))
    assert {name[2] for name in names} == {"None", *registry.names("edges")}
