"""An Ising lattice near its critical point: the kernel the library picks beside a textbook one, against the truth."""

import torch

from concrete_score.samplers import MetropolisHastings, run
from concrete_score.targets import Ising

COUPLING = 0.42
"""Just below the critical one, 0.4407: clusters of all sizes, and slow chains."""


def main(steps: int = 2000, side: int = 10, chains: int = 8) -> dict[str, dict[str, float]]:
    """Bonds' mean agreement by each kernel, with its error, its effective draws a second, and the exact value."""
    target = Ising((side, side), COUPLING)

    def agreement(x: torch.Tensor) -> torch.Tensor:
        """The mean of ``s_i s_j`` over all bonds of each chain: what the coupling is conjugate to."""
        return target.log_density(x) / COUPLING / (2 * side * side)

    found = {}
    for name, kernel, model in (("auto", "auto", target), ("mh", MetropolisHastings(target), None)):
        random = torch.Generator().manual_seed(0)
        samples = run(
            kernel,
            chains,
            steps=steps,
            burn_in=steps // 2,
            generator=random,
            statistics={"agreement": agreement},
            model=model,
        )
        diagnosis = samples.diagnosis
        assert diagnosis is not None
        summary = diagnosis.statistics["agreement"]
        found[name] = {
            "mean": summary.mean,
            "error": summary.standard_error,
            "R-hat": summary.r_hat,
            "effective draws a second": summary.ess / diagnosis.seconds,
        }
    h = 1e-4  # d log Z / d coupling, by the transfer matrix
    ends = [float(Ising((side, side), COUPLING + d).log_partition()) for d in (-h, h)]
    found["exact"] = {"mean": (ends[1] - ends[0]) / (2 * h) / (2 * side * side)}
    return found


if __name__ == "__main__":
    for name, values in main().items():
        print(f"{name:8}" + "  ".join(f"{key} {value:.4g}" for key, value in values.items()))
