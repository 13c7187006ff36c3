"""Generative models of discrete data through their probability ratios (Concrete scores).

Importing this package is light: names and rooms are loaded on first use (PEP 562).

>>> import concrete_score as cs
>>> cs.Space((2, 3)).num_states
6
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concrete_score.errors import InputError as InputError
    from concrete_score.estimator import ConcreteScoreEstimator as ConcreteScoreEstimator
    from concrete_score.model import Model as Model
    from concrete_score.model import load as load
    from concrete_score.spaces import Space as Space

__version__ = "0.2.0"

_NAMES = {
    "ConcreteScoreEstimator": "estimator",
    "ConcreteScoreImputer": "imputer",
    "InputError": "errors",
    "Model": "model",
    "Space": "spaces",
    "load": "model",
}
_ROOMS = (
    "baselines",
    "bench",
    "codecs",
    "comparison",
    "data",
    "diagnostics",
    "errors",
    "estimator",
    "experiments",
    "files",
    "fitted",
    "fitting",
    "likelihood",
    "metrics",
    "model",
    "models",
    "neighborhoods",
    "noise",
    "objectives",
    "protocols",
    "randomness",
    "registry",
    "report",
    "runs",
    "samplers",
    "scores",
    "spaces",
    "targets",
    "training",
)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_NAMES, *_ROOMS, "__version__"])
