"""``report.html``: one file that needs nothing else, and in which nothing that comes from data is ever markup."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from concrete_score import __version__
from concrete_score.files import write_text
from concrete_score.report.html import Html, shortened, tag
from concrete_score.report.overview import headline, overview
from concrete_score.report.parts import MakeSection, Section, stacked
from concrete_score.report.sections import SECTIONS
from concrete_score.report.subject import Subject
from concrete_score.runs import REPORT, Run

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may load or run for this page: nothing, but its own styles and pictures."""


@torch.no_grad()
def write_report(
    run: Run,
    train: Tensor,
    held_out: Tensor | None = None,
    *,
    device: str | torch.device = "cpu",
    sections: Sequence[MakeSection] | None = None,
) -> Path:
    """Write ``report.html`` into a run's directory, whole or not at all; the same run and rows give the same file.

    Args:
        run: with its best model.
        train: the rows it learned from ``(N, D)``.
        held_out: rows it did not learn from ``(M, D)``.
        device: where to compute.
        sections: functions from a `Subject` to a `Section`, in their order; by default those of the codec's kind.

    Raises:
        InputError: the run has no model yet, or rows of another space.
    """
    path = run.path / REPORT
    write_text(path, render(Subject.of(run, train, held_out, device), sections))
    return path


def render(subject: Subject, sections: Sequence[MakeSection] | None = None) -> str:
    """The page."""
    sections = SECTIONS[subject.run.codec.kind] if sections is None else sections
    made = [section for make in sections if (section := make(subject)) is not None]
    body = stacked(
        tag("a", "Skip to the report", href="#report", class_="skip"),
        headline(subject),
        tag("main", overview(made), _links(made), map(_section, made), id="report"),
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


def _links(sections: Sequence[Section]) -> Html:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ul", links), aria_label="Sections")


def _section(section: Section) -> Html:
    return tag("section", tag("h2", section.title), section.body, id=section.anchor)


def _footer(subject: Subject) -> Html:
    info = subject.run.info
    facts = [shortened(str(info[name]), 40) for name in ("id", "created", "seed")]
    words = f"Run {facts[0]}, begun {facts[1]}, seed {facts[2]}. Written by concrete-score {__version__}."
    return tag("footer", tag("p", words))
