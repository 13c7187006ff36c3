"""Default fits are what they were, bit for bit: weights and samples of tables and images have the digests on record.

Digests depend on the processor and on PyTorch's version; on another machine there is nothing to compare with. They
retire when a default changes: `tests/runs/digests.json` is then written anew.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from concrete_score.data import as_frame, write_file
from concrete_score.experiments.demo import as_table
from concrete_score.randomness import generator
from concrete_score.targets import asia

KNOWN = json.loads((Path(__file__).parent / "runs" / "digests.json").read_text())
SEEDS = ("0",)
"""The others were compared once."""


def machine():
    """The processor to the last flag, PyTorch, and the instructions it uses here."""
    about = Path("/proc/cpuinfo").read_text().partition("\n\n")[0] if Path("/proc/cpuinfo").exists() else ""
    fields = re.findall(r"^(model name|cpu family|model|stepping|flags)\s*: (.*)$", about, re.M)
    processor = hashlib.sha256(repr(sorted(fields)).encode()).hexdigest()[:16]
    return [processor, torch.__version__.partition("+")[0], torch.backends.cpu.get_cpu_capability()]


def csm(*words):
    child = subprocess.run(
        [sys.executable, "-m", "concrete_score", *map(str, words), "--threads", "1", "--quiet"],
        capture_output=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def weights_digest(path):
    total = hashlib.sha256()
    for name, value in sorted(load_file(path).items()):
        array = value.numpy()
        for part in (name, str(array.dtype), str(array.shape)):
            total.update(part.encode())
        total.update(array.tobytes())
    return total.hexdigest()


@pytest.mark.slow
@pytest.mark.skipif(machine() != KNOWN["machine"], reason="digests of fits are known for another machine")
@pytest.mark.parametrize("case", [case for case in KNOWN["cases"] if case.rpartition(":")[2] in SEEDS])
def test_default_fits_are_what_they_were(case, tmp_path, request):
    name, objective, seed = case.split(":")
    data, options = name, () if objective == "default" else ("--objective", objective)
    if name == "demo":
        data = tmp_path / "clinic.csv"
        write_file([as_frame(as_table(asia(), asia().sample(20_000, generator(0, "demo rows"))))], data)
    elif name != "digits":
        request.getfixturevalue("data_dir")
    csm("fit", data, "--out", tmp_path / "run", "--seed", seed, "--no-report", *options)
    assert weights_digest(tmp_path / "run" / "model.safetensors") == KNOWN["cases"][case]["weights"]
    samples = csm("sample", tmp_path / "run", "-n", "500", "--seed", "0")
    assert hashlib.sha256(samples).hexdigest() == KNOWN["cases"][case]["samples"]
