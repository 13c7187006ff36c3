"""Reports: what a fitted model is worth, in numbers and in plain words."""

from concrete_score.report.consistency import Consistency as Consistency
from concrete_score.report.consistency import measure_consistency as measure_consistency
from concrete_score.report.health import RunHealth as RunHealth
from concrete_score.report.health import diagnose_run as diagnose_run
from concrete_score.report.leak import MassLeak as MassLeak
from concrete_score.report.leak import mass_leak as mass_leak
from concrete_score.report.mixing import Mixing as Mixing
from concrete_score.report.mixing import measure_mixing as measure_mixing
