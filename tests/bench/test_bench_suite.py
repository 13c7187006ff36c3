"""Every figure has a name that leads to a function."""

from importlib import import_module

import pytest

from concrete_score.bench import FIGURES, chosen
from concrete_score.errors import InputError


def test_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match="did you mean 'draw'"):
        chosen(["startup", "drew"])


def test_all_unless_named_and_every_name_leads_to_a_function():
    assert chosen() == list(FIGURES)
    for target in FIGURES.values():
        module, _, attribute = target.partition(":")
        assert callable(getattr(import_module(module), attribute))
