"""Output that comes in pieces, as that of ``%%bash`` does, joined before MyST-NB ends each piece with a new line."""

from typing import Any

import myst_nb.core.render as render

_merge = render.coalesce_streams


def join(outputs: list[Any]) -> list[Any]:
    """The same outputs, pieces of one stream that follow each other made one.

    >>> piece = {"output_type": "stream", "name": "stdout"}
    >>> [each["text"] for each in join([{**piece, "text": "a,b"}, {**piece, "text": ",c"}])]
    ['a,b,c']
    """
    found: list[Any] = []
    for output in outputs:
        last = found[-1] if found else {"output_type": ""}
        if output["output_type"] == last["output_type"] == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            found.append(output)
    return found


def setup(app: Any) -> dict[str, Any]:
    render.coalesce_streams = lambda outputs: _merge(join(outputs))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
