"""A million rows of fifty mixed columns: `csm fit` stays below 2 GB, file, states, training and all."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from concrete_score.bench.tables import mixed_table

# The most memory this very program held; getrusage would count what its parent held before it began.
FIT = """
import sys
from pathlib import Path
from concrete_score.cli.main import main
try:
    main(sys.argv[1:])
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_fit_of_a_million_rows_peaks_below_two_gigabytes(tmp_path):
    table = tmp_path / "mixed.csv"
    mixed_table(1_000_000, 50).write_csv(table)
    words = [
        "fit",
        str(table),
        "--out",
        str(tmp_path / "run"),
        "--steps",
        "200",
        "--bins",
        "c13=10",
        "--bins",
        "c33=10",
    ]
    child = subprocess.run([sys.executable, "-c", FIT, *words, "--json"], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    told = json.loads(child.stdout)
    assert told["steps"] == 200
    assert math.isfinite(told["valid_log_likelihood"])
    kilobytes = int(child.stderr.split()[-1])
    assert kilobytes * 1024 < 2e9
