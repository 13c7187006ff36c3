"""How probable unseen rows are, beside the two simplest models of them."""

from math import isfinite

from concrete_score.likelihood import LogLikelihood
from concrete_score.report.charts import Interval, interval_chart
from concrete_score.report.comparison import Comparison, Scored
from concrete_score.report.html import Html, tag
from concrete_score.report.numbers import number
from concrete_score.report.parts import Section, Tile, Verdict, paragraph, side_by_side, stacked, table
from concrete_score.report.subject import Missing, Subject

NAMES = {"independent": "independent", "chow_liu": "Chow–Liu tree"}
IN_WORDS = {"independent": "independent columns", "chow_liu": "the Chow–Liu tree"}
CLEAR = 2.0
"""Standard errors from which a difference is one."""
HOW = {
    "exact": "The model is normalized, so its number is exact.",
    "enumeration": "The model was normalized by summing over all its states, so its number is exact.",
    "sandwich": "The model's sum is not known: lower and upper bound its log-likelihood, on average over chains.",
    "ais": "The model's sum is not known: annealed importance sampling bounds its log-likelihood from above, on average"
    " over chains; there is no exact draw of the model, so nothing bounds it from below.",
}


def likelihood_section(subject: Subject) -> Section:
    """Held-out rows under the model, independent columns and a Chow–Liu tree."""
    found = subject.comparison
    what = subject.judged_words
    lead = paragraph(
        f"The mean log-probability of {number(found.rows)} {what}, in nats a row: farther right is better. A model is"
        " worth its name if it lies clearly to the right of independent columns, and of the tree that knows one"
        " dependence a column.",
        kind="lead",
    )
    if subject.held_out is not None:
        lead = stacked(lead, paragraph("The same rows chose the best step of the training.", kind="note"))
    notes = [paragraph(note, kind="note") for note in found.notes]
    if isinstance(found.found, Missing):
        body = stacked(lead, paragraph(found.found.why, kind="missing"), _table(found), notes)
        return Section("Likelihood", body, (Verdict(None, found.found.why),), _tiles(subject, found))
    notes += [paragraph(words, kind="note") for words in _said_of(found.found)]
    body = stacked(lead, side_by_side(_picture(found), _table(found)), notes)
    return Section("Likelihood", body, _verdicts(found), _tiles(subject, found))


def _said_of(found: LogLikelihood) -> list[str]:
    """How the number was found; the RAISE estimate is not shown, so nothing is said of it."""
    return [HOW.get(found.method, ""), *(words for words in found.warnings if not words.startswith("raise"))]


def _tiles(subject: Subject, found: Comparison) -> tuple[Tile, ...]:
    title = "Held-out log-likelihood" if subject.held_out is not None else "Training log-likelihood"
    own = found.found
    if isinstance(own, Missing):
        first = Tile(title, number(None), "not known for this model")
    elif own.log_likelihood is not None:
        first = Tile(title, number(own.log_likelihood), f"nats per row, ± {number(own.stderr)}")
    else:
        low = "" if own.lower is None else f"at least {number(own.lower)}, "
        first = Tile(title, f"≤ {number(own.upper)}", f"{low}nats per row")
    return (first, *(_gain_tile(each) for each in found.baselines))


def _gain_tile(each: Scored) -> Tile:
    short = {"independent": "independent", "chow_liu": "Chow–Liu"}[each.name]
    if each.gain is None:
        return Tile(f"For comparison: {short}", number(each.mean), "nats per row")
    return Tile(f"Gain over {short}", number(each.gain, sign=True), f"nats per row, ± {number(each.gain_stderr)}")


def _picture(found: Comparison) -> Html | None:
    rows = [Interval(NAMES[each.name], each.mean, each.stderr, each.name) for each in found.baselines]
    for name, value, error in _own(found):
        rows.append(Interval(name, value, error, "model"))
    rows = [row for row in rows if isfinite(row.value) and isfinite(row.error)]
    if not rows:
        return None
    words = "; ".join(f"{row.name} {number(row.value)}" for row in rows)
    return interval_chart(rows, x_label="nats per row", title="Log-likelihood by model", words=words)


def _own(found: Comparison) -> list[tuple[str, float, float]]:
    """The run's own numbers: one, or its bounds."""
    own = found.found
    if not isinstance(own, LogLikelihood):
        return []
    if own.log_likelihood is not None:
        return [("this model", own.log_likelihood, own.stderr or 0.0)]
    bounds = (("at least", own.lower), ("at most", own.upper))
    return [(name, value, own.stderr or 0.0) for name, value in bounds if value is not None]


def _table(found: Comparison) -> Html:
    rows: list[list[object]] = [[name, _uncertain(number(value), error), ""] for name, value, error in _own(found)]
    for each in reversed(found.baselines):
        gain = "" if each.gain is None else _uncertain(number(each.gain, sign=True), each.gain_stderr)
        rows.append([NAMES[each.name], _uncertain(number(each.mean), each.stderr), gain])
    return table(["model", "nats per row", "gain over it"], rows, numbers=(1, 2), label="Likelihood")


def _uncertain(value: str, error: float | None) -> Html:
    """A number with its standard error."""
    return stacked(value, " ", tag("small", f"± {number(error)}"))


def _verdicts(found: Comparison) -> tuple[Verdict, ...]:
    own = found.exact
    if own is None or own.log_likelihood is None:
        upper = found.found.upper if isinstance(found.found, LogLikelihood) else None
        words = f"The log-likelihood is only bounded: at most {number(upper)} nats a row."
        below = [IN_WORDS[each.name] for each in found.baselines if upper is not None and upper < each.mean]
        if below:
            return (Verdict(False, f"{words} That is below {' and '.join(below)}."),)
        return (Verdict(None, words),)
    if not isfinite(own.log_likelihood):
        return (Verdict(False, "Some of these rows are impossible under the model, so their mean is minus infinity."),)
    return tuple(_gained(each) for each in found.baselines)


def _gained(each: Scored) -> Verdict:
    name = IN_WORDS[each.name]
    gain, error = each.gain or 0.0, each.gain_stderr or 0.0
    told = f"{number(abs(gain))} ± {number(error)} nats a row"
    if gain > CLEAR * error:
        return Verdict(True, f"Better than {name} by {told}.")
    if gain < -CLEAR * error:
        return Verdict(False, f"Worse than {name} by {told}.")
    return Verdict(None, f"Not clearly different from {name} (by {number(gain, sign=True)} ± {number(error)} nats).")
