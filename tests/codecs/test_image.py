"""The codec of images goes there and back, and mistakes are told in one line."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.codecs import Codec, ImageCodec
from concrete_score.data import Images, as_frame, load
from concrete_score.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 5), dtype=np.uint8)
PIXELS[0, 0, 0] = 255


@given(st.integers(2, 20), st.integers(1, 300), st.booleans())
def test_decoded_images_encode_to_the_same_states(levels, top, real):
    if not real and levels > top + 1:
        with pytest.raises(InputError, match=f"at most {top + 1} levels"):
            ImageCodec((2, 3), levels, top, dtype="int64")
        return
    codec = ImageCodec((1, levels), levels, top, dtype="float64" if real else "int64")
    states = torch.arange(levels)[None]
    greys = codec.decode(states).pixels
    assert greys.shape == (1, 1, levels)
    assert (np.diff(greys[0, 0]) > 0).all()
    assert (greys[0, 0, 0], greys[0, 0, -1]) == (0, top)
    assert torch.equal(codec.encode(greys).states.long(), states)


def test_a_largest_grey_value_beyond_all_memory_takes_none():
    for levels in (2, 4):
        codec = ImageCodec((4, 5), levels, 2**40, dtype="uint8")
        assert not codec.encode(Images(PIXELS, "pixels", top=2**40)).states.any()


def test_bits_are_thresholded_at_one_half_of_the_largest_grey():
    codec = ImageCodec.fit(np.array([[[0, 127, 128, 255]]], dtype=np.uint8))
    assert codec.encode(np.array([[[0, 127, 128, 255]]])).states.tolist() == [[0, 0, 1, 1]]
    assert ImageCodec.fit(PIXELS, threshold=0.25).encode(PIXELS).states.sum() > codec.levels
    truth = ImageCodec.fit(np.array([[[True, False]]]))
    assert truth.decode(torch.tensor([[1, 0]])).pixels.tolist() == [[[True, False]]]
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


def test_mnist_by_name(data_dir):
    test = load("mnist", "test", data_dir=data_dir)
    states = ImageCodec.fit(test).encode(test).states
    assert states.dtype == torch.uint8
    assert states.float().mean().item() == pytest.approx(0.1325, abs=0.005)


def test_blank_pixels():
    codec, holed = ImageCodec.fit(PIXELS), PIXELS.astype(np.float64)
    holed[2, 1, 3] = np.nan
    with pytest.raises(InputError, match="no blank pixels, got 1 in 1 of 7 images; pass missing='drop', or fill them"):
        codec.encode(holed)
    dropped = codec.encode(holed, missing="drop")
    assert (dropped.kept.tolist(), dropped.blank) == ([0, 1, 3, 4, 5, 6], 1)
    kept = codec.encode(holed, missing="unobserved")
    assert (~kept.observed).nonzero().tolist() == [[2, 8]]
    assert torch.equal(kept.states[kept.observed], codec.encode(PIXELS).states[kept.observed])


def test_blanks_by_mask_and_by_minus_one():
    codec, whole = ImageCodec.fit(PIXELS), PIXELS.astype(int)
    blank = np.zeros(PIXELS.shape, bool)
    blank[2, 1, 3] = True
    whole[2, 1, 3] = -1
    for data in (Images(PIXELS, "x", blank=blank), whole):
        kept = codec.encode(data, missing="unobserved")
        assert (~kept.observed).nonzero().tolist() == [[2, 8]]
    with pytest.raises(InputError, match=r"grey values from 0 to .*, got -1"):
        codec.encode(whole)


def test_only_blank_pixels_are_painted_and_the_draws_of_an_image_are_side_by_side():
    codec, whole = ImageCodec.fit(PIXELS), PIXELS.astype(int)
    whole[2, 1, 3] = whole[5, 0, 0] = -1
    rows = codec.encode(whole, missing="unobserved")
    ones = torch.ones((2, 7, 20), dtype=torch.long)
    one = codec.fill(whole, rows, ones[:1], None)
    assert (one.pixels != whole).sum() == 2
    assert one.pixels[2, 1, 3] == one.pixels[5, 0, 0] == 255
    two = codec.fill(whole, rows, torch.stack([ones[0], 0 * ones[0]]), 2)
    assert (two.columns, two.more["draw"].tolist()) == (2, [0] * 7 + [1] * 7)
    assert (two.pixels[2, 1, 3], two.pixels[9, 1, 3]) == (255, 0)
    assert two.native().shape == (2, 7, 4, 5)


def test_grey_values_beyond_training():
    codec = ImageCodec.fit(np.array([[[0, 16]]]))
    bright = np.array([[[0, 16]], [[17, 3]], [[2, 2]]])
    with pytest.raises(InputError, match="image 1, row 0, column 0: expected grey values from 0 to 16, got 17"):
        codec.encode(bright)
    rows = codec.encode(bright, unknown="skip")
    assert (rows.kept.tolist(), rows.unknown) == ([0, 2], 1)
    with pytest.raises(InputError, match="images to use, got none: 1 with unknown values"):
        codec.encode(bright[1:2], unknown="skip")


def test_images_that_are_black_all_over_are_suspicious():
    codec = ImageCodec.fit(PIXELS)
    bits = (PIXELS > 128).astype(np.uint8)
    (warning,) = codec.warnings(bits, codec.encode(bits))
    assert warning == "every pixel counts as black: the largest grey value is 1, in training it was 255"
    assert codec.warnings(PIXELS, codec.encode(PIXELS)) == []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((28, 28)), r"images of shape \(N, H, W\), got shape \(28, 28\)"),
        (np.zeros((1, 2, 2)), "a grey value above 0 somewhere, got images that are all 0"),
        (np.full((1, 2, 2), np.nan), "some pixels that are not blank, got none"),
        (np.array([[[0, -1]]]), "column 1: expected grey values from 0, got -1"),
        (np.array([[[0, np.inf]]]), "grey values from 0, got inf"),
    ],
)
def test_arrays_that_cannot_be_learned(array, message):
    with pytest.raises(InputError, match=message):
        ImageCodec.fit(array)


def test_other_shapes_and_tables_are_refused():
    codec = ImageCodec.fit(PIXELS)
    with pytest.raises(InputError, match="images of 4x5 pixels, as in training, got 5x4"):
        codec.encode(PIXELS.transpose(0, 2, 1))
    with pytest.raises(InputError, match=r"images of shape \(N, H, W\), got rows"):
        codec.encode(as_frame(np.zeros((2, 3), dtype=np.int64)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"missing": "category"}, "missing: expected one of refuse, drop"),
        ({"levels": 4, "threshold": 0.5}, "threshold: expected a threshold of bits alone, got 4 levels"),
        ({"levels": 1}, "levels: expected from 2 to 256 grey levels"),
        ({"threshold": 1.0}, "threshold: expected a threshold between 0 and 1"),
        ({"bins": {"a": 3}}, r"bins: expected an option of images, got one of another kind of data"),
    ],
)
def test_options_are_checked(options, match):
    with pytest.raises(InputError, match=match):
        ImageCodec.infer(PIXELS, options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "table"}, "codec.kind: expected 'image', got 'table'"),
        ({"shape": [28]}, "codec.shape: expected height and width"),
        ({"shape": [28, 0]}, "shape: expected height and width, each at least 1"),
        ({"shape": [2**20, 2**20]}, "images of at most 65,536 pixels"),
        ({"levels": True}, "codec.levels: expected a number"),
        ({"levels": 1}, "levels: expected from 2 to 256 grey levels"),
        ({"top": 0}, "top: expected a largest grey value above 0"),
        ({"top": float("nan")}, "top: expected a largest grey value above 0"),
        ({"threshold": 1.5}, "threshold: expected a threshold between 0 and 1"),
        ({"dtype": "object"}, "codec.dtype: expected a type of number"),
    ],
)
def test_a_strange_run_file_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        ImageCodec.from_json({**ImageCodec((28, 28)).to_json(), **change})
