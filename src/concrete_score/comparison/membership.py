"""Membership inference by likelihood: does the model that made the synthetic table betray which rows it has learned?"""

from statistics import NormalDist
from typing import Any

from concrete_score.comparison.classifier import auc
from concrete_score.comparison.findings import LEVEL, Finding, Part, Task, probability


def membership(task: Task) -> Part:
    """The area under the ROC curve of log-likelihoods of real rows against held-out ones; 0.5 betrays nothing."""
    if task.scores is None:
        return Part({"membership": None}, ())
    real, held = task.scores
    value, stderr = auc(real, held)
    p_value = 1 - NormalDist().cdf((value - 0.5) / stderr) if stderr > 0 else float(value <= 0.5)
    flagged = p_value < LEVEL
    found: dict[str, Any] = {"auc": value, "stderr": stderr, "p_value": p_value, "flagged": flagged}
    found["rows"] = [len(real), len(held)]
    text = (
        f"The model's log-likelihood tells learned rows from held-out ones with AUC {value:.3f} ± {stderr:.3f}:"
        f" {'more than chance' if flagged else 'no more than chance'} ({probability(p_value)}); 0.5 betrays nothing."
    )
    return Part({"membership": found}, (Finding("membership", text, flagged),))
