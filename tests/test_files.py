"""Files are whole or absent."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import files
from concrete_score.errors import InputError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.json"
    files.write_text(path, "old")

    def fail_half_way():
        with files.atomic(path) as draft:
            draft.write_text("half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "mine")
    with pytest.raises(InputError, match="a new output path, got one that exists; choose another or add --force"):
        files.write_text(path, "theirs", force=False)
    assert path.read_text() == "mine"
    files.write_text(path, "theirs")
    assert path.read_text() == "theirs"


def test_folders_are_made_and_suffixes_kept(tmp_path):
    with files.atomic(tmp_path / "deep" / "picture.png") as draft:
        assert draft.suffix == ".png"
        draft.write_bytes(b"x")
    assert (tmp_path / "deep" / "picture.png").read_bytes() == b"x"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=values)
def test_json_never_holds_what_json_has_no_word_for(value):
    text = json.dumps(files.finite(value), allow_nan=False)
    again = json.loads(text)
    if isinstance(value, float):
        assert again == (value if math.isfinite(value) else None)


@given(a=st.dictionaries(st.text(), st.integers(), max_size=5))
def test_equal_values_have_one_canonical_spelling(a):
    shuffled = dict(reversed(a.items()))
    assert files.canonical_json(a) == files.canonical_json(shuffled)
    assert json.loads(files.canonical_json(a)) == a


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert (
        files.digest(path) == files.digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
