"""Integer tables: narrow storage, sizes and digests. What is refused is tested through ``csm fit``."""

import gzip

import numpy as np
import pytest
import torch

from concrete_score.data.arrays import digest, read, sizes
from concrete_score.errors import InputError


def test_every_kind_of_file_gives_the_same_states(tmp_path):
    table = np.array([[0, 300], [1, 2], [0, 0]])
    text = "\n".join(",".join(map(str, row)) for row in table) + "\n"
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", only=table)
    (tmp_path / "c.data").write_text(text)
    with gzip.open(tmp_path / "d.data.gz", "wt") as file:
        file.write(text)
    found = [read(str(path)) for path in sorted(tmp_path.iterdir())]
    assert len({digest(states) for states in found}) == 1
    assert found[0].tolist() == table.tolist()
    assert sizes(found[0]) == (2, 301)


def test_small_values_are_stored_as_bytes_and_booleans_are_numbers(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[True, False]]))
    assert read(str(tmp_path / "a.npy")).dtype == torch.uint8


def test_digests_tell_values_and_shapes_apart():
    one = torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8)
    assert digest(one) == digest(one.clone())
    assert len({digest(one), digest(one.reshape(1, 4)), digest(1 - one), digest(one.int())}) == 4


def test_sizes_span_all_tables_and_refuse_other_widths():
    assert sizes(torch.tensor([[0, 4]]), torch.tensor([[2, 1]])) == (3, 5)
    with pytest.raises(InputError, match="2 and 3"):
        sizes(torch.zeros(1, 2), torch.zeros(1, 3))


def test_named_sets_and_their_splits(data_dir):
    assert read("nltcs").shape == (16181, 16)
    assert read("gifts:test").shape == (794, 16)
    with pytest.raises(InputError, match="did you mean 'nltcs'"):
        read("nltc")
