"""Whether the model's ratios belong together, and whether chains mix on it."""

from concrete_score.report.consistency import LARGE
from concrete_score.report.health import RunHealth
from concrete_score.report.numbers import number, percent, significant
from concrete_score.report.parts import Section, Verdict, missing, paragraph, side_by_side, stacked, table
from concrete_score.report.subject import Missing, Subject


def sampler_section(subject: Subject) -> Section:
    """Consistency and mixing, in numbers and words."""
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
    words = [found.consistency.words, *([] if found.mixing is None else [found.mixing.words])]
    words += [note for note in found.notes if note.startswith("Mixing")]
    facts = table(["fact", "value"], _facts(subject, found), numbers=(1,), label=title)
    body = stacked(lead, side_by_side(facts, stacked(*(paragraph(each) for each in words))))
    return Section(title, body, _verdicts(found))


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


def _verdicts(found: RunHealth) -> tuple[Verdict, ...]:
    agreement, chains = found.consistency, found.mixing
    said = [Verdict(agreement.by_construction or agreement.largest <= LARGE, agreement.words)]
    if chains is None:
        return (*said, *(Verdict(None, note) for note in found.notes if note.startswith("Mixing")))
    good = chains.mixes and chains.agrees
    return (*said, Verdict(True if good else False if chains.needed else None, chains.words))
