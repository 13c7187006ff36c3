"""Bytes become the text that was written, or are refused with their line; what was guessed is said."""

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from concrete_score.data.encoding import as_utf8, check_encoding
from concrete_score.data.formats import CSV
from concrete_score.errors import PYTHON, InputError, spell

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
anything = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1)
# Of these no two bytes make a character of UTF-8 by chance.
latin = st.text(st.sampled_from("ab1,\n äöüßÉñ"), min_size=1)


def said(text):
    return [spell(note, PYTHON) for note in text.notes]


@given(anything, st.sampled_from(sorted(MARKS)))
def test_a_byte_order_mark_decides(text, encoding):
    found = as_utf8(MARKS[encoding] + text.encode(encoding), "t")
    assert found.data.decode() == text.removeprefix("\ufeff")
    assert said(found) == [f"read as {encoding.upper()[:6].rstrip('-')}, by its byte-order mark"]


@given(anything)
def test_utf_8_is_taken_as_it_is(text):
    if not text.startswith("\ufeff"):
        assert as_utf8(text.encode(), "t") == (text.encode(), (), "utf-8")


@given(latin)
@example("Zürich")
def test_bytes_that_are_not_utf_8_are_latin_1_with_a_note(text):
    found = as_utf8(text.encode("latin-1"), "t")
    assert found.data.decode() == text
    assert len(found.notes) == (not text.isascii())
    if found.notes:
        assert said(found)[0].startswith("read as Latin-1, so that line ")


def test_the_note_shows_a_word_and_its_line():
    text = "town,size\nBern,1\nGenf,2\n“Zürich”,3\n"
    assert said(as_utf8(text.encode("cp1252"), "t")) == [
        "read as Windows-1252, so that line 4 has '“Zürich”'; if that is wrong, add encoding='NAME'"
    ]


@given(st.text(st.sampled_from("abc1234,\n äü"), min_size=8), st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_utf_16_without_a_mark(text, encoding):
    found = as_utf8(text.encode(encoding), "t")
    assert found.data.decode() == text
    assert said(found) == ["read as UTF-16, by its zero bytes"]


@given(anything, st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-32", "gb18030"]))
def test_a_named_encoding_is_taken_at_its_word(text, encoding):
    found = as_utf8(text.encode(encoding), "t", encoding)
    assert found[:2] == (text.removeprefix("\ufeff").encode(), ())


@given(st.binary(min_size=1, max_size=40))
@example(b"\x89PNG\r\n\x1a\n\x00\x01\x02,")
@example(b"\xff\xfe\x00")
@example(b"\x00\x00\xfe\xff\x00")
def test_any_bytes_are_text_or_refused(data):
    try:
        found = as_utf8(data, "t").data
    except InputError as error:
        assert str(error).startswith("t: line ")  # noqa: PT017
    else:
        assert b"\x00" not in found
        found.decode()


BAD = {
    "half a file": ("Zürich,Genève\n".encode() * 9 + b"Z\xc3", "line 10: expected UTF-8 text, got byte 0xc3"),
    "one byte of many": ("Zürich,Genève\n".encode() * 9 + b"Z\xfcrich", "line 10: expected UTF-8 text, got byte 0xfc"),
    "behind a mark": (codecs.BOM_UTF8 + b"a\nZ\xfcrich", "line 2: expected UTF-8 text, got byte 0xfc"),
    "no character": (b"a\nZ\x81rich", "line 2: expected text in UTF-8, UTF-16 or Windows-1252, got byte 0x81"),
    "a control": (b"a\nZ\x07\xfc", "line 2: expected text in UTF-8, UTF-16 or Windows-1252, got byte 0x07"),
    "half a pair": (codecs.BOM_UTF16_LE + "a\nb".encode("utf-16-le")[:-1], "line 2: expected UTF-16 text, got byte"),
    "half a surrogate": (codecs.BOM_UTF16_LE + b"a\x00\n\x00\x00\xd8", "line 2: expected UTF-16 text"),
    "zeros": (b"a,b\n1,2\n3,\x00\n", "line 3: expected text, got a binary file"),
    "zeros on both sides": (b"a\x00\x00b" * 9, "line 1: expected text, got a binary file"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_fits_nothing_is_refused_with_its_line(name):
    data, match = BAD[name]
    with pytest.raises(InputError, match=rf"^t: {match}"):
        as_utf8(data, "t")


@pytest.mark.parametrize("name", ["", "foo", "hex", "rot13", "bz2", "idna", "unicode_escape", "x" * 999, "a\0b", "é"])
def test_no_encoding_of_text_files(name):
    with pytest.raises(InputError, match=r"^encoding: expected the name of a text encoding, got .*utf-8, utf-16"):
        check_encoding(name)


def test_another_encoding_than_the_named_one():
    with pytest.raises(InputError, match=r"^t: line 2: expected ascii text, got byte 0xc3; save the file as UTF-8"):
        as_utf8("a\nü".encode(), "t", "ascii")
    with pytest.raises(InputError, match=r"^t: line 2: expected UTF-8 text, got byte 0xfc"):
        CSV.read("a,b\nü,1\n".encode("latin-1"), "t", encoding="utf-8")
