"""How long ``csm`` takes to say anything at all."""

import subprocess
import sys

from concrete_score.bench.checks import Check
from concrete_score.bench.timing import ratio_of_minima


def help_over_torch_import() -> Check:
    """``csm --help`` against importing PyTorch, each in a fresh interpreter."""

    def fresh(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    value = ratio_of_minima(
        lambda: fresh("-m", "concrete_score", "--help"), lambda: fresh("-c", "import torch"), repeats=3
    )
    return Check.at_most("csm --help / import torch", value, 0.5)
