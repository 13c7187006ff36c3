"""Every script in ``examples/``: short, runs small, and at that size already says something true."""

import ast
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blanks():
    found = load("table_with_blanks").main(steps=150, rows=600)
    assert found["filled right"] > found["most frequent value right"]


def digits():
    found = load("denoise_digits").main(steps=120, width=8)
    assert found["denoised"] < found["corrupted"]


def family():
    found = load("protein_family").main(steps=120, rows=3000)
    assert found["planted contacts found"] > 0.7
    assert found["correlation of mutation effects"] > 0.8


def ising():
    found = load("ising_sampling").main(steps=200, side=6, chains=8)
    auto, exact = found["auto"], found["exact"]["mean"]
    assert abs(auto["mean"] - exact) < 5 * auto["error"]
    assert auto["effective draws a second"] > found["mh"]["effective draws a second"]


def own():
    found = load("own_pieces").main(steps=400, rows=5000)
    assert found["learned from true"] < 0.08  # of which sampled rows alone are 0.02
    assert found["drawn from learned"] < 0.05


def pipeline():
    found = load("sklearn_pipeline").main(steps=40, rows=400)
    assert found["balanced accuracy, ours"] > 0.6
    assert found["best number of steps"] in (2, 40)


RUNS = {
    "denoise_digits": digits,
    "ising_sampling": ising,
    "own_pieces": own,
    "protein_family": family,
    "sklearn_pipeline": pipeline,
    "table_with_blanks": blanks,
}


def test_every_script_has_its_test():
    assert [path.stem for path in SCRIPTS] == sorted(RUNS)
    assert len(RUNS) == 6


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_can_be_called_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    tree = ast.parse(text)
    (main,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    assert main.args.args[0].arg == "steps"
    assert len(main.args.defaults) == len(main.args.args)
    assert ast.get_docstring(tree)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", RUNS)
def test_a_script_runs_small(name, capsys):
    RUNS[name]()
