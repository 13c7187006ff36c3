"""``report.html``: one file that needs nothing else, and in which nothing that comes from data is ever markup."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor, nn

from concrete_score import __version__
from concrete_score.files import write_text
from concrete_score.progress import Update
from concrete_score.report.draws import dependence_section, marginals_section
from concrete_score.report.examples import examples_section
from concrete_score.report.health import leak_section, sampler_section
from concrete_score.report.history import configuration_section, grids_section, training_section
from concrete_score.report.html import (
    Html,
    MakeSection,
    Section,
    finding_list,
    number,
    shortened,
    stacked,
    tag,
    tile_list,
)
from concrete_score.report.likelihood import likelihood_section
from concrete_score.report.resemblance import resemblance_section
from concrete_score.report.subject import Subject
from concrete_score.runs import REPORT, Run
from concrete_score.spaces import describe_count
from concrete_score.training.examples import Examples

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may load or run for this page: nothing, but its own styles and images."""

SECTIONS: tuple[MakeSection, ...] = (
    likelihood_section,
    training_section,
    marginals_section,
    dependence_section,
    resemblance_section,
    examples_section,
    sampler_section,
    leak_section,
    configuration_section,
)
"""In their order: each a function from a `Subject` to a `Section`."""
GRID_SECTIONS: tuple[MakeSection, ...] = (grids_section, training_section, configuration_section)
"""Those of data that are looked at side by side."""


@torch.no_grad()
def write_report(
    run: Run,
    train: Tensor | Examples,
    held_out: Tensor | Examples | None = None,
    *,
    model: nn.Module | None = None,
    device: str | torch.device = "cpu",
    sections: Sequence[MakeSection] | None = None,
    update: Update | None = None,
) -> Path:
    """Write ``report.html`` into a run's directory, whole or not at all; the same run and rows give the same file.

    Args:
        run: with its best model.
        train: the rows it learned from ``(N, D)``; with blanks, `Examples`.
        held_out: rows it did not learn from ``(M, D)``, likewise.
        model: the run's best one where it is built already; it is copied. By default it is read from the run.
        device: where to compute.
        sections: functions from a `Subject` to a `Section`, in their order; by default those of the codec's kind.
        update: receives progress.

    Raises:
        InputError: the run has no model yet, or rows of another space.
    """
    path = run.path / REPORT
    write_text(path, render(Subject.of(run, train, held_out, device, model), sections, update))
    return path


def render(subject: Subject, sections: Sequence[MakeSection] | None = None, update: Update | None = None) -> str:
    """The page as text; without ``sections`` it has those of the subject's kind of data."""
    sections = sections or (GRID_SECTIONS if subject.codec.has_grid else SECTIONS)
    made = []
    for done, make in enumerate(sections):
        if update is not None:
            update(done, len(sections), f"writing the report: {make.__name__.removesuffix('_section')}")
        if (section := make(subject)) is not None:
            made.append(section)
    body = stacked(
        tag("a", "Skip to the report", href="#report", class_="skip"),
        _headline(subject),
        tag("main", _overview(made), _links(made), map(_section, made), id="report"),
        _footer(subject),
    )
    return f"<!doctype html>\n{tag('html', _head(subject), tag('body', body), lang='en')}\n"


def _head(subject: Subject) -> Html:
    style = files("concrete_score.report").joinpath("style.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{subject.run.path.resolve().name} · concrete-score report"),
        # The style sheet is our own file, and nothing of a run is ever put into it.
        tag("style", Html(style)),
    )


def _overview(sections: Sequence[Section]) -> Html:
    """Large numbers, then every finding: first those that need a look, last those that are not known."""
    findings = [finding for section in sections for finding in section.findings]
    findings.sort(key=lambda finding: (False, True, None).index(finding.good))
    bad = sum(finding.good is False for finding in findings)
    verdict = "Nothing speaks against this model." if not bad else f"{bad} of {len(findings)} findings need a look."
    numbers = tile_list([tile for section in sections for tile in section.tiles])
    return stacked(numbers, tag("h2", verdict, class_="verdict"), finding_list(findings))


def _headline(subject: Subject) -> Html:
    """The run's name, what was trained, and how much data there was."""
    recipe, held = subject.run.recipe, 0 if subject.held_out is None else len(subject.held_out)
    rows, columns = subject.codec.noun, subject.codec.site_noun
    facts = [
        f"model {recipe.model}",
        f"objective {recipe.objective}",
        *([f"edges {recipe.edges}"] if recipe.edges else []),
        *([f"neighborhood {recipe.neighborhood}"] if recipe.neighborhood else []),
        f"{number(subject.rows or len(subject.train))} {rows} of {number(subject.space.num_sites)} {columns}",
        f"{describe_count(subject.space.num_states)} states",
        f"{number(held)} {rows} held out",
        *([f"{number(subject.blanks)} blank cells, filled here by draws of the model"] if subject.blanks else []),
    ]
    return tag(
        "header",
        tag("p", "concrete-score report", class_="eyebrow"),
        tag("h1", subject.run.path.resolve().name),
        tag("ul", [tag("li", fact) for fact in facts], class_="facts"),
    )


def _links(sections: Sequence[Section]) -> Html:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ul", links), aria_label="Sections")


def _section(section: Section) -> Html:
    return tag("section", tag("h2", section.title), section.body, id=section.anchor)


def _footer(subject: Subject) -> Html:
    info = subject.run.info
    facts = [shortened(str(info[name]), 40) for name in ("id", "created", "seed")]
    line = f"Run {facts[0]}, begun {facts[1]}, seed {facts[2]}. Written by concrete-score {__version__}."
    return tag("footer", tag("p", line))
