"""``python -m tests.faults.before COMMIT``: the tests of what the attack found, on today's code and on a commit's.

Each must hold today and fail there; ``results/faults/before.md`` says how. Exit 1 where one does not.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
TESTS = "tests/faults/test_lines.py"
HELD = ("test_7_text_beyond_unicode", "test_7_python_without_docstrings_and_asserts")
"""Found by the attack, but what was tried of them ends well on the older code too."""
PAGE = ROOT / "results" / "faults" / "before.md"


def main(commit: str) -> int:
    """Run both, and write the page."""
    full = _git("rev-parse", "--short=10", commit).decode().strip()
    with TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        old.mkdir()
        subprocess.run(["tar", "-x", "-C", str(old)], input=_git("archive", commit, "src"), check=True)
        now, before = _results(ROOT / "src", Path(folder)), _results(old / "src", Path(folder))
    rows = [(name, now[name], before.get(name, "not run")) for name in now]
    PAGE.write_text(_page(full, rows))
    wrong = [name for name, today, then in rows if today or (not then and name not in HELD)]
    sys.stdout.write("".join(f"{name}: today {now[name] or 'holds'}\n" for name in wrong))
    return 1 if wrong else 0


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def _results(source: Path, folder: Path) -> dict[str, str]:
    """Test -> why it failed; nothing where it holds. The nursery of the tests imports the package from ``source``."""
    report = folder / "report.xml"
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS, f"--junitxml={report}", "--basetemp"]
    subprocess.run([sys.executable, *words, str(folder / "tests")], cwd=ROOT, env=environment, stdout=sys.stderr)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failed = [part for part in case if part.tag in ("failure", "error")]
        found[case.attrib["name"]] = _why(failed[0].attrib["message"], folder) if failed else ""
    return found


def _why(message: str, folder: Path) -> str:
    """The first line of a failure, and the last of what a child said; no paths of this machine."""
    text = message.replace(str(folder), "")
    lines = [line.strip() for line in text.split("\nassert ")[0].splitlines() if line.strip(" ^")]
    told = lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"
    told = re.sub(r"(/[\w.\-\[\]= ]+){2,}", "…", told.removeprefix("AssertionError: "))
    return told if len(told) < 160 else f"{told[:60]} … {told[-90:]}"


def _page(commit: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [
        "# What the attack found, before and after",
        "",
        f"    python -m tests.faults.before {commit}",
        "",
        f"Every test of `{TESTS}` uses the command line and the public Python interface alone. On today's code",
        f"{sum(not today for _, today, _ in rows)} of {len(rows)} hold; on commit {commit}, before the hardening,",
        f"{sum(bool(then) for *_, then in rows)} fail. The number in a test's name is that of the finding.",
        f"Those that hold there too were found by the attack, but what was tried of them ends well: {', '.join(HELD)}.",
        "",
        "| test | today | before |",
        "| --- | --- | --- |",
    ]
    for name, today, then in rows:
        cells = (f"`{name}`", today or "holds", f"fails: {then}" if then else "**holds**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
