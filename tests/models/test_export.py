"""Programs of ``torch.export``: reloaded without the library, they say what the model says, for any number of rows."""

import json
import subprocess
import sys
import zipfile

import pytest
import torch

from concrete_score import Space
from concrete_score.errors import InputError
from concrete_score.models import MADE, mlp
from concrete_score.models.export import DESCRIPTION, export
from concrete_score.models.mixture import MixtureModel
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import grid, hamming
from concrete_score.noise import absorbing, binarized_gaussian, categorical

MEMBERS = (
    {"model": "made", "options": {"parents": [[]] * 4, "hidden": 1, "blocks": 0}, "training": None},
    {"model": "latent", "options": {"components": 4, "hidden": 8}},
    {"model": "latent", "options": {"components": 4, "parents": [-1, 0, 0, 1]}},
)
MIXED, BITS, GREY = Space((2, 3, 5, 2)), Space.bits(36), Space((4,) * 64)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def small(space, noise, **options):
    side = int(space.num_sites**0.5)
    return unet(hamming(space), noise=noise, shape=(side, side), width=8, generator=seeded(), **options)


MODELS = {
    "made": lambda: MADE(MIXED, generator=seeded()),
    "made of parents": lambda: MADE(MIXED, parents=[[], [0], [0, 1], [1]], generator=seeded(), dtype=torch.float64),
    "unet": lambda: small(BITS, binarized_gaussian(BITS), depth=1),
    "unet of grey levels": lambda: small(GREY, categorical(GREY, [0.9, 0.5])),
    "unet without noise": lambda: small(BITS, None, depth=1),
    "mixture": lambda: MixtureModel(MIXED, MEMBERS, generator=seeded()),
    "mlp": lambda: mlp(grid(Space((7, 5))), generator=seeded()),
}
SCRIPT = """
import io, sys, torch
program = torch.export.load(sys.argv[1]).module()
assert not any(name.startswith("concrete_score") for name in sys.modules)
torch.save([program(*given) for given in torch.load(sys.argv[2])], sys.argv[3])
"""


def scores(model, given):
    with torch.no_grad():
        return model(*given)


@pytest.mark.parametrize(
    "name", [each if each in ("made", "unet") else pytest.param(each, marks=pytest.mark.slow) for each in MODELS]
)
def test_a_program_reloaded_elsewhere_says_what_the_model_says(name, tmp_path):
    model, random = MODELS[name](), torch.Generator().manual_seed(1)
    found = export(model, tmp_path / "model.pt2")
    assert found.largest_difference <= 1e-6
    space = model.space if found.output == "log_density" else model.neighborhood.space
    given = []
    for rows in (1, 2, 7, 200):  # more than are read at a time, too
        levels = [torch.randint(model.noise.num_levels, (rows,), generator=random)] if len(found.inputs) > 1 else []
        given.append((space.uniform(rows, random), *levels))
    torch.save(given, tmp_path / "given.pt")
    files = [str(tmp_path / each) for each in ("model.pt2", "given.pt", "scores.pt")]
    subprocess.run([sys.executable, "-c", SCRIPT, *files], check=True, cwd=tmp_path)
    for each, theirs in zip(given, torch.load(tmp_path / "scores.pt"), strict=True):
        ours = scores(model, each)
        assert theirs.shape == ours.shape
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_file_says_what_it_computes(tmp_path):
    model = MODELS["unet"]()
    export(model, tmp_path / "model.pt2", {"kind": "image"})
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        (inside,) = (each for each in archive.namelist() if each.endswith(DESCRIPTION))
        told = json.loads(archive.read(inside))
    assert told["output"] == "log_ratios"
    assert [(each["name"], each["shape"]) for each in told["inputs"]] == [("x", ["rows", 36]), ("level", ["rows"])]
    assert (told["slots"], told["levels"], told["kind"]) == (36, model.noise.num_levels, "image")


@pytest.mark.slow
def test_the_model_itself_is_left_as_it_is(tmp_path):
    model = small(BITS, binarized_gaussian(BITS), depth=1, mixed=True, compiled=True)
    export(model, tmp_path / "model.pt2")
    trunk = model.trunk.trunk
    assert trunk.mixed
    assert trunk.compiled
    assert all(each.requires_grad for each in model.parameters())


def test_what_cannot_be_exported_is_refused_before_anything_is_written(tmp_path):
    masked = mlp(hamming(MIXED), noise=absorbing(MIXED), generator=seeded())
    with pytest.raises(InputError, match="got MaskedNetwork"):
        export(masked, tmp_path / "model.pt2")
    with pytest.raises(InputError, match=r"ends in \.pt2"):
        export(MODELS["made"](), tmp_path / "model.onnx")
    (tmp_path / "there.pt2").write_bytes(b"mine")
    with pytest.raises(InputError, match="exists"):
        export(MODELS["made"](), tmp_path / "there.pt2", force=False)
    assert (tmp_path / "there.pt2").read_bytes() == b"mine"
    assert [each.name for each in tmp_path.iterdir()] == ["there.pt2"]


def test_a_program_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("concrete_score.models.export._difference", lambda *_: float("nan"))
    with pytest.raises(InputError, match="within 1e-06 of the model"):
        export(MODELS["made"](), tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_traced_is_one_line(tmp_path):
    class Stubborn(torch.nn.Module):
        space, normalized = MIXED, True

        def log_density(self, x):
            return x.double().sum(-1) if int(x.sum()) > 3 else x.double().mean(-1)

    with pytest.raises(InputError, match="that PyTorch can export") as refused:
        export(Stubborn(), tmp_path / "model.pt2")
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())
