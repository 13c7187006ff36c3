"""One server for each kind of run, for all tests of a worker."""

import pytest

from concrete_score.model import Model
from tests.explorer.cases import RUNS, serving


def _site(kind):
    @pytest.fixture(scope="session", name=kind)
    def site(tmp_path_factory):
        with serving(Model.open(RUNS[kind](tmp_path_factory.mktemp(kind) / "run"))) as found:
            yield found

    return site


clinic, numbers, image, sequence, hostile = map(_site, ("clinic", "numbers", "image", "sequence", "hostile"))
