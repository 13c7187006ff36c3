"""Damaged files of every format: refused in one line, or read exactly as an independent strict reader reads them."""

import gzip
import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from concrete_score.data import formats
from concrete_score.errors import InputError
from concrete_score.files import read_bytes
from tests.faults import strict
from tests.faults.plan import Family, Fault

_PIECES = [b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"\t", b";", b"|", b" ", b"\0", b"\xff", b"\xef\xbb\xbf", b"''"]
_PIECES += [b">", b"@data\n", b"%", b"?", b"9" * 400, b"a,b\n", b'"5" x"', "é".encode(), b"\x93NUMPY", b"PK\x05\x06"]
_UTF8 = {"encoding": "utf-8"}
_CELLS = ["a", "b", "", "1", "2.5", "x y", 'q"t', "c,d", "l\nm", "é", "NA", "-"]


def fuzz(rng: random.Random, folder: Path, made: Any) -> str:
    """One damaged file."""
    name = rng.choice(sorted(_KINDS))
    make, check = _KINDS[name]
    data = make(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        data = mutated(rng, data)
    try:
        return f"{name} {check(data, folder)}"
    except InputError as error:
        if "\n" in str(error) or len(str(error)) > 4000:
            raise Fault(f"{name}: not one short line: {str(error)[:300]!r}") from None
        return f"{name} refused"
    except Fault as fault:
        raise Fault(f"{name}: {fault}; the file: {data[:400]!r}") from None
    except Exception as error:
        raise Fault(f"{name}: {type(error).__name__}: {error}; the file: {data[:400]!r}") from None


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes with one damage: flipped, cut, repeated, or with something put in."""
    at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    match rng.randrange(6):
        case 0 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[min(to, at + 40) :]
        case 3:
            return data[:to] + data[at : min(to, at + 200)] + data[to:]
        case 4:
            return data[:at] + rng.choice(_PIECES) + data[at:]
        case _:
            return data[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 4))) + data[at:]


def _text(separator: str, header: bool) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        import csv

        width, file = rng.randint(1, 4), io.StringIO()
        quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        writer = csv.writer(file, delimiter=separator, lineterminator=rng.choice(("\n", "\r\n")), quoting=quoting)
        if header:
            writer.writerow([f"c{d}" for d in range(width)])
        for _ in range(rng.randint(1, 8)):
            writer.writerow([rng.choice(_CELLS) for _ in range(width)])
        return file.getvalue().encode()

    return make


def _check_text(name: str, separator: str, header: str) -> Callable[[bytes, Path], str]:
    def check(data: bytes, folder: Path) -> str:
        options = {**_UTF8, "header": header, "separator": separator}
        frame = formats.read(formats.formats()[name], data, "f", options=options)
        if frame.notes:
            return "read with a note"  # lines before a table are passed over, and said
        found = frame.rows()
        try:
            rows = strict.text_rows(data, separator)
        except strict.Unreadable as error:
            raise Fault(f"read, though a strict reader refuses it: {error}") from None
        if found != (rows[1:] if header == "yes" else rows):
            raise Fault(f"{found} where a strict reader has {rows}")
        return "read"

    return check


def _arff(rng: random.Random) -> bytes:
    width = rng.randint(1, 3)
    names = "".join(f"@attribute a{d} {{x, y, 'z w'}}\n" for d in range(width))
    rows = "".join(",".join(rng.choice(("x", "y", "'z w'", "?")) for _ in range(width)) + "\n" for _ in range(5))
    return f"@relation r\n{names}@data\n% a remark\n{rows}".encode()


def _check_arff(data: bytes, folder: Path) -> str:
    found = len(formats.read(formats.arff, data, "f", options=_UTF8))
    try:
        if found != strict.arff_rows(data):
            raise Fault(f"{found} rows of {strict.arff_rows(data)}")
    except strict.Unreadable as error:
        raise Fault(f"read, though {error}") from None
    return "read"


def _some_array(rng: random.Random) -> np.ndarray:
    kind = rng.choice(("u1", "<i4", ">i2", "<f8", "<f4", "?", "<U3"))
    shape = rng.choice(((4, 3), (2, 2), (3, 2, 2), (5, 1)))
    values = np.array([rng.randrange(2) for _ in range(int(np.prod(shape)))]).reshape(shape)
    return values.astype(kind)


def _npy(rng: random.Random) -> bytes:
    file = io.BytesIO()
    np.save(file, _some_array(rng))
    return file.getvalue()


def _npz(rng: random.Random) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
        packed.writestr("x.npy", _npy(rng))
    return file.getvalue()


def _idx(rng: random.Random) -> bytes:
    shape = (rng.randint(1, 3), 2, 2)
    head = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in shape)
    return head + bytes(rng.randrange(256) for _ in range(int(np.prod(shape))))


def _check_array(name: str, reader: Callable[[bytes], np.ndarray]) -> Callable[[bytes, Path], str]:
    def check(data: bytes, folder: Path) -> str:
        found = formats.read(formats.formats()[name], data, "f")
        cells = found.pixels if hasattr(found, "pixels") else None
        try:
            wanted = reader(data)
        except strict.Unreadable as error:
            raise Fault(f"read, though a strict reader refuses it: {error}") from None
        if cells is None:
            rows = [["" if cell is None else cell for cell in row] for row in found.rows()]
            cells = np.array(rows, dtype=wanted.dtype if wanted.dtype.kind != "f" else object)
            cells = np.where(cells == "", np.nan, cells).astype(float) if wanted.dtype.kind == "f" else cells
        if not strict.same(cells, wanted):
            raise Fault(f"{cells} where a strict reader has {wanted}")
        return "read"

    return check


def _parquet(rng: random.Random) -> bytes:
    import polars as pl

    count, file = rng.randint(1, 30), io.BytesIO()
    table = pl.DataFrame({"a": rng.choices(range(5), k=count), "b": rng.choices(_CELLS, k=count)})
    table.write_parquet(file, compression=rng.choice(("uncompressed", "snappy", "zstd")))
    return file.getvalue()


def _check_parquet(data: bytes, folder: Path) -> str:
    import pyarrow.parquet as pq

    found = len(formats.read(formats.parquet, data, "f"))
    try:
        stated = pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
    except Exception:
        return "read alone"  # what the other reader minds in a footer need not concern the cells
    if found != stated:
        raise Fault(f"{found} rows of {stated}")
    return "read"


def _fasta(rng: random.Random) -> bytes:
    letters = ("".join(rng.choices("ACGTacgt-.", k=7)) for _ in range(rng.randint(1, 5)))
    return "".join(f">s{n} k={n}\n{each}\n" for n, each in enumerate(letters)).encode()


def _check_fasta(data: bytes, folder: Path) -> str:
    found = formats.read(formats.fasta, data, "f")
    if found.notes if hasattr(found, "notes") else False:
        return "read in another encoding"
    try:
        data.decode()
        wanted = strict.fasta(data.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError:
        return "read in another encoding"
    except strict.Unreadable as error:
        raise Fault(f"read, though {error}") from None
    if list(found.texts) != [text.upper().replace(".", "-").removesuffix("*") for text in wanted]:
        raise Fault(f"{found.texts} where a strict reader has {wanted}")
    return "read"


def _a2m(rng: random.Random) -> bytes:
    return "".join(f">s{n}\n{''.join(rng.choices('ACGT-', k=6))}\n" for n in range(rng.randint(1, 5))).encode()


def _check_a2m(data: bytes, folder: Path) -> str:
    found = formats.read(formats.a2m, data, "f")
    texts = (data.decode("latin-1"), data.decode("utf-8", "replace").removeprefix("\ufeff"))
    counts = [sum(line.strip().startswith(">") for line in text.splitlines()) for text in texts]
    if len(found.texts) not in counts:
        raise Fault(f"{len(found.texts)} sequences of {counts[1]} names")
    return "read"


def _lines(rng: random.Random) -> bytes:
    return "".join(rng.choice(("to be\n", "or not\n", "é\n", "\n", "x" * 50 + "\n")) for _ in range(6)).encode()


def _check_lines(data: bytes, folder: Path) -> str:
    found = formats.read(formats.text, data, "f")
    try:
        wanted = data.decode().removeprefix("\ufeff").splitlines()
    except UnicodeDecodeError:
        return "read in another encoding"
    if b"\0" not in data and [line for line in found.texts if line] != [line for line in wanted if line]:
        raise Fault(f"{found.texts} where there is {wanted}")
    return "read"


def _gz(rng: random.Random) -> bytes:
    return gzip.compress(_text(",", True)(rng), mtime=0)


def _check_gz(data: bytes, folder: Path) -> str:
    path = folder / "t.csv.gz"
    path.write_bytes(data)
    found = read_bytes(path)
    try:
        if found != strict.unpacked(data):
            raise Fault("other content")
    except strict.Unreadable as error:
        raise Fault(f"read, though {error}") from None
    return "read"


_KINDS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes, Path], str]]] = {
    "csv": (_text(",", True), _check_text("csv", ",", "yes")),
    "tsv": (_text("\t", True), _check_text("tsv", "\t", "yes")),
    "data": (_text(",", False), _check_text("data", ",", "no")),
    "bars": (_text("|", True), _check_text("csv", "|", "yes")),
    "arff": (_arff, _check_arff),
    "npy": (_npy, _check_array("npy", strict.array)),
    "npz": (_npz, _check_array("npz", strict.archive)),
    "idx": (_idx, _check_array("idx", strict.idx)),
    "parquet": (_parquet, _check_parquet),
    "fasta": (_fasta, _check_fasta),
    "a2m": (_a2m, _check_a2m),
    "text": (_lines, _check_lines),
    "gzip": (_gz, _check_gz),
}

FAMILIES = (Family("fuzzed-files", fuzz, 1500, 100_000, 2500),)
