"""The server: who is refused, what every answer forbids, and that nothing but the page and its answers is there."""

import json
import socket
import time
from threading import Thread

import polars as pl
import pytest

from concrete_score.errors import InputError
from concrete_score.explorer.guard import HEADERS, MOST_BYTES, new_token
from concrete_score.explorer.questions import QUESTIONS
from concrete_score.explorer.server import FILES, listen
from concrete_score.model import Model
from tests.cli.clinic import clinic_run
from tests.explorer.cases import TOKEN, serving
from tests.report import cases

GOOD = b'{"given": []}'


def test_the_page_and_its_files_are_there(clinic):
    for name in FILES:
        found = clinic.request(path=f"/{TOKEN}/{name}")
        assert found.status == 200
        assert len(found.body) > 100
    page = clinic.request().body.decode()
    assert "style=" not in page
    assert page.count("<script") == 1  # its own file; nothing inline
    assert "http" not in page.replace("http-equiv", "")
    run = clinic.request(path=f"/{TOKEN}/run.json").json()
    assert (run["view"], run["sites"]) == ("table", 3)
    assert [column["name"] for column in run["columns"]] == ["smoke", "age", "ill"]


@pytest.mark.parametrize(
    "path", ["/", "/run.json", "/page.js", "/ask/row", f"/{TOKEN}", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_nothing_is_answered(clinic, path, method):
    found = clinic.request(method, path, GOOD if method == "POST" else None)
    assert found.status == 403
    assert found.body == b"refused: the address must hold the token that csm explore printed\n"
    assert TOKEN.encode() not in found.body


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("127.0.0.1:80@evil.example", "", None, "[::1]", "0.0.0.0", "127.0.0.1 evil.example", "127.0.0.1:port"),
    ],
)
def test_another_host_name_is_refused(clinic, host):
    for method, path in (("GET", f"/{TOKEN}/"), ("POST", f"/{TOKEN}/ask/row")):
        found = clinic.request(method, path, GOOD if method == "POST" else None, Host=host)
        assert found.status in (400, 421)  # the library's own parser refuses some before us
        assert b"smoke" not in found.body


def test_this_machines_names_are_answered(clinic):
    for host in (f"127.0.0.1:{clinic.port}", f"localhost:{clinic.port}", "localhost", "127.0.0.1:9"):
        assert clinic.request(Host=host).status == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Content_Type": "text/plain"}]
)
def test_questions_of_other_pages_are_refused(clinic, headers):
    given = {"Content_Type": "application/json", **headers}
    found = clinic.request("POST", f"/{TOKEN}/ask/row", GOOD, **given)
    assert found.status in (403, 415)
    assert b"refused" in found.body


def test_its_own_page_may_ask(clinic):
    found = clinic.request("POST", f"/{TOKEN}/ask/row", GOOD, Origin=f"http://127.0.0.1:{clinic.port}")
    assert found.status == 200


def test_every_answer_carries_the_policy_and_none_allows_another_origin(clinic):
    answers = [
        clinic.request(),
        clinic.request(path="/"),
        clinic.request(Host="evil.example"),
        clinic.request(path=f"/{TOKEN}/nothing"),
        clinic.request(path=f"/{TOKEN}/run.json"),
        clinic.request("POST", f"/{TOKEN}/ask/row", GOOD),
        clinic.request("POST", f"/{TOKEN}/ask/row", b"{"),
    ]
    for found in answers:
        assert {name: found.headers.get(name) for name in HEADERS} == HEADERS
        assert not [name for name in found.headers if name.startswith("access-control")]
        assert "server" not in found.headers
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "data:" not in policy


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"])
def test_other_methods_are_refused(clinic, method):
    assert clinic.request(method).status in (400, 405)


@pytest.mark.parametrize(
    "path",
    ["/../server.py", "/..%2fserver.py", "/page/../../model.py", "/%00", "/page.html", "//page.js", "/ask/", "/ask/x"],
)
def test_nothing_else_is_there(clinic, path):
    for method in ("GET", "POST"):
        found = clinic.request(method, f"/{TOKEN}{path}", GOOD if method == "POST" else None)
        assert found.status in (404, 405)
        assert b"def " not in found.body


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"3", b"null", b'"a"', b"\xff\xfe", b'{"given": NaN}', b'{"given": 1e999}', b"[" * 10**5),
        b'{"given": ' + b"9" * 5000 + b"}",
        b'{"given": [' + b"[" * 5000 + b"]" * 5000 + b"]}",
        b'{"given": [{}]}',
    ],
)
def test_malformed_questions_are_one_line(clinic, body):
    found = clinic.request("POST", f"/{TOKEN}/ask/conditionals", body)
    assert found.status in (200, 400)
    line = found.json()["error"]
    assert line.startswith(("expected", "given: expected"))
    assert "\n" not in line
    assert len(line) < 500


def test_a_question_may_not_be_huge_whatever_length_it_states(clinic):
    stated = clinic.request("POST", f"/{TOKEN}/ask/row", None, Content_Type="application/json", Content_Length="9" * 12)
    assert stated.status == 413
    huge = b'{"given": "' + b"a" * MOST_BYTES + b'"}'
    assert clinic.request("POST", f"/{TOKEN}/ask/row", huge).status == 413
    with socket.create_connection(("127.0.0.1", clinic.port), timeout=30) as raw:
        head = f"POST /{TOKEN}/ask/row HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        block = b"10000\r\n" + b"a" * 2**16 + b"\r\n"
        answer = b""
        try:
            for _ in range(18):
                raw.sendall(block)
            raw.sendall(b"0\r\n\r\n")
            answer = raw.recv(2**12)
        except OSError:  # closed before all of it was sent
            pass
    assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]
    assert clinic.ask("row")["reason"] == "nothing is set yet"  # it goes on


@pytest.mark.parametrize("question", QUESTIONS)
def test_unknown_columns_and_values_are_one_line_each(clinic, question):
    assert "did you mean 'smoke'" in clinic.ask(question, [("smok", "=", "yes")])["error"]
    assert "seen in training" in clinic.ask(question, [("smoke", "=", "maybe")])["error"]


def test_answers_over_the_wire_are_those_of_the_functions(clinic, sequence):
    given = [("smoke", "=", "no"), ("age", ">", "30")]
    told = {"given": [{"column": c, "operator": o, "values": [v]} for c, o, v in given]}
    for name in ("conditionals", "doubt", "draws", "row"):
        assert clinic.ask(name, given) == json.loads(json.dumps(QUESTIONS[name](clinic.model, told, None)))
    found = sequence.ask("effects", text="ACDEA")
    assert found == json.loads(json.dumps(QUESTIONS["effects"](sequence.model, {"text": "ACDEA"}, None)))


def test_an_image_comes_in_parts(image):
    body = json.dumps({"given": [], "count": 2, "passes": 8}).encode()
    found = image.request("POST", f"/{TOKEN}/ask/fill", body)
    lines = [json.loads(line) for line in found.body.splitlines()]
    assert found.headers["content-type"].startswith("application/x-ndjson")
    assert len(lines) > 3
    assert lines[-1]["images"] == lines[-2]["images"]
    assert "method" in lines[-1]


def test_what_nobody_waits_for_is_not_made(clinic, monkeypatch):
    made = []

    def endless(model, value, tell):
        for k in range(2000):
            time.sleep(0.01)
            tell({"part": k})
            made.append(k)
        return {}

    monkeypatch.setitem(QUESTIONS, "fill", endless)
    with socket.create_connection(("127.0.0.1", clinic.port), timeout=30) as raw:
        head = f"POST /{TOKEN}/ask/fill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD)
        assert b"200 OK" in raw.recv(100)
    assert clinic.ask("row")["reason"] == "nothing is set yet"
    assert 0 < len(made) < 1500


def test_a_mistake_of_ours_is_an_answer_and_the_server_goes_on(clinic, monkeypatch):
    def broken(*_):
        raise RuntimeError("a\nb")

    monkeypatch.setitem(QUESTIONS, "row", broken)
    found = clinic.request("POST", f"/{TOKEN}/ask/row", GOOD)
    assert (found.status, found.json()["error"]) == (500, r"internal error (RuntimeError: a\nb)")
    assert clinic.ask("conditionals")["exact"]


def test_questions_at_once_are_all_answered(clinic):
    answers = []
    threads = [Thread(target=lambda: answers.append(clinic.ask("conditionals"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 12
    assert all(each == answers[0] for each in answers)


def test_hostile_words_come_as_they_are_and_only_as_json(hostile):
    found = hostile.request(path=f"/{TOKEN}/run.json")
    assert found.headers["content-type"] == "application/json"
    names = [column["name"] for column in found.json()["columns"]]
    assert names[: len(cases.HOSTILE)] == list(cases.HOSTILE)
    for name in names:
        answer = hostile.ask("conditionals", [(name, "=", cases.VALUES[0])])
        assert len(answer["columns"]) == len(names) - 1
        assert {bar["label"] for bar in answer["columns"][0]["bars"]} == set(cases.VALUES)
    wrong = hostile.ask("conditionals", [(cases.SCRIPT, "=", cases.CONTROL)])["error"]
    assert "\x1b" not in wrong
    assert "\n" not in wrong


def test_the_page_begins_with_the_first_row_of_data(tmp_path):
    model = Model.open(clinic_run(tmp_path / "run"))
    start = model.read(pl.DataFrame({"smoke": ["yes", "no"], "age": [41, 30], "ill": [None, "True"]}), filling=True)
    with serving(model, start) as site:
        told = site.request(path=f"/{TOKEN}/run.json").json()["start"]
    assert told == [
        {"column": "smoke", "operator": "=", "values": ["yes"]},
        {"column": "age", "operator": "=", "values": ["41"]},
    ]


def test_it_listens_on_this_machine_alone_and_a_taken_port_is_one_line():
    at = listen(0)
    try:
        host, port = at.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(InputError, match=f"port: expected a free port, got {port}, one in use"):
            listen(port)
    finally:
        at.close()


def test_tokens_are_long_and_never_the_same():
    assert len({new_token() for _ in range(100)}) == 100
    assert min(len(new_token()) for _ in range(100)) >= 43
