"""Common options: JSON without NaN, quiet progress, devices that are here."""

import json
import sys

import click
import pytest
from click.testing import CliRunner

from concrete_score.cli.console import Console, common_options
from concrete_score.errors import InputError


@click.command()
@click.argument("word")
@common_options
def echo(console, word):
    console.say("working\x1b")
    console.give({"word": word, "seed": console.seed, "bad": [float("nan"), -float("inf")]}, lambda: "text")


def test_json_is_one_object_without_nan_and_progress_stays_off_stdout():
    done = CliRunner().invoke(echo, ["hello", "--json", "--seed", "7"])
    assert json.loads(done.stdout) == {"word": "hello", "seed": 7, "bad": [None, None]}
    assert done.stderr == "working\\x1b\n"


def test_quiet_says_nothing():
    assert CliRunner().invoke(echo, ["hello", "--quiet"]).output == "text\n"


@pytest.mark.parametrize("device", ["nowhere", "meta", "cuda:99"])
def test_absent_device_is_named(device):
    with pytest.raises(InputError, match="device"):
        Console(device=device).use_torch()


def test_device_that_is_here():
    assert Console().use_torch().type == "cpu"


def test_console_needs_no_torch_until_asked():
    # Read from the source of truth: the module that defines it imports none at the top.
    assert "torch" not in vars(sys.modules[Console.__module__])
