"""What finding the dependences of a wide table costs, beside one product of its columns with each other."""

import subprocess
import sys
from time import process_time

import torch
from torch import Tensor

from concrete_score.baselines.structure import learn_structure
from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import random_network

_IN_A_PROCESS = (
    "import resource; from concrete_score.bench.structure import search; search({}, {});"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)
"""``ru_maxrss`` is in kilobytes."""


def search_over_product(sites: int = 1_000, rows: int = 10_000, repeats: int = 1) -> Check:
    """A structure search against ``X.T @ X`` in float32, in processor time."""
    x, space = wide_table(sites, rows), Space.bits(sites)
    bits = x.float()
    value = ratio_of_minima(lambda: learn_structure(x, space), lambda: bits.T @ bits, repeats, clock=process_time)
    return Check.at_most(f"structure search, {sites:,} bits x {rows:,} rows / X.T @ X", value, 200.0)


def search_memory(sites: int = 1_000, rows: int = 10_000) -> Check:
    """The peak memory of a process that makes the table and searches it, in gigabytes."""
    code = _IN_A_PROCESS.format(sites, rows)
    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    value = int(child.stdout) / 2**20
    return Check.at_most(f"structure search, {sites:,} bits x {rows:,} rows, gigabytes at the peak", value, 2.0)


def search(sites: int, rows: int) -> None:
    """The work of both figures, once."""
    learn_structure(wide_table(sites, rows), Space.bits(sites))


def wide_table(sites: int, rows: int) -> Tensor:
    """Rows of a random network of bits, each with up to three parents."""
    truth = random_network([2] * sites, 3, generator(0, "wide network"))
    return truth.sample(rows, generator(0, "wide rows")).to(torch.uint8)
