"""Pictures out: what is written is what a reader of the format sees."""

import io

import numpy as np
import pytest
from matplotlib import image

from concrete_score.data.pictures import BETWEEN, FILES, ending, grid, grid_png, png
from concrete_score.errors import InputError

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (50, 20)])
def test_another_reader_sees_the_same_grey_values(shape):
    grey = RANDOM.integers(256, size=shape).astype(np.uint8)
    read = image.imread(io.BytesIO(png(grey)), format="png")
    assert np.rint(255 * read).astype(np.uint8).tolist() == grey.tolist()


def test_every_picture_lies_in_its_place_and_gaps_are_grey():
    pictures = RANDOM.integers(3, size=(5, 50, 60))
    page = grid(pictures, columns=2, top=2)
    assert page.shape == (3 * 51 + 1, 2 * 61 + 1)
    for place, picture in enumerate(pictures):
        row, column = divmod(place, 2)
        there = page[row * 51 + 1 : (row + 1) * 51, column * 61 + 1 : (column + 1) * 61]
        assert (there == np.array([0, 128, 255])[picture]).all()
    assert (page[::51] == BETWEEN).all()
    assert (page[2 * 51 + 1 :, 62:] == BETWEEN).all()  # where a sixth would be


def test_small_pictures_are_enlarged_by_whole_points():
    page = grid(np.array([[[0, 1], [1, 0]]]))
    assert page.shape == (50, 50)
    assert (page[1:25, 1:25] == 0).all()
    assert (page[1:25, 25:49] == 255).all()


def test_black_pictures_stay_black():
    assert set(np.unique(grid(np.zeros((1, 60, 60))))) == {0, BETWEEN}


def test_arrays_are_read_back(tmp_path):
    from pathlib import Path

    pictures = RANDOM.integers(256, size=(4, 5, 6)).astype(np.uint8)
    (tmp_path / "x.npz").write_bytes(FILES[".npz"](pictures))
    (tmp_path / "x.npy").write_bytes(FILES[".npy"](pictures))
    assert (np.load(tmp_path / "x.npz")["x"] == pictures).all()
    assert (np.load(tmp_path / "x.npy") == pictures).all()
    assert grid_png(pictures).startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"ending in \.png, \.npy, \.npz"):
        ending(Path("x.gif"))
