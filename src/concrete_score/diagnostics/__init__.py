"""Diagnostics: what data allow one to learn, and whether a fitted model can be trusted."""

from concrete_score.diagnostics.consistency import Consistency as Consistency
from concrete_score.diagnostics.consistency import measure_consistency as measure_consistency
from concrete_score.diagnostics.health import RunHealth as RunHealth
from concrete_score.diagnostics.health import diagnose_run as diagnose_run
from concrete_score.diagnostics.leak import MassLeak as MassLeak
from concrete_score.diagnostics.leak import mass_leak as mass_leak
from concrete_score.diagnostics.mixing import Effort as Effort
from concrete_score.diagnostics.mixing import Mixing as Mixing
from concrete_score.diagnostics.mixing import draw_by_chains as draw_by_chains
from concrete_score.diagnostics.mixing import measure_mixing as measure_mixing
from concrete_score.diagnostics.support import RowsDiagnosis as RowsDiagnosis
from concrete_score.diagnostics.support import build_neighborhood as build_neighborhood
from concrete_score.diagnostics.support import diagnose_rows as diagnose_rows
