"""``csm explore``: how it begins and ends, and that every mistake is one line."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser

import pytest

from concrete_score.cli import explore
from tests.cli.clinic import clinic_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic_run(tmp_path_factory.mktemp("explore") / "run")


def test_it_answers_until_ctrl_c_leaves_with_0_and_changes_no_file(run):
    def state():
        return sorted((entry.name, entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(run))

    before = state()
    words = [sys.executable, "-m", "concrete_score", "explore", run, "--no-browser", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        found = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert re.fullmatch(rf"http://127\.0\.0\.1:{found['port']}/[\w-]{{43}}/", found["url"])
        with urllib.request.urlopen(found["url"], timeout=60) as page:
            assert b"concrete-score explorer" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{found['port']}/", timeout=60)
        body = b'{"given": [{"column": "smoke", "values": ["yes"]}]}'
        for question in ("conditionals", "draws", "row"):
            asked = urllib.request.Request(f"{found['url']}ask/{question}", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert b'"error":' not in answer.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert out == ""
    assert err == "open this address in a browser of this machine; Ctrl-C ends the page\n"
    assert state() == before


def test_mistakes_are_one_line(run, misused, tmp_path):
    assert "expected a run directory" in misused("explore", str(tmp_path / "nowhere"))
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "model.safetensors").write_bytes(b"nothing of the kind")
    assert "model.safetensors" in misused("explore", str(damaged), "--no-browser")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = misused("explore", run, "--port", port, "--no-browser")
        assert f"--port: expected a free port, got {port}, one in use; choose another --port" in line
    assert "99999" in misused("explore", run, "--port", "99999")
    (tmp_path / "start.csv").write_text("smoke,age\nyes,41\n")
    assert "'ill'" in misused("explore", run, "--start", str(tmp_path / "start.csv"), "--no-browser")


def test_without_the_extra_one_line_names_it(run, misused, monkeypatch):
    monkeypatch.setattr(explore, "find_spec", lambda name: None)
    line = misused("explore", run)
    assert "got no starlette and no uvicorn; install them: pip install 'concrete-score[explore]'" in line


def test_a_missing_browser_is_said_and_the_page_goes_on(run, csm, monkeypatch):
    def missing(using=None):
        raise webbrowser.Error("could not locate runnable browser")

    told = []
    monkeypatch.setattr(webbrowser, "get", missing)
    monkeypatch.setattr(
        "concrete_score.explorer.server.serve", lambda explorer, token, at, started: (started(), at.close())
    )
    monkeypatch.setattr(explore, "Thread", lambda target, daemon: told.append(target) or _Now(target))
    code, out, err = csm("explore", run)
    assert code == 0
    assert out.startswith("http://127.0.0.1:")
    assert err.endswith("no browser was found: open the address yourself\n")
    assert told


class _Now:
    """A thread that runs at once."""

    def __init__(self, target):
        self.start = target


def test_a_browser_that_would_take_the_terminal_is_not_opened(monkeypatch):
    opened = []

    class Beside(webbrowser.BackgroundBrowser):
        def open(self, url, new=0, autoraise=True):
            return opened.append(url) or True

    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda using=None: webbrowser.GenericBrowser("lynx"))
    assert not explore._open("http://127.0.0.1/")
    monkeypatch.setattr(webbrowser, "get", lambda using=None: Beside("beside"))
    assert explore._open("http://127.0.0.1/x/")
    assert opened == ["http://127.0.0.1/x/"]
