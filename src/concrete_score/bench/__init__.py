"""Performance as ratios taken in one run, each beside its bound (``csm bench``)."""

from concrete_score.bench.checks import Check as Check
from concrete_score.bench.suite import FIGURES as FIGURES
from concrete_score.bench.suite import chosen as chosen
from concrete_score.bench.suite import take as take
