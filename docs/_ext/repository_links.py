"""Links between files of the repository, which readers of the repository follow, made links between pages of the site.

A page in ``docs/`` may name ``../results/figure1/figure1.md`` or ``../CHANGELOG.md``: both are pages of the site too,
under other names.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
_LINK = re.compile(r"(\]\()((?:\.\./)+)(results(?:/[\w/.]*)?|[A-Z_]+\.md)((?:#[\w-]+)?\))")


def page_of(path: str) -> str | None:
    """The page of the site, from ``docs/``, that shows a file of the repository.

    >>> page_of("results/figure1/figure1.md"), page_of("results"), page_of("LICENSE.md")
    ('gallery/figure1.md', 'gallery/index.md', None)
    """
    parts = path.strip("/").split("/")
    if parts[0] != "results":
        return PROJECT.get(path)
    return f"gallery/{parts[1]}.md" if len(parts) > 1 else "gallery/index.md"


def rewrite(text: str, depth: int) -> str:
    """Markdown of a page ``depth`` folders below ``docs/``, its links to the repository's files made links to pages.

    >>> rewrite("[figure 1](../results/figure1/figure1.md)", 0)
    '[figure 1](gallery/figure1.md)'
    >>> rewrite("[changes](../../CHANGELOG.md#added)", 1)
    '[changes](../project/changelog.md#added)'
    """

    def page(match: re.Match[str]) -> str:
        found = page_of(match[3])
        leaves = match[2].count("../") == depth + 1
        return f"{match[1]}{'../' * depth}{found}{match[4]}" if found and leaves else match[0]

    return _LINK.sub(page, text)


def on_source(app: Any, name: str, source: list[str]) -> None:
    source[0] = rewrite(source[0], name.count("/"))


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", on_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
