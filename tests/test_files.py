"""Files are whole or absent."""

import errno
import gzip
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import files
from concrete_score.cli.console import SKIN
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
    with pytest.raises(
        InputError, match="a new output path, got one that exists; choose another, or pass force=True"
    ) as told:
        files.write_text(path, "theirs", force=False)
    assert str(told.value).endswith("choose another, or pass force=True")
    assert told.value.render(SKIN).endswith("choose another, or add --force")
    assert path.read_text() == "mine"
    files.write_text(path, "theirs")
    assert path.read_text() == "theirs"


def test_folders_are_made_and_suffixes_kept(tmp_path):
    with files.atomic(tmp_path / "deep" / "image.png") as draft:
        assert draft.suffix == ".png"
        draft.write_bytes(b"x")
    assert (tmp_path / "deep" / "image.png").read_bytes() == b"x"


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


def test_packed_files_are_unpacked_and_damaged_ones_named(tmp_path):
    path = tmp_path / "x.GZ"
    whole = gzip.compress(b"abc" * 100)
    path.write_bytes(whole)
    assert files.read_bytes(path) == b"abc" * 100
    for damaged in (whole[:-3], b"abc", whole[:10] + b"\xff" * 10):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"x\.GZ: expected a whole gzip file.*copy the file again"):
            files.read_bytes(path)


def test_places_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a folder to write into, got a file; choose another path") as told:
        files.refuse_unwritable(tmp_path / "file" / "below" / "x")
    assert told.value.render(SKIN).endswith("choose another --out")
    files.refuse_unwritable(tmp_path / "new" / "deep")


def test_messages_of_others_are_one_short_line():
    assert files.short(ValueError("a\n  b\tc")) == "a b c"
    assert files.short(ValueError()) == "ValueError"
    assert len(files.short("x" * 1000)) == 120


def test_permissions_are_kept_and_pipes_are_written_to(tmp_path):
    path = tmp_path / "secret.json"
    files.write_text(path, "1")
    path.chmod(0o600)
    files.write_text(path, "2")
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o600, "2")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        files.write_text(pipe, "through")
        assert read.result(timeout=10) == "through"
    assert pipe.is_fifo()


def test_one_writer_at_a_time_and_a_dead_one_holds_nothing(tmp_path):
    with (
        files.locked(tmp_path / "run"),
        pytest.raises(InputError, match="another process"),
        files.locked(tmp_path / "run"),
    ):
        pass
    program = "\n".join(
        [
            "import pathlib, sys, time",
            "from concrete_score.files import locked",
            "with locked(pathlib.Path(sys.argv[1])):",
            "    print('held', flush=True); time.sleep(60)",
        ]
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="another process is writing"), files.locked(tmp_path):
        pass
    child.kill()
    child.communicate()
    with files.locked(tmp_path):
        pass


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"x,y\n" * 2**20))
    assert len(files.read_bytes(path)) == 4 * (2**20 + 1)
    monkeypatch.setenv(files.MEMORY, "0.001")
    with pytest.raises(
        InputError, match=r"of memory, got more than .* unpacked.*; set the environment variable"
    ) as told:
        files.read_bytes(path)
    assert str(path) in str(told.value)
    monkeypatch.setenv(files.MEMORY, "much")
    with pytest.raises(InputError, match="CONCRETE_SCORE_MEMORY: expected a number of GiB, got 'much'"):
        files.read_bytes(path)


def test_names_that_no_file_can_have_are_refused_before_any_work(tmp_path):
    for name in ("o" * 300, "a\0b"):
        for refuse in (files.refuse_unwritable, lambda path: files.refuse_existing(path, False)):
            with pytest.raises(InputError, match="the name of a file, got one that cannot be") as told:
                refuse(tmp_path / name)
            assert len(str(told.value)) < 500


def test_a_name_as_long_as_files_can_have_is_written(tmp_path):
    path = tmp_path / ("ö" * 120 + ".json")
    files.write_text(path, "x")
    assert path.read_text() == "x"


def test_a_full_disk_says_where_and_how_much(tmp_path):
    path = tmp_path / "a.txt"

    def fill():
        with files.atomic(path) as draft:
            draft.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device", str(draft))

    with pytest.raises(OSError, match=r"No space left on device after 4 bytes; [\d,]+ bytes are free there") as told:
        fill()
    assert told.value.filename == str(path)
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_a_pipe_or_a_link_is_neither_waited_for_nor_followed(tmp_path):
    (tmp_path / "one").mkdir()
    os.mkfifo(tmp_path / "one" / files.LOCK)
    with files.locked(tmp_path / "one"):
        pass
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / files.LOCK).symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="symbolic links"), files.locked(tmp_path / "two"):
        pass
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_what_has_no_end_is_not_read_to_it(tmp_path, monkeypatch, name):
    monkeypatch.setenv(files.MEMORY, "0.01")
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(
        InputError, match=rf"{name}: expected content that takes at most 0.01 GiB of memory, got more than"
    ):
        files.read_bytes(tmp_path / name)


def test_a_compressed_pipe_is_unpacked(tmp_path):
    pipe = tmp_path / "x.csv.gz"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_bytes, gzip.compress(b"a,b\n"))
        assert files.read_bytes(pipe) == b"a,b\n"
        written.result(timeout=10)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv(files.MEMORY, "0.01")
    with (tmp_path / "x.csv").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match=r"of memory, got about 1,025 GiB"):
        files.read_bytes(tmp_path / "x.csv")


def test_a_name_that_is_no_text_is_written(tmp_path):
    """As the file system may have it, and the command line gives it."""
    path = tmp_path / os.fsdecode(b"\xff\xfe.json")
    files.write_text(path, "x")
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff\xfe.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_device_that_is_full_is_named():
    with pytest.raises(OSError, match="No space left") as told:
        files.write_text("/dev/full", "x")
    assert told.value.filename == "/dev/full"
