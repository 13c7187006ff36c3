"""Tables in parts: a large file, several of the same columns, or batches from Python, gone through as often as needed.

A `Stream` holds no rows. Each pass over it gives `Frame`s of bounded size, in the order of the files and of their rows,
each of which knows the number of its first row. Files are looked at before and after every part: one that changes
meanwhile is refused, for its rows would no longer be those of the pass before.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from concrete_score.data.formats import STDIN, Format, Say, check_options, format_of
from concrete_score.data.frame import Form, Frame, as_frame
from concrete_score.errors import InputError, Option
from concrete_score.files import memory_limit

Update = Callable[[int, int, str], None]
"""``update(done, total, text)``: bytes read, of how many, and that with the rows in words."""


@dataclass(frozen=True, eq=False)
class Source:
    """One file, or one iterable of batches, of a stream.

    Args:
        where: what to call it in messages.
        parts: starts a pass: frames, and how many bytes were read for each and those before it.
        size: bytes in all; 0 where that is not known.
        path: the file, if it is one.
        stamp: what its size and time of change were when it was first looked at.
        keeps: what must live as long as the source does, such as a temporary folder.
    """

    where: str
    parts: Callable[[], Iterator[tuple[Frame, int]]]
    size: int = 0
    path: Path | None = None
    stamp: tuple[int, ...] = ()
    keeps: Any = None

    def check(self) -> None:
        """Refuse a file that is no longer what it was."""
        if self.path is not None and _stamp(self.path) != self.stamp:
            fix = "begin again when nothing writes it"
            raise InputError("the file as it was when it was first read", "one that changed since", self.where, fix)

    @property
    def identity(self) -> list[Any]:
        """What tells it from other files without reading it, as plain values."""
        return [str(self.path.absolute()) if self.path is not None else self.where, *self.stamp]


@dataclass(frozen=True, eq=False)
class Stream:
    """A table that is never in memory as a whole.

    Args:
        sources: in the order of their rows, at least one.
        where: what to call all of it in messages.
        say: receives what was noticed about the files.

    >>> batches = [pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [3]})]
    >>> stream = stream_batches(batches)
    >>> [(frame.first, frame.rows()) for frame in stream]
    [(0, [(1,), (2,)]), (2, [(3,)])]
    >>> len(list(stream))
    2
    """

    sources: tuple[Source, ...]
    where: str
    say: Say = field(default=lambda message: None)
    _said: list[Any] = field(default_factory=list, repr=False)
    """Notes that were said, by whichever pass came to them first."""
    kind: ClassVar[str] = "table"

    def __iter__(self) -> Iterator[Frame]:
        return self.parts()

    def parts(self, update: Update = lambda done, total, text: None) -> Iterator[Frame]:
        """One pass over all rows; ``update`` is told how far it is, and what is noticed about the files is said once.

        The parts are called what the stream is, for their rows are numbered through all files.

        Raises:
            InputError: no rows at all, or a file that changed, cannot be read, or has other columns or types than the
                first.
        """
        schema: Mapping[str, Any] | None = None
        total, before, rows = self.size, 0, 0
        for source in self.sources:
            source.check()
            for frame, read in source.parts():
                source.check()
                if schema is None:
                    schema = frame.table.schema
                part = _alike(frame, schema, source.where, self.sources[0].where)
                self._say(frame.notes, source.where)
                yield replace(part, first=rows, where=self.where, notes=())
                rows += len(part)
                done = before + read
                update(done, total, f"{rows:,} rows, {_bytes(done)} of {_bytes(total)}" if total else f"{rows:,} rows")
            before += source.size
        if not rows:
            raise InputError("a table with rows", "none", where=self.where)

    def _say(self, notes: Iterable[Any], where: str) -> None:
        for note in notes:
            if note not in self._said:
                self._said.append(note)
                self.say((f"note: {where}: ", *note))

    @property
    def size(self) -> int:
        """Bytes of all sources."""
        return sum(source.size for source in self.sources)

    @property
    def identity(self) -> list[Any]:
        """What tells its files from others, as plain values."""
        return [source.identity for source in self.sources]

    def head(self) -> Frame:
        """The first part, by which columns and types of all others are held."""
        return next(self.parts())

    def whole(self) -> Frame:
        """All rows as one table in memory."""
        return Frame.join(self.parts())


def stream_files(
    paths: Sequence[str | Path], options: Mapping[str, Any] | None = None, say: Say = lambda message: None
) -> Stream:
    """The rows of one file or several, one after the other; a folder stands for the files in it, by name.

    Args:
        paths: files of formats that can be read in parts (`Format.stream`), or folders.
        options: how to read them, by the names in `formats.READING`.
        say: receives what is noticed about them.

    Raises:
        InputError: no such file, or one of another format.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for k in range(2):
    ...         _ = Path(folder, f"{k}.csv").write_text(f"a,b\\n{k},x\\n")
    ...     stream_files([folder]).whole().rows()
    [('0', 'x'), ('1', 'x')]
    """
    files = [file for path in paths for file in _files_in(Path(path))]
    sources = tuple(_source(file, options) for file in files)
    where = sources[0].where if len(sources) == 1 else f"{sources[0].where} and {len(sources) - 1} more files"
    return Stream(sources, where, say)


def stream_batches(batches: Iterable[Any], where: str = "data") -> Stream:
    """Data frames, arrays or the like, one after the other, as one table.

    What can be gone through only once, such as a generator, is written to a temporary file as it comes, for learning
    takes more than one pass.

    Raises:
        InputError: no batch at all, or something that is no table.
    """
    if isinstance(batches, Iterator):
        return _spooled(batches, where)

    def parts() -> Iterator[tuple[Frame, int]]:
        for frame in _frames(batches, where):
            yield frame, 0

    return Stream((Source(where, parts),), where)


def estimated_memory(stream: Stream) -> int:
    """About how many bytes the files of a stream take as one table in memory."""
    total = 0
    for source in stream.sources:
        if source.path is not None:
            chosen = format_of(source.path, plain=False)
            total += source.size if chosen.memory is None else chosen.memory(source.path)
    return total


def is_large(stream: Stream) -> bool:
    """Whether a table is to stay on the disk: in memory it would take more than one file may (`files.memory_limit`)."""
    return estimated_memory(stream) > memory_limit()


IN_MEMORY = 2**26
"""About how many bytes a table may take in memory to be read at once where parts of it would do."""
PACKED = 1024
"""How many times smaller than its content a packed file is at most: one of fewer bytes than this share of the limit is
read at once without a look at what it would take in memory."""


def stream_if_large(
    paths: Sequence[str | Path],
    options: Mapping[str, Any] | None = None,
    say: Say = lambda message: None,
    most: int | None = None,
) -> Stream | None:
    """A table for which each row is looked at once and by itself, in parts; None where it is better read at once.

    That is so for a file that takes at most ``most`` bytes, `IN_MEMORY` by default, one of a format that is read as a
    whole, a pipe, and the name of a data set.
    """
    alone = len(paths) == 1 and not Path(paths[0]).is_dir()
    if alone and (str(paths[0]) == STDIN or not _streamable(Path(paths[0]))):
        return None
    stream = stream_files(paths, options, say)
    limit = IN_MEMORY if most is None else most
    return stream if len(stream.sources) > 1 or estimated_memory(stream) > limit else None


def find_stream(
    paths: Sequence[str | Path], options: Mapping[str, Any], say: Say, wanted: bool | None = None
) -> Stream | Frame | None:
    """Files as a stream where that is wanted, or not said and they are large; several small ones as one table.

    Args:
        paths: of one or more files, or folders.
        options: how to read them.
        say: receives what is noticed.
        wanted: whether they are to be streamed; None for large ones.

    Returns:
        None for one file that is to be read as a whole.
    """
    alone = len(paths) == 1 and not Path(paths[0]).is_dir()
    if alone and (wanted is False or (wanted is None and not _may_be_large(Path(paths[0])))):
        return None
    stream = stream_files(paths, options, say)
    large = is_large(stream) if wanted is None else wanted
    if large and wanted is None:
        size = estimated_memory(stream) / 2**30
        say(f"{stream.where}: about {size:.1f} GiB as a table in memory, so that it stays on the disk")
    return stream if large else None if alone else stream.whole()


def _may_be_large(path: Path) -> bool:
    return _streamable(path) and path.stat().st_size > memory_limit() // PACKED


def _streamable(path: Path) -> bool:
    """Whether a file can be read in parts, and more than once."""
    packed = path.suffix.lower() == ".gz"
    return (
        path.is_file()
        and (chosen := format_of(path, plain=False)).stream is not None
        and not (packed and chosen.name == "parquet")
    )


def is_batches(data: Any) -> bool:
    """Whether a Python object is an iterable of tables, rather than one.

    >>> is_batches(iter([])), is_batches([pl.DataFrame({"a": [1]})]), is_batches([[0, 1]]), is_batches("a.csv")
    (True, True, False, False)
    """
    if isinstance(data, Iterator):
        return True
    first = data[0] if isinstance(data, list | tuple) and data else None
    return hasattr(first, "columns") or getattr(first, "ndim", 0) == 2 or isinstance(first, Frame)


def _files_in(path: Path) -> list[Path]:
    if str(path) == STDIN:
        fix = "save it to a file first"
        raise InputError("files, to be read more than once", "standard input", Option("data"), fix)
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith((".", "_")))
    if not found:
        raise InputError("a folder with files", "an empty one", str(path))
    return found


def _source(path: Path, options: Mapping[str, Any] | None) -> Source:
    where = str(path)
    try:
        stamp = _stamp(path)
    except (OSError, ValueError):
        raise InputError("an existing file", "none", where=where, fix="check the path") from None
    if not path.is_file():
        fix = "save it to a file first"
        raise InputError("a file, to be read more than once", "a pipe or a device", where, fix)
    chosen: Format = format_of(path, plain=False)
    given = check_options(chosen, options, where)
    if chosen.stream is None:
        fix = "give the whole of it as one file, or save it as Parquet"
        raise InputError("a format that can be read in parts", chosen.name, where, fix)
    return Source(where, partial(chosen.stream, path, where, **given), stamp[0], path, stamp)


def _stamp(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _frames(batches: Iterable[Any], where: str) -> Iterator[Frame]:
    some = False
    for number, batch in enumerate(batches):
        some = True
        yield as_frame(batch, f"{where}: batch {number}")
    if not some:
        raise InputError("at least one batch of rows", "none", where=where)


def _spooled(batches: Iterator[Any], where: str) -> Stream:
    """What comes only once, in a temporary folder that goes with the stream."""
    folder = _TemporaryFolder()
    sources: list[Source] = []
    for number, frame in enumerate(_frames(batches, where)):
        path = folder.path / f"{number:08d}.arrow"
        frame.table.write_ipc(path)
        parts = partial(_read_spooled, path, frame.form, frame.where, frame.named)
        sources.append(Source(frame.where, parts, path.stat().st_size, keeps=folder))
    return Stream(tuple(sources), where)


class _TemporaryFolder:
    """A folder that is removed with the last source that keeps it, or when the program ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="concrete-score-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _read_spooled(path: Path, form: Form, where: str, named: bool) -> Iterator[tuple[Frame, int]]:
    yield Frame(pl.read_ipc(path), form, where, named), path.stat().st_size


def _alike(frame: Frame, schema: Mapping[str, Any], where: str, first: str) -> Frame:
    """A part with the columns of the first one, in its order.

    Raises:
        InputError: another column, or another type; file and column are named.
    """
    here: Mapping[str, Any] = frame.table.schema
    if here == schema:
        return frame
    fix = "give files of the same columns and types"
    for name in schema:
        if name not in here:
            raise InputError(f"the columns of {first}", f"none named {name!r}", where, fix)
    for name, kind in here.items():
        if name not in schema:
            raise InputError(f"the columns of {first}", f"one more, {name!r}", where, fix)
        if kind != schema[name] and kind != pl.Null:
            expected = f"{schema[name]} as in {first}"
            raise InputError(expected, str(kind), f"{where}: column {name!r}", fix)
    return replace(frame, table=frame.table.select(pl.col(name).cast(kind) for name, kind in schema.items()))


def _bytes(count: int) -> str:
    """A number of bytes in words.

    >>> _bytes(1_500), _bytes(2_340_000_000)
    ('0.0 MB', '2.34 GB')
    """
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
