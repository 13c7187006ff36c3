"""Every family of faults at reduced size; at full size: ``make test-faults FULL=1``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_no_promise_is_broken_at_reduced_size(tmp_path):
    """In a process of its own: children are forked, and what this one has started already would not survive that."""
    command = [sys.executable, "-m", "tests.faults", "--out", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert (tmp_path / "faults.json").exists()
