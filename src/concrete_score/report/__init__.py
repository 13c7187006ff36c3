"""Reports: what a fitted model is worth, in numbers and in plain words."""

from concrete_score.report.consistency import Consistency as Consistency
from concrete_score.report.consistency import measure_consistency as measure_consistency
from concrete_score.report.health import RunHealth as RunHealth
from concrete_score.report.health import diagnose_run as diagnose_run
from concrete_score.report.leak import MassLeak as MassLeak
from concrete_score.report.leak import mass_leak as mass_leak
from concrete_score.report.mixing import Mixing as Mixing
from concrete_score.report.mixing import measure_mixing as measure_mixing
from concrete_score.report.page import render as render
from concrete_score.report.page import write_report as write_report
from concrete_score.report.parts import Section as Section
from concrete_score.report.parts import Verdict as Verdict
from concrete_score.report.subject import Subject as Subject
