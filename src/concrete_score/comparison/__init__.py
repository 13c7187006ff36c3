"""Two tables compared: anybody's synthetic table beside the real one."""

from concrete_score.comparison.compare import PARTS as PARTS
from concrete_score.comparison.compare import Comparison as Comparison
from concrete_score.comparison.compare import compare as compare
from concrete_score.comparison.draws import compare_draws as compare_draws
from concrete_score.comparison.findings import Finding as Finding
from concrete_score.comparison.tables import Tables as Tables
from concrete_score.comparison.tables import align as align
