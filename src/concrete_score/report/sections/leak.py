"""Whether the model hides probability where neither data nor their neighbors are."""

from concrete_score.report.html import tag
from concrete_score.report.leak import BLIND
from concrete_score.report.numbers import percent, significant
from concrete_score.report.parts import Section, Verdict, bar_pair, legend, missing, paragraph, stacked, table
from concrete_score.report.subject import Missing, Subject


def leak_section(subject: Subject) -> Section:
    """Draws and held-out rows that are neither a known row nor one change away."""
    title = "Mass leak"
    health = subject.health
    if isinstance(health, Missing):
        return missing(title, health.why)
    found = health.leak
    if found is None:
        why = next((note for note in health.notes if note.startswith("Mass leak")), "Mass leak was not looked at.")
        section = missing(title, why)
        return Section(title, section.body, (Verdict(None, why),))
    lead = paragraph(
        "The share of the model's draws that are neither a training row nor one change away from one, beside the same"
        " share of unseen rows. A sound model wanders off as often as fresh data do, and no more.",
        kind="lead",
    )
    most = max(found.model, found.held_out, 0.05)
    bars = tag("div", bar_pair(found.held_out, found.model, most), class_="wide")
    rows = [
        ("unseen rows outside", percent(found.held_out, 2), f"{found.rows:,} rows"),
        ("draws outside", percent(found.model, 2), f"{found.draws:,} draws"),
        ("excess", percent(found.excess, 2), f"{significant(found.z_score, 2)} standard errors"),
    ]
    numbers = table(["what", "share", "of"], rows, numbers=(1,), label=title)
    keys = legend(("data", "unseen rows outside"), ("model", "draws outside"))
    note = paragraph(f"Bars from 0 to {percent(most, 0)}.", kind="note")
    good = False if found.leaks else None if found.held_out > BLIND else True
    body = stacked(lead, keys, bars, note, numbers, paragraph(found.words))
    return Section(title, body, (Verdict(good, found.words),))
