"""Small files that ask for much memory are refused with the number, before any of it is taken."""

import io
import struct
import zipfile

import numpy as np
import pytest

from concrete_score.data import formats
from concrete_score.errors import InputError
from concrete_score.files import MEMORY

LARGE = "content that takes at most .* GiB of memory, got about"


def header(shape, descr="|u1"):
    """The beginning of an ``.npy`` file that states a shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(**members):
    """An ``.npz`` file with these members, compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return file.getvalue()


def test_an_archive_is_judged_by_the_sizes_it_states(monkeypatch):
    data = archive(x=header((4096, 1024)) + bytes(4096 * 1024))
    assert len(data) < 10_000
    assert len(formats.read(formats.npz, data, "x.npz")) == 4096
    monkeypatch.setenv(MEMORY, "0.003")
    with pytest.raises(InputError, match=LARGE):
        formats.read(formats.npz, data, "x.npz")


def test_three_gigabytes_of_nothing_are_refused_by_the_directory_alone(monkeypatch):
    data = bytearray(archive(x=header((3, 2**30)) + bytes(1000)))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 3 * 2**30)
    with pytest.raises(
        InputError, match=r"of memory, got about 4 GiB; set the environment variable CONCRETE_SCORE_MEMORY=4"
    ):
        formats.read(formats.npz, bytes(data), "x.npz")


@pytest.mark.parametrize("descr", ["<f8", "<U0", "<U1"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_states_more_than_there_is_is_damaged(descr, packed):
    """Cells of no bytes take memory all the same."""
    content = header((10**9, 1000), descr) + bytes(80)
    chosen, data = (formats.npz, archive(x=content)) if packed else (formats.npy, content)
    with pytest.raises(InputError, match=f"a damaged one|{LARGE}"):
        formats.read(chosen, data, "x")


@pytest.mark.parametrize("chosen", [formats.csv, formats.data, formats.arff, formats.fasta, formats.text])
def test_texts_are_judged_by_their_cells_and_lines(chosen, monkeypatch):
    monkeypatch.setenv(MEMORY, "0.02")
    with pytest.raises(InputError, match=LARGE):
        formats.read(chosen, b"x,y\n" * 2**19, "bomb")
