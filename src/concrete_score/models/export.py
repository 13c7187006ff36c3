"""Scoring as a program of ``torch.export``: a ``.pt2`` file that PyTorch runs without this library, on any batch size.

What it computes is ``log_density`` of a density and ``log_ratios`` of a score model, on states: rows as whole numbers,
one a site. The file also holds ``concrete_score.json``, which says what goes in, what comes out, and of which version.
"""

import io
import json
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.files import atomic, refuse_existing, short
from concrete_score.models.score import NoiseConditionalNetwork, ScoreNetwork
from concrete_score.protocols import DensityModel, space_of
from concrete_score.randomness import generator

DESCRIPTION = "concrete_score.json"
"""The file inside the archive that describes it."""
TOLERANCE = 1e-6
"""How far the reloaded program may be from the model, relative to numbers beyond 1."""
_ROWS = 5
"""Rows that it is traced with; any other number of them runs too."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    output: str
    """``log_density`` or ``log_ratios``."""
    inputs: tuple[str, ...]
    """``x``, and ``level`` where the model has noise levels."""
    largest_difference: float
    """Between the model and the reloaded program, on random states."""


class _LogDensity(nn.Module):
    """``x (N, D) -> log q(x) (N,)``."""

    inputs, output = ("x",), "log_density"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.model.log_density(x)
        return found


class _LogRatios(nn.Module):
    """``x (N, D) -> log q(N(x)_k) - log q(x) (N, K)``."""

    inputs, output = ("x",), "log_ratios"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.model.log_ratios(x)
        return found


class _LogRatiosAtLevel(nn.Module):
    """``x (N, D), level (N,) -> log-ratios (N, K)``; levels are not checked, for a program cannot raise."""

    inputs, output = ("x", "level"), "log_ratios"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        found: Tensor = self.model.head.log_ratios(self.model.trunk(x, level), x, level)
        return found


def export(model: Any, path: str | Path, about: Mapping[str, Any] | None = None, *, force: bool = True) -> Exported:
    """Write a model's scoring as a program, reloaded and compared with the model first.

    Args:
        model: a density that is a network (`MADE`, …), or a score network (`unet`, `mlp`, …), with noise levels or not.
        path: a ``.pt2`` file.
        about: anything else to keep in the description.
        force: whether the file may exist.

    Raises:
        InputError: another suffix, or a model that PyTorch cannot export.

    >>> from tempfile import TemporaryDirectory
    >>> from concrete_score import Space
    >>> from concrete_score.models import MADE
    >>> model = MADE(Space((2, 3)), generator=torch.Generator().manual_seed(0))
    >>> with TemporaryDirectory() as folder:
    ...     found = export(model, f"{folder}/made.pt2")
    ...     program = torch.export.load(found.path).module()
    >>> found.output, program(torch.tensor([[0, 2]])).shape
    ('log_density', torch.Size([1]))
    """
    path = Path(path)
    if path.suffix != ".pt2":
        raise InputError("a file that ends in .pt2", repr(path.name), str(path))
    refuse_existing(path, force)
    scoring = _scoring(model)
    arguments = _arguments(model, scoring, _ROWS)
    described = json.dumps(_description(model, scoring, arguments, about or {}), ensure_ascii=False)
    archive = io.BytesIO()
    with warnings.catch_warnings():
        # Sites that are alike share one stored table: the whole of it is a view, which is saved as it is.
        warnings.filterwarnings("ignore", "No complete tensor found")
        torch.export.save(_traced(scoring, arguments), archive, extra_files={DESCRIPTION: described})
    difference = _difference(scoring, archive, _arguments(model, scoring, 2 * _ROWS + 1))
    if not difference <= TOLERANCE:
        raise InputError(f"a program within {TOLERANCE:g} of the model", f"{difference:g} off", type(model).__name__)
    with atomic(path, force=force) as draft:
        draft.write_bytes(archive.getvalue())
    return Exported(path, scoring.output, scoring.inputs, difference)


def _scoring(model: Any) -> Any:
    """The module to trace: a copy on the CPU, in the precision of its weights."""
    if not isinstance(model, nn.Module):
        raise InputError("a network", type(model).__name__, "model", "only networks can be exported")
    if isinstance(model, DensityModel):
        build: Any = _LogDensity
    elif isinstance(model, NoiseConditionalNetwork):
        build = _LogRatiosAtLevel
    elif isinstance(model, ScoreNetwork):
        build = _LogRatios
    else:
        raise InputError("a density or a score network", type(model).__name__, "model", "MADE and U-Net can be")
    copy = deepcopy(model).cpu().eval().requires_grad_(False)
    for part in copy.modules():
        for switch in ("compiled", "mixed"):
            if hasattr(part, switch):
                setattr(part, switch, False)
    return build(copy)


def _arguments(model: Any, scoring: Any, rows: int) -> tuple[Tensor, ...]:
    random = generator(0, "export")
    x = space_of(model).uniform(rows, random)
    if "level" not in scoring.inputs:
        return (x,)
    return x, torch.randint(model.noise.num_levels, (rows,), generator=random)


def _traced(scoring: nn.Module, arguments: tuple[Tensor, ...]) -> Any:
    rows = torch.export.Dim("rows", min=1)
    try:
        # With gradients on, networks read all rows at once instead of in parts, whose number would be fixed.
        with torch.enable_grad():
            shapes = tuple({0: rows} for _ in arguments)
            return torch.export.export(scoring, arguments, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # whatever the tracer, or a model under it, makes of what it cannot follow
        came = f"{type(scoring.model).__name__}: {short(error)}"
        raise InputError("a model that PyTorch can export", came, "model", "MADE and U-Net can be") from error


def _difference(scoring: nn.Module, archive: io.BytesIO, arguments: tuple[Tensor, ...]) -> float:
    """The largest one between model and reloaded program, relative to numbers beyond 1."""
    archive.seek(0)
    with torch.no_grad():
        ours, theirs = scoring(*arguments), torch.export.load(archive).module()(*arguments)
    if not torch.equal(ours.isfinite(), theirs.isfinite()):
        return float("inf")
    apart = torch.where(ours.isfinite(), (ours - theirs).abs() / ours.abs().clamp_min(1), 0.0)
    return float(apart.max())


def _description(model: Any, scoring: Any, arguments: tuple[Tensor, ...], about: Mapping[str, Any]) -> dict[str, Any]:
    space = space_of(model)
    inputs = [
        {"name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": ["rows", *value.shape[1:]]}
        for name, value in zip(scoring.inputs, arguments, strict=True)
    ]
    found: dict[str, Any] = {
        "format": 1,
        "version": __version__,
        "model": type(model).__name__,
        "output": scoring.output,
        "inputs": inputs,
        "sizes": list(space.sizes),
        **about,
    }
    if scoring.output == "log_density":
        found["normalized"] = bool(model.normalized)
    else:
        found["slots"] = model.neighborhood.num_slots
    if "level" in scoring.inputs:
        found["levels"] = model.noise.num_levels
    return found
