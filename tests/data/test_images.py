"""Images: every kind of file gives the same pixels, mistakes are told in one line, and grids show what is there."""

import gzip
import io
import struct

import numpy as np
import pytest
from matplotlib import image

from concrete_score.codecs import ImageCodec
from concrete_score.data import Images, load, read_file, write_file
from concrete_score.data.images import BETWEEN, grid, grid_png, png, read_idx
from concrete_score.errors import InputError

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (7, 4, 5), dtype=np.uint8)
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
    (folder / "w.npy.gz").write_bytes(gzip.compress((folder / "a.npy").read_bytes()))


def test_every_kind_of_file_gives_the_same_images(tmp_path):
    write_all(tmp_path)
    names = ["a.npy", "b.npz", "c.npz", "t-images-idx3-ubyte", "u-images-idx3-ubyte.gz", "v.idx", "w.npy.gz"]
    found = {name: load(tmp_path / name) for name in names}
    assert all(each.kind == "image" for each in found.values())
    assert all(each.where == str(tmp_path / name) for name, each in found.items())
    assert all(np.array_equal(images.pixels, PIXELS) for images in found.values())
    labelled = [name for name, images in found.items() if images.labels is not None]
    assert labelled == ["b.npz", "t-images-idx3-ubyte"]
    assert found["b.npz"].labels.tolist() == LABELS.tolist()
    assert found["t-images-idx3-ubyte"].labels.tolist() == LABELS.tolist()
    states = {ImageCodec.fit(images).encode(images).states.numpy().tobytes() for images in found.values()}
    assert len(states) == 1


def test_the_shape_of_an_array_tells_tables_from_images(tmp_path):
    for name, save in (("t.npy", np.save), ("t.npz", np.savez)):
        save(tmp_path / name, np.zeros((3, 4), dtype=np.int64))
        assert read_file(tmp_path / name).kind == "table"
        save(tmp_path / name, np.zeros((3, 4, 1), dtype=np.int64))
        assert read_file(tmp_path / name).kind == "image"


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_idx_holds_every_kind_of_number(kind):
    array = (np.arange(12).reshape(3, 2, 2) - 3 * (kind != "uint8")).astype(kind)
    found = read_idx(idx(array), "x")
    assert found.dtype == np.dtype(kind)
    assert np.array_equal(found, array)


def test_masks_labels_and_parts(tmp_path):
    blank = np.zeros(PIXELS.shape, bool)
    blank[2, 1, 3] = True
    np.savez(tmp_path / "x.npz", x=PIXELS, mask=blank, y=LABELS)
    found = read_file(tmp_path / "x.npz")
    assert found.take(slice(3)).blank.sum() == 1
    assert found.take(np.array([4, 2])).labels.tolist() == [1, 2]
    assert (len(found), found.shape, found.names[:6]) == (7, (4, 5), ("0,0", "0,1", "0,2", "0,3", "0,4", "1,0"))
    np.savez(tmp_path / "x.npz", x=PIXELS, mask=blank[:2])
    with pytest.raises(InputError, match="mask: expected True or False for each pixel"):
        read_file(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", x=PIXELS, y=LABELS[:3])
    with pytest.raises(InputError, match=r"x\.npz: y: expected 7 whole numbers as labels"):
        read_file(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((28, 28)), r"images of shape \(N, H, W\), got shape \(28, 28\)"),
        (np.zeros((2, 28, 28, 3)), "give each image one channel"),
        (np.zeros((0, 28, 28)), r"got shape \(0, 28, 28\)"),
        (np.full((1, 2, 2), "a"), "grey values, which are numbers, got <U1"),
        (np.zeros((1, 2, 2), dtype=complex), "grey values, which are numbers"),
    ],
)
def test_arrays_that_are_no_images(array, message):
    with pytest.raises(InputError, match=message):
        Images(array, "x")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a-ubyte", b"", "got an empty file"),
        ("a-ubyte", b"\x00\x00\x08", "an IDX file, got other bytes"),
        ("a-ubyte", b"\x00\x00\x08\x03\x00\x00", "one that ends in its header"),
        ("a-ubyte", idx(PIXELS)[:-1], r"bytes, as the header says of shape \(7, 4, 5\)"),
        ("a-ubyte", struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "bytes, as the header says"),
        ("a-ubyte", idx(LABELS.astype(np.uint8)), r"images of shape \(N, H, W\), got shape \(7,\)"),
        ("a-ubyte.gz", b"not gzip", "a whole gzip file"),
        ("a.npy", b"\x93NUMPY", "a NumPy file of plain numbers or text, got a damaged one"),
        ("a.npy", b"", "got an empty file"),
        ("a.png", b"x", r"a file ending in .*\.npy"),
    ],
)
def test_files_that_are_no_images(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_file(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_labels_beside_that_are_damaged_are_named(tmp_path):
    write_all(tmp_path)
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(b"\x00\x00\x08\x01")
    with pytest.raises(InputError, match="t-labels-idx1-ubyte: expected an IDX file"):
        read_file(tmp_path / "t-images-idx3-ubyte")
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(idx(LABELS[:3].astype(np.uint8)))
    with pytest.raises(InputError, match="7 whole numbers as labels"):
        read_file(tmp_path / "t-images-idx3-ubyte")


def test_archives_that_are_unclear(tmp_path):
    np.savez(tmp_path / "two.npz", a=PIXELS, b=PIXELS)
    with pytest.raises(InputError, match="an array named x, or one array alone"):
        read_file(tmp_path / "two.npz")
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read_file(tmp_path / "pickled.npy")


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (50, 20)])
def test_another_reader_sees_the_same_grey_values(shape):
    grey = RANDOM.integers(256, size=shape).astype(np.uint8)
    read = image.imread(io.BytesIO(png(grey)), format="png")
    assert np.rint(255 * read).astype(np.uint8).tolist() == grey.tolist()


def test_every_image_lies_in_its_place_and_gaps_are_grey():
    images = RANDOM.integers(3, size=(5, 50, 60))
    page = grid(images, columns=2, top=2)
    assert page.shape == (3 * 51 + 1, 2 * 61 + 1)
    for place, each in enumerate(images):
        row, column = divmod(place, 2)
        there = page[row * 51 + 1 : (row + 1) * 51, column * 61 + 1 : (column + 1) * 61]
        assert (there == np.array([0, 128, 255])[each]).all()
    assert (page[::51] == BETWEEN).all()
    assert (page[2 * 51 + 1 :, 62:] == BETWEEN).all()  # where a sixth would be


def test_small_images_are_enlarged_by_a_whole_factor():
    page = grid(np.array([[[0, 1], [1, 0]]]))
    assert page.shape == (50, 50)
    assert (page[1:25, 1:25] == 0).all()
    assert (page[1:25, 25:49] == 255).all()


def test_black_images_stay_black():
    assert set(np.unique(grid(np.zeros((1, 60, 60))))) == {0, BETWEEN}


def test_arrays_are_read_back_and_grids_are_drawn(tmp_path):
    images = Images(RANDOM.integers(256, size=(4, 5, 6)).astype(np.uint8), "x", top=255)
    for name in ("x.npz", "x.npy", "x.npy.gz", "x.png", "x.csv"):
        assert write_file([images], tmp_path / name) == 4
    assert (np.load(tmp_path / "x.npz")["x"] == images.pixels).all()
    assert (np.load(tmp_path / "x.npy") == images.pixels).all()
    assert (tmp_path / "x.png").read_bytes() == grid_png(images.pixels, top=255)
    table = read_file(tmp_path / "x.csv")
    assert table.names == images.names
    assert [list(map(int, row)) for row in table.rows()] == images.pixels.reshape(4, -1).tolist()
    with pytest.raises(InputError, match=r"an output ending in .*\.npy, \.npz, \.png"):
        write_file([images], tmp_path / "x.gif")
    with pytest.raises(InputError, match="an output ending in"):
        write_file([images], tmp_path / "x.png.gz")  # an image is not compressed twice


@pytest.mark.parametrize("ending", ["npy", "npz", "png", "csv", "parquet"])
def test_parts_make_the_file_of_the_whole(tmp_path, ending):
    images = Images(PIXELS, "x", top=255)
    write_file([images], tmp_path / f"whole.{ending}")
    assert write_file((images.take(slice(k, k + 2)) for k in range(0, 7, 2)), tmp_path / f"parts.{ending}") == 7
    if ending != "npz":  # an archive holds the time
        assert (tmp_path / f"parts.{ending}").read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()
    else:
        assert np.array_equal(np.load(tmp_path / "parts.npz")["x"], PIXELS)


def test_joined_parts_are_the_whole():
    blank = RANDOM.random(PIXELS.shape) < 0.1
    whole = Images(PIXELS, "x", LABELS, blank=blank, more={"draw": np.arange(7)})
    parts = [
        Images(PIXELS[k], "x", LABELS[k], blank=blank[k], more={"draw": np.arange(7)[k]})
        for k in (slice(3), slice(3, 7))
    ]
    again = Images.join(iter(parts))
    for name in ("pixels", "labels", "blank"):
        assert np.array_equal(getattr(again, name), getattr(whole, name))
    assert again.more["draw"].tolist() == list(range(7))
    assert Images.join([parts[0], Images(PIXELS[3:], "x", more={"draw": np.zeros(4)})]).labels is None


def test_draws_are_counted_in_tables_and_archives(tmp_path):
    images = Images(PIXELS[:4], "x", more={"draw": np.array([0, 0, 1, 1])}, columns=2)
    write_file([images], tmp_path / "x.csv")
    assert read_file(tmp_path / "x.csv").names[:2] == ("draw", "0,0")
    write_file([images], tmp_path / "x.npz")
    assert np.load(tmp_path / "x.npz")["draw"].tolist() == [0, 0, 1, 1]
    assert images.native().shape == (2, 2, 4, 5)
    assert images.to_json()["draw"] == [0, 0, 1, 1]


def test_a_grid_of_copies_has_a_row_for_each_image(tmp_path):
    copies = Images(PIXELS[:6], "x", more={"draw": np.array([0, 0, 0, 1, 1, 1])}, columns=2)
    write_file([copies], tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == grid_png(PIXELS[[0, 3, 1, 4, 2, 5]], 2)
