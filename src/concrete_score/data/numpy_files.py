"""NumPy's ``.npy`` and ``.npz`` files, opened so that nothing is ever unpickled."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from concrete_score.errors import InputError

WHOLE = "check that the copy is whole and its ending is right"
"""What to do about a damaged file."""
_MAGIC = (b"\x93NUMPY", b"PK")


@contextmanager
def numpy_file(data: bytes, where: str, expected: str) -> Iterator[Any]:
    """The array of an ``.npy`` file, or the open archive of an ``.npz`` file.

    Args:
        data: the file's bytes.
        where: its name, for messages.
        expected: what it should be, in words.

    Raises:
        InputError: empty, damaged, or Python objects; also if an array of the archive turns out to be so.

    >>> page = io.BytesIO()
    >>> np.save(page, [[1, 2]])
    >>> with numpy_file(page.getvalue(), "x.npy", "a NumPy file") as array:
    ...     print(array)
    [[1 2]]
    """
    try:
        # Old headers make numpy warn; the array is checked anyway.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded: Any = np.load(io.BytesIO(data), allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                yield loaded
                return
            with loaded:
                yield loaded
    except InputError:
        raise
    # Damaged headers and archives fail in a dozen ways, all meaning the same.
    except Exception as error:
        came, fix = f"a damaged one ({reason(error)})", WHOLE
        if not data.startswith(_MAGIC):
            came = "other bytes" if data else "an empty file"
        elif "pickle" in str(error):
            came, fix = "Python objects, which are never loaded", "save an array of numbers or text"
        raise InputError(expected, came, where=where, fix=fix) from None


def reason(error: BaseException) -> str:
    """A library's message on one short line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:120]
