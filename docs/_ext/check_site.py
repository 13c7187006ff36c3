"""What Sphinx does not check of a built site: every link and anchor leads somewhere, and nothing comes from outside.

``python docs/_ext/check_site.py build/docs``
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
"""What a browser loads by itself, by tag and attribute."""
_LOADED = ("stylesheet", "icon", "preload", "preconnect", "prefetch", "manifest")
"""Relations of a link that a browser follows by itself."""
_STYLE_URL = re.compile(r"(?:@import\s+|url\()\s*['\"]?(?:https?:)?//", re.I)


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") in _LOADED:
            self.loaded.append(found.get("href", ""))
        if tag in _FETCHED and _FETCHED[tag] in found:
            self.loaded.append(found[_FETCHED[tag]])


def faults(site: Path) -> Iterator[str]:
    """One line for every link that leads nowhere and everything that would be fetched from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address}"
            elif urlsplit(address).path and not _target(path, address).exists():
                yield f"{name}: loads {address}, which is not there"
        for link in page.links:
            yield from (f"{name}: {fault}" for fault in _broken(path, link, pages))
    for style in sorted(site.rglob("*.css")):
        if _STYLE_URL.search(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: fetches from elsewhere"


def _broken(path: Path, link: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return
    target = _target(path, link) if parts.path else path
    if not target.exists():
        yield f"{link} leads nowhere"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        yield f"{link} leads to no anchor"


def _target(path: Path, address: str) -> Path:
    return (path.parent / unquote(urlsplit(address).path)).resolve()


def main(site: str) -> int:
    found = list(faults(Path(site).resolve()))
    for fault in found:
        print(fault)
    count = len(list(Path(site).rglob("*.html")))
    print(f"{count} pages, {len(found)} faults")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
