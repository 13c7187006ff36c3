"""Markup that cannot be broken into: every text is escaped, here and nowhere else."""

import re
from collections.abc import Iterable
from html import escape

from concrete_score.errors import printable

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_VOID = frozenset({"meta", "br", "img"})


class Html(str):
    """Text that is markup already. Only `tag` and `join` make it; joined with plain text it is plain text again."""

    __slots__ = ()


def text(value: object) -> Html:
    r"""Anything as text: control characters shown, not obeyed, and nothing left that could be markup.

    >>> text("<b>\x1b'")
    '&lt;b&gt;\\x1b&#x27;'
    """
    return value if isinstance(value, Html) else Html(escape(printable(str(value)), quote=True))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; children and values of attributes are escaped unless they are markup.

    Args:
        name: of the element.
        children: texts, markup, or collections of them; None is left out.
        attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False are left out.

    >>> tag("p", "1 < 2", tag("b", "!"), class_="a\\"b")
    '<p class="a&quot;b">1 &lt; 2<b>!</b></p>'
    """
    words = [_name(name)]
    for key, value in attributes.items():
        if value is not None and value is not False:
            words.append(f'{_name(key.rstrip("_").replace("_", "-"))}="{text("" if value is True else value)}"')
    opened = f"<{' '.join(words)}>"
    return Html(opened if name in _VOID else f"{opened}{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Texts and markup, and collections of them, one after the other.

    >>> join(["a & b", [tag("i", "c")], None])
    'a &amp; b<i>c</i>'
    """
    return Html("".join(_flat(parts)))


def shortened(value: str, most: int) -> str:
    """The beginning of a text that is too long.

    >>> shortened("dyspnoea", 5)
    'dysp…'
    """
    return value if len(value) <= most else value[: most - 1] + "…"


def _flat(parts: Iterable[object]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield text(part)
        elif isinstance(part, Iterable):
            yield join(part)
        elif part is not None:
            yield text(part)


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"no name of an element or attribute: {name!r}")
    return name
