"""Named data sets: the catalog is the public manifest, files are checked, downloads are whole or not there."""

import gzip
import hashlib
import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from concrete_score.codecs import ImageCodec, TableCodec
from concrete_score.data import data_sets, load
from concrete_score.data.catalog import _read_entry, brings_held_out, entry_of, fetch, is_path, locate, source_url
from concrete_score.errors import InputError

RAW = b"".join(b"%d,%d,1\n" % (k % 2, k // 2 % 2) for k in range(4000))


class Server(ThreadingHTTPServer):
    """Serves one body with the faults asked for, and remembers the ranges it was asked."""

    daemon_threads = True

    def __init__(self, body):
        self.body, self.cuts, self.pause, self.status, self.ranges = body, [], 0.0, 200, []
        self.honours_range = True
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.ranges.append(wanted)
        start = int(wanted[6:-1]) if wanted and server.honours_range else 0
        body = server.body[start:]
        if server.status != 200 or (start and not body):
            self.send_error(416 if start and not body else server.status)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(body)
        try:
            self.wfile.write(body[: min(cut, 500)])
            time.sleep(server.pause)
            self.wfile.write(body[500:cut])
        except OSError:
            pass


@pytest.fixture
def server():
    with Server(RAW) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def entry():
    return replace(
        entry_of("gifts:test", "test"), raw_sha256=hashlib.sha256(RAW).hexdigest(), raw_bytes=len(RAW), rows=4000
    )


def get(server, entry, path, **more):
    return fetch(entry, path, base_url=f"http://127.0.0.1:{server.server_port}", **more)


def test_a_good_download_is_in_place_compressed_and_alone(server, entry, tmp_path):
    path = get(server, entry, tmp_path / "a" / "t.data.gz")
    assert gzip.decompress(path.read_bytes()) == RAW
    assert [each.name for each in path.parent.iterdir()] == ["t.data.gz"]


def test_a_broken_line_is_taken_up_where_it_ended(server, entry, tmp_path):
    server.cuts = [700, 1000]
    path = get(server, entry, tmp_path / "t.data.gz")
    assert gzip.decompress(path.read_bytes()) == RAW
    assert server.ranges == [None, "bytes=700-", "bytes=1700-"]


def test_a_server_without_ranges_starts_again(server, entry, tmp_path):
    server.cuts, server.honours_range = [700], False
    assert gzip.decompress(get(server, entry, tmp_path / "t.data.gz").read_bytes()) == RAW


def test_a_part_left_by_an_earlier_call_is_continued(server, entry, tmp_path):
    (tmp_path / "t.data.gz.part").write_bytes(RAW[:1234])
    assert gzip.decompress(get(server, entry, tmp_path / "t.data.gz").read_bytes()) == RAW
    assert server.ranges == ["bytes=1234-"]


def test_a_whole_part_needs_nothing_more(server, entry, tmp_path):
    (tmp_path / "t.data.gz.part").write_bytes(RAW)
    assert gzip.decompress(get(server, entry, tmp_path / "t.data.gz").read_bytes()) == RAW


def test_a_slow_server_is_waited_for_then_given_up(server, entry, tmp_path):
    server.pause = 0.2
    assert get(server, entry, tmp_path / "t.data.gz").exists()
    server.pause = 1.0
    with pytest.raises(InputError, match="timed out"):
        get(server, entry, tmp_path / "u.data.gz", timeout=0.1)
    assert not (tmp_path / "u.data.gz").exists()


def test_a_line_that_always_breaks_ends_in_one_sentence(server, entry, tmp_path):
    server.cuts = [100] * 20
    with pytest.raises(InputError, match=r"put the file .* at .*t\.data\.gz"):
        get(server, entry, tmp_path / "t.data.gz")
    assert not (tmp_path / "t.data.gz").exists()


@pytest.mark.parametrize("body", [RAW[:-4] + b"0,0\n", RAW[:-2], b"", RAW + b"0" * 2**17])
def test_tampered_content_is_refused_and_not_kept(server, entry, tmp_path, body):
    server.body = body
    with pytest.raises(InputError, match="on record"):
        get(server, entry, tmp_path / "t.data.gz")
    assert not (tmp_path / "t.data.gz").exists()
    server.body = RAW
    assert gzip.decompress(get(server, entry, tmp_path / "t.data.gz").read_bytes()) == RAW


def test_compressed_originals_are_checked_by_their_content_and_bombs_are_not_unpacked(server, entry, tmp_path):
    entry = replace(entry, source_is_gzip=True)
    server.body = gzip.compress(RAW, mtime=7)
    assert get(server, entry, tmp_path / "t.gz").read_bytes() == server.body
    server.body = gzip.compress(bytes(10**7), mtime=0)
    with pytest.raises(InputError, match="on record"):
        get(server, entry, tmp_path / "u.gz")
    server.body = b"not gzip"
    with pytest.raises(InputError, match="on record"):
        get(server, entry, tmp_path / "u.gz")


@pytest.mark.parametrize("status", [404, 500])
def test_a_refusing_server_is_named(server, entry, tmp_path, status):
    server.status = status
    with pytest.raises(InputError, match=rf"{status}|Internal"):
        get(server, entry, tmp_path / "t.data.gz")


def test_offline_says_which_file_to_put_where(entry, tmp_path, monkeypatch):
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(tmp_path))
    monkeypatch.delenv("CONCRETE_SCORE_DATA", raising=False)
    with pytest.raises(InputError) as caught:
        load("gifts", base_url="http://127.0.0.1:9")
    assert str(tmp_path / "amazon/gifts/gifts.test.data.gz") in str(caught.value)
    assert entry_of("gifts:test", "test").raw_sha256[:12] in str(caught.value)


def test_folders_are_searched_in_order_and_content_is_checked(tmp_path, monkeypatch, data_dir):
    entry = entry_of("gifts:test", "test")
    good = (data_dir / entry.file).read_bytes()
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CONCRETE_SCORE_DATA", str(tmp_path / "shared"))
    for folder in ("cache", "shared", "given"):
        path = tmp_path / folder / entry.file
        path.parent.mkdir(parents=True)
        path.write_bytes(good)
        assert locate(entry, tmp_path / "given" if folder == "given" else None) == path
    path.write_bytes(gzip.compress(b"0,1\n"))
    with pytest.raises(InputError, match="the content on record"):
        locate(entry, tmp_path / "given")
    path.write_bytes(good[:-9])
    with pytest.raises(InputError, match="whole gzip"):
        locate(entry, tmp_path / "given")


def test_an_existing_path_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gifts").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="ending"):
        load("gifts")


def test_the_catalog_is_the_public_manifest(data_dir):
    public = {entry["file"]: entry for entry in json.loads((data_dir / "MANIFEST.json").read_text())}
    ours = {entry.file: entry for splits in data_sets().values() for entry in splits.values()}
    assert ours.keys() == public.keys()
    for file, entry in ours.items():
        for key in ("rows", "repository", "commit", "source_path", "source_is_gzip", "raw_sha256", "raw_bytes"):
            assert getattr(entry, key) == public[file][key]
    assert len(data_sets()) == 20 + 17 + 3


def test_sets_at_hand_have_the_rows_on_record(data_dir):
    for spec in ("nltcs:train", "plants", "gifts:valid", "splice"):
        frame, entry = load(spec, data_dir=data_dir), entry_of(spec, "test")
        assert len(frame) == entry.rows
        codec = TableCodec.fit(frame)
        if entry.is_bits:
            assert set(codec.space.sizes) == {2}
            assert len(codec.columns) == entry.variables
        else:
            assert len(codec.columns) == entry.variables + 1


def test_declared_values_count_though_unseen(tmp_path):
    entry, path = entry_of("gifts:test", "test"), tmp_path / "t.data.gz"
    frame = _read_entry(entry, path, b"0,1\n0,1\n0,0\n")
    codec = TableCodec.fit(frame)
    assert codec.space.sizes == (2, 2)
    assert codec.encode(frame).states.tolist() == [[0, 1], [0, 1], [0, 0]]
    assert frame.where == "gifts:test"


def test_sources_lie_at_their_commit():
    assert source_url(entry_of("nltcs:test", "x")) == (
        "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/"
        "37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets/nltcs/nltcs.test.data"
    )


def test_images_are_not_tables(data_dir):
    with pytest.raises(InputError, match="of another kind"):
        load("mnist:test-labels", data_dir=data_dir)


def test_a_name_is_told_from_a_path_and_mistakes_get_the_nearest(tmp_path):
    from concrete_score.cli.console import SKIN

    with pytest.raises(InputError, match="an existing file, got none; check the path"):
        load(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"data: expected an existing file, or NAME.*check the path") as caught:
        load(str(tmp_path / "none.csv"))
    assert caught.value.render(SKIN).startswith("DATA: ")
    assert caught.value.render(SKIN).endswith("csm data list shows the names")
    with pytest.raises(InputError, match="a file, got a folder"):
        load(str(tmp_path))
    for name, match in (
        ("nltc", "did you mean 'nltcs'"),
        ("nltcs:tests", "a split of nltcs, got 'tests'; did you mean 'test'"),
        ("mnst", "did you mean 'mnist'"),
        ("mnist:dev", "a split of mnist"),
        ("digits:dev", "a split of digits"),
        ("digit", "did you mean 'digits'"),
    ):
        with pytest.raises(InputError, match=match):
            load(name)
    assert not is_path("a\0b")
    assert not is_path("x" * 10_000)


def test_digits_are_embedded_and_split_without_overlap():
    parts = [load(f"digits:{split}") for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [1199, 299, 299]
    assert load("digits").where == "digits:test"
    codec = ImageCodec.fit(parts[0])
    assert (codec.shape, codec.top, codec.space.num_sites) == ((8, 8), 16, 64)
    for part in parts:
        share = np.bincount(part.labels, minlength=10) / len(part)
        assert share.min() > 0.06


def test_mnist_by_name(data_dir):
    valid, test = load("mnist:valid", data_dir=data_dir), load("mnist", "test", data_dir=data_dir)
    assert (len(valid), len(test), test.shape, test.top) == (10_000, 10_000, (28, 28), 255)
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    train = load("mnist:train", data_dir=data_dir)
    assert (len(train), train.where) == (50_000, "mnist:train")


def test_sets_that_bring_held_out_rows(tmp_path, monkeypatch):
    assert all(map(brings_held_out, ("nltcs", "digits", "mnist")))
    assert not any(map(brings_held_out, ("nltcs:train", "splice", "nothing", np.eye(2), None)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nltcs").write_text("a,b\n1,2\n")
    assert not brings_held_out("nltcs")  # a file of that name wins


def test_a_set_is_read_from_its_file_once(data_dir, monkeypatch):
    entry = entry_of("gifts:test", "test")
    opened = []
    bare = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *rest: opened.append(path) or bare(path, *rest))
    assert len(load("gifts:test", data_dir=data_dir)) == entry.rows
    assert opened.count(data_dir / entry.file) == 1
