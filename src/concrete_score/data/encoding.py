"""From a file's bytes to UTF-8 text: which encoding it has is noticed, or given by name.

A byte-order mark decides; then zero bytes on one side of every pair (UTF-16 without a mark); then UTF-8. Bytes that are
not UTF-8 are Latin-1 or its superset Windows-1252, if every one of them is a character there and they do not look like
UTF-8 that was damaged. What fits nothing is refused, and its line named.
"""

import codecs
import re
import sys
from typing import NamedTuple

import numpy as np

from concrete_score.errors import InputError, Option, Part, nearest
from concrete_score.files import refuse_large

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte-order marks; the longer ones first where one begins with another."""
_NAMES = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32-le": "UTF-32",
    "utf-32-be": "UTF-32",
    "latin-1": "Latin-1",
    "cp1252": "Windows-1252",
}
_NOT_OF_FILES = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf_7", "mbcs"})
"""Encodings of Python's that no text file has."""
_COMMON = ("utf-8", "utf-16", "utf-32", "latin-1", "cp1252", "cp1250", "cp1251", "shift_jis", "gb18030", "big5")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_PARTS = 2**24
"""Bytes decoded at a time to see whether they are UTF-8."""
_LOOKED_AT = 2**20
"""Bytes by which UTF-16 is recognized."""
_SMALL, _CELL, _LINE = 2**20, 20, 64
"""Bytes of text that need not be estimated, and what a cell and a line take beside their text."""
_SHORTEST = 16
"""Fewer bytes do not tell UTF-16 without a mark from a binary file."""
_WORD = re.compile(r"[^\s,;|\"]*[^\x00-\x7f][^\s,;|\"]*")
_SHOWN = 24


class Text(NamedTuple):
    """A file's text as UTF-8 without a byte-order mark, and what was noticed about its encoding."""

    data: bytes
    notes: tuple[tuple[Part, ...], ...] = ()
    encoding: str = "utf-8"
    """What the rest of a longer file is to be decoded by."""


def as_utf8(data: bytes, where: str, encoding: str | None = None) -> Text:
    """A file's bytes as UTF-8.

    Args:
        data: the bytes.
        where: what to call the file in messages.
        encoding: its name, such as ``cp1250``; noticed by default.

    Raises:
        InputError: empty, binary, no such encoding, or bytes that it does not have; the line is named.

    >>> text = as_utf8("Zürich,1".encode("latin-1"), "data.csv")
    >>> text.data.decode(), text.notes[0][0]
    ('Zürich,1', "read as Latin-1, so that line 1 has 'Zürich'; if that is wrong, add ")
    >>> as_utf8(b"Z\\x81rich", "data.csv")
    Traceback (most recent call last):
    concrete_score.errors.InputError: data.csv: line 1: expected text in UTF-8, UTF-16 or Windows-1252, got byte 0x81...
    """
    if not data:
        raise InputError("a table", "an empty file", where=where, fix="give one with a header and rows")
    refuse_large(text_memory(data), where)
    if encoding is not None:
        name = check_encoding(encoding)
        # The rest of a longer file has no mark of its own, by which UTF-16 and UTF-32 tell the order of their bytes.
        marked = (each for mark, each in _MARKS if data.startswith(mark) and each.startswith(name))
        own = f"{name}-{sys.byteorder[0]}e" if name in ("utf-16", "utf-32") else name
        return Text(_recoded(data, name, where), encoding=next(marked, own))
    for mark, name in _MARKS:
        if data.startswith(mark):
            text = _recoded(data[len(mark) :], name, where)
            return Text(text, ((f"read as {_NAMES[name]}, by its byte-order mark",),), name)
    if b"\x00" in data:
        return _without_mark(data, where)
    return Text(data) if _is_utf8(data) else _of_one_byte(data, where)


class Recoder:
    """The rest of a long file as UTF-8, block after block, in the encoding that its beginning has.

    Args:
        encoding: as `Text.encoding` has it.
        where: what to call the file in messages.

    >>> rest = Recoder("utf-16-le", "t.csv")
    >>> rest("é".encode("utf-16-le")[:1], lines=0) + rest("é".encode("utf-16-le")[1:], lines=0, last=True)
    b'\\xc3\\xa9'
    """

    def __init__(self, encoding: str, where: str) -> None:
        self.encoding, self.where = encoding, where
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def __call__(self, block: bytes, lines: int, last: bool = False) -> bytes:
        """The next block; ``lines`` of the file came before it.

        Raises:
            InputError: bytes that the encoding does not have, or a zero; the line is named.
        """
        waiting = self._decoder.getstate()[0]
        try:
            found = block if not waiting and block.isascii() and self._plain else self._decoder.decode(block, last)
        except UnicodeError as error:
            at = getattr(error, "start", 0)
            line = lines + (waiting + block)[:at].count(b"\n") + 1
            came = f"byte 0x{(waiting + block)[at]:02x}" if waiting + block else "half a character"
            fix = ["save the file as UTF-8", ("name its encoding with ", Option("encoding"))]
            name = _NAMES.get(self.encoding, self.encoding)
            raise InputError(f"{name} text", came, f"{self.where}: line {line}", fix) from None
        text = found if isinstance(found, bytes) else found.encode()
        if b"\x00" in text:
            line = lines + text[: text.index(b"\x00")].count(b"\n") + 1
            raise InputError("text", "a binary file (byte 0x00)", f"{self.where}: line {line}")
        return text

    @property
    def _plain(self) -> bool:
        """Whether a character of ASCII is its own byte."""
        return self.encoding in ("utf-8", "cp1252", "iso8859-1", "ascii")


def text_memory(data: bytes, small: int = _SMALL) -> int:
    """About how many bytes a text takes with its cells and lines; a ``small`` one need not be estimated."""
    if len(data) < small:
        return len(data)
    cells = sum(data.count(mark) for mark in (b",", b";", b"\t", b"|", b" "))
    return 2 * len(data) + _CELL * cells + _LINE * data.count(b"\n")


def check_encoding(name: str) -> str:
    """The name under which Python knows an encoding of text.

    Raises:
        InputError: there is none, or none that files have.

    >>> check_encoding("Latin-1")
    'iso8859-1'
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError, TypeError):
        found = None
    if found is None or found.name.replace("-", "_") in _NOT_OF_FILES or not found._is_text_encoding:
        fix = nearest(str(name).lower(), _COMMON)
        raise InputError("the name of a text encoding", repr(name)[:60], Option("encoding"), fix)
    return found.name


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PARTS):
            decoder.decode(data[start : start + _PARTS], start + _PARTS >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def _wrong_byte(expected: str, data: bytes, at: int, where: str) -> InputError:
    fix = ["save the file as UTF-8", ("name its encoding with ", Option("encoding"))]
    return InputError(expected, f"byte 0x{data[at]:02x}", _place(where, data[:at]), fix)


def _place(where: str, before: bytes | str) -> str:
    lines = before.count(b"\n") if isinstance(before, bytes) else before.count("\n")
    return f"{where}: line {lines + 1}"


def _refuse_zeros(data: bytes, where: str) -> None:
    at = data.find(b"\x00")
    if at >= 0:
        fix = "give a text table, or name the file by its true ending"
        raise InputError("text", "a binary file (byte 0x00)", _place(where, data[:at]), fix)


def _recoded(data: bytes, encoding: str, where: str) -> bytes:
    """Bytes of a known encoding as UTF-8.

    Raises:
        InputError: bytes that it does not have; the line is named.
    """
    try:
        if encoding == "utf-8" and _is_utf8(data):
            found = data.removeprefix(codecs.BOM_UTF8)
        else:
            found = data.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        name = _NAMES.get(encoding, encoding)
        before = data[: error.start].decode(encoding, errors="replace")
        fix = ["save the file as UTF-8", ("name its encoding with ", Option("encoding"))]
        raise InputError(f"{name} text", f"byte 0x{data[error.start]:02x}", _place(where, before), fix) from None
    except UnicodeError:  # half a character of an encoding of pairs
        other = ("name another ", Option("encoding"))
        raise InputError(f"{encoding} text", "something else", where, other) from None
    _refuse_zeros(found, where)
    return found


def _without_mark(data: bytes, where: str) -> Text:
    """UTF-16 without a byte-order mark: of every pair, zeros on one side in most places, on the other in hardly any.

    Raises:
        InputError: a binary file.
    """
    start = np.frombuffer(data[:_LOOKED_AT], np.uint8)
    first, second = (float((start[side::2] == 0).sum()) / (len(start) / 2) for side in (0, 1))
    for name, high, low in (("utf-16-le", second, first), ("utf-16-be", first, second)):
        if len(data) % 2 == 0 and len(data) >= _SHORTEST and high >= 0.5 and low <= 0.02:
            found = _recoded(data, name, where)
            if not _CONTROLS.search(found):
                return Text(found, (("read as UTF-16, by its zero bytes",),), name)
    _refuse_zeros(data, where)
    return Text(data)


def _of_one_byte(data: bytes, where: str) -> Text:
    """Bytes that are not UTF-8 as Latin-1, or as Windows-1252 where they go beyond it.

    Raises:
        InputError: damaged UTF-8, a binary file, or a byte that is no character; the line is named.
    """
    if (broken := _damaged(data)) is not None:
        raise _wrong_byte("UTF-8 text", data, broken, where)
    if control := _CONTROLS.search(data):
        raise _wrong_byte("text in UTF-8, UTF-16 or Windows-1252", data, control.start(), where)
    beyond = re.search(rb"[\x80-\x9f]", data) is not None
    try:
        text = data.decode("cp1252" if beyond else "latin-1")
    except UnicodeDecodeError as error:
        raise _wrong_byte("text in UTF-8, UTF-16 or Windows-1252", data, error.start, where) from None
    name = _NAMES["cp1252" if beyond else "latin-1"]
    word = _WORD.search(text)
    seen = ""
    if word is not None:
        shown = word.group() if len(word.group()) <= _SHOWN else f"{word.group()[:_SHOWN]}…"
        line = text.count("\n", 0, word.start()) + 1
        seen = f", so that line {line} has {shown!r}"
    notes = ((f"read as {name}{seen}; if that is wrong, add ", Option("encoding", "NAME")),)
    return Text(text.encode(), notes, "cp1252")  # which has all that Latin-1 has, but for its control characters


def _damaged(data: bytes) -> int | None:
    """Where UTF-8 with few faults is first at fault; None for bytes of which hardly any are UTF-8 characters.

    Characters of several bytes hardly ever come about by chance: as many of them as of faults make it UTF-8.
    """
    text = data.decode("utf-8", errors="surrogateescape")
    faults = len(re.findall(r"[\udc80-\udcff]", text))
    characters = len(re.findall(r"[^\x00-\x7f\udc80-\udcff]", text))
    if characters < faults:
        return None
    broken = re.search(r"[\udc80-\udcff]", text)
    return None if broken is None else len(text[: broken.start()].encode())
