"""What every test shares: derandomized hypothesis, few threads, shapes checked, and the place of the real data."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from jaxtyping import install_import_hook

# Shapes in annotations are checked in tests only; users pay nothing for them.
_hook = install_import_hook("concrete_score", "beartype.beartype")

import torch  # noqa: E402

settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],  # examples are small already; shrinking would take minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("house")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets, or a skip that says how to have them."""
    folder = os.environ.get("CONCRETE_SCORE_DATA", "")
    if not (Path(folder) / "MANIFEST.json").is_file():
        pytest.skip("real data sets absent: set CONCRETE_SCORE_DATA to the folder that holds MANIFEST.json")
    return Path(folder)


@pytest.fixture(autouse=True)
def _no_global_randomness():
    """A test that consumes torch's global generator hides a missing `generator` argument."""
    before = torch.random.get_rng_state()
    yield
    if not torch.equal(before, torch.random.get_rng_state()):
        pytest.fail("the global random state changed: pass an explicit torch.Generator")
