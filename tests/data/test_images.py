"""Pictures: every kind of file gives the same states, codecs go there and back, and mistakes are told in one line."""

import gzip
import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.data.image_codec import ImageCodec
from concrete_score.data.images import Images, holds_images, load_images, read_idx, read_images
from concrete_score.data.native import as_frame
from concrete_score.errors import InputError
from concrete_score.protocols import Codec

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 5), dtype=np.uint8)
PIXELS[0, 0, 0] = 255
LABELS = np.arange(7) % 3


def idx(array):
    kinds = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
    head = struct.pack(">HBB", 0, kinds[array.dtype.name], array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_all(folder):
    np.save(folder / "a.npy", PIXELS)
    np.savez(folder / "b.npz", x=PIXELS, y=LABELS)
    np.savez(folder / "c.npz", PIXELS)
    (folder / "t-images-idx3-ubyte").write_bytes(idx(PIXELS))
    (folder / "t-labels-idx1-ubyte").write_bytes(idx(LABELS.astype(np.uint8)))
    (folder / "u-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PIXELS)))
    (folder / "v.idx").write_bytes(idx(PIXELS.astype(np.int32)))


def test_every_kind_of_file_gives_the_same_pictures(tmp_path):
    write_all(tmp_path)
    names = ["a.npy", "b.npz", "c.npz", "t-images-idx3-ubyte", "u-images-idx3-ubyte.gz", "v.idx"]
    found = {name: load_images(tmp_path / name) for name in names}
    assert all(np.array_equal(images.pixels, PIXELS) for images in found.values())
    assert all(holds_images(tmp_path / name) for name in names)
    labelled = [name for name, images in found.items() if images.labels is not None]
    assert labelled == ["b.npz", "t-images-idx3-ubyte"]
    assert found["b.npz"].labels.tolist() == LABELS.tolist()
    states = {ImageCodec.fit(images).encode(images).states.numpy().tobytes() for images in found.values()}
    assert len(states) == 1


def test_a_table_is_no_picture(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((3, 4), dtype=np.int64))
    assert not holds_images(tmp_path / "t.npy")
    assert not holds_images("nltcs")
    assert not holds_images(tmp_path)
    assert holds_images("mnist:test")
    assert holds_images("digits")


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_idx_holds_every_kind_of_number(kind):
    array = (np.arange(12).reshape(3, 2, 2) - 3 * (kind != "uint8")).astype(kind)
    found = read_idx(idx(array), "x")
    assert found.dtype == np.dtype(kind)
    assert np.array_equal(found, array)


def test_digits_are_embedded_and_split_without_overlap():
    parts = [load_images(f"digits:{split}") for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [1199, 299, 299]
    assert load_images("digits").where == "digits:test"
    codec = ImageCodec.fit(parts[0])
    assert (codec.shape, codec.top, codec.space.num_sites) == ((8, 8), 16, 64)
    for part in parts:
        share = np.bincount(part.labels, minlength=10) / len(part)
        assert share.min() > 0.06


def test_mnist_by_name(data_dir):
    valid, test = load_images("mnist:valid", data_dir=data_dir), load_images("mnist", "test", data_dir=data_dir)
    assert (len(valid), len(test), test.shape, test.top) == (10_000, 10_000, (28, 28), 255)
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    states = ImageCodec.fit(test).encode(test).states
    assert states.dtype == torch.uint8
    assert states.float().mean().item() == pytest.approx(0.1325, abs=0.005)


@given(st.integers(2, 20), st.integers(1, 300), st.booleans())
def test_decoded_pictures_encode_to_the_same_states(levels, top, real):
    if not real and levels > top + 1:
        with pytest.raises(InputError, match=f"at most {top + 1} levels"):
            ImageCodec((2, 3), levels, top, dtype="int64")
        return
    codec = ImageCodec((1, levels), levels, top, dtype="float64" if real else "int64")
    states = torch.arange(levels)[None]
    greys = codec.decode(states)
    assert greys.shape == (1, 1, levels)
    assert (np.diff(greys[0, 0]) > 0).all()
    assert (greys[0, 0, 0], greys[0, 0, -1]) == (0, top)
    assert torch.equal(codec.encode(greys).states.long(), states)


def test_bits_are_thresholded_at_one_half_of_the_largest_grey():
    codec = ImageCodec.fit(np.array([[[0, 127, 128, 255]]], dtype=np.uint8))
    assert codec.encode(np.array([[[0, 127, 128, 255]]])).states.tolist() == [[0, 0, 1, 1]]
    assert ImageCodec.fit(PIXELS, threshold=0.25).encode(PIXELS).states.sum() > codec.levels
    assert ImageCodec.fit(np.array([[[True, False]]])).decode(torch.tensor([[1, 0]])).tolist() == [[[True, False]]]
    assert ImageCodec.fit(np.array([[[0, 1]]])).top == 1


def test_grey_levels_of_equal_width():
    codec = ImageCodec.fit(np.arange(256, dtype=np.uint8).reshape(1, 16, 16), levels=4)
    counts = torch.bincount(codec.encode(np.arange(256).reshape(1, 16, 16)).states.flatten().long())
    assert counts.tolist() == [64, 64, 64, 64]


def test_a_codec_is_a_codec_and_travels():
    codec = ImageCodec.fit(PIXELS, levels=5)
    assert isinstance(codec, Codec)
    assert ImageCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec
    assert codec.names[:6] == ("0,0", "0,1", "0,2", "0,3", "0,4", "1,0")


def test_blank_pixels():
    codec, holed = ImageCodec.fit(PIXELS), PIXELS.astype(np.float64)
    holed[2, 1, 3] = np.nan
    with pytest.raises(InputError, match="no blank pixels, got 1 in 1 of 7 pictures"):
        codec.encode(holed)
    dropped = codec.encode_rows(holed, missing="drop")
    assert (dropped.kept.tolist(), dropped.blank) == ([0, 1, 3, 4, 5, 6], 1)
    kept = codec.encode(holed, missing="keep")
    assert (~kept.observed).nonzero().tolist() == [[2, 8]]
    assert torch.equal(kept.states[kept.observed], codec.encode(PIXELS).states[kept.observed])


def test_blanks_by_mask_and_by_minus_one(tmp_path):
    codec, whole = ImageCodec.fit(PIXELS), PIXELS.astype(int)
    blank = np.zeros(PIXELS.shape, bool)
    blank[2, 1, 3] = True
    np.savez(tmp_path / "x.npz", x=PIXELS, mask=blank)
    whole[2, 1, 3] = -1
    for data in (read_images(tmp_path / "x.npz"), whole):
        kept = codec.encode(data, missing="keep")
        assert (~kept.observed).nonzero().tolist() == [[2, 8]]
    assert read_images(tmp_path / "x.npz").part(slice(3)).blank.sum() == 1
    with pytest.raises(InputError, match=r"grey values from 0 to .*, got -1"):
        codec.encode(whole)
    np.savez(tmp_path / "x.npz", x=PIXELS, mask=blank[:2])
    with pytest.raises(InputError, match="mask: expected True or False for each pixel"):
        read_images(tmp_path / "x.npz")


def test_grey_values_beyond_training():
    codec = ImageCodec.fit(np.array([[[0, 16]]]))
    bright = np.array([[[0, 16]], [[17, 3]], [[2, 2]]])
    with pytest.raises(InputError, match="picture 1, row 0, column 0: expected grey values from 0 to 16, got 17"):
        codec.encode(bright)
    rows = codec.encode_rows(bright, unknown="skip")
    assert (rows.kept.tolist(), rows.unknown) == ([0, 2], 1)
    with pytest.raises(InputError, match="pictures to use, got none: 1 out of range"):
        codec.encode(bright[1:2], unknown="skip")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((28, 28)), r"pictures of shape \(N, H, W\), got shape \(28, 28\)"),
        (np.zeros((2, 28, 28, 3)), "give each picture one channel"),
        (np.zeros((0, 28, 28)), r"got shape \(0, 28, 28\)"),
        (np.full((1, 2, 2), "a"), "grey values, which are numbers, got <U1"),
        (np.zeros((1, 2, 2), dtype=complex), "grey values, which are numbers"),
        (np.zeros((1, 2, 2)), "a grey value above 0 somewhere, got pictures that are all 0"),
        (np.array([[[0, -1]]]), "column 1: expected grey values from 0, got -1"),
        (np.array([[[0, np.inf]]]), "grey values from 0, got inf"),
    ],
)
def test_arrays_that_are_no_pictures(array, message):
    with pytest.raises(InputError, match=message):
        ImageCodec.fit(array)


def test_other_shapes_and_tables_are_refused():
    codec = ImageCodec.fit(PIXELS)
    with pytest.raises(InputError, match="pictures of 4x5 pixels, as in training, got 5x4"):
        codec.encode(PIXELS.transpose(0, 2, 1))
    with pytest.raises(InputError, match="got a table of 3 columns"):
        codec.encode(as_frame(np.zeros((2, 3), dtype=np.int64)))
    with pytest.raises(InputError, match="labels"):
        Images(PIXELS, "x", LABELS[:3])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a-ubyte", b"", "an IDX file, got an empty file"),
        ("a-ubyte", b"\x00\x00\x08", "an IDX file, got other bytes"),
        ("a-ubyte", b"\x00\x00\x08\x03\x00\x00", "one that ends in its header"),
        ("a-ubyte", idx(PIXELS)[:-1], r"bytes, as the header says of shape \(7, 4, 5\)"),
        ("a-ubyte", struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "bytes, as the header says"),
        ("a-ubyte", idx(LABELS.astype(np.uint8)), r"pictures of shape \(N, H, W\), got shape \(7,\)"),
        ("a-ubyte.gz", b"not gzip", "a whole gzip file"),
        ("a.npy", b"\x93NUMPY", "a NumPy file of numbers, got a damaged one"),
        ("a.npy", b"", "got an empty file"),
        ("a.png", b"", "a file ending in .npy"),
    ],
)
def test_files_that_are_no_pictures(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as told:
        read_images(tmp_path / name)
    assert "\n" not in str(told.value)


def test_archives_and_names_that_are_unclear(tmp_path):
    np.savez(tmp_path / "two.npz", a=PIXELS, b=PIXELS)
    with pytest.raises(InputError, match="an array named x, or one array alone"):
        read_images(tmp_path / "two.npz")
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read_images(tmp_path / "pickled.npy")
    with pytest.raises(InputError, match="did you mean 'mnist'"):
        load_images("mnst")
    with pytest.raises(InputError, match="a split of digits"):
        load_images("digits:dev")
    with pytest.raises(InputError, match="a split of mnist"):
        load_images("mnist:dev")
    with pytest.raises(InputError, match="a file, got a folder"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "table"}, "codec.kind: expected 'image', got 'table'"),
        ({"shape": [28]}, "codec.shape: expected height and width"),
        ({"shape": [28, 0]}, "shape: expected height and width, each at least 1"),
        ({"shape": [2**20, 2**20]}, "pictures of at most 65,536 pixels"),
        ({"levels": True}, "codec.levels: expected a number"),
        ({"levels": 1}, "levels: expected from 2 to 256 grey levels"),
        ({"top": 0}, "top: expected a largest grey value above 0"),
        ({"top": float("nan")}, "top: expected a largest grey value above 0"),
        ({"threshold": 1.5}, "threshold: expected a threshold between 0 and 1"),
        ({"dtype": "object"}, "codec.dtype: expected a kind of number"),
    ],
)
def test_a_strange_run_file_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        ImageCodec.from_json({**ImageCodec((28, 28)).to_json(), **change})
