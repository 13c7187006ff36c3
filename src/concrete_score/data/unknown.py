"""Values never seen in training, named with their row and column."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from concrete_score.data.frame import Array, Frame
from concrete_score.data.sites import Site
from concrete_score.errors import InputError

_SHOWN = 5


def refuse_unknown(frame: Frame, sites: Sequence[Site], strange: Mapping[int, Array], na: Sequence[str]) -> NoReturn:
    """Refuse unknown values: the first by row and column, then how many more there are.

    Args:
        strange: for each site at fault, which rows ``(N,)``.
    """
    row, d = min((int(mask.argmax()), d) for d, mask in strange.items())
    value = frame.columns[d].take(strange[d].nonzero()[0][:1]).cells()[0]
    cells = sum(int(mask.sum()) for mask in strange.values())
    columns = ", ".join(repr(sites[d].name) for d in list(strange)[:_SHOWN])
    more = f" ({cells} such cells, in {columns}{' and more' if len(strange) > _SHOWN else ''})" if cells > 1 else ""
    labels = sites[d].labels
    known = ", ".join(labels[:_SHOWN]) + (f", … ({len(labels)} values)" if len(labels) > _SHOWN else "")
    raise InputError(
        f"a value seen in training ({known})",
        f"{value!r}{more}",
        where=f"{frame.where}: row {row}, column {sites[d].name!r}",
        fix="mend it, or add --unknown skip",
    )
