"""Rows drawn from the model beside the data as ``csm compare`` sees them: shapes, trends, and a classifier's word."""

from torch import Tensor

from concrete_score.comparison.compare import Comparison, compare
from concrete_score.comparison.findings import percent
from concrete_score.errors import PYTHON, InputError, spell
from concrete_score.report.html import (
    Finding,
    Html,
    Section,
    finding_list,
    missing,
    named,
    number,
    paragraph,
    shortened,
    side_by_side,
    stacked,
    table,
)
from concrete_score.report.subject import Missing, Subject, most_telling

ROWS, CELLS = 4_000, 60_000
"""Rows of each table that are compared at most, and cells, so that this takes a second or two."""
COLUMNS = 40
"""Columns that are compared at most."""
LISTED, NAME = 12, 40
"""Lines of each table, and characters of a column's name."""
TITLE = "Comparison"


def resemblance_section(subject: Subject) -> Section:
    """Training rows beside draws by column and pair; held-out rows beside draws by a classifier."""
    drawn = subject.draws
    if isinstance(drawn, Missing):
        return missing(TITLE, drawn.why)
    try:
        alike = _compared(subject, subject.train, drawn.states, "resemblance")
        told = _compared(subject, subject.judged, drawn.states, "two_sample")
    except InputError as refusal:
        return missing(TITLE, f"The draws could not be compared with the data: {refusal}.")
    left = len(subject.names) - len(alike.tables.columns)
    lead = paragraph(
        f"How much columns and pairs of columns differ between {number(alike.tables.rows[0])} training rows and as many"
        f" drawn from the model, as SDMetrics measures it, and whether a classifier tells draws from"
        f" {subject.judged_name}. The compare command does the same with any two tables, and sees more.",
        kind="lead",
    )
    notes = [paragraph(f"{number(left)} columns are left out to keep this short.", kind="note")] if left else []
    if any(subject.codec.log_sizes(site) is not None for site in range(len(subject.names))):
        notes.append(paragraph("Numbers are drawn anew inside their ranges in all of these tables.", kind="note"))
    findings = [
        Finding(None if each.flagged is None else not each.flagged, spell(each.text, PYTHON, bare=True) or "")
        for part in (alike, told)
        for each in part.findings
    ]
    judged = tuple(finding for finding in findings if finding.good is not None)
    body = stacked(lead, side_by_side(_worst(alike), finding_list(findings)), notes)
    return Section(TITLE, body, judged)


def _compared(subject: Subject, real: Tensor, drawn: Tensor, part: str) -> Comparison:
    """One part of a comparison of some rows with some draws, in the data's own values."""
    most = max(200, min(ROWS, CELLS // subject.space.num_sites))
    rows = subject.some(real, most, f"compared {part}")
    generator, seed = subject.generator(f"values {part}"), subject.run.settings.seed
    frames = [subject.codec.decode(states, generator) for states in (rows, drawn[:most].long())]
    # Where there are too many columns, those of most values.
    shown = [subject.names[site] for site in most_telling(subject.space.sizes, COLUMNS)]
    short = [shortened(name, NAME) for name in shown]
    labels = [name if short.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(short)]
    one, other = (frame.table.select(shown).rename(dict(zip(shown, labels, strict=True))) for frame in frames)
    return compare(one, other, parts=[part], seed=seed)


def _worst(found: Comparison) -> Html:
    """The columns and the pairs that differ most."""
    values = found.values()
    columns = sorted(values["shape"]["columns"], key=lambda each: each["score"])[:LISTED]
    pairs = sorted(values["trend"]["of_pairs"], key=lambda each: each["score"])[:LISTED]
    shapes = [(named(each["name"]), percent(1 - each["score"])) for each in columns]
    trends = [(named(" with ".join(each["columns"])), percent(1 - each["score"])) for each in pairs]
    return stacked(
        table(["column", "shape error"], shapes, numbers=(1,), label="Shapes"),
        table(["columns", "trend error"], trends, numbers=(1,), label="Trends"),
    )
