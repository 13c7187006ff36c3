"""What is published: the wheel and the sdist hold what they should and nothing else, an installed wheel works without
this tree, and the files around a release are what their readers expect."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from concrete_score import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GUARDED = [
    *(("github-workflows", path) for path in WORKFLOWS),
    ("dependabot", ROOT / ".github" / "dependabot.yml"),
    ("github-issue-config", ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"),
    ("github-issue-forms", ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml"),
    ("github-issue-forms", ROOT / ".github" / "ISSUE_TEMPLATE" / "idea.yml"),
    ("citation-file-format", ROOT / "CITATION.cff"),
]


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """Wheel and sdist, built in this environment."""
    for tool in ("build", "hatchling"):
        pytest.importorskip(tool, reason=f"{tool} is not installed: pip install 'concrete-score[dev]'")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return out


@pytest.fixture(scope="session")
def wheel(dist):
    (found,) = dist.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = [name for name in names if not name.startswith(f"concrete_score-{__version__}.dist-info/")]
    assert all(name.startswith("concrete_score/") for name in package)
    others = sorted(name for name in package if not name.endswith(".py"))
    page = ("icon.svg", "image.js", "page.css", "page.html", "page.js", "parts.js", "sequence.js", "table.js")
    explorer = [f"concrete_score/explorer/page/{name}" for name in page]
    single = ["concrete_score/data/manifest.json", "concrete_score/py.typed", "concrete_score/report/style.css"]
    assert others == sorted([*explorer, *single])
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if tracked:
        assert sorted(f"src/{name}" for name in package) == sorted(tracked.split())
    assert wheel.stat().st_size < 2**21


@pytest.mark.slow
def test_the_sdist_can_be_tested_and_holds_no_data_and_no_results(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.partition("/")[0] for name in names}
    assert {"src", "tests", "docs", "examples", "pyproject.toml", "LICENSE", "constraints.txt"} <= tops
    assert not tops & {"results", "data", "runs", ".venv", "dist"}
    assert path.stat().st_size < 2**22


@pytest.mark.slow
def test_an_index_would_take_both(dist):
    pytest.importorskip("twine", reason="twine is not installed: pip install 'concrete-score[dev]'")
    told = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout
    assert told.stdout.count("PASSED") == 2


FIVE_LINES = """
import concrete_score as cs, polars as pl
rows = pl.DataFrame({"smoke": ["yes", "no", "no", "yes"] * 50, "cough": ["yes", "no", "no", "no"] * 50})
model = cs.ConcreteScoreEstimator(steps=100).fit(rows)
print(model.impute(pl.DataFrame({"smoke": ["no"], "cough": [None]})).rows(), cs.__file__)
"""


@pytest.mark.slow
def test_an_installed_wheel_works_without_this_tree(wheel, tmp_path):
    """In an environment of its own, over the dependencies of this one."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python, scripts = home / "bin" / "python", home / "bin"
    if not python.exists():
        pytest.skip("environments are laid out otherwise on this system")
    target = next((home / "lib").iterdir()) / "site-packages"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip("pip is not installed here")
    # The dependencies' folders, and none that leads back to the sources.
    folders = [each for each in sys.path if each.endswith("site-packages") and Path(each).is_dir()]
    kept = [each for each in folders or [sysconfig.get_path("purelib")] if not Path(each).is_relative_to(home)]
    (target / "zz_dependencies.pth").write_text("\n".join(f"import sys; sys.path.append({each!r})" for each in kept))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def call(*words):
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    assert call(str(scripts / "csm"), "--version").strip() == f"csm {__version__}"
    assert "explain" in call(str(scripts / "concrete-score"), "--help")
    said = call(str(python), "-c", FIVE_LINES)
    assert "[('no', 'no')]" in said
    assert str(home) in said
    call(str(scripts / "csm"), "demo", "--out", str(tmp_path / "demo"))
    assert any((tmp_path / "demo").iterdir())


@pytest.mark.parametrize(("schema", "path"), GUARDED, ids=lambda each: getattr(each, "name", each))
def test_what_the_forge_reads_is_as_its_schema_says(schema, path):
    pytest.importorskip(
        "check_jsonschema", reason="check-jsonschema is not installed: pip install 'concrete-score[dev]'"
    )
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_actionlint_finds_nothing():
    found = shutil.which("actionlint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("actionlint is not installed")
    told = subprocess.run([found, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_the_hooks_of_pre_commit_are_well_formed():
    pytest.importorskip("pre_commit", reason="pre-commit is not installed: pip install pre-commit")
    path = str(ROOT / ".pre-commit-config.yaml")
    told = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", path], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout


def test_workflows_call_targets_that_exist_and_may_only_read():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in WORKFLOWS:
        text = path.read_text()
        assert "permissions:\n  contents: read\n" in text, path.name
        called = set(re.findall(r"run: make ([\w-]+)", text)) - {"docs"}  # the site brings its own
        assert called <= targets, path.name
        assert text.count("timeout-minutes:") == text.count("runs-on:")
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/tests.yml").read_text())[1]
    classified = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert re.findall(r"3\.\d+", tested) == classified


def test_both_scripts_are_the_same_command():
    assert set(PROJECT["scripts"]) == {"csm", "concrete-score"}
    assert len(set(PROJECT["scripts"].values())) == 1


def test_the_oldest_versions_are_the_lower_bounds():
    pinned = dict(line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().split() if "==" in line)
    bounds = dict(each.split(">=") for each in PROJECT["dependencies"])
    assert set(bounds) == set(pinned)
    for name, bound in bounds.items():
        assert pinned[name].startswith(bound), name


def test_the_image_is_slim_and_runs_as_nobody_special():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert next(line for line in lines if line.startswith("FROM")).endswith("-slim")
    assert lines.index("USER csm") < lines.index('ENTRYPOINT ["csm"]')
    assert not any(re.match(r"(ADD|RUN .*(curl|wget))\b", line) for line in lines)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"  # nothing but what is named goes to the daemon
