"""One contract for every registered codec: a new one is enrolled by its registry line and an example here."""

import json

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.codecs import (
    Codec,
    ImageCodec,
    SequenceCodec,
    TableCodec,
    TableOptions,
    codec_from_json,
    codec_of,
)
from concrete_score.codecs.conditions import Condition
from concrete_score.data import Form, Sequences
from concrete_score.errors import InputError, Option
from concrete_score.protocols import Encoded

MIXED = pl.DataFrame(
    {
        "word": ["no", "yes", "a=b", "no"],
        "word=more": ["x", "", "y", "x"],
        "count": [10, 9, -3, 9],
        "truth": [True, False, None, True],
        "share": [0.25, 1.5, 3.75, 9.5],
    }
)
GREYS = np.random.default_rng(0).integers(0, 256, (5, 3, 2), dtype=np.uint8)
GREYS[0, 0, 0] = 255
EXAMPLES = {
    "table": [
        TableCodec.fit(MIXED, TableOptions(bins={"share": 3}, missing="category")),
        TableCodec.fit(np.array([[0, 5], [1, 7], [0, 7]])),
        TableCodec.fit(np.array([["a", "b"], ["c", "d"]])),
    ],
    "integers": [codec_from_json({"kind": "integers", "sizes": [2, 5, 3]})],
    "image": [
        ImageCodec.fit(GREYS),
        ImageCodec.fit(GREYS, levels=5),
        ImageCodec.fit(GREYS / 255, levels=4),
        ImageCodec.fit(GREYS > 100),
    ],
    "sequence": [
        SequenceCodec.infer(Sequences(("AC-T", "ACGT"), "x", ("a/7-10", "b")), {}),
        SequenceCodec.infer(Sequences(("AcC-T", "A.CGT"), "x", ("a/7-10", "b"), Form("a2m")), {}),
    ],
}
CASES = [pytest.param(codec, id=f"{name}-{k}") for name, codecs in EXAMPLES.items() for k, codec in enumerate(codecs)]
every = pytest.mark.parametrize("codec", CASES)


def some_states(codec, count=200):
    """Every value of every site, and random rows."""
    generator = torch.Generator().manual_seed(0)
    random = codec.space.uniform(count, generator)
    largest = max(codec.space.sizes)
    each = torch.stack([torch.arange(largest) % size for size in codec.space.sizes], 1)
    return torch.cat([each, random])


def test_every_registered_codec_has_an_example():
    assert set(EXAMPLES) == set(registry.names("codecs"))
    for name in EXAMPLES:
        assert issubclass(codec_of(name), Codec)


@every
def test_json_gives_an_equal_codec(codec):
    plain = codec.to_json()
    again = codec_from_json(json.loads(json.dumps(plain, allow_nan=False)))
    assert again == codec
    assert again.to_json() == plain
    assert type(again) is type(codec) is codec_of(plain["kind"])
    assert again.same_reading(codec)
    assert hash(again) == hash(codec)


@every
def test_decode_then_encode_is_the_identity_on_states(codec):
    states = some_states(codec)
    data = codec.decode(states)
    assert (data.kind, len(data)) == (codec.kind, len(states))
    found = codec.encode(data)
    assert isinstance(found, Encoded)
    assert torch.equal(found.states.long(), states)
    assert found.observed.all()
    assert found.observed.shape == states.shape
    assert (found.kept.tolist(), found.unknown, found.blank) == (list(range(len(states))), 0, 0)
    again = codec_from_json(codec.to_json()).encode(data)
    assert torch.equal(again.states, found.states)
    assert codec.accept(data) is data


@every
def test_states_take_the_narrowest_type_and_others_are_refused(codec):
    assert codec.encode(codec.decode(some_states(codec))).states.dtype == torch.uint8
    outside = some_states(codec, 1)[:1].clone()
    outside[0, -1] = codec.space.sizes[-1]
    with pytest.raises(InputError, match="states"):
        codec.decode(outside)


@every
def test_a_site_has_as_many_values_as_labels_and_all_ways_to_name_them_agree(codec):
    assert len(codec.names) == codec.space.num_sites == len(set(codec.names))
    states = some_states(codec)
    for site, size in enumerate(codec.space.sizes):
        labels, natives = codec.labels(site), codec.natives(site)
        assert len(labels) == len(natives) == size == len(set(labels))
        for value, label in enumerate(labels):
            assert codec.place(site, label) == value
            assert codec.describe(site, value) == f"{codec.names[site]}={label}"
        seen = [natives[value] for value in states[:, site].tolist()]
        cells = codec.decode(states)
        column = {
            "table": lambda site=site, cells=cells: cells.table[:, site].to_list(),
            "image": lambda site=site, cells=cells: cells.pixels.reshape(len(cells), -1)[:, site],
            "sequence": lambda site=site, cells=cells: [text[site] for text in cells.texts],
        }[cells.kind]()
        assert list(column) == seen
        assert codec.place(site, "no such value") is None


@every
def test_given_finds_each_label_by_mapping_and_by_text(codec):
    for site, name in enumerate(codec.names):
        for value, label in enumerate(codec.labels(site)):
            assert codec.given({name: label}) == {site: value}
            if codec.unnamed:
                assert codec.given({site: label}) == {site: value}
            # The longest name that fits wins, so a value that begins like a longer name is told by the mapping alone.
            if not any(len(other) > len(name) and f"{name}={label}".startswith(f"{other}=") for other in codec.names):
                assert codec.given([f"{name}={label}"]) == {site: value}
    whole = {name: codec.labels(site)[-1] for site, name in enumerate(codec.names)}
    assert codec.given(whole) == {site: size - 1 for site, size in enumerate(codec.space.sizes)}
    assert codec.given(None) == codec.given([]) == {}


@every
def test_comparisons_part_the_values_of_a_site(codec):
    for site, labels in enumerate(map(codec.labels, range(codec.space.num_sites))):

        def left(*conditions, site=site):
            found = codec.log_evidence(site, [Condition(site, sign, tuple(texts)) for sign, *texts in conditions])
            assert found.shape == (codec.space.sizes[site],)
            return found > -np.inf

        for value, label in enumerate(labels):
            assert left(("=", label)).nonzero()[0].tolist() == [value]
            assert (left(("!=", label)) == ~left(("=", label))).all()
            try:
                below, above = left(("<", label)), left((">", label))
            except InputError:  # a range is no number to compare with
                continue
            assert (left(("<=", label)) == (below | left(("=", label)))).all() or codec.natives(site)[value] is None
            assert (left((">=", label)) == (above | left(("=", label)))).all() or codec.natives(site)[value] is None
            assert not (below & above).any()
        both = left(("in", labels[0], labels[-1]), ("!=", labels[0]))
        assert both.nonzero()[0].tolist() == ([len(labels) - 1] if len(labels) > 1 else [])


@every
def test_conditions_that_make_no_sense_are_refused(codec):
    name, labels = codec.names[0], codec.labels(0)
    for conditions in (
        {name: "no such value"},
        {"no such name": labels[0]},
        ["no such name=1"],
        [name],
        [f"{name}={labels[0]}", f"{name}={labels[1]}"],
        f"{name}={labels[0]}",
        3,
    ):
        with pytest.raises(InputError) as caught:
            codec.given(conditions)
        assert caught.value.where == Option("given")


@every
def test_blanks_are_filled_and_nothing_else(codec):
    states = some_states(codec)[:4]
    data = codec.decode(states)
    rows = codec.encode(data, missing="unobserved")
    filled = codec.fill(data, rows, (states * 0)[None], None)
    assert torch.equal(codec.encode(filled).states.long(), states)  # there was none
    flags = torch.ones_like(rows.observed).clone()
    flags[1, 0] = False
    one = codec.fill(data, rows._replace(observed=flags), (states * 0)[None], None)
    expected = states.clone()
    expected[1, 0] = 0
    assert torch.equal(codec.encode(one).states.long(), expected)


@every
def test_the_schema_is_plain_and_the_table_of_it_rectangular(codec):
    assert json.loads(json.dumps(codec.schema(), allow_nan=False)) == codec.schema()
    title, heads, rows = codec.schema_table()
    assert title.endswith(":")
    assert rows
    assert all(len(row) == len(heads) for row in rows)
    assert (codec.grid(some_states(codec)[:4]) is not None) == codec.has_grid
    assert codec.choose({}, {}).settings.steps > 0


@pytest.mark.parametrize("name", registry.names("codecs"))
def test_unknown_json_is_refused(name):
    fields = EXAMPLES[name][0].to_json() if name != "integers" else {"kind": "integers", "sizes": [2, 5, 3]}
    strange = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(list(fields)), x, max_size=4),
    )

    @given(strange)
    def check(value):
        for key in fields:
            _refused_or_equal({**fields, key: value})
            _refused_or_equal({each: fields[each] for each in fields if each != key})
        _refused_or_equal({"kind": name, "more": value})

    check()
    for value in (None, [], {}, 3, "table", {"kind": None}, {"kind": "os:system"}, {"kind": ["table"]}, {"kind": name}):
        with pytest.raises(InputError, match=r"^run: codec") as caught:
            codec_from_json(value, "run: codec")
        assert "\n" not in str(caught.value)


def _refused_or_equal(value):
    """A codec that keeps what it was made of, or one InputError; never another exception."""
    try:
        codec = codec_from_json(value, "run: codec")
    except InputError:
        return
    assert codec_from_json(codec.to_json()) == codec


@pytest.mark.parametrize("name", registry.names("codecs"))
@pytest.mark.parametrize("option", ["missing", "unknown"])
def test_ways_to_treat_cells_are_checked_by_name(name, option):
    codec = EXAMPLES[name][0]
    with pytest.raises(InputError, match=rf"^{option}: expected one of"):
        codec.encode(codec.decode(some_states(codec)), **{option: "refuze"})
