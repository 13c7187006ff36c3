"""Tensor files and the journal verify themselves; a journal cut short by a crash is no damage."""

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.training.store import Journal, TensorFile, read, write

TENSORS = {"weights/a": torch.arange(6.0).reshape(2, 3), "weights/b": torch.tensor(3), "empty": torch.zeros((0, 2))}


def test_tensors_come_back_with_their_state(tmp_path):
    write(tmp_path / "x", TensorFile("model", "id", 7, {"a": [1, None]}, TENSORS))
    found = read(tmp_path / "x", "model", "id")
    assert (found.step, found.state) == (7, {"a": [1, None]})
    assert all(torch.equal(found.tensors[name], value) for name, value in TENSORS.items())


@pytest.mark.parametrize(
    ("kind", "id", "match"), [("checkpoint", "id", "a model file in its place"), ("model", "other", "another run")]
)
def test_another_kind_or_run_is_refused(tmp_path, kind, id, match):
    write(tmp_path / "x", TensorFile("model", "id", 7, {}, TENSORS))
    with pytest.raises(InputError, match=match):
        read(tmp_path / "x", kind, id)


def test_no_byte_of_a_tensor_file_can_change(tmp_path):
    write(tmp_path / "x", TensorFile("model", "id", 7, {"a": 1}, TENSORS))
    whole = (tmp_path / "x").read_bytes()
    for at in range(len(whole)):
        (tmp_path / "x").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match="restore it from a copy"):
            read(tmp_path / "x", "model", "id")


def test_a_journal_goes_back_to_a_mark_and_knows_its_run(tmp_path):
    journal = Journal(tmp_path / "j", "id")
    marks = [journal.mark()]
    for step in range(3):
        journal.append(step=step, loss=float("nan"))
        marks.append(journal.mark())
    assert [line["step"] for line in journal.read(marks[-1])] == [0, 1, 2]
    assert journal.read()[0]["loss"] is None
    with pytest.raises(InputError, match="line 1 edited, or of another run"):
        Journal(tmp_path / "j", "other").read()
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"half')
    journal.cut(marks[1])
    assert [line["step"] for line in journal.read(marks[1])] == [0]
    with pytest.raises(InputError, match="1 lines where a checkpoint remembers 3"):
        journal.read(marks[3])
    journal.append(step=9)
    assert [line["step"] for line in Journal(tmp_path / "j", "id").read()] == [0, 9]
    with pytest.raises(InputError, match="where a checkpoint remembers"):
        journal.read(marks[2])  # another second line
