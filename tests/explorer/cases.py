"""Runs to explore, one of each kind of data, with weights that no training made; and a server of each."""

import json
import socket
from contextlib import contextmanager
from http.client import HTTPResponse
from threading import Event, Thread
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from concrete_score.codecs import TableCodec
from concrete_score.codecs.image import ImageCodec
from concrete_score.codecs.sequence import SequenceCodec
from concrete_score.data.frame import Form
from concrete_score.data.sequences import Sequences
from concrete_score.explorer.server import Explorer, listen, server_of
from concrete_score.model import Model
from concrete_score.randomness import generator
from concrete_score.training.recipe import Recipe, TrainingSettings
from tests.cli.clinic import clinic_run, write_run
from tests.report import cases

TOKEN = "the-token-of-the-tests"


def untrained(folder, codec, recipe):
    """A run whose weights are random."""
    recipe = recipe.resolved()
    model = recipe.build(codec.space, TrainingSettings()).model
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator(1, "weights")))
    return write_run(folder, codec.to_json(), recipe.to_json(), dict(model.state_dict()))


def numbers_run(folder):
    """Ages, incomes with an atom, days, and a category of thirty cities: more states than are tabulated."""
    rng = np.random.default_rng(0)
    rows = 800
    table = {
        "age": rng.integers(17, 90, rows),
        "income": np.where(rng.random(rows) < 0.4, 0.0, np.round(rng.lognormal(3, 1, rows), 2)),
        "day": [f"2024-{1 + k % 12:02}-{1 + k % 28:02}" for k in rng.integers(0, 336, rows).tolist()],
        "city": [f"city {k}" for k in rng.integers(0, 30, rows).tolist()],
        "ill": rng.choice(["no", "yes"], rows),
        **{f"sign {k}": rng.choice(["no", "yes"], rows) for k in range(5)},
    }
    codec = TableCodec.fit(pl.DataFrame(table))
    return untrained(folder, codec, Recipe(model="made", model_options={"hidden": 16}))


def image_run(folder):
    """Images of 4 by 5 bits from a small U-Net."""
    codec = ImageCodec((4, 5))
    return untrained(folder, codec, codec.choose({"model_options": {"width": 4}}, {}).recipe)


def sequence_run(folder):
    """Five aligned letters numbered from 11, and a Potts model."""
    names = tuple(f"{name}/11-15" for name in "abc")
    given = Sequences(("ACACA", "CADEA", "AACDE"), "x", ids=names, form=Form("a2m"))
    codec = SequenceCodec.infer(given, {"alphabet": "ACDE"})
    return untrained(folder, codec, codec.choose({}, {}).recipe)


def hostile_run(folder):
    """Names and values that contain markup, control characters and no end."""
    frame = cases.table([*cases.HOSTILE, "toString", "__proto__"], values=cases.VALUES)
    return untrained(folder, TableCodec.fit(frame), Recipe(model="made", model_options={"hidden": 8}))


RUNS = {
    "clinic": clinic_run,
    "numbers": numbers_run,
    "image": image_run,
    "sequence": sequence_run,
    "hostile": hostile_run,
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        """The last line of the answer."""
        return json.loads(self.body.strip().split(b"\n")[-1])


class Site(NamedTuple):
    """A server under way, and the model it answers for."""

    model: Model
    port: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/{TOKEN}/"

    def request(self, method="GET", path=f"/{TOKEN}/", body=None, **headers):
        """One request, its headers as they are given; None leaves a header out."""
        given = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): v for name, v in headers.items()}}
        if body is not None:
            given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **given}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {v}" for name, v in given.items() if v is not None)]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            # In one piece: a server that refuses the head and closes would have the rest answered by a reset.
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
            found = HTTPResponse(connection, method=method)
            found.begin()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())

    def ask(self, question, given=(), **more):
        """The answer to a question about conditions ``(column, operator, value)``."""
        told = [{"column": c, "operator": o, "values": v if isinstance(v, list) else [v]} for c, o, v in given]
        body = json.dumps({"given": told, **more}).encode()
        return self.request("POST", f"/{TOKEN}/ask/{question}", body).json()


@contextmanager
def serving(model, start=None):
    """A server of a model in a thread of this process."""
    started, explorer, at = Event(), Explorer(model, start), listen(0)
    server, port = server_of(explorer, TOKEN, started.set), at.getsockname()[1]
    thread = Thread(target=server.run, args=([at],))
    thread.start()
    try:
        assert started.wait(60)
        yield Site(model, port)
    finally:
        server.should_exit = True
        thread.join(30)
        explorer.close()
        at.close()
    assert not thread.is_alive()
