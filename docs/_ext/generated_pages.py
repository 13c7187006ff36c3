"""Pages that are written at build time from what the repository holds: the gallery, the reference, the project's files.

What is not listed cannot be forgotten: every folder of ``results/``, every room of the package and every registered
name has its place without a line being added anywhere.
"""

import re
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

from PIL import Image

import concrete_score
from concrete_score import registry

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
TEMPLATES = DOCS / "_ext" / "templates"
RESULTS = ROOT / "results"
PROJECT = {
    "changelog": "CHANGELOG.md",
    "conduct": "CODE_OF_CONDUCT.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
}
THUMBNAIL = (720, 460)
_IMAGE = re.compile(r"\]\((?!\w+:)([\w.-]+\.png)\)")


def write(path: Path, text: str) -> None:
    """Write a page unless it is there already: an unchanged page is not read again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# --- the gallery


def results() -> dict[str, Path]:
    """The page of every result, by the result's name."""
    found: dict[str, Path] = {}
    for folder in sorted(RESULTS.iterdir()):
        pages = [folder / f"{folder.name}.md", folder / "README.md"]
        there = [page for page in pages if page.is_file()]
        if there:
            found[folder.name] = there[0]
    return found


def help_of(name: str) -> str:
    """One line on a result: what the command line says of its experiment."""
    known = registry.entries("experiments")
    others = {
        "report": "the page that every run leaves, on a desk and on a phone",
        "docs": "this site in a browser",
        "explore": "the explorer's page, and how long a click takes",
        "install": "what an installation holds, in packages and megabytes",
        "faults": "kills, races, damaged files and hostile runs, counted",
    }
    return known[name].help if name in known else others.get(name, "")


def gallery() -> None:
    """One page a result, and an index of those with a figure as cards, and of the others as a list."""
    cards, plain = [], []
    for name, page in results().items():
        text = _IMAGE.sub(rf"](../../results/{name}/\1)", page.read_text(encoding="utf-8"))
        write(DOCS / "gallery" / f"{name}.md", text)
        images = sorted(page.parent.glob("*.png"), key=lambda path: (path.stem != name, path.name))
        if images:
            thumbnail(images[0], DOCS / "gallery" / "thumbnails" / f"{name}.png")
            cards.append(card(name))
        else:
            plain.append(f"- [{name}]({name}.md): {help_of(name)}.")
    template = (TEMPLATES / "gallery.md").read_text(encoding="utf-8")
    pages = "\n".join(results())
    text = template.replace("CARDS", "\n".join(cards)).replace("PLAIN", "\n".join(plain)).replace("PAGES", pages)
    write(DOCS / "gallery" / "index.md", text)


def card(name: str) -> str:
    command = f"`csm reproduce {name}`" if name in registry.names("experiments") else ""
    return cleandoc(f"""
        :::{{grid-item-card}} {name}
        :link: {name}
        :link-type: doc
        :img-top: thumbnails/{name}.png
        :img-alt: {help_of(name) or name}

        {help_of(name)}

        {command}
        :::
        """)


def thumbnail(source: Path, target: Path) -> None:
    """The top of a figure, small enough for a card."""
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(source) as image:
        small = image.convert("RGB")
        width, height = THUMBNAIL
        small = small.crop((0, 0, small.width, min(small.height, small.width * height // width)))
        small.thumbnail(THUMBNAIL)
        small.quantize(128).save(target, optimize=True)


# --- the reference


def rooms() -> dict[str, bool]:
    """The public modules of the package, and whether each is a package of its own, which names what it offers."""
    modules = {room: import_module(f"concrete_score.{room}") for room in concrete_score._ROOMS}
    return {room: hasattr(module, "__path__") for room, module in modules.items()}


def reference() -> None:
    """One page a room, and one of the names that the package itself has."""
    top: list[str] = []
    for name, module in concrete_score._NAMES.items():
        kind = "autoclass" if isinstance(getattr(concrete_score, name), type) else "autofunction"
        top += [f".. {kind}:: concrete_score.{module}.{name}", ""]
    shown = {f"{module}.{name}" for name, module in concrete_score._NAMES.items()}
    lines = [f"- [{room}](api/{room}.md): {first_line(room)}" for room in rooms()]
    write(DOCS / "reference" / "api" / "concrete_score.md", page("concrete_score", top))
    for room, is_package in rooms().items():
        hidden = [path.rpartition(".")[2] for path in shown if path.startswith(f"{room}.")]
        options = ["   :members:"] + (["   :imported-members:"] if is_package else [])
        options += [f"   :exclude-members: {', '.join(hidden)}"] if hidden and not is_package else []
        text = page(room, [f".. automodule:: concrete_score.{room}", *options])
        write(DOCS / "reference" / "api" / f"{room}.md", text)
    template = (TEMPLATES / "api.md").read_text(encoding="utf-8")
    text = template.replace("ROOMS", "\n".join(lines)).replace("PAGES", "\n".join(rooms()))
    write(DOCS / "reference" / "api" / "index.md", text.replace("(api/", "("))


def first_line(room: str) -> str:
    doc = import_module(f"concrete_score.{room}").__doc__ or ""
    return re.sub(r"``([^`]+)``", r"`\1`", doc.strip().splitlines()[0])


def page(title: str, directives: list[str]) -> str:
    return "\n".join([f"# {title}", "", "```{eval-rst}", *directives, "```", ""])


def names() -> None:
    """Every registered name with its line, kind by kind: what ``csm list`` prints."""
    lines = [(TEMPLATES / "names.md").read_text(encoding="utf-8")]
    for kind, entries in registry.BUILT_IN.items():
        rows = [f"| `{name}` | {entry.help} | {entry.section} |" for name, entry in entries.items()]
        lines += [f"## {kind}", "", "| name | what it is | in the paper |", "|---|---|---|", *rows, ""]
    write(DOCS / "reference" / "names.md", "\n".join(lines))


# --- the project's own files


def project() -> None:
    """The changelog and the contributor's page, their links to ``docs/`` made links between pages."""
    for name, file in PROJECT.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](../").replace("](results/", "](../../results/")
        text = re.sub(r"\]\(([A-Z_]+\.md)", lambda match: f"]({'../../' + match[1]}", text)
        write(DOCS / "project" / f"{name}.md", text)


def generate(app: Any) -> None:
    for make in (gallery, reference, names, project):
        make()


def skip(app: Any, what: str, name: str, found: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for routing metadata."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
