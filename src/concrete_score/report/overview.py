"""The top of a report: what it is about, its largest numbers, and every verdict."""

from collections.abc import Sequence

from concrete_score.data import TableCodec
from concrete_score.report.html import Html, tag
from concrete_score.report.numbers import number
from concrete_score.report.parts import Section, sentences, stacked, tiles
from concrete_score.report.subject import Subject
from concrete_score.spaces import describe_count


def overview(sections: Sequence[Section]) -> Html:
    """Numbers, then one sentence for each thing that was looked at: first what needs a look, last what is not known."""
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    verdicts.sort(key=lambda verdict: (False, True, None).index(verdict.good))
    bad = sum(verdict.good is False for verdict in verdicts)
    words = "Nothing speaks against this model." if not bad else f"{bad} of {len(verdicts)} findings need a look."
    numbers = tiles([tile for section in sections for tile in section.tiles])
    return stacked(numbers, tag("h2", words, class_="verdict"), sentences(verdicts))


def headline(subject: Subject) -> Html:
    """Whose report this is."""
    recipe, held = subject.run.recipe, 0 if subject.held_out is None else len(subject.held_out)
    rows, columns = ("rows", "columns") if isinstance(subject.run.codec, TableCodec) else ("pictures", "pixels")
    facts = [
        f"model {recipe.model}",
        f"objective {recipe.objective}",
        *([f"edges {recipe.edges}"] if recipe.edges else []),
        *([f"neighborhood {recipe.neighborhood}"] if recipe.neighborhood else []),
        f"{number(len(subject.train))} {rows} of {number(subject.space.num_sites)} {columns}",
        f"{describe_count(subject.space.num_states)} states",
        f"{number(held)} {rows} held out",
    ]
    return tag(
        "header",
        tag("p", "concrete-score report", class_="eyebrow"),
        tag("h1", subject.run.path.resolve().name),
        tag("ul", [tag("li", fact) for fact in facts], class_="facts"),
    )
