"""Whether the model's ratios belong together, chains mix on it, and its mass stays near the data."""

from concrete_score.diagnostics import RunHealth
from concrete_score.diagnostics.consistency import LARGE
from concrete_score.diagnostics.leak import BLIND
from concrete_score.report.html import (
    Finding,
    Section,
    bar_pair,
    legend,
    missing,
    number,
    paragraph,
    percent,
    side_by_side,
    significant,
    stacked,
    table,
    tag,
)
from concrete_score.report.subject import Missing, Subject


def sampler_section(subject: Subject) -> Section:
    """Consistency of the ratios, and mixing of chains."""
    title = "Sampler health"
    found = subject.health
    if isinstance(found, Missing):
        return missing(title, found.why)
    lead = paragraph(
        "Chains of single changes, started apart, should forget where they began: an R-hat near 1, many effective"
        " draws, moves that are accepted. Where the model has exact draws, chains matter for conditional questions"
        " only.",
        kind="lead",
    )
    messages = [found.consistency.message, *([] if found.mixing is None else [found.mixing.message])]
    messages += [note for note in found.notes if note.startswith("Mixing")]
    facts = table(["fact", "value"], _facts(subject, found), numbers=(1,), label=title)
    body = stacked(lead, side_by_side(facts, stacked(*(paragraph(each) for each in messages))))
    return Section(title, body, _findings(found))


def _facts(subject: Subject, found: RunHealth) -> list[tuple[str, str]]:
    drawn, agreement, chains = subject.draws, found.consistency, found.mixing
    facts = []
    if not isinstance(drawn, Missing):
        facts.append(("draws of this report by", drawn.method))
    if chains is not None:
        total = chains.diagnosis.chains * chains.diagnosis.draws
        facts += [
            ("chains", number(chains.diagnosis.chains)),
            ("kernel", chains.kernel),
            ("moves accepted", percent(chains.diagnosis.acceptance)),
            ("R-hat", number(chains.r_hat, 3)),
            ("effective draws", f"{number(chains.ess, 0)} of {number(total)}"),
        ]
        if chains.exact_z is not None:
            facts.append(("distance to exact draws", f"{number(chains.exact_z, 1, sign=True)} standard errors"))
    named = {"edges": agreement.mean, "paths": agreement.paths, "best fit": agreement.misfit}
    facts += [
        (f"contradiction, {name}", f"{significant(value)} nats") for name, value in named.items() if value is not None
    ]
    return facts or [("numbers", "none")]


def _findings(found: RunHealth) -> tuple[Finding, ...]:
    agreement, chains = found.consistency, found.mixing
    consistent = Finding(agreement.by_construction or agreement.largest <= LARGE, agreement.message)
    if chains is None:
        return (consistent, *(Finding(None, note) for note in found.notes if note.startswith("Mixing")))
    good = chains.mixes and chains.agrees
    return (consistent, Finding(True if good else False if chains.needed else None, chains.message))


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
        return Section(title, section.body, (Finding(None, why),))
    lead = paragraph(
        "The share of the model's draws that are neither a training row nor one change away from one, beside the same"
        " share of unseen rows. The draws of a sound model lie there as often as fresh data do, and no more.",
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
    body = stacked(lead, keys, bars, note, numbers, paragraph(found.message))
    return Section(title, body, (Finding(good, found.message),))
