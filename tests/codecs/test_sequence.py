"""Sequences: alphabets, alignments with a focus, padding, windows, weights, and what is refused."""

import gzip

import numpy as np
import pytest
import torch

from concrete_score.codecs import SequenceCodec, codec_from_json
from concrete_score.codecs.sequence import END, identity_weights
from concrete_score.data import Sequences, read_file
from concrete_score.data.sequences import read_a2m, read_fasta, read_text
from concrete_score.errors import InputError

A2M = b">wild/24-29 a protein\nmAC-dEF\n>two\n.GCKdE-\n>three\n.AXK.EF\n"


def codec_of(data, **options):
    return SequenceCodec.infer(data, options)


def test_insertions_are_dropped_and_the_focus_numbers_the_columns():
    data = read_a2m(A2M, "x.a2m")
    codec = codec_of(data, gaps="letter")
    # The first letter is an insertion, number 24; the focus has a gap in the third column, which is left out.
    assert codec.names == ("25", "26", "28", "29")
    found = codec.encode(data, missing="drop")
    assert found.blank == 1  # X
    assert [codec.decode(row[None].long()).texts[0] for row in found.states] == ["ACEF", "GCE-"]
    seen = codec.encode(data, missing="unobserved")
    assert seen.observed.tolist()[2] == [True, False, True, True]
    # A whole sequence is read by its own numbering.
    wild = codec.encode(read_fasta(b">wild/24-29\nMACDEF\n", "w.fasta"))
    assert codec.decode(wild.states.long()).texts == ("ACEF",)
    other = codec_of(data, focus="two")
    assert other.names == ("1", "2", "3", "5")


def test_gaps_of_a_family_are_nothing_observed():
    data = read_a2m(A2M, "x.a2m")
    codec = codec_of(data, weights="identity=0.7")
    assert (codec.missing, "-" in codec.symbols) == ("unobserved", False)
    found = codec.encode(data, missing=codec.missing)
    assert found.observed.tolist() == [[True] * 4, [True, True, True, False], [True, False, True, True]]
    # A gap is equal to no letter: the third agrees with the first at three sites of four, the second with none.
    assert found.weights.tolist() == [0.5, 1.0, 0.5]
    assert codec_from_json(codec.to_json()) == codec


def test_alphabets_are_inferred_or_given_and_ambiguity_is_blank():
    protein = codec_of(read_fasta(b">a\nMKVL\n>b\nMK-L\n", "x"))
    assert protein.symbols == tuple("-ACDEFGHIKLMNPQRSTVWY")
    dna = codec_of(read_fasta(b">a\nacgtacgtacgn\n>b\nACGTACGTACGT\n", "x"))
    assert dna.symbols == tuple("ACGT")
    found = dna.encode(read_fasta(b">a\nACGTACGTACGN\n", "x"), missing="unobserved")
    assert found.observed[0].tolist() == [True] * 11 + [False]
    assert codec_of(read_fasta(b">a\nACGU\n", "x")).symbols == tuple("ACGU")
    assert codec_of(read_fasta(b">a\nHPHH\n", "x"), alphabet="HP").symbols == ("H", "P")


def test_lengths_are_filled_up_with_a_value_that_is_never_shown():
    codec = codec_of(read_text(b"anna\nbo\n", "x.txt"))
    assert codec.symbols == ("a", "b", "n", "o", END)
    states = codec.encode(["bo", "anna"]).states.long()
    assert states.tolist() == [[1, 3, 4, 4], [0, 2, 2, 0]]
    assert codec.decode(states).texts == ("bo", "anna")
    assert codec.decode(torch.tensor([[4, 0, 0, 0], [0, 4, 1, 1]])).texts == ("", "a")
    assert codec_from_json(codec.to_json()) == codec


def test_windows_and_words():
    lines = read_text(b"to be or\nnot to be\n", "x.txt")
    windows = codec_of(lines, window=6)
    assert windows.decode(windows.encode(lines).states.long()).texts == ("to be ", "or\nnot", " to be")
    words = codec_of(lines, tokens="words", window=3)
    found = words.encode(lines)
    assert words.decode(found.states.long()).texts == ("to be or", "not to be")
    assert words.encode(["to be sure"], missing="unobserved").observed.tolist() == [[True, True, False]]


def test_blanks_are_filled_and_all_else_stays():
    codec = codec_of(read_fasta(b">a\nACGT\n>b\nCCGT\n", "x"))
    data = read_fasta(b">q\nA?GT\n", "q")
    rows = codec.encode(data, missing="unobserved")
    filled = codec.fill(data, rows, torch.full((1, 1, 4), 3), None)
    assert (filled.texts, filled.ids) == (("ATGT",), ("q",))
    both = codec.fill(data, rows, torch.stack([torch.zeros(1, 4), torch.ones(1, 4)]).long(), 2)
    assert both.texts == ("AAGT", "ACGT")
    assert both.more["draw"].tolist() == [0, 1]


def test_weights_count_copies():
    rows = torch.tensor(np.random.default_rng(0).integers(0, 3, (40, 10)))
    weights = identity_weights(rows, 0.6)
    for row in range(40):
        same = ((rows == rows[row]).float().mean(1) >= 0.6 - 1e-9).sum()
        assert weights[row] == pytest.approx(1 / int(same))
    codec = codec_of(read_fasta(b">a\nACGT\n>b\nACGT\n>c\nTTTT\n", "x"), weights="identity=0.8")
    found = codec.encode(read_fasta(b">a\nACGT\n>b\nACGT\n>c\nTTTT\n", "x"))
    assert found.weights.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("content", "suffix", "message"),
    [
        (b"", "fasta", "an empty file"),
        (b"ACGT\n", "fasta", "line 1"),
        (b">a\n>b\nACGT\n", "fasta", "none after >a"),
        (b">a\nAC\n>b\nACG\n", "a2m", "sequence b"),
    ],
)
def test_files_that_are_none_are_refused_in_one_line(tmp_path, content, suffix, message):
    path = tmp_path / f"x.{suffix}.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match=message) as caught:
        read_file(path)
    assert "\n" not in str(caught.value)


def test_sequences_that_do_not_fit_are_refused_by_name():
    codec = codec_of(read_fasta(b">a\nACGT\n>b\nCCGT\n", "x"))
    with pytest.raises(InputError, match="sequence q: expected 4 positions, as in training, got 5"):
        codec.encode(read_fasta(b">q\nACGTA\n", "q"))
    with pytest.raises(InputError, match="sequence q, position 2: expected letters of A C G T, got 'E'"):
        codec.encode(read_fasta(b">q\nAEGT\n", "q"))
    with pytest.raises(InputError, match=r"letter 2.*got 'E'"):
        codec_of(read_fasta(b">a\nAEGT\n", "x"), alphabet="dna")
    with pytest.raises(InputError, match="focus: expected a sequence of the alignment, got 'gone'"):
        codec_of(read_a2m(A2M, "x"), focus="gone")
    with pytest.raises(InputError, match="weights"):
        codec_of(read_fasta(b">a\nACGT\n", "x"), weights="identity=2")
    names = codec_of(read_text(b"anna\nbo\n", "x.txt"))
    with pytest.raises(InputError, match="at most 4 positions"):
        names.encode(["banana"])
    with pytest.raises(InputError, match="a list of texts"):
        SequenceCodec.accept("ACGT")
    assert isinstance(SequenceCodec.accept(["A"]), Sequences)
